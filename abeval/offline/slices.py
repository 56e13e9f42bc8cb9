"""Estimate parts of a log: gaps between splits, cells of cuts, curves over cut-offs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from abeval.offline.estimates import Difference, Estimates, pairs
from abeval.offline.inference import MIN_UNITS, Columns, Value, compare, estimate
from abeval.offline.metrics import Definition, OfflineMetric, parse_metric
from abeval.results.replay import (
    Curve,
    CurvePoint,
    CutByValue,
    Gap,
    PairRow,
    ReplayCutPair,
    ReplayCutRow,
    ReplayRow,
)
from abeval.stats import multiplicity

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


def curves(estimates: Estimates) -> Iterator[Curve]:
    """Yield the curve of each model, traffic and definition; the metrics are of `curve_metrics`."""
    by_curve = groupby(estimates.places(), key=lambda place: (*place[:2], place[2].definition))
    for (model, traffic, definition), keys in by_curve:
        points = tuple(CurvePoint(key[2].cutoff, *estimates.cell(*key).value) for key in keys)
        name = OfflineMetric(definition).id
        known = [(p.k, p.value) for p in points if p.value is not None]
        yield Curve(model, traffic, name, points, elbow(known))


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
) -> Iterator[ReplayCutRow]:
    """Yield model × traffic × metric of one cell; too few units are refused."""
    for row in estimates.rows():
        few = units[row.traffic] < MIN_UNITS
        yield ReplayCutRow(
            *(row.model, row.traffic, row.metric),
            *((None, None, None) if few else (row.value, row.low, row.high)),
            units=units[row.traffic],
            counted=row.counted,
            cut=cut,
            cell=cell,
            reason="too_few_units" if few else row.reason,
        )


def cell_pairs(
    cut: str, cell: str, estimates: Estimates, control: str | None, units: Mapping[str, int]
) -> Iterator[ReplayCutPair]:
    """Yield two models × traffic × metric of one cell, before p-values are adjusted."""
    for pair in pairs(estimates, control):
        few = units[pair.traffic] < MIN_UNITS
        numbers = (pair.value_control, pair.value, pair.difference, pair.low, pair.high)
        yield ReplayCutPair(
            *(pair.control, pair.model, pair.traffic, pair.metric),
            *((None,) * 5 if few else numbers),
            p_value=None if few else pair.p_value,
            units=units[pair.traffic],
            reason="too_few_units" if few else pair.reason,
            cut=cut,
            cell=cell,
            p_adjusted=None,
        )


def adjusted(rows: Sequence[ReplayCutPair]) -> list[ReplayCutPair]:
    """Return the pairs with Holm's p over the cells of each cut."""
    families: dict[tuple[str, ...], dict[int, float]] = {}
    for i, row in enumerate(rows):
        if row.p_value is not None:
            key = row.cut, row.control, row.model, row.traffic, row.metric
            families.setdefault(key, {})[i] = row.p_value
    holm: dict[int, float] = {}
    for p_values in families.values():
        found = multiplicity.adjust([*p_values.values()], "holm")
        holm |= dict(zip(p_values, found.tolist(), strict=True))
    return [replace(row, p_adjusted=holm.get(i)) for i, row in enumerate(rows)]


def gaps(parts: Mapping[str, Estimates]) -> Iterator[Gap]:
    """Yield how much larger each metric is in the first part than in each other.

    Parts are compared in pairs by unit; a unit that is missing from a part adds nothing to it.
    """
    (first, of_first), *others = parts.items()
    for name, of_other in others:
        for model, traffic, metric in of_other.places():
            if model not in of_first.models:
                continue
            after, before = (part.cell(model, traffic, metric) for part in (of_first, of_other))
            reason = after.value.why_not_compared or before.value.why_not_compared
            difference = of_other.difference(before, after, traffic, reason)
            yield Gap(model, traffic, metric.id, first, name, *difference)


def cut_by_value(
    column: str, ks: Mapping[str, int], parts: Mapping[str, Estimates], control: str | None
) -> CutByValue:
    """Estimate metrics of requests whose cut-off depends on the value of a column.

    `parts` has the estimates of the requests with each value, at the cut-off that `ks` has for it.
    """
    some = next(iter(parts.values()))
    models = [m for m in some.models if all(m in part.models for part in parts.values())]
    if not models:
        return CutByValue(column, tuple(ks.items()), (), ())
    first = control if control is not None and control in models else models[0]
    rows, pairs = list[ReplayRow](), list[PairRow]()
    lists = (m.definition for m in some.metrics if m.definition.family == "list")
    for definition in dict.fromkeys(lists):
        name = OfflineMetric(definition).id.replace(definition.name, f"{definition.name}@{column}")
        for traffic, mask in some.masks.items():
            units, values = int(mask.sum()), dict[str, Value]()
            columns = {model: _summed(definition, ks, parts, model, traffic) for model in models}
            for model, of in columns.items():
                values[model] = value = estimate(of, mask, some.alpha)
                counted = float(of.below[mask].sum())
                head = (model, traffic, name, *value[:3])
                rows.append(ReplayRow(*head, units, counted, (), value.reason))
            for model in (m for m in models if m != first):
                effect = compare(columns[first], columns[model], mask, some.alpha)
                found = Difference.of(effect, None)
                pair = (first, model, traffic, name, values[first].value, values[model].value)
                pairs.append(PairRow(*pair, *found[:4], units, found.reason))
    return CutByValue(column, tuple(ks.items()), tuple(rows), tuple(pairs))


def _summed(
    definition: Definition,
    ks: Mapping[str, int],
    parts: Mapping[str, Estimates],
    model: str,
    traffic: str,
) -> Columns:
    """Sum the variables of a model over the parts."""
    columns = [
        part.columns(model, traffic, OfflineMetric(definition, ks[value]))
        for value, part in parts.items()
    ]
    above = np.sum([of.above for of in columns], axis=0)
    below = np.sum([of.below for of in columns], axis=0)
    return Columns(above, below, is_share=columns[0].is_share)
