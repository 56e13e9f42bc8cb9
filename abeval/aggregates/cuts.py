"""Sum each metric over the impressions of a part of the traffic, a cut, by unit.

A unit counts in every cell of a cut in which it has an impression, and is still the unit of
variance. The kernel of scores runs once for all cells, with a unit in a cell in place of a unit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.cells import CutCells, cut_cells, cut_sizes, cut_value, write_cut_sums
from abeval.aggregates.kernels.auc import score_sums
from abeval.aggregates.kernels.rows import Placing, Scan, room_of, unit_rows
from abeval.aggregates.metric_queries import ReadLogs, scored_rows
from abeval.aggregates.source_values import SourceValues, by_unit
from abeval.aggregates.sums import LABELS, MOMENT_COLUMNS, Row, Slice, Terms, sums_of
from abeval.engines.sql import literal, quoted
from abeval.logs.unit_arrays import Groups, Labels, Whole, added, half_away, heads, key_of
from abeval.logs.views import cut_name
from abeval.metrics.definition import AUC, GAUC, UNIT_DAY, Metric, no_cuts, scales, splits_by_cut
from abeval.stats import composition
from abeval.stats.records import Refusal

CUT = "cut:"
"""The slice of a metric in the cells of a cut."""

WITHIN, MIX = "within:", "mix:"
"""Slices with the influence of units on both parts of a difference; a cell is a treatment."""

UNITS = 20_000
"""Units in cells of a block, about."""

INFLUENCE_STEP = 1e-7
"""Influences are whole multiples of this share of the metric's value."""


@dataclass(frozen=True)
class CutSums:
    """The sums of all cuts.

    Attributes:
        rows: Rows of `MOMENT_COLUMNS`.
        notes: What a reader of the result must know.
    """

    rows: Sequence[Row] = ()
    notes: tuple[str, ...] = ()


def cut_sums(logs: ReadLogs, metrics: Sequence[Metric]) -> CutSums:
    """Sum the metrics in every cell of every cut of the experiment.

    Args:
        logs: What was read; its `impressions` have the cuts' columns.
        metrics: Metrics of the scorecard; those without cuts are left out.
    """
    rows, notes = list[Row](), list[str]()
    wanted = [metric for metric in metrics if no_cuts(metric) is None]
    of_sums = [metric for metric in wanted if metric.source == UNIT_DAY]
    for name in logs.experiment.cuts if wanted else ():
        logs.run.step(f"cut {name}")
        totals = _totals(logs, name)
        notes += totals.cells.notes
        own = totals.sums(of_sums, totals.columns)
        rows += own + _of_scores(totals, wanted)
        if not logs.prepared.placed.stretches:
            rows += _influences(totals, own, [m for m in of_sums if splits_by_cut(m)])
    return CutSums(_public(rows, logs.experiment.privacy.min_units), tuple(notes))


def _public(rows: Sequence[Row], min_units: int | None) -> list[Row]:
    """Return the rows of cells that may be shown: scores may have fewer units than the cell."""
    few = {row[:3] for row in rows if min_units is not None and int(str(row[LABELS])) < min_units}
    return [row for row in rows if row[:3] not in few]


@dataclass(frozen=True)
class Totals:
    """The sums of each analysed unit in each cell in which it has an impression.

    Attributes:
        logs: What was read.
        name: Of the cut.
        cells: Its cells.
        unit: Place of the unit of each row; rows are sorted by unit and cell.
        cell: Number of its cell.
        columns: Component → its sums.
    """

    logs: ReadLogs
    name: str
    cells: CutCells
    unit: NDArray[np.int64]
    cell: NDArray[np.int64]
    columns: Mapping[str, Whole]

    def values(self, columns: Mapping[str, Whole]) -> SourceValues:
        """Return what metrics are of each row, from columns of their source."""
        logs = self.logs
        return SourceValues(logs.experiment, logs.shape, logs.units, {}, {}).at(self.unit, columns)

    def sums(self, metrics: Sequence[Metric], columns: Mapping[str, Whole]) -> list[Row]:
        """Sum metrics by cell."""
        labels = Labels(self.cell.astype(np.int32), self.cells.names)
        return self.values(columns).by_cell(metrics, CUT + self.name, labels)


def _totals(logs: ReadLogs, name: str) -> Totals:
    """Sum the impressions of the period by unit and cell, and create `cut_cells`."""
    engine, experiment = logs.engine, logs.experiment
    write_cut_sums(engine, logs.shape, name)
    sizes = cut_sizes(engine, experiment.variants)
    cells = cut_cells(name, sizes, experiment.privacy.min_units)
    engine.view("cut_cells", _cells_sql(cells))
    names = [*logs.shape.components.values()]
    listed = ", ".join(["s.unit_id", "c.number", *(f"s.{column}" for column in names)])
    read = engine.arrays(f"select {listed} from cut_sums s join cut_cells c on s.value = c.value")
    unit, cell, *sums = (column.astype(np.int64) for column in read.values())
    groups = Groups.of(key_of(unit, cell))
    columns = {column: groups.sum(own) for column, own in zip(names, sums, strict=True)}
    return Totals(logs, name, cells, unit[groups.first], cell[groups.first], columns)


