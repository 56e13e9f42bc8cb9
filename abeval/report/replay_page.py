"""Build the page parts of a replay: models, curves, calibration."""

from collections.abc import Iterable, Iterator, Sequence
from math import sqrt

from abeval.report import assets
from abeval.report import figures as fig
from abeval.report import replay_tables as tables
from abeval.report.figures import Beside, Block, Closed, FigureView
from abeval.report.parts import page_part
from abeval.report.replay_tables import find_family, group_curves, tabulate_families
from abeval.report.tables import TextTable, rescale
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.record import group_rows
from abeval.results.replay import CalibrationBin, Curve, ReplayResult

_SMALLEST, _LARGEST = 3.0, 13.0
"""Smallest and largest diameter of a calibration point, in pixels."""


def draw_curves(curves: Sequence[Curve]) -> fig.Figure:
    """Draw one metric by cut-off, a line per model and a ring at each elbow."""
    series = {
        curve.model: [
            fig.Point(p.k, p.value, f"{p.k}: {p.value:.4g}", (p.value, p.low, p.high))
            for p in curve.points
            if p.value is not None
        ]
        for curve in curves
    }
    metric = curves[0].metric if curves else ""
    figure = fig.draw_lines(series, "k", metric, {"tickformat": "d"}, _PLAIN)
    for i, curve in enumerate(curves):
        ring = {"size": 17, "symbol": "circle-open", "color": fig.choose_colour(i)}
        style = {"mode": "markers", "showlegend": False, "marker": ring}
        for point in (p for p in curve.points if p.k == curve.elbow):
            name, at = f"elbow at {point.k}", {"x": [point.k], "y": [point.value]}
            figure["data"].append(fig.draw_trace([name], **at, name=name, **style))
    return figure


_PLAIN = {"tickformat": "~g"}


def _draw_calibration(bins: Sequence[CalibrationBin]) -> fig.Figure:
    """Draw click rate against mean score by bin; dashed: perfect calibration."""
    series: dict[str, list[fig.Point]] = {b.model: [] for b in bins}
    sizes: dict[str, list[float]] = {b.model: [] for b in bins}
    filled = sorted((b for b in bins if b.rows), key=lambda b: b.mean_score)
    for b in filled:
        most = max(other_bin.rows for other_bin in filled if other_bin.model == b.model)
        rate = b.clicks / b.rows
        text = f"{fmt.format_count(b.clicks)} clicks in {fmt.format_count(b.rows)} rows"
        text = f"{text}, {b.mean_score:.4g}: {rate:.4g}"
        series[b.model].append(fig.Point(b.mean_score, rate, text, (rate, b.low, b.high)))
        # By the root, so that the area of a point grows with its rows.
        sizes[b.model].append(_SMALLEST + (_LARGEST - _SMALLEST) * sqrt(b.rows / most))
    end = max((max(b.mean_score, b.clicks / b.rows) for b in filled), default=1.0)
    diagonal = [fig.draw_line((0, end), (0, end))]
    figure = fig.draw_lines(series, "mean score", "clicks / rows", yaxis=_PLAIN, shapes=diagonal)
    # Traces have the order of the series, one for each model.
    for trace, size in zip(figure["data"], sizes.values(), strict=True):
        trace["marker"]["size"] = size
    return figure


def _draw_family(result: ReplayResult, metrics: Sequence[str]) -> fig.Figure | None:
    """Draw differences relative to the baseline, by traffic; None without any."""
    rivals = set(tables.pair_with_baseline(result))
    series: dict[str, list[fig.Spot]] = {}
    for pair in result.pairs:
        is_drawn = (pair.control, pair.model) in rivals and pair.metric in metrics
        if is_drawn and pair.value_control:
            # Relative, so that metrics of different scales share one axis.
            share = rescale(1 / abs(pair.value_control), pair.difference, pair.low, pair.high)
            name = f"{pair.traffic}, {pair.model}" if len(rivals) > 1 else pair.traffic
            text = f"{pair.metric}, {name}: {fmt.format_lift(*share).text}"
            spot = fig.Spot(metrics.index(pair.metric), rescale(100, *share), text)
            series.setdefault(name, []).append(spot)
    across = fig.build_effect_axis(fig.list_ends(series), "%")
    return fig.draw_forest(metrics, series, across) if series else None


