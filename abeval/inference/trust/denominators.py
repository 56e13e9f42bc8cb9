"""A ratio whose denominator the treatment moves, taken apart into its sums per unit.

`checks.py` has it among its checks.
"""

from collections.abc import Sequence
from typing import NamedTuple

from abeval.inference.compare import Analysis
from abeval.inference.comparison import Arms
from abeval.inference.stretches import pair_of
from abeval.inference.trust.finding import Significance, Words
from abeval.metrics.definition import Metric
from abeval.stats import means, multiplicity
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal

_NAMED = 0.01
"""Ratios with a smaller p-value are named in the message."""


class Moved(NamedTuple):
    """A denominator in a variant against control.

    Attributes:
        p_value: Of its mean per unit being the same.
        words: The ratio and both of its parts, relative to control.
    """

    p_value: float
    words: str


def denominator_checks(analysis: Analysis) -> list[Significance]:
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
    if not lifts:
        return []
    adjusted = multiplicity.adjust([lift.p_value for lift in lifts.values()], "holm").tolist()
    moved = [key for key, p in zip(lifts, adjusted, strict=True) if p < _NAMED]
    words = [_said(name, variant, lifts[name, variant], variants) for name, variant in moved]
    alarm = (
        "the treatment moves what a ratio divides by, so the ratio compares other rows than "
        f"control's: {'; '.join(words)}"
    )
    calm = "no treatment moves what the ratios divide by"
    remedy = "judge the ratio beside its parts, per unit"
    metrics = tuple(dict.fromkeys(name for name, _ in moved))
    said = Words(calm, alarm, remedy)
    return [Significance("denominators", min(adjusted), said, metrics=metrics, worst="warn")]


def _said(name: str, variant: str, lift: Moved, variants: Sequence[str]) -> str:
    return f"{lift.words} ({name} of {variant})" if len(variants) > 1 else lift.words


def _moved(analysis: Analysis, metric: Metric, variant: str) -> Moved | None:
    """The denominator of a ratio in a variant, None where it cannot be compared."""
    arms = Arms(analysis.experiment.control, variant)
    control, treatment = pair_of(analysis.moments(metric), arms)
    if control is None or treatment is None:
        return None
    try:
        p_value = means.welch(control.pick(1), treatment.pick(1)).p_value
    except Refusal:
        return None
    top, bottom = _change(control, treatment, 0), _change(control, treatment, 1)
    if top is None or bottom is None or bottom == 0:
        return None
    names = [part.replace("Σ", "").strip() for part in metric.formula.split(" / ", 1)]
    changes = (names[-1], bottom), (names[0], top), (metric.name, top / bottom)
    return Moved(p_value, ", ".join(f"{name} {100 * (by - 1):+.1f} %" for name, by in changes))


def _change(control: Moments, treatment: Moments, place: int) -> float | None:
    """The numerator (0) or the denominator (1) per unit, as a multiple of control's."""
    base = float(control.mean[place])
    return None if base == 0 else float(treatment.mean[place]) / base
