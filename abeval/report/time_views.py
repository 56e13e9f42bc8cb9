"""Tables and sentences about effects over time, formatted as text.

`time_parts.py` and `daily_parts.py` hand over rows of a `TimeResult`.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from abeval.report.effects import slugs
from abeval.report.slices import CellView
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.windows import Look, Rhythm, TimeResult, WindowRow

Table = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]
"""Headers and rows."""


def looks_table(looks: Sequence[Look], unit: str) -> Table:
    """What would have been declared on each day."""
    planned = any(look.bound is not None for look in looks)
    heads = ("Day", "One look", "declares", "Always valid", "declares")
    rows = []
    for look in looks:
        one = _effect(look.difference, look.fixed_low, look.fixed_high, unit)
        every = _effect(look.difference, look.always_low, look.always_high, unit)
        row = (look.day, one, look.fixed_declares, every, look.always_declares)
        bound = "" if look.bound is None else f"{look.bound:.3g}"
        rows.append((*row, bound, look.planned_declares or "") if planned else row)
    return ((*heads, "Planned z", "declares") if planned else heads), tuple(rows)


def windows_table(windows: Sequence[WindowRow], unit: str) -> Table:
    """Effects by window."""
    heads = ("Window", "Days", "Units", "Control", "Treatment", "Difference", "p", "Note")
    return heads, tuple(_window(row, unit) for row in windows)


def _window(row: WindowRow, unit: str) -> tuple[str, ...]:
    control, treatment = fmt.pair(row.control, row.treatment, unit)
    partial = ["partial"] if row.partial else []
    return (
        row.start if row.end == row.start else f"{row.start} to {row.end}",
        fmt.count(row.days),
        f"{fmt.count(row.units_control)} / {fmt.count(row.units)}",
        control,
        treatment,
        _effect(row.difference, row.difference_low, row.difference_high, unit),
        fmt.p_value(row.p_value),
        ", ".join([*partial, *([codes.words(row.reason)] if row.reason else [])]),
    )


def _effect(value: float | None, low: float | None, high: float | None, unit: str) -> str:
    shown = fmt.difference(value, low, high, unit)
    return fmt.MISSING if shown is None else shown.text


def day_heads(level: str, several: bool) -> tuple[str, ...]:
    """Headers of a metric's days."""
    variant = ("Variant",) if several else ()
    rest = ("Units", "Control", "Treatment", f"Lift [{level} interval]", "p", "Note")
    return ("Day", *variant, *rest)


def day_cells(cell: CellView, several: bool) -> tuple[str, ...]:
    """A day of a metric."""
    notes = (*(("partial day",) if cell.partial else ()), *((cell.reason,) if cell.reason else ()))
    effect = f"{cell.effect.estimate} {cell.effect.interval}".strip()
    return (
        cell.cell,
        *((cell.variant,) if several else ()),
        f"{cell.units_control} / {cell.units}",
        cell.control,
        cell.treatment,
        effect,
        cell.p,
        ", ".join(notes),
    )


def looks_sentence(looks: Sequence[Look]) -> str:
    """What daily looks would have declared."""
    if not looks:
        return ""
    naive = next((look.day for look in looks if look.fixed_declares != "unclear"), None)
    valid = next((look.day for look in looks if look.always_declares != "unclear"), None)
    early = "never looked significant" if naive is None else f"looked significant on {naive}"
    late = "it never was" if valid is None else f"it was on {valid}"
    return f"Checked daily without correction, this {early}. With correction, {late}."


def rhythm_sentence(tests: Sequence[Rhythm]) -> str:
    """Whether hours, or weekdays, share one effect."""
    words = [
        f"Not tested: {test.reason}."
        if test.p_value is None
        else f"One effect in all {test.parts} of them: p {fmt.p_value(test.p_value)}."
        for test in tests
    ]
    return " ".join(words)


def entries(time: TimeResult, control: str) -> dict[str, list[tuple[str, int]]]:
    """Variant → days and units that entered by their end; of the metric with most of them."""
    rows = [r for r in time.windows if r.axis == "calendar" and r.kind == "cumulative"]
    if not rows:
        return {}
    most = max(rows, key=lambda row: row.units_control + row.units)
    own = [row for row in rows if row.metric == most.metric]
    series: dict[str, list[tuple[str, int]]] = {control: []}
    for row in own:
        if row.variant == own[0].variant:
            series[control].append((row.end, row.units_control))
        series.setdefault(row.variant, []).append((row.end, row.units))
    return series


def shares_of(series: Mapping[str, Sequence[tuple[str, int]]]) -> dict[str, dict[str, float]]:
    """Variant → day → its share of all units."""
    totals: dict[str, int] = {}
    for points in series.values():
        for day, units in points:
            totals[day] = totals.get(day, 0) + units
    return {
        name: {day: units / totals[day] if totals[day] else 0.0 for day, units in points}
        for name, points in series.items()
    }


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
