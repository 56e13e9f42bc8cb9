"""A ratio whose denominator the treatment moves, taken apart into its sums per unit.

`checks.py` has it among its checks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from abeval.aggregates.moment_rows import ByStretch
from abeval.inference.compare import Analysis
from abeval.inference.comparison import Arms, Comparison, Key, Rule, adjusted_p_values
from abeval.inference.stretches import compare_within, pair_of
from abeval.inference.trust.finding import Finding, Significance, Words, skipped
from abeval.metrics.definition import Metric
from abeval.results import codes
from abeval.results import format as fmt
from abeval.stats.moments import Moments

_NAMED = 0.01
"""Ratios with a smaller p-value are named in the message."""


class Moved(NamedTuple):
    """What a ratio divides by, in a variant against control.

    Attributes:
        bottom: Its mean per unit, compared.
        words: The ratio and both of its parts, relative to control.
    """

    bottom: Comparison
    words: str


def denominator_checks(analysis: Analysis) -> list[Finding]:
    """Whether a treatment moves what a goal or a guardrail divides by.

    Then the ratio compares other impressions than control's: it can fall although none of them is
    clicked less.
    """
    ratios = [m for m in analysis.metrics if m.kind == "ratio" and m.role != "diagnostic"]
    variants = analysis.experiment.treatments
    lifts = {
        (metric.name, variant): lift
        for metric in ratios
        for variant in variants
        if (lift := _moved(analysis, metric, variant)) is not None
    }
    adjusted = adjusted_p_values({key: lift.bottom for key, lift in lifts.items()})
    unjudged = _unjudged(lifts)
    if not adjusted:
        return [skipped(_NAME, unjudged)] if unjudged else []
    moved = [key for key, p in adjusted.items() if p < _NAMED]
    words = [_said(name, variant, lifts[name, variant], variants) for name, variant in moved]
    alarm = (
        "the treatment moves what a ratio divides by, so the ratio compares other rows than "
        f"control's: {'; '.join(words)}"
    )
    calm = "; ".join(filter(None, ("no treatment moves what the ratios divide by", unjudged)))
    alarm = "; ".join(filter(None, (alarm, unjudged)))
    remedy = "judge the ratio beside its parts, per unit"
    metrics = tuple(dict.fromkeys(name for name, _ in moved))
    said = Words(calm, alarm, remedy)
    return [Significance(_NAME, min(adjusted.values()), said, metrics=metrics, worst="warn")]


_NAME = "denominators"

_NO_TEST = ("too_skewed", "split_changed")
"""Reasons of a denominator without a test that its ratio need not have."""


def _unjudged(lifts: Mapping[Key, Moved]) -> str:
    """The ratios whose denominators no test can compare, and why; empty without any."""
    unjudged = [
        f"{name} of {variant} ({codes.reason(bottom.reason, bottom.units_needed)})"
        for (name, variant), (bottom, _) in lifts.items()
        if bottom.effect is None and bottom.reason in _NO_TEST
    ]
    return (
        f"what ratios divide by cannot be compared for {fmt.listing(unjudged)}" if unjudged else ""
    )


def _said(name: str, variant: str, lift: Moved, variants: Sequence[str]) -> str:
    return f"{lift.words} ({name} of {variant})" if len(variants) > 1 else lift.words


def _moved(analysis: Analysis, metric: Metric, variant: str) -> Moved | None:
    """The denominator of a ratio in a variant, None where it has none."""
    arms, moments = Arms(analysis.experiment.control, variant), analysis.moments(metric)
    control, treatment = pair_of(moments, arms)
    if control is None or treatment is None:
        return None
    top, bottom = _change(control, treatment, 0), _change(control, treatment, 1)
    if top is None or bottom is None or bottom == 0:
        return None
    names = [part.replace("Σ", "").strip() for part in metric.formula.split(" / ", 1)]
    changes = (names[-1], bottom), (names[0], top), (metric.name, top / bottom)
    words = ", ".join(f"{name} {100 * (by - 1):+.1f} %" for name, by in changes)
    return Moved(compare_bottoms(metric, moments, arms, Rule(analysis.experiment.alpha)), words)


def compare_bottoms(metric: Metric, moments: ByStretch, arms: Arms, rule: Rule) -> Comparison:
    """What a ratio divides by, compared between two variants as any mean per unit is.

    Args:
        metric: The ratio.
        moments: Of (y, x, …) by stretch and variant.
        arms: The two variants.
        rule: How the difference is judged.
    """
    mean = replace(metric, kind="mean", value=metric.per, per=None, covariates=())
    bottoms = [{name: _per_unit(one) for name, one in variants.items()} for variants in moments]
    return compare_within(mean, bottoms, arms, rule)


def _per_unit(moments: Moments) -> Moments:
    """Moments of (x, 1) of those of (y, x, …)."""
    bottom = moments.pick(1)
    third = None if bottom.third is None else np.pad(bottom.third, (0, 1))
    comoment = np.pad(bottom.comoment, (0, 1))
    return Moments(bottom.n, np.append(bottom.mean, 1.0), comoment, bottom.effective, third)


def _change(control: Moments, treatment: Moments, place: int) -> float | None:
    """The numerator (0) or the denominator (1) per unit, as a multiple of control's."""
    base = float(control.mean[place])
    return None if base == 0 else float(treatment.mean[place]) / base
