"""Build the parts of the page that a replay fills: models, stages, curves, calibration."""

from collections.abc import Iterable, Iterator, Sequence
from math import sqrt

from abeval.report import assets
from abeval.report import figures as fig
from abeval.report import replay_short as short
from abeval.report.figures import Block, Closed, FigureView, Heading, figures_of
from abeval.report.tables import TextTable
from abeval.results import format as fmt
from abeval.results import replay
from abeval.results.replay import POOLED, CalibrationBin, Curve, ReplayResult, ReplayRow
from abeval.results.study import Study

_SMALLEST, _LARGEST = 3.0, 13.0
"""Diameters of the points of a calibration, in pixels: of few rows and of most."""


def curve_figure(curves: Sequence[Curve]) -> fig.Figure:
    """Draw one metric by cut-off, a line per model, a ring around each elbow."""
    series = {c.model: [one for p in c.points for one in _points(p.k, p)] for c in curves}
    metric = curves[0].metric if curves else ""
    drawn = fig.lines(series, "k", metric, {"tickformat": "d"}, _PLAIN)
    drawn["data"] += [
        fig.scatter(
            x=[p.k],
            y=[p.value],
            mode="markers",
            name=f"elbow at {p.k}",
            showlegend=False,
            marker={"size": 17, "symbol": "circle-open", "color": fig.colour(i)},
            hovertemplate="elbow at %{x}<extra></extra>",
        )
        for i, curve in enumerate(curves)
        for p in curve.points
        if p.k == curve.elbow
    ]
    return drawn


_PLAIN = {"tickformat": "~g"}


def _points(x: int | str, row: ReplayRow | replay.CurvePoint) -> Iterator[fig.Point]:
    if row.value is not None:
        yield fig.Point(x, row.value, (f"{x}: {row.value:.4g}",), (row.value, row.low, row.high))


def calibration_figure(bins: Sequence[CalibrationBin]) -> fig.Figure:
    """Draw click rate against score in bins, larger of more rows; dashed: perfect calibration."""
    series: dict[str, list[fig.Point]] = {b.model: [] for b in bins}
    sizes: dict[str, list[float]] = {b.model: [] for b in bins}
    filled = sorted((b for b in bins if b.rows), key=lambda b: b.mean_score)
    for b in filled:
        most = max(one.rows for one in filled if one.model == b.model)
        rate = b.clicks / b.rows
        said = f"{fmt.count(b.clicks)} clicks in {fmt.count(b.rows)} rows"
        said = f"{said}, {b.mean_score:.4g}: {rate:.4g}"
        series[b.model].append(fig.Point(b.mean_score, rate, (said,), (rate, b.low, b.high)))
        sizes[b.model].append(_SMALLEST + (_LARGEST - _SMALLEST) * sqrt(b.rows / most))
    end = max((max(b.mean_score, b.clicks / b.rows) for b in filled), default=1.0)
    diagonal = [fig.dashed((0, end), (0, end))]
    drawn = fig.lines(series, "mean score", "clicks / rows", yaxis=_PLAIN, shapes=diagonal)
    for trace, size in zip(drawn["data"], sizes.values(), strict=True):
        trace["marker"]["size"] = size
    return drawn


def stage_figure(rows: Sequence[tuple[str, str, ReplayRow]]) -> fig.Figure:
    """Draw a metric from stage to stage, a line per model; rows are stage, model and value."""
    series: dict[str, list[fig.Point]] = {model: [] for _, model, _ in rows}
    for stage, model, row in rows:
        series[model] += _points(stage, row)
    metric = rows[0][2].metric if rows else ""
    return fig.lines(series, "stage", metric, {"type": "category"}, _PLAIN)


_BINNED = {"mass": "bins of equal counts", "width": "bins of equal widths"}

OfTraffic = tuple[str, tuple[Block, ...]]
"""A traffic, and what is shown of it."""


