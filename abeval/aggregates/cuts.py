"""Sum each metric by unit over a part of the traffic, a cut.

A unit counts in every cell of a cut in which it has an impression, and is still the unit of
variance. The queries of scores run once for all cells, with a unit in a cell in place of a unit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates import cells
from abeval.aggregates.metric_queries import ReadLogs
from abeval.aggregates.source_values import SourceValues, sum_units
from abeval.aggregates.sums import Slice, SumsRow, Terms, sum_slices
from abeval.aggregates.unit_rows import read_days
from abeval.engines.sql import literal, query, read_int, write_case, write_index
from abeval.logs.unit_arrays import (
    Groups,
    Integers,
    Labels,
    pack_key,
    round_half_away,
    run_starts,
    sum_runs,
)
from abeval.logs.views import write_row_steps
from abeval.metrics.definition import (
    AUC,
    GAUC,
    UNIT_DAY,
    Metric,
    explain_no_cuts,
    list_scales,
    splits_by_cut,
)
from abeval.stats import composition
from abeval.stats.records import Refusal

CUT = "cut:"
"""Prefix of the slice of a metric in the cells of a cut."""

WITHIN, MIX = "within:", "mix:"
"""Prefixes of slices with the influence of units on both parts of a difference."""

_INFLUENCE_STEP = 1e-7
"""Resolution of influences, as a share of the metric's value."""


def cut_sums(logs: ReadLogs, metrics: Sequence[Metric]) -> tuple[list[SumsRow], list[str]]:
    """Sum the metrics in every cell of every cut; return notes too."""
    rows, notes = list[SumsRow](), list[str]()
    divisible = [metric for metric in metrics if explain_no_cuts(metric) is None]
    of_sums = [metric for metric in divisible if metric.source == UNIT_DAY]
    for name in logs.experiment.cuts if divisible else ():
        logs.run.step(f"cut {name}")
        totals = _sum_cell_totals(logs, name)
        notes += totals.cells.notes
        cell_rows = totals.sums(of_sums, totals.columns)
        rows += cell_rows + _sum_scores(totals, divisible)
        if not logs.prepared.assignment.split_periods:
            rows += _sum_influences(totals, cell_rows, [m for m in of_sums if splits_by_cut(m)])
    # Scores may have fewer units than their cell.
    least = logs.experiment.privacy.min_units or 0
    # Row fields 0 to 2 are metric, slice and cell: the cell goes in all variants.
    few = {row[:3] for row in rows if row.units < least}
    return [row for row in rows if row[:3] not in few], notes


@dataclass(frozen=True)
class CellTotals:
    """Hold the sums of each analysed unit in each cell with an impression.

    Attributes:
        name: Of the cut.
        unit: Index of the unit of each row; rows are sorted by unit and `cell`.
        columns: Component → its sums.
    """

    logs: ReadLogs
    name: str
    cells: cells.CutCells
    unit: NDArray[np.int64]
    cell: NDArray[np.int64]
    columns: Mapping[str, Integers]

    def values(self, columns: Mapping[str, Integers]) -> SourceValues:
        """Return metric values of each row, from columns of their source."""
        logs = self.logs
        return SourceValues(logs.experiment, logs.schema, logs.units, {}, {}).take_units(
            self.unit, columns
        )

    def sums(self, metrics: Sequence[Metric], columns: Mapping[str, Integers]) -> list[SumsRow]:
        """Sum metrics by cell."""
        labels = Labels(self.cell.astype(np.int32), self.cells.names)
        return self.values(columns).sum_cells(metrics, CUT + self.name, labels)


def _sum_cell_totals(logs: ReadLogs, name: str) -> CellTotals:
    """Sum the period's impressions by unit and cell, and create `cut_cells`."""
    engine, experiment = logs.engine, logs.experiment
    components = [*logs.schema.components.values()]
    items_sql = ", ".join(["unit_id", f"{cells.cut_value(name)} as value", *components])
    engine.view("cut_rows", f"select {items_sql} from impressions where in_period")
    engine.table("cut_sums", query("4_metrics/cut_sums"))
    sizes: dict[str, dict[str, int]] = {}
    for value, variant, count in engine.rows(query("4_metrics/cut_sizes")):
        of_value = sizes.setdefault(str(value), dict.fromkeys(experiment.variants, 0))
        of_value[str(variant)] = read_int(count)
    of_cut = cells.cut_cells(name, sizes, experiment.privacy.min_units)
    number = {cell: i for i, cell in enumerate(of_cut.names)}
    cell_numbers = (
        f"({literal(v)}, cast({number[c]} as bigint))" for v, c in of_cut.cell_of.items()
    )
    items_sql = ", ".join(cell_numbers) or "('', cast(0 as bigint))"
    engine.view("cut_cells", f"select * from (values {items_sql}) as v (value, number)")
    items_sql = ", ".join(["s.unit_id", "c.number", *(f"s.{column}" for column in components)])
    read = engine.arrays(
        f"select {items_sql} from cut_sums s join cut_cells c on s.value = c.value"
    )
    unit, cell, *sums = (column.astype(np.int64) for column in read.values())
    groups = Groups.build(pack_key(unit, cell))
    columns = {column: groups.sum(values) for column, values in zip(components, sums, strict=True)}
    return CellTotals(logs, name, of_cut, unit[groups.first], cell[groups.first], columns)


