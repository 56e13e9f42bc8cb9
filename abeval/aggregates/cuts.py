"""Sums by cut: each metric over the impressions of a part of the traffic, by unit.

A cut is a second grouping of a unit's impressions: a unit counts in every cell in which it has one,
and is still the unit of variance. The kernel of scores runs once for all cells, with a unit in a
cell in place of a unit.

`collect.py` calls it after all other sums; the rows go into `Aggregates`, for `inference/cuts.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.cells import CutCells, cut_cells, cut_sizes, cut_value, write_cut_sums
from abeval.aggregates.kernels.auc import score_sums
from abeval.aggregates.kernels.rows import Placing, Scan, room_of, unit_rows
from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.source_values import SourceValues, by_unit, units_at
from abeval.aggregates.sums import LABELS, MOMENT_COLUMNS, Row, Slice, Terms, sums_of
from abeval.engines.sql import literal, quoted
from abeval.logs.unit_arrays import Groups, Labels, Units, Whole, added, half_away, heads, key_of
from abeval.logs.views import cut_name
from abeval.metrics.definition import AUC, GAUC, UNIT_DAY, Metric, no_cuts, scales, splits_by_cut
from abeval.progress import Step
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
        rows: Rows of `moment_rows.MOMENT_COLUMNS`.
        notes: What a reader of the result must know.
    """

    rows: Sequence[Row] = ()
    notes: tuple[str, ...] = ()


def cut_sums(
    queries: MetricQueries, units: Units, metrics: Sequence[Metric], step: Step
) -> CutSums:
    """Sums of the metrics in every cell of every cut of the experiment.

    Args:
        queries: Over prepared logs, whose `impressions` have the cuts' columns.
        units: The analysed units.
        metrics: Metrics of the scorecard; those without cuts are left out.
        step: Called with the name of each step.
    """
    rows, notes = list[Row](), list[str]()
    wanted = [metric for metric in metrics if no_cuts(metric) is None]
    of_sums = [metric for metric in wanted if metric.source == UNIT_DAY]
    for name in queries.experiment.cuts if wanted else ():
        step(f"cut {name}")
        totals = _totals(queries, units, name)
        notes += totals.cells.notes
        own = totals.sums(of_sums, totals.columns)
        rows += own + _of_scores(queries, totals, wanted)
        if not queries.by_stretch:
            rows += _influences(totals, own, [m for m in of_sums if splits_by_cut(m)])
    return CutSums(_public(rows, queries.experiment.privacy.min_units), tuple(notes))


def _public(rows: Sequence[Row], min_units: int | None) -> list[Row]:
    """The rows of cells that may be shown: scores may have fewer units than the cell."""
    few = {row[:3] for row in rows if min_units is not None and int(str(row[LABELS])) < min_units}
    return [row for row in rows if row[:3] not in few]


@dataclass(frozen=True)
class Totals:
    """The sums of each analysed unit in each cell in which it has an impression.

    Attributes:
        queries: The metric queries.
        name: Of the cut.
        cells: Its cells.
        units: The analysed units.
        unit: Place of the unit of each row; rows are sorted by unit and cell.
        cell: Number of its cell.
        columns: Component → its sums.
    """

    queries: MetricQueries
    name: str
    cells: CutCells
    units: Units
    unit: NDArray[np.int64]
    cell: NDArray[np.int64]
    columns: Mapping[str, Whole]

    def values(self, columns: Mapping[str, Whole]) -> SourceValues:
        """What metrics are of each row, from columns of their source."""
        rows = units_at(self.units._replace(segments={}), self.unit)
        return SourceValues(self.queries.experiment, self.queries.shape, rows, columns, {})

    def sums(self, metrics: Sequence[Metric], columns: Mapping[str, Whole]) -> list[Row]:
        """Sums by cell."""
        values, labels = self.values(columns), Labels(self.cell.astype(np.int32), self.cells.names)
        terms = [Terms(*values.pair(metric, columns)) for metric in metrics]
        slices = [
            Slice(metric.name, CUT + self.name, own, labels)
            for metric, own in zip(metrics, terms, strict=True)
        ]
        return sums_of(slices, values.groups)


def _totals(queries: MetricQueries, units: Units, name: str) -> Totals:
    """Sum the impressions of the period by unit and cell, and create `cut_cells`."""
    engine, experiment = queries.engine, queries.experiment
    write_cut_sums(engine, queries.shape, name)
    sizes = cut_sizes(engine, experiment.variants)
    cells = cut_cells(name, sizes, experiment.privacy.min_units)
    engine.view("cut_cells", _cells_sql(cells))
    names = [*queries.shape.components.values()]
    listed = ", ".join(["s.unit_id", "c.number", *(f"s.{column}" for column in names)])
    read = engine.arrays(f"select {listed} from cut_sums s join cut_cells c on s.value = c.value")
    unit, cell, *sums = (column.astype(np.int64) for column in read.values())
    groups = Groups.of(key_of(unit, cell))
    columns = {column: groups.sum(own) for column, own in zip(names, sums, strict=True)}
    return Totals(queries, name, cells, units, unit[groups.first], cell[groups.first], columns)


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


