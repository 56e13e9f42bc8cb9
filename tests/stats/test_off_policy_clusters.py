"""Off-policy values of units with unlike numbers of rows are ratios of sums over units."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from abeval.stats import off_policy
from abeval.stats import off_policy as model_based
from abeval.stats.moments import Moments
from abeval.stats.off_policy import PolicyValue
from abeval.stats.records import Estimate, Refusal

Floats = NDArray[np.float64]

UNIT = np.repeat(np.arange(60), np.random.default_rng(1).geometric(0.3, 60))
RANDOM = np.random.default_rng(2)
ROWS = UNIT.size
REWARD = RANDOM.binomial(1, 0.3, ROWS) * 2.5
LOGGING, EVALUATION = RANDOM.uniform(0.2, 0.9, ROWS), RANDOM.uniform(0.1, 0.9, ROWS)
WEIGHT = EVALUATION / LOGGING
PREDICTED, EXPECTED = RANDOM.uniform(0.2, 1.2, ROWS), RANDOM.uniform(0.3, 0.9, ROWS)
ONES = np.ones(ROWS)


def of_units(numerator: Floats, denominator: Floats) -> Estimate:
    """The ratio of sums with its variance between units."""
    return off_policy.estimate(
        Moments.of(np.bincount(UNIT, numerator), np.bincount(UNIT, denominator))
    )


def same(value: PolicyValue, reference: Estimate) -> None:
    assert value.value == pytest.approx(reference.value, rel=1e-12)
    assert value.se == pytest.approx(np.sqrt(reference.variance), rel=1e-9)
    assert value.method == "clustered_delta_hall"


ESTIMATORS: list[tuple[Callable[..., PolicyValue], Floats, Floats]] = [
    (off_policy.ips, WEIGHT * REWARD, ONES),
    (
        lambda *rows, **more: off_policy.clipped_ips(*rows, 1.25, **more),
        np.minimum(WEIGHT, 1.25) * REWARD,
        ONES,
    ),
    (off_policy.snips, WEIGHT * REWARD, WEIGHT),
    (
        lambda *rows, **more: off_policy.expected_replay(*rows, any_logging=True, **more),
        EVALUATION * REWARD,
        EVALUATION,
    ),
]


@pytest.mark.parametrize(("estimator", "numerator", "denominator"), ESTIMATORS)
def test_a_weighted_value_is_a_ratio_of_sums_per_unit(
    estimator: Callable[..., PolicyValue], numerator: Floats, denominator: Floats
) -> None:
    value = estimator(REWARD, LOGGING, EVALUATION, clusters=UNIT, min_ess=0)
    same(value, of_units(numerator, denominator))
    # Without a level it is 5 %, and the least size is that of other estimators.
    again = estimator(REWARD, LOGGING, EVALUATION, clusters=UNIT, alpha=0.05, min_ess=0)
    assert value == again
    wider = estimator(REWARD, LOGGING, EVALUATION, clusters=UNIT, alpha=0.01, min_ess=0)
    assert value.low is not None
    assert wider.low is not None
    assert wider.low < value.low


MODELLED: list[tuple[Callable[..., PolicyValue], Floats]] = [
    (model_based.doubly_robust, WEIGHT),
    (
        lambda *rows, **more: model_based.switch_dr(*rows, 1.5, **more),
        np.where(WEIGHT <= 1.5, WEIGHT, 0.0),
    ),
    (
        lambda *rows, **more: model_based.shrunk_dr(*rows, 2.0, **more),
        2.0 * WEIGHT / (WEIGHT**2 + 2.0),
    ),
]


@pytest.mark.parametrize(("estimator", "coefficient"), MODELLED)
def test_a_corrected_value_is_a_mean_of_sums_per_unit(
    estimator: Callable[..., PolicyValue], coefficient: Floats
) -> None:
    rows = REWARD, LOGGING, EVALUATION, PREDICTED, EXPECTED
    value = estimator(*rows, clusters=UNIT, min_ess=0)
    same(value, of_units(EXPECTED + coefficient * (REWARD - PREDICTED), ONES))
    assert value == estimator(*rows, clusters=UNIT, alpha=0.05, min_ess=0)


def test_a_direct_value_with_fixed_predictions_is_a_mean_of_sums_per_unit() -> None:
    value = model_based.direct_method(REWARD, EXPECTED, refit=np.zeros_like, clusters=UNIT)
    same(value, of_units(EXPECTED, ONES))
    assert value == model_based.direct_method(
        REWARD, EXPECTED, refit=np.zeros_like, clusters=UNIT, alpha=0.05
    )
    # What moves the predictions in step with the rows makes the value less certain.
    apart = EXPECTED - EXPECTED.mean()
    moved = model_based.direct_method(REWARD, EXPECTED, refit=lambda _: apart, clusters=UNIT)
    assert moved.se == pytest.approx(2 * of_units(EXPECTED, ONES).variance ** 0.5, rel=0.05)


def test_a_weight_at_the_threshold_is_still_corrected() -> None:
    rows = np.tile([1.0, 0.0], 100), np.full(200, 0.5), np.full(200, 0.5)
    value = model_based.switch_dr(*rows, np.full(200, 0.2), np.full(200, 0.3), 1.0)
    assert value.value == pytest.approx(0.3 + 0.5 - 0.2)


def test_a_self_normalised_correction_has_the_level_that_it_is_asked_for() -> None:
    rows = REWARD, LOGGING, EVALUATION, PREDICTED, EXPECTED
    value = model_based.self_normalised_dr(*rows, clusters=UNIT, min_ess=0)
    assert value == model_based.self_normalised_dr(*rows, clusters=UNIT, alpha=0.05, min_ess=0)
    assert value.value == pytest.approx(
        EXPECTED.mean() + np.sum(WEIGHT * (REWARD - PREDICTED)) / WEIGHT.sum()
    )


class TestReplay:
    LOGGED = np.full(ROWS, 0.25)
    MATCHED = RANDOM.random(ROWS) < 0.6

    def test_of_independent_clicks_is_wilsons(self) -> None:
        clicks, matched = (REWARD > 0).astype(float), self.MATCHED.astype(float)
        value = off_policy.replay(clicks, self.LOGGED, matched, min_ess=0)
        assert value.method == "wilson"
        rows = off_policy.estimate(Moments.of(matched * clicks, matched))
        assert value.value == pytest.approx(rows.value)
        assert value.se == pytest.approx(np.sqrt(rows.variance), rel=1e-9)
        assert value == off_policy.replay(clicks, self.LOGGED, matched, min_ess=0, alpha=0.05)

    def test_of_amounts_or_of_units_is_a_ratio(self) -> None:
        clicks, matched = (REWARD > 0).astype(float), self.MATCHED.astype(float)
        of_clicks = off_policy.replay(clicks, self.LOGGED, matched, clusters=UNIT, min_ess=0)
        same(of_clicks, of_units(matched * clicks, matched))
        amounts = off_policy.replay(REWARD, self.LOGGED, matched, min_ess=0)
        rows = off_policy.estimate(Moments.of(matched * REWARD, matched))
        assert (amounts.value, amounts.method) == (pytest.approx(rows.value), "delta_hall")
        assert amounts.se == pytest.approx(np.sqrt(rows.variance), rel=1e-9)
        in_part = off_policy.replay(clicks, self.LOGGED, matched * 0.5, min_ess=0)
        assert in_part.method == "delta_hall"

    @pytest.mark.parametrize(("apart", "is_uniform"), [(3e-10, True), (3e-9, False)])
    def test_a_log_is_uniform_but_for_rounding(self, apart: float, is_uniform: bool) -> None:
        logging = np.where(np.arange(ROWS) % 2, 0.25, 0.25 * (1 + apart))
        for call in (
            lambda: off_policy.replay(REWARD, logging, self.MATCHED, min_ess=0),
            lambda: off_policy.expected_replay(REWARD, logging, EVALUATION, min_ess=0),
        ):
            if is_uniform:
                assert call().value > 0
                continue
            with pytest.raises(Refusal, match="one probability"):
                call()

    def test_an_empty_log_has_no_rows(self) -> None:
        with pytest.raises(Refusal, match="no rows"):
            off_policy.expected_replay([], [], [])


@pytest.mark.parametrize("place", [3, 4])
def test_a_prediction_that_is_not_a_number_is_named(place: int) -> None:
    rows = [REWARD, LOGGING, EVALUATION, PREDICTED, EXPECTED]
    rows[place] = np.where(np.arange(ROWS) == 7, np.inf, rows[place])
    with pytest.raises(Refusal, match="missing prediction") as refused:
        model_based.doubly_robust(*rows, min_ess=0)
    assert refused.value.reason == "not_finite"
