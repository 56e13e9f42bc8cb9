import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from reference_vectors import quick, small, vector
from scipy.stats import chi2
from statsmodels.stats.meta_analysis import combine_effects
from statsmodels.stats.oneway import anova_oneway

from abeval.stats import heterogeneity, means, skewed
from abeval.stats.heterogeneity import pool_variances
from abeval.stats.moments import Moments
from abeval.stats.records import Estimate, Refusal
from abeval.stats.skewed import evaluate_hypothesis

KNOWN = [math.inf] * 8


def segment(variant: int, name: str) -> Moments:
    kept = (small("variant") == variant) & (small("segment") == name)
    return Moments.of(small("dwell")[kept])


def test_vector_differential_impact() -> None:
    v = vector("differential_impact")
    inside, outside = (
        (means.estimate_mean(segment(0, name)), means.estimate_mean(segment(1, name)))
        for name in ("A", "B")
    )
    found = heterogeneity.against_rest(inside, outside)
    assert found.statistic == pytest.approx(v.expected["z"], abs=v.tol)
    assert found.p_value == pytest.approx(v.expected["p"], abs=v.tol)
    turned = heterogeneity.against_rest(outside, inside)
    assert turned.statistic == pytest.approx(-v.expected["z"], abs=v.tol)


@quick
@given(
    st.lists(st.tuples(st.floats(-3, 3), st.floats(0.05, 2)), min_size=2, max_size=8),
)
def test_cochran_is_statsmodels(rows: list[tuple[float, float]]) -> None:
    effect, se = map(np.array, zip(*rows, strict=True))
    assume(np.ptp(effect) > 1e-3)  # where statsmodels divides zero by zero
    with np.errstate(invalid="ignore"):  # statsmodels takes the root of a negative tau squared
        theirs = combine_effects(effect, se**2, method_re="dl")
    found = heterogeneity.cochran(effect, se, KNOWN[: len(se)])
    assert found.q == pytest.approx(theirs.q, rel=1e-9, abs=1e-9)
    assert found.p_value == pytest.approx(theirs.test_homogeneity().pvalue, rel=1e-9, abs=1e-12)
    if theirs.tau2 > 0:
        assert found.i_squared == pytest.approx(max(0.0, theirs.i2), abs=1e-9)


def test_equal_effects_are_homogeneous() -> None:
    found = heterogeneity.cochran([0.5, 0.5, 0.5], [0.1, 0.2, 0.3], KNOWN[:3])
    assert found.q == pytest.approx(0, abs=1e-20)
    assert (found.p_value, found.i_squared) == (1.0, 0.0)


@pytest.mark.slow
def test_cochran_holds_its_level() -> None:
    rng = np.random.default_rng(1)
    se = np.array([0.1, 0.2, 0.4, 0.3])
    p = [heterogeneity.cochran(rng.normal(1, se), se, KNOWN[:4]).p_value for _ in range(4000)]
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.05, abs=0.0104)


def test_of_two_segments_the_lifts_are_fiellers() -> None:
    """With two segments, Q is the square of what is left of t₁c₂ − t₂c₁ at the common ratio."""
    control = [Estimate(2.0, 0.01, 900, math.inf), Estimate(5.0, 0.04, 900, math.inf)]
    treatment = [Estimate(2.4, 0.012, 900, math.inf), Estimate(5.2, 0.05, 900, math.inf)]
    found = heterogeneity.lifts(control, treatment)
    assert found.df == 1
    grid = np.linspace(1.0, 1.3, 300_001)
    q = sum(
        (t.value - grid * c.value) ** 2 / (t.variance + grid**2 * c.variance)
        for c, t in zip(control, treatment, strict=True)
    )
    assert found.q == pytest.approx(q.min(), rel=1e-9)
    assert found.p_value == pytest.approx(chi2.sf(q.min(), 1), rel=1e-9)
    assert found.i_squared == pytest.approx(1 - 1 / q.min(), rel=1e-6)
    # Nearer than chance would have it, nothing is left to share.
    near = [one._replace(variance=9 * one.variance) for one in treatment]
    assert heterogeneity.lifts(control, near).q < 1
    assert heterogeneity.lifts(control, near).i_squared == 0
    # The ratio is the same whichever variant is called control.
    mirrored = heterogeneity.lifts(treatment, control)
    assert mirrored.q == pytest.approx(found.q, rel=1e-6)


