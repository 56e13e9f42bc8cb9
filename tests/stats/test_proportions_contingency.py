import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from reference_vectors import quick
from scipy import stats

from abeval.stats import proportions
from abeval.stats.proportions import Count
from abeval.stats.records import Refusal


@st.composite
def counts(draw: st.DrawFn) -> Count:
    n = draw(st.integers(1, 300))
    return Count(draw(st.integers(0, n)), n)


@quick
@given(counts(), counts())
def test_half_of_the_table_at_hand_counts_in_either_tail(c: Count, t: Count) -> None:
    law = stats.hypergeom(c.units + t.units, c.successes + t.successes, t.units)
    half = law.pmf(t.successes) / 2
    smaller = min(law.cdf(t.successes) - half, law.sf(t.successes - 1) - half)
    found = proportions.fisher(*c, *t)
    assert found == pytest.approx(min(1.0, 2 * smaller), rel=1e-8)


@pytest.mark.parametrize(
    "table", [(3, 40, 11, 41), (293, 11_298, 5, 464), (20, 1000, 0, 1000), (0, 9, 4, 9)]
)
def test_the_ends_of_the_odds_ratio_have_half_of_alpha_beyond_them(
    table: tuple[int, int, int, int],
) -> None:
    x_c, n_c, x_t, n_t = table
    low, high = proportions.estimate_odds_ratio(*table)
    for odds, side in ((low, -1), (high, 1)):
        if odds in (0.0, math.inf):
            continue
        law = stats.nchypergeom_fisher(n_c + n_t, x_c + x_t, n_t, odds)
        beyond = law.sf(x_t - 1) if side < 0 else law.cdf(x_t)
        assert beyond - law.pmf(x_t) / 2 == pytest.approx(0.025, rel=1e-6)


@quick
@given(counts(), counts(), st.floats(0.001, 0.3))
def test_test_and_intervals_never_disagree(c: Count, t: Count, alpha: float) -> None:
    assume(0 < c.successes + t.successes < c.units + t.units)
    effect = proportions.exact(c, t, alpha)
    assume(abs(effect.p_value - alpha) > 1e-9)
    rejected = not effect.low <= 0 <= effect.high
    assert rejected == (effect.p_value < alpha)
    assert -1 <= effect.low <= effect.difference <= effect.high <= 1
    if c.successes:
        lift = proportions.exact_lift(c, t, alpha)
        assert lift.low <= lift.value * (1 + 1e-9) + 1e-9
        assert lift.value <= lift.high * (1 + 1e-9) + 1e-9
        assert (lift.low > 0 or lift.high < 0) == rejected


@quick
@given(counts(), counts())
def test_counting_failures_turns_the_difference_round(c: Count, t: Count) -> None:
    assume(0 < c.successes + t.successes < c.units + t.units)
    effect = proportions.exact(c, t)
    failed = proportions.exact(*(Count(k.units - k.successes, k.units) for k in (c, t)))
    assert failed.p_value == pytest.approx(effect.p_value, rel=1e-7)
    assert (-failed.high, -failed.low) == pytest.approx((effect.low, effect.high), abs=1e-7)


def test_an_arm_without_successes_has_an_honest_lift() -> None:
    lift = proportions.exact_lift(Count(20, 1000), Count(0, 1000))
    assert (lift.value, lift.low) == (-1, -1)
    # The upper end where successes are rare: half of (1 − share)^20 is .025.
    share = 1 - 0.05 ** (1 / 20)
    assert lift.high == pytest.approx(share / (1 - share) - 1, abs=0.005)
    with pytest.raises(Refusal) as refusal:
        proportions.exact_lift(Count(0, 1000), Count(20, 1000))
    assert refusal.value.reason == "control_near_zero"
    effect = proportions.exact(Count(0, 1000), Count(3, 1000))
    assert effect.high == pytest.approx(stats.beta.ppf(0.975, 4, 1997) * 2, rel=0.01)


