"""Tabulate a replay: models side by side, by stage, by cut; some metrics a cut-off, or all."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from abeval.offline.metrics import parse_metric
from abeval.report import glyph
from abeval.report.layout import Kind
from abeval.report.tables import Cell, TextTable, estimate_of, full, interval_of, spans, table
from abeval.results import codes, replay
from abeval.results import format as fmt
from abeval.results.replay import POOLED, PairRow, ReplayResult, ReplayRow

_BY_CUT = ("auc", "gauc[impressions]", "q_ctr", "log_loss")
"""Metrics that the terminal shows by cut, as far as the replay has them."""

ROWS = 12
"""Metrics a cut-off, and without one, that a short table shows; so many are all drawn."""

_FIRST = (
    *("ndcg", "map", "mrr", "recall", "precision", "hit", "f1", "mar", "ild", "novelty"),
    *("serendipity", "popularity", "auc", "gauc", "log_loss", "ne", "q_ctr", "ece", "brier"),
    *("rig", "rmse", "fcp"),
)
"""Metrics that most teams quote, in the order of quoting."""

_DEFINITIONS = frozenset({"lin", "min", "mean", "impressions", "width", "self_information", ""})
"""Of several definitions of one metric, the one that a short table shows."""

_DRAWN = frozenset({"ndcg", "map", "recall", "gauc", "auc", "log_loss", "q_ctr"})
"""Of many metrics, those that are drawn."""


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
    metrics = list(dict.fromkeys(row.metric for row in result.rows))
    (pooled,) = _shown(traffics(result))
    valued = {r.metric for r in result.rows if r.traffic == pooled and r.value is not None}
    shown = metrics if whole else chosen(metrics, valued)
    parts: list[TextTable | str] = []
    for traffic in traffics(result) if whole else [pooled]:
        groups = *compared(result, traffic, _by_k(shown)), *staged(result, traffic, _by_k(shown))
        parts += [_named(one, traffic) for one in groups]
    if hidden := len(metrics) - len(shown):
        parts.append(f"{hidden} more metrics, and each variant's traffic: --all")
    parts += [coverage(result), *(f"{name}. {said}" for name, said, _ in curves(result))]
    if result.by_value is not None:
        cut = dict.fromkeys(row.traffic for row in result.by_value.rows)
        parts += [_named(by_value(result, result.by_value, one), one) for one in cut]
    for traffic in _shown([pair.traffic for pair in result.cut_pairs]):
        parts += [_named(one, traffic) for one in by_cut(result, traffic, _BY_CUT)]
    return tuple(parts)


def _named(one: TextTable, traffic: str) -> TextTable:
    where = "all traffic" if traffic == POOLED else f"traffic of {traffic}"
    return one._replace(title=f"{one.title}, {where}")


def chosen(metrics: Sequence[str], valued: Iterable[str]) -> list[str]:
    """At most a dozen metrics a cut-off, one definition of each, in the order of the result.

    Metrics of the result that are not in `valued` have no value, and are left out first.

    Example:
        >>> chosen(["ndcg@5[exp]", "ndcg@5[lin]", "recall@5", "auc"], ["ndcg@5[lin]", "recall@5"])
        ['ndcg@5[exp]', 'ndcg@5[lin]', 'recall@5', 'auc']
    """
    with_value = frozenset(valued)
    kept: set[str] = set()
    for names in _by_k(metrics).values():
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


_UNCUT = "Without a cut-off"

Groups = Mapping[str, Sequence[str]]
"""Title of a table → its metrics."""


def _by_k(metrics: Sequence[str]) -> Groups:
    """Group the metrics of each cut-off, and those without one."""
    return _grouped(metrics, lambda name: f"At {k}" if (k := _Id.of(name).k) else _UNCUT)


def by_kind(result: ReplayResult) -> Groups:
    """Group all metrics by what they are about."""
    return _grouped([metric for metric, _ in result.definitions], _kind)


def _kind(name: str) -> str:
    metric = parse_metric(name)
    if metric.definition.family in ("beyond", "catalogue"):
        return f"Beyond accuracy at k = {metric.k}"
    if not metric.definition.of_requests:
        return "Scores and pairs"
    return "Whole lists" if metric.k is None else f"Requests at k = {metric.k}"


def _grouped(metrics: Iterable[str], title: Callable[[str], str]) -> Groups:
    groups: dict[str, list[str]] = {}
    for name in metrics:
        groups.setdefault(title(name), []).append(name)
    return groups


def drawn_metrics(result: ReplayResult) -> list[str]:
    """Choose metrics with figures: all if they are few, else those most teams quote, at one k."""
    metrics = [metric for metric, _ in result.definitions]
    if len(metrics) <= ROWS:
        return metrics
    computed = {row.metric for row in result.rows if row.value is not None}
    ids = {metric: _Id.of(metric) for metric in metrics if metric in computed}
    quoted = {
        (one.name, one.definition): metric
        for metric, one in ids.items()
        if one.name in _DRAWN and one.definition in _DEFINITIONS
    }
    return [*quoted.values()]


def traffics(result: ReplayResult) -> list[str]:
    """List the traffic of each variant, then all traffic together."""
    return list(dict.fromkeys(row.traffic for row in result.rows))


def _shown(names: Sequence[str]) -> Sequence[str]:
    """Choose the traffic that a short table shows: all together."""
    return [POOLED] if POOLED in names else names[-1:]


def plain_models(result: ReplayResult) -> list[str]:
    """List models that are no stages, the baseline of comparisons first."""
    names = [m.name for m in result.models if m.stage is None]
    controls = [pair.control for pair in result.pairs if pair.control in names]
    return list(dict.fromkeys([*controls[:1], *names]))


Kept = TypeVar("Kept", bound=replay.OfModel | PairRow)
Value = ReplayRow | replay.ReplayCutRow
Keyed = Mapping[tuple[str, str, str], Kept]
"""Cell of a cut, empty of the whole traffic, metric and model → the record."""


class _Line(NamedTuple):
    """A metric in one row: a value, or two of two models, and a comparison."""

    metric: str
    label: str
    values: tuple[Value | None, ...]
    change: PairRow | None


def _keyed(rows: Iterable[Kept], traffic: str, cut: str = "") -> dict[tuple[str, str, str], Kept]:
    return {
        (getattr(row, "cell", ""), row.metric, row.model): row
        for row in rows
        if row.traffic == traffic and getattr(row, "cut", "") == cut
    }


def compared(result: ReplayResult, traffic: str, groups: Groups) -> Iterator[TextTable]:
    """Put the first model beside each other one, a table for each group of metrics."""
    rows, pairs = _keyed(result.rows, traffic), _keyed(result.pairs, traffic)
    for title, metrics in groups.items():
        yield from _beside(result, title, "", rows, pairs, [(name, "") for name in metrics])


def by_cut(
    result: ReplayResult, traffic: str, only: Sequence[str] | None = None
) -> Iterator[TextTable]:
    """Put models beside each other in every cell, with p after Holm."""
    metrics = list(dict.fromkeys(row.metric for row in result.cut_rows))
    for cut in dict.fromkeys(row.cut for row in result.cut_rows):
        rows = _keyed(result.cut_rows, traffic, cut)
        listed = dict.fromkeys((m, cell) for cell, m, _ in rows if only is None or m in only)
        places = sorted(listed, key=lambda place: metrics.index(place[0]))
        pairs = _keyed(result.cut_pairs, traffic, cut)
        yield from _beside(result, f"Models by cut {cut}", cut, rows, pairs, places)


def _beside(
    result: ReplayResult,
    title: str,
    cut: str,
    rows: Keyed[Value],
    pairs: Keyed[PairRow],
    places: Sequence[tuple[str, str]],
) -> Iterator[TextTable]:
    """Make a table for each model that is compared with the first; places are metric and cell."""
    first, *others = plain_models(result) or [""]
    for other in others or [""] if first and places else ():
        heads = tuple(filter(None, (first, other)))
        lines = [
            _Line(
                metric,
                f"{cut} = {cell or '(none)'}" if cut else "",
                tuple(rows.get((cell, metric, model)) for model in heads),
                pairs.get((cell, metric, other)),
            )
            for metric, cell in places
        ]
        holm = "; p is Holm's over the cells of a cut" if cut else ""
        lead = f"{other} - {first}, paired by unit{holm}." if other else ""
        named = f"{title}, {other}" if len(others) > 1 else title
        yield _tabulated(result, named, lead, ("cell" if cut else "", *heads), lines)


def staged(result: ReplayResult, traffic: str, groups: Groups) -> Iterator[TextTable]:
    """Compare the models at each stage, in the order of the stages."""
    stage_of = {model.name: model.stage for model in result.models if model.stage is not None}
    order = list(dict.fromkeys(stage_of.values()))
    names = sorted(stage_of, key=lambda name: order.index(stage_of[name]))
    alike = [p for p in result.pairs if stage_of.get(p.control) == stage_of.get(p.model)]
    rows, pairs = _keyed(result.rows, traffic), _keyed(alike, traffic)
    for title, metrics in groups.items() if names else ():
        lines = _singly(rows, pairs, [(metric, name) for metric in metrics for name in names])
        yield _tabulated(result, title, "differences paired by unit.", ("model", "value"), lines)


def by_value(result: ReplayResult, cut: replay.CutByValue, traffic: str) -> TextTable:
    """Tabulate metrics whose cut-off depends on the value of a column."""
    names = dict.fromkeys(row.model for row in cut.rows)
    keys = [(m, name) for m in dict.fromkeys(row.metric for row in cut.rows) for name in names]
    lines = _singly(_keyed(cut.rows, traffic), _keyed(cut.pairs, traffic), keys)
    lead = f"{', '.join(f'{value} at {k}' for value, k in cut.ks)}."
    return _tabulated(result, f"k by {cut.column}", lead, ("model", "value"), lines)


def _singly(
    rows: Keyed[ReplayRow], pairs: Keyed[PairRow], keys: Iterable[tuple[str, str]]
) -> list[_Line]:
    """List models below each other, each with its comparison."""
    return [_Line(*key, (rows.get(("", *key)),), pairs.get(("", *key))) for key in keys]


def _tabulated(
    result: ReplayResult, title: str, lead: str, heads: tuple[str, ...], lines: Sequence[_Line]
) -> TextTable:
    """Make a table of lines; `heads` are those of their labels, without any empty, and values."""
    level = fmt.level(result.alpha)
    scale, drawings = glyph.column([_mark(line, level) for line in lines])
    labelled, is_single = bool(heads[0]), heads[-1] == "value"
    names = ["metric", *filter(None, heads)]
    kinds: list[Kind] = ["name", "name"] if labelled else ["name"]
    kinds += ["number"] * (len(heads) - 1)
    rows = [[line.metric, *[line.label] * labelled, *_values(line)] for line in lines]
    if any(line.change for line in lines):
        names += [*["against"] * is_single, f"difference [{level} interval]", scale, "p"]
        kinds += ["extra"] * is_single
        kinds += ["name", "name", "extra"]
        for line, cells, drawing in zip(lines, rows, drawings, strict=True):
            against = line.change.control if line.change else ""
            cells += [*[against] * is_single, _difference(line.change), drawing, _p(line.change)]
    return TextTable(title, lead, tuple(names), tuple(map(tuple, rows)), tuple(kinds))


def _values(line: _Line) -> Iterator[str]:
    """Write values with decimals by the narrowest interval; as plain text with one more."""
    known = [row for row in line.values if row is not None and row.low is not None]
    places = max((fmt.interval_places(row.low, row.high) for row in known), default=0)
    for row in line.values:
        if row is None:
            yield fmt.MISSING
            continue
        text, interval = fmt.estimate(row.value, row.low, row.high, places)
        note = codes.reason(row.reason)
        plain = f"{row.value or 0:,.{min(places + 1, 12)}f}" if known else f"{row.value or 0:.4g}"
        html = spans(value=text, interval=interval, note=note)
        yield Cell(note if row.value is None else plain, html, "number")


def _difference(change: PairRow | None) -> str:
    if change is None:
        return ""
    shown = fmt.difference(change.difference, change.low, change.high)
    reason = codes.reason(change.reason)
    ends = "" if change.low is None else interval_of(shown)
    text = reason or fmt.MISSING if shown is None or change.low is None else shown.text
    html = spans(estimate=estimate_of(shown), interval=ends, absolute=reason)
    exact = f"{full(change.difference)} [{full(change.low)}, {full(change.high)}]"
    return Cell(text, html, "effect", exact)


def _p(change: PairRow | None) -> str:
    if change is None:
        return ""
    p = change.p_adjusted if isinstance(change, replay.ReplayCutPair) else change.p_value
    return fmt.p_value(p)


def _mark(line: _Line, level: str) -> glyph.Mark | None:
    """Draw a difference as a share of the baseline."""
    change = line.change
    if change is None or change.difference is None or change.low is None or change.high is None:
        return None
    if not change.value_control:
        return None
    ends = (change.difference, change.low, change.high)
    lift, low, high = (number / abs(change.value_control) for number in ends)
    shown = fmt.difference(*ends)
    words = f", {level} interval {shown.span}" if shown else ""
    spoken = f"{line.metric} {line.label}: difference {estimate_of(shown)}{words}"
    return glyph.Mark(lift, low, high, spoken, decided=not low <= 0 <= high)


def coverage(result: ReplayResult) -> TextTable:
    """Tabulate how much of the log each model has a score for."""
    return table(
        "Coverage",
        "how much of the log each model has a score for; models are compared over the requests "
        "that all of them score.",
        result.coverage,
        "model",
        ("requests", lambda one: _part(one.scored_requests, one.requests), "number"),
        ("units", lambda one: _part(one.scored_units, one.units), "number"),
        (
            "pairs of a request and an item",
            lambda one: _part(one.rows - one.unscored_rows, one.rows),
            "number",
        ),
        ("without a usable score", lambda one: fmt.count(one.unscored_rows), "spare"),
    )


def _part(some: int, of: int) -> str:
    """Write a share in per cent, and of how many; 100 % only if it is all of them."""
    if not of:
        return fmt.MISSING
    share = fmt.percent(1.0) if some == of else f"{min(100 * some / of, 99.99):.2f}%"
    return f"{share} of {fmt.count(of)}"


def curves(result: ReplayResult) -> Iterator[tuple[str, str, list[replay.Curve]]]:
    """Name each metric and traffic with curves, say where they level off, and list them."""
    for metric, traffic in dict.fromkeys((curve.metric, curve.traffic) for curve in result.curves):
        own = [c for c in result.curves if (c.metric, c.traffic) == (metric, traffic)]
        elbows = (
            f"{c.model} has none" if c.elbow is None else f"{c.model} at {c.elbow}" for c in own
        )
        said = f"Elbow (further places add less): {'; '.join(elbows)}."
        yield f"{metric}, traffic of {traffic}", said, own
