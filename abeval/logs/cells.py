"""The cells of a log as arrays: sums by unit, hour and kind, from the one pass over the log.

`prepare.py` reads them after the pass; `placing.py` gives each unit its variant, `accounting.py`
counts what became of the rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.engines.protocol import Cell, Engine, whole
from abeval.engines.sql import quoted
from abeval.errors import LogError
from abeval.logs.row_sql import component_name
from abeval.logs.shape import LogShape
from abeval.logs.unit_arrays import NO_DAY, NO_FIRST, NO_LAST, NONE, Codes, UnitDays, Whole

OUTSIDE, NO_TIME, BEFORE, IN_PERIOD = range(4)
"""Phases of an impression: in neither period, without a time, in the pre-period, in the period."""

HOURS = 24


class Kind(NamedTuple):
    """What cells have in common.

    Attributes:
        phase: Of the impressions.
        variant: As logged, None where the log has none.
        is_exposed: Whether the unit had been exposed; true without a log of exposures.
        segments: Value of each segment, empty where it has none, in the order of the shape.
        set_aside: Why its impressions do not count, None where they do.
    """

    phase: int
    variant: str | None
    is_exposed: bool
    segments: tuple[str, ...]
    set_aside: str | None = None


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a log, sorted by unit; those of rows without a unit are not among them.

    Attributes:
        hashes: Hash of each unit, sorted, shape (units,).
        unit: Place of the unit in `hashes`, shape (cells,).
        kind: Place in `kinds`.
        hour: Local hour since 1970, `NO_DAY` without a time.
        first_ms: Time of its first impression, `NO_FIRST` without one.
        last_ms: Of its last, `NO_LAST` without one.
        sums: `c_1`, … → sums.
        kinds: Every kind once.
        nameless: Impressions of each kind that have no unit.
    """

    hashes: Whole
    unit: NDArray[np.int64]
    kind: NDArray[np.int64]
    hour: NDArray[np.int64]
    first_ms: Whole
    last_ms: Whole
    sums: Mapping[str, Whole]
    kinds: Sequence[Kind]
    nameless: Sequence[int]

    @property
    def day(self) -> NDArray[np.int64]:
        """Local day since 1970 of each cell, `NO_DAY` without a time."""
        return np.where(self.hour == NO_DAY, NO_DAY, self.hour // HOURS)

    @cached_property
    def counts(self) -> NDArray[np.bool_]:
        """Whether the impressions of each cell count."""
        return np.array([kind.set_aside is None for kind in self.kinds], dtype=bool)[self.kind]

    @cached_property
    def in_period(self) -> NDArray[np.bool_]:
        """Whether each cell is of the period."""
        return np.array([kind.phase == IN_PERIOD for kind in self.kinds], dtype=bool)[self.kind]


def read_cells(engine: Engine, shape: LogShape, variants: Sequence[str] | None) -> Cells:
    """The rows of `logged_sums` as arrays.

    Args:
        engine: After the pass.
        shape: What it summed.
        variants: Those whose impressions count; None where other logs place the units.

    Raises:
        LogError: Two units have the same hash.
    """
    sums = [component_name(i) for i in range(len(shape.components))]
    names = ["phase", "variant", "is_exposed", *(quoted(f"s_{name}") for name in shape.segments)]
    whole = [f"cast({name} as bigint) as {name}" for name in sums]
    arrays = engine.arrays(
        f"select {engine.hash64(['unit_id'])} as unit, {engine.hash64(['unit_id', '1'])} as twin, "
        f"unit_id is null as is_nameless, {engine.hash64(names)} as kind, "
        f"cast(coalesce(hour, {NO_DAY}) as bigint) as hour, "
        f"cast(coalesce(first_ms, {NO_FIRST}) as bigint) as first_ms, "
        f"cast(coalesce(last_ms, {NO_LAST}) as bigint) as last_ms, {', '.join(whole)} "
        "from logged_sums"
    )
    rows = engine.rows(
        f"select distinct {', '.join(names)}, {engine.hash64(names)} from logged_sums"
    )
    by_hash = sorted((int(str(row[-1])), row) for row in rows)
    kinds = [_kind(row[:-1], variants) for _, row in by_hash]
    hashes = np.array([one for one, _ in by_hash], dtype=np.int64)
    if len({*hashes.tolist()}) < len(hashes):
        raise LogError("two kinds of impressions have the same hash", "report it with the file")
    kind = np.searchsorted(hashes, arrays["kind"])
    is_nameless = np.asarray(arrays["is_nameless"], dtype=bool)
    nameless = np.zeros(len(kinds), dtype=np.int64)
    np.add.at(nameless, kind[is_nameless], arrays["c_1"][is_nameless])
    return _sorted(arrays, kind, np.flatnonzero(~is_nameless), sums, kinds, nameless.tolist())


def _kind(row: Sequence[Cell], variants: Sequence[str] | None) -> Kind:
    """A kind, with the reason why its impressions do not count."""
    number, variant, is_exposed, *values = row
    phase, segments = whole(number), tuple(str(value or "") for value in values)
    set_aside = {NO_TIME: "null_time", OUTSIDE: "outside_period"}.get(phase)
    if variants is not None and phase == IN_PERIOD and variant not in variants:
        set_aside = "null_variant" if variant is None else "not_compared"
    if set_aside is None and not is_exposed:
        set_aside = "not_exposed"
    named = None if variant is None else str(variant)
    return Kind(phase, named, bool(is_exposed), segments, set_aside)


def _sorted(
    arrays: Mapping[str, NDArray[np.generic]],
    kind: NDArray[np.int64],
    named: NDArray[np.intp],
    sums: Sequence[str],
    kinds: Sequence[Kind],
    nameless: Sequence[int],
) -> Cells:
    unit = arrays["unit"].astype(np.int64, copy=False)
    order = named[np.argsort(unit[named], kind="stable")]
    unit, twin = unit[order], arrays["twin"][order]
    starts = starts_of(unit)
    place = places_of(unit)
    if (twin != twin[starts][place]).any():
        raise LogError("two units have the same hash of 128 bits", "report it with the log")
    whole = {name: arrays[name][order].astype(np.int64, copy=False) for name in arrays}
    return Cells(
        hashes=unit[starts],
        unit=place,
        kind=kind[order],
        hour=whole["hour"],
        first_ms=whole["first_ms"],
        last_ms=whole["last_ms"],
        sums={name: whole[name] for name in sums},
        kinds=kinds,
        nameless=nameless,
    )


def starts_of(sorted_values: NDArray[np.generic]) -> NDArray[np.intp]:
    """Where each run of equal values, or of equal rows, begins.

    Example:
        >>> starts_of(np.array([4, 4, 7])).tolist()
        [0, 2]
    """
    return np.flatnonzero(_begins(sorted_values))


def places_of(sorted_values: NDArray[np.generic]) -> NDArray[np.int64]:
    """The number of the run that each value is of.

    Example:
        >>> places_of(np.array([4, 4, 7])).tolist()
        [0, 0, 1]
    """
    return np.cumsum(_begins(sorted_values)) - 1


def _begins(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    begins = np.ones(len(values), dtype=bool)
    changes = values[1:] != values[:-1]
    begins[1:] = changes if values.ndim == 1 else changes.any(axis=1)
    return begins


def reduced(
    by: np.ufunc, unit: NDArray[np.int64], values: Whole, units: int, default: int
) -> Whole:
    """The values of each unit reduced to one; `default` for units without any.

    Args:
        by: Such as `np.minimum`.
        unit: Place of the unit, sorted, shape (rows,).
        values: Of each row.
        units: How many units there are.
        default: Of units without a row.

    Example:
        >>> reduced(np.minimum, np.array([0, 0, 2]), np.array([5, 3, 4]), 3, -1).tolist()
        [3, -1, 4]
    """
    whole = np.full(units, default, dtype=np.int64)
    if len(unit):
        starts = starts_of(unit)
        whole[unit[starts]] = by.reduceat(values, starts)
    return whole


def unit_days(cells: Cells, unit_of: Codes) -> UnitDays:
    """The sums of analysed units by day, with `c_days`, which counts days, and times.

    Args:
        cells: The cells of the log.
        unit_of: Place of each unit among the analysed ones, `NONE` where it is not.
    """
    rows = np.flatnonzero(cells.counts & (unit_of[cells.unit] != NONE))
    unit, in_period, day = unit_of[cells.unit[rows]], cells.in_period[rows], cells.day[rows]
    order = np.lexsort((day, in_period, unit))
    rows, unit = rows[order], unit[order]
    in_period, day = in_period[order], day[order]
    starts = starts_of(np.stack([unit, in_period, day], axis=1))
    day = day[starts]
    sums = {"c_days": (day != NO_DAY).astype(np.int64)}
    reduces = {"first_ms": np.minimum, "last_ms": np.maximum}
    times = {"first_ms": cells.first_ms, "last_ms": cells.last_ms}
    for name, values in {**times, **cells.sums}.items():
        own = values[rows]
        by = reduces.get(name, np.add)
        sums[name] = own if len(starts) == len(rows) else by.reduceat(own, starts)
    return UnitDays(unit[starts].astype(np.int32), in_period[starts], day.astype(np.int32), sums)
