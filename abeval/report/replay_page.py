"""Build the page parts of a replay: models, curves, calibration."""

import re
from collections.abc import Iterable, Iterator, Sequence
from math import sqrt
from typing import NamedTuple

from abeval.offline.metrics import DEFINITIONS
from abeval.report import assets
from abeval.report import figures as fig
from abeval.report.figures import Beside, Block, Closed, FigureView
from abeval.report.parts import page_part
from abeval.report.tables import (
    Cell,
    Kind,
    Part,
    Tables,
    TextTable,
    render_spans,
    rescale,
    table,
    trim,
    write_all_digits,
)
from abeval.results import codes, replay
from abeval.results import format as fmt
from abeval.results.record import group_rows
from abeval.results.replay import POOLED, CalibrationBin, Curve, PairRow, ReplayResult, ReplayRow

_ROWS = 12
"""Most metrics per cut-off in a short table; up to so many are all shown."""

_FEW = 6
"""Most metrics that a short table breaks down by part."""

_QUOTED_METRICS = (
    *("ndcg", "map", "mrr", "recall", "precision", "hit", "f1", "mar", "ild", "novelty"),
    *("serendipity", "popularity", "auc", "gauc", "log_loss", "ne", "q_ctr", "ece", "brier"),
    *("rig", "rmse", "fcp"),
)
"""Metrics that most teams quote, in the order of quoting."""

_DEFINITIONS = frozenset({"lin", "min", "mean", "impressions", "width", "self_information", ""})
"""Definitions that a short table shows where a metric has several."""


def split_id(text: str) -> tuple[str, str, str]:
    """Split the id of a metric into name, cut-off and definition, each maybe empty.

    Example:
        >>> split_id("map@10[min]"), split_id("auc")
        (('map', '10', 'min'), ('auc', '', ''))
    """
    name, k, definition = re.findall(r"([^@\[]*)(?:@(\w+))?@?\[?(.*?)\]?$", text)[0]
    return name, k, definition


def tabulate_replay(result: ReplayResult, show_all: bool) -> Tables:
    """Tabulate models on all traffic; with `show_all`, every metric and traffic."""
    metrics, short_metrics = list_metrics(result), _choose_short_metrics(result)
    traffic_names = list_traffics(result) if show_all else [choose_main_traffic(result)]
    parts: list[Part] = [
        family.table
        for traffic in traffic_names
        for family in tabulate_families(result, traffic, metrics if show_all else short_metrics)
    ]
    parts[:0] = () if show_all else _list_reversals(result, short_metrics)
    if not show_all and (hidden := len(metrics) - len(short_metrics)):
        parts.append(f"{hidden} more metrics, and each variant's traffic: --all")
    parts.extend(tabulate_parts(result, quote_metrics(short_metrics)[:_FEW]))
    parts += [
        tabulate_coverage(result),
        *(f"{name}. {text}" for name, text, _ in group_curves(result)),
    ]
    counts = (f"{codes.describe_code(what)}: {n:,}" for what, n in result.accounting if n)
    return Tables(tuple(parts), (*counts, *result.notes))


def _list_reversals(result: ReplayResult, metrics: Sequence[str]) -> Iterator[str]:
    """Report traffic on which at least a quarter of the signs are reversed."""
    main = choose_main_traffic(result)
    on_main = [pair for pair in result.pairs if pair.traffic == main]
    signs = {(pair.metric, pair.model): pair.difference or 0.0 for pair in on_main}
    part_names = {part.name for part in result.parts}
    for traffic in (name for name in list_traffics(result) if name not in part_names):
        pairs = [p for p in result.pairs if p.traffic == traffic and p.metric in metrics]
        # Only intervals that exclude zero have a sign.
        sure = [p for p in pairs if (p.low or 0.0) * (p.high or 0.0) > 0]
        reversed_pairs = [p for p in sure if (p.difference or 0.0) * signs[p.metric, p.model] < 0]
        if reversed_pairs and 4 * len(reversed_pairs) >= len(pairs):
            # Most readers know AUC best.
            example = next((p for p in reversed_pairs if p.metric == "auc"), reversed_pairs[0])
            yield (
                f"On {traffic}'s traffic {len(reversed_pairs)} of {len(pairs)} differences have "
                f"the other sign, such as {example.metric} {_format_difference(example)}: "
                "`abeval agree` says why"
            )


def list_metrics(result: ReplayResult) -> list[str]:
    """List every metric."""
    return list(dict.fromkeys(row.metric for row in result.rows))


def _choose_short_metrics(result: ReplayResult) -> list[str]:
    """Choose the metrics of a short table: the usual ones that have a value."""
    pooled = choose_main_traffic(result)
    valued = {r.metric for r in result.rows if r.traffic == pooled and r.value is not None}
    return choose_metrics(list_metrics(result), valued)


