import math
from fractions import Fraction
from itertools import combinations_with_replacement as cwr

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference_vectors import quick, small, vector

from abeval.stats.moments import Moments
from abeval.stats.records import Refusal

values = st.floats(-1e6, 1e6, allow_subnormal=False)
columns = st.integers(2, 30).flatmap(lambda n: arrays(np.float64, (3, n), elements=values))
Ints = np.ndarray[tuple[int, int], np.dtype[np.int64]]
whole = st.integers(2, 30).flatmap(
    lambda n: arrays(np.int64, (2, n), elements=st.integers(-(10**6), 10**6))
)


def close(a: Moments, b: Moments, scale: float) -> bool:
    return (
        a.n == b.n
        and np.allclose(a.mean, b.mean, rtol=1e-9, atol=1e-9 * scale)
        and np.allclose(a.comoment, b.comoment, rtol=1e-9, atol=1e-9 * a.n * scale**2)
    )


def test_vector_variance_cancellation() -> None:
    v = vector("variance_cancellation")
    m = Moments.of(np.tile(1e9 + np.arange(5), 20))
    assert m.mean[0] == v.expected["mean"]
    assert m.covariance[0, 0] == pytest.approx(v.expected["var"], abs=v.tol)


def test_d5_variance_of_a_large_offset_does_not_cancel() -> None:
    data = [10**9 + i for i in range(5)] * 20
    exact = Moments.from_sums(100, [sum(data)], [[sum(x * x for x in data)]], [1.0])
    expected = vector("variance_cancellation").expected["var"]
    assert exact.covariance[0, 0] == pytest.approx(expected, rel=1e-15)
    parts = [Moments.of(data[:37]), Moments.of(data[37:])]
    assert (parts[0] + parts[1]).covariance[0, 0] == pytest.approx(expected, abs=1e-6)


def test_vector_moments_merge() -> None:
    v = vector("moments_merge")
    treated = small("variant") == 1
    y, clicks = small("dwell"), small("clicks")
    m = Moments.of(y[treated], clicks[treated]) + Moments.of(y[~treated], clicks[~treated])
    assert m.n == v.expected["n"]
    assert m.mean[0] == pytest.approx(v.expected["mean"], abs=v.tol)
    assert m.covariance[0, 0] == pytest.approx(v.expected["var"], abs=v.tol)
    assert m.covariance[0, 1] == pytest.approx(v.expected["cov_with_clicks"], abs=v.tol)


def test_a_missing_value_is_refused() -> None:
    with pytest.raises(Refusal, match="missing") as refusal:
        Moments.of(np.array([1.0, np.nan, 4.0]))
    assert refusal.value.reason == "not_finite"


@quick
@given(columns)
def test_agrees_with_numpy(data: np.ndarray) -> None:
    m = Moments.of(*data)
    scale = np.abs(data).max() + 1
    np.testing.assert_allclose(m.mean, data.mean(axis=1), rtol=1e-9, atol=1e-9 * scale)
    np.testing.assert_allclose(m.covariance, np.cov(data), rtol=1e-9, atol=1e-9 * scale**2)


@quick
@given(columns, st.integers(0, 30))
def test_merged_parts_equal_the_whole(data: np.ndarray, at: int) -> None:
    parts = Moments.of(*data[:, :at]) + Moments.of(*data[:, at:])
    assert close(parts, Moments.of(*data), np.abs(data).max() + 1)


@quick
@given(columns)
def test_merge_is_commutative_and_associative(data: np.ndarray) -> None:
    a, b, c = (Moments.of(*part) for part in np.array_split(data, 3, axis=1))
    scale = np.abs(data).max() + 1
    assert close((a + b) + c, a + (b + c), scale)
    assert close(a + b, b + a, scale)