def offline_part(result: ReplayResult) -> tuple[Block, ...]:
    """Show the models offline, side by side."""
    everywhere, groups = short.traffics(result), short.by_kind(result)
    units = {row.traffic: row.units for row in reversed(result.rows)}
    drawn, cut = short.drawn_metrics(result), result.by_value

    def shown(traffic: str, tables: Iterable[TextTable]) -> OfTraffic:
        closed = tuple(
            Closed(
                f"{one.title} ({len(one.rows)})",
                (one._replace(title="", lead=""),),
                "data",
                is_open=one.title not in groups or any(row[0] in drawn for row in one.rows),
            )
            for one in tables
        )
        heading = Heading(f"Traffic of {traffic}", f"{fmt.count(units[traffic])} units", 4)
        return traffic, (heading, *closed) if closed and traffic != POOLED else closed

    html = assets.block(
        "offline.html",
        result=result,
        models=short.plain_models(result),
        traffics=[(name, units[name]) for name in everywhere],
        compared=_pooled_last(shown(t, short.compared(result, t, groups)) for t in everywhere),
        staged=_pooled_last(shown(t, short.staged(result, t, groups)) for t in everywhere),
        by_value=_pooled_last(shown(t, [short.by_value(result, cut, t)]) for t in everywhere)
        if cut
        else (),
        cuts=_pooled_last(shown(t, short.by_cut(result, t)) for t in everywhere),
        curves=_pooled_last(_curves(result)),
        stages=_pooled_last(_stages(result)),
        coverage=short.coverage(result)._replace(title=""),
        level=fmt.level(result.alpha),
    )
    return (html,)


def _pooled_last(parts: Iterable[OfTraffic]) -> tuple[Block, ...]:
    """List what is shown of each traffic; that of all together is closed."""
    listed = [(traffic == POOLED, block) for traffic, blocks in parts for block in blocks]
    pooled = tuple(block for is_pooled, block in listed if is_pooled)
    extra = Closed("Pooled, an extra: all traffic together", pooled)
    return (*(one for is_pooled, one in listed if not is_pooled), *[extra] * bool(pooled))


def replay_figure_views(study: Study) -> Iterable[FigureView]:
    """List every figure inside the part `offline`, which its template lays out."""
    result = study.replay
    return (
        ()
        if result is None
        else figures_of(
            block for make in (_curves, _stages) for _, blocks in make(result) for block in blocks
        )
    )


def calibration_part(result: ReplayResult) -> tuple[Block, ...]:
    """Show click rate against predicted score."""
    if not result.calibration:
        return ()
    return tuple(_calibration(result))


def _curves(result: ReplayResult) -> Iterator[OfTraffic]:
    """Draw a figure for each metric and traffic."""
    for i, (title, elbows, own) in enumerate(short.curves(result)):
        view = FigureView(
            title,
            elbows,
            curve_figure(own),
            key=("curve", own[0].metric, own[0].traffic),
            slug=f"curve-{i}",
        )
        yield own[0].traffic, (view,)


def _calibration(result: ReplayResult) -> Iterator[FigureView]:
    """Draw a figure for each traffic and way of binning."""
    keys = dict.fromkeys((b.traffic, b.kind) for b in result.calibration)
    for i, (traffic, kind) in enumerate(keys):
        own = [b for b in result.calibration if (b.traffic, b.kind) == (traffic, kind)]
        yield FigureView(
            f"Traffic of {traffic}, {_BINNED[kind]}",
            "",
            calibration_figure(own),
            key=("calibration", traffic, kind),
            slug=f"calibration-{i}",
        )


def _stages(result: ReplayResult) -> Iterator[OfTraffic]:
    """Draw a figure for each metric and traffic: its value at each stage."""
    stages = {m.name: m.stage for m in result.models if m.stage is not None}
    keys = [(m, t) for m in short.drawn_metrics(result) for t in short.traffics(result)]
    for i, (metric, traffic) in enumerate(keys if stages else ()):
        own = [r for r in result.rows if (r.metric, r.traffic) == (metric, traffic)]
        named = [
            (stages[r.model], r.model.removeprefix(f"{stages[r.model]}/"), r)
            for r in own
            if r.model in stages
        ]
        view = FigureView(
            f"{metric}, traffic of {traffic}",
            "",
            stage_figure(named),
            key=("stage", metric, traffic),
            slug=f"stage-{i}",
        )
        yield traffic, (view,)


def _value(row: ReplayRow | replay.CurvePoint) -> str:
    return " ".join(part for part in fmt.estimate(row.value, row.low, row.high) if part)
