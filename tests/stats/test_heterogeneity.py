import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from reference_vectors import quick, small, vector
from statsmodels.stats.meta_analysis import combine_effects

from abeval.stats import effects, heterogeneity, means
from abeval.stats.moments import Moments
from abeval.stats.records import Estimate, Refusal


def segment(variant: int, name: str) -> Moments:
    kept = (small("variant") == variant) & (small("segment") == name)
    return Moments.of(small("dwell")[kept])


def test_vector_differential_impact() -> None:
    v = vector("differential_impact")
    found = heterogeneity.segments_against_rest(
        [segment(0, "A"), segment(0, "B")], [segment(1, "A"), segment(1, "B")], means.estimate
    )
    assert found[0].statistic == pytest.approx(v.expected["z"], abs=v.tol)
    assert found[0].p_value == pytest.approx(v.expected["p"], abs=v.tol)
    assert found[1].statistic == pytest.approx(-v.expected["z"], abs=v.tol)


def test_vector_experiment_interaction() -> None:
    v = vector("experiment_interaction")
    cells = v.inputs["cells_mean_var_n"]
    found = heterogeneity.interaction(
        *[
            Estimate(cells[k][0], cells[k][1] / cells[k][2], cells[k][2], cells[k][2] - 1)
            for k in ("tt", "tc", "ct", "cc")
        ]
    )
    assert found.effect.difference == pytest.approx(v.expected["interaction"], abs=v.tol)
    assert found.effect.se == pytest.approx(v.expected["se"], abs=v.tol)
    assert found.effect.statistic == pytest.approx(v.expected["z"], abs=v.tol)
    assert found.effect.p_value == pytest.approx(v.expected["p"], abs=v.tol)
    assert found.assignment_p_value == pytest.approx(v.expected["assignment_chi2_p"], abs=v.tol)


@quick
@given(
    st.lists(st.tuples(st.floats(-3, 3), st.floats(0.05, 2)), min_size=2, max_size=8),
)
def test_cochran_is_statsmodels(rows: list[tuple[float, float]]) -> None:
    effect, se = map(np.array, zip(*rows, strict=True))
    assume(np.ptp(effect) > 1e-3)  # where statsmodels divides zero by zero
    with np.errstate(invalid="ignore"):  # statsmodels takes the root of a negative tau squared
        theirs = combine_effects(effect, se**2, method_re="dl")
    found = heterogeneity.cochran(effect, se)
    assert found.q == pytest.approx(theirs.q, rel=1e-9, abs=1e-9)
    assert found.p_value == pytest.approx(theirs.test_homogeneity().pvalue, rel=1e-9, abs=1e-12)
    assert found.fixed == pytest.approx(theirs.mean_effect_fe, abs=1e-9)
    assert found.fixed_se == pytest.approx(theirs.sd_eff_w_fe, abs=1e-9)
    assert found.tau_squared == pytest.approx(max(0.0, theirs.tau2), abs=1e-9)
    if theirs.tau2 > 0:
        assert found.random == pytest.approx(theirs.mean_effect_re, abs=1e-9)
        assert found.random_se == pytest.approx(theirs.sd_eff_w_re, abs=1e-9)
        assert found.i_squared == pytest.approx(max(0.0, theirs.i2), abs=1e-9)


def test_equal_effects_are_homogeneous() -> None:
    found = heterogeneity.cochran([0.5, 0.5, 0.5], [0.1, 0.2, 0.3])
    assert found.q == pytest.approx(0, abs=1e-20)
    assert (found.p_value, found.i_squared, found.tau_squared) == (1.0, 0.0, 0.0)


def test_cochran_holds_its_level() -> None:
    rng = np.random.default_rng(1)
    se = np.array([0.1, 0.2, 0.4, 0.3])
    p = [heterogeneity.cochran(rng.normal(1, se), se).p_value for _ in range(4000)]
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.05, abs=0.0104)


def test_segment_against_rest_is_symmetric_and_merges_the_rest() -> None:
    rng = np.random.default_rng(2)
    data = [[rng.normal(i * arm, 1, 50) for i in range(3)] for arm in (0, 1)]
    control, treatment = ([Moments.of(x) for x in arm] for arm in data)
    found = heterogeneity.segments_against_rest(control, treatment, means.estimate)
    rest = effects.compare(
        means.estimate(Moments.of(np.concatenate(data[0][:2]))),
        means.estimate(Moments.of(np.concatenate(data[1][:2]))),
    )
    inside = effects.compare(means.estimate(control[2]), means.estimate(treatment[2]))
    assert found[2].difference == pytest.approx(inside.difference - rest.difference, abs=1e-12)
    assert found[2].se == pytest.approx(math.hypot(inside.se, rest.se), abs=1e-12)
    assert found[2].p_value < 1e-5


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: heterogeneity.cochran([0.1], [0.1]), "too_few_units"),
        (lambda: heterogeneity.cochran([0.1, 0.2], [0.1, 0.0]), "zero_variance"),
        (lambda: heterogeneity.cochran([0.1, math.inf], [0.1, 0.1]), "not_finite"),
        (
            lambda: heterogeneity.segments_against_rest(
                [segment(0, "A")], [segment(1, "A")], means.estimate
            ),
            "too_few_units",
        ),
        (
            lambda: heterogeneity.interaction(*[Estimate(1.0, 0.1, 0, 1.0)] * 4),
            "too_few_units",
        ),
        (
            lambda: heterogeneity.interaction(*[Estimate(1.0, 0.0, 9, 8.0)] * 4),
            "zero_variance",
        ),
    ],
)
def test_refusals(call: Callable[[], object], reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        call()
    assert refused.value.reason == reason
