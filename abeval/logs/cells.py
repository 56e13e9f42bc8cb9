"""Cells of a log as arrays: sums by unit, hour and kind, from the one pass over the log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.engines.sql import ArrayEngine, Cell, Engine, query, quoted, row_count, whole
from abeval.errors import LogError
from abeval.logs import unit_arrays as arrays
from abeval.logs.checks import check_clicks
from abeval.logs.run import Run
from abeval.logs.shape import LogShape

_FEW = 100_000
"""Rows of a table of units that are kept as sums, rather than read anew by each query."""


def write_sums(run: Run, shape: LogShape) -> None:
    """Create `logged_sums`: of a log its sums, of a table of units a row of each."""
    check_clicks(shape, run.engine)
    engine, of_units = run.engine, run.experiment.of_units
    # A few rows are planned once; many would be in memory twice.
    is_few = isinstance(engine, ArrayEngine) and of_units and row_count(engine, "raw_units") <= _FEW
    create = engine.view if of_units and not is_few else engine.table
    create("logged_sums", query(f"units/logged_{'rows' if of_units else 'sums'}"))


OUTSIDE, NO_TIME, BEFORE, IN_PERIOD = range(4)
"""Phases of an impression: in neither period, without a time, in the pre-period, in the period."""

HOURS = 24


class Kind(NamedTuple):
    """What cells have in common.

    `phase` is `OUTSIDE` to `IN_PERIOD`; `variant` is as logged, None where the log has none.
    `segments` has a value of each, in the order of the shape; it is empty for none. `set_aside` is
    why its impressions do not count, None where they do.
    """

    phase: int
    variant: str | None
    segments: tuple[str, ...]
    set_aside: str | None = None


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a log, sorted by unit; those of rows without a unit are not among them.

    Attributes:
        hashes: Hash of each unit, sorted, shape (units,).
        unit: Place of the unit in `hashes`, shape (cells,).
        hour: Local hour since 1970, `NO_DAY` without a time and outside both periods.
        first_ms: Time of its first impression, `NO_FIRST` without one; `last_ms` as well.
        sums: `c_1`, … → sums, in the fewest bytes.
        nameless: Impressions of each kind that have no unit.
        sub_bucket: Of each unit, shape (units,); None where the pass did not ask for it.
    """

    hashes: arrays.Whole
    unit: NDArray[np.int32]
    kind: NDArray[np.int32]
    hour: NDArray[np.int32]
    first_ms: arrays.Whole
    last_ms: arrays.Whole
    sums: Mapping[str, NDArray[np.integer]]
    kinds: Sequence[Kind]
    nameless: Sequence[int]
    sub_bucket: NDArray[np.int16] | None = None

    @cached_property
    def day(self) -> NDArray[np.int32]:
        """Local day since 1970 of each cell, `NO_DAY` where the hour is."""
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


