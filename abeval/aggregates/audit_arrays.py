"""Count what audits need, by cell and variant: pure functions of arrays.

Units are what is independent. Of hours and days, which are many, they are put into 64 groups by
their hash, and the variance comes from the sums of the groups; of shares each unit counts by
itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.aggregates import GroupRows, UnitShares
from abeval.logs.unit_arrays import NONE, Integers, Labels, find_rows
from abeval.stats.faults import UnitSums

CLUSTERS = 64
"""Number of groups of units, the clusters of every test of hours."""

Arrays = Mapping[str, Integers]
"""Columns of a query; `unit` is the place of the unit in `AuditedUnits`."""

_Counts = NDArray[np.integer] | NDArray[np.bool_]

GAPS = 50
"""Fewest distances between a unit's lists that tell whether they are alike."""

HOURS, CLOCK = "hour", "clock:"
"""Audits by hour, and by hour of the day: then the segment if there is one."""

PLACE = "position of the list"
"""Name of the cells of lists by position, beside those of segments."""

_AT_ONCE_MS = 10_000
_FEWEST_ITEMS = 3
_LARGEST_CELLS = 50
_ALIKE, _MOSTLY = 0.2, 0.6
_AWAKE = 22


class AuditedUnits(NamedTuple):
    """Hold the audited units, sorted by hash.

    Attributes:
        number: Hash of each unit, shape (units,).
        variant: Index of its variant in `variants`.
        variant_group: `variant` and the group of the unit, as one number.
        split_period: Number of the split period in which it entered.
    """

    number: Integers
    variant: Integers
    variant_group: Integers
    split_period: Integers
    segments: Mapping[str, Labels]
    variants: Sequence[str]

    def sum_times(
        self,
        unit: NDArray[np.integer],
        rows: NDArray[np.integer],
        time: Integers,
        times: Integers,
        labels: Labels | None = None,
        most: int = 1,
    ) -> list[GroupRows]:
        """Sum rows by time, in the largest cells of a segment.

        Units are compared within the split period in which they entered. `time` is the index of
        each row in `times`.
        """
        code, names = np.zeros(self.number.size, np.int64), [""]
        if labels is not None:
            sizes = np.bincount(labels.code, minlength=len(labels.names))
            largest = np.argsort(-sizes, kind="stable")[:most]
            names = [labels.names[number] for number in largest.tolist()]
            rank = np.full(len(labels.names), len(names))
            rank[largest] = np.arange(largest.size)
            code = rank[labels.code]
        periods = int(self.split_period.max(initial=0)) + 1
        cells = [(period, name) for name in names for period in range(periods)]
        # Units of smaller cells, if any, are in one more. One sum of all rows, whatever divides
        # them.
        cell = np.minimum(code * periods + self.split_period, len(cells))
        many = max(len(cells), int(cell.max(initial=0)) + 1)
        shape = (many, len(self.variants), CLUSTERS, times.size)
        group = cell * (shape[1] * CLUSTERS) + self.variant_group
        sums = np.bincount(group[unit] * times.size + time, rows, int(np.prod(shape)))
        of_cells = np.moveaxis(sums.astype(np.int64).reshape(shape), 3, 1)
        return [GroupRows(*key, times, y) for key, y in zip(cells, of_cells, strict=False)]

    def sums(self, unit: NDArray[np.integer], weight: _Counts | None) -> Integers:
        """Sum rows by unit; without `weight`, count them."""
        return np.bincount(unit, weight, self.number.size).astype(np.int64)

    def shares(
        self,
        audit: str,
        unit: Integers,
        y: _Counts,
        x: _Counts | None = None,
        cell: str = "",
        by_segment: bool = False,
    ) -> Iterator[UnitShares]:
        """Sum shares of rows of units in one cell, and by segment if asked for.

        A segment is an audit of its own, `AUDIT:SEGMENT`. Without `x`, rows are counted.
        """
        sums = self.sums(unit, y), self.sums(unit, x)
        yield from self.shares_of_units(audit, *sums, cell, by_segment)

    def shares_of_units(
        self, audit: str, y: Integers, x: Integers, cell: str = "", by_segment: bool = False
    ) -> Iterator[UnitShares]:
        """Sum shares that are known of each unit, as `shares` does of rows."""
        sums = y, x
        yield from sum_unit_shares(audit, [cell], self.variants, self.variant, *sums)
        for name, labels in self.segments.items() if by_segment else ():
            code = labels.code.astype(np.int64) * len(self.variants) + self.variant
            yield from sum_unit_shares(f"{audit}:{name}", labels.names, self.variants, code, *sums)


