"""A replay as its page shows it: models side by side, stages and splits, formatted as text.

`replay_parts.py` hands over a `ReplayResult`; `replay_tables.py` formats the rows chosen here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from abeval.offline.metrics import parse_metric
from abeval.results import format as fmt
from abeval.results.replay import POOLED, PairRow, ReplayResult, ReplayRow

_FEW = 12
"""Up to this many metrics are all drawn; of more, those that most teams quote."""

_QUOTED = frozenset(
    {
        *(("ndcg", "lin"), ("map", "min"), ("recall", ""), ("gauc", "impressions"), ("auc", "")),
        *(("log_loss", ""), ("q_ctr", "")),
    }
)

Key = tuple[str, str, str]
"""Model, traffic and metric."""

AnyRow = TypeVar("AnyRow", ReplayRow, PairRow)


@dataclass(frozen=True)
class TrafficView:
    """The tables of one traffic."""

    name: str
    pooled: bool
    units: int
    groups: tuple[GroupView, ...]


def traffics(result: ReplayResult) -> tuple[str, ...]:
    """The traffic of each variant, then all traffic together."""
    return tuple(dict.fromkeys(row.traffic for row in result.rows))


def units_of(result: ReplayResult, traffic: str) -> int:
    """Number of units of a traffic."""
    return next((row.units for row in result.rows if row.traffic == traffic), 0)


def plain_models(result: ReplayResult) -> list[str]:
    """Models that are neither blends nor stages; the baseline of the comparisons first."""
    names = [m.name for m in result.models if m.stage is None and m.blend is None]
    controls = [pair.control for pair in result.pairs if pair.control in names]
    return list(dict.fromkeys([*controls[:1], *names]))


def compared(result: ReplayResult) -> tuple[TrafficView, ...]:
    """The models side by side on every traffic."""
    models, rows, pairs = plain_models(result), _by_key(result.rows), _by_key(result.pairs)
    if not models:
        return ()
    first, *others = models
    several = len(others) > 1
    heads = (first, "Model") if several else tuple(models)
    views = []
    for traffic in traffics(result):
        lines = [
            Line(
                metric,
                other if several else "",
                tuple(rows.get((model, traffic, metric)) for model in (first, other) if model),
                pairs.get((other, traffic, metric)),
            )
            for metric in metrics_of(result)
            for other in others or [""]
        ]
        views.append(_traffic(result, traffic, heads, "Model" if several else "", lines))
    return tuple(views)


def staged(result: ReplayResult) -> tuple[TrafficView, ...]:
    """The models side by side at each stage, in the order of the stages."""
    stages: dict[str, list[str]] = {}
    for model in result.models:
        if model.stage is not None:
            stages.setdefault(model.stage, []).append(model.name)
    rows, pairs = _by_key(result.rows), _by_key(result.pairs)
    views = []
    for traffic in traffics(result) if stages else ():
        lines = [
            Line(
                metric,
                model,
                (rows.get((model, traffic, metric)),),
                pair
                if (pair := pairs.get((model, traffic, metric))) and pair.control in models
                else None,
            )
            for metric in metrics_of(result)
            for models in stages.values()
            for model in models
        ]
        views.append(_traffic(result, traffic, ("Value",), "Stage and model", lines))
    return tuple(views)


def split_views(result: ReplayResult) -> tuple[TrafficView, ...]:
    """Each metric in every split, and the gap from the first to each other."""
    if not result.splits:
        return ()
    by_split = [_by_key(split.rows) for split in result.splits]
    heads = tuple(split.name for split in result.splits)
    gaps = {(g.model, g.traffic, g.metric, g.other): g for g in result.gaps}
    views = []
    for traffic in traffics(result):
        lines = []
        for metric in metrics_of(result):
            for model in (m.name for m in result.models):
                key = (model, traffic, metric)
                values = tuple(rows.get(key) for rows in by_split)
                for other in heads[1:] or heads:
                    label = model if len(heads) < 3 else f"{model}, {heads[0]} - {other}"
                    lines.append(Line(metric, label, values, gaps.get((*key, other))))
        views.append(_traffic(result, traffic, heads, "Model", lines))
    return tuple(views)


def by_value_views(result: ReplayResult) -> tuple[TrafficView, ...]:
    """Metrics whose cut-off depends on the value of a column."""
    cut = result.by_value
    if cut is None:
        return ()
    rows, pairs = _by_key(cut.rows), _by_key(cut.pairs)
    names = list(dict.fromkeys(row.model for row in cut.rows))
    ids = list(dict.fromkeys(row.metric for row in cut.rows))
    level, views = fmt.level(result.alpha), []
    for traffic in dict.fromkeys(row.traffic for row in cut.rows):
        lines = [
            Line(metric, model, (rows.get(key),), pairs.get(key))
            for metric in ids
            for model in names
            if (key := (model, traffic, metric))
        ]
        group = group_of(f"k by {cut.column}", ("Value",), "Model", lines, level, True)
        views.append(_view(result, traffic, (group,)))
    return tuple(views)


def metrics_of(result: ReplayResult) -> list[str]:
    """The ids of the metrics, in order."""
    return [metric for metric, _ in result.definitions]


def drawn_metrics(result: ReplayResult) -> list[str]:
    """The metrics with figures: all if they are few, else those most teams quote, at one k."""
    known = [parse_metric(metric) for metric in metrics_of(result)]
    if len(known) <= _FEW:
        return [metric.id for metric in known]
    quoted = [m for m in known if (m.definition.name, m.definition.variant) in _QUOTED]
    computed = {row.metric for row in result.rows if row.value is not None}
    deepest = {m.definition: m for m in quoted if m.id in computed}
    return [metric.id for metric in deepest.values()]


def _traffic(
    result: ReplayResult, traffic: str, heads: tuple[str, ...], label: str, lines: Sequence[Line]
) -> TrafficView:
    by_title: dict[str, list[Line]] = {}
    for line in lines:
        by_title.setdefault(kind_of(parse_metric(line.metric)), []).append(line)
    level, drawn = fmt.level(result.alpha), set(drawn_metrics(result))
    groups = (
        group_of(title, heads, label, own, level, any(line.metric in drawn for line in own))
        for title, own in by_title.items()
    )
    return _view(result, traffic, tuple(groups))


def _view(result: ReplayResult, traffic: str, groups: tuple[GroupView, ...]) -> TrafficView:
    return TrafficView(traffic, traffic == POOLED, units_of(result, traffic), groups)


def _by_key(rows: Iterable[AnyRow]) -> Mapping[Key, AnyRow]:
    return {(row.model, row.traffic, row.metric): row for row in rows}
