"""Divide a log into parts: splits, values of a column, cells of a cut."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from abeval.aggregates.cells import cut_cells, cut_sizes, cut_value, write_cut_sums
from abeval.engines.protocol import Engine, whole, whole_number
from abeval.engines.sql import literal, quoted
from abeval.errors import ExperimentError, LogError
from abeval.experiment.problems import near_miss
from abeval.logs.mapping import LogColumns, own_name
from abeval.logs.run import Run
from abeval.logs.shape import LogShape
from abeval.results.replay import POOLED

Periods = Mapping[str, tuple[str, str]]

_KNOWN = ("train", "training", "valid", "validation", "test")
"""Usual names of splits, in the order of their use."""


@dataclass(frozen=True)
class Part:
    """Some rows of a log.

    Attributes:
        name: Of the split, or the value of the column.
        where: SQL condition on the impressions.
    """

    name: str
    where: str


def parts_of(engine: Engine, shape: LogShape, split: str | Periods) -> list[Part]:
    """The parts of a split, by a column or by periods.

    Raises:
        ExperimentError: A period is not one.
        LogError: There is no such column, it has too many values, or a period has no impressions.
    """
    if isinstance(split, str):
        return parts_of_column(engine, shape.impressions, split)
    parts = parts_of_periods(split)
    _check_days(engine, parts, shape.has_time)
    return parts


def parts_of_column(engine: Engine, log: LogColumns, column: str) -> list[Part]:
    """A part for each value of a column: splits in the order of their use, others by name.

    Raises:
        LogError: There is no such column, or it has more than a dozen values.
    """
    name = quoted(own_name(_log_column(log, column)))
    rows = engine.rows(
        f"select distinct cast({name} as varchar) from impressions where in_period "
        f"and {name} is not null order by 1 limit 13"
    )
    values = [str(value) for (value,) in rows]
    if len(values) > 12:
        what = f"column {column!r} has more than a dozen values, too many for splits"
        raise LogError(what, "name a column such as one of train, validation and test")
    values.sort(key=lambda v: _KNOWN.index(v.lower()) if v.lower() in _KNOWN else len(_KNOWN))
    return [Part(v, f"in_period and cast({name} as varchar) = {literal(v)}") for v in values]


def _log_column(log: LogColumns, column: str) -> str:
    """A column by its name in the log."""
    name = next((name for name in log.types if name.lower() == column.lower()), None)
    if name is None:
        what = f"the impressions have no column {column!r}{near_miss(column, log.types)}"
        raise LogError(what, f"the log has: {', '.join(log.types)}")
    return name


def parts_of_periods(periods: Periods) -> list[Part]:
    """A part for each named period, from its first day to its last.

    Raises:
        ExperimentError: A day is not one, or a period ends before it begins.

    Example:
        >>> parts_of_periods({"train": ("2026-09-01", "2026-09-07")})[0].where
        "day between date '2026-09-01' and date '2026-09-07'"
    """
    parts = []
    for name, (first, last) in periods.items():
        try:
            days = _day(first), _day(last)
        except ValueError:
            what = f"split {name!r}: {first} to {last} are not dates"
            raise ExperimentError(what, "write them like 2026-09-01") from None
        if days[0] > days[1]:
            raise ExperimentError(f"split {name!r} ends before it begins")
        parts.append(Part(name, f"day between date '{days[0]}' and date '{days[1]}'"))
    return parts


def _day(value: object) -> date:
    """A day written as 2026-09-01; Python has dates and times as well."""
    return date.fromisoformat(value if isinstance(value, str) else str(value)[:10])


def _check_days(engine: Engine, parts: Sequence[Part], has_time: bool) -> None:
    if not has_time:
        what = "splits by period need a time, but the impressions have no column ts"
        raise LogError(what, "map it, or name a column with the split of each row")
    for part in parts:
        if not whole_number(engine, f"select count(*) from impressions where {part.where}"):
            ((first, last),) = engine.rows("select min(day), max(day) from impressions")
            what = f"split {part.name!r} has no impressions of analysed units"
            raise LogError(what, f"the log has days from {first} to {last}")


CELLS = 12
"""The most cells of a cut: each is replayed by itself."""


class CutParts(NamedTuple):
    """The cells of a cut.

    Attributes:
        parts: Each cell, with its condition on the impressions.
        units: Cell → traffic → units with an impression there.
        notes: What a reader of the result must know.
    """

    parts: list[Part]
    units: Mapping[str, Mapping[str, int]]
    notes: tuple[str, ...]


def cut_parts(run: Run, shape: LogShape, cut: str) -> CutParts:
    """The cells of a cut, over the views of `prepare`."""
    write_cut_sums(run.engine, shape, cut)
    sizes = cut_sizes(run.engine, run.experiment.variants)
    cells = cut_cells(cut, sizes, run.experiment.privacy.min_units, CELLS)
    parts, units = [], {}
    for cell in cells.names:
        values = [value for value, of in cells.cell_of.items() if of == cell]
        where = f"{cut_value(cut)} in ({', '.join(map(literal, values))})"
        parts.append(Part(cell, f"in_period and {where}"))
        units[cell] = _units(run, where) if len(values) > 1 else dict(sizes[values[0]])
    every = {cell: {**of, POOLED: sum(of.values())} for cell, of in units.items()}
    return CutParts(parts, every, cells.notes)


def _units(run: Run, where: str) -> dict[str, int]:
    """Variant → units with an impression of one of several values, each unit once."""
    sql = f"""
    select u.variant, count(distinct i.unit_id)
    from impressions i join units u on i.unit_id = u.unit_id
    where i.in_period and {where} group by u.variant
    """
    counts = dict.fromkeys(run.experiment.variants, 0)
    return counts | {str(name): whole(units) for name, units in run.engine.rows(sql)}
