"""Tabulate a replay: models and baseline, clear differences, parts, coverage."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from abeval.offline.metrics import DEFINITIONS, find_direction
from abeval.report.tables import (
    Cell,
    Kind,
    Part,
    Tables,
    TextTable,
    VerdictLine,
    render_spans,
    table,
    trim,
    write_all_digits,
)
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.record import group_rows
from abeval.results.replay import POOLED, Curve, PairRow, ReplayResult, ReplayRow

_ROWS = 12
"""Most metrics per cut-off in a short table; up to so many are all shown."""

_METRICS = 16
"""Up to so many metrics are on one screen; of more, those at the largest cut-off."""

_FEW = 6
"""Most metrics that a short table breaks down by part; most models that each have a column."""

_DIFFERENCES = 8
"""Most differences that are shown, the clearest first."""

_LINES = 3
"""Most models on the first screen of a page."""

_ALL = "all"
"""The traffic of an evaluation, which has no variants."""

_SURE = "*"
"""Marks a value whose difference from the baseline excludes zero."""

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
    """Tabulate models on all traffic; with `show_all`, every metric and traffic.

    By default it is one screen. More than two models are columns, or rows where they are many, and
    only clear differences are listed.
    """
    main, metrics = choose_main_traffic(result), list_metrics(result)
    traffic_names = list_traffics(result) if show_all else [main]
    shown = metrics if show_all else _choose_screen_metrics(result)
    parts: list[Part] = []
    if not show_all:
        # Signs at the smaller cut-offs count too, though the screen does not show them.
        parts += [_describe_judged(result), *_list_reversals(result, choose_metrics(result))]
    if show_all or len(result.models) <= 2:
        for traffic in traffic_names:
            parts += [family.table for family in tabulate_families(result, traffic, shown)]
    else:
        parts += _tabulate_models(result, shown)
    if hidden := len(metrics) - len(shown):
        # An evaluation has no variants, and no command that takes options.
        where = (
            ": to_frame(); a page of all: report(path)"
            if main == _ALL
            else ", and each variant's traffic: --all"
        )
        parts.append(f"{hidden} more metrics{where}")
    parts += tabulate_parts(result, quote_metrics(shown)[:_FEW])
    parts += [tabulate_coverage(result)] if show_all else []
    parts += [
        f"{name}. {text}"
        for name, text, curves in group_curves(result)
        if curves[0].traffic in traffic_names
    ]
    counts = (f"{codes.describe_code(what)}: {n:,}" for what, n in result.accounting if n)
    return Tables(tuple(parts), (*counts, *result.notes))


def _describe_judged(result: ReplayResult) -> str:
    """Describe what was judged: requests, units, items and coverage by model."""
    requests, units, rows = (
        max(getattr(covered, name) for covered in result.coverage)
        for name in ("requests", "units", "rows")
    )
    scored = "; ".join(
        f"{c.model} has scores for {fmt.format_percent(c.scored_requests / c.requests)}"
        for c in result.coverage
        if c.scored_requests < c.requests
    )
    return (
        f"Judged: {fmt.format_count(requests)} requests of "
        f"{fmt.format_count(units)} units, {fmt.format_count(rows)} items in them; "
        f"{scored or 'every model has scores for all requests'}."
    )


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


def choose_metrics(result: ReplayResult) -> list[str]:
    """Choose at most a dozen metrics per cut-off, one definition of each.

    They keep the order of the result. Metrics without a value are left out first.
    """
    main, metrics = choose_main_traffic(result), list_metrics(result)
    valued = {r.metric for r in result.rows if r.traffic == main and r.value is not None}
    kept: set[str] = set()
    for names in group_rows(metrics, lambda name: split_id(name)[1]).values():
        few = len(names) <= _ROWS
        kept.update(names if few else quote_metrics([name for name in names if name in valued]))
    return [name for name in metrics if name in kept]


def _choose_screen_metrics(result: ReplayResult) -> list[str]:
    """Choose the metrics of one screen: of many, those at the largest cut-off."""
    metrics = choose_metrics(result)
    if len(metrics) <= _METRICS:
        return metrics
    cuts = {name: split_id(name)[1] for name in metrics}
    numbers = {k for k in cuts.values() if k.isdecimal()}
    # A cut-off of the request has a name: whoever asked for it wants to see it.
    smaller = numbers - {max(numbers, key=int, default="")}
    at_largest = [name for name in metrics if cuts[name] not in smaller]
    if len(result.models) <= 2 or len(at_largest) <= _METRICS:
        return at_largest
    kept = quote_metrics(at_largest)
    return [name for name in at_largest if name in kept]


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


def find_family(metric: str) -> str:
    """Name the family of a metric.

    Example:
        >>> [find_family(name) for name in ("ndcg@5[lin]", "recall@5", "auc", "novelty@5[miuf]")]
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
    whole = "all traffic" if traffic in (POOLED, _ALL) else f"traffic of {traffic}"
    where = texts.get(traffic, whole)
    rows = {(row.metric, row.model): row for row in result.rows if row.traffic == traffic}
    pairs = {(pair.metric, pair.model): pair for pair in result.pairs if pair.traffic == traffic}
    for title, family_metrics in group_rows(metrics, find_family).items():
        lines = [
            _Line(rows.get((metric, first)), row, pairs.get((metric, model)))
            for metric in family_metrics
            for first, model in pair_with_baseline(result)
            if (row := rows.get((metric, model)))
        ]
        if lines:
            yield Family(title, family_metrics, _tabulate_lines(result, f"{title}, {where}", lines))


