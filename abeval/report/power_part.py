"""The part of the page on power: what this test could have seen, and after how many days.

`registry.py` lists it; `next_step.py` asks it for the open question of the verdict.
"""

import math

from abeval.report.effect_figures import outlook_figure
from abeval.report.effects import either_way
from abeval.report.figures import FigureView, Section
from abeval.report.first_part import size_words
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.power import MetricOutlook
from abeval.results.study import Study

_CURVES = 12
"""Rows that are drawn; the table has them all."""


def power_part(study: Study) -> Section | None:
    """The effect that can be seen against days."""
    outlook = study.outlook
    if outlook is None or not outlook.metrics:
        return None
    several = len({one.variant for one in outlook.metrics}) > 1
    drawn = [one for one in outlook.metrics if len(one.points) > 1][:_CURVES]
    heads = ("metric", "days", "could see", "to see", "days in all", "why not")
    view = FigureView(
        anchor="power-days",
        title="Smallest lift seen, by days",
        takeaway=" ".join(_sentence(one, several) for one in outlook.metrics[:2] if one.mde),
        figure=outlook_figure(
            {_name(one, several): one.points for one in drawn}, drawn[0].days if drawn else None
        ),
        heads=heads,
        rows=tuple(_cells(one, several) for one in outlook.metrics),
        key=("power",),
    )
    lead = (
        f"The smallest lift that a row finds with {fmt.percent(outlook.power)} by its own test, if "
        "units keep coming as they did."
    )
    return Section(lead, (view,))


def _name(one: MetricOutlook, several: bool) -> str:
    return f"{one.metric}, {one.variant}" if several else one.metric


def _sentence(one: MetricOutlook, several: bool) -> str:
    """What can be seen today, and how long a smaller effect takes."""
    seen = f"{_name(one, several)}: {either_way(one.mde)} so far"
    size = size_words(one)
    return f"{seen}." if size is None else f"{seen}, {either_way(one.target)} in about {size}."


def _cells(one: MetricOutlook, several: bool) -> tuple[str, ...]:
    return (
        _name(one, several),
        fmt.MISSING if one.days is None else f"{one.days:g}",
        either_way(one.mde),
        either_way(one.target),
        fmt.MISSING if one.target_days is None else fmt.count(math.ceil(one.target_days - 1e-6)),
        "" if one.reason is None else codes.words(one.reason),
    )
