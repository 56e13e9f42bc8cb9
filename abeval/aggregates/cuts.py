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

from abeval.aggregates.cut_cells import CutCells, cut_cells, cut_sizes, cut_value, write_cut_sums
from abeval.aggregates.kernels.auc import score_sums
from abeval.aggregates.kernels.rows import Placing
from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.moment_rows import LABELS, MOMENT_COLUMNS
from abeval.aggregates.slice_sums import SqlSlice
from abeval.aggregates.unit_rows import Scan, unit_rows
from abeval.aggregates.unit_sums import Row
from abeval.engines.queries import query
from abeval.engines.sql import literal, numbered, quoted
from abeval.logs.views import cut_name, show_scored
from abeval.metrics.definition import Metric, no_cuts, scales, splits_by_cut
from abeval.metrics.sources import AUC, GAUC, UNIT_DAY
from abeval.stats import mix
from abeval.stats.records import Refusal
from abeval.steps import Step

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
    queries: MetricQueries, metrics: Sequence[Metric], units: Mapping[str, int], step: Step
) -> CutSums:
    """Sums of the metrics in every cell of every cut of the experiment.

    Args:
        queries: Over prepared logs, whose `impressions` have the cuts' columns.
        metrics: Metrics of the scorecard; those without cuts are left out.
        units: Analysed units of each variant.
        step: Called with the name of each step.
    """
    rows, notes = list[Row](), list[str]()
    wanted = [metric for metric in metrics if no_cuts(metric) is None]
    for name in queries.experiment.cuts if wanted else ():
        step(f"cut {name}")
        cells = _write_totals(queries, name)
        notes += cells.notes
        own = _of_sums(queries, name, wanted)
        rows += own + _of_scores(queries, name, cells, wanted)
        rows += _influences(queries, name, own, [m for m in wanted if splits_by_cut(m)], units)
    return CutSums(_public(rows, queries.experiment.privacy.min_units), tuple(notes))


def _public(rows: Sequence[Row], min_units: int | None) -> list[Row]:
    """The rows of cells that may be shown: scores may have fewer units than the cell."""
    few = {row[:3] for row in rows if min_units is not None and int(str(row[LABELS])) < min_units}
    return [row for row in rows if row[:3] not in few]


class Arms(NamedTuple):
    """What a comparison of two variants needs of the sums by cell.

    Attributes:
        names: Control and the treatment.
        units: Analysed units of each.
    """

    names: tuple[str, str]
    units: tuple[int, int]


def _write_totals(queries: MetricQueries, name: str) -> CutCells:
    """Create `cut_totals`: the sums of each analysed unit in each cell."""
    engine, experiment = queries.engine, queries.experiment
    write_cut_sums(engine, queries.shape, name)
    sizes = cut_sizes(engine, experiment.variants, queries.units)
    cells = cut_cells(name, sizes, experiment.privacy.min_units)
    engine.view("cut_cells", _cells_sql(cells))
    engine.view("cut_size", f"select cast({max(1, len(cells.names))} as bigint) as cells")
    engine.table("cut_totals", query("units/cut_totals", queries.units))
    return cells


def _cells_sql(cells: CutCells) -> str:
    """Value → cell and its number, as a relation."""
    number = {cell: i for i, cell in enumerate(cells.names)}
    listed = ", ".join(
        f"({literal(value)}, {literal(cell)}, {number[cell]})"
        for value, cell in cells.cell_of.items()
    )
    if not listed:
        return "select '' as value, '' as cell, 0 as number where false"
    return f"select * from (values {listed}) as v (value, cell, number)"


def _of_sums(queries: MetricQueries, name: str, metrics: Sequence[Metric]) -> list[Row]:
    """Sums of metrics that are sums over impressions."""
    chosen = [metric for metric in metrics if metric.source == UNIT_DAY]
    return queries.sums(_slices(queries, name, chosen), "cut_totals")


def _slices(queries: MetricQueries, name: str, metrics: Sequence[Metric]) -> list[SqlSlice]:
    return [SqlSlice(m.name, CUT + name, *queries.both(m, "t_"), "cell") for m in metrics]


def _of_scores(
    queries: MetricQueries, name: str, cells: CutCells, metrics: Sequence[Metric]
) -> list[Row]:
    """GAUC and AUC of each cell, from one pass over the scored impressions."""
    sources = dict.fromkeys(m.source for m in metrics if m.source in (GAUC, AUC))
    if not sources:
        return []
    engine, rows = queries.engine, list[Row]()
    served = queries.scored(("unit_id", "click", quoted(cut_name(name))))
    show_scored(engine, _scored_in_cells(served, name))
    _write_scores(queries, cells)
    for source in sources:
        engine.view("cut_source", f"select * from cut_{source}")
        engine.table("cut_scores", query("units/cut_scores"))
        chosen = [metric for metric in metrics if metric.source == source]
        rows += queries.sums(_slices(queries, name, chosen), "cut_scores")
    return rows


def _scored_in_cells(served: str, name: str) -> str:
    """Scored impressions whose variant is one in a cell, and whose unit a unit in a cell."""
    return f"""
    with of_period as ({served})
    select cast(c.number as varchar) || ':' || i.variant as variant,
      i.unit_id * s.cells + c.number as unit_id, i.click, i.score
    from of_period i join cut_cells c on {cut_value(name)} = c.value cross join cut_size s
    """


