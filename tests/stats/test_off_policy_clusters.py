"""Off-policy values of units with unlike numbers of rows are ratios of sums over units."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from abeval.stats import means
from abeval.stats.moments import Moments
from abeval.stats.off_policy import PolicyValue
from abeval.stats.records import Estimate, Refusal
from tests.stats.policies import direct, valued

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
    moments = Moments.of(np.bincount(UNIT, numerator), np.bincount(UNIT, denominator))
    return means.estimate_smooth(moments, means.ratio(0, 1))


def same(value: PolicyValue, reference: Estimate) -> None:
    assert value.value == pytest.approx(reference.value, rel=1e-12)
    assert value.se == pytest.approx(np.sqrt(reference.variance), rel=1e-9)
    assert value.method == "clustered_delta_hall"


ESTIMATORS = [
    ("ips", 1.0, WEIGHT * REWARD, ONES),
    ("clipped_ips", 1.25, np.minimum(WEIGHT, 1.25) * REWARD, ONES),
    ("snips", 1.0, WEIGHT * REWARD, WEIGHT),
]


@pytest.mark.parametrize(("name", "option", "numerator", "denominator"), ESTIMATORS)
def test_a_weighted_value_is_a_ratio_of_sums_per_unit(
    name: str, option: float, numerator: Floats, denominator: Floats
) -> None:
    estimator = partial(valued, name, option=option)
    value = estimator(REWARD, LOGGING, EVALUATION, clusters=UNIT, min_ess=0)
    same(value, of_units(numerator, denominator))
    # Without a level it is 5 %, and the least size is that of other estimators.
    again = estimator(REWARD, LOGGING, EVALUATION, clusters=UNIT, alpha=0.05, min_ess=0)
    assert value == again
    wider = estimator(REWARD, LOGGING, EVALUATION, clusters=UNIT, alpha=0.01, min_ess=0)
    assert value.low is not None
    assert wider.low is not None
    assert wider.low < value.low


MODELLED = [
    ("dr", 1.0, WEIGHT),
    ("switch_dr", 1.5, np.where(WEIGHT <= 1.5, WEIGHT, 0.0)),
    ("dros", 2.0, 2.0 * WEIGHT / (WEIGHT**2 + 2.0)),
]


@pytest.mark.parametrize(("name", "option", "coefficient"), MODELLED)
def test_a_corrected_value_is_a_mean_of_sums_per_unit(
    name: str, option: float, coefficient: Floats
) -> None:
    estimator = partial(valued, name, option=option)
    rows = REWARD, LOGGING, EVALUATION, PREDICTED, EXPECTED
    value = estimator(*rows, clusters=UNIT, min_ess=0)
    same(value, of_units(EXPECTED + coefficient * (REWARD - PREDICTED), ONES))
    assert value == estimator(*rows, clusters=UNIT, alpha=0.05, min_ess=0)


def test_a_direct_value_with_fixed_predictions_is_a_mean_of_sums_per_unit() -> None:
    value = direct(REWARD, EXPECTED, refit=np.zeros_like, clusters=UNIT)
    same(value, of_units(EXPECTED, ONES))
    assert value == direct(REWARD, EXPECTED, refit=np.zeros_like, clusters=UNIT, alpha=0.05)
    # What moves the predictions in step with the rows makes the value less certain.
    apart = EXPECTED - EXPECTED.mean()
    moved = direct(REWARD, EXPECTED, refit=lambda _: apart, clusters=UNIT)
    assert moved.se == pytest.approx(2 * of_units(EXPECTED, ONES).variance ** 0.5, rel=0.05)


def test_a_weight_at_the_threshold_is_still_corrected() -> None:
    rows = np.tile([1.0, 0.0], 100), np.full(200, 0.5), np.full(200, 0.5)
    value = valued("switch_dr", *rows, np.full(200, 0.2), np.full(200, 0.3))
    assert value.value == pytest.approx(0.3 + 0.5 - 0.2)


def test_a_self_normalised_correction_has_the_level_that_it_is_asked_for() -> None:
    rows = REWARD, LOGGING, EVALUATION, PREDICTED, EXPECTED
    value = valued("sndr", *rows, clusters=UNIT, min_ess=0)
    assert value == valued("sndr", *rows, clusters=UNIT, alpha=0.05, min_ess=0)
    assert value.value == pytest.approx(
        EXPECTED.mean() + np.sum(WEIGHT * (REWARD - PREDICTED)) / WEIGHT.sum()
    )


@pytest.mark.parametrize(("apart", "is_uniform"), [(3e-10, True), (3e-9, False)])
def test_replay_needs_a_log_that_is_uniform_but_for_rounding(
    apart: float, is_uniform: bool
) -> None:
    logging = np.where(np.arange(ROWS) % 2, 0.25, 0.25 * (1 + apart))
    if not is_uniform:
        with pytest.raises(Refusal, match="one probability"):
            valued("replay", REWARD, logging, EVALUATION, min_ess=0)
        return
    found = valued("replay", REWARD, logging, EVALUATION, clusters=UNIT, min_ess=0)
    same(found, of_units(EVALUATION * REWARD, EVALUATION))


def test_an_empty_log_has_no_rows() -> None:
    with pytest.raises(Refusal, match="no rows"):
        valued("replay", [], [], [])


@pytest.mark.parametrize("place", [3, 4])
def test_a_prediction_that_is_not_a_number_is_named(place: int) -> None:
    rows = [REWARD, LOGGING, EVALUATION, PREDICTED, EXPECTED]
    rows[place] = np.where(np.arange(ROWS) == 7, np.inf, rows[place])
    with pytest.raises(Refusal, match="missing prediction") as refused:
        valued("dr", *rows, min_ess=0)
    assert refused.value.reason == "not_finite"