def choose_metrics(metrics: Sequence[str], valued: Iterable[str]) -> list[str]:
    """Choose at most a dozen metrics per cut-off, one definition of each.

    They keep the order of the result. Metrics without a value are left out first.

    Example:
        >>> metrics = ["ndcg@5[exp]", "ndcg@5[lin]", "recall@5", "auc"]
        >>> choose_metrics(metrics, ["ndcg@5[lin]", "recall@5"])
        ['ndcg@5[exp]', 'ndcg@5[lin]', 'recall@5', 'auc']
    """
    with_value = frozenset(valued)
    kept: set[str] = set()
    for names in group_rows(metrics, lambda name: split_id(name)[1]).values():
        few = len(names) <= _ROWS
        kept.update(names if few else quote_metrics([name for name in names if name in with_value]))
    return [name for name in metrics if name in kept]


def quote_metrics(names: Sequence[str]) -> list[str]:
    """Choose at most a dozen metrics, one definition of each, the usual ones first."""
    one_each: dict[str, str] = {}
    for name in names:
        metric, _, definition = split_id(name)
        # The usual definition replaces another one that came before it.
        if metric not in one_each or definition in _DEFINITIONS:
            one_each[metric] = name
    ranks = {name: i for i, name in enumerate(_QUOTED_METRICS)}
    order = sorted(one_each, key=lambda name: ranks.get(name, len(_QUOTED_METRICS)))
    return [one_each[name] for name in order[:_ROWS]]


class Family(NamedTuple):
    """Metrics of one kind, and their table on one traffic."""

    title: str
    metrics: Sequence[str]
    table: TextTable


_OTHERS = {"fcp": "FCP", "q_ctr": "Q_ctr and calibration", "ece": "Q_ctr and calibration"}


def _find_family(metric: str) -> str:
    """Name the family of a metric.

    Example:
        >>> [_find_family(name) for name in ("ndcg@5[lin]", "recall@5", "auc", "novelty@5[miuf]")]
        ['Ranking', 'Ranking', 'Classification', 'Beyond accuracy']
    """
    name, _, variant = split_id(metric)
    same = (definition for definition in DEFINITIONS.values() if definition.name == name)
    definition = DEFINITIONS.get((name, variant), next(same, None))
    if definition is None or definition.is_request_mean or definition.family == "judged":
        return "Ranking"
    if definition.family in ("beyond", "catalogue", "predicted"):
        return "Beyond accuracy"
    return _OTHERS.get(name, "Classification")


def tabulate_families(
    result: ReplayResult, traffic: str, metrics: Sequence[str]
) -> Iterator[Family]:
    """Tabulate the models on one traffic, a table for each family of metrics."""
    texts = {part.name: f"{part.name} ({part.where})" for part in result.parts}
    where = texts.get(traffic, "all traffic" if traffic == POOLED else f"traffic of {traffic}")
    rows = {(row.metric, row.model): row for row in result.rows if row.traffic == traffic}
    pairs = {(pair.metric, pair.model): pair for pair in result.pairs if pair.traffic == traffic}
    for title, family_metrics in group_rows(metrics, _find_family).items():
        lines = [
            _Line(m, *names, rows.get((m, names[0])), row, pairs.get((m, names[1])))
            for m in family_metrics
            for names in pair_with_baseline(result)
            if (row := rows.get((m, names[1])))
        ]
        if lines:
            yield Family(title, family_metrics, _tabulate_lines(result, f"{title}, {where}", lines))


def tabulate_parts(result: ReplayResult, metrics: Sequence[str]) -> Iterator[TextTable]:
    """Tabulate each part beside all traffic: differences of two models, or values."""
    if not result.parts:
        return
    main = choose_main_traffic(result)
    names = {main: "all" if main in (POOLED, "all") else main}
    names |= {part.name: part.name for part in result.parts}
    rows = {(row.metric, row.model, row.traffic): row for row in result.rows}
    pairs = {(pair.metric, pair.model, pair.traffic): pair for pair in result.pairs}
    rivals = pair_with_baseline(result)

    def cell(metric: str, model: str, traffic: str) -> str:
        change = pairs.get((metric, model, traffic))
        return (
            _format_difference(change)
            if change
            else _format_value(rows[metric, model, traffic], 4, True)
        )

    lines = [
        (*([model] if len(rivals) > 1 else []), metric, *(cell(metric, model, t) for t in names))
        for metric in metrics
        for _, model in rivals
    ]
    heads = [*(["model"] if len(rivals) > 1 else []), "metric", *names.values()]
    first, model = rivals[0]
    lead = f"{model} minus {first}, paired by unit" if first and len(rivals) == 1 else "each model"
    texts = (f"{p.name}: {p.where} ({fmt.format_count(p.units)} units)" for p in result.parts)
    description = f"{lead}. {'; '.join(texts)}."
    kinds: list[Kind] = ["number" if head in names.values() else "name" for head in heads]
    yield TextTable("Parts beside the whole", description, tuple(heads), tuple(lines), tuple(kinds))


