"""Estimate parts of a log: gaps between splits, cells of cuts, curves over cut-offs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from abeval.offline.estimates import Difference, Estimates, Side, compare_sides, pairs
from abeval.offline.inference import Columns, compare, estimate
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
from abeval.stats.records import Bools

_DEFAULT = ("precision@1", "recall@1", "map@1[min]", "ndcg@1[lin]")


def curve_metrics(names: Sequence[str] | None, longest: int) -> tuple[OfflineMetric, ...]:
    """The metrics of requests among some ids, or the default ones, at every cut-off.

    Example:
        >>> [m.id for m in curve_metrics(["recall@10", "auc"], 3)]
        ['recall@1', 'recall@2', 'recall@3']
    """
    definitions = [parse_metric(name).definition for name in names or _DEFAULT]
    cut = [d for d in dict.fromkeys(definitions) if d.family == "list"]
    return tuple(OfflineMetric(d, k) for d in cut for k in range(1, longest + 1))


def curves(estimates: Estimates) -> Iterator[Curve]:
    """The curve of each model, traffic and definition; the metrics are of `curve_metrics`."""
    by_curve = groupby(estimates.cells(), key=lambda cell: (*cell[:2], cell[2].definition))
    for (model, traffic, definition), cells in by_curve:
        values = [(m.cutoff, estimates.value(model, m, traffic)) for _, _, m in cells]
        points = tuple(CurvePoint(k, v.value, v.low, v.high, v.reason) for k, v in values)
        name = OfflineMetric(definition).id
        known = [(p.k, p.value) for p in points if p.value is not None]
        yield Curve(model, traffic, name, points, elbow(known))


def elbow(points: Sequence[tuple[int, float]]) -> int | None:
    """The cut-off furthest from the line between both ends (Satopää et al. 2011).

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


MIN_UNITS = 30
"""A cell with fewer units in a traffic than this is too little data for an interval."""

_FAMILIES = ("pairs", "auc", "point", "bins")
"""Metrics of rows or of a unit's rows; the others need whole lists."""


def metrics_by_cut(metrics: Sequence[OfflineMetric]) -> list[OfflineMetric]:
    """The metrics that parts of the traffic have: those that need no whole lists."""
    return [metric for metric in metrics if metric.definition.family in _FAMILIES]


def cell_rows(
    cut: str, cell: str, estimates: Estimates, units: Mapping[str, int]
) -> Iterator[ReplayCutRow]:
    """Model × traffic × metric of one cell; too few units are refused."""
    for row in estimates.rows():
        few = units[row.traffic] < MIN_UNITS
        yield ReplayCutRow(
            *(cut, cell, row.model, row.traffic, row.metric),
            *((None, None, None) if few else (row.value, row.low, row.high)),
            units=units[row.traffic],
            counted=row.counted,
            reason="too_few_units" if few else row.reason,
        )


def cell_pairs(
    cut: str, cell: str, estimates: Estimates, control: str | None, units: Mapping[str, int]
) -> Iterator[ReplayCutPair]:
    """Two models × traffic × metric of one cell, before p-values are adjusted."""
    for pair in pairs(estimates, control):
        few = units[pair.traffic] < MIN_UNITS
        numbers = (pair.value_control, pair.value, pair.difference, pair.low, pair.high)
        yield ReplayCutPair(
            *(cut, cell, pair.control, pair.model, pair.traffic, pair.metric),
            *((None,) * 5 if few else numbers),
            p_value=None if few else pair.p_value,
            p_adjusted=None,
            units=units[pair.traffic],
            reason="too_few_units" if few else pair.reason,
        )


def adjusted(rows: Sequence[ReplayCutPair]) -> list[ReplayCutPair]:
    """The pairs with Holm's p over the cells of each cut."""
    families: dict[tuple[str, ...], list[int]] = {}
    for i, row in enumerate(rows):
        if row.p_value is not None:
            key = row.cut, row.control, row.model, row.traffic, row.metric
            families.setdefault(key, []).append(i)
    adjusted: dict[int, float] = {}
    for places in families.values():
        p_values = [p for i in places if (p := rows[i].p_value) is not None]
        holm = multiplicity.adjust(p_values, "holm").tolist()
        adjusted |= dict(zip(places, holm, strict=True))
    return [replace(row, p_adjusted=adjusted.get(i)) for i, row in enumerate(rows)]


def gaps(parts: Mapping[str, Estimates]) -> Iterator[Gap]:
    """How much larger each metric is in the first part than in each other.

    Parts are compared in pairs by unit; a unit that is missing from a part adds nothing to it.
    """
    (first, of_first), *others = parts.items()
    for name, of_other in others:
        for model, traffic, metric in of_other.cells():
            if model not in of_first.models:
                continue
            after, before = Side(of_first, model), Side(of_other, model)
            sides = after.value(metric, traffic), before.value(metric, traffic)
            reason = sides[0].why_not_compared or sides[1].why_not_compared
            difference = compare_sides(before, after, metric, traffic, reason)
            yield Gap(model, traffic, metric.id, first, name, *difference)


def cut_by_value(
    column: str, ks: Mapping[str, int], parts: Mapping[str, Estimates], control: str | None
) -> CutByValue:
    """Metrics of requests whose cut-off depends on the value of a column.

    `parts` has the estimates of the requests with each value, at the cut-off that `ks` has for it.
    """
    some = next(iter(parts.values()))
    rows: list[ReplayRow] = []
    pairs: list[PairRow] = []
    for definition in dict.fromkeys(m.definition for m in some.metrics):
        if definition.family != "list":
            continue
        name = OfflineMetric(definition).id.replace(definition.name, f"{definition.name}@{column}")
        for traffic in some.traffics:
            mask, models = some.mask(traffic), _summed(definition, ks, parts, traffic)
            rows += _rows((traffic, name), models, mask, some.alpha)
            pairs += _pairs((traffic, name), models, control, mask, some.alpha)
    return CutByValue(column, tuple(ks.items()), tuple(rows), tuple(pairs))


def _summed(
    definition: Definition, ks: Mapping[str, int], parts: Mapping[str, Estimates], traffic: str
) -> dict[str, Columns]:
    """The variables of each model that all parts have, summed over the parts."""
    some = next(iter(parts.values()))
    models = [m for m in some.models if all(m in part.models for part in parts.values())]
    return {
        model: _sum(
            [
                part.columns(model, OfflineMetric(definition, ks[value]), traffic)
                for value, part in parts.items()
            ]
        )
        for model in models
    }


def _sum(parts: Sequence[Columns]) -> Columns:
    above, below = sum(part.above for part in parts), sum(part.below for part in parts)
    sums = parts[0].above * 0 + above, parts[0].below * 0 + below
    return Columns(*sums, None, "ratio", parts[0].is_share)


def _rows(
    head: tuple[str, str], models: Mapping[str, Columns], mask: Bools, alpha: float
) -> Iterator[ReplayRow]:
    for model, columns in models.items():
        value, counted = estimate(columns, mask, alpha), float(columns.below[mask].sum())
        yield value.row((model, *head), int(mask.sum()), counted)


def _pairs(
    head: tuple[str, str],
    models: Mapping[str, Columns],
    control: str | None,
    mask: Bools,
    alpha: float,
) -> Iterator[PairRow]:
    first = control if control in models else next(iter(models), None)
    for model, columns in models.items():
        if first is None or model == first:
            continue
        before, after = (estimate(models[m], mask, alpha).value for m in (first, model))
        effect = compare(models[first], columns, mask, alpha)
        pair = (first, model, *head, before, after)
        yield Difference.of(effect, None).row(pair, int(mask.sum()))
