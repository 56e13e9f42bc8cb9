"""Divide a log into parts (values of a column, cells of a cut), and estimate them.

Estimates are of cells of cuts, and curves over cut-offs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from abeval.aggregates.cells import cut_cells, cut_sizes, cut_value, write_cut_sums
from abeval.engines.protocol import Engine, whole
from abeval.engines.sql import literal, quoted
from abeval.errors import LogError
from abeval.logs.mapping import LogColumns, no_column, own_name
from abeval.logs.run import Run
from abeval.logs.shape import LogShape
from abeval.offline.estimates import Difference, Estimates, pairs
from abeval.offline.inference import MIN_UNITS, Columns, Value, compare, estimate
from abeval.offline.metrics import OfflineMetric, parse_metric
from abeval.results import replay
from abeval.results.replay import POOLED, CurvePoint, PairRow, ReplayRow
from abeval.stats import multiplicity


def parts_of_column(engine: Engine, log: LogColumns, column: str) -> dict[str, str]:
    """Return a part for each value of a column: by name."""
    logged = next((name for name in log.types if name.lower() == column.lower()), None)
    if logged is None:
        raise no_column(log, column)
    name = quoted(own_name(logged))
    rows = engine.rows(
        f"select distinct cast({name} as varchar) from impressions where in_period "
        f"and {name} is not null order by 1 limit 13"
    )
    values = [str(value) for (value,) in rows]
    if len(values) > 12:
        what = f"column {column!r} has more than a dozen values, too many for a k each"
        raise LogError(what, "name a column of few values, such as the device")
    return {v: f"in_period and cast({name} as varchar) = {literal(v)}" for v in values}


CELLS = 12
"""The most cells of a cut: each is replayed by itself."""


class CutParts(NamedTuple):
    """The cells of a cut: conditions on the impressions, and units by traffic."""

    parts: Mapping[str, str]
    units: Mapping[str, Mapping[str, int]]
    notes: tuple[str, ...]


def cut_parts(run: Run, shape: LogShape, cut: str) -> CutParts:
    """Return the cells of a cut, over the views of `prepare`."""
    write_cut_sums(run.engine, shape, cut)
    sizes = cut_sizes(run.engine, run.experiment.variants)
    cells = cut_cells(cut, sizes, run.experiment.privacy.min_units, CELLS)
    parts, units = {}, {}
    for cell in cells.names:
        values = [value for value, of in cells.cell_of.items() if of == cell]
        where = f"{cut_value(cut)} in ({', '.join(map(literal, values))})"
        parts[cell] = f"in_period and {where}"
        units[cell] = _units(run, where) if len(values) > 1 else dict(sizes[values[0]])
    every = {cell: {**of, POOLED: sum(of.values())} for cell, of in units.items()}
    return CutParts(parts, every, cells.notes)


def _units(run: Run, where: str) -> dict[str, int]:
    """Count each variant's units with an impression of one of several values, each unit once."""
    sql = f"""
    select u.variant, count(distinct i.unit_id)
    from impressions i join units u on i.unit_id = u.unit_id
    where i.in_period and {where} group by u.variant
    """
    counts = dict.fromkeys(run.experiment.variants, 0)
    return counts | {str(name): whole(units) for name, units in run.engine.rows(sql)}


_DEFAULT = ("precision@1", "recall@1", "map@1[min]", "ndcg@1[lin]")


def curve_metrics(names: Sequence[str] | None, longest: int) -> tuple[OfflineMetric, ...]:
    """Return the metrics of requests among some ids, or the default ones, at every cut-off.

    Example:
        >>> [m.id for m in curve_metrics(["recall@10", "auc"], 3)]
        ['recall@1', 'recall@2', 'recall@3']
    """
    definitions = [parse_metric(name).definition for name in names or _DEFAULT]
    cut = [d for d in dict.fromkeys(definitions) if d.family == "list" and d.cut != "none"]
    return tuple(OfflineMetric(d, k) for d in cut for k in range(1, longest + 1))


def curves(estimates: Estimates) -> Iterator[replay.Curve]:
    """Yield the curve of each model, traffic and definition; the metrics are of `curve_metrics`."""
    by_curve = groupby(estimates.places(), key=lambda place: (*place[:2], place[2].definition))
    for (model, traffic, definition), keys in by_curve:
        points = tuple(CurvePoint(key[2].cutoff, *estimates.cell(*key).value) for key in keys)
        name = OfflineMetric(definition).id
        known = [(p.k, p.value) for p in points if p.value is not None]
        yield replay.Curve(model, traffic, name, points, elbow(known))