def list_traffics(result: ReplayResult) -> list[str]:
    """List the names of traffic: variants, then all together, then the parts."""
    return list(dict.fromkeys(row.traffic for row in result.rows))


def choose_main_traffic(result: ReplayResult) -> str:
    """Choose the traffic of a short table: all together, else the first."""
    return next(
        (name for name in list_traffics(result) if name == POOLED), list_traffics(result)[0]
    )


def pair_with_baseline(result: ReplayResult) -> list[tuple[str, str]]:
    """Pair each model with its baseline; a single model has an empty one."""
    names = [model.name for model in result.models]
    first = next((pair.control for pair in result.pairs), names[0])
    return [(first, name) for name in names if name != first] or [("", first)]


class _Line(NamedTuple):
    """One metric of a model and of its baseline."""

    metric: str
    baseline: str
    model: str
    before: ReplayRow | None
    value: ReplayRow
    change: PairRow | None


def _tabulate_lines(result: ReplayResult, title: str, lines: Sequence[_Line]) -> TextTable:
    """Tabulate lines, without columns that are empty or always the same."""
    firsts = {line.baseline for line in lines} - {""}
    models = {line.model for line in lines}
    # A column with the values of one model has its name; of several, a general one.
    first, model = (
        next(iter(names)) if len(names) == 1 else default
        for names, default in ((firsts, "baseline"), (models, "value"))
    )
    level = fmt.format_level(result.alpha)
    lead = f"{model} minus {first}, paired by unit." if len(firsts) == len(models) == 1 else ""
    every = table(
        title,
        lead,
        lines,
        "metric",
        ("model", lambda line: line.model if len(models) > 1 else ""),
        (first, lambda line: _format_values(line)[0], "number"),
        (model, lambda line: _format_values(line)[1], "number"),
        (f"difference [{level} interval]", lambda line: _format_difference(line.change)),
        ("p", lambda line: fmt.format_p_value(line.change.p_value) if line.change else "", "extra"),
    )
    return trim(every)


def _format_values(line: _Line) -> tuple[str, ...]:
    """Write both values of a line, with decimals that fit the narrowest interval."""
    rows = (line.before, line.value)
    ends = [(row.low, row.high) for row in rows if row is not None and row.low is not None]
    decimals = max((fmt.choose_interval_decimals(*bounds) for bounds in ends), default=0)
    return tuple("" if row is None else _format_value(row, decimals, bool(ends)) for row in rows)


def _format_value(row: ReplayRow, decimals: int, has_interval: bool) -> str:
    text, interval = fmt.format_estimate(row.value, row.low, row.high, decimals)
    note = codes.describe_reason(row.reason)
    number = row.value or 0
    # Plain text is copied into other tables, so it has one digit more than the page.
    plain = f"{number:,.{min(decimals + 1, 12)}f}" if has_interval else f"{number:.4g}"
    html = render_spans(value=text, interval=interval, note=note)
    return Cell(note if row.value is None else plain, html, "number")


def _format_difference(change: PairRow | None) -> str:
    if change is None:
        return ""
    difference = fmt.format_difference(change.difference, change.low, change.high)
    reason = codes.describe_reason(change.reason)
    ends = "" if change.low is None else difference.interval
    text = difference.text if difference and change.low is not None else reason or fmt.MISSING
    html = render_spans(estimate=difference.estimate, interval=ends, absolute=reason)
    exact, low, high = map(write_all_digits, (change.difference, change.low, change.high))
    return Cell(text, html, "effect", f"{exact} [{low}, {high}]")


def tabulate_coverage(result: ReplayResult) -> TextTable:
    """Tabulate how much of the log each model has a score for."""
    return table(
        "Coverage",
        "how much of the log each model has a score for; models are compared over the requests "
        "that all of them score.",
        result.coverage,
        "model",
        ("requests", lambda row: _format_share(row.scored_requests, row.requests), "number"),
        ("units", lambda row: _format_share(row.scored_units, row.units), "number"),
        (
            "pairs of a request and an item",
            lambda c: _format_share(c.rows - c.unscored_rows, c.rows),
            "number",
        ),
        ("without a usable score", lambda row: fmt.format_count(row.unscored_rows), "spare"),
    )


