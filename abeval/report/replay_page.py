"""Build the parts of the page that a replay fills: models, curves, calibration."""

from collections.abc import Iterable, Iterator, Sequence
from math import sqrt

from abeval.report import assets
from abeval.report import figures as fig
from abeval.report import replay_short as short
from abeval.report.figures import Block, Closed, FigureView
from abeval.report.tables import TextTable, scaled, text_of
from abeval.results import codes, replay
from abeval.results import format as fmt
from abeval.results.replay import CalibrationBin, Curve, ReplayResult, ReplayRow

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
        yield fig.Point(x, row.value, f"{x}: {row.value:.4g}", (row.value, row.low, row.high))


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
        series[b.model].append(fig.Point(b.mean_score, rate, said, (rate, b.low, b.high)))
        sizes[b.model].append(_SMALLEST + (_LARGEST - _SMALLEST) * sqrt(b.rows / most))
    end = max((max(b.mean_score, b.clicks / b.rows) for b in filled), default=1.0)
    diagonal = [fig.dashed((0, end), (0, end))]
    drawn = fig.lines(series, "mean score", "clicks / rows", yaxis=_PLAIN, shapes=diagonal)
    for trace, size in zip(drawn["data"], sizes.values(), strict=True):
        trace["marker"]["size"] = size
    return drawn


def family_figure(result: ReplayResult, metrics: Sequence[str]) -> fig.Figure | None:
    """Draw differences as shares of the baseline's value, by traffic; None without any."""
    rivals = set(short.rivals_of(result))
    series: dict[str, list[fig.Spot]] = {}
    for pair in result.pairs:
        is_drawn = (pair.control, pair.model) in rivals and pair.metric in metrics
        if is_drawn and pair.value_control:
            share = scaled(1 / abs(pair.value_control), pair.difference, pair.low, pair.high)
            name = f"{pair.traffic}, {pair.model}" if len(rivals) > 1 else pair.traffic
            said = f"{pair.metric}, {name}: {text_of(fmt.lift(*share))}"
            spot = fig.Spot(metrics.index(pair.metric), scaled(100, *share), said)
            series.setdefault(name, []).append(spot)
    across = fig.effect_axis(fig.ends_of(series), "%")
    return fig.forest(metrics, series, **across) if series else None


_BINNED = {"mass": "bins of equal counts", "width": "bins of equal widths"}


def offline_part(result: ReplayResult) -> Iterator[Block]:
    """Show the models side by side: a table and a figure a family; closed, all that there is."""
    metrics, units = short.metrics_of(result), {r.traffic: r.units for r in result.rows}
    every = [one for t in units for one in short.families(result, t, metrics)]
    curves = [*_curves(result)]
    yield assets.block(
        "offline.html",
        result=result,
        rivals=short.rivals_of(result),
        traffics=[*units.items()],
    )
    shown = short.shown_metrics(result)
    for title, own, side_by_side in short.families(result, short.main_traffic(result), shown):
        yield side_by_side
        if drawn := family_figure(result, own):
            said = f"{title}: differences as shares of the baseline's value, by traffic"
            yield FigureView("", said, drawn, ("family", title))
        same = [one for one in every if one.title == title]
        count, tables = len(same[0].metrics), tuple(one.table for one in same)
        yield Closed(f"{title}: all {count} metrics, on every traffic", tables)
        if over_k := tuple(view for name, view in curves if name == title):
            yield Closed(f"{title}: over k", over_k)
    yield Closed("Definitions, coverage, rows set aside and policies", _accounts(result))


def _accounts(result: ReplayResult) -> tuple[Block, ...]:
    """Tabulate definitions, coverage, rows set aside, policies."""
    merged = [(codes.words(what), fmt.count(count)) for what, count in result.accounting]
    policies = [(codes.words(what), codes.words(policy)) for what, policy in result.policy]
    return (
        _pairs("Definitions", "how each metric is computed.", "definition", result.definitions),
        short.coverage(result),
        _pairs("Rows accounted for", "merged, set aside or not compared.", "count", merged),
        _pairs("Policies", "what the definitions do not fix.", "policy", policies),
    )


def _pairs(title: str, lead: str, head: str, rows: Iterable[tuple[str, str]]) -> TextTable:
    return TextTable(title, lead, ("what", head), tuple(rows), ("name", "words"))


def _curves(result: ReplayResult) -> Iterator[tuple[str, FigureView]]:
    """Draw a figure for each metric and traffic, with the family of the metric."""
    for title, elbows, own in short.curves(result):
        key = ("curve", own[0].metric, own[0].traffic)
        yield short.family_of(own[0].metric), FigureView(title, elbows, curve_figure(own), key)


def calibration_part(result: ReplayResult) -> Iterator[FigureView]:
    """Draw click rate against predicted score, a figure for each traffic and way of binning."""
    keys = dict.fromkeys((b.traffic, b.kind) for b in result.calibration)
    for traffic, kind in keys:
        own = [b for b in result.calibration if (b.traffic, b.kind) == (traffic, kind)]
        title, key = f"Traffic of {traffic}, {_BINNED[kind]}", ("calibration", traffic, kind)
        yield FigureView(title, "", calibration_figure(own), key)
