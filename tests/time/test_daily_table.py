"""Windows of the daily table, against the units themselves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abeval.stats.moments import Moments
from tests.worlds.days import Arm, metric_days


def units(seed, n=60, days=6):
    rng = np.random.default_rng(seed)
    cohort = rng.integers(0, days, n)
    age = np.arange(days) - cohort[:, None]
    active = (age == 0) | ((age > 0) & (rng.random((n, days)) < 0.4))
    x = np.where(active, rng.poisson(4, (n, days)), 0)
    return Arm(cohort, active, rng.binomial(x, 0.3), x)


def summed(arm, per_unit=False, by_age=False, observed=None):
    of = metric_days({"a": arm}, per_unit, observed)
    return of.sum_days(since_entry=True) if by_age else of.sum_days()


def same(window, y, x):
    """Whether the moments of a window are those of the units."""
    units = Moments.of(y, x)
    return (
        window.n == units.n
        and np.allclose(window.mean, units.mean, rtol=1e-12, atol=1e-15)
        and np.allclose(window.comoment, units.comoment, rtol=1e-10, atol=1e-10)
    )


def window(sums, among, span, entered=False):
    """Moments of the only window that is asked for."""
    (found,) = sums.sum_windows("a", among, span[1], [(span[0], entered)])
    return found


spans = st.tuples(st.integers(0, 5), st.integers(0, 5)).map(lambda p: (min(p), max(p)))
cohorts = st.tuples(st.integers(0, 5), st.integers(0, 5)).map(lambda p: (min(p), max(p)))


@given(seed=st.integers(0, 10_000), span=spans, among=cohorts)
@settings(deadline=None, max_examples=60)
def test_windows_of_a_ratio_and_of_a_mean(seed, span, among):
    arm = units(seed)
    days = slice(span[0], span[1] + 1)
    everybody = (arm.cohort >= among[0]) & (arm.cohort <= among[1])
    rows = everybody & arm.active[:, days].any(axis=1)
    chosen = range(among[0], among[1] + 1)
    y, x = (v[:, days].sum(axis=1) for v in (arm.y, arm.x))
    assert same(window(summed(arm), chosen, span), y[rows], x[rows])
    mean = summed(arm, per_unit=True)
    assert same(window(mean, chosen, span), y[rows], np.ones(rows.sum()))
    entered = window(mean, chosen, span, entered=True)
    assert same(entered, y[everybody], np.ones(everybody.sum()))


@given(seed=st.integers(0, 10_000), span=spans, observed=st.integers(1, 6))
@settings(deadline=None, max_examples=40)
def test_days_since_entry(seed, span, observed):
    arm = units(seed)
    moved = [np.zeros_like(v) for v in (arm.active, arm.y, arm.x)]
    for made, values in zip(moved, (arm.active, arm.y, arm.x), strict=True):
        for i, c in enumerate(arm.cohort):
            made[i, : max(0, observed - c)] = values[i, c:observed]
    span = (min(span[0], observed - 1), min(span[1], observed - 1))
    days = slice(span[0], span[1] + 1)
    rows = moved[0][:, days].any(axis=1)
    found = window(summed(arm, by_age=True, observed=observed), range(6), span)
    assert same(found, moved[1][rows][:, days].sum(axis=1), moved[2][rows][:, days].sum(axis=1))


def test_no_cohort_has_no_units():
    assert window(summed(units(1)), (), (0, 5), entered=True).n == 0


def test_all_days_at_once_with_their_covariance():
    arm = units(7)
    kept = arm.cohort >= 1
    found = summed(arm).sum_each_day("a", range(1, 6), [1, 3, 4])
    expected = Moments.of(*arm.y[kept][:, [1, 3, 4]].T, *arm.x[kept][:, [1, 3, 4]].T)
    np.testing.assert_allclose(found.comoment, expected.comoment, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("size", [1, 2**20, 3 * 2**30, 2**52])
def test_sums_beyond_64_bits_stay_exact(size):
    """Values of any sign, whose squares need one part or several."""
    arm = units(9)
    y = (arm.y - 1) * arm.active * size + arm.active
    found = window(summed(arm._replace(y=y)), range(6), (1, 4))
    rows = arm.active[:, 1:5].any(axis=1)
    totals = [
        (int(a), int(b)) for a, b in zip(y[rows, 1:5].sum(1), arm.x[rows, 1:5].sum(1), strict=True)
    ]
    n, sums = len(totals), [sum(pair[i] for pair in totals) for i in (0, 1)]
    products = [[sum(pair[i] * pair[j] for pair in totals) for j in (0, 1)] for i in (0, 1)]
    expected = Moments.from_sums(n, sums, products, (1.0, 1.0))
    assert found.mean.tolist() == expected.mean.tolist()
    assert found.comoment.tolist() == expected.comoment.tolist()


def test_windows_that_end_together_are_those_taken_alone():
    sums = summed(units(3))
    starts = [(4, False), (0, True), (2, False)]
    together = sums.sum_windows("a", range(6), 4, starts)
    for (first, entered), moments in zip(starts, together, strict=True):
        alone = window(sums, range(6), (first, 4), entered)
        assert moments.n == alone.n
        assert moments.mean.tolist() == alone.mean.tolist()
        assert moments.comoment.tolist() == alone.comoment.tolist()
    assert together[1].n > together[0].n