def _format_share(some: int, total: int) -> str:
    """Write a share in per cent and its total."""
    if not total:
        return fmt.MISSING
    # 100 % only if it is all of them: a few missing scores must not be rounded away.
    share = fmt.format_percent(1.0) if some == total else f"{min(100 * some / total, 99.99):.2f}%"
    return f"{share} of {fmt.format_count(total)}"


def group_curves(result: ReplayResult) -> Iterator[tuple[str, str, list[replay.Curve]]]:
    """Yield the title, the elbows and the curves of each metric and traffic."""
    groups = group_rows(result.curves, lambda curve: (curve.metric, curve.traffic))
    for (metric, traffic), curve_group in groups.items():
        places = {c.model: "has none" if c.elbow is None else f"at {c.elbow}" for c in curve_group}
        elbows = (f"{model} {place}" for model, place in places.items())
        means = [f"{c.model} {c.mean:.5g}" for c in curve_group if c.mean is not None]
        description = f"Elbow (further places add less): {'; '.join(elbows)}."
        description += f" Mean over every k: {', '.join(means)}." if means else ""
        yield f"{metric}, traffic of {traffic}", description, curve_group


_SMALLEST, _LARGEST = 3.0, 13.0
"""Smallest and largest diameter of a calibration point, in pixels."""


def draw_curves(curves: Sequence[Curve]) -> fig.Figure:
    """Draw one metric by cut-off, a line per model and a ring at each elbow."""
    series = {c.model: [point for p in c.points for point in _list_points(p.k, p)] for c in curves}
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


def _list_points(x: int | str, row: ReplayRow | replay.CurvePoint) -> Iterator[fig.Point]:
    if row.value is not None:
        yield fig.Point(x, row.value, f"{x}: {row.value:.4g}", (row.value, row.low, row.high))


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
    rivals = set(pair_with_baseline(result))
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
    after="causes",
    lead="The models on the same log.",
)
def build_offline_part(result: ReplayResult) -> Iterator[Block]:
    """Show the models by family, a table and a figure each; the rest is closed."""
    metrics, units = list_metrics(result), {r.traffic: r.units for r in result.rows}
    every = [family for t in units for family in tabulate_families(result, t, metrics)]
    rivals, traffic = pair_with_baseline(result), choose_main_traffic(result)
    yield assets.render_block(
        "offline.html", result=result, rivals=rivals, traffics=[*units.items()]
    )
    short_metrics = _choose_short_metrics(result)
    first = next(map(_find_family, short_metrics), "")
    quoted = [name for name in quote_metrics(short_metrics) if _find_family(name) == first]
    for i, (title, family_metrics, _) in enumerate(
        tabulate_families(result, traffic, short_metrics)
    ):
        blocks: list[Block] = []
        if figure := _draw_family(result, family_metrics):
            name = f"{title}: differences as shares of the baseline's value, by traffic"
            blocks.append(FigureView(name, "", figure, ("family", title)))
        blocks += (family.table for family in every if family.title == title)
        for name, elbows, same in group_curves(result):
            if _find_family(same[0].metric) == title:
                key = ("curve", same[0].metric, same[0].traffic)
                blocks.append(FigureView(name, elbows, draw_curves(same), key))
        # The first family is what most readers come for.
        if i == 0:
            yield from (family.table for family in tabulate_families(result, traffic, quoted))
        yield Closed(f"{title}: every metric on every traffic", (*blocks,))
    yield from tabulate_parts(result, short_metrics)
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
    return (
        _tabulate_pairs(
            "Definitions", "how each metric is computed.", "definition", result.definitions
        ),
        tabulate_coverage(result),
        _tabulate_pairs(
            "Rows accounted for", "merged, set aside or not compared.", "count", merged
        ),
        _tabulate_pairs("Left out", "by each value on a traffic.", "count", left_out),
        _tabulate_pairs("Policies", "what the definitions do not fix.", "policy", policies),
    )


def _tabulate_pairs(title: str, lead: str, head: str, rows: Iterable[tuple[str, str]]) -> TextTable:
    return TextTable(title, lead, ("what", head), tuple(rows), ("name", "words"))


def _draw_calibration_by_traffic(result: ReplayResult) -> Iterator[FigureView]:
    """Draw calibration, one figure per traffic and kind of bins."""
    groups = group_rows(result.calibration, lambda b: (b.traffic, b.kind))
    for (traffic, kind), bins in groups.items():
        title, key = f"Calibration on traffic of {traffic}", ("calibration", traffic, kind)
        yield FigureView(title, f"{_BINNED[kind]}.", _draw_calibration(bins), key)
