"""Novelty: the effect fades, or grows, while the experiment runs."""

from collections.abc import Sequence

from abeval.aggregates.sums import MANY, DayEffect, as_measured, day_effects, pooled
from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.agreement.gap import closed_online
from abeval.stats.records import Estimate

HALF = 0.5
LEAST_DAYS = 5


def judge(case: Case, _: Frames) -> Finding | Unchecked:
    """The slope of the daily effects, times the days, against the whole effect."""
    days = [day for day in day_effects(case) if day.lift.variance > 0]
    whole = pooled(days)
    if whole is None or len(days) < LEAST_DAYS:
        message = f"Novelty: there are not {LEAST_DAYS} whole days with an effect"
        return Unchecked(message, (f"{LEAST_DAYS} whole days", "ts"))
    change = _change(days, whole.value)
    last = whole.value + change.value / 2
    measured = [as_measured(case, one) for one in (change, whole)]
    return Finding(
        exceeds=abs(change.value) >= HALF * max(abs(whole.value), abs(last)),
        message=f"Novelty: from first to last day the effect changes by {measured[0].value:+.1%}; "
        f"over all days it is {measured[1].value:+.1%}.",
        evidence=(
            clusters.evidence("change of the lift from first to last day", measured[0], case.alpha),
            clusters.evidence("lift over all days", measured[1], case.alpha),
        ),
        threshold=HALF,
        threshold_reason="the effect changes by half of itself or more",
        p_value=clusters.p_value(change),
        accounts_for=closed_online(case, whole.value, last),
        remedy="Run on until the effect has settled (`abeval windows`), and judge the last days.",
    )


def _change(days: Sequence[DayEffect], mean: float) -> Estimate:
    """Weighted least squares; days are as if independent, which returning units make cautious."""
    weights = [1 / day.lift.variance for day in days]
    total = sum(weights)
    centre = sum(w * i for i, w in enumerate(weights)) / total
    squares = sum(w * (i - centre) ** 2 for i, w in enumerate(weights))
    crossed = sum(
        w * (i - centre) * (day.lift.value - mean)
        for i, (w, day) in enumerate(zip(weights, days, strict=True))
    )
    length = len(days) - 1
    return Estimate(crossed / squares * length, length**2 / squares, len(days), MANY)


CHECK = CauseCheck("novelty", judge)
