"""Windows from sums by cohort and pairs of days, against the units themselves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abeval.stats.moments import Moments
from abeval.time.day_sums import Activity, DaySums


def units(seed, n=60, days=6):
    rng = np.random.default_rng(seed)
    cohort = rng.integers(0, days, n)
    age = np.arange(days) - cohort[:, None]
    active = (age == 0) | ((age > 0) & (rng.random((n, days)) < 0.4))
    x = np.where(active, rng.poisson(4, (n, days)), 0)
    return cohort, active, rng.binomial(x, 0.3), x


def same(found, y, x):
    expected = Moments.of(y, x)
    assert found.n == expected.n
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found.comoment, expected.comoment, rtol=1e-10, atol=1e-10)


spans = st.tuples(st.integers(0, 5), st.integers(0, 5)).map(lambda p: (min(p), max(p)))


@given(seed=st.integers(0, 10_000), span=spans, last=st.integers(0, 5))
@settings(deadline=None, max_examples=60)
def test_windows_of_a_ratio_and_of_a_mean(seed, span, last):
    cohort, active, y, x = units(seed)
    days = slice(span[0], span[1] + 1)
    rows = (cohort <= last) & active[:, days].any(axis=1)
    chosen = range(last + 1)
    ratio = DaySums.of(cohort, active, y, x)
    same(ratio.window(chosen, span), y[rows][:, days].sum(axis=1), x[rows][:, days].sum(axis=1))
    mean = DaySums(
        ratio.activity, y=ratio.y, x=ratio.x, yy=ratio.yy, yx=ratio.yx, xx=ratio.xx, per_unit=True
    )
    same(mean.window(chosen, span), y[rows][:, days].sum(axis=1), np.ones(rows.sum()))
    everybody = cohort <= last
    found = mean.window(chosen, span, entered=True)
    same(found, y[everybody][:, days].sum(axis=1), np.ones(everybody.sum()))


@given(seed=st.integers(0, 10_000), span=spans)
@settings(deadline=None, max_examples=40)
def test_days_since_entry(seed, span):
    cohort, active, y, x = units(seed)
    moved = [np.zeros_like(v) for v in (active, y, x)]
    for made, values in zip(moved, (active, y, x), strict=True):
        for i, c in enumerate(cohort):
            made[i, : 6 - c] = values[i, c:]
    rows = moved[0][:, span[0] : span[1] + 1].any(axis=1)
    found = DaySums.of(cohort, active, y, x).by_age().window(range(6), span)
    days = slice(span[0], span[1] + 1)
    same(found, moved[1][rows][:, days].sum(axis=1), moved[2][rows][:, days].sum(axis=1))


def test_all_days_at_once_with_their_covariance():
    cohort, active, y, x = units(7)
    found = DaySums.of(cohort, active, y, x).by_day(range(6), [1, 3, 4])
    expected = Moments.of(*y[:, [1, 3, 4]].T, *x[:, [1, 3, 4]].T)
    np.testing.assert_allclose(found.comoment, expected.comoment, rtol=1e-10, atol=1e-10)


def test_first_days_alone():
    cohort, active, y, x = units(8)
    kept = cohort < 4
    cut = DaySums.of(cohort, active, y, x).upto(4)
    same(cut.window(range(4), (0, 3), entered=True), y[kept, :4].sum(1), x[kept, :4].sum(1))


def test_sums_beyond_64_bits_stay_exact():
    big = 4 * 10**9
    y = np.array([[big], [big + 1]], dtype=object)
    one = np.ones((2, 1, 1), dtype=object)
    there = Activity.of([0, 0], [[True], [True]])
    yy = np.array([[[int(sum(v * v for v in y[:, 0]))]]], dtype=object)
    total = np.array([[int(y.sum())]], dtype=object)
    sums = DaySums(
        there, total, 2 * one[:1, 0], yy, np.array([[[int(y.sum())]]]), 2 * one[:1], per_unit=True
    )
    assert sums.window([0], (0, 0)).covariance[0, 0] == pytest.approx(0.5, rel=1e-12)
