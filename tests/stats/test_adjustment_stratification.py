import math

import numpy as np
import pytest
from reference_vectors import small, vector

from abeval.stats import adjustment, effects, means
from abeval.stats.distributions import two_sided_quantile
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal

Strata = tuple[list[Moments], list[Moments]]


def strata(*columns: str) -> Strata:
    treated, segment = small("variant") == 1, small("segment")
    data = [small(column) for column in columns]
    sides = ([], [])
    for side, arm in zip(sides, (~treated, treated), strict=True):
        for name in ("A", "B"):
            side.append(Moments.of(*(d[arm & (segment == name)] for d in data)))
    return sides


def test_vector_poststratified_mean_random_weights() -> None:
    v = vector("poststratified_mean_random_weights")
    p = adjustment.stratified_mean(*strata("dwell"))
    assert p.effect.difference == pytest.approx(v.expected["diff"], abs=v.tol)
    assert p.effect.se == pytest.approx(v.expected["se"], abs=v.tol)
    lift = effects.delta_adjusted(p)
    assert lift.value == pytest.approx(v.expected["rel"], abs=v.tol)
    se = (lift.high - lift.low) / 2 / two_sided_quantile(0.05, p.effect.df)
    assert se == pytest.approx(v.expected["rel_se"], abs=v.tol)


def test_one_stratum_is_the_plain_test() -> None:
    c, t = Moments.of([1, 2, 5], [3, 3, 4]), Moments.of([2, 4, 7, 1], [3, 5, 5, 2])
    for found, reference in (
        (adjustment.stratified_mean([c], [t]), means.welch(c, t)),
        (adjustment.stratified_ratio([c], [t]), means.delta(c, t)),
    ):
        assert found.effect[:-1] == pytest.approx(reference[:-1], rel=1e-9)
        assert found.variance_removed == pytest.approx(0, abs=1e-12)


def test_removed_variance_is_that_of_the_test_of_all_units() -> None:
    treated = small("variant") == 1
    y = small("dwell")
    whole = means.welch(Moments.of(y[~treated]), Moments.of(y[treated]))
    found = adjustment.stratified_mean(*strata("dwell"))
    assert found.variance_removed == pytest.approx(1 - (found.effect.se / whole.se) ** 2, rel=1e-9)


def test_a_ratio_with_denominator_one_is_the_mean() -> None:
    sides = [
        [Moments.of(a, np.ones(len(a))) for a in side]
        for side in (([1.0, 2, 5], [7.0, 8, 8, 9]), ([2.0, 2, 6, 5], [7.0, 9, 10]))
    ]
    for ratio, mean in ((adjustment.stratified_ratio, adjustment.stratified_mean),):
        one, two = ratio(*sides), mean(*sides)
        assert one.effect[:-1] == pytest.approx(two.effect[:-1], rel=1e-9)
        assert one.covariance == pytest.approx(two.covariance, rel=1e-9)


def test_variances_are_what_repetitions_show() -> None:
    rng = np.random.default_rng(11)
    level, lift, share = np.array([1.0, 6.0]), np.array([0.5, 2.0]), 0.3
    found = []
    for _ in range(1500):
        kind = (rng.random(200) < share).astype(int)
        treated = rng.permutation(200) < 100
        y = level[kind] + treated * lift[kind] + rng.normal(0, 1, 200)
        sides = [[Moments.of(y[arm & (kind == k)]) for k in (0, 1)] for arm in (~treated, treated)]
        found.append(adjustment.stratified_mean(*sides))
    differences, controls = ([a.effect.difference for a in found], [a.control.value for a in found])
    assert np.mean([a.effect.se**2 for a in found]) == pytest.approx(np.var(differences), rel=0.1)
    assert np.mean([a.control.variance for a in found]) == pytest.approx(np.var(controls), rel=0.1)
    seen = np.cov(differences, controls)[0, 1]
    assert np.mean([a.covariance for a in found]) == pytest.approx(seen, abs=0.1 * np.var(controls))


