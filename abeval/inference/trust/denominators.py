"""A ratio whose denominator the treatment moves, taken apart into its sums per unit.

`checks.py` has it among its checks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from abeval.aggregates.sums import ByStretch
from abeval.inference.compare import Analysis, compare_total, per_unit
from abeval.inference.comparison import Arms, Comparison, Key, Rule, adjusted_p_values
from abeval.inference.means_and_ratios import compare_within
from abeval.inference.trust.finding import Finding, Significance, Words, skipped
from abeval.metrics.definition import Metric
from abeval.results import Check, codes
from abeval.results import format as fmt

_NAME = "denominators"
_NAMED = 0.01
"""Ratios with a smaller p-value are named in the message, and so is the one with the smallest."""

_NO_TEST = ("too_skewed", "split_changed")
"""Reasons that stop the denominator's test but not the ratio's."""


class Beside(NamedTuple):
    """What stands beside a ratio whose denominator moved.

    Attributes:
        total: Of its numerator per unit, compared; without an effect where that says nothing.
        words: How far the denominator and the total moved.
    """

    total: Comparison
    words: str


def denominator_checks(analysis: Analysis) -> list[Finding]:
    """Whether a treatment moves what a goal or a guardrail divides by.

    Then the ratio compares other impressions than control's: it can fall although none of them is
    clicked less.
    """
    bottoms = _bottoms(analysis)
    p_values = adjusted_p_values(bottoms)
    unknown = _unknown(bottoms)
    if not p_values:
        return [skipped(_NAME, one) for one in unknown]
    moved = _moved(analysis, bottoms)
    words = [f"{name} of {variant}: {one.words}" for (name, variant), one in moved.items()]
    alarm = (
        "the treatment moves what a ratio divides by, so the ratio compares other rows than "
        f"control's: {'; '.join(words)}"
    )
    calm = "what the ratios divide by shows no difference"
    remedy = "judge by totals per unit: the ratio decides only what that of its numerator says too"
    said = Words("; ".join([calm, *unknown]), "; ".join([alarm, *unknown]), remedy)
    metrics = tuple(dict.fromkeys(name for name, _ in moved))
    return [Significance(_NAME, min(p_values.values()), said, metrics=metrics, worst="warn")]


def moved_denominators(analysis: Analysis, checks: Sequence[Check]) -> dict[Key, Beside]:
    """The ratios that the check names where it warns, with what stands beside each."""
    warns = any(check.name == _NAME and check.status == "warn" for check in checks)
    return _moved(analysis, _bottoms(analysis)) if warns else {}


def _unknown(bottoms: Mapping[Key, Comparison]) -> list[str]:
    """That denominators cannot be compared, and why; empty where all can."""
    unjudged = [
        f"{name} of {variant} ({codes.reason(bottom.reason, bottom.units_needed)})"
        for (name, variant), bottom in bottoms.items()
        if bottom.effect is None and bottom.reason in _NO_TEST
    ]
    what = "what ratios divide by cannot be compared for"
    return [f"{what} {fmt.listing(unjudged)}"] if unjudged else []


def _bottoms(analysis: Analysis) -> dict[Key, Comparison]:
    """The denominators of goals and guardrails, compared where neither is zero."""
    control, rule = analysis.experiment.control, Rule(analysis.experiment.alpha)
    bottoms = {
        (metric.name, variant): compare_bottoms(
            metric, analysis.moments(metric), Arms(control, variant), rule
        )
        for metric, variant in analysis.rows
        if metric.kind == "ratio" and metric.role != "diagnostic"
    }
    return {key: one for key, one in bottoms.items() if 0 not in (one.control, one.treatment)}


def _moved(analysis: Analysis, bottoms: Mapping[Key, Comparison]) -> dict[Key, Beside]:
    """The denominators with a small p-value, and the one with the smallest."""
    p_values = adjusted_p_values(bottoms)
    limit = max(_NAMED, min(p_values.values()))
    metrics = {metric.name: metric for metric in analysis.metrics}
    return {
        key: _beside(analysis, metrics[key[0]], key[1], bottoms[key])
        for key, p in p_values.items()
        if p <= limit
    }


def _beside(analysis: Analysis, metric: Metric, variant: str, bottom: Comparison) -> Beside:
    total = compare_total(analysis, metric, Arms(analysis.experiment.control, variant))
    top, *rest = (part.replace("Σ", "").strip() for part in metric.formula.split(" / ", 1))
    numbers, below = total.numbers, bottom.numbers
    moved = (below.difference or 0) / (below.control or 1)
    words = f"per unit, {(rest or [top])[0]} moved by {moved:+.1%}"
    shown = fmt.lift(numbers.lift, numbers.lift_low, numbers.lift_high)
    return Beside(total, words if shown is None else f"{words}, {top} by {shown.text}")


def compare_bottoms(metric: Metric, moments: ByStretch, arms: Arms, rule: Rule) -> Comparison:
    """What a ratio divides by, compared between two variants as any mean per unit is.

    Args:
        metric: The ratio.
        moments: Of (y, x, …) by stretch and variant.
        arms: The two variants.
        rule: How the difference is judged.
    """
    mean = replace(metric, kind="mean", value=metric.per, per=None, covariates=())
    bottoms = [{name: per_unit(one.pick(1, 0)) for name, one in arm.items()} for arm in moments]
    return compare_within(mean, bottoms, arms, rule)
