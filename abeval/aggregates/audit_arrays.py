"""What the audits count, by cell, variant and group of units: pure functions of arrays.

`audits.py` fetches the arrays of audited units, their hours, lists and clicks. Units are what is
independent: they are put into 64 groups by their hash, and the variance of a share comes from the
sums of the groups.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.logs.audited import CLUSTERS
from abeval.logs.unit_arrays import NO_DAY, Labels, Whole

Arrays = Mapping[str, Whole]
"""Columns of a query; `unit` is the place of the unit in `AuditedUnits`."""

AuditRow = tuple[str, str, str, int, int, int, int, int, int, int]
"""Audit, cell, variant, clusters, active, y, x, y_y, y_x, x_x."""

TURN = 1_000
"""Cosine and sine of the hour of the day are counted in so many parts of 1."""

_AT_ONCE_MS = 10_000
_FEWEST_ITEMS = 3
_AROUND = 7
_CELLS_AT_ONCE = 256
_LARGEST_CELLS = 50
_GAPS = 50
_ALIKE, _MOSTLY = 0.2, 0.6
_LONGEST_GAP_MS = 86_400_000
_AWAKE = 22


class AuditedUnits(NamedTuple):
    """The audited units, sorted by hash.

    Attributes:
        number: Hash of each unit, shape (units,).
        variant: Place of its variant in `variants`.
        group: Its group, from 0 on.
        cluster: The same of units of the sample, `CLUSTERS` or more for others.
        stretch: Number of the stretch in which it entered.
        segments: Name of each segment → its value.
        variants: Names.
    """

    number: Whole
    variant: Whole
    group: Whole
    cluster: Whole
    stretch: Whole
    segments: Mapping[str, Labels]
    variants: Sequence[str]

    @property
    def everyone(self) -> "AuditedUnits":
        """All units as the sample, for what is known of all of them."""
        return self._replace(cluster=self.group)

    def totals(self, unit: Whole, weight: Whole) -> Whole:
        """Sums by unit, shape (units,)."""
        sums = np.bincount(unit, weight, self.number.size)
        return sums.astype(np.int64)

    def grouped(
        self, unit: Whole, weight: Whole, cell: Whole | None = None, cells: int = 1
    ) -> Whole:
        """Sums by cell, variant and group of the sampled units.

        Args:
            unit: Place of the unit of each row.
            weight: What is summed.
            cell: Number of the cell of each row; all in one without it.
            cells: How many there are.

        Returns:
            Shape (cells, variants, groups).
        """
        own = np.flatnonzero(self.cluster[unit] < CLUSTERS)
        place = self.variant[unit[own]] * CLUSTERS + self.cluster[unit[own]]
        shape = (cells, len(self.variants), CLUSTERS)
        if cell is not None:
            place = place + cell[own] * (shape[1] * CLUSTERS)
        sums = np.bincount(place, weight[own], int(np.prod(shape)))
        return sums.astype(np.int64).reshape(shape)


def audit_rows(
    audit: str, cells: Sequence[str], variants: Sequence[str], y: Whole, x: Whole
) -> Iterator[AuditRow]:
    """Exact sums over the groups that have any rows.

    Args:
        audit: Its name.
        cells: Names of the cells.
        variants: Names of the variants.
        y: Numerators, shape (cells, variants, groups).
        x: Denominators, of a shape that broadcasts to it.

    Example:
        >>> y, x = np.array([[[1, 0]]]), np.array([[[4, 5]]])
        >>> list(audit_rows("null", ["score"], ["a"], y, x))
        [('null', 'score', 'a', 2, 1, 1, 9, 1, 4, 41)]
    """
    x = np.broadcast_to(x, y.shape)
    parts = ((x != 0) | (y != 0), y > 0, y, x, y * y, y * x, x * x)
    sums = [part.sum(axis=2).tolist() for part in parts]
    for cell, *of_cell in zip(cells, *sums, strict=True):
        for variant, *row in zip(variants, *of_cell, strict=True):
            if row[0]:
                yield (audit, cell, variant, *row)


def unit_shares(
    units: AuditedUnits, audit: str, y: Whole, x: Whole, cell: str = "", by_segment: bool = False
) -> Iterator[AuditRow]:
    """The share of sums of units: of all in one cell, and by cell of each segment, if asked for.

    A segment is an audit of its own, `AUDIT:SEGMENT`.
    """
    of = np.flatnonzero(x)
    yield from audit_rows(
        *(audit, [cell], units.variants), units.grouped(of, y[of]), units.grouped(of, x[of])
    )
    for name, labels in units.segments.items() if by_segment else ():
        code, cells = labels.code[of].astype(np.int64), len(labels.names)
        sums = (units.grouped(of, one[of], code, cells) for one in (y, x))
        yield from audit_rows(f"{audit}:{name}", labels.names, units.variants, *sums)


def hour_rows(units: AuditedUnits, hours: Arrays) -> Iterator[AuditRow]:
    """Rows by local hour, by hour of the day (in all and by segment), and by day beside others."""
    timed = np.flatnonzero(hours["hour"] != NO_DAY)
    unit, rows = hours["unit"][timed], hours["impressions"][timed]
    known, code = np.unique(hours["hour"][timed], return_inverse=True)
    totals = units.grouped(hours["unit"], hours["impressions"])
    for start in range(0, known.size, _CELLS_AT_ONCE):
        names = known[start : start + _CELLS_AT_ONCE]
        own = np.flatnonzero((code >= start) & (code < start + names.size))
        y = units.grouped(unit[own], rows[own], code[own] - start, names.size)
        yield from audit_rows("hour", [str(name) for name in names], units.variants, y, totals)
    of_day = known[code] % 24
    everyone = Labels(np.zeros(units.number.size, np.int32), [""])
    for name, labels in {"": everyone, **units.segments}.items():
        audit = f"rhythm:{name}" if name else "rhythm"
        yield from _rhythms(units, audit, labels, (unit, of_day, rows))
    yield from _days(units, unit, rows, code, (known // 24).astype("datetime64[D]"))


def _rhythms(
    units: AuditedUnits, audit: str, labels: Labels, rows: tuple[Whole, Whole, Whole]
) -> Iterator[AuditRow]:
    """The hours of the day in each of the largest cells, and the mean direction of the clock."""
    unit, hour, weight = rows
    code = labels.code[unit].astype(np.int64)
    sizes = np.bincount(code, weight, len(labels.names))
    angle = np.arange(24) * (2 * np.pi / 24)
    turns = [np.round(TURN * f(angle)).astype(np.int64) for f in (np.cos, np.sin)]
    for cell in np.argsort(-sizes, kind="stable")[:_LARGEST_CELLS].tolist():
        own = np.flatnonzero(code == cell)
        y = units.grouped(unit[own], weight[own], hour[own], 24)
        whole = y.sum(axis=0)
        y = np.concatenate([y, *[np.tensordot(turn, y, axes=1)[None] for turn in turns]])
        names = [f"{part} {labels.names[cell]}".rstrip() for part in (*range(24), "cos", "sin")]
        yield from audit_rows(audit, names, units.variants, y, whole)


def _days(
    units: AuditedUnits, unit: Whole, rows: Whole, code: Whole, days: NDArray[np.datetime64]
) -> Iterator[AuditRow]:
    """Rows of each day beside those of the days before it, and beside those of the days after."""
    known, day = np.unique(days, return_inverse=True)
    y = units.grouped(unit, rows, day[code], known.size)
    for place in range(1, known.size):
        sides = {
            "before": range(max(place - _AROUND, 0), place),
            "after": range(place + 1, min(place + 1 + _AROUND, known.size)),
        }
        for side, around in sides.items():
            if around:
                x = y[list(around)].sum(axis=0)
                yield from audit_rows(
                    f"day_{side}", [str(known[place])], units.variants, y[[place]], x
                )


def list_rows(units: AuditedUnits, lists: Arrays, has_items: bool) -> Iterator[AuditRow]:
    """Positions that lists lack, where they begin, and lists that are others over again."""
    unit, first, last = lists["unit"], lists["first_place"], lists["last_place"]
    spans = last - first + 1
    holes = spans - np.bitwise_count(lists["places"]).astype(np.int64)
    lengths = units.totals(unit, spans)
    one = np.ones(unit.size, np.int64)
    count = units.totals(unit, one)
    lacking = units.totals(unit, holes)
    yield from unit_shares(units, "holes", lacking, lengths, by_segment=bool(lacking.any()))
    yield from unit_shares(units, "list_length", lengths, count)
    if lacking.any():
        yield from _holes_at(units, lists)
    for cell, starts in (("0", first == 0), ("2", first > 1)):
        begins = units.totals(unit, starts.astype(np.int64))
        yield from unit_shares(units, "list_start", begins, count, cell)
    if has_items:
        yield from _repeated(units, lists)


def _holes_at(units: AuditedUnits, lists: Arrays) -> Iterator[AuditRow]:
    """Of the lists that begin before a place and go on behind it, those that lack it."""
    for place in range(1, 62):
        reach = np.flatnonzero((lists["first_place"] < place) & (lists["last_place"] > place))
        lacks = 1 - (lists["places"][reach] >> place & 1)
        if lacks.any():
            unit = lists["unit"][reach]
            y, x = units.grouped(unit, lacks), units.grouped(unit, np.ones_like(lacks))
            yield from audit_rows("holes_at", [str(place)], units.variants, y, x)


def _repeated(units: AuditedUnits, lists: Arrays) -> Iterator[AuditRow]:
    """Lists of the same items in the same order: of the unit itself, of others, of most."""
    long = np.flatnonzero(lists["shown"] >= _FEWEST_ITEMS)
    lists = {name: values[long] for name, values in lists.items()}
    key = _keys(lists)
    order = np.lexsort((key, lists["time_ms"], lists["unit"]))
    unit, key, time = lists["unit"][order], key[order], lists["time_ms"][order]
    if not unit.size:
        return
    again = np.zeros(unit.size, bool)
    again[1:] = (unit[1:] == unit[:-1]) & (key[1:] == key[:-1])
    at_once = again.copy()
    at_once[1:] &= np.diff(time) <= _AT_ONCE_MS
    _, place, count = np.unique(key, return_inverse=True, return_counts=True)
    firsts = np.full(count.size, units.number.size)
    np.minimum.at(firsts, place, unit)
    lasts = np.zeros(count.size, np.int64)
    np.maximum.at(lasts, place, unit)
    cells = {
        "at once": at_once,
        "again": again & ~at_once,
        "one": place == np.argmax(count),
        "of others": (firsts < lasts)[place],
    }
    total = units.totals(unit, np.ones(unit.size, np.int64))
    for cell, chosen in cells.items():
        repeated = units.totals(unit, chosen.astype(np.int64))
        yield from unit_shares(units, "list_repeat", repeated, total, cell)


def _keys(lists: Arrays) -> NDArray[np.uint64]:
    """A number of each list that lists of other items, or of another order, do not share."""
    key = np.zeros(lists["unit"].size, np.uint64)
    for name in ("items", "items_placed", "items_twice_placed", "shown", "first_place"):
        key = (key ^ lists[name].astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
    return key


class Machines(NamedTuple):
    """Units that no single person can be.

    Attributes:
        looked_at: Units with enough lists to tell, or with any hours.
        regular: Those whose lists come at one and the same distance.
        awake: Those that are active in nearly every hour of some day.
        gap_ms: The median distance of the lists of each unit, 0 where that is not known.
    """

    looked_at: NDArray[np.bool_]
    regular: NDArray[np.bool_]
    awake: NDArray[np.bool_]
    gap_ms: Whole


def machines(units: AuditedUnits, hours: Arrays, moments: Arrays) -> Machines:
    """Units whose lists come at regular distances, or by day and by night.

    Between the lists of a person a second or a day may pass: few of the distances are alike. Those
    of a machine are: of 50 or more, three of five are within a fifth of their median.

    Args:
        units: The audited units.
        hours: `unit` and `hour` of their impressions.
        moments: `unit` and `time_ms` of their lists.
    """
    size = units.number.size
    order = np.lexsort((moments["time_ms"], moments["unit"]))
    unit, time = moments["unit"][order], moments["time_ms"][order]
    gap = np.diff(time)
    own = np.flatnonzero((np.diff(unit) == 0) & (gap > 0) & (gap <= _LONGEST_GAP_MS))
    unit, gap = unit[1:][own], gap[own]
    count = np.bincount(unit, minlength=size)
    many = np.flatnonzero(count[unit] >= _GAPS)
    unit, gap = unit[many], gap[many]
    unit, gap = (values[np.lexsort((gap, unit))] for values in (unit, gap))
    start = np.searchsorted(unit, np.arange(size))
    enough = count >= _GAPS
    median = np.zeros(size, np.int64)
    median[enough] = gap[start[enough] + count[enough] // 2]
    alike = np.abs(gap - median[unit]) <= _ALIKE * median[unit]
    regular = enough & (np.bincount(unit, alike, size) >= _MOSTLY * np.maximum(count, 1))
    return Machines(enough, regular, _awake(size, hours), median)


def _awake(size: int, hours: Arrays) -> NDArray[np.bool_]:
    timed = np.flatnonzero(hours["hour"] != NO_DAY)
    unit, day = hours["unit"][timed], hours["hour"][timed] // 24
    if not unit.size:
        return np.zeros(size, bool)
    span = int(day.max() - day.min()) + 1
    of_day, active = np.unique(unit * span + (day - day.min()), return_counts=True)
    awake = np.zeros(size, bool)
    awake[of_day[active >= _AWAKE] // span] = True
    return awake


def machine_rows(
    units: AuditedUnits, found: Machines, sums: Mapping[str, Whole]
) -> Iterator[AuditRow]:
    """What machines make of each sum of a variant; `clusters` counts the machines.

    Of the cell `gap` it counts the regular ones; y is their usual distance, x all units with enough
    lists to tell.

    Args:
        units: The audited units.
        found: What is known of them.
        sums: Name of a sum → its value of each unit.
    """
    for number, variant in enumerate(units.variants):
        own = units.variant == number
        chosen = own & (found.regular | found.awake)
        count = int(chosen.sum())
        for name, values in sums.items():
            part = int(values[chosen].sum())
            whole = int(values[own].sum())
            yield ("machine", name, variant, count, count, part, whole, 0, 0, 0)
        steady = own & found.regular
        count, gap = int(steady.sum()), int(np.median(found.gap_ms[steady])) if steady.any() else 0
        looked_at = int((own & found.looked_at).sum())
        yield ("machine", "gap", variant, count, count, gap, looked_at, 0, 0, 0)
