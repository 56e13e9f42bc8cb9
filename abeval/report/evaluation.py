"""Print an evaluation of ranked lists: values, and significant differences."""

from collections.abc import Iterator, Sequence

from abeval.report.replay_page import (
    choose_main_traffic,
    group_curves,
    list_metrics,
    pair_with_baseline,
    quote_metrics,
    split_id,
    tabulate_parts,
)
from abeval.report.tables import REASON_COLUMN, Kind, Part, Tables, TextTable, table
from abeval.report.terminal import write_tables
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.replay import PairRow, ReplayResult, ReplayRow

_METRICS = 16
"""Up to so many metrics, all are shown; else the usual ones, at the largest cut-off."""

_DIFFERENCES = 8
"""Most differences that are shown, the clearest first."""

_MODELS = 6
"""Up to so many models each have a column; of more, each has a row."""

_MAX_BREAKDOWNS = 6
"""Most metrics that are broken down by part."""

_SURE = "*"
"""Marks a value whose difference from the baseline excludes zero."""


def evaluation_text(result: ReplayResult) -> str:
    """Write the evaluation in at most about 40 lines."""
    return write_tables(_tabulate_evaluation(result))


def _tabulate_evaluation(result: ReplayResult) -> Tables:
    """Tabulate what was judged, metrics by model, and clear differences."""
    traffic, metrics = choose_main_traffic(result), _choose_metrics(result)
    rows = {(r.metric, r.model): r for r in result.rows if r.traffic == traffic}
    pairs = [p for p in result.pairs if p.traffic == traffic and p.metric in metrics]
    parts: list[Part] = [_describe_judged(result, [*rows.values()])]
    if len(result.models) == 1:
        name = result.models[0].name
        parts.append(_tabulate_single_model(result, [rows[metric, name] for metric in metrics]))
    else:
        parts += [
            _tabulate_values(result, metrics, rows, pairs),
            *_tabulate_differences(result, pairs),
        ]
    parts.extend(tabulate_parts(result, quote_metrics(metrics)[:_MAX_BREAKDOWNS]))
    parts += [
        f"{name}. {text}" for name, text, c in group_curves(result) if c[0].traffic == traffic
    ]
    if hidden := len(list_metrics(result)) - len(metrics):
        parts.append(f"{hidden} more metrics: to_frame(); a page of all: report(path)")
    counted = [
        f"{codes.describe_code(what)} {fmt.format_count(n)}" for what, n in result.accounting if n
    ]
    left_out = (f"left out or merged: {'; '.join(counted)}",) if counted else ()
    return Tables(tuple(parts), (*left_out, *result.notes))


def _choose_metrics(result: ReplayResult) -> list[str]:
    """Choose the metrics of one screen, in the order of the result."""
    metrics = list_metrics(result)
    if len(metrics) <= _METRICS:
        return metrics
    valued = {row.metric for row in result.rows if row.value is not None}
    cuts = {name: split_id(name)[1] for name in metrics}
    numbers = {k for k in cuts.values() if k.isdecimal()}
    # A cut-off of the request has a name: whoever asked for it wants to see it.
    smaller = numbers - {max(numbers, key=int, default="")}
    pool = [name for name in metrics if name in valued and cuts[name] not in smaller]
    kept = {*quote_metrics(pool)}
    return [metric for metric in metrics if metric in kept]


def _describe_judged(result: ReplayResult, rows: Sequence[ReplayRow]) -> str:
    """Describe what was judged: requests, units, items and coverage by model."""
    units = max((row.units for row in rows), default=0)
    requests = max((coverage.requests for coverage in result.coverage), default=0)
    pairs = max((coverage.rows for coverage in result.coverage), default=0)
    scored = "; ".join(
        f"{c.model} has scores for {fmt.format_percent(c.scored_requests / c.requests)}"
        for c in result.coverage
        if c.scored_requests < c.requests
    )
    totals = (
        f"{fmt.format_count(requests)} requests of {fmt.format_count(units)} units, "
        f"{fmt.format_count(pairs)} items"
    )
    return f"Judged: {totals} in them; {scored or 'every model has scores for all requests'}."


def _tabulate_single_model(result: ReplayResult, rows: Sequence[ReplayRow]) -> TextTable:
    level = fmt.format_level(result.alpha)
    return table(
        "Values",
        f"of {result.models[0].name}, by unit.",
        rows,
        "metric",
        ("value", _format_value, "number"),
        (f"{level} interval", lambda row: fmt.format_estimate(row.value, row.low, row.high)[1]),
        REASON_COLUMN,
    )


def _format_value(row: ReplayRow | None) -> str:
    return fmt.MISSING if row is None or row.value is None else f"{row.value:.4g}"


def _tabulate_values(
    result: ReplayResult,
    metrics: Sequence[str],
    rows: dict[tuple[str, str], ReplayRow],
    pairs: Sequence[PairRow],
) -> TextTable:
    """Tabulate values by metric and model; many models become rows."""
    sure = {(pair.metric, pair.model) for pair in pairs if _measure_distance_from_zero(pair) > 0}
    names = [model.name for model in result.models]

    def cell(metric: str, model: str) -> str:
        return (
            f"{_SURE if (metric, model) in sure else ''} {_format_value(rows.get((metric, model)))}"
        )

    lead = f"{_SURE} the {fmt.format_level(result.alpha)} interval of the difference excludes zero."
    if len(names) <= _MODELS:
        head, lines = ("metric", *names), [(m, *(cell(m, n) for n in names)) for m in metrics]
    else:
        first = quote_metrics(metrics)[:_MODELS]
        head, lines = ("model", *first), [(n, *(cell(m, n) for m in first)) for n in names]
    numbers: list[Kind] = ["number"] * (len(head) - 1)
    return TextTable("Values", lead, head, tuple(lines), ("name", *numbers))


def _tabulate_differences(result: ReplayResult, pairs: Sequence[PairRow]) -> Iterator[Part]:
    """Tabulate the differences that exclude zero, the clearest first."""
    sure = sorted(
        (p for p in pairs if _measure_distance_from_zero(p) > 0),
        key=_measure_distance_from_zero,
        reverse=True,
    )
    first, level = pair_with_baseline(result)[0][0], fmt.format_level(result.alpha)
    if not sure:
        yield f"No difference from {first} has an interval that excludes zero."
        return
    yield table(
        "Differences",
        f"from {first}, paired by unit, unadjusted; {len(sure)} of {len(pairs)} exclude zero.",
        sure[:_DIFFERENCES],
        "metric",
        "model",
        (
            f"difference [{level} interval]",
            lambda p: fmt.format_difference(p.difference, p.low, p.high).text,
        ),
        ("p", lambda pair: fmt.format_p_value(pair.p_value)),
    )


def _measure_distance_from_zero(pair: PairRow) -> float:
    """Return an interval's distance from zero, in its widths; 0 if it has zero."""
    # In units of the width, so that metrics of different scales can be ranked together.
    low, high = pair.low or 0.0, pair.high or 0.0
    return min(abs(low), abs(high)) / (high - low) if low * high > 0 else 0.0
