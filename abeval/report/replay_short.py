"""Tabulate a replay: some metrics a cut-off, models side by side, and their difference."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from abeval.report.tables import TextTable, table
from abeval.results import codes, replay
from abeval.results import format as fmt
from abeval.results.replay import POOLED, PairRow, ReplayResult, ReplayRow

_SHORT = ("auc", "gauc[impressions]", "q_ctr", "log_loss")
"""Metrics that the terminal shows, as far as the replay has them."""


def cut_text(result: ReplayResult) -> Iterator[TextTable]:
    """Tabulate models in pairs by cell, over all traffic together."""
    traffics = list(dict.fromkeys(pair.traffic for pair in result.cut_pairs))
    shown = POOLED if POOLED in traffics else next(iter(traffics), "")
    rows = [p for p in result.cut_pairs if p.traffic == shown and p.metric in _SHORT]
    if rows:
        yield table(
            f"Models by cut, {_words(shown)}",
            "differences paired by unit; p is Holm's over the cells of a cut.",
            rows,
            "cut",
            ("cell", lambda pair: pair.cell or "(none)"),
            *("metric", "model"),
            ("value", lambda p: fmt.MISSING if p.value is None else f"{p.value:.4g}"),
            ("difference", lambda pair: _change(pair, codes.reason(pair.reason))),
            ("p", lambda pair: fmt.p_value(pair.p_adjusted)),
        )


def _change(row: replay.ReplayCutPair | PairRow, missing: str) -> str:
    """Write the difference of two models, or what stands in place of one without an interval."""
    shown = fmt.difference(row.difference, row.low, row.high)
    return missing if shown is None or row.low is None else shown.text


ROWS = 12
"""Metrics a cut-off, and without one, that a short table shows."""

_FIRST = (
    *("ndcg", "map", "mrr", "recall", "precision", "hit", "f1", "mar", "ild", "novelty"),
    *("serendipity", "popularity", "auc", "gauc", "log_loss", "ne", "q_ctr", "ece", "brier"),
    *("rig", "rmse", "fcp"),
)
"""Metrics that most teams quote, in the order of quoting."""

_DEFINITIONS = frozenset({"lin", "min", "mean", "impressions", "width", "self_information", ""})
"""Of several definitions of one metric, the one that a short table shows."""


class _Id(NamedTuple):
    """A metric's id in its parts: `map@10[min]`."""

    name: str
    k: str
    definition: str

    @classmethod
    def of(cls, text: str) -> "_Id":
        """Take an id apart; parts that it does not have are empty."""
        match = re.fullmatch(r"([^@\[]+)(?:@(\d+))?(?:@?\[?(.*?)\]?)", text)
        return cls(*(part or "" for part in match.groups())) if match else cls(text, "", "")


def replay_tables(result: ReplayResult, whole: bool) -> tuple[TextTable | str, ...]:
    """Tabulate models on all traffic; with `whole`, every metric, on each traffic too."""
    tables: list[TextTable | str] = []
    metrics = list(dict.fromkeys(row.metric for row in result.rows))
    shown = metrics if whole else chosen(metrics, _pooled(result))
    for traffic in _traffics(result, whole):
        for title, names in _by_cut(shown):
            tables.append(_table(result, f"{title}, {_words(traffic)}", traffic, names))
    if hidden := len(metrics) - len(shown):
        tables.append(f"{hidden} more metrics, and each variant's traffic: --all")
    tables += [_coverage_line(model) for model in result.coverage]
    return (*tables, *_extras(result))


def chosen(metrics: Sequence[str], valued: Iterable[str]) -> list[str]:
    """At most a dozen metrics a cut-off, one definition of each, in the order of the result.

    Metrics of the result that are not in `valued` have no value, and are left out first.

    Example:
        >>> chosen(["ndcg@5[exp]", "ndcg@5[lin]", "recall@5", "auc"], ["ndcg@5[lin]", "recall@5"])
        ['ndcg@5[exp]', 'ndcg@5[lin]', 'recall@5', 'auc']
    """
    with_value = frozenset(valued)
    kept: set[str] = set()
    for _, names in _by_cut(metrics):
        few = len(names) <= ROWS
        kept.update(names if few else _quoted([name for name in names if name in with_value]))
    return [name for name in metrics if name in kept]


def _quoted(names: Sequence[str]) -> list[str]:
    one_each: dict[str, str] = {}
    for name in names:
        metric = _Id.of(name)
        if metric.name not in one_each or metric.definition in _DEFINITIONS:
            one_each[metric.name] = name
    places = {name: i for i, name in enumerate(_FIRST)}
    order = sorted(one_each, key=lambda name: places.get(name, len(_FIRST)))
    return [one_each[name] for name in order[:ROWS]]


