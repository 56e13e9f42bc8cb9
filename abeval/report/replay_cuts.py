"""A replay by cut: each metric of two models in every cell, as tables and as text.

`replay_parts.py` shows the views, `replay_short.py` the text.
"""

from collections.abc import Iterator

from abeval.report.replay_tables import GroupView, Line, group_of
from abeval.report.replay_views import TrafficView, plain_models, units_of
from abeval.report.tables import TextTable
from abeval.results import format as fmt
from abeval.results.replay import POOLED, PairRow, ReplayResult, ReplayRow
from abeval.results.replay_cuts import ReplayCutPair, ReplayCutRow

_SHORT = ("auc", "gauc[impressions]", "q_ctr", "log_loss")
"""Metrics that the terminal shows, as far as the replay has them."""


def cut_views(result: ReplayResult) -> tuple[TrafficView, ...]:
    """Every metric in every cell, a table for each cut and model, with p after Holm."""
    return tuple(
        TrafficView(
            traffic, traffic == POOLED, units_of(result, traffic), tuple(_groups(result, traffic))
        )
        for traffic in dict.fromkeys(row.traffic for row in result.cut_rows)
    )


def _groups(result: ReplayResult, traffic: str) -> Iterator[GroupView]:
    rows = [row for row in result.cut_rows if row.traffic == traffic]
    pairs = [pair for pair in result.cut_pairs if pair.traffic == traffic]
    first, *others = plain_models(result) or [""]
    for cut in dict.fromkeys(row.cut for row in rows):
        values = {(r.cell, r.metric, r.model): _row(r) for r in rows if r.cut == cut}
        changes = {(p.cell, p.metric, p.model): _pair(p) for p in pairs if p.cut == cut}
        places = dict.fromkeys((metric, cell) for cell, metric, _ in values)
        for other in others or [""]:
            heads = (first, other) if other else (first,)
            lines = [
                Line(
                    metric,
                    f"{cut} = {cell or '(none)'}",
                    tuple(values.get((cell, metric, model)) for model in heads),
                    changes.get((cell, metric, other)),
                )
                for metric, cell in sorted(places, key=lambda p: list(_metrics(result)).index(p[0]))
            ]
            yield group_of(f"By {cut}", heads, "Cell", lines, fmt.level(result.alpha), True)


def _metrics(result: ReplayResult) -> dict[str, None]:
    return dict.fromkeys(row.metric for row in result.cut_rows)


def _row(row: ReplayCutRow) -> ReplayRow:
    numbers = row.value, row.low, row.high, row.units, row.counted
    return ReplayRow(row.model, row.traffic, row.metric, *numbers, (), row.reason)


def _pair(pair: ReplayCutPair) -> PairRow:
    head = pair.control, pair.model, pair.traffic, pair.metric
    numbers = pair.value_control, pair.value, pair.difference, pair.low, pair.high
    return PairRow(*head, *numbers, pair.p_adjusted, pair.units, pair.reason)


def cut_text(result: ReplayResult) -> Iterator[TextTable]:
    """Models in pairs by cell, over all traffic together."""
    traffics = list(dict.fromkeys(pair.traffic for pair in result.cut_pairs))
    shown = POOLED if POOLED in traffics else next(iter(traffics), "")
    rows = [p for p in result.cut_pairs if p.traffic == shown and p.metric in _SHORT]
    if rows:
        words = "all traffic" if shown == POOLED else f"traffic of {shown}"
        yield TextTable(
            f"Models by cut, {words}",
            "differences paired by unit; p is Holm's over the cells of a cut.",
            ("cut", "cell", "metric", "model", "value", "difference", "p"),
            tuple(
                (
                    pair.cut,
                    pair.cell or "(none)",
                    pair.metric,
                    pair.model,
                    fmt.MISSING if pair.value is None else f"{pair.value:.4g}",
                    _difference(pair),
                    fmt.p_value(pair.p_adjusted),
                )
                for pair in rows
            ),
        )


def _difference(pair: ReplayCutPair) -> str:
    shown = fmt.difference(pair.difference, pair.low, pair.high)
    return fmt.reason(pair.reason) if shown is None or pair.low is None else shown.text