def _cells_sql(cells: CutCells) -> str:
    """Value → the number of its cell, as a relation."""
    number = {cell: i for i, cell in enumerate(cells.names)}
    listed = ", ".join(
        f"({literal(value)}, cast({number[cell]} as bigint))"
        for value, cell in cells.cell_of.items()
    )
    if not listed:
        return "select '' as value, cast(0 as bigint) as number where false"
    return f"select * from (values {listed}) as v (value, number)"


def _of_scores(totals: Totals, metrics: Sequence[Metric]) -> list[Row]:
    """GAUC and AUC of each cell, from one pass over the scored impressions.

    Its variant is a variant in a cell, and its unit a row of the totals.
    """
    logs = totals.logs
    sources = dict.fromkeys(m.source for m in metrics if m.source in (GAUC, AUC))
    if not sources or not len(totals.unit):
        return []
    cells, variants = len(totals.cells.names), len(logs.experiment.variants)
    arm = (totals.cell * variants + logs.units.variant[totals.unit]).astype(np.int16)
    # Numbers far apart, as hashes are.
    apart = 1 << 63 - (len(logs.units.hash) * cells).bit_length()
    column = quoted(cut_name(totals.name))
    sql = f"""
    with scored as ({scored_rows(logs.shape, ("unit_id", "click", column))})
    select (i.unit_id * {cells} + c.number) * {apart} as unit, true as in_period, i.score,
      i.click = 1 as click
    from scored i join cut_cells c on {cut_value(totals.name)} = c.value
    """
    placing = Placing((totals.unit * cells + totals.cell) * apart, len(totals.unit) // UNITS + 1)
    room, rows = room_of(logs.experiment.engine), list[Row]()
    with unit_rows(logs.engine, Scan(sql, placing, room=room)) as (scored, _):
        sums = score_sums(scored, arm, cells * variants)
    for source in sources:
        days, size = (sums.gauc if source is GAUC else sums.auc), len(totals.unit)
        columns = {name: by_unit(days.unit, own, size) for name, own in days.columns.items()}
        rows += totals.sums([metric for metric in metrics if metric.source == source], columns)
    return rows


def _influences(totals: Totals, rows: Sequence[Row], metrics: Sequence[Metric]) -> list[Row]:
    """Sum squares of what each unit adds to both parts of each ratio's difference."""
    experiment, variants = totals.logs.experiment, [*totals.logs.experiment.variants]
    values, start, cells = totals.values(totals.columns), heads(totals.unit), totals.cells.names
    counts = np.bincount(totals.logs.units.variant, minlength=len(variants)).tolist()
    y_at, x_at = MOMENT_COLUMNS.index("y"), MOMENT_COLUMNS.index("x")
    sums = {(row[0], row[3], row[2]): (int(str(row[y_at])), int(str(row[x_at]))) for row in rows}
    slices = list[Slice]()
    for metric, treatment in product(metrics, experiment.treatments):
        arms = [variants.index(name) for name in (experiment.control, treatment)]
        scale = scales(metric)
        of_arms = [
            composition.Totals(
                *zip(*((y * scale[0], x * scale[1]) for y, x in of_cells), strict=True)
            )
            for arm in arms
            for of_cells in ([sums.get((metric.name, variants[arm], c), (0, 0)) for c in cells],)
        ]
        try:
            step = influence_step(of_arms[0], of_arms[1])
            gradients = composition.gradients(
                of_arms[0], of_arms[1], (counts[arms[0]], counts[arms[1]])
            )
        except Refusal:
            continue
        if step == 0:
            continue
        y, x = values.pair(metric, totals.columns)
        parts = {WITHIN: [own.within for own in gradients], MIX: [own.mix for own in gradients]}
        for part, of_part in parts.items():
            worth = np.zeros((len(variants), len(cells), 2))
            worth[arms] = [np.stack(own, axis=1) * (np.array(scale) / step) for own in of_part]
            of_y, of_x = worth[values.units.variant, totals.cell].T
            influence = added(half_away(of_y * y + of_x * x), start)
            slices.append(Slice(metric.name, part + totals.name, Terms(influence), treatment))
    groups = values.groups
    of_units = groups._replace(variant=groups.variant[start], stretch=groups.stretch[start])
    return sums_of(slices, of_units)


def influence_step(control: composition.Totals, treatment: composition.Totals) -> float:
    """Return what one counted unit of an influence is worth: a share of the metric's value.

    Raises:
        Refusal: `zero_denominator`.
    """
    return INFLUENCE_STEP * max(abs(value) for value in composition.ratios(control, treatment))
