"""Judge a table of sums by metric, variant and day in place of logs."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from abeval.aggregates.aggregates import Aggregates, VariantUnits
from abeval.aggregates.sums import DAY, MOMENT_COLUMNS, PRODUCTS, WHOLE
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.protocol import Cell
from abeval.engines.sql import quoted
from abeval.errors import ExperimentError, LogError
from abeval.experiment.model import Experiment
from abeval.experiment.problems import suggestion
from abeval.experiment.sources import LogSource
from abeval.files import real
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
    """Return the metric as its sums have it; None where they cannot have it.

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
    """Return what the statistics know of the logs, and the metrics as their sums have them.

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
    """Return a row of `MOMENT_COLUMNS`; products of three are not known."""
    values = {_COUNTED[name]: round(x / _worth(name)) for name, x in row.sums.items()}
    if not is_ratio:
        values |= {"x": row.units, "x_x": row.units, "y_x": values["y"]}
        values |= {"x_y0": values["y0"]} if "y0" in values else {}
    sums = ("y", "x", "y0", "x0", "z", *map("_".join, PRODUCTS))
    labels = (row.metric, WHOLE if row.day is None else DAY, row.day or "", row.variant, "0")
    thirds = [None] * (len(MOMENT_COLUMNS) - len(labels) - 1 - len(sums))
    return (*labels, row.units, *(str(values.get(name, 0)) for name in sums), *thirds)


_COUNTED = {
    **dict(zip((*VALUE, *DENOMINATOR), ("y", "y_y", "x", "x_x", "y_x"), strict=True)),
    **dict(zip(BEFORE, ("y0", "y0_y0", "y_y0"), strict=True)),
}
"""Column of a table of sums → that of `MOMENT_COLUMNS`."""


def _worth(name: str) -> Fraction:
    """Return what one counted unit of a sum is worth, or of a sum of products."""
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


_TABLE = "sums_by_metric"
_NEEDED = ("metric", "variant", "n", *VALUE)


def read_sums(source: object) -> list[Summary]:
    """Return the rows of a table of sums: a file (Parquet, CSV, JSON), or a frame.

    Raises:
        LogError: It cannot be read, lacks a column, or a row is no sum.
    """
    path = Path(source) if isinstance(source, str | Path) else None
    # Names of variants in text files are text, whatever they look like.
    log = LogSource(path=None if path is None else str(real(path)), columns={"variant": "variant"})
    with closing(DuckDBEngine()) as engine:
        if path is None:
            engine.add_frame(_TABLE, source, log)
        else:
            engine.add_log(_TABLE, log)
        known = {column.lower(): column for column in engine.columns(_TABLE)}
        name = name_of(source)
        _check_columns(known, name)
        own = [column for column in COLUMNS if column in known]
        listed = ", ".join(f"cast({quoted(known[c])} as varchar)" for c in own)
        rows = engine.rows(f"select {listed} from {_TABLE}")
    if not rows:
        raise LogError(f"{name} has no rows", f"give one row a metric and variant: {_FORM}")
    return summaries((dict(zip(own, row, strict=True)) for row in rows), name)


_FORM = "metric, variant, day, n, sum_y, sum_yy, and of a ratio sum_x, sum_xx, sum_xy"


def name_of(source: object) -> str:
    """Return the name of a table of sums in messages."""
    return Path(source).name if isinstance(source, str | Path) else "the frame"


def _check_columns(known: Sequence[str] | dict[str, str], name: str) -> None:
    missing = [column for column in _NEEDED if column not in known]
    if missing:
        hint = suggestion(missing[0], known)
        raise LogError(f"{name} has no column {missing[0]!r}{hint}", f"its columns: {_FORM}")
    unknown = [column for column in known if column not in COLUMNS]
    if unknown:
        hint = suggestion(unknown[0], COLUMNS)
        raise LogError(
            f"{name} has a column {unknown[0]!r} that sums do not have{hint}",
            f"its columns: {_FORM}; of values before the period {', '.join(BEFORE)}",
        )
    for group in (DENOMINATOR, BEFORE):
        lacking = [column for column in group if column not in known]
        if 0 < len(lacking) < len(group):
            raise LogError(
                f"{name} has no column {lacking[0]!r}", f"{', '.join(group)} go together"
            )


def of_experiment(
    experiment: Experiment, metrics: Sequence[Metric], rows: Sequence[Summary], source: str
) -> tuple[list[Metric], Aggregates]:
    """Return the experiment's metrics and aggregates, by its sums alone.

    Raises:
        ExperimentError: The experiment asks for what sums cannot give, which is named.
        LogError: The sums have another variant, or lack one.
    """
    _check_supported(experiment, metrics, rows)
    _check_variants(experiment, rows, source)
    own, aggregates = aggregates_of_sums(metrics, rows, source)
    if not experiment.segments:
        return own, aggregates
    segments = ", ".join(experiment.segments)
    note = f"Sums have no segments, so these are not shown: {segments}."
    return own, replace(aggregates, notes=(*aggregates.notes, note))


def _check_supported(
    experiment: Experiment, metrics: Sequence[Metric], rows: Sequence[Summary]
) -> None:
    """Refuse, by its name, whatever would need values of units."""
    inference = experiment.inference
    has_before = any(not row.sums.keys().isdisjoint(BEFORE) for row in rows)
    needs = {
        "inference.stratify_by": inference.stratify_by is not None,
        "inference.resample": inference.resample is not None,
        "inference.looks = 'group_sequential'": inference.looks == "group_sequential",
        f"inference.adjust = {inference.adjust!r} without {', '.join(BEFORE)}": (
            inference.adjust in ("cuped", "regression") and not has_before
        ),
        "assignment.splits": bool(experiment.schedule),
        **{f"cap of {metric.name}": metric.cap is not None for metric in metrics},
    }
    refused = [name for name, is_there in needs.items() if is_there]
    if refused:
        raise ExperimentError(
            f"sums cannot give: {', '.join(refused)}", "remove it, or analyse the logs"
        )


def _check_variants(experiment: Experiment, rows: Sequence[Summary], source: str) -> None:
    there = {row.variant for row in rows}
    for name in experiment.variants:
        if name not in there:
            raise LogError(
                f"{source} has no sums of variant {name!r}{suggestion(name, there)}",
                f"it has: {', '.join(sorted(there))}",
            )
    others = sorted(there - {*experiment.variants})
    if others:
        raise LogError(
            f"{source} has sums of {others[0]!r}, which the experiment does not name",
            "name it in [variants], or leave its rows out",
        )
