"""A ratio whose denominator the treatment moves, taken apart into its sums per unit.

`trust.py` has it among its checks.
"""

from typing import NamedTuple

from abeval.inference.compare import Analysis
from abeval.inference.comparison import Arms
from abeval.inference.stretches import pair_of
from abeval.metrics.definition import Metric
from abeval.results import Check
from abeval.stats import means, multiplicity
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal

WARN = 0.01


class Moved(NamedTuple):
    """A denominator in a variant against control.

    Attributes:
        p_value: Of its mean per unit being the same.
        words: The ratio and both of its parts, relative to control.
    """

    p_value: float
    words: str


def checks(analysis: Analysis) -> list[Check]:
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
    smallest = min(adjusted)
    words = [
        f"{lift.words} ({name} of {variant})" if len(variants) > 1 else lift.words
        for ((name, variant), lift), p in zip(lifts.items(), adjusted, strict=True)
        if p < WARN
    ]
    if not words:
        message = "no treatment moves what the ratios divide by"
        return [Check("denominators", "pass", smallest, WARN, message)]
    message = (
        f"the treatment moves what a ratio divides by, so the ratio compares other rows than "
        f"control's; judge it beside its parts, per unit: {'; '.join(words)}"
    )
    return [Check("denominators", "warn", smallest, WARN, message)]


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
