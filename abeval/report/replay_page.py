"""Build the parts of the page that a replay fills: models, stages, curves, calibration."""

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt

from abeval.report import assets
from abeval.report import figures as fig
from abeval.report import replay_views as views
from abeval.report.figures import FigureView, Section
from abeval.report.replay_views import cut_views
from abeval.report.tables import TextTable, numbers
from abeval.results import format as fmt
from abeval.results import replay
from abeval.results.replay import POOLED, CalibrationBin, Curve, ReplayResult, ReplayRow
from abeval.results.study import Study

_SMALLEST, _LARGEST = 3.0, 13.0
"""Diameters of the points of a calibration, in pixels: of few rows and of most."""

Point = tuple[float | str, fig.Interval]
"""Place on the x axis, and the value there with its interval."""


def curve_figure(curves: Sequence[Curve]) -> fig.Figure:
    """Draw one metric by cut-off, a line per model, a ring around each elbow."""
    traces = []
    for i, curve in enumerate(curves):
        points: list[Point] = [(p.k, (p.value, p.low, p.high)) for p in curve.points]
        traces.append(_line(i, curve.model, points))
        traces += [_ring(i, p.k, p.value) for p in curve.points if p.k == curve.elbow]
    return _drawn(traces, "k", curves[0].metric if curves else "", {"tickformat": "d"})


def calibration_figure(bins: Sequence[CalibrationBin]) -> fig.Figure:
    """Draw click rate against predicted score, in bins; dashed: perfect calibration."""
    series: dict[str, list[Point]] = {b.model: [] for b in bins}
    for b in sorted((b for b in bins if b.rows), key=lambda b: b.mean_score):
        series[b.model].append((b.mean_score, (b.clicks / b.rows, b.low, b.high)))
    drawn = lines(series, "mean score", "clicks / rows")
    for trace, model in zip(drawn["data"], series, strict=True):
        trace |= _weight(trace, [b for b in bins if b.model == model and b.rows])
    most = max((max(b.mean_score, b.clicks / b.rows) for b in bins if b.rows), default=1.0)
    drawn["layout"]["shapes"] = [fig.dashed((0, most), (0, most))]
    return drawn


def _weight(trace: fig.Trace, bins: Sequence[CalibrationBin]) -> fig.Trace:
    """Size points by their rows, which they name."""
    ordered = sorted(bins, key=lambda b: b.mean_score)
    most = max(b.rows for b in bins)
    size = [_SMALLEST + (_LARGEST - _SMALLEST) * sqrt(b.rows / most) for b in ordered]
    said = (f"{b.model}: {fmt.count(b.clicks)} clicks in {fmt.count(b.rows)} rows" for b in ordered)
    return {
        "marker": {**trace["marker"], "size": size},
        "customdata": list(map(fig.label, said)),
        "hovertemplate": "%{customdata}<br>%{x:.4g}: %{y:.4g}<extra></extra>",
    }


def stage_figure(rows: Sequence[tuple[str, str, ReplayRow]]) -> fig.Figure:
    """Draw a metric from stage to stage, a line per model; rows are stage, model and value."""
    series: dict[str, list[Point]] = {model: [] for _, model, _ in rows}
    for stage, model, row in rows:
        series[model].append((fig.label(stage), (row.value, row.low, row.high)))
    return lines(series, "stage", rows[0][2].metric if rows else "", {"type": "category"})


def lines(
    series: Mapping[str, Sequence[Point]],
    across: str,
    up: str,
    axis: Mapping[str, object] | None = None,
) -> fig.Figure:
    """Draw a line per series, with the intervals of its points."""
    traces = [_line(i, name, points) for i, (name, points) in enumerate(series.items())]
    return _drawn(traces, across, up, axis or {})


def _line(i: int, name: str, points: Sequence[Point]) -> fig.Trace:
    known = [(x, interval) for x, interval in points if interval[0] is not None]
    return fig.scatter(
        x=[x for x, _ in known],
        y=[interval[0] for _, interval in known],
        error_y=fig.error_bars([interval for _, interval in known], fig.colour(i), 1.4),
        mode="lines+markers",
        name=fig.label(name),
        line={"color": fig.colour(i), "width": 1.8},
        marker={"color": fig.colour(i), "size": 7, "symbol": fig.symbol(i)},
        customdata=[fig.label(name)] * len(known),
        hovertemplate="%{customdata}, %{x}: %{y:.4g}<extra></extra>",
    )


def _ring(i: int, k: int, value: float | None) -> fig.Trace:
    return fig.scatter(
        x=[k],
        y=[value],
        mode="markers",
        name=f"elbow at {k}",
        showlegend=False,
        marker={"size": 17, "symbol": "circle-open", "color": fig.colour(i), "line": {"width": 2}},
        hovertemplate="elbow at %{x}<extra></extra>",
    )


