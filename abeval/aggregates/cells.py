"""Cells of segments that are shown together: those of few units, and those beyond a limit.

`collect.py` hands it aggregates when they are complete; everything that is shown or saved comes
after it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.sums import CELL, METRIC, SEGMENT, SLICE, Row, add_signed
from abeval.engines.protocol import whole

LIMIT = 300
"""The most cells of a segment that are shown, `OTHER` included: all countries fit."""

OTHER = "other"
"""The name of the cells that are shown together; a value of this name is one of them."""

Units = Mapping[str, int]
"""Variant → units."""


@dataclass(frozen=True)
class Joined:
    """Which cells of a segment are shown as `OTHER`.

    Attributes:
        cells: Every cell of the segment.
        beyond: Those beyond the limit.
        small: Those of few units, for some metric.
    """

    cells: frozenset[str]
    beyond: frozenset[str]
    small: frozenset[str]


def joined_cells(aggregates: Aggregates, min_units: int | None) -> Aggregates:
    """Aggregates in which no segment has too many cells, or cells of too few units.

    Args:
        aggregates: Complete ones.
        min_units: The fewest units of a variant in a cell that is shown; None for no such limit.
    """
    notes, by_slice = list[str](), _by(SLICE, aggregates.moments)
    for name in (name for name in by_slice if name.startswith(SEGMENT)):
        by_slice[name], joined = _join(by_slice[name], min_units)
        notes += _notes(name.removeprefix(SEGMENT), joined, min_units)
    if not notes:
        return aggregates
    moments = [row for rows in by_slice.values() for row in rows]
    return replace(aggregates, moments=moments, notes=(*aggregates.notes, *notes))


def _by(label: int, rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows by one of their labels."""
    by_label: dict[str, list[Row]] = {}
    for row in rows:
        by_label.setdefault(str(row[label]), []).append(row)
    return by_label


def _join(rows: list[Row], min_units: int | None) -> tuple[list[Row], Joined]:
    """The rows of a segment, with cells joined for all metrics or for one."""
    sizes: dict[str, int] = {}
    for of_metric in _by(METRIC, rows).values():
        for cell, units in _units(of_metric).items():
            sizes[cell] = max(sizes.get(cell, 0), sum(units.values()))
    beyond = beyond_limit(sizes)
    rows = _named_other(rows, beyond)
    if min_units is None:
        return rows, Joined(frozenset(sizes), beyond, frozenset())
    parts, small = list[Row](), frozenset[str]()
    for of_metric in _by(METRIC, rows).values():
        few = small_cells(_units(of_metric), min_units)
        parts += _named_other(of_metric, few)
        small |= few - {OTHER}
    return parts, Joined(frozenset(sizes), beyond, small)


def _units(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Cell → variant → units."""
    units: dict[str, dict[str, int]] = {}
    for _, _, cell, variant, _, count, *_ in rows:
        of_cell = units.setdefault(str(cell), {})
        of_cell[str(variant)] = of_cell.get(str(variant), 0) + whole(count)
    return units


def beyond_limit(sizes: Mapping[str, int], limit: int = LIMIT) -> frozenset[str]:
    """The cells of fewest units, as many as are beyond a limit.

    Example:
        >>> sorted(beyond_limit({"a": 5, "b": 9, "c": 1, "d": 5}, limit=3))
        ['c', 'd']
    """
    if len(sizes) <= limit:
        return frozenset()
    largest = sorted(sizes, key=lambda cell: (cell == OTHER, -sizes[cell], cell))
    return frozenset(largest[limit - 1 :])


def small_cells(cells: Mapping[str, Units], min_units: int) -> frozenset[str]:
    """The cells of few units, and as many more of the smallest as their sum needs.

    Without the latter a single small cell would be shown under another name.

    Args:
        cells: Cell → variant → units.
        min_units: The fewest units of a variant in a cell that is shown.

    Example:
        >>> units = {"x": {"a": 3, "b": 40}, "y": {"a": 20, "b": 30}, "z": {"a": 99, "b": 99}}
        >>> sorted(small_cells(units, 10)), sorted(small_cells(units, 3))
        (['x', 'y'], [])
    """
    by_size = sorted(cells, key=lambda cell: (sum(cells[cell].values()), cell))
    small = [cell for cell in by_size if min(cells[cell].values()) < min_units]
    # One of the values may have the name of them all.
    small += [OTHER] if small and OTHER in cells and OTHER not in small else []
    more = [cell for cell in by_size if cell not in set(small)]
    while small and more and min(_sum(cells[cell] for cell in small).values()) < min_units:
        small.append(more.pop(0))
    return frozenset(small)


def _sum(units: Iterable[Units]) -> dict[str, int]:
    total: dict[str, int] = {}
    for by_variant in units:
        for variant, count in by_variant.items():
            total[variant] = total.get(variant, 0) + count
    return total


def _named_other(rows: list[Row], cells: frozenset[str]) -> list[Row]:
    """The rows with the sums of some cells as one; sums are whole numbers, so they add up."""
    if not cells:
        return rows
    named = {*cells, OTHER}
    added = add_signed(
        (1, (*row[:CELL], OTHER, *row[CELL + 1 :])) for row in rows if row[CELL] in named
    )
    return [*(row for row in rows if row[CELL] not in named), *added]


def _notes(segment: str, joined: Joined, min_units: int | None) -> list[str]:
    notes = []
    if joined.beyond:
        notes.append(
            f"Segment {segment} has {len(joined.cells):,} values: the {LIMIT - 1} with the most "
            f"units are shown, the other {len(joined.beyond):,} together as {OTHER!r}."
        )
    if joined.small:
        notes.append(
            f"Segment {segment}: {len(joined.small):,} values with few units (fewer than "
            f"{min_units} in a variant, or joined to those) are shown together as {OTHER!r}."
        )
    return notes