def elbow(points: Sequence[tuple[int, float]]) -> int | None:
    """Return the cut-off furthest from the line between both ends (Satopää et al. 2011).

    None where there are fewer than three points, or they lie on the line.

    Example:
        >>> elbow([(1, 0.2), (2, 0.5), (3, 0.55), (4, 0.6)])
        2
    """
    if len(points) < 3 or points[0][1] == points[-1][1]:
        return None
    (k0, v0), (k1, v1) = points[0], points[-1]
    away = {k: abs((k - k0) / (k1 - k0) - (v - v0) / (v1 - v0)) for k, v in points}
    best = max(away, key=lambda k: away[k])
    return best if away[best] > 1e-9 else None


_FAMILIES = ("pairs", "auc", "point", "bins")
"""Metrics of rows or of a unit's rows; the others need whole lists."""


def metrics_by_cut(metrics: Sequence[OfflineMetric]) -> list[OfflineMetric]:
    """Return the metrics that parts of the traffic have: those that need no whole lists."""
    return [metric for metric in metrics if metric.definition.family in _FAMILIES]


def cell_rows(
    cut: str, cell: str, estimates: Estimates, units: Mapping[str, int]
) -> Iterator[replay.ReplayCutRow]:
    """Yield model × traffic × metric of one cell; too few units are refused."""
    for row in estimates.rows():
        fields = _in_cell(row, units[row.traffic], ("value", "low", "high"))
        del fields["left_out"]
        yield replay.ReplayCutRow(**fields, cut=cut, cell=cell)


def cell_pairs(
    cut: str, cell: str, estimates: Estimates, control: str | None, units: Mapping[str, int]
) -> Iterator[replay.ReplayCutPair]:
    """Yield two models × traffic × metric of one cell, before p-values are adjusted."""
    known = ("value_control", "value", "difference", "low", "high", "p_value")
    for pair in pairs(estimates, control):
        fields = _in_cell(pair, units[pair.traffic], known)
        yield replay.ReplayCutPair(**fields, cut=cut, cell=cell, p_adjusted=None)


def _in_cell(row: ReplayRow | PairRow, units: int, known: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a row over a cell; without what is `known` if units are too few."""
    fields = {**vars(row), "units": units}
    if units < MIN_UNITS:
        fields |= {**dict.fromkeys(known), "reason": "too_few_units"}
    return fields


def adjusted(rows: Sequence[replay.ReplayCutPair]) -> list[replay.ReplayCutPair]:
    """Return the pairs with Holm's p over the cells of each cut."""
    families: dict[tuple[str, ...], dict[int, float]] = {}
    for i, row in enumerate(rows):
        if row.p_value is not None:
            key = row.cut, row.control, row.model, row.traffic, row.metric
            families.setdefault(key, {})[i] = row.p_value
    holm: dict[int, float] = {}
    for p_values in families.values():
        of_family = multiplicity.adjust([*p_values.values()], "holm")
        holm |= dict(zip(p_values, of_family.tolist(), strict=True))
    return [replace(row, p_adjusted=holm.get(i)) for i, row in enumerate(rows)]


def cut_by_value(
    column: str, ks: Mapping[str, int], parts: Mapping[str, Estimates], control: str | None
) -> replay.CutByValue:
    """Estimate metrics of requests whose cut-off depends on the value of a column.

    `parts` has the estimates of the requests with each value, at the cut-off that `ks` has for it.
    """
    some = next(iter(parts.values()))
    models = [m for m in some.models if all(m in part.models for part in parts.values())]
    if not models:
        return replay.CutByValue(column, tuple(ks.items()), (), ())
    first = control if control is not None and control in models else models[0]
    rows, pairs = list[ReplayRow](), list[PairRow]()
    lists = (m.definition for m in some.metrics if m.definition.family == "list")
    for definition in dict.fromkeys(lists):
        name = OfflineMetric(definition).id.replace(definition.name, f"{definition.name}@{column}")
        at = {part: OfflineMetric(definition, ks[value]) for value, part in parts.items()}
        for traffic, mask in some.masks.items():
            units = int(mask.sum())
            columns, values = dict[str, Columns](), dict[str, Value]()
            for model in models:
                own = [part.columns(model, traffic, metric) for part, metric in at.items()]
                above = np.sum([of.above for of in own], axis=0)
                below = np.sum([of.below for of in own], axis=0)
                columns[model] = Columns(above, below, is_share=own[0].is_share)
                values[model] = value = estimate(columns[model], mask, some.alpha)
                head = (model, traffic, name, *value[:3])
                rows.append(ReplayRow(*head, units, float(below[mask].sum()), (), value.reason))
            for model in (m for m in models if m != first):
                effect = compare(columns[first], columns[model], mask, some.alpha)
                numbers = Difference.of(effect, None)
                pair = (first, model, traffic, name, values[first].value, values[model].value)
                pairs.append(PairRow(*pair, *numbers[:4], units, numbers.reason))
    return replay.CutByValue(column, tuple(ks.items()), tuple(rows), tuple(pairs))
