"""Sums of each metric by variant and day, as a warehouse has them, in place of logs.

`pipeline.py` hands over the rows of a file or a frame; the `Aggregates` that come back are judged
as those of a log are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import NamedTuple

from abeval.aggregates.aggregates import Aggregates, VariantUnits
from abeval.aggregates.sums import DAY, MOMENT_COLUMNS, PRODUCTS, WHOLE
from abeval.engines.protocol import Cell
from abeval.errors import LogError
from abeval.logs.accounting import DayRows
from abeval.metrics.definition import ColumnTerm, Metric

STEP = 1e-12
"""The worth of one counted unit: decimals beyond it are rounded away."""

LABELS = ("metric", "variant", "n", "day")
VALUE = ("sum_y", "sum_yy")
DENOMINATOR = ("sum_x", "sum_xx", "sum_xy")
BEFORE = ("sum_c", "sum_cc", "sum_cy")
COLUMNS = (*LABELS, *VALUE, *DENOMINATOR, *BEFORE)
"""Of a table of sums; `day`, the denominator and the values before are optional."""


class Summary(NamedTuple):
    """One row: the sums of a metric over the units of a variant.

    Attributes:
        metric: Its name.
        variant: The variant.
        day: The day whose values are summed, over the units active in it; None for the period.
        units: Units that are summed over.
        sums: Column → sum, of those that the row has.
    """

    metric: str
    variant: str
    day: str | None
    units: int
    sums: Mapping[str, Fraction]


def summaries(rows: Iterable[Mapping[str, object]], source: str) -> list[Summary]:
    """Rows of text as sums, checked.

    Args:
        rows: Column → text, or None.
        source: The name of the table in messages.

    Raises:
        LogError: A row has no number where one is needed, or sums that no values have.
    """
    found = [_summary(row, f"{source}, row {i}") for i, row in enumerate(rows, start=1)]
    keys = dict[tuple[str, str, str | None], None]()
    for one in found:
        key = one.metric, one.variant, one.day
        if key in keys:
            when = "" if one.day is None else f" on {one.day}"
            raise LogError(
                f"{source} has {one.metric} of {one.variant}{when} twice",
                "give one row for each metric, variant and day: add up the sums of different units",
            )
        keys[key] = None
    for name, variant, _ in keys:
        if (name, variant, None) not in keys:
            raise LogError(
                f"{source} has {name} of {variant} by day only, and units return on other days",
                "add a row with an empty day: the sums of each unit's total over the period",
            )
    return found


def _summary(row: Mapping[str, object], where: str) -> Summary:
    names = {name: str(row.get(name) or "").strip() for name in ("metric", "variant")}
    for name, text in names.items():
        if not text:
            raise LogError(f"{where}: {name} is empty", "name each row's metric and variant")
    units = _number(row, "n", where)
    if units is None or units < 0 or units.denominator != 1:
        raise LogError(f"{where}: n is {row.get('n')!r}, not a number of units")
    sums = {c: x for c in COLUMNS[len(LABELS) :] if (x := _number(row, c, where)) is not None}
    for group in (VALUE, DENOMINATOR, BEFORE):
        missing = [name for name in group if name not in sums]
        if missing and (group == VALUE or len(missing) < len(group)):
            raise LogError(f"{where}: {missing[0]} is empty", f"{', '.join(group)} go together")
    for total, square in (("sum_y", "sum_yy"), ("sum_x", "sum_xx"), ("sum_c", "sum_cc")):
        if total in sums and sums[total] ** 2 > units * sums[square] * (1 + _ROUNDED):
            raise LogError(
                f"{where}: {square} is smaller than {total}² / n, which no values have",
                f"{square} is the sum of the squares of each unit's own total",
            )
    return Summary(names["metric"], names["variant"], _day(row, where), int(units), sums)


_ROUNDED = Fraction(1, 10**9)
"""How far rounded sums of equal values may be from what such values have."""


def _number(row: Mapping[str, object], name: str, where: str) -> Fraction | None:
    text = row.get(name)
    if text is None or not str(text).strip():
        return None
    try:
        return Fraction(str(text).strip())
    except (ValueError, ZeroDivisionError):
        raise LogError(f"{where}: {name} is {text!r}, not a number") from None


def _day(row: Mapping[str, object], where: str) -> str | None:
    text = str(row.get("day") or "").strip()
    if not text:
        return None
    try:
        return str(date.fromisoformat(text[:10]))
    except ValueError:
        raise LogError(f"{where}: day is {text!r}, not like 2026-09-14") from None


def of_sums(metric: Metric, rows: Sequence[Summary]) -> Metric | None:
    """The metric as its sums have it; None where they cannot have it.

    Args:
        metric: Of the experiment.
        rows: Its sums.
    """
    columns = DENOMINATOR[0] in rows[0].sums if rows else False
    if not rows or not metric.is_mean_or_ratio or columns != (metric.kind == "ratio"):
        return None
    term = ColumnTerm("sum", STEP)
    per = term if metric.kind == "ratio" else None
    bare = replace(metric, needs=frozenset(), left_out=(), zeros=(), covariates=())
    return replace(bare, value=term, per=per)


def aggregates_of_sums(
    metrics: Sequence[Metric], rows: Sequence[Summary], source: str
) -> tuple[list[Metric], Aggregates]:
    """What the statistics know of the logs, and the metrics as their sums have them.

    Args:
        metrics: Of the experiment; those without sums are refused.
        rows: The sums.
        source: Their name in notes.
    """
    by_metric = {m.name: [row for row in rows if row.metric == m.name] for m in metrics}
    own = {m.name: of_sums(m, by_metric[m.name]) for m in metrics}
    used = [row for row in rows if own.get(row.metric) is not None]
    ratios = {name for name, metric in own.items() if metric is not None and metric.per is not None}
    moments = [_moments(row, row.metric in ratios) for row in used]
    units = _units(used)
    refused = {
        name: ("its sums" if not by_metric[name] else _shape(by_metric[name], name),)
        for name, metric in own.items()
        if metric is None
    }
    others = sorted({row.metric for row in rows} - {metric.name for metric in metrics})
    return [own[metric.name] or metric for metric in metrics], Aggregates(
        moments=moments,
        catalogue_size=None,
        units=[VariantUnits(name, n, 0) for name, n in units.items()],
        accounts=(),
        days=_days(used),
        refused=refused,
        facts={"units": sum(units.values())},
        caps={},
        notes=tuple(_notes(used, units, others, source)),
    )


def _shape(rows: Sequence[Summary], name: str) -> str:
    """Why the sums of a metric are not those of its kind."""
    has = "a denominator" if DENOMINATOR[0] in rows[0].sums else "no denominator"
    return f"sums of {name} as it is defined: they have {has}"


def _moments(row: Summary, is_ratio: bool) -> tuple[Cell, ...]:
    """A row of `MOMENT_COLUMNS`; products of three are not known."""
    counted = {name: round(x / _worth(name)) for name, x in row.sums.items()}
    values = {"y": counted["sum_y"], "y_y": counted["sum_yy"]}
    if is_ratio:
        values |= {"x": counted["sum_x"], "x_x": counted["sum_xx"], "y_x": counted["sum_xy"]}
    else:
        values |= {"x": row.units, "x_x": row.units, "y_x": counted["sum_y"]}
    if BEFORE[0] in counted:
        values |= {"y0": counted["sum_c"], "y0_y0": counted["sum_cc"], "y_y0": counted["sum_cy"]}
        values |= {"x_y0": counted["sum_c"]} if not is_ratio else {}
    sums = ("y", "x", "y0", "x0", "z", *map("_".join, PRODUCTS))
    labels = (row.metric, WHOLE if row.day is None else DAY, row.day or "", row.variant, "0")
    thirds = [None] * (len(MOMENT_COLUMNS) - len(labels) - 1 - len(sums))
    return (*labels, row.units, *(str(values.get(name, 0)) for name in sums), *thirds)


def _worth(name: str) -> Fraction:
    """What one counted unit of a sum is worth, or of a sum of products."""
    step = Fraction(1, 10**12)
    return step if len(name) == len("sum_y") else step * step


def _units(rows: Sequence[Summary]) -> dict[str, int]:
    """Variant → its units: those of the metric that has most."""
    units: dict[str, int] = {}
    for row in rows:
        if row.day is None:
            units[row.variant] = max(units.get(row.variant, 0), row.units)
    return units


def _days(rows: Sequence[Summary]) -> list[DayRows]:
    """Each day with sums; how many units are new in it is not known."""
    by_day: dict[str, dict[str, int]] = {}
    for row in rows:
        if row.day is not None:
            of_day = by_day.setdefault(row.day, {})
            of_day[row.variant] = max(of_day.get(row.variant, 0), row.units)
    return [DayRows(day, sum(n.values()), 0, 0, 0, 0) for day, n in sorted(by_day.items())]


def _notes(
    rows: Sequence[Summary], units: Mapping[str, int], others: Sequence[str], source: str
) -> Iterable[str]:
    yield (
        f"The numbers are from the sums in {source}: duplicates, crossovers and clicks without an "
        "impression cannot be checked, nor whether each unit is counted once. Sums have no third "
        "moments, so skewed values are judged by the usual tests."
    )
    uneven = dict.fromkeys(
        row.metric for row in rows if row.day is None and row.units != units[row.variant]
    )
    if uneven:
        yield f"Metrics over a part of the units, as their n says: {', '.join(uneven)}."
    if others:
        names = ", ".join(others)
        yield f"Sums of metrics that the experiment does not name are not used: {names}."
