"""Score intervals against exact likelihoods, and at the edges of what rates can be."""

from __future__ import annotations

from fractions import Fraction

import pytest

from abeval.stats import scores

Counts = tuple[int, int, int, int]
Q = 1.959963984540054


def likeliest(x_c: int, n_c: int, x_t: int, n_t: int, difference: Fraction) -> float:
    """The likeliest rate of control, by bisection of the slope of the likelihood in fractions."""
    low, high = max(Fraction(0), -difference), min(Fraction(1), 1 - difference)
    width = high - low

    def slope(p: Fraction) -> Fraction:
        t = p + difference
        return (
            Fraction(x_c) / p
            - Fraction(n_c - x_c) / (1 - p)
            + Fraction(x_t) / t
            - Fraction(n_t - x_t) / (1 - t)
        )

    while high - low > width / 10**30:
        middle = Fraction(round((low + high) / 2 * 2**140), 2**140)
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return float(low)


@pytest.mark.parametrize(
    ("counts", "difference"),
    [
        ((3, 10, 1, 20), 0.25),
        ((3, 10, 1, 20), -0.125),
        ((1, 10**6, 3, 10**6), 1e-9),
        ((1, 10**6, 1, 10**6), 2.0**-30),
        ((2, 10**8, 1, 10**7), -(2.0**-26)),
        ((40, 10**9, 50, 10**9), 2.0**-33),
        ((0, 1000, 7, 900), 2.0**-12),
        ((7, 1000, 0, 900), -(2.0**-12)),
    ],
)
def test_the_likeliest_rate_has_all_its_digits(counts: Counts, difference: float) -> None:
    exact = likeliest(*counts, Fraction(difference))
    assert scores._restricted(*counts, difference) == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize(
    "counts", [(2, 10**9, 5, 10**9), (9, 10, 3, 10), (0, 7, 3, 9), (5, 10, 5, 10), (2, 9, 4, 9)]
)
def test_failures_are_judged_exactly_as_successes(counts: Counts) -> None:
    """The rarer of the two is counted, so that both have the same digits."""
    x_c, n_c, x_t, n_t = counts
    low, high = scores.difference_interval(*counts, Q)
    turned = scores.difference_interval(n_c - x_c, n_c, n_t - x_t, n_t, Q)
    assert turned == (-high, -low) or 2 * (x_c + x_t) == n_c + n_t
    assert turned == pytest.approx((-high, -low), rel=1e-12)


@pytest.mark.parametrize("units", [10, 10**6, 10**9, 10**10])
def test_where_nobody_succeeds_the_end_is_that_of_a_score_test(units: int) -> None:
    """Δ = q·√(Δ(1 − Δ)/n)."""
    low, high = scores.difference_interval(0, units, 0, units, Q)
    assert high == pytest.approx(Q * Q / (units + Q * Q), rel=1e-6)
    assert low == pytest.approx(-high, rel=1e-6)


@pytest.mark.parametrize(("control", "treatment"), [(41, 41), (40, 41), (41, 40), (1, 1)])
def test_opposite_extremes_end_at_one(control: int, treatment: int) -> None:
    low, high = scores.difference_interval(0, control, treatment, treatment, Q)
    assert high == 1.0
    assert -1 < low < 1
    low, high = scores.difference_interval(control, control, 0, treatment, Q)
    assert low == -1.0
    assert -1 < high < 1