@quick
@given(whole)
def test_integer_sums_equal_the_data(data: np.ndarray) -> None:
    ints = data.tolist()
    sums = [sum(row) for row in ints]
    products = [[sum(x * y for x, y in zip(a, b, strict=True)) for b in ints] for a in ints]
    exact = Moments.from_sums(data.shape[1], sums, products, [1.0, 1e-3])
    assert close(exact, Moments.of(data[0], data[1] * 1e-3), float(np.abs(data).max() + 1))


def test_sums_beyond_the_range_of_doubles_keep_their_digits() -> None:
    # Σx² of 10^18-sized integers has 37 digits; the variance of 0, 1, 2 has one.
    data = [10**18 + i for i in range(3)]
    m = Moments.from_sums(3, [sum(data)], [[sum(x * x for x in data)]], [1.0])
    assert m.covariance.tolist() == [[1.0]]
    assert m.mean[0] == 1e18


def test_sums_take_numpy_integers_but_no_floats() -> None:
    m = Moments.from_sums(2, [np.int64(3)], [[np.int64(5)]], [1.0])
    assert m.comoment[0, 0] == 0.5
    with pytest.raises(TypeError):
        Moments.from_sums(2, [3.0], [[5]], [1.0])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"argument|shorter"):
        Moments.from_sums(2, [3, 4], [[5, 6]], [1.0, 1.0])


def test_sums_that_no_data_have_are_refused() -> None:
    with pytest.raises(Refusal) as refusal:
        Moments.from_sums(3, [6], [[11]], [1.0])
    assert refusal.value.reason == "inconsistent"


@pytest.mark.parametrize("constant", [0.1, 1e9 + 0.3, -7.7e-5])
def test_a_constant_has_no_variance_at_all(constant: float) -> None:
    m = Moments.of([constant] * 1001) + Moments.of([constant] * 13)
    assert m.mean[0] == constant
    assert m.comoment[0, 0] == 0.0


def test_no_units_are_the_neutral_element() -> None:
    m = Moments.of([1, 2, 4])
    for empty in (Moments.of([]), Moments.from_sums(0, [0], [[0]], [1.0])):
        assert empty.n == 0
        assert close(empty + m, m, 4)
        assert close(m + empty, m, 4)
        with pytest.raises(Refusal) as refusal:
            _ = empty.covariance
        assert refusal.value.reason == "too_few_units"


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan, 1e200])
def test_what_is_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(Refusal) as refusal:
        Moments.of([1.0, bad, -bad])
    assert refusal.value.reason == "not_finite"


def test_one_unit_has_no_variance() -> None:
    with pytest.raises(Refusal, match="at least two units, got 1"):
        _ = Moments.of([3.0]).covariance


def test_pick_chooses_and_orders() -> None:
    m = Moments.of([1, 2, 4], [0, 5, 1], [3, 3, 9])
    assert close(m.pick(2, 0), Moments.of([3, 3, 9], [1, 2, 4]), 9)


def test_moments_are_frozen() -> None:
    m = Moments.of([1, 2])
    with pytest.raises(ValueError, match="read-only"):
        m.mean[0] = 3
    with pytest.raises(AttributeError):
        m.n = 4  # type: ignore[misc]


