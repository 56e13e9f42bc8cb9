"""Checks of the split in the cells of a segment, and which segments the treatment may have changed.

A treatment that sends users to another scene changes who is in the cell of that scene: the split
of the cell is uneven, and nothing is wrong with the experiment, only with the segment. Where a
value is known from before, no treatment can change it, and an uneven cell is a fault of the split.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.model import Experiment
from abeval.experiment.segment_rules import known_from
from abeval.inference.trust.audits import by_segment, weights_by_stretch
from abeval.inference.trust.finding import Finding, Significance, Words, skipped
from abeval.inference.trust.split import LOST
from abeval.results import Check
from abeval.stats import multiplicity, srm
from abeval.stats.records import Refusal

_NAME = "srm:"


def segment_checks(experiment: Experiment, aggregates: Aggregates, whole: Finding) -> list[Finding]:
    """The split in the worst cell of each segment: where a mismatch comes from.

    Args:
        experiment: Its segments.
        aggregates: The units of each cell.
        whole: What was found of the split of all units. Where that is sound, a segment that is not
            known from before can only warn.
    """
    sound = isinstance(whole, Significance) and whole.p_value >= _SOUND
    table = experiment.unit_table
    of_table = () if table is None else table.segments
    fixed = {
        *(name for source in _KNOWN for name in known_from(experiment, source)),
        *of_table,
        experiment.inference.stratify_by,
    }
    return [
        _finding(experiment, aggregates, name, movable=sound and name not in fixed)
        for name in experiment.segment_names
    ]


_KNOWN: tuple[Literal["before", "exposure"], ...] = ("before", "exposure")

_SOUND = 0.001
"""With a smaller p-value of the whole split, its fault is the likelier reason of an uneven cell."""


def _finding(
    experiment: Experiment, aggregates: Aggregates, name: str, *, movable: bool
) -> Finding:
    worst = worst_cell(experiment, aggregates, name)
    if worst is None:
        return skipped(f"{_NAME}{name}", f"no units by {name}")
    calm = f"units match the weights in each of {worst.cells} cells of {name}"
    alarm = (
        f"{name} = {worst.cell!r} does not match the weights (p = {worst.p_value:.2g} after "
        f"Holm; without it, all other units together p = {worst.p_value_without:.2g})"
    )
    if not movable:
        words = Words(calm, alarm, LOST)
        return Significance(f"{_NAME}{name}", worst.p_value, words, "segments")
    words = Words(
        calm,
        f"{alarm}, though all units together do: {name} is a property that the treatment may have "
        "changed, so its table is not to be trusted",
        'with known = "before" a segment has the value from before the experiment, with known = '
        '"exposure" that of the first exposure: then units were lost if its cells are uneven',
    )
    p_value = worst.p_value
    return Significance(f"{_NAME}{name}", p_value, words, "segments", metrics=(), worst="warn")


def moved_segments(experiment: Experiment, checks: Sequence[Check]) -> frozenset[str]:
    """Segments that the treatment may have changed: uneven, though the split as a whole is not."""
    warned = {check.name for check in checks if check.status == "warn" and check.metrics == ()}
    return frozenset(name for name in experiment.segment_names if f"{_NAME}{name}" in warned)


class CellSplit(NamedTuple):
    """The split in the cell of a segment that fits the weights least.

    Attributes:
        cell: Its name.
        p_value: Of its units against the weights, Holm over the cells.
        p_value_without: Of all other cells together.
        cells: Number of cells.
    """

    cell: str
    p_value: float
    p_value_without: float
    cells: int


def worst_cell(experiment: Experiment, aggregates: Aggregates, segment: str) -> CellSplit | None:
    """The cell of a segment with the worst split; None where there is nothing to test."""
    counts = by_segment(experiment, aggregates, segment)
    weights = weights_by_stretch(experiment, aggregates)
    if not counts:
        return None
    try:
        if len(weights) > 1:
            return _worst_by_stretch(counts, weights)
        table = [rows[0] for rows in counts.values()]
        worst = srm.by_segment(list(counts), table, weights[0]).segments[0]
    except Refusal:
        return None
    return CellSplit(worst.segment, worst.p_adjusted, worst.p_value_without, len(counts))


def _worst_by_stretch(
    counts: Mapping[str, Sequence[Sequence[int]]], weights: Sequence[Sequence[float]]
) -> CellSplit:
    total = np.sum([np.array(rows) for rows in counts.values()], axis=0)
    p_values = [srm.stratified(rows, weights).p_value for rows in counts.values()]
    adjusted = multiplicity.adjust(p_values, "holm")
    worst = int(np.argmin(adjusted))
    cell, rows = list(counts.items())[worst]
    others = total - np.array(rows)
    without = srm.stratified(others, weights).p_value if others.sum() else 1.0
    return CellSplit(cell, float(adjusted[worst]), without, len(counts))
