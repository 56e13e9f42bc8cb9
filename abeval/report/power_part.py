"""The part of the page on power: what this test could have seen, and after how many days.

`registry.py` lists it; `first_part.py` says the same in a sentence.
"""

import math

from abeval.report.effect_figures import outlook_figure
from abeval.report.effects import either_way
from abeval.report.figures import FigureView
from abeval.report.section import Section
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.outlook import MetricOutlook
from abeval.results.study import Study

_NO_GAIN = 0.85
"""Where twice the days leave this share of the effect that can be seen, days hardly help."""


def power_part(study: Study) -> Section | None:
    """The effect that can be seen against days."""
    outlook = study.outlook
    if outlook is None or not outlook.metrics:
        return None
    curves = {one.metric: one.points for one in outlook.metrics if len(one.points) > 1}
    days = next((one.days for one in outlook.metrics if one.points), None)
    rows = tuple(_cells(one) for one in outlook.metrics)
    heads = ("metric", "days", "could see", "to see", "days in all", "more days", "why not")
    view = FigureView(
        anchor="power-days",
        title="Smallest lift seen, by days",
        takeaway=" ".join(days_sentence(one) for one in outlook.metrics[:2]),
        figure=outlook_figure(curves, days),
        heads=heads,
        rows=rows,
        key=("power",),
    )
    lead = (
        f"The smallest lift that one test finds with {fmt.percent(outlook.power)} at alpha "
        f"{outlook.alpha:g}, if units keep coming as they did."
    )
    return Section(lead, (view,))


def _cells(one: MetricOutlook) -> tuple[str, ...]:
    more = one.more_days
    return (
        one.metric,
        fmt.MISSING if one.days is None else f"{one.days:g}",
        either_way(one.mde),
        either_way(one.target),
        fmt.MISSING if one.target_days is None else whole(one.target_days),
        fmt.MISSING if more is None else whole(more),
        "" if one.reason is None else codes.words(one.reason),
    )


def whole(days: float) -> str:
    """A number of days, rounded up.

    Example:
        >>> whole(8.2)
        '9'
    """
    return fmt.count(math.ceil(days - 1e-6))


def days_sentence(one: MetricOutlook, says_seen: bool = True) -> str:
    """How long until a smaller effect is seen, or that more days hardly help.

    Args:
        one: The outlook of a metric.
        says_seen: Whether to name the effect that could be seen so far.

    Example:
        >>> days_sentence(MetricOutlook("ctr", 14.0, 0.095, (), 0.05, 23.0, None))
        'ctr: about 9 more days to see ±5%; this test could have seen ±9.5%.'
    """
    if one.mde is None:
        return ""
    seen = f"this test could have seen {either_way(one.mde)}" if says_seen else ""
    more = one.more_days
    if more is None or one.target is None:
        if one.days is None:
            return f"{one.metric}: {seen}." if seen else ""
        return _sentence(one.metric, seen, f"more days will not show {either_way(one.target)}")
    slow = _gain(one)
    if slow is not None and slow > _NO_GAIN:
        target = either_way(one.target)
        slowly = f"more days hardly help: {whole(more)} to see {target}, because few new units come"
        return _sentence(one.metric, seen, slowly)
    days = whole(more)
    unit = "day" if days == "1" else "days"
    return _sentence(one.metric, f"about {days} more {unit} to see {either_way(one.target)}", seen)


def _sentence(metric: str, *clauses: str) -> str:
    return f"{metric}: {'; '.join(filter(None, clauses))}."


def _gain(one: MetricOutlook) -> float | None:
    """The effect seen after twice the days, as a share of that seen now; None if not known."""
    later = [effect for days, effect in one.points if one.days and days >= 2 * one.days]
    return later[0] / one.mde if later and one.mde else None
