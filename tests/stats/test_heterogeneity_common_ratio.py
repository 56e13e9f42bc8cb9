"""The ratio that fits all segments, against a plain search and a plain sum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from abeval.stats.effects import satterthwaite
from abeval.stats.heterogeneity import fit_common_ratio, lifts, stack_arms
from abeval.stats.records import Estimate, Refusal

CONTROL = [Estimate(2.0, 0.02, 9, 7.0), Estimate(5.0, 0.04, 9, 11.0), Estimate(1.0, 0.01, 9, 5.0)]
TREATMENT = [Estimate(2.6, 0.03, 9, 6.0), Estimate(5.5, 0.05, 9, 9.0), Estimate(0.8, 0.02, 9, 8.0)]


def q(ratio: float) -> float:
    return sum(
        (t.value - ratio * c.value) ** 2 / (t.variance + ratio**2 * c.variance)
        for c, t in zip(CONTROL, TREATMENT, strict=True)
    )


def test_the_ratio_has_the_smallest_distance() -> None:
    arms = stack_arms(CONTROL, TREATMENT)
    best = optimize.brute(lambda one: q(float(one[0])), [(0.5, 2.0)], Ns=400)
    assert fit_common_ratio(arms) == pytest.approx(float(best[0]), abs=1e-4)
    assert arms.q(1.1) == pytest.approx(q(1.1))


def test_the_p_value_is_johansens() -> None:
    """Weights are over the whole error of a segment, and so are its degrees of freedom."""
    ratio = fit_common_ratio(stack_arms(CONTROL, TREATMENT))
    both = list(zip(CONTROL, TREATMENT, strict=True))
    weights = [c.value**2 / (t.variance + ratio**2 * c.variance) for c, t in both]
    dfs = [satterthwaite((t.variance, ratio**2 * c.variance), (t.df, c.df)) for c, t in both]
    noise = sum((1 - w / sum(weights)) ** 2 / df for w, df in zip(weights, dfs, strict=True))
    mean = 2 * (1 + 2 * noise * (3 - 2) / (3**2 - 1))
    wanted = stats.f.sf(q(ratio) / mean, 2, (3**2 - 1) / (3 * noise))
    assert lifts(CONTROL, TREATMENT).p_value == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("sure", [0, 1])
def test_next_to_a_sure_segment_the_ratio_is_near_to_its_own(sure: int) -> None:
    errors = [1e-6 if i == sure else 0.5 for i in (0, 1)]
    control = [Estimate(1.0, 0.0, 9, math.inf)] * 2
    treatment = [
        Estimate(value, error, 9, math.inf) for value, error in zip((1.0, 3.0), errors, strict=True)
    ]
    weights = 1 / np.array(errors)
    wanted = float(weights @ [1.0, 3.0] / weights.sum())
    assert fit_common_ratio(stack_arms(control, treatment)) == pytest.approx(wanted, abs=1e-7)


def test_segments_that_are_not_positive_in_both_variants_do_not_bound_the_ratio() -> None:
    odd = [Estimate(1.0, 0.01, 9, 8.0), Estimate(0.0, 0.01, 9, 8.0), Estimate(2.0, 0.01, 9, 8.0)]
    even = [Estimate(0.0, 0.01, 9, 8.0), Estimate(1.0, 0.01, 9, 8.0), Estimate(4.0, 0.01, 9, 8.0)]
    # The third alone has a ratio.
    assert fit_common_ratio(stack_arms(odd, even)) == 2.0
    with pytest.raises(Refusal) as refused:
        fit_common_ratio(stack_arms(odd[:2], even[:2]))
    assert refused.value.reason == "not_applicable"


@pytest.mark.parametrize(
    ("control", "treatment", "reason"),
    [
        (CONTROL[:1], TREATMENT[:1], "too_few_units"),
        (CONTROL, TREATMENT[:2], "too_few_units"),
        (
            CONTROL,
            [TREATMENT[0], TREATMENT[1]._replace(variance=math.inf)] * 1 + TREATMENT[2:],
            "not_finite",
        ),
        (
            [CONTROL[0], CONTROL[1]._replace(variance=0.0)],
            [TREATMENT[0], TREATMENT[1]._replace(variance=0.0)],
            "zero_variance",
        ),
    ],
)
def test_segments_without_a_common_scale_are_refused(
    control: list[Estimate], treatment: list[Estimate], reason: str
) -> None:
    with pytest.raises(Refusal) as refused:
        stack_arms(control, treatment)
    assert refused.value.reason == reason


def test_one_of_two_values_may_be_known() -> None:
    known = [one._replace(variance=0.0) for one in CONTROL]
    assert stack_arms(known, TREATMENT).variance(2.0).tolist() == [0.03, 0.05, 0.02]
    assert stack_arms(CONTROL, [one._replace(variance=0.0) for one in TREATMENT]).q(1.0) > 0
