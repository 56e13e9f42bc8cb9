"""The cross-fitted model of the reward, and what standard errors know of it."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from abeval.stats import off_policy
from abeval.stats import off_policy as model_based
from abeval.stats.off_policy import Policy, PolicyValue, cross_fit
from abeval.stats.records import Refusal

Floats = NDArray[np.float64]


def small_fit(
    rng: np.random.Generator, n: int = 240
) -> tuple[Floats, Floats, Floats, NDArray[np.int64], NDArray[np.int64], Policy]:
    action, context = rng.integers(0, 5, n), rng.integers(0, 2, n)
    reward = rng.binomial(1, 0.1 + 0.15 * action).astype(float)
    table = np.array([[0.1, 0.1, 0.2, 0.2, 0.4], [0.6, 0.1, 0.1, 0.1, 0.1]])
    contexts, actions = np.indices(table.shape).reshape(2, -1)
    policy = Policy(contexts, actions, table.ravel())
    return reward, np.full(n, 0.2), table[context, action], action, context, policy


def test_cross_fit_never_sees_the_row_it_predicts() -> None:
    reward, _, _, action, context, policy = small_fit(np.random.default_rng(1))
    fold = np.arange(reward.size) % 3
    fit = cross_fit(reward, action, context, fold, policy, prior_rows=4)
    changed = reward.copy()
    changed[fold == 1] = 1 - changed[fold == 1]
    again = cross_fit(changed, action, context, fold, policy, prior_rows=4)
    assert (again.predicted[fold == 1] == fit.predicted[fold == 1]).all()
    assert not (again.predicted[fold == 0] == fit.predicted[fold == 0]).all()
    others = (fold != 2) & (action == 3)
    mean = reward[fold != 2].mean()
    expected = (reward[others].sum() + 4 * mean) / (others.sum() + 4)
    assert fit.q[2, 3] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["dm", "dr", "sndr", "switch", "dros"])
def test_standard_errors_with_refit_are_those_of_the_jackknife(name: str) -> None:
    reward, logging, evaluation, action, context, policy = small_fit(np.random.default_rng(2), 960)
    units, n = np.arange(reward.size) // 2, reward.size
    fold = units % 2

    def value(kept: NDArray[np.bool_]) -> PolicyValue:
        parts = (c[kept] for c in (reward, action, context, fold))
        fit = cross_fit(*parts, policy, prior_rows=5)
        rows = (reward[kept], logging[kept], evaluation[kept], fit.predicted, fit.expected)
        more: dict[str, Any] = {"refit": fit.influence, "clusters": units[kept], "min_ess": 0}
        match name:
            case "dm":
                del more["min_ess"]
                return model_based.direct_method(rows[0], fit.expected, **more)
            case "dr":
                return model_based.doubly_robust(*rows, **more)
            case "sndr":
                return model_based.self_normalised_dr(*rows, **more)
            case "switch":
                return model_based.switch_dr(*rows, 1.5, **more)
        return model_based.shrunk_dr(*rows, 1.0, **more)

    found = value(np.ones(n, dtype=bool))
    left_out = np.array([value(units != unit).value for unit in range(n // 2)])
    jackknife = np.sqrt((left_out.size - 1) * np.var(left_out))
    # Leaving a unit out is a finite step where the influence is a slope.
    assert found.se == pytest.approx(jackknife, rel=0.02)


def test_bad_fits_are_refused() -> None:
    reward, _, _, action, context, policy = small_fit(np.random.default_rng(2), 40)
    fold = np.arange(40) % 2
    half = policy._replace(probability=np.asarray(policy.probability) / 2)
    off = policy._replace(probability=np.asarray(policy.probability) * 1.0 - 0.2)
    for arguments, reason in (
        ((reward, action, context, np.zeros(40, dtype=int), policy), "too_few_units"),
        ((reward, action, context, fold, half), "inconsistent"),
        ((reward, action, context, fold, off), "invalid_propensity"),
        ((reward, action[:-1], context, fold, policy), "inconsistent"),
        ((reward, action - 1, context, fold, policy), "inconsistent"),
        ((reward, action * 1.0, context, fold, policy), "inconsistent"),
        ((reward * np.nan, action, context, fold, policy), "not_finite"),
        (([], [], [], [], policy), "inconsistent"),
    ):
        with pytest.raises(Refusal) as refused:
            cross_fit(*arguments)
        assert refused.value.reason == reason


def test_each_row_moves_the_predictions_of_the_other_folds() -> None:
    reward, _, _, action, context, policy = small_fit(np.random.default_rng(4), 900)
    fold = np.minimum(np.arange(900) // 200, 2)
    fit = cross_fit(reward, action, context, fold, policy, prior_rows=5)
    value = fit.expected.mean()
    influence = fit.expected - value + fit.influence(np.zeros(900))
    some = np.arange(0, 900, 7)
    moved = np.array(
        [
            cross_fit(
                *(np.delete(c, j) for c in (reward, action, context, fold)), policy, prior_rows=5
            ).expected.mean()
            - value
            for j in some
        ]
    )
    slope = -influence[some] / 899
    assert np.corrcoef(moved, slope)[0, 1] > 0.9999
    assert np.abs(moved - slope).max() < 0.03 * np.abs(slope).max()


def test_the_random_denominator_of_sndr_is_in_its_standard_error() -> None:
    # Predictions far off make the correction, and with it the denominator, matter.
    rng = np.random.default_rng(6)
    n = 800
    reward, logging = rng.binomial(1, 0.4, n).astype(float), rng.uniform(0.2, 0.9, n)
    rows = (reward, logging, rng.uniform(0.1, 0.9, n), np.full(n, 0.9), np.full(n, 0.9))
    left_out = [
        model_based.self_normalised_dr(*(np.delete(c, j) for c in rows), min_ess=0).value
        for j in range(n)
    ]
    jackknife = np.sqrt((n - 1) * np.var(left_out))
    found = model_based.self_normalised_dr(*rows)
    assert found.se == pytest.approx(jackknife, rel=0.01)
    # A self-normalised correction by a constant prediction takes all of that prediction out.
    assert found.value == pytest.approx(off_policy.snips(*rows[:3]).value)
    assert found.se == pytest.approx(off_policy.snips(*rows[:3]).se)


def weighted_value(
    weight: Floats, coefficient: Floats, columns: tuple[NDArray[Any], ...], policy: Policy, k: float
) -> float:
    """The corrected mean where every row counts so much in the fit: the slow way."""
    reward, action, context, fold = columns
    values = np.zeros(reward.size)
    for f in np.unique(fold):
        out = fold != f
        mean = weight[out] @ reward[out] / weight[out].sum()
        q = np.full(4, mean)
        for a in range(4):
            rows = out & (action == a)
            if rows.any() or k:
                q[a] = (weight[rows] @ reward[rows] + k * mean) / (weight[rows].sum() + k)
        probability, of = np.asarray(policy.probability), np.asarray(policy.context)
        for i in np.flatnonzero(fold == f):
            here = of == context[i]
            expected = probability[here] @ q[np.asarray(policy.action)[here]]
            values[i] = expected + coefficient[i] * (reward[i] - q[action[i]])
    return float(values.mean())


@pytest.mark.parametrize("prior_rows", [0.0, 0.5, 2.0])
def test_the_influence_is_the_slope_by_the_weight_of_each_row(prior_rows: float) -> None:
    """With an action that one row outside a fold took, and one that none did."""
    action = np.array([0, 0, 1, 2, 0, 0, 1, 1, 0, 2, 2, 1])
    fold = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])
    columns = (np.arange(12.0) % 5, action, fold % 2, fold)
    policy = Policy([0, 0, 0, 1, 1], [0, 1, 3, 2, 0], [0.5, 0.25, 0.25, 0.75, 0.25])
    coefficient = np.linspace(0.2, 1.4, 12)
    fit = cross_fit(*columns, policy, prior_rows=prior_rows)
    ones, step = np.ones(12), 1e-5
    whole = weighted_value(ones, coefficient, columns, policy, prior_rows)
    corrected = fit.expected + coefficient * (columns[0] - fit.predicted)
    assert corrected.mean() == pytest.approx(whole, rel=1e-12)
    slopes = [
        12
        * (
            weighted_value(ones + step * row, coefficient, columns, policy, prior_rows)
            - weighted_value(ones - step * row, coefficient, columns, policy, prior_rows)
        )
        / (2 * step)
        for row in np.eye(12)
    ]
    assert fit.influence(coefficient) == pytest.approx(slopes, abs=1e-6)


def test_actions_of_the_log_and_of_the_policy_may_differ() -> None:
    columns = ([1, 0, 1, 1], [0, 1, 0, 1], [0] * 4, [0, 0, 1, 1])
    more = cross_fit(*columns, Policy([0, 0], [0, 3], [0.5, 0.5]), prior_rows=1)
    assert more.q.shape == (2, 4)
    fewer = cross_fit(*columns, Policy([0, 1], [0, 0], [1.0, 1.0]), prior_rows=1)
    assert fewer.q.shape == (2, 2)
    assert fewer.expected == pytest.approx(fewer.q[[0, 0, 1, 1], 0])
    alone = cross_fit([1, 0], [0, 0], [0, 0], [0, 1], Policy([0], [0], [1.0]))
    assert alone.q.shape == (2, 1)


def test_fifty_rows_of_the_mean_count_beside_an_action() -> None:
    reward, action = np.tile([1.0, 0.0, 0.0, 0.0], 50), np.tile([0, 1, 1, 1], 50)
    fold = np.arange(200) // 100
    fit = cross_fit(reward, action, np.zeros(200, dtype=int), fold, Policy([0], [0], [1.0]))
    assert fit.q[0].tolist() == pytest.approx([(25 + 50 / 4) / 75, (50 / 4) / 125])


@pytest.mark.parametrize(
    ("probability", "reason", "message"),
    [
        ([1.0 + 5e-6 - 0.25, 0.25], "inconsistent", "sums to 1"),
        ([1.5], "invalid_propensity", "not in"),
        ([1.2, -0.2], "invalid_propensity", "not in"),
    ],
)
def test_a_policy_is_a_distribution(probability: list[float], reason: str, message: str) -> None:
    actions = list(range(len(probability)))
    columns = ([1, 0, 1, 1], [0] * 4, [0] * 4, [0, 0, 1, 1])
    with pytest.raises(Refusal, match=message) as refused:
        cross_fit(*columns, Policy([0] * len(actions), actions, probability))
    assert refused.value.reason == reason
    cross_fit(*columns, Policy([0, 0], [0, 1], [0.25, 0.75 + 5e-7]))
    cross_fit(*columns, Policy([0, 0], [0, 1], [0.0, 1.0]))


def test_the_context_that_is_farthest_from_one_is_named() -> None:
    columns = ([1, 0, 1, 1], [0] * 4, [0, 1, 2, 2], [0, 0, 1, 1])
    with pytest.raises(Refusal, match=r"sums to 0\.5"):
        cross_fit(*columns, Policy([0, 1, 1, 2], [0, 0, 1, 0], [1.0, 0.6, 0.6, 0.5]))
    with pytest.raises(Refusal, match=r"sums to 1\.5"):
        cross_fit(*columns, Policy([0, 1, 1, 2], [0, 0, 1, 0], [1.0, 0.75, 0.75, 0.6]))


def test_a_log_without_rows_outside_a_fold_or_without_any_is_refused() -> None:
    policy, none = Policy([0], [0], [1.0]), np.array([], dtype=np.int64)
    for columns, message in (
        (([1, 0], [0, 0], [0, 0], [1, 1]), "two folds"),
        (([], none, none, none), "no rows"),
    ):
        with pytest.raises(Refusal, match=message) as refused:
            cross_fit(*columns, policy)
        assert refused.value.reason == "too_few_units"
