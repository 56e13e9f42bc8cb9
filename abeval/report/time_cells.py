"""One metric in one variant over time: what a figure of effects over time is of.

`time_parts.py` and `daily_parts.py` draw one figure for each.
"""

from typing import NamedTuple

from abeval.report.effects import slugs
from abeval.results.windows import Look, TimeResult, WindowRow


class Cell(NamedTuple):
    """One metric in one variant over time.

    Attributes:
        slug: The end of the ids of its figures.
        title: The metric.
        note: The variant, where there are several.
        key: The end of the keys of its figures.
    """

    metric: str
    variant: str
    slug: str
    title: str
    note: str
    key: tuple[str, ...]
    rows: tuple[WindowRow, ...]
    looks: tuple[Look, ...]


def cells(time: TimeResult) -> tuple[Cell, ...]:
    """Every metric in every variant, in the order of the result."""
    rows: dict[tuple[str, str], list[WindowRow]] = {}
    for row in time.windows:
        rows.setdefault((row.metric, row.variant), []).append(row)
    looks: dict[tuple[str, str], list[Look]] = {}
    for look in time.looks:
        looks.setdefault((look.metric, look.variant), []).append(look)
    metrics, variants = slugs([m for m, _ in rows]), slugs([v for _, v in rows])
    several = len(variants) > 1
    return tuple(
        Cell(
            metric,
            variant,
            f"{metrics[metric]}-{variants[variant]}" if several else metrics[metric],
            metric,
            variant if several else "",
            (metric, variant) if several else (metric,),
            tuple(own),
            tuple(looks.get((metric, variant), ())),
        )
        for (metric, variant), own in rows.items()
    )
