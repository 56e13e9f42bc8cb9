"""A segment against all other units, of differences and of lifts."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from abeval.stats import effects, means
from abeval.stats.heterogeneity import Pair, against_rest, log_contrast, with_rest
from abeval.stats.moments import Moments
from abeval.stats.records import Estimate, Refusal

INSIDE = Estimate(2.0, 0.02, 50, 49), Estimate(3.0, 0.03, 50, 49)
OUTSIDE = Estimate(5.0, 0.05, 90, 89), Estimate(4.0, 0.07, 90, 89)


def test_the_contrast_of_differences_is_a_z_test() -> None:
    segment = effects.from_difference(1.0, 1.3, 0.3, 0.10, df=7)
    rest = effects.from_difference(2.0, 2.1, 0.1, 0.05, df=9)
    contrast = against_rest(segment, rest)
    law = stats.norm(0.2, math.hypot(0.10, 0.05))
    assert (contrast.control, contrast.treatment) == (0.1, 0.3)
    assert (contrast.low, contrast.high) == pytest.approx(law.interval(0.95))
    assert contrast.p_value == pytest.approx(2 * law.cdf(0))
    assert against_rest(segment, rest, 0.2).low == pytest.approx(law.ppf(0.1))


def test_the_contrast_of_lifts_is_a_z_test_of_logarithms() -> None:
    contrast = log_contrast(INSIDE, OUTSIDE, 0.1)
    assert contrast is not None
    inside, outside = math.log(3 / 2), math.log(4 / 5)
    law = stats.norm(inside - outside, math.sqrt(0.02 / 4 + 0.03 / 9 + 0.05 / 25 + 0.07 / 16))
    assert (contrast.control, contrast.treatment) == pytest.approx((outside, inside))
    assert (contrast.difference, contrast.se) == pytest.approx((law.mean(), law.std()))
    assert (contrast.low, contrast.high) == pytest.approx(law.interval(0.9))
    assert contrast.p_value == pytest.approx(2 * law.cdf(0))


def changed(pair: Pair, side: int, value: float) -> Pair:
    control, treatment = (
        one._replace(value=value) if i == side else one for i, one in enumerate(pair)
    )
    return control, treatment


@pytest.mark.parametrize("value", [0.0, -1.0])
@pytest.mark.parametrize("side", [0, 1])
def test_a_value_that_is_not_positive_has_no_contrast_of_lifts(side: int, value: float) -> None:
    assert log_contrast(changed(INSIDE, side, value), OUTSIDE, 0.05) is None
    assert log_contrast(INSIDE, changed(OUTSIDE, side, value), 0.05) is None
    # A small positive one has.
    assert log_contrast(changed(INSIDE, side, 0.01), OUTSIDE, 0.05) is not None


def test_values_that_do_not_vary_have_no_contrast_of_lifts() -> None:
    fixed = tuple(tuple(one._replace(variance=0.0) for one in pair) for pair in (INSIDE, OUTSIDE))
    assert log_contrast(*fixed, 0.05) is None  # type: ignore[arg-type]
    assert log_contrast(INSIDE, fixed[1], 0.05) is not None  # type: ignore[arg-type]


def test_the_rest_of_a_segment_is_every_other_segment() -> None:
    values = [[1.0, 2.0], [4.0, 5.0, 9.0], [3.0, 8.0], [7.0, 7.5]]
    segments = [Moments.of(one) for one in values]
    doubled = [Moments.of([2 * v for v in one]) for one in values]
    pairs = list(with_rest(segments, doubled, means.estimate, None))
    for i, ((_, inside), (control, treatment)) in enumerate(pairs):
        rest = [v for j, one in enumerate(values) if j != i for v in one]
        assert inside.value == pytest.approx(2 * sum(values[i]) / len(values[i]))
        assert control == pytest.approx(means.estimate(Moments.of(rest)))
        assert treatment.value == pytest.approx(2 * sum(rest) / len(rest))


def test_the_rest_may_be_more_than_the_other_segments() -> None:
    one, other = Moments.of([1.0, 2.0, 4.0]), Moments.of([5.0, 9.0, 9.5])
    pairs = list(with_rest([one] * 2, [other] * 2, means.estimate, [(other, one), (one, other)]))
    assert [rest[0].value for _, rest in pairs] == [means.estimate(m).value for m in (other, one)]
    assert [rest[1].value for _, rest in pairs] == [means.estimate(m).value for m in (one, other)]


@pytest.mark.parametrize(("control", "treatment"), [(1, 1), (2, 3), (3, 2)])
def test_segments_that_do_not_pair_up_are_refused(control: int, treatment: int) -> None:
    one = Moments.of([1.0, 2.0, 4.0])
    with pytest.raises(Refusal) as refused:
        list(with_rest([one] * control, [one] * treatment, means.estimate, None))
    assert refused.value.reason == "too_few_units"
