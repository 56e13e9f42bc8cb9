"""Lay out a replay on its page: models side by side and by stage, as text."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from markupsafe import Markup

from abeval.offline.metrics import OfflineMetric, parse_metric
from abeval.report import glyph
from abeval.report.effects import EffectView, full
from abeval.report.tables import estimate_of, interval_of
from abeval.results import codes, replay
from abeval.results import format as fmt
from abeval.results.replay import POOLED, PairRow, ReplayResult, ReplayRow

_REQUESTS = ("list", "tied")
_BEYOND = ("beyond", "catalogue")


class ValueView(NamedTuple):
    """A value with its interval, or why there is none."""

    text: str
    interval: str
    note: str


@dataclass(frozen=True)
class ComparedView:
    """A row: one metric of two models, or of one.

    `values` has one for each column: two models, or a single value. `effect` is the
    difference of two models; `p` is its p-value.
    """

    metric: str
    label: str
    values: tuple[ValueView, ...]
    effect: EffectView | None
    p: str


@dataclass(frozen=True)
class GroupView:
    """A table: some metrics on one axis.

    `heads` are of the columns of values, `label` is of the rows' labels, and `scale` is the axis of
    the drawings; empty without any. `main` is whether it is open from the start.
    """

    title: str
    heads: tuple[str, ...]
    label: str
    scale: Markup
    rows: tuple[ComparedView, ...]
    main: bool


Change = PairRow | replay.ReplayCutPair


class Line(NamedTuple):
    """The records of a row before it is drawn, as `replay_views.py` chooses them."""

    metric: str
    label: str
    values: tuple[ReplayRow | replay.ReplayCutRow | None, ...]
    change: Change | None


def kind_of(metric: OfflineMetric) -> str:
    """Title the table of a metric."""
    family = metric.definition.family
    if family in _BEYOND:
        return f"Beyond accuracy at k = {metric.k}"
    if family not in _REQUESTS:
        return "Scores and pairs"
    return "Whole lists" if metric.k is None else f"Requests at k = {metric.k}"


def group_of(
    title: str,
    heads: tuple[str, ...],
    label: str,
    lines: Sequence[Line],
    level: str,
    main: bool,
) -> GroupView:
    """Lay lines out as a table; `level` is the level of their intervals, as text."""
    marks = [_mark(line, level) for line in lines]
    drawn = [mark for mark in marks if mark is not None]
    axis = glyph.shared_axis(drawn)
    rows = tuple(_table_row(line, mark, axis) for line, mark in zip(lines, marks, strict=True))
    return GroupView(title, heads, label, glyph.scale(axis) if drawn else Markup(), rows, main)


def _table_row(line: Line, mark: glyph.Mark | None, axis: glyph.Axis) -> ComparedView:
    change = line.change
    places = max(fmt.interval_places(row.low, row.high) if row else 0 for row in line.values)
    values = tuple(value_view(row, places) for row in line.values)
    if change is None:
        return ComparedView(line.metric, line.label, values, None, "")
    drawing = glyph.draw(mark, axis) if mark else Markup()
    shown = fmt.difference(change.difference, change.low, change.high)
    effect = EffectView(
        estimate=estimate_of(shown),
        interval="" if change.low is None else interval_of(shown),
        absolute=codes.reason(change.reason),
        exact=f"{full(change.difference)} [{full(change.low)}, {full(change.high)}]",
        glyph=drawing,
    )
    p = change.p_adjusted if isinstance(change, replay.ReplayCutPair) else change.p_value
    return ComparedView(line.metric, line.label, values, effect, fmt.p_value(p))


def _mark(line: Line, level: str) -> glyph.Mark | None:
    """Draw a difference as a share of the baseline."""
    change = line.change
    if change is None or change.difference is None or change.low is None or change.high is None:
        return None
    base = _baseline(line)
    if not base:
        return None
    parts = [number / abs(base) for number in (change.difference, change.low, change.high)]
    shown = fmt.difference(change.difference, change.low, change.high)
    words = f", {level} interval {shown.span}" if shown else ""
    spoken = f"{line.metric} {line.label}: difference {shown.estimate if shown else ''}{words}"
    decided = not change.low <= 0 <= change.high
    return glyph.Mark(parts[0], parts[1], parts[2], "plain", decided, spoken)


def _baseline(line: Line) -> float | None:
    if isinstance(line.change, PairRow | replay.ReplayCutPair):
        return line.change.value_control
    row = line.values[0]
    return None if row is None else row.value


def value_view(row: ReplayRow | replay.ReplayCutRow | None, places: int = 0) -> ValueView:
    """Write a value with at least some decimals: those of the values beside it."""
    if row is None:
        return ValueView(fmt.MISSING, "", "")
    text, interval = fmt.estimate(row.value, row.low, row.high, places)
    return ValueView(text, interval, codes.reason(row.reason))


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
    """List the traffic of each variant, then all traffic together."""
    return tuple(dict.fromkeys(row.traffic for row in result.rows))


def units_of(result: ReplayResult, traffic: str) -> int:
    """Count the units of a traffic."""
    return next((row.units for row in result.rows if row.traffic == traffic), 0)


def plain_models(result: ReplayResult) -> list[str]:
    """List models that are no stages, the baseline of comparisons first."""
    names = [m.name for m in result.models if m.stage is None]
    controls = [pair.control for pair in result.pairs if pair.control in names]
    return list(dict.fromkeys([*controls[:1], *names]))


def compared(result: ReplayResult) -> tuple[TrafficView, ...]:
    """Compare the models side by side on every traffic."""
    models, rows, pairs = plain_models(result), _by_key(result.rows), _by_key(result.pairs)
    if not models:
        return ()
    first, *others = models
    several = len(others) > 1

    def lines(traffic: str, metric: str) -> Iterator[Line]:
        for other in others or [""]:
            values = (rows.get((model, traffic, metric)) for model in (first, other) if model)
            change = pairs.get((other, traffic, metric))
            yield Line(metric, other if several else "", tuple(values), change)

    heads = (first, "Model") if several else tuple(models)
    return _traffics(result, heads, "Model" if several else "", lines)


def staged(result: ReplayResult) -> tuple[TrafficView, ...]:
    """Compare the models at each stage, in the order of the stages."""
    stages: dict[str, list[str]] = {}
    for model in result.models:
        if model.stage is not None:
            stages.setdefault(model.stage, []).append(model.name)
    rows, pairs = _by_key(result.rows), _by_key(result.pairs)

    def lines(traffic: str, metric: str) -> Iterator[Line]:
        for models in stages.values():
            for key in ((model, traffic, metric) for model in models):
                pair = pairs.get(key)
                change = pair if pair and pair.control in models else None
                yield Line(metric, key[0], (rows.get(key),), change)

    return _traffics(result, ("Value",), "Stage and model", lines) if stages else ()


def by_value_views(result: ReplayResult) -> tuple[TrafficView, ...]:
    """Show metrics whose cut-off depends on the value of a column."""
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
    """List the ids of the metrics, in order."""
    return [metric for metric, _ in result.definitions]


def drawn_metrics(result: ReplayResult) -> list[str]:
    """Choose metrics with figures: all if they are few, else those most teams quote, at one k."""
    known = [parse_metric(metric) for metric in metrics_of(result)]
    if len(known) <= _FEW:
        return [metric.id for metric in known]
    quoted = [m for m in known if (m.definition.name, m.definition.variant) in _QUOTED]
    computed = {row.metric for row in result.rows if row.value is not None}
    deepest = {m.definition: m for m in quoted if m.id in computed}
    return [metric.id for metric in deepest.values()]


def _traffics(
    result: ReplayResult,
    heads: tuple[str, ...],
    label: str,
    lines: Callable[[str, str], Iterable[Line]],
) -> tuple[TrafficView, ...]:
    """Lay out the lines of each traffic and metric: a table for each kind of metric."""
    level, drawn, views = fmt.level(result.alpha), set(drawn_metrics(result)), []
    for traffic in traffics(result):
        by_title: dict[str, list[Line]] = {}
        for metric in metrics_of(result):
            own = by_title.setdefault(kind_of(parse_metric(metric)), [])
            own.extend(lines(traffic, metric))
        groups = tuple(
            group_of(title, heads, label, own, level, any(line.metric in drawn for line in own))
            for title, own in by_title.items()
            if own
        )
        views.append(_view(result, traffic, groups))
    return tuple(views)


def _view(result: ReplayResult, traffic: str, groups: tuple[GroupView, ...]) -> TrafficView:
    return TrafficView(traffic, traffic == POOLED, units_of(result, traffic), groups)


def _by_key(rows: Iterable[AnyRow]) -> Mapping[Key, AnyRow]:
    return {(row.model, row.traffic, row.metric): row for row in rows}


def cut_views(result: ReplayResult) -> tuple[TrafficView, ...]:
    """Show metrics in every cell, a table for each cut and model, with p after Holm."""
    shown = dict.fromkeys(row.traffic for row in result.cut_rows)
    return tuple(_view(result, name, tuple(_groups(result, name))) for name in shown)


def _groups(result: ReplayResult, traffic: str) -> Iterator[GroupView]:
    rows = [row for row in result.cut_rows if row.traffic == traffic]
    pairs = [pair for pair in result.cut_pairs if pair.traffic == traffic]
    first, *others = plain_models(result) or [""]
    metrics = list(dict.fromkeys(row.metric for row in result.cut_rows))
    for cut in dict.fromkeys(row.cut for row in rows):
        values = {(r.cell, r.metric, r.model): r for r in rows if r.cut == cut}
        changes = {(p.cell, p.metric, p.model): p for p in pairs if p.cut == cut}
        listed = dict.fromkeys((metric, cell) for cell, metric, _ in values)
        places = sorted(listed, key=lambda place: metrics.index(place[0]))
        for other in others or [""]:
            heads = (first, other) if other else (first,)
            lines = [
                Line(
                    metric,
                    f"{cut} = {cell or '(none)'}",
                    tuple(values.get((cell, metric, model)) for model in heads),
                    changes.get((cell, metric, other)),
                )
                for metric, cell in places
            ]
            yield group_of(f"By {cut}", heads, "Cell", lines, fmt.level(result.alpha), True)