@pytest.mark.slow
def test_one_lift_over_unlike_baselines_holds_its_level() -> None:
    rng, runs = np.random.default_rng(3), 2000
    base, ses = np.array([0.02, 0.3, 1.0, 4.0]), np.array([0.004, 0.01, 0.05, 0.1])
    p_values = []
    for _ in range(runs):
        control, treatment = (
            [
                Estimate(float(one), float(se) ** 2, 900, 899.0)
                for one, se in zip(rng.normal(values, ses), ses, strict=True)
            ]
            for values in (base, 1.4 * base)
        )
        p_values.append(heterogeneity.lifts(control, treatment).p_value)
    assert np.mean(np.array(p_values) < 0.05) == pytest.approx(0.05, abs=0.015)


def groups(seed: int) -> tuple[list[np.ndarray], list[Moments]]:
    """Values of unlike spread in groups of unlike size."""
    random = np.random.default_rng(seed)
    sizes = (5, 9, 30, 12, 7)
    values = [random.normal(1, 1 + i, n) for i, n in enumerate(sizes)]
    return values, [Moments.of(one) for one in values]


def test_with_estimated_errors_it_is_welchs_analysis_of_variance() -> None:
    for seed in range(5):
        values, moments = groups(seed)
        theirs = anova_oneway(values, use_var="unequal", welch_correction=True)
        each = [means.estimate_mean(one) for one in moments]
        ours = heterogeneity.cochran(
            [one.value for one in each],
            [math.sqrt(one.variance) for one in each],
            [one.df for one in each],
        )
        assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-9)
        # Beside a control that is known to be 1, a lift is a mean.
        known = [Estimate(1.0, 0.0, 9, 8.0)] * len(each)
        shifted = [one._replace(value=one.value + 9) for one in each]
        assert heterogeneity.lifts(known, shifted).p_value == pytest.approx(ours.p_value, rel=1e-6)


def test_many_small_segments_hold_the_level() -> None:
    """A hundred cells of 30 and 30 units; with errors taken as known it was 9 %."""
    rng, n, runs = np.random.default_rng(4), 30, 1000
    mean = rng.normal(0, 3 / math.sqrt(n), (runs, 2, 100))
    variance = 9 * rng.chisquare(n - 1, (runs, 2, 100)) / (n - 1) / n
    total = variance.sum(axis=1)
    dfs = (n - 1) * total**2 / (variance**2).sum(axis=1)
    columns = mean[:, 1] - mean[:, 0], np.sqrt(total), dfs
    p = [heterogeneity.cochran(*row).p_value for row in zip(*columns, strict=True)]
    assert np.mean(np.array(p) < 0.05) == pytest.approx(0.05, abs=0.02)


def test_pooled_variances_are_those_of_a_permutation() -> None:
    rng = np.random.default_rng(5)
    arms = [Moments.build_with_third(rng.gamma(1, 5, n)) for n in (270, 30)]
    first, second = pool_variances(*(means.estimate_mean(one) for one in arms))
    assert first.variance + second.variance == pytest.approx(
        evaluate_hypothesis(skewed.means(*arms), 1.0).se ** 2, rel=1e-9
    )


ZERO = [Estimate(0.0, 0.1, 9, 8.0)] * 2


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: heterogeneity.lifts(ZERO[:1], ZERO[:1]), "too_few_units"),
        (lambda: heterogeneity.lifts(ZERO, ZERO), "not_applicable"),
        (
            lambda: heterogeneity.lifts(*[[Estimate(1.0, 0.0, 9, 8.0)] * 2] * 2),
            "zero_variance",
        ),
        (
            lambda: heterogeneity.lifts(ZERO, [Estimate(math.nan, 1.0, 9, 8.0)] * 2),
            "not_finite",
        ),
        (lambda: heterogeneity.cochran([0.1], [0.1], KNOWN[:2]), "too_few_units"),
        (lambda: heterogeneity.cochran([0.1, 0.2], [0.1], KNOWN[:2]), "too_few_units"),
        (
            lambda: heterogeneity.cochran([[0.1, 0.2]] * 2, [[0.1, 0.2]] * 2, [math.inf] * 2),
            "too_few_units",
        ),
        (lambda: heterogeneity.cochran([0.1, 0.2], [0.1, math.inf], KNOWN[:2]), "not_finite"),
        (lambda: heterogeneity.cochran([0.1, 0.2], [0.1, -0.1], KNOWN[:2]), "zero_variance"),
        (lambda: heterogeneity.cochran([0.1, 0.2], [0.1, 0.0], KNOWN[:2]), "zero_variance"),
        (lambda: heterogeneity.cochran([0.1, math.inf], [0.1, 0.1], KNOWN[:2]), "not_finite"),
    ],
)
def test_refusals(call: Callable[[], object], reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        call()
    assert refused.value.reason == reason