def _of_scores(queries: MetricQueries, totals: Totals, metrics: Sequence[Metric]) -> list[Row]:
    """GAUC and AUC of each cell, from one pass over the scored impressions.

    Its variant is a variant in a cell, and its unit a row of the totals.
    """
    sources = dict.fromkeys(m.source for m in metrics if m.source in (GAUC, AUC))
    if not sources or not len(totals.unit):
        return []
    cells, variants = len(totals.cells.names), len(queries.experiment.variants)
    arm = (totals.cell * variants + totals.units.variant[totals.unit]).astype(np.int16)
    # Numbers far apart, as hashes are.
    apart = 1 << 63 - (len(totals.units.hash) * cells).bit_length()
    column = quoted(cut_name(totals.name))
    sql = f"""
    with scored as ({queries.scored(("unit_id", "click", column))})
    select (i.unit_id * {cells} + c.number) * {apart} as unit, true as in_period, i.score,
      i.click = 1 as click
    from scored i join cut_cells c on {cut_value(totals.name)} = c.value
    """
    placing = Placing((totals.unit * cells + totals.cell) * apart, len(totals.unit) // UNITS + 1)
    room, rows = room_of(queries.experiment.engine), list[Row]()
    with unit_rows(queries.engine, Scan(sql, placing, room=room)) as (scored, _):
        sums = score_sums(scored, arm, cells * variants)
    for source in sources:
        days, size = (sums.gauc if source is GAUC else sums.auc), len(totals.unit)
        columns = {name: by_unit(days.unit, own, size) for name, own in days.columns.items()}
        rows += totals.sums([metric for metric in metrics if metric.source == source], columns)
    return rows


def _influences(totals: Totals, rows: Sequence[Row], metrics: Sequence[Metric]) -> list[Row]:
    """Sums of squares of what each unit adds to both parts of each ratio's difference."""
    experiment, sums, names = totals.queries.experiment, _sums(rows), totals.cells.names
    values, start = totals.values(totals.columns), heads(totals.unit)
    variants = [*experiment.variants]
    counts = np.bincount(totals.units.variant, minlength=len(variants)).tolist()
    slices = list[Slice]()
    for metric, treatment in product(metrics, experiment.treatments):
        of_arms = (experiment.control, treatment)
        control, other = (counts[variants.index(name)] for name in of_arms)
        arms = Arms(of_arms, (control, other))
        y, x = values.pair(metric, totals.columns)
        for part, weights in _weights(sums.get(metric.name, {}), arms, scales(metric)).items():
            worth = np.zeros((len(variants), len(names), 2))
            for (variant, cell), of_cell in weights.items():
                worth[variants.index(variant), names.index(cell)] = of_cell
            of_y, of_x = worth[values.units.variant, totals.cell].T
            influence = added(half_away(of_y * y + of_x * x), start)
            slices.append(Slice(metric.name, part + totals.name, Terms(influence), treatment))
    groups = values.groups
    of_units = groups._replace(variant=groups.variant[start], stretch=groups.stretch[start])
    return sums_of(slices, of_units)


class Arms(NamedTuple):
    """What a comparison of two variants needs of the sums by cell.

    Attributes:
        names: Control and the treatment.
        units: Analysed units of each.
    """

    names: tuple[str, str]
    units: tuple[int, int]


Sums = Mapping[tuple[str, str], tuple[int, int]]
"""(variant, cell) → Σ numerator and Σ denominator, in counted units."""

Weights = Mapping[tuple[str, str], tuple[float, float]]
"""(variant, cell) → what one counted unit of numerator and denominator adds to an influence."""


def _sums(rows: Sequence[Row]) -> Mapping[str, Sums]:
    """Metric → its sums in each cell."""
    sums: dict[str, dict[tuple[str, str], tuple[int, int]]] = {}
    y, x = MOMENT_COLUMNS.index("y"), MOMENT_COLUMNS.index("x")
    for row in rows:
        of_metric = sums.setdefault(str(row[0]), {})
        of_metric[str(row[3]), str(row[2])] = int(str(row[y])), int(str(row[x]))
    return sums


def _weights(sums: Sums, arms: Arms, scale: tuple[float, float]) -> dict[str, Weights]:
    """Slice of each part → the weights of its influence; none where the difference has no parts."""
    cells = sorted({cell for _, cell in sums})
    control, treatment = (_cell_totals(sums, name, cells, scale) for name in arms.names)
    try:
        of_arms = composition.gradients(control, treatment, arms.units)
        step = influence_step(control, treatment)
    except Refusal:
        return {}
    if step == 0:
        return {}
    worth = scale[0] / step, scale[1] / step

    def weights(part: Sequence[composition.Gradient]) -> Weights:
        return {
            (name, cell): (float(y) * worth[0], float(x) * worth[1])
            for name, own in zip(arms.names, part, strict=True)
            for cell, y, x in zip(cells, *own, strict=True)
        }

    return {
        WITHIN: weights([own.within for own in of_arms]),
        MIX: weights([own.mix for own in of_arms]),
    }


def _cell_totals(
    sums: Sums, variant: str, cells: Sequence[str], scale: tuple[float, float]
) -> composition.Totals:
    of_cells = [sums.get((variant, cell), (0, 0)) for cell in cells]
    return composition.Totals(
        [y * scale[0] for y, _ in of_cells], [x * scale[1] for _, x in of_cells]
    )


def influence_step(control: composition.Totals, treatment: composition.Totals) -> float:
    """What one counted unit of an influence is worth: a share of the metric's value.

    Raises:
        Refusal: `zero_denominator`.
    """
    values = [abs(value) for value in composition.ratios(control, treatment)]
    return INFLUENCE_STEP * max(values)