def _sum_scores(totals: CellTotals, metrics: Sequence[Metric]) -> list[SumsRow]:
    """Sum GAUC and AUC of each cell, from its scored impressions.

    Its variant is a variant in a cell, and its unit a row of the totals.
    """
    logs, size = totals.logs, len(totals.unit)
    sources = dict.fromkeys(m.source for m in metrics if m.source in (GAUC, AUC))
    if not sources or not size:
        return []
    engine, variants = logs.engine, [*logs.experiment.variants]
    cell_units = {"row": np.arange(size), "unit_id": totals.unit, "number": totals.cell}
    engine.add_arrays("cell_units", cell_units)
    score = write_case("u.variant", {v: f"i.{s}" for v, s in logs.schema.score_of.items()})
    engine.table(
        "cell_scores",
        f"""
        select t.row as unit_id, i.click, {score} as score,
          c.number * {len(variants)} + {write_index("u.variant", variants)} as variant
        from impressions i
        join units u on i.unit_id = u.unit_id
        join cut_cells c on {cells.cut_value(totals.name)} = c.value
        join cell_units t on i.unit_id = t.unit_id and c.number = t.number
        where i.in_period and {score} is not null
        """,
    )
    score_columns = {name: name for name in ("unit_id", "variant", "score", "click")}
    steps = write_row_steps("scored", score_columns | {"in_period": "true"}, "cell_scores")
    rows = list[SumsRow]()
    for source in sources:
        days = read_days(engine, source, steps)
        columns = {
            name: sum_units(days.unit, values, size) for name, values in days.columns.items()
        }
        rows += totals.sums([metric for metric in metrics if metric.source == source], columns)
    engine.drop("cell_scores")
    return rows


def _sum_influences(
    totals: CellTotals, rows: Sequence[SumsRow], metrics: Sequence[Metric]
) -> list[SumsRow]:
    """Sum squared influences of units on both parts of each difference."""
    experiment, names = totals.logs.experiment, totals.cells.names
    values, start = totals.values(totals.columns), run_starts(totals.unit)
    variants = [*experiment.variants]
    counts = np.bincount(totals.logs.units.variant, minlength=len(variants)).tolist()
    sums = {(row.metric, row.group.variant, row.cell): (row.sum("y"), row.sum("x")) for row in rows}
    slices = list[Slice]()
    for metric, treatment in product(metrics, experiment.treatments):
        arms = [variants.index(name) for name in (experiment.control, treatment)]
        scale = np.array(list_scales(metric))
        control, treated = (
            composition.Totals(*(np.array(of_cells, dtype=float) * scale).T)
            for arm in arms
            for of_cells in ([sums.get((metric.name, variants[arm], c), (0, 0)) for c in names],)
        )
        try:
            step = compute_influence_step(control, treated)
            units = counts[arms[0]], counts[arms[1]]
            gradients = composition.gradients(control, treated, units)
        except Refusal:
            continue
        # The metric is 0 in both variants: there is nothing to split.
        if step == 0:
            continue
        y, x = values.pair(metric, totals.columns)
        gradients_by_part = {
            WITHIN: [gradient.within for gradient in gradients],
            MIX: [gradient.mix for gradient in gradients],
        }
        for part, of_part in gradients_by_part.items():
            worth = np.zeros((len(variants), len(names), 2))
            worth[arms] = [np.stack(gradient, axis=1) * (scale / step) for gradient in of_part]
            of_y, of_x = worth[values.units.variant, totals.cell].T
            # A unit is in several cells; its influences add up before they are squared.
            influence = sum_runs(round_half_away(of_y * y + of_x * x), start)
            slices.append(Slice(metric.name, part + totals.name, Terms(influence), treatment))
    groups = values.groups
    of_units = groups._replace(
        variant=groups.variant[start], split_period=groups.split_period[start]
    )
    return sum_slices(slices, of_units)


def compute_influence_step(control: composition.Totals, treatment: composition.Totals) -> float:
    """Return what one counted unit of an influence is worth."""
    return _INFLUENCE_STEP * max(
        abs(value) for value in composition.divide_totals(control, treatment)
    )
