"""Merge cells of few units, and cells beyond a limit, into one."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.sums import SEGMENT, SumsRow
from abeval.engines.sql import quote
from abeval.logs.views import cut_name
from abeval.results.record import group_rows

LIMIT = 300
"""Largest number of cells of a segment to show, `OTHER` included: all countries fit."""

OTHER = "other"
"""Name of the merged cell; a value of this name is merged, too."""

Units = Mapping[str, int]
"""Variant → units."""


def join_small_cells(aggregates: Aggregates, min_units: int | None) -> Aggregates:
    """Merge cells of segments that are too many, or have too few units."""
    notes, by_slice = list[str](), group_rows(aggregates.moments, attrgetter("slice"))
    for name in (name for name in by_slice if name.startswith(SEGMENT)):
        sizes, small = Counter[str](), frozenset[str]()
        for rows in group_rows(by_slice[name], attrgetter("metric")).values():
            sizes |= Counter(
                {cell: units.total() for cell, units in _sum_units_by_cell(rows).items()}
            )
        beyond = _find_cells_beyond_limit(sizes)
        by_slice[name] = _merge_into_other(by_slice[name], beyond)
        if min_units is not None:
            of_metrics, by_slice[name] = group_rows(by_slice[name], attrgetter("metric")), []
            for rows in of_metrics.values():
                few = find_small_cells(_sum_units_by_cell(rows), min_units)
                by_slice[name] += _merge_into_other(rows, few)
                # `OTHER` is no value of its own, and notes count values.
                small |= few - {OTHER}
        what = f"Segment {name.removeprefix(SEGMENT)}"
        notes += _write_cell_notes(what, len(sizes), beyond, small, min_units)
    if not notes:
        return aggregates
    moments = [row for rows in by_slice.values() for row in rows]
    return replace(aggregates, moments=moments, notes=(*aggregates.notes, *notes))


def _sum_units_by_cell(rows: Sequence[SumsRow]) -> dict[str, Counter[str]]:
    """Return cell → variant → units."""
    units: dict[str, Counter[str]] = {}
    for row in rows:
        units.setdefault(row.cell, Counter())[row.group.variant] += row.units
    return units


def _find_cells_beyond_limit(sizes: Mapping[str, int], limit: int = LIMIT) -> frozenset[str]:
    """Find the cells of fewest units, as many as are beyond a limit.

    Example:
        >>> sorted(_find_cells_beyond_limit({"a": 5, "b": 9, "c": 1, "d": 5}, limit=3))
        ['c', 'd']
    """
    if len(sizes) <= limit:
        return frozenset()
    largest = sorted(sizes, key=lambda cell: (cell == OTHER, -sizes[cell], cell))
    return frozenset(largest[limit - 1 :])


def find_small_cells(cells: Mapping[str, Units], min_units: int) -> frozenset[str]:
    """Find the cells with few units, and more until their sum is large enough.

    Example:
        >>> units = {"x": {"a": 3, "b": 40}, "y": {"a": 20, "b": 30}, "z": {"a": 99, "b": 99}}
        >>> sorted(find_small_cells(units, 10)), sorted(find_small_cells(units, 3))
        (['x', 'y'], [])
    """
    by_size = sorted(cells, key=lambda cell: (sum(cells[cell].values()), cell))
    small = [cell for cell in by_size if min(cells[cell].values()) < min_units]
    # One of the values may have the name of them all.
    small += [OTHER] if small and OTHER in cells and OTHER not in small else []
    more = [cell for cell in by_size if cell not in set(small)]
    units = sum((Counter(cells[cell]) for cell in small), Counter[str]())
    # Without this, a single small cell would be shown, only under another name.
    while small and more and min(units.values()) < min_units:
        units += Counter(cells[more[0]])
        small.append(more.pop(0))
    return frozenset(small)


def _merge_into_other(rows: list[SumsRow], cells: Collection[str]) -> list[SumsRow]:
    """Merge some cells into `OTHER`."""
    merged = {*cells, OTHER} if cells else set()
    merged_rows = [row._replace(cell=OTHER) for row in rows if row.cell in merged]
    alike = group_rows(merged_rows, lambda row: row[:4]).values()
    return [*(row for row in rows if row.cell not in merged), *map(_add_rows, alike)]


def _add_rows(rows: Sequence[SumsRow]) -> SumsRow:
    """Add up rows of one label, from logs: all their sums are known."""
    return rows[0]._replace(
        units=sum(row.units for row in rows),
        sums=[
            sum(filter(None, values)) for values in zip(*(row.sums for row in rows), strict=True)
        ],
        heavy=[values for row in rows for values in row.heavy],
    )


def _write_cell_notes(
    what: str,
    cells: int,
    beyond: frozenset[str],
    small: frozenset[str],
    min_units: int | None,
) -> list[str]:
    shown, few = f"the {LIMIT - 1} with the most units", f"fewer than {min_units} in a variant"
    notes = [
        f"{what} has {cells:,} values: {shown} are shown, the other {len(beyond):,} together "
        f"as {OTHER!r}.",
        f"{what}: {len(small):,} values with few units ({few}, or joined to those) are shown "
        f"together as {OTHER!r}.",
    ]
    return [note for note, joined in zip(notes, (beyond, small), strict=True) if joined]


class CutCells(NamedTuple):
    """Map each value of a cut to its cell, with notes for the reader."""

    cell_of: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Return the cells, in order."""
        return sorted({*self.cell_of.values()})


def cut_cells(cut: str, sizes: Mapping[str, Units], min_units: int | None) -> CutCells:
    """Choose the cells of a cut, by the units that have impressions of each value.

    `sizes` have 0 for a variant without any; without `min_units` no cell is too small.

    Example:
        >>> sizes = {"a": {"x": 9, "y": 9}, "b": {"x": 9, "y": 8}, "c": {"x": 1, "y": 9}}
        >>> dict(cut_cells("scene", sizes, 5).cell_of)
        {'a': 'a', 'b': 'other', 'c': 'other'}
    """
    beyond = _find_cells_beyond_limit(
        {value: sum(units.values()) for value, units in sizes.items()}
    )
    small = _find_small_values(sizes, beyond, min_units or 0)
    joined = beyond | small
    cell_of = {value: OTHER if value in joined else value for value in sizes}
    notes = _write_cell_notes(f"Cut {cut}", len(sizes), beyond, small, min_units)
    return CutCells(cell_of, tuple(notes))


def cut_value(cut: str) -> str:
    """Write SQL of an impression's value of a cut, a text."""
    return f"coalesce({quote(cut_name(cut))}, '')"


def _find_small_values(
    sizes: Mapping[str, Units], beyond: frozenset[str], min_units: int
) -> frozenset[str]:
    """Find values of few units, and one more if all of them are small."""

    def is_small(value: str) -> bool:
        return min(sizes[value].values()) < min_units

    small = {value for value in sizes if value not in beyond and is_small(value)}
    joined = beyond | small | ({OTHER} & sizes.keys() if beyond or small else set())
    remaining = sorted(sizes.keys() - joined, key=lambda v: (sum(sizes[v].values()), v))
    # A unit may be in several cells, so only a cell that is large by itself makes the merged one
    # large.
    if joined and remaining and all(map(is_small, joined)):
        small.add(remaining[0])
    return frozenset(small)