class TestThird:
    def test_is_the_skewness_of_any_weighted_sum(self) -> None:
        random = np.random.default_rng(3)
        columns = random.lognormal(0, 1, (3, 200))
        third = Moments.build_with_third(*columns).third
        weights = np.array([1.0, -0.4, 2.0])
        cube = float(np.einsum("i,j,k,ijk", weights, weights, weights, third))
        mixed = weights @ columns
        expected = scipy.stats.skew(mixed) * 200 * mixed.std() ** 3
        assert cube == pytest.approx(expected, rel=1e-10)

    @given(whole)
    def test_of_sums_and_merged_are_those_of_the_values(self, data: Ints) -> None:
        y, x = ([int(v) for v in column] for column in data)
        n, cut = len(y), len(y) // 2
        triples = [sum(map(math.prod, zip(*t, strict=True))) for t in cwr([y, x], 3)]
        products = [[sum(map(math.prod, zip(a, b, strict=True))) for b in (y, x)] for a in (y, x)]
        summed = Moments.from_sums(n, [sum(y), sum(x)], products, [0.5, 2.0], triples)
        scaled = np.array([[0.5], [2.0]]) * data
        exact = _exact_cube([Fraction(v, 2) for v in y])
        assert summed.third is not None
        assert summed.third[0, 0, 0] == pytest.approx(float(exact), rel=1e-14)
        merged = Moments.build_with_third(*scaled[:, :cut]) + Moments.build_with_third(
            *scaled[:, cut:]
        )
        size = np.abs(scaled).max() ** 3 * n
        assert merged.third == pytest.approx(summed.third, rel=1e-9, abs=1e-12 * size)

    def test_is_unknown_where_one_of_the_two_is(self) -> None:
        known = Moments.build_with_third([1, 2, 4])
        assert (known + Moments.of([1, 2])).third is None
        assert known.pick(0).third is not None
        assert (known + Moments.build_with_third([])).third == pytest.approx(known.third)
        for whole in (known + Moments.of([]), Moments.of([]) + known):
            assert whole.third == pytest.approx(known.third)

    def test_needs_every_product_of_three(self) -> None:
        with pytest.raises(ValueError, match="1 products of three, got 2"):
            Moments.from_sums(2, [3], [[5]], [1.0], [9, 9])


def _exact_cube(values: list[Fraction]) -> Fraction:
    mean = sum(values, Fraction(0)) / len(values)
    return sum(((v - mean) ** 3 for v in values), Fraction(0))


def test_malformed_input_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one variable"):
        Moments.of()
    with pytest.raises(ValueError, match=r"inhomogeneous|equal length"):
        Moments.of([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="cannot merge"):
        _ = Moments.of([1, 2]) + Moments.of([1], [2])
    with pytest.raises(ValueError, match="moments need"):
        Moments(2, np.zeros(2), np.zeros((1, 1)))


def test_degrees_of_freedom_of_merged_units_add_up() -> None:
    weighed = Moments(10, np.array([1.0]), np.array([[2.0]]), effective=4.5)
    plain = Moments.of([1, 2, 5, 7, 8, 9])
    for merged in (weighed + plain, plain + weighed):
        assert merged.df == 3.5 + 5 + 1
        assert merged.effective == 10.5
    assert (plain + plain).effective is None


def test_the_mean_of_values_far_from_zero_loses_no_variance() -> None:
    """Doubles of this size are an eighth apart, so their mean is rounded as far as they vary."""
    values = 1e15 + np.array([0.0, 0.125, 0.25, 0.125, 0.5, 0.0, 0.375])
    exact = [Fraction(v) for v in values.tolist()]
    mean = sum(exact) / len(exact)
    spread = sum((v - mean) ** 2 for v in exact)
    assert Moments.of(values).comoment[0, 0] == pytest.approx(float(spread), rel=1e-9)


def test_one_variable_that_no_data_have_is_enough_for_a_refusal() -> None:
    fine = Moments.from_sums(3, [6, 3], [[14, 6], [6, 3]], [1.0, 1.0])
    assert fine.comoment.tolist() == [[2.0, 0.0], [0.0, 0.0]]
    with pytest.raises(Refusal) as refusal:
        Moments.from_sums(3, [6, 6], [[11, 12], [12, 14]], [1.0, 1.0])
    assert refusal.value.reason == "inconsistent"


def test_products_are_one_per_pair() -> None:
    with pytest.raises(ValueError, match=r"argument|shorter"):
        Moments.from_sums(2, [3, 4], [[5], [6]], [1.0, 1.0])
    with pytest.raises(ValueError, match="moments need"):
        Moments(-1, np.zeros(1), np.zeros((1, 1)))
    with pytest.raises(ValueError, match="one-dimensional"):
        Moments.of([[1, 2], [3, 4]])