def test_a_stratum_with_one_unit_is_refused_by_name() -> None:
    full, single = Moments.of([1, 2, 4]), Moments.of([1])
    for sides in (([full, single], [full, full]), ([full, full], [full, Moments.of([])])):
        with pytest.raises(Refusal, match="stratum 1") as refusal:
            adjustment.stratified_mean(*sides)
        assert refusal.value.reason == "too_few_units"


def test_a_constant_stratum_is_fine_but_not_all_of_them() -> None:
    constant, varied = Moments.of([3, 3, 3]), Moments.of([1, 2, 6])
    e = adjustment.stratified_mean([constant, varied], [constant, varied]).effect
    assert math.isfinite(e.p_value)
    with pytest.raises(Refusal) as refusal:
        adjustment.stratified_mean([constant], [constant])
    assert refusal.value.reason == "zero_variance"
    with pytest.raises(ValueError, match="same strata"):
        adjustment.stratified_mean([varied], [])


def cells(seed: int, sizes: tuple[int, int], lift: float) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [
        (rng.normal(2 + k + lift * k, 1 + k, n), rng.gamma(4, 1 + k, n))
        for k, n in enumerate(sizes)
    ]


@pytest.mark.parametrize("is_ratio", [False, True])
def test_variances_and_degrees_of_freedom_are_those_of_the_terms(is_ratio: bool) -> None:
    """The strata's own variances, and that of their shares."""
    arms = [cells(1, (5, 9), 0.0), cells(2, (12, 7), 1.5)]
    units = [sum(len(y) for y, _ in arm) for arm in arms]
    shares = np.array([17, 16]) / 33
    lines, values, terms, dfs = [], [], [], []
    for arm in arms:
        y, x = (np.array([cell[k].mean() for cell in arm]) for k in (0, 1))
        top, below = shares @ y, shares @ x
        values.append(top / below if is_ratio else top)
        linear = [(a - values[-1] * b) / below if is_ratio else a for a, b in arm]
        lines.append(np.array([one.mean() for one in linear]))
        terms.append([])
        for w, one, (_, b) in zip(shares, linear, arm, strict=True):
            n = one.size
            # Without a unit, the whole denominator is that of the others.
            rest = 1 - w * (b - b.mean()) / (n - 1) / below if is_ratio else 1.0
            left = (one - one.mean()) / rest
            terms[-1].append(w**2 * np.sum(left**2) / (n - 1) / n)
            dfs.append((b.sum() ** 2 / np.sum(b**2) if is_ratio else n) - 1)
    gap = lines[1] - lines[0]

    def of_shares(a: np.ndarray, b: np.ndarray) -> float:
        return float(shares @ ((a - shares @ a) * (b - shares @ b))) / 33

    every = [*terms[0], *terms[1], of_shares(gap, gap)]
    variance = sum(every)
    df = variance**2 / sum(v**2 / f for v, f in zip(every, [*dfs, 32], strict=True))
    moments = [[Moments.of(*cell) for cell in arm] for arm in arms]
    estimate = adjustment.stratified_ratio if is_ratio else adjustment.stratified_mean
    adjusted = estimate(*moments)
    assert adjusted.effect.difference == pytest.approx(values[1] - values[0], rel=1e-9)
    assert adjusted.effect.se == pytest.approx(math.sqrt(variance), rel=1e-9)
    assert adjusted.effect.df == pytest.approx(df, rel=1e-9)
    assert adjusted.control.value == pytest.approx(values[0], rel=1e-9)
    of_control = sum(terms[0]) + of_shares(lines[0], lines[0])
    assert adjusted.control.variance == pytest.approx(of_control, rel=1e-9)
    assert (adjusted.control.units, adjusted.treatment.units) == tuple(units)
    between = of_shares(gap, lines[0]) - sum(terms[0])
    assert adjusted.covariance == pytest.approx(between, rel=1e-9)
    assert estimate(*moments) == estimate(*moments, alpha=0.05)


def test_no_strata_are_an_error() -> None:
    with pytest.raises(ValueError, match="at least one"):
        adjustment.stratified_mean([], [])