def test_a_strong_association_has_a_p_value_of_zero() -> None:
    assert proportions.fisher(10, 100_000, 5000, 100_000) == 0


def test_degenerate_tables() -> None:
    for x in (0, 9):
        assert proportions.fisher(x, 9, x, 9) == 1
        assert proportions.estimate_odds_ratio(x, 9, x, 9) == (0, math.inf)
        with pytest.raises(Refusal) as refusal:
            proportions.exact(Count(x, 9), Count(x, 9))
        assert refusal.value.reason == "zero_variance"
    with pytest.raises(Refusal) as refusal:
        proportions.exact(Count(0, 0), Count(1, 9))
    assert refusal.value.reason == "too_few_units"
    assert proportions.exact(Count(2, 5), Count(2, 5)).p_value == 1
    apart = proportions.exact(Count(0, 50), Count(50, 50))
    assert (apart.difference, apart.high) == (1, 1)
    assert apart.low > 0.8


def test_the_interval_of_one_share_agrees_with_statsmodels() -> None:
    from statsmodels.stats.proportion import proportion_confint

    for x, n in ((0, 40), (3, 40), (40, 40)):
        theirs = proportion_confint(x, n, 0.1, "beta")
        assert proportions.clopper_pearson(x, n, 0.1) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize(
    "table",
    [
        (12, 80, 31, 90),
        (2, 1000, 30, 1000),
        (30, 900, 2, 1000),
        (3, 40, 11, 41),
        (20, 500, 28, 600),
    ],
)
def test_an_interval_reaches_as_far_as_both_errors_together(
    table: tuple[int, int, int, int],
) -> None:
    """The farthest effect on the ellipse around the estimate, here searched for."""
    x_c, n_c, x_t, n_t = table

    def difference(odds: float, successes: float) -> float:
        low, high = max(0.0, successes - n_t) / n_c, min(1.0, successes / n_c)
        for _ in range(100):
            control = (low + high) / 2
            treatment = (successes - n_c * control) / n_t
            if treatment * (1 - control) > odds * control * (1 - treatment):
                low = control
            else:
                high = control
        return treatment - control

    total, units = x_c + x_t, n_c + n_t
    totals = [units * end for end in proportions.clopper_pearson(total, units)]
    angles = np.linspace(0, np.pi / 2, 20_001)
    estimate = x_t / n_t - x_c / n_c
    ends = []
    for side, odds in zip((-1, 1), proportions.estimate_odds_ratio(*table), strict=True):
        end, *others = (difference(odds, one) for one in (total, *totals))
        farther = max if side * end > 0 else min
        factor = farther(1.0, *(one / end for one in others))
        path = (estimate + np.cos(angles) * (end - estimate)) * factor ** np.sin(angles)
        ends.append(side * (side * path).max())
    interval = proportions.compute_exact_interval(*table, lambda c, t: t - c)
    assert tuple(interval) == pytest.approx(ends, abs=2e-5)


def test_an_end_without_a_size_stays_as_it_is() -> None:
    nothing = proportions.compute_exact_interval(3, 40, 11, 41, lambda _c, _t: 0.0)
    assert nothing == (0, 0)
    endless = proportions.compute_exact_interval(
        3, 40, 11, 41, lambda c, t: math.copysign(math.inf, t - c)
    )
    assert endless.high == math.inf


def test_everything_that_succeeds_is_on_one_side() -> None:
    low, high = proportions.estimate_odds_ratio(0, 5, 5, 5)
    assert stats.nchypergeom_fisher(10, 5, 5, low).pmf(5) / 2 == pytest.approx(0.025)
    assert high == math.inf
    assert proportions.estimate_odds_ratio(5, 5, 0, 5) == pytest.approx((0.0, 1 / low))


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_the_level_of_an_odds_ratio_is_a_probability(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        proportions.estimate_odds_ratio(3, 40, 11, 41, alpha)
