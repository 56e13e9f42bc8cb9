"""The cells of a cut as parts of a log.

`offline/replay.py` asks for them where the experiment has `[cuts]`; the condition of each goes to
`offline/replay_run.py`.
"""

from collections.abc import Mapping
from typing import NamedTuple

from abeval.aggregates.cells import cut_cells, cut_sizes, cut_value, write_cut_sums
from abeval.engines.protocol import whole
from abeval.engines.sql import literal
from abeval.logs.run import Run
from abeval.logs.shape import LogShape
from abeval.offline.parts import Part
from abeval.results.replay import POOLED

CELLS = 12
"""The most cells of a cut: each is replayed by itself."""


class CutParts(NamedTuple):
    """The cells of a cut.

    Attributes:
        parts: Each cell, with its condition on the impressions.
        units: Cell → traffic → units with an impression there.
        notes: What a reader of the result must know.
    """

    parts: list[Part]
    units: Mapping[str, Mapping[str, int]]
    notes: tuple[str, ...]


def cut_parts(run: Run, shape: LogShape, cut: str) -> CutParts:
    """The cells of a cut, over the views of `prepare`."""
    write_cut_sums(run.engine, shape, cut)
    sizes = cut_sizes(run.engine, run.experiment.variants)
    cells = cut_cells(cut, sizes, run.experiment.privacy.min_units, CELLS)
    parts, units = [], {}
    for cell in cells.names:
        values = [value for value, of in cells.cell_of.items() if of == cell]
        where = f"{cut_value(cut)} in ({', '.join(map(literal, values))})"
        parts.append(Part(cell, f"in_period and {where}"))
        units[cell] = _units(run, where) if len(values) > 1 else dict(sizes[values[0]])
    every = {cell: {**of, POOLED: sum(of.values())} for cell, of in units.items()}
    return CutParts(parts, every, cells.notes)


def _units(run: Run, where: str) -> dict[str, int]:
    """Variant → units with an impression of one of several values, each unit once."""
    sql = f"""
    select u.variant, count(distinct i.unit_id)
    from impressions i join units u on i.unit_id = u.unit_id
    where i.in_period and {where} group by u.variant
    """
    counts = dict.fromkeys(run.experiment.variants, 0)
    return counts | {str(name): whole(units) for name, units in run.engine.rows(sql)}
