"""A ratio whose denominator the treatment moves, taken apart into its sums per unit.

`checks.py` has it among its checks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from abeval.aggregates.moment_rows import ByStretch
from abeval.inference.compare import Analysis, compare_total, per_unit
from abeval.inference.comparison import Arms, Comparison, Key, Rule, adjusted_p_values
from abeval.inference.stretches import compare_within, pair_of
from abeval.inference.trust.finding import Finding, Significance, Words, skipped
from abeval.metrics.definition import Metric
from abeval.results import Check, codes
from abeval.results import format as fmt

_NAME = "denominators"
_NAMED = 0.01
"""Ratios with a smaller p-value are named in the message, and so is the one with the smallest."""


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
    p_values, unjudged = adjusted_p_values(bottoms), _unjudged(bottoms)
    if not p_values:
        return [skipped(_NAME, unjudged)] if unjudged else []
    moved = _moved(p_values)
    ratios, several = _ratios(analysis), len(analysis.experiment.treatments) > 1
    words = [
        _changes(analysis, ratios[name], variant) + (f" ({name} of {variant})" if several else "")
        for name, variant in moved
    ]
    alarm = (
        "the treatment moves what a ratio divides by, so the ratio compares other rows than "
        f"control's: {'; '.join(words)}"
    )
    calm = "; ".join(filter(None, ("what the ratios divide by shows no difference", unjudged)))
    alarm = "; ".join(filter(None, (alarm, unjudged)))
    remedy = "judge by totals per unit: the ratio decides only what that of its numerator says too"
    metrics = tuple(dict.fromkeys(name for name, _ in moved))
    said = Words(calm, alarm, remedy)
    return [Significance(_NAME, min(p_values.values()), said, metrics=metrics, worst="warn")]


def moved_denominators(analysis: Analysis, checks: Sequence[Check]) -> dict[Key, Beside]:
    """The ratios that the check names where it warns, with what stands beside each."""
    if not any(check.name == _NAME and check.status == "warn" for check in checks):
        return {}
    ratios = _ratios(analysis)
    return {
        (name, variant): _beside(analysis, ratios[name], variant)
        for name, variant in _moved(adjusted_p_values(_bottoms(analysis)))
    }


def _ratios(analysis: Analysis) -> dict[str, Metric]:
    """The ratios among goals and guardrails."""
    return {m.name: m for m in analysis.metrics if m.kind == "ratio" and m.role != "diagnostic"}


def _bottoms(analysis: Analysis) -> dict[Key, Comparison]:
    """The denominator of each ratio in each variant where both parts are known, compared."""
    rule, bottoms = Rule(analysis.experiment.alpha), {}
    for name, metric in _ratios(analysis).items():
        for variant in analysis.experiment.treatments:
            arms, moments = Arms(analysis.experiment.control, variant), analysis.moments(metric)
            control, treatment = pair_of(moments, arms)
            if control is None or treatment is None:
                continue
            if control.mean[0] != 0 and control.mean[1] != 0 and treatment.mean[1] != 0:
                bottoms[name, variant] = compare_bottoms(metric, moments, arms, rule)
    return bottoms


def _moved(p_values: Mapping[Key, float]) -> list[Key]:
    smallest = min(p_values.values())
    return [key for key, p in p_values.items() if p < _NAMED or p == smallest]


_NO_TEST = ("too_skewed", "split_changed")
"""Reasons of a denominator without a test that its ratio need not have."""


def _unjudged(bottoms: Mapping[Key, Comparison]) -> str:
    """The ratios whose denominators no test can compare, and why; empty without any."""
    unjudged = [
        f"{name} of {variant} ({codes.reason(bottom.reason, bottom.units_needed)})"
        for (name, variant), bottom in bottoms.items()
        if bottom.effect is None and bottom.reason in _NO_TEST
    ]
    return (
        f"what ratios divide by cannot be compared for {fmt.listing(unjudged)}" if unjudged else ""
    )


def _beside(analysis: Analysis, metric: Metric, variant: str) -> Beside:
    total = compare_total(analysis, metric, Arms(analysis.experiment.control, variant))
    top, bottom = _part_names(metric)
    words = f"per unit, {bottom} moved by {_parts(analysis, metric, variant)[1] - 1:+.1%}"
    numbers = total.numbers
    shown = fmt.lift(numbers.lift, numbers.lift_low, numbers.lift_high)
    return Beside(total, words if shown is None else f"{words}, {top} by {shown.text}")


def _changes(analysis: Analysis, metric: Metric, variant: str) -> str:
    """The ratio and both of its parts, relative to control."""
    names, (top, bottom) = _part_names(metric), _parts(analysis, metric, variant)
    changes = (names[1], bottom), (names[0], top), (metric.name, top / bottom)
    return ", ".join(f"{name} {100 * (by - 1):+.1f} %" for name, by in changes)


def _part_names(metric: Metric) -> tuple[str, str]:
    """What the numerator and the denominator sum up."""
    top, _, bottom = metric.formula.partition(" / ")
    return top.replace("Σ", "").strip(), (bottom or top).replace("Σ", "").strip()


def _parts(analysis: Analysis, metric: Metric, variant: str) -> tuple[float, float]:
    """The numerator and the denominator per unit, as multiples of control's."""
    arms = Arms(analysis.experiment.control, variant)
    control, treatment = pair_of(analysis.moments(metric), arms)
    if control is None or treatment is None:
        raise TypeError("both variants of a compared denominator have units")
    return treatment.mean[0] / control.mean[0], treatment.mean[1] / control.mean[1]


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
