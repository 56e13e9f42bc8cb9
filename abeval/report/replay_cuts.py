"""A replay by cut as the page shows it: each metric of two models in every cell.

`replay_parts.py` hands over a replay; `replay_cut_text.py` is for terminals.
"""

from collections.abc import Iterator

from abeval.report.replay_views import (
    GroupView,
    Line,
    TrafficView,
    group_of,
    plain_models,
    units_of,
)
from abeval.results import format as fmt
from abeval.results.replay import (
    POOLED,
    PairRow,
    ReplayCutPair,
    ReplayCutRow,
    ReplayResult,
    ReplayRow,
)


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
