"""Cells of segments that are shown together: those of few units, and those beyond a limit.

`collect.py` hands it aggregates when they are complete; everything that is shown or saved comes
after it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.moment_rows import MOMENT_COLUMNS, SEGMENT
from abeval.aggregates.terms import Row, add_signed

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
    slices = aggregates.moments["slice"]
    is_segment = slices.str.startswith(SEGMENT)
    notes = list[str]()
    moments = [aggregates.moments[~is_segment]]
    for name, rows in aggregates.moments[is_segment].groupby("slice", sort=False):
        shown, joined = _join(rows, min_units)
        moments.append(shown)
        notes += _notes(str(name).removeprefix(SEGMENT), joined, min_units)
    if not notes:
        return aggregates
    moments_of_all = pd.concat(moments, ignore_index=True)
    return replace(aggregates, moments=moments_of_all, notes=(*aggregates.notes, *notes))


def _join(rows: pd.DataFrame, min_units: int | None) -> tuple[pd.DataFrame, Joined]:
    """The rows of a segment, with cells joined for all metrics or for one."""
    cells = frozenset(map(str, rows["cell"]))
    sizes = rows.groupby(["metric", "cell"])["units"].sum().groupby("cell").max()
    beyond = beyond_limit({str(cell): int(units) for cell, units in sizes.items()})
    rows = _named_other(rows, beyond)
    if min_units is None:
        return rows, Joined(cells, beyond, frozenset())
    parts, small = [], frozenset[str]()
    for _, of_metric in rows.groupby("metric", sort=False):
        few = small_cells(_units(of_metric), min_units)
        parts.append(_named_other(of_metric, few))
        small |= few - {OTHER}
    return pd.concat(parts), Joined(cells, beyond, small)


def _units(rows: pd.DataFrame) -> dict[str, dict[str, int]]:
    """Cell → variant → units."""
    units: dict[str, dict[str, int]] = {}
    for cell, variant, count in zip(rows["cell"], rows["variant"], rows["units"], strict=True):
        of_cell = units.setdefault(str(cell), {})
        of_cell[str(variant)] = of_cell.get(str(variant), 0) + int(count)
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


def _named_other(rows: pd.DataFrame, cells: frozenset[str]) -> pd.DataFrame:
    """The rows with the sums of some cells as one; sums are whole numbers, so they add up."""
    if not cells:
        return rows
    some = rows["cell"].isin([*cells, OTHER])
    added: Sequence[Row] = add_signed(
        (1, (row[0], row[1], OTHER, *row[3:])) for row in rows[some].itertuples(index=False)
    )
    other = pd.DataFrame(added, columns=list(MOMENT_COLUMNS)).astype(dict(rows.dtypes))
    return pd.concat([rows[~some], other])


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
