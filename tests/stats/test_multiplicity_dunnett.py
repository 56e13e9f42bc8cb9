"""Several treatments against one control."""

import numpy as np
import pytest
from reference_vectors import vector
from scipy import stats

from abeval.stats import multiplicity
from abeval.stats.records import Refusal


def pooled(
    units: list[int], mean: list[float], variance: list[float]
) -> tuple[list[float], list[float], list[float], int]:
    """Statistics, own p-values and loadings of arms with one variance, control first."""
    df = sum(units) - len(units)
    spread = sum((n - 1) * v for n, v in zip(units, variance, strict=True)) / df
    statistics = [
        (m - mean[0]) / np.sqrt(spread * (1 / n + 1 / units[0]))
        for n, m in zip(units[1:], mean[1:], strict=True)
    ]
    own = [2 * stats.t.sf(abs(t), df) for t in statistics]
    return statistics, own, [np.sqrt(n / (n + units[0])) for n in units[1:]], df


def test_vector_dunnett() -> None:
    v = vector("dunnett")
    arms = [v.inputs["control"], *v.inputs["treatments"]]
    statistics, own, loadings, df = pooled(
        [len(a) for a in arms], [np.mean(a) for a in arms], [np.var(a, ddof=1) for a in arms]
    )
    assert statistics == pytest.approx(v.expected["statistic"], abs=1e-9)
    assert multiplicity.dunnett_p_values(own, loadings, df) == pytest.approx(
        v.expected["p"], abs=v.tol
    )


def test_dunnett_of_one_treatment_is_students_t() -> None:
    rng = np.random.default_rng(3)
    for n_c, n_t, shift in ((5, 4, 1.0), (40, 12, 2.0), (3, 3, 0.0), (900, 100, 0.6)):
        a, b = rng.normal(size=n_c), rng.normal(shift, size=n_t)
        p = stats.ttest_ind(b, a).pvalue
        loading, df = [np.sqrt(n_t / (n_t + n_c))], n_c + n_t - 2
        assert multiplicity.dunnett_p_values([p], loading, df)[0] == pytest.approx(p, rel=1e-7)
        assert multiplicity.dunnett_level(0.05, loading, df) == pytest.approx(0.05, rel=1e-7)


def test_dunnett_interval_and_p_value_agree() -> None:
    _, own, loadings, df = pooled([50, 50, 50, 50], [0.0, 0.40, 0.48, 0.6], [1.0] * 4)
    adjusted = multiplicity.dunnett_p_values(own, loadings, df)
    level = multiplicity.dunnett_level(0.05, loadings, df)
    assert [p < level for p in own] == [p < 0.05 for p in adjusted]
    at_edge = multiplicity.dunnett_level(float(adjusted[1]), loadings, df)
    assert at_edge == pytest.approx(own[1], rel=1e-7)


def test_adjusted_p_values_lie_between_their_own_and_sidaks() -> None:
    p = np.array([0.001, 0.04, 0.3])
    for loading in (0.0, 0.5, 0.7, 0.95):
        adjusted = multiplicity.dunnett_p_values(p, [loading] * 3)
        assert (adjusted >= p).all()
        assert (adjusted <= 1 - (1 - p) ** 3 + 1e-6).all()
    assert multiplicity.dunnett_p_values([0.03], [0.7])[0] == pytest.approx(0.03, rel=1e-6)
    assert multiplicity.dunnett_p_values([1.0, 0.0], [0.7, 0.7]).tolist() == [1.0, 0.0]
    assert multiplicity.dunnett_p_values([1 - 1e-9] * 2, [0.0, 0.0], 100).max() <= 1


def test_without_an_error_of_their_own_treatments_are_hardly_two() -> None:
    adjusted = multiplicity.dunnett_p_values([0.03, 0.2], [1.0, 1.0])
    assert np.all(adjusted >= [0.03, 0.2])
    assert np.all(adjusted < [0.04, 0.23])


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: multiplicity.dunnett_p_values([0.1], [0.5, 0.5]), "not_applicable"),
        (lambda: multiplicity.dunnett_p_values([0.1], [1.5]), "not_applicable"),
        (lambda: multiplicity.dunnett_p_values([0.1], [-0.1]), "not_applicable"),
        (lambda: multiplicity.dunnett_p_values([[0.1]], [[0.5]]), "not_applicable"),
    ],
)
def test_refusals(call, reason) -> None:
    with pytest.raises(Refusal) as refused:
        call()
    assert refused.value.reason == reason
