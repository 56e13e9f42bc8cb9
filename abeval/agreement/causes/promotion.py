"""Promotion days: the effect on the days of `[[events]]` is not that of the others."""

from datetime import date, timedelta

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.agreement.days import DayEffect, as_measured, day_effects, pooled
from abeval.agreement.gap import closed_online
from abeval.experiment.sections import Event

SHARE = 0.25


def judge(case: Case, _: Frames) -> Finding | Unchecked:
    """Compare the days of events with all others."""
    events = () if case.experiment is None else tuple(case.experiment.events)
    if not events:
        message = "Promotion: [[events]] would show whether the effect is that of special days"
        return Unchecked(message, ("[[events]]",))
    days = day_effects(case)
    special = [day for day in days if any(_within(event, day) for event in events)]
    other = [day for day in days if day not in special]
    during, outside, whole = pooled(special), pooled(other), pooled(days)
    if during is None or outside is None or whole is None:
        message = "Promotion: there are no effects of days both inside and outside of [[events]]"
        return Unchecked(message, ("days inside and outside of [[events]]",))
    change = clusters.difference(outside, during)
    moved = abs(whole.value - outside.value)
    exceeds = moved >= SHARE * max(abs(whole.value), abs(outside.value))
    there, elsewhere, apart = (as_measured(case, one) for one in (during, outside, change))
    names = ", ".join(dict.fromkeys(event.name for event in events))
    return Finding(
        exceeds=exceeds,
        message=f"Promotion: the effect is {there.value:+.1%} during {names} and "
        f"{elsewhere.value:+.1%} on the other days.",
        evidence=(
            clusters.evidence("lift on days of events", there, case.alpha),
            clusters.evidence("lift on other days", elsewhere, case.alpha),
            clusters.evidence("difference of the two", apart, case.alpha),
        ),
        threshold=SHARE,
        threshold_reason="special days move the whole effect by a quarter of it or more",
        p_value=clusters.p_value(change),
        accounts_for=closed_online(case, whole.value, outside.value),
        remedy="Judge the effect by the other days, and run on until they are enough.",
    )


def _within(event: Event, day: DayEffect) -> bool:
    first, end = event.bounds
    at = date.fromisoformat(day.day)
    return first.date() <= at <= (end - timedelta(microseconds=1)).date()


CHECK = CauseCheck("promotion", judge)
