"""Read a log once, as sums by unit, hour and row class."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.engines.sql import Cell, Engine, quote, read_int
from abeval.errors import LogError
from abeval.logs import unit_arrays as arrays
from abeval.logs.shape import UNITS, LogSchema

OUTSIDE, NO_TIME, BEFORE, IN_PERIOD = range(4)
"""Phases: outside of both periods, without a time, before, and in the period."""

HOURS = 24


class RowClass(NamedTuple):
    """Describe rows that share phase, variant and segments.

    `phase` is `OUTSIDE` to `IN_PERIOD`; `variant` is as logged, None where the log has none.
    `segments` has a value of each, in the order of the schema; it is empty for none. `set_aside` is
    why the rows do not count, None where they do.
    """

    phase: int
    variant: str | None
    segments: tuple[str, ...]
    set_aside: str | None = None


@dataclass(frozen=True, eq=False)
class LogCells:
    """Sum a log per unit, hour and row class; rows without a unit are excluded.

    Attributes:
        hashes: Hash of each unit, sorted, shape (units,).
        unit: Index of the unit in `hashes`, shape (cells,).
        hour: Local hour since 1970, `NO_DAY` without a time.
        first_ms: Time of its first impression, `NO_FIRST` without one; `last_ms` as well.
        sums: `c_1`, … → sums, in the fewest bytes.
        nameless: Impressions of each row class that have no unit.
        sub_bucket: Of each unit, shape (units,); None where the pass did not ask for it.
        are_numbered: Whether units are rows, whose hashes are their numbers from 1.
    """

    hashes: arrays.Integers
    unit: NDArray[np.int32]
    kind: NDArray[np.int32]
    hour: NDArray[np.int32]
    first_ms: arrays.Integers
    last_ms: arrays.Integers
    sums: Mapping[str, NDArray[np.integer]]
    kinds: Sequence[RowClass]
    nameless: Sequence[int]
    sub_bucket: NDArray[np.int16] | None = None
    are_numbered: bool = False

    @cached_property
    def day(self) -> NDArray[np.int32]:
        """Return the local day since 1970 of each cell; `NO_DAY` without a time."""
        no_time = self.hour == arrays.NO_DAY
        return self.hour if no_time.all() else np.where(no_time, arrays.NO_DAY, self.hour // HOURS)

    @cached_property
    def counts(self) -> NDArray[np.bool_]:
        """Tell whether the impressions of each cell count."""
        return np.array([kind.set_aside is None for kind in self.kinds], dtype=bool)[self.kind]

    @cached_property
    def in_period(self) -> NDArray[np.bool_]:
        """Tell whether each cell is of the period."""
        return np.array([kind.phase == IN_PERIOD for kind in self.kinds], dtype=bool)[self.kind]


def write_hashed_cells(engine: Engine, schema: LogSchema, cells: str) -> str:
    """Write the rows of a relation of cells, with hashes of unit and row class."""
    columns = {
        "unit_hash": write_unit_hash(engine, schema, "unit_id"),
        # A second hash tells whether two units share the first by chance.
        "second_hash": f"cast({engine.hash64(['unit_id', '1'])} % {2**31} as int)",
        "kind_hash": engine.hash64(_list_kind_columns(schema)),
    }
    return f"select *, {', '.join(f'{sql} as {n}' for n, sql in columns.items())} from {cells}"


def write_unit_hash(engine: Engine, schema: LogSchema, unit: str) -> str:
    """Write the hash of a unit; of a row of a table without ids, its number."""
    log = schema.impressions
    is_row = log.log == UNITS and "unit_id" not in log and "impression_id" not in log
    return f"cast({unit} as bigint)" if is_row else engine.hash64([unit])


def _list_kind_columns(schema: LogSchema) -> list[str]:
    """List the columns whose values cells of one kind share."""
    return ["phase", "variant", "is_exposed", *(quote(f"s_{name}") for name in schema.segments)]


def read_cells(engine: Engine, schema: LogSchema, bucket: str | None = None) -> LogCells:
    """Read the rows of `logged_cells` as arrays.

    `bucket` is SQL of the sub-bucket of a unit over `unit_id`.

    Raises:
        LogError: Two units, or two kinds, have the same hash.
    """
    kind_sql = ", ".join(["kind_hash", *_list_kind_columns(schema)])
    rows = engine.rows(
        f"select {kind_sql}, max(case when unit_id is not null then set_aside end) as reason, "
        "cast(sum(case when unit_id is null then c_1 else 0 end) as bigint) as nameless "
        f"from logged_cells group by {kind_sql} order by kind_hash"
    )
    kind_hashes = np.array([row[0] for row in rows], dtype=np.int64)
    if len({*kind_hashes.tolist()}) < len(kind_hashes):
        raise LogError("two kinds of impressions have the same hash", "report it with the file")
    sums = [*schema.components.values()]
    absent = {"hour": arrays.NO_DAY, "first_ms": arrays.NO_FIRST, "last_ms": arrays.NO_LAST}
    # What all rows share is not fetched: a table of units may have many.
    shared = {} if schema.has_time else {**absent}
    if schema.impressions.log == UNITS:
        shared |= {schema.components["1"]: 1, schema.clicks_component: 0}
    fetched_names = [name for name in (*absent, *sums) if name not in shared]
    columns = {
        **{name: name for name in ("unit_hash", "second_hash", "kind_hash")},
        **{name: f"coalesce({name}, {absent.get(name, 0)})" for name in fetched_names},
        **({"bucket": bucket} if bucket else {}),
    }
    selected = ", ".join(f"{sql} as {name}" for name, sql in columns.items())
    fetched = dict(engine.arrays(f"select {selected} from logged_cells where unit_id is not null"))
    # Everything that follows finds the cells of a unit side by side.
    order = np.argsort(fetched["unit_hash"])
    # Each column as fetched goes before the next is sorted: together they would take twice as much.
    ordered = {name: np.asarray(fetched.pop(name))[order] for name in columns}
    unit, second = ordered["unit_hash"], ordered.pop("second_hash")
    is_same = unit[1:] == unit[:-1]
    if (is_same & (second[1:] != second[:-1])).any():
        raise LogError("two units have the same hash of 94 bits", "report it with the log")
    starts = arrays.run_starts(unit)
    for name, value in shared.items():
        kind = np.int32 if name == "hour" else np.int64
        # A column that all rows share takes the memory of one value.
        ordered[name] = np.broadcast_to(np.array(value, kind), len(unit))
    return LogCells(
        hashes=unit[starts],
        unit=arrays.run_numbers(starts, len(unit)).astype(np.int32),
        kind=np.searchsorted(kind_hashes, ordered["kind_hash"]).astype(np.int32),
        hour=ordered["hour"].astype(np.int32, copy=False),
        first_ms=ordered["first_ms"],
        last_ms=ordered["last_ms"],
        sums={name: arrays.downcast(ordered.pop(name)) for name in sums},
        kinds=[_make_row_class(row[1:-1]) for row in rows],
        nameless=[read_int(row[-1]) for row in rows],
        sub_bucket=ordered["bucket"][starts].astype(np.int16) if bucket else None,
    )


def _make_row_class(row: Sequence[Cell]) -> RowClass:
    phase, variant, _, *values, set_aside = row
    reason, variant_name = (None if text is None else str(text) for text in (set_aside, variant))
    return RowClass(
        read_int(phase), variant_name, tuple(str(value or "") for value in values), reason
    )


def sum_unit_days(cells: LogCells, unit_index: arrays.Codes) -> arrays.UnitDays:
    """Sum the cells of analysed units by day; `c_days` counts days."""
    unit = unit_index[cells.unit]
    rows = arrays.find_rows(cells.counts & (unit != arrays.NONE))
    days = arrays.sum_by_unit_day(unit, cells.in_period, cells.day, cells.sums, rows)
    sums = {name: arrays.downcast(column) for name, column in days.columns.items()}
    return days._replace(columns={"c_days": (days.day != arrays.NO_DAY).astype(np.int64), **sums})
