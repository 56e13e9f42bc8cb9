"""Build the parts of the page that a replay fills: models, stages, curves, calibration."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import sqrt

from abeval.report import assets
from abeval.report import figures as fig
from abeval.report import replay_short as short
from abeval.report.figures import Block, Closed, FigureView, Heading, Section, figures_of
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

OfTraffic = tuple[str, tuple[Block, ...]]
"""A traffic, and what is shown of it."""


def offline_part(result: ReplayResult) -> Section:
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
    return Section("The models on the same log.", (html,))


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


def _curves(result: ReplayResult) -> Iterator[OfTraffic]:
    """Draw a figure for each metric and traffic."""
    for i, (title, elbows, own) in enumerate(short.curves(result)):
        rows = zip(*(curve.points for curve in own), strict=True)
        cells = tuple((str(points[0].k), *map(_value, points)) for points in rows)
        view = FigureView(
            f"curve-{i}",
            title,
            elbows,
            curve_figure(own),
            TextTable("", "", ("k", *(curve.model for curve in own)), cells),
            key=("curve", own[0].metric, own[0].traffic),
        )
        yield own[0].traffic, (view,)


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
            key=("stage", metric, traffic),
        )
        yield traffic, (view,)


def _value(row: ReplayRow | replay.CurvePoint) -> str:
    return " ".join(part for part in fmt.estimate(row.value, row.low, row.high) if part)