def _by_cut(metrics: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Group the metrics of each cut-off, and those without one."""
    groups: dict[str, list[str]] = {}
    for name in metrics:
        k = _Id.of(name).k
        groups.setdefault(f"At {k}" if k else "Without a cut-off", []).append(name)
    return list(groups.items())


def _pooled(result: ReplayResult) -> Iterator[str]:
    (traffic,) = _traffics(result, whole=False)
    return (row.metric for row in result.rows if row.traffic == traffic and row.value is not None)


def _traffics(result: ReplayResult, whole: bool) -> list[str]:
    traffics = list(dict.fromkeys(row.traffic for row in result.rows))
    if whole or len(traffics) == 1:
        return traffics
    return [POOLED] if POOLED in traffics else traffics[-1:]


def _words(traffic: str) -> str:
    return "all traffic" if traffic == POOLED else f"traffic of {traffic}"


class _Line(NamedTuple):
    """A metric of one model, with its values by model and its comparison."""

    metric: str
    model: str
    values: dict[str, str]
    pair: PairRow | None


def _table(result: ReplayResult, title: str, traffic: str, metrics: Sequence[str]) -> TextTable:
    """Put two models side by side; more, or one, below each other, each with its control."""
    rows = {(r.model, r.metric): r for r in result.rows if r.traffic == traffic}
    pairs = {(p.model, p.metric): p for p in result.pairs if p.traffic == traffic}
    lines = []
    for metric in metrics:
        values = _values([(one.name, rows.get((one.name, metric))) for one in result.models])
        lines += [_Line(metric, model, values, pairs.get((model, metric))) for model in values]
    compared = {(pair.control, pair.model) for pair in pairs.values()}
    if len(result.models) == 2 and len(compared) == 1:
        ((control, model),) = compared
        return table(
            title,
            f"{model} - {control}, paired by unit.",
            [line for line in lines if line.model == model],
            "metric",
            (control, lambda line: line.values[control], "number"),
            (model, lambda line: line.values[model], "number"),
            ("difference", lambda line: _difference(line.pair)),
        )
    return table(
        title,
        "differences paired by unit.",
        lines,
        *("metric", "model"),
        ("value", lambda line: line.values[line.model], "number"),
        ("against", lambda line: "" if line.pair is None else line.pair.control),
        ("difference", lambda line: _difference(line.pair)),
    )


def _values(rows: Sequence[tuple[str, ReplayRow | None]]) -> dict[str, str]:
    """Write one metric of each model, with decimals by the narrowest interval."""
    widths = [
        (row.high - row.low) / 2
        for _, row in rows
        if row is not None and row.low is not None and row.high is not None and row.high > row.low
    ]
    places = min(fmt.decimals(min(widths)) + 1, 12) if widths else None
    return {model: _value(row, places) for model, row in rows}


def _value(row: ReplayRow | None, places: int | None) -> str:
    if row is None:
        return ""
    if row.value is None:
        return codes.words(str(row.reason))
    return f"{row.value:.4g}" if places is None else f"{row.value:,.{places}f}"


def _difference(pair: PairRow | None) -> str:
    if pair is None:
        return ""
    return _change(pair, codes.reason(pair.reason) or fmt.MISSING)


def _extras(result: ReplayResult) -> Iterator[TextTable | str]:
    """List elbows of curves, cut-offs by value, models by cut."""
    for curve in result.curves:
        where = "none" if curve.elbow is None else f"at {curve.elbow}"
        yield f"{curve.metric} of {curve.model} on {curve.traffic}: elbow {where}"
    if result.by_value is not None:
        yield _by_value(result.by_value)
    yield from cut_text(result)


def _by_value(cut: replay.CutByValue) -> TextTable:
    return table(
        f"k by {cut.column}",
        ", ".join(f"{value} {k}" for value, k in cut.ks),
        cut.rows,
        *("metric", "model", "traffic"),
        ("value", lambda row: _value(row, None), "number"),
    )


def _coverage_line(model: replay.ModelCoverage) -> str:
    shares = (
        (model.scored_requests, model.requests, "requests"),
        (model.scored_units, model.units, "units"),
        (model.rows - model.unscored_rows, model.rows, "pairs of a request and an item"),
    )
    parts = (f"{some / of if of else 0:.2%} of {of:,} {what}" for some, of, what in shares)
    return f"{model.model} scores {', '.join(parts)}"
