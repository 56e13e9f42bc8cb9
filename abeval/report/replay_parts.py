"""The parts of the page that an offline replay fills: models, stages, curves, blends, calibration.

`registry.py` lists them; tables are from `replay_views.py`, figures from `replay_figures.py`.
"""

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from abeval.report import assets, replay_page
from abeval.report import replay_views as views
from abeval.report.figures import FigureView, Section
from abeval.report.replay_views import cut_views
from abeval.results import format as fmt
from abeval.results.replay import POOLED, Blend, CalibrationBin, Curve, ReplayResult, ReplayRow
from abeval.results.study import Study

_BINNED = {"mass": "bins of equal counts", "width": "bins of equal widths"}


def offline_part(study: Study) -> Section | None:
    """The models offline, side by side."""
    result = study.replay
    if result is None:
        return None
    html = assets.render(
        "offline.html",
        result=result,
        compared=views.compared(result),
        models=views.plain_models(result),
        traffics=[(name, views.units_of(result, name)) for name in views.traffics(result)],
        curves=tuple(_curves(result)),
        blends=tuple(_blends(result)),
        staged=views.staged(result),
        stages=tuple(_stages(result)),
        splits=views.split_views(result),
        cuts=cut_views(result),
        by_value=views.by_value_views(result),
        level=fmt.level(result.alpha),
    )
    return Section("The models on the same log.", (Markup(html),))  # noqa: S704 (the template escapes)


def replay_figure_views(study: Study) -> Iterator[FigureView]:
    """Every figure inside the part `offline`, which its template lays out."""
    if study.replay is not None:
        for make in (_curves, _blends, _stages):
            yield from make(study.replay)


def calibration_part(study: Study) -> Section | None:
    """Click rate against predicted score."""
    if study.replay is None or not study.replay.calibration:
        return None
    lead = (
        "Click rate against predicted score. Above the dashed line a model predicts too little, "
        "below it too much. Points are as large as their rows are many, with the interval of their "
        "rate."
    )
    return Section(lead, tuple(_calibration(study.replay)))


def _curves(result: ReplayResult) -> Iterator[FigureView]:
    """A figure for each metric and traffic."""
    keys = dict.fromkeys((curve.metric, curve.traffic) for curve in result.curves)
    for i, (metric, traffic) in enumerate(keys):
        own = [c for c in result.curves if (c.metric, c.traffic) == (metric, traffic)]
        points = [[_value(p.value, p.low, p.high) for p in curve.points] for curve in own]
        rows = [
            (str(own[0].points[n].k), *column) for n, column in enumerate(zip(*points, strict=True))
        ]
        yield FigureView(
            f"curve-{i}",
            f"{metric}, traffic of {traffic}",
            _elbows(own),
            replay_page.curve_figure(own),
            traffic == POOLED,
            ("k", *(curve.model for curve in own)),
            tuple(rows),
            key=("curve", metric, traffic),
        )


def _elbows(curves: Sequence[Curve]) -> str:
    elbows = [
        f"{c.model} at {c.elbow}" if c.elbow is not None else f"{c.model} has none" for c in curves
    ]
    return f"Elbow (further places add less): {'; '.join(elbows)}."


def _calibration(result: ReplayResult) -> Iterator[FigureView]:
    """A figure for each traffic and way of binning."""
    keys = dict.fromkeys((b.traffic, b.kind) for b in result.calibration)
    for i, (traffic, kind) in enumerate(keys):
        own = [b for b in result.calibration if (b.traffic, b.kind) == (traffic, kind)]
        yield FigureView(
            f"calibration-{i}",
            f"Traffic of {traffic}, {_BINNED[kind]}",
            "",
            replay_page.calibration_figure(own),
            heads=("Model", "Bin", "Rows", "Clicks", "Clicks / rows", "interval", "Mean score"),
            rows=tuple(_bin(b) for b in own),
            key=("calibration", traffic, kind),
        )


def _bin(b: CalibrationBin) -> tuple[str, ...]:
    rate = fmt.estimate(b.clicks / b.rows if b.rows else None, b.low, b.high)
    counts = (str(b.bin), fmt.count(b.rows), fmt.count(b.clicks))
    return b.model, *counts, *rate, fmt.mean(b.mean_score)


def _blends(result: ReplayResult) -> Iterator[FigureView]:
    """A figure for each metric and model that is blended with control's."""
    blends = [m.blend for m in result.models if m.blend is not None]
    for i, (model, base) in enumerate(dict.fromkeys((b.model, b.base) for b in blends)):
        shares = {base: 0.0, model: 1.0}
        shares |= {b.name: b.alpha for b in blends if (b.model, b.base) == (model, base)}
        name = Blend(model, base, 0.0).name.removeprefix("0·")
        for j, metric in enumerate(views.drawn_metrics(result)):
            rows = [(shares[r.model], r) for r in _of(result, metric) if r.model in shares]
            title = f"{metric}, α·{name.replace('1·', '(1 − α)·')}"
            figure = replay_page.blend_figure(rows)
            yield FigureView(
                f"blend-{i}-{j}", title, _largest(rows), figure, False, *_blend_table(rows)
            )


def _of(result: ReplayResult, metric: str) -> list[ReplayRow]:
    return [row for row in result.rows if row.metric == metric]


def _largest(rows: Sequence[tuple[float, ReplayRow]]) -> str:
    """The share with the largest value on each traffic; whether large is good is left open."""
    largest = []
    for traffic in dict.fromkeys(row.traffic for _, row in rows):
        known = [(r.value, a) for a, r in rows if r.traffic == traffic and r.value is not None]
        if known:
            largest.append(f"{traffic} at {max(known)[1]:g}")
    return f"Largest on {', '.join(largest)}." if largest else ""


def _blend_table(
    rows: Sequence[tuple[float, ReplayRow]],
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Headers and rows: a row for each share, a column for each traffic."""
    traffics = list(dict.fromkeys(row.traffic for _, row in rows))
    cells = {(share, row.traffic): _value(row.value, row.low, row.high) for share, row in rows}
    shares = sorted(dict.fromkeys(share for share, _ in rows))
    lines = [(f"{s:g}", *(cells.get((s, t), fmt.MISSING) for t in traffics)) for s in shares]
    return ("α", *traffics), tuple(lines)


def _stages(result: ReplayResult) -> Iterator[FigureView]:
    """A figure for each metric and traffic: its value at each stage."""
    stages = {m.name: m.stage for m in result.models if m.stage is not None}
    keys = [(m, t) for m in views.drawn_metrics(result) for t in views.traffics(result)]
    for i, (metric, traffic) in enumerate(keys if stages else ()):
        own = [r for r in _of(result, metric) if r.traffic == traffic and r.model in stages]
        named = [(stages[r.model], r.model.removeprefix(f"{stages[r.model]}/"), r) for r in own]
        yield FigureView(
            f"stage-{i}",
            f"{metric}, traffic of {traffic}",
            "",
            replay_page.stage_figure(named),
            traffic == POOLED,
            ("Stage", "Model", "Value"),
            tuple((s, name, _value(r.value, r.low, r.high)) for s, name, r in named),
            key=("stage", metric, traffic),
        )


def _value(value: float | None, low: float | None, high: float | None) -> str:
    return " ".join(part for part in fmt.estimate(value, low, high) if part)