_BINNED = {"mass": "Bins of equal counts", "width": "Bins of equal widths"}

_CALIBRATION = (
    "Above the dashed line a model predicts too little, below it too much. Points are as large as "
    "their rows are many, with the interval of their rate."
)


@page_part(
    "offline",
    view="explore",
    title="Offline replay",
    short="Offline",
    result="replay",
    lead="The models on the same log.",
)
def build_offline_part(result: ReplayResult) -> Iterator[Block]:
    """Show the models by family, a table and a figure each; the rest is closed."""
    metrics, units = tables.list_metrics(result), {r.traffic: r.units for r in result.rows}
    every = [family for t in units for family in tabulate_families(result, t, metrics)]
    rivals, traffic = tables.pair_with_baseline(result), tables.choose_main_traffic(result)
    yield assets.render_block(
        "offline.html", result=result, rivals=rivals, traffics=[*units.items()]
    )
    short_metrics = tables.choose_metrics(result)
    first = next(map(find_family, short_metrics), "")
    quoted = [name for name in tables.quote_metrics(short_metrics) if find_family(name) == first]
    for i, (title, family_metrics, _) in enumerate(
        tabulate_families(result, traffic, short_metrics)
    ):
        blocks: list[Block] = []
        if figure := _draw_family(result, family_metrics):
            name = f"{title}: differences as shares of the baseline's value, by traffic"
            blocks.append(FigureView(name, "", figure, ("family", title)))
        blocks += (family.table for family in every if family.title == title)
        for name, elbows, same in group_curves(result):
            if find_family(same[0].metric) == title:
                key = ("curve", same[0].metric, same[0].traffic)
                blocks.append(FigureView(name, elbows, draw_curves(same), key))
        # The first family is what most readers come for.
        if i == 0:
            yield from (family.table for family in tabulate_families(result, traffic, quoted))
        yield Closed(f"{title}: every metric on every traffic", (*blocks,))
    yield from tables.tabulate_parts(result, short_metrics)
    if calibrations := tuple(_draw_calibration_by_traffic(result)):
        yield Closed("Calibration: click rate against score", (_CALIBRATION, Beside(calibrations)))
    yield Closed("Definitions, coverage, rows set aside and policies", _tabulate_accounts(result))


def _tabulate_accounts(result: ReplayResult) -> tuple[Block, ...]:
    """Tabulate definitions, coverage, rows set aside and policies."""
    describe = codes.describe_code
    merged = [(describe(what), fmt.format_count(count)) for what, count in result.accounting]
    policies = [(describe(what), describe(policy)) for what, policy in result.policy]
    left_out = [
        (f"{row.metric}, {row.model}, {row.traffic}, {describe(what)}", fmt.format_count(count))
        for row in result.rows
        for what, count in row.left_out
    ]
    facts: tuple[tuple[str, str, str, Iterable[tuple[str, str]]], ...] = (
        ("Definitions", "how each metric is computed.", "definition", result.definitions),
        ("Rows accounted for", "merged, set aside or not compared.", "count", merged),
        ("Left out", "by each value on a traffic.", "count", left_out),
        ("Policies", "what the definitions do not fix.", "policy", policies),
    )
    definitions, *others = (
        TextTable(title, lead, ("what", head), tuple(rows), ("name", "words"))
        for title, lead, head, rows in facts
    )
    return definitions, tables.tabulate_coverage(result), *others


def _draw_calibration_by_traffic(result: ReplayResult) -> Iterator[FigureView]:
    """Draw calibration, one figure per traffic and kind of bins."""
    groups = group_rows(result.calibration, lambda b: (b.traffic, b.kind))
    for (traffic, kind), bins in groups.items():
        title, key = f"Calibration on traffic of {traffic}", ("calibration", traffic, kind)
        yield FigureView(title, f"{_BINNED[kind]}.", _draw_calibration(bins), key)