def _tabulate_models(result: ReplayResult, metrics: Sequence[str]) -> Iterator[Part]:
    """Tabulate metrics by model, then the clearest differences from the baseline."""
    main, level = choose_main_traffic(result), fmt.format_level(result.alpha)
    pairs = [p for p in result.pairs if p.traffic == main and p.metric in metrics]
    clear = sorted(filter(_measure_clearness, pairs), key=_measure_clearness, reverse=True)
    sure = {(pair.metric, pair.model) for pair in clear}
    values = {(row.metric, row.model): row.value for row in result.rows if row.traffic == main}

    def cell(metric: str, model: str) -> str:
        value = fmt.format_number(values.get((metric, model)), ".4g") or fmt.MISSING
        return f"{_SURE * ((metric, model) in sure)} {value}"

    lead = f"{_SURE} the {level} interval of the difference excludes zero."
    names = [model.name for model in result.models]
    if len(names) <= _FEW:
        head, rows = ("metric", *names), [(m, *(cell(m, n) for n in names)) for m in metrics]
    else:
        first = quote_metrics(metrics)[:_FEW]
        head, rows = ("model", *first), [(n, *(cell(m, n) for m in first)) for n in names]
    numbers: list[Kind] = ["number"] * (len(head) - 1)
    yield TextTable("Values", lead, head, tuple(rows), ("name", *numbers))
    baseline, _ = pair_with_baseline(result)[0]
    if not clear:
        yield f"No difference from {baseline} has an interval that excludes zero."
        return
    yield table(
        "Differences",
        f"from {baseline}, paired by unit, unadjusted; {len(clear)} of {len(pairs)} exclude zero.",
        clear[:_DIFFERENCES],
        *("metric", "model"),
        (f"difference [{level} interval]", _format_difference),
        ("p", lambda pair: fmt.format_p_value(pair.p_value)),
    )


def _measure_clearness(pair: PairRow) -> float:
    """Return an interval's distance from zero, in its widths; 0 if it has zero."""
    # In units of the width, so that metrics of different scales can be ranked together.
    low, high = pair.low or 0.0, pair.high or 0.0
    return min(abs(low), abs(high)) / (high - low) if low * high > 0 else 0.0


def tabulate_parts(result: ReplayResult, metrics: Sequence[str]) -> Iterator[TextTable]:
    """Tabulate each part beside all traffic: differences of two models, or values."""
    if not result.parts:
        return
    main = choose_main_traffic(result)
    names = {main: "all" if main in (POOLED, _ALL) else main}
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
    """One metric of a model, of its baseline, and their difference."""

    before: ReplayRow | None
    value: ReplayRow
    change: PairRow | None