def _write_scores(queries: MetricQueries, cells: CutCells) -> None:
    """Create `cut_gauc` and `cut_auc`: the sums of both sources."""
    engine, variants = queries.engine, queries.experiment.variants
    names = [f"{number}:{v}" for number in range(len(cells.names)) for v in variants]
    units = f"select distinct unit_id, {numbered('variant', names)} as arm from scored"
    unit_hash = engine.hash64(["unit_id"])
    known = engine.arrays(f"select *, {unit_hash} as hash from ({units}) as u order by hash")
    number, hashes = (known[name].astype(np.int64) for name in ("unit_id", "hash"))
    arm = known["arm"].astype(np.int16)
    sql = f"select {unit_hash} as unit, true as in_period, score, click = 1 as click from scored"
    folder = queries.experiment.engine.temp_directory
    scan = Scan(sql, Placing(hashes, len(hashes) // UNITS + 1), folder=folder)
    with unit_rows(engine, scan) as (rows, _):
        sums = score_sums(rows, arm, len(names))
    for source, days in ((GAUC, sums.gauc), (AUC, sums.auc)):
        engine.add_arrays(f"cut_{source}", {"unit_id": number[days.unit], **days.columns})


def _influences(
    queries: MetricQueries,
    name: str,
    rows: Sequence[Row],
    metrics: Sequence[Metric],
    units: Mapping[str, int],
) -> list[Row]:
    """Sums of squares of what each unit adds to both parts of each ratio's difference."""
    if queries.by_stretch:
        return []
    experiment, sums = queries.experiment, _sums(rows)
    slices, columns, weights = list[SqlSlice](), list[str](), list[Weights]()
    for metric, treatment in product(metrics, experiment.treatments):
        names, (y, x) = (experiment.control, treatment), queries.both(metric, "t_")
        arms = Arms(names, (units.get(experiment.control, 0), units.get(treatment, 0)))
        for part, of_part in _weights(sums.get(metric.name, {}), arms, scales(metric)).items():
            i = len(weights)
            weights.append(of_part)
            columns.append(f"sum(cast(round(w.y_{i} * {y} + w.x_{i} * {x}) as bigint)) as w_{i}")
            slices.append(SqlSlice(metric.name, part + name, f"w_{i}", cell=literal(treatment)))
    if not slices:
        return []
    queries.engine.view("cut_weights", _weights_sql(weights))
    queries.engine.table("cut_influence", _INFLUENCE.format(columns=", ".join(columns)))
    return queries.sums(slices, "cut_influence")


Sums = Mapping[tuple[str, str], tuple[int, int]]
"""(variant, cell) → Σ numerator and Σ denominator, in counted units."""

Weights = Mapping[tuple[str, str], tuple[float, float]]
"""(variant, cell) → what one counted unit of numerator and denominator adds to an influence."""

_INFLUENCE = """
select t.unit_id, t.variant, t.stretch, {columns}
from cut_totals t
join cut_weights w on t.variant = w.of_variant and t.cell = w.of_cell
group by t.unit_id, t.variant, t.stretch
"""


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
    control, treatment = (_totals(sums, name, cells, scale) for name in arms.names)
    try:
        of_arms = mix.gradients(control, treatment, arms.units)
        step = influence_step(control, treatment)
    except Refusal:
        return {}
    if step == 0:
        return {}
    worth = scale[0] / step, scale[1] / step

    def weights(part: Sequence[mix.Gradient]) -> Weights:
        return {
            (name, cell): (float(y) * worth[0], float(x) * worth[1])
            for name, own in zip(arms.names, part, strict=True)
            for cell, y, x in zip(cells, *own, strict=True)
        }

    return {
        WITHIN: weights([own.within for own in of_arms]),
        MIX: weights([own.mix for own in of_arms]),
    }


def _totals(
    sums: Sums, variant: str, cells: Sequence[str], scale: tuple[float, float]
) -> mix.Totals:
    of_cells = [sums.get((variant, cell), (0, 0)) for cell in cells]
    return mix.Totals([y * scale[0] for y, _ in of_cells], [x * scale[1] for _, x in of_cells])


def influence_step(control: mix.Totals, treatment: mix.Totals) -> float:
    """What one counted unit of an influence is worth: a share of the metric's value.

    Raises:
        Refusal: `zero_denominator`.
    """
    values = [abs(value) for value in mix.ratios(control, treatment)]
    return INFLUENCE_STEP * max(values)


def _weights_sql(weights: Sequence[Weights]) -> str:
    """Variant and cell → the weights of every influence, as a relation."""
    places = sorted({place for one in weights for place in one})
    columns = [f"{term}_{i}" for i in range(len(weights)) for term in "yx"]
    # An exponent makes a number a double, which all engines compute with alike.
    rows = (
        ", ".join(
            [literal(variant), literal(cell)]
            + [f"{value:.17e}" for one in weights for value in one.get((variant, cell), (0.0, 0.0))]
        )
        for variant, cell in places
    )
    listed = ", ".join(f"({row})" for row in rows)
    return f"select * from (values {listed}) as v (of_variant, of_cell, {', '.join(columns)})"
