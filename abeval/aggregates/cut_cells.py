"""Which values of a cut are cells of their own, and which are shown together.

As of segments (`cells.py`), but before anything is summed: a unit that has impressions of two
values is one unit of the cell that has both. `cuts.py` calls it.
"""

from collections.abc import Mapping
from typing import NamedTuple

from abeval.aggregates.cells import LIMIT, OTHER, Units, beyond_limit


class CutCells(NamedTuple):
    """The cells of a cut.

    Attributes:
        cell_of: Value → its cell, which several values may share.
        notes: What a reader of the result must know.
    """

    cell_of: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The cells, in order."""
        return sorted({*self.cell_of.values()})


def cut_cells(cut: str, sizes: Mapping[str, Units], min_units: int | None) -> CutCells:
    """The cells of a cut by the units that have impressions of each value.

    Args:
        cut: Its name.
        sizes: Value → variant → units; 0 where it has none.
        min_units: The fewest units of a variant in a cell that is shown; None for no such limit.

    Example:
        >>> sizes = {"a": {"x": 9, "y": 9}, "b": {"x": 9, "y": 8}, "c": {"x": 1, "y": 9}}
        >>> dict(cut_cells("scene", sizes, 5).cell_of)
        {'a': 'a', 'b': 'other', 'c': 'other'}
    """
    beyond = beyond_limit({value: sum(units.values()) for value, units in sizes.items()})
    small = _small(sizes, beyond, min_units)
    joined = beyond | small
    cell_of = {value: OTHER if value in joined else value for value in sizes}
    return CutCells(cell_of, tuple(_notes(cut, sizes, beyond, small, min_units)))


def _small(
    sizes: Mapping[str, Units], beyond: frozenset[str], min_units: int | None
) -> frozenset[str]:
    """Values of few units, and one more if none of them alone makes the cell large enough.

    Units of the same cell may be the same ones, so their sum says nothing.
    """
    if min_units is None:
        return frozenset()

    def is_small(value: str) -> bool:
        return min(sizes[value].values()) < min_units

    small = {value for value in sizes if value not in beyond and is_small(value)}
    joined = beyond | small | ({OTHER} & sizes.keys() if beyond or small else set())
    others = sorted(sizes.keys() - joined, key=lambda v: (sum(sizes[v].values()), v))
    if joined and others and all(map(is_small, joined)):
        small.add(others[0])
    return frozenset(small)


def _notes(
    cut: str,
    sizes: Mapping[str, Units],
    beyond: frozenset[str],
    small: frozenset[str],
    min_units: int | None,
) -> list[str]:
    notes = []
    if beyond:
        notes.append(
            f"Cut {cut} has {len(sizes):,} values: the {LIMIT - 1} with the most units are shown, "
            f"the other {len(beyond):,} together as {OTHER!r}."
        )
    if small:
        notes.append(
            f"Cut {cut}: {len(small):,} values with few units (fewer than {min_units} in a "
            f"variant, or joined to those) are shown together as {OTHER!r}."
        )
    return notes
