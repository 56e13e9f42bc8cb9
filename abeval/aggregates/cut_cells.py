"""Which values of a cut are cells of their own, and which are shown together.

As of segments (`cells.py`), but before anything is summed: a unit that has impressions of two
values is one unit of the cell that has both. `cuts.py` calls it, and
`offline/candidates/cut_parts.py`.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from abeval.aggregates.cells import LIMIT, OTHER, Units, beyond_limit
from abeval.engines.protocol import Engine, whole
from abeval.engines.sql import query, quoted
from abeval.logs.shape import LogShape
from abeval.logs.views import cut_name


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


def cut_cells(
    cut: str, sizes: Mapping[str, Units], min_units: int | None, limit: int = LIMIT
) -> CutCells:
    """The cells of a cut by the units that have impressions of each value.

    Args:
        cut: Its name.
        sizes: Value → variant → units; 0 where it has none.
        min_units: The fewest units of a variant in a cell that is shown; None for no such limit.
        limit: The most cells.

    Example:
        >>> sizes = {"a": {"x": 9, "y": 9}, "b": {"x": 9, "y": 8}, "c": {"x": 1, "y": 9}}
        >>> dict(cut_cells("scene", sizes, 5).cell_of)
        {'a': 'a', 'b': 'other', 'c': 'other'}
    """
    beyond = beyond_limit({value: sum(units.values()) for value, units in sizes.items()}, limit)
    small = _small(sizes, beyond, min_units)
    joined = beyond | small
    cell_of = {value: OTHER if value in joined else value for value in sizes}
    return CutCells(cell_of, tuple(_notes(cut, sizes, (beyond, small), min_units, limit)))


def write_cut_sums(engine: Engine, shape: LogShape, cut: str) -> None:
    """Create `cut_sums`: the sums of each unit and value of a cut, over `impressions`."""
    sums = ", ".join(shape.components.values())
    value = cut_value(cut)
    rows = f"select unit_id, {value} as value, {sums} from impressions where in_period"
    engine.view("cut_rows", rows)
    engine.table("cut_sums", query("units/cut_sums"))


def cut_value(cut: str) -> str:
    """SQL of an impression's value of a cut, a text."""
    return f"coalesce({quoted(cut_name(cut))}, '')"


def cut_sizes(engine: Engine, variants: Iterable[str]) -> dict[str, Units]:
    """Value → variant → units, by `cut_sums`."""
    every, sizes = list(variants), dict[str, dict[str, int]]()
    for value, variant, count in engine.rows(query("units/cut_sizes")):
        of_value = sizes.setdefault(str(value), dict.fromkeys(every, 0))
        of_value[str(variant)] = whole(count)
    return dict(sizes)


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
    joined: tuple[frozenset[str], frozenset[str]],
    min_units: int | None,
    limit: int,
) -> list[str]:
    notes, (beyond, small) = [], joined
    if beyond:
        notes.append(
            f"Cut {cut} has {len(sizes):,} values: the {limit - 1} with the most units are shown, "
            f"the other {len(beyond):,} together as {OTHER!r}."
        )
    if small:
        notes.append(
            f"Cut {cut}: {len(small):,} values with few units (fewer than {min_units} in a "
            f"variant, or joined to those) are shown together as {OTHER!r}."
        )
    return notes