def read_cells(engine: Engine, shape: LogShape, set_aside: str, bucket: str | None = None) -> Cells:
    """Read the rows of `logged_sums` as arrays.

    `set_aside` is SQL of why impressions of a kind do not count, null if they do; `bucket` of the
    sub-bucket of a unit over `unit_id`.

    Raises:
        LogError: Two units, or two kinds, have the same hash.
    """
    names = ["phase", "variant", "is_exposed", *(quoted(f"s_{name}") for name in shape.segments)]
    listed, kind_hash = ", ".join(names), engine.hash64(names)
    rows = engine.rows(
        f"select {kind_hash} as kind, cast(sum(case when unit_id is null then c_1 else 0 end) "
        f"as bigint) as nameless, count(unit_id) as named, {set_aside} as set_aside, {listed} "
        f"from logged_sums group by {listed} order by kind"
    )
    kind_hashes = np.array([row[0] for row in rows], dtype=np.int64)
    if len({*kind_hashes.tolist()}) < len(kind_hashes):
        raise LogError("two kinds of impressions have the same hash", "report it with the file")
    sums = [*shape.components.values()]
    no = arrays.NO_DAY
    absent = {"first_ms": arrays.NO_FIRST, "last_ms": arrays.NO_LAST, **dict.fromkeys(sums, 0)}
    columns = {
        "unit": engine.hash64(["unit_id"]),
        "twin": f"cast({engine.hash64(['unit_id', '1'])} % {2**31} as int)",
        "kind": kind_hash,
        "hour": f"cast(case when phase >= {BEFORE} then coalesce(hour, {no}) else {no} end as int)",
        **{n: f"cast(coalesce({n}, {value}) as bigint)" for n, value in absent.items()},
        **({"bucket": bucket} if bucket else {}),
    }
    fetched = _fetched(engine, columns, sum(whole(row[2]) for row in rows))
    order = np.argsort(fetched["unit"])
    # Each column as fetched goes before the next is sorted: together they would take twice as much.
    ordered = {n: a.take(order) if (a := fetched.pop(n)).strides[0] else a for n in columns}
    unit, twin = ordered["unit"], ordered.pop("twin")
    is_same = unit[1:] == unit[:-1]
    if (is_same & (twin[1:] != twin[:-1])).any():
        raise LogError("two units have the same hash of 94 bits", "report it with the log")
    starts = arrays.heads(unit)
    return Cells(
        hashes=arrays.reduced(np.minimum, unit, starts),
        unit=arrays.runs(starts, len(unit)).astype(np.int32),
        kind=np.searchsorted(kind_hashes, ordered["kind"]).astype(np.int32),
        **{name: ordered[name] for name in ("hour", "first_ms", "last_ms")},
        sums={name: arrays.narrow(ordered.pop(name)) for name in sums},
        kinds=[_kind(row[3:]) for row in rows],
        nameless=[whole(row[1]) for row in rows],
        sub_bucket=ordered["bucket"][starts].astype(np.int16) if bucket else None,
    )


def _fetched(engine: Engine, columns: Mapping[str, str], size: int) -> dict[str, NDArray[Any]]:
    """Fetch columns of the rows of `logged_sums` that have a unit; `size` is their number."""
    listed = ", ".join(f"{sql} as {name}" for name, sql in columns.items())
    sql = f"select {listed} from logged_sums where unit_id is not null"
    if not isinstance(engine, ArrayEngine):
        return dict(engine.arrays(sql))
    fetched: dict[str, NDArray[Any]] = {name: np.zeros(size, dtype=np.int64) for name in columns}
    end = 0
    for rows in engine.chunks(sql):
        start, end = end, end + len(rows["unit"])
        for name, values in rows.items():
            if start == 0:
                # A column takes memory once it has a second value.
                fetched[name] = np.broadcast_to(values[:1].copy(), size)
            first = fetched[name][0]
            if not fetched[name].flags.writeable and (values != first).any():
                fetched[name] = np.empty(size, dtype=values.dtype)
                fetched[name][:start] = first
            if fetched[name].flags.writeable:
                fetched[name][start:end] = values
    return fetched


def _kind(row: Sequence[Cell]) -> Kind:
    set_aside, phase, variant, _, *values = row
    reason, named = (None if text is None else str(text) for text in (set_aside, variant))
    return Kind(whole(phase), named, tuple(str(value or "") for value in values), reason)


def days_of_units(cells: Cells, unit_of: arrays.Codes) -> arrays.UnitDays:
    """Sum the cells of analysed units, by their places `unit_of`, by day; `c_days` counts days."""
    unit = unit_of[cells.unit]
    rows = arrays.where(cells.counts & (unit != arrays.NONE))
    days = arrays.unit_days(unit, cells.in_period, cells.day, cells.sums, rows)
    sums = {name: arrays.narrow(column) for name, column in days.columns.items()}
    return days._replace(columns={"c_days": (days.day != arrays.NO_DAY).astype(np.int64), **sums})