def _drawn(
    traces: Sequence[fig.Trace], across: str, up: str, axis: Mapping[str, object]
) -> fig.Figure:
    tail = {"gridcolor": fig.GRID, "zeroline": False, "nticks": 7}
    return fig.figure(
        traces,
        xaxis={**fig.axis(fig.label(across), 6, showgrid=False), **axis},
        yaxis={**fig.axis(fig.label(up), tickformat="~g"), **tail},
    )


_BINNED = {"mass": "bins of equal counts", "width": "bins of equal widths"}


def offline_part(result: ReplayResult) -> Section:
    """Show the models offline, side by side."""
    html = assets.block(
        "offline.html",
        result=result,
        compared=views.compared(result),
        models=views.plain_models(result),
        traffics=[(name, views.units_of(result, name)) for name in views.traffics(result)],
        curves=tuple(_curves(result)),
        staged=views.staged(result),
        stages=tuple(_stages(result)),
        cuts=cut_views(result),
        by_value=views.by_value_views(result),
        level=fmt.level(result.alpha),
    )
    return Section("The models on the same log.", (html,))


def replay_figure_views(study: Study) -> Iterator[FigureView]:
    """List every figure inside the part `offline`, which its template lays out."""
    if study.replay is not None:
        for make in (_curves, _stages):
            yield from make(study.replay)


def calibration_part(result: ReplayResult) -> Section | None:
    """Show click rate against predicted score."""
    if not result.calibration:
        return None
    lead = (
        "Click rate against predicted score. Above the dashed line a model predicts too little, "
        "below it too much. Points are as large as their rows are many, with the interval of their "
        "rate."
    )
    return Section(lead, tuple(_calibration(result)))


def _curves(result: ReplayResult) -> Iterator[FigureView]:
    """Draw a figure for each metric and traffic."""
    keys = dict.fromkeys((curve.metric, curve.traffic) for curve in result.curves)
    for i, (metric, traffic) in enumerate(keys):
        own = [c for c in result.curves if (c.metric, c.traffic) == (metric, traffic)]
        rows = zip(*(curve.points for curve in own), strict=True)
        cells = tuple((str(points[0].k), *map(_value, points)) for points in rows)
        yield FigureView(
            f"curve-{i}",
            f"{metric}, traffic of {traffic}",
            _elbows(own),
            curve_figure(own),
            TextTable("", "", ("k", *(curve.model for curve in own)), cells),
            traffic == POOLED,
            key=("curve", metric, traffic),
        )


def _elbows(curves: Sequence[Curve]) -> str:
    elbows = [
        f"{c.model} at {c.elbow}" if c.elbow is not None else f"{c.model} has none" for c in curves
    ]
    return f"Elbow (further places add less): {'; '.join(elbows)}."


def _calibration(result: ReplayResult) -> Iterator[FigureView]:
    """Draw a figure for each traffic and way of binning."""
    keys = dict.fromkeys((b.traffic, b.kind) for b in result.calibration)
    for i, (traffic, kind) in enumerate(keys):
        own = [b for b in result.calibration if (b.traffic, b.kind) == (traffic, kind)]
        yield FigureView(
            f"calibration-{i}",
            f"Traffic of {traffic}, {_BINNED[kind]}",
            "",
            calibration_figure(own),
            numbers(
                own,
                ("Model", lambda b: b.model),
                ("Bin", lambda b: str(b.bin)),
                ("Rows", lambda b: fmt.count(b.rows)),
                ("Clicks", lambda b: fmt.count(b.clicks)),
                ("Clicks / rows", lambda b: _rate(b)[0]),
                ("interval", lambda b: _rate(b)[1]),
                ("Mean score", lambda b: fmt.mean(b.mean_score)),
            ),
            key=("calibration", traffic, kind),
        )


def _rate(b: CalibrationBin) -> tuple[str, str]:
    return fmt.estimate(b.clicks / b.rows if b.rows else None, b.low, b.high)


def _of(result: ReplayResult, metric: str) -> list[ReplayRow]:
    return [row for row in result.rows if row.metric == metric]


def _stages(result: ReplayResult) -> Iterator[FigureView]:
    """Draw a figure for each metric and traffic: its value at each stage."""
    stages = {m.name: m.stage for m in result.models if m.stage is not None}
    keys = [(m, t) for m in views.drawn_metrics(result) for t in views.traffics(result)]
    for i, (metric, traffic) in enumerate(keys if stages else ()):
        own = [r for r in _of(result, metric) if r.traffic == traffic and r.model in stages]
        named = [(stages[r.model], r.model.removeprefix(f"{stages[r.model]}/"), r) for r in own]
        yield FigureView(
            f"stage-{i}",
            f"{metric}, traffic of {traffic}",
            "",
            stage_figure(named),
            numbers(
                named,
                ("Stage", lambda one: one[0]),
                ("Model", lambda one: one[1]),
                ("Value", lambda one: _value(one[2])),
            ),
            traffic == POOLED,
            key=("stage", metric, traffic),
        )


def _value(row: ReplayRow | replay.CurvePoint) -> str:
    return " ".join(part for part in fmt.estimate(row.value, row.low, row.high) if part)