def sum_unit_shares(
    audit: str,
    cells: Sequence[str],
    variants: Sequence[str],
    code: Integers,
    y: Integers,
    x: Integers,
) -> Iterator[UnitShares]:
    """Sum rows, and shares of rows, over the units that have any.

    `code` of each unit is the index of its cell, times the number of variants, plus that of its
    variant.
    """
    has_rows = np.flatnonzero(x)
    code, y, x = code[has_rows], y[has_rows], x[has_rows]
    # A unit with more copies than rows would otherwise outweigh all others.
    share = np.minimum(y / x, 1.0)
    size = len(cells) * len(variants)
    sums = (
        np.bincount(code, weight, size).tolist() for weight in (y, x, None, share, share * share)
    )
    for number, (counted, rows, *of_units) in enumerate(zip(*sums, strict=True)):
        if rows:
            names = cells[number // len(variants)], variants[number % len(variants)]
            yield UnitShares(audit, *names, int(counted), int(rows), UnitSums(*of_units))


class HourlyRows(NamedTuple):
    """Hold impressions of units by local hour, one row or more per unit and hour.

    Attributes:
        unit: Index of the unit, shape (rows,).
        distinct_hours: The hours since 1970, sorted; without those of rows without a time.
        hour: Index of the hour in `distinct_hours`, `NONE` for rows without a time.
    """

    unit: Integers
    distinct_hours: Integers
    hour: Integers
    first_ms: Integers
    last_ms: Integers
    impressions: Integers
    clicks: Integers


def sum_hours(units: AuditedUnits, hours: HourlyRows) -> dict[str, list[GroupRows]]:
    """Sum rows by local hour, and by hour of the day, of all units and by segment."""
    timed = find_rows(hours.hour != NONE)
    unit, hour, rows = hours.unit[timed], hours.hour[timed], hours.impressions[timed]
    audits = {HOURS: units.sum_times(unit, rows, hour, hours.distinct_hours)}
    hour_of_day = (hours.distinct_hours % 24)[hour]
    for name, labels in [("", None), *units.segments.items()]:
        audits[f"{CLOCK}{name}"] = units.sum_times(
            unit, rows, hour_of_day, np.arange(24), labels, _LARGEST_CELLS
        )
    return audits


def list_shares(units: AuditedUnits, lists: Arrays) -> Iterator[UnitShares]:
    """Count positions missing in lists, first positions, and repeated lists."""
    unit, first, last = lists["unit"], lists["first_place"], lists["last_place"]
    spans = last - first + 1
    holes = spans - np.bitwise_count(lists["places"]).astype(np.int64)
    yield from units.shares("holes", unit, holes, spans, by_segment=bool(holes.any()))
    if holes.any():
        # Positions are bits of one signed number, so no list is looked at beyond 61.
        for position in range(1, 62):
            # Of the lists that begin before the place and go on behind it.
            reach = np.flatnonzero(
                (lists["first_place"] < position) & (lists["last_place"] > position)
            )
            lacks = 1 - (lists["places"][reach] >> position & 1)
            if lacks.any():
                yield from units.shares(
                    f"holes:{PLACE}", lists["unit"][reach], lacks, cell=str(position)
                )
    for cell, starts in (("0", first == 0), ("2", first > 1)):
        yield from units.shares("list_start", unit, starts, cell=cell)
    if lists["items"].any():
        yield from _count_repeated_lists(units, lists)


def _count_repeated_lists(units: AuditedUnits, lists: Arrays) -> Iterator[UnitShares]:
    """Count repeated lists: of the unit itself, of other units, and the commonest.

    Two lists are the same if they have the same items in the same order.
    """
    # Lists of one or two items are often the same by chance.
    long = np.flatnonzero(lists["shown"] >= _FEWEST_ITEMS)
    lists = {name: values[long] for name, values in lists.items()}
    key = _hash_lists(lists)
    order = np.lexsort((key, lists["time_ms"], lists["unit"]))
    unit, key, time = lists["unit"][order], key[order], lists["time_ms"][order]
    if not unit.size:
        return
    later, again = np.zeros((2, unit.size), bool)
    later[1:] = unit[1:] == unit[:-1]
    again[1:] = later[1:] & (key[1:] == key[:-1])
    at_once = again.copy()
    at_once[1:] &= np.diff(time) <= _AT_ONCE_MS
    _, first, key_index, count = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    # Rows are sorted by unit, and of several rows the last is written.
    lasts = np.zeros(count.size, np.int64)
    lasts[key_index] = unit
    # The first list of a unit cannot be its last one again: more lists would have more of these.
    cells = {
        "at once": (at_once, later),
        "again": (again & ~at_once, later),
        "one": (key_index == np.argmax(count), None),
        "of others": ((unit[first] < lasts)[key_index], None),
    }
    for cell, (chosen, among) in cells.items():
        yield from units.shares("list_repeat", unit, chosen, among, cell)


def _hash_lists(lists: Arrays) -> NDArray[np.uint64]:
    """Hash each list, by its items and their order."""
    key = np.zeros(lists["unit"].size, np.uint64)
    for name in ("items", "items_placed", "items_twice_placed", "shown", "first_place"):
        key = (key ^ lists[name].astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        # The multiplication mixes low bits into high ones, the shift high ones into low.
        key ^= key >> np.uint64(29)
    return key


class MachineUnits(NamedTuple):
    """Mark the units that no single person can be.

    Attributes:
        looked_at: Units with enough lists to tell, or with any hours.
        regular: Those whose lists come at one and the same distance.
        awake: Those that are active in nearly every hour of some day.
        gap_ms: The median distance of the lists of each unit, 0 where that is not known.
    """

    looked_at: NDArray[np.bool_]
    regular: NDArray[np.bool_]
    awake: NDArray[np.bool_]
    gap_ms: Integers


def find_machines(
    units: AuditedUnits, hours: HourlyRows, unit: Integers, time: Integers, longest_ms: int
) -> MachineUnits:
    """Find units whose lists come at regular distances, or by day and by night.

    `unit` and `time` (ms) are those of each list; distances longer than `longest_ms` do not count.
    """
    size = units.number.size
    # Few units have so many lists, and only theirs are sorted.
    chosen = np.flatnonzero((np.bincount(unit, minlength=size) > GAPS)[unit])
    chosen = chosen[np.lexsort((time[chosen], unit[chosen]))]
    unit, time = unit[chosen], time[chosen]
    gap = np.diff(time)
    chosen = np.flatnonzero((np.diff(unit) == 0) & (gap > 0) & (gap <= longest_ms))
    unit, gap = unit[1:][chosen], gap[chosen]
    count = np.bincount(unit, minlength=size)
    enough = count >= GAPS
    chosen = np.flatnonzero(enough[unit])
    chosen = chosen[np.lexsort((gap[chosen], unit[chosen]))]
    unit, gap = unit[chosen], gap[chosen]
    start = np.searchsorted(unit, np.flatnonzero(enough))
    # Gaps are sorted within each unit, so the middle one is the median.
    median = np.zeros(size, np.int64)
    median[enough] = gap[start + count[enough] // 2]
    # Between a person's lists a second or a day may pass. Of 50 distances or more of a machine,
    # three of five are within a fifth of their median.
    alike = np.abs(gap - median[unit]) <= _ALIKE * median[unit]
    regular = enough & (np.bincount(unit, alike, size) >= _MOSTLY * np.maximum(count, 1))
    return MachineUnits(enough, regular, _find_awake_units(size, hours), median)


def _find_awake_units(size: int, hours: HourlyRows) -> NDArray[np.bool_]:
    timed = hours.hour != NONE
    many = np.bincount(hours.unit[timed], minlength=size) >= _AWAKE
    chosen = np.flatnonzero(timed & many[hours.unit])
    # A unit may have several rows in an hour, of several segments.
    active = np.unique(hours.unit[chosen] * hours.distinct_hours.size + hours.hour[chosen])
    unit, hour = np.divmod(active, max(hours.distinct_hours.size, 1))
    days, count = np.unique(
        np.stack([unit, hours.distinct_hours[hour] // 24]), axis=1, return_counts=True
    )
    awake = np.zeros(size, bool)
    awake[days[0, count >= _AWAKE]] = True
    return awake


def sum_machine_shares(
    units: AuditedUnits, machines: MachineUnits, hours: HourlyRows, has_clicks: bool
) -> Iterator[UnitShares]:
    """Sum the impressions and clicks of machines against those of all units.

    In the cell `gap` units are those with enough lists to tell, of which the regular ones count; y
    is their usual distance.
    """
    chosen = machines.regular | machines.awake
    rows = {"impressions": hours.impressions, **({"clicks": hours.clicks} if has_clicks else {})}
    sums = {name: units.sums(hours.unit, selected) for name, selected in rows.items()}
    for number, variant in enumerate(units.variants):
        selected = units.variant == number
        count = int((selected & chosen).sum())
        for name, of_units in sums.items():
            counts = int(of_units[selected & chosen].sum()), int(of_units[selected].sum())
            yield UnitShares(
                "machine", name, variant, *counts, UnitSums(int(selected.sum()), count, count)
            )
        gaps = machines.gap_ms[selected & machines.regular]
        gap = int(np.median(gaps)) if gaps.size else 0
        looked_at = (selected & machines.looked_at).sum()
        regular = UnitSums(int(looked_at), gaps.size, gaps.size)
        yield UnitShares("machine", "gap", variant, gap, 1, regular)