def _tabulate_lines(result: ReplayResult, title: str, lines: Sequence[_Line]) -> TextTable:
    """Tabulate lines, without columns that are empty or always the same."""
    firsts = {line.before.model for line in lines if line.before}
    models = {line.value.model for line in lines}
    # A column with the values of one model has its name; of several, a general one.
    first, model = (
        next(iter(names)) if len(names) == 1 else default
        for names, default in ((firsts, "baseline"), (models, "value"))
    )
    level = fmt.format_level(result.alpha)
    lead = f"{model} minus {first}, paired by unit." if len(firsts) == len(models) == 1 else ""
    if not firsts and any(line.value.low is not None for line in lines):
        lead = f"with {level} intervals by unit."
    every = table(
        title,
        lead,
        lines,
        ("metric", lambda line: line.value.metric),
        ("model", lambda line: line.value.model * (len(models) > 1)),
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
    # Without a baseline no difference says how sure a value is.
    alone = line.before is None
    return tuple(
        "" if row is None else _format_value(row, decimals, bool(ends), alone) for row in rows
    )


def _format_value(row: ReplayRow, decimals: int, has_interval: bool, alone: bool = False) -> str:
    text, interval = fmt.format_estimate(row.value, row.low, row.high, decimals)
    note = codes.describe_reason(row.reason)
    number = row.value or 0
    # Plain text is copied into other tables, so it has one digit more than the page.
    plain = f"{number:,.{min(decimals + 1, 12)}f}" if has_interval else f"{number:.4g}"
    html = render_spans(value=text, interval=interval, note=note)
    reason = f"({note})" if note else ""
    plain = f"{plain} {interval or reason}".rstrip() if alone else plain
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


def group_curves(result: ReplayResult) -> Iterator[tuple[str, str, list[Curve]]]:
    """Yield the title, the elbows and the curves of each metric and traffic."""
    groups = group_rows(result.curves, lambda curve: (curve.metric, curve.traffic))
    for (metric, traffic), curve_group in groups.items():
        places = {c.model: "has none" if c.elbow is None else f"at {c.elbow}" for c in curve_group}
        elbows = (f"{model} {place}" for model, place in places.items())
        means = [f"{c.model} {c.mean:.5g}" for c in curve_group if c.mean is not None]
        description = f"Elbow (further places add less): {'; '.join(elbows)}."
        description += f" Mean over every k: {', '.join(means)}." if means else ""
        yield f"{metric}, traffic of {traffic}", description, curve_group


def conclude_replay(result: ReplayResult) -> list[VerdictLine]:
    """Count the metrics by which a model is surely better or worse than its baseline.

    An offline metric decides nothing, so the line has no decision.
    """
    by_traffic, lines = group_rows(result.pairs, lambda pair: pair.traffic), list[VerdictLine]()
    compared = by_traffic.get(POOLED) or next(iter(by_traffic.values()), [])
    for pairs in group_rows(compared, lambda pair: pair.model).values():
        signs = [_find_sign(pair) for pair in pairs]
        model, control = fmt.quote_name(pairs[0].model), fmt.quote_name(pairs[0].control)
        text = (
            f"{model} is better than {control} by {signs.count(1)} of {len(signs)} offline "
            f"metrics, worse by {signs.count(-1)}; the others do not tell."
        )
        lines.append(VerdictLine("", "", "OFFLINE ONLY", text, action="Decide by an A/B test."))
    return lines[:_LINES]


def _find_sign(pair: PairRow) -> int:
    """Return 1 for an interval on the better side of zero, -1 on the worse, else 0."""
    low, high, good = pair.low or 0.0, pair.high or 0.0, find_direction(pair.metric)
    # Which way is better by a metric with a target, two values alone do not say.
    if low * high <= 0 or good.startswith("toward"):
        return 0
    return (1 if low > 0 else -1) * (-1 if good == "decrease" else 1)
