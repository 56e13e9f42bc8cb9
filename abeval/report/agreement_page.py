"""Build the page parts of an agreement: causes, quadrant, traffic, positions."""

from collections import Counter
from collections.abc import Iterator, Sequence

from abeval.offline.metrics import find_direction
from abeval.report import assets, tables
from abeval.report import figures as fig
from abeval.report.figures import Block, Closed, FigureView
from abeval.report.parts import page_part
from abeval.report.tables import Kind, Tables, TextTable, VerdictLine, format_lift, table
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.agreement import (
    Agreement,
    AgreementRow,
    Cause,
    Explanation,
    Gap,
    GapPart,
    PositionRate,
)
from abeval.results.study import Study

_STANDING_WORDS = {
    "conflict": "contradict each other",
    "agree": "agree",
    "offline only": "differ: offline moved, online did not",
    "online only": "differ: online moved, offline did not",
    "inconclusive": "say nothing together: neither moved clearly",
}
"""Standing → its words; the order is that of the symbols in the quadrant."""

_ORDER = "the candidate's order"

_MOST_NEEDS = 4
"""Most missing columns that one sentence names."""


def tabulate_agreement(result: Agreement, show_all: bool) -> Tables:
    """Tabulate conclusions and goals; with `show_all`, every pair, model and cause."""
    if show_all:
        all_tables = (
            *bill_tables(result),
            _pair_table(result),
            *_traffics_part(result),
            _causes(result),
        )
        visible_tables = tables.drop_empty(*all_tables)
        return Tables((*conclusion_lines(result), *visible_tables), result.notes)
    missing = [cause for cause in result.causes if cause.status == "cannot be checked"]
    needs = dict.fromkeys(need for cause in missing for need in cause.needs)
    names = dict.fromkeys(
        codes.describe_code(c.name) for c in result.causes if c.status == "not found"
    )
    lines = {
        "Checked, and no cause": names,
        f"{fmt.count(len({c.name for c in missing}))} causes cannot be checked without": needs,
        "With --all": ("every pair with intervals", "models on traffics", "each cause"),
    }
    summary_lines = (
        f"{lead}: {fmt.listing(list(items))}" for lead, items in lines.items() if items
    )
    goals = tables.drop_empty(*bill_tables(result), standing_table(result))
    return Tables((*conclusion_lines(result), *goals, *summary_lines), result.notes)


def bill_tables(result: Agreement) -> Iterator[TextTable]:
    """Tabulate the promised and the measured lift, and the share of each cause."""
    several = len(result.explanations) > 1
    for gap in (explanation.gap for explanation in result.explanations):
        if gap is None or gap.promised is None:
            continue
        rows: list[tuple[str, Gap | GapPart, str]] = [
            ("promised", gap, "promised"),
            *((codes.describe_code(part.name), part, "points") for part in gap.causes),
            ("not explained", gap, "unexplained"),
            ("came", gap, "came"),
        ]
        yield table(
            f"What was promised and what came{f', {gap.variant}' * several}",
            f"the lift of {gap.metric} that {'past experiments' if gap.predictor else _ORDER} "
            f"promised{f' by {gap.predictor}' * bool(gap.predictor)}, and what each cause "
            f"took of it, with {fmt.level(result.alpha)} intervals.",
            rows,
            ("part", lambda row: row[0]),
            ("points", lambda row: _points(*tables.interval(row[1], row[2])), "number"),
            ("p", lambda row: _p_value(row[1]), "number"),
        )


def _p_value(part: Gap | GapPart) -> str:
    p_value = part.p_value if isinstance(part, GapPart) else None
    return "" if p_value is None else fmt.p_value(p_value)


def _points(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return fmt.MISSING
    return f"{value:+.1%} [{low:+.1%}, {high:+.1%}]"


def standing_table(result: Agreement) -> TextTable:
    """Tabulate offline metrics against goals, goals of one standing in one row."""
    goals = (row for row in result.rows if row.role == "goal")
    groups = fig.group(goals, lambda row: (row.offline, row.variant, row.standing))

    def describe_goal(row: AgreementRow) -> str:
        lift = format_lift(row)
        return f"{row.online} {lift.estimate}" if lift else row.online

    return table(
        "Offline against goals",
        f"the difference on control's traffic beside the lift online{_directions(result)}.",
        groups.values(),
        ("offline", lambda rows: rows[0].offline),
        ("variant", lambda rows: rows[0].variant, "extra"),
        ("difference", lambda rows: number(rows[0].difference, None, None, signed=True), "number"),
        ("offline it", lambda rows: _describe_movement(rows[0].offline_strength), "extra"),
        ("standing", lambda rows: rows[0].standing),
        ("goals", lambda rows: ", ".join(map(describe_goal, rows)), "words"),
        ("why not", lambda rows: codes.describe_reason(rows[0].reason), "note"),
    )


def conclude_variants(result: Agreement) -> tuple[VerdictLine, ...]:
    """Conclude for each variant whether offline and online agree, and why not."""
    rows = {(row.variant, row.offline, row.online): row for row in result.rows}
    return tuple(
        VerdictLine(
            explanation.variant,
            # Only the colours of these two decisions fit; nothing is decided here.
            {"agree": "ship", "conflict": "draft"}.get(explanation.standing, ""),
            f"offline and online {_describe_standing(explanation)}".upper(),
            f"{_sides(row)} {_tally(result, explanation.variant)}",
            colour_index,
            *_why_and_next(result, row),
        )
        for colour_index, explanation in enumerate(result.explanations, 1)
        for row in (rows[explanation.variant, explanation.offline, explanation.online],)
    )


def _describe_standing(explanation: Explanation) -> str:
    gap = explanation.gap
    # Both moved the same way, but a cause explains a part of the difference in size.
    if explanation.standing == "agree" and gap is not None and gap.causes:
        return "agree in sign, not in size"
    return _STANDING_WORDS[explanation.standing].partition(":")[0]


def conclusion_lines(result: Agreement) -> Iterator[str]:
    """Write the conclusions, then trust and guardrails, as lines of text."""
    for conclusion in conclude_variants(result):
        before = f"{conclusion.variant}: " if len(result.explanations) > 1 else ""
        yield from tables.write_verdict_lines(conclusion, before)
    for name, sentence in trust_lines(result):
        yield f"{name}: {sentence}"


def trust_lines(result: Agreement) -> Iterator[tuple[str, str]]:
    """Report failed checks that affect goals, and how guardrails moved online."""
    messages = (cause.message for cause in result.causes if cause.name == "trust")
    # The same check may be named for several variants.
    for message in dict.fromkeys(messages):
        yield "Trust", message.removeprefix("Trust: ")
    several = len(result.explanations) > 1
    lifts = [
        f"{row.online}{f' of {row.variant}' * several} {format_lift(row).text}"
        for row in result.rows
        if row.role == "guardrail"
    ]
    yield "Guardrails", f"online {fmt.listing([*dict.fromkeys(lifts)])}." if lifts else "none."


def _directions(result: Agreement) -> str:
    """Name the offline metrics for which higher is not better."""
    metrics = dict.fromkeys(row.offline for row in result.rows)
    names = fig.group(metrics, lambda metric: codes.direction_words(find_direction(metric)))
    names.pop("higher is better", None)
    return "".join(
        f"; {direction} for {fmt.listing(metric_names)}"
        for direction, metric_names in names.items()
    )


def _sides(row: AgreementRow) -> str:
    offline = number(row.difference, row.low, row.high, signed=True)
    return (
        f"On control's traffic {row.offline} "
        f"{_describe_movement(row.offline_strength)} offline ({offline}); "
        f"online {row.online} {_describe_movement(row.online_strength)} ({format_lift(row).text})."
    )


def _describe_movement(strength: float | None) -> str:
    if strength is None or abs(strength) <= 1:
        return "is unclear"
    return "is better" if strength > 0 else "is worse"


def _tally(result: Agreement, variant: str) -> str:
    """Count the standings of all pairs of an offline metric and a goal."""
    goal_rows = [row for row in result.rows if row.variant == variant and row.role == "goal"]
    counts = Counter(_STANDING_WORDS[row.standing].partition(":")[0] for row in goal_rows)
    tally_text = fmt.listing([f"{count} {word}" for word, count in counts.most_common()])
    return (
        f"Of {len(goal_rows)} pairs of an offline metric and a goal, {tally_text}."
        if goal_rows
        else ""
    )


def _why_and_next(result: Agreement, row: AgreementRow) -> tuple[str, str]:
    """Explain the conclusion by its first cause, and recommend a next step."""
    causes = [cause for cause in result.causes if cause.variant == row.variant]
    first = next((cause for cause in causes if cause.status == "found"), None)
    if first is not None:
        why, share = first.message, share_of_gap(first)
        if share:
            # The message is `cause: details`; the share belongs to the cause.
            why = why.replace(":", f" accounts for {share} of the gap:", 1)
        return why, f"Decide by the online result. {first.remedy}".rstrip()
    if row.reason is not None:
        return (
            f"they cannot be compared: {codes.describe_reason(row.reason)}.",
            "Mend that, and run again.",
        )
    if row.standing == "agree":
        history = f"one experiment does not show that {row.offline} predicts {row.online}"
        return (
            "there is no gap to explain.",
            f"Add it to a history (abeval history add): {history}.",
        )
    if row.standing == "inconclusive":
        return "both intervals contain zero.", "Run on: more units narrow both intervals."
    bill = next((e.gap for e in result.explanations if e.variant == row.variant), None)
    if row.standing != "conflict" and bill is not None and bill.is_closed:
        return "what its order promised came, within noise.", "Decide by the online result."
    checked = sum(cause.status == "not found" for cause in causes)
    needs = [*dict.fromkeys(need for cause in causes for need in cause.needs)]
    why = f"none of the {checked} causes that could be checked explains it."
    if not needs:
        return why, f"Decide by the online result; {row.offline} did not predict it."
    more = [f"{len(needs) - _MOST_NEEDS} more"] if len(needs) > _MOST_NEEDS else []
    missing = fmt.listing([*needs[:_MOST_NEEDS], *more])
    why = f"cannot be known yet: {why[:-1]}, and {len(causes) - checked} need what is missing."
    return why, f"Decide by the online result. To know why, add {missing}, and run again."


@page_part(
    "traffics",
    view="explore",
    title="Models by traffic",
    short="Traffics",
    result="agreement",
    after="quadrant",
    lead=(
        "The logged difference is what dashboards show: each model on its own traffic. It is the "
        "sum of what the model changes on the same traffic, and what the traffic changes."
    ),
)
def _traffics_part(result: Agreement) -> tuple[TextTable, ...]:
    """Tabulate models by traffic, the logged difference and off-policy backtests."""
    return (*_matrix(result), *tables.drop_empty(_backtests(result)))


def _pair_table(result: Agreement) -> TextTable:
    """Pair offline and online metrics."""
    return table(
        "Offline against online",
        f"offline on control's traffic, online as lift, with {fmt.level(result.alpha)} intervals.",
        result.rows,
        *("offline", "online"),
        ("variant", lambda row: row.variant, "extra"),
        ("difference", lambda r: number(r.difference, r.low, r.high, signed=True), "number"),
        ("lift", lambda row: format_lift(row).text, "number"),
        "standing",
        tables.REASON_COLUMN,
    )


def number(
    value: float | None, low: float | None, high: float | None, *, signed: bool = False
) -> str:
    """Write a number with its interval.

    Example:
        >>> number(0.0316, 0.0211, 0.042, signed=True)
        '+0.0316 [+0.0211, +0.0420]'
    """
    form = "+.4f" if signed else ".4f"
    if value is None:
        return fmt.MISSING
    ends = "" if low is None or high is None else f" [{low:{form}}, {high:{form}}]"
    return f"{value:{form}}{ends}"


def _matrix(result: Agreement) -> Iterator[TextTable]:
    if not result.matrix:
        return
    traffics = list(dict.fromkeys(cell.traffic for cell in result.matrix))
    numbers: tuple[Kind, ...] = ("number",)
    keys = dict.fromkeys((cell.metric, cell.model) for cell in result.matrix)
    cells = {(c.metric, c.model, c.traffic): number(c.value, c.low, c.high) for c in result.matrix}
    yield TextTable(
        "Models by traffic",
        "each model on the traffic that each variant served.",
        ("metric", "model", *traffics),
        tuple((*key, *(cells.get((*key, t), fmt.MISSING) for t in traffics)) for key in keys),
        ("name", "name", *numbers * len(traffics)),
    )
    yield table(
        "Logged difference",
        "each model on its own traffic: what the model changes, and what the traffic.",
        result.decompositions,
        "metric",
        ("variant", lambda part: part.variant, "extra"),
        ("logged", lambda part: number(*tables.interval(part, "logged"), signed=True), "number"),
        ("model", lambda part: number(*tables.interval(part, "model"), signed=True), "number"),
        ("traffic", lambda part: number(*tables.interval(part, "traffic"), signed=True), "number"),
    )


def _backtests(result: Agreement) -> TextTable:
    return table(
        "Off-policy backtest",
        "one variant estimated from the log of the other, against what happened.",
        result.backtests,
        ("from", lambda row: row.source),
        ("to", lambda row: row.target),
        "estimator",
        ("estimate", lambda row: number(row.value, row.low, row.high), "number"),
        ("realised", lambda row: number(row.realised, None, None), "number"),
        ("z", lambda row: fmt.MISSING if row.z is None else f"{row.z:+.2f}", "number"),
    )


def _causes(result: Agreement) -> TextTable:
    return table(
        "Causes",
        "found ones first, by the share of the gap that they account for.",
        result.causes,
        ("cause", lambda cause: cause.name),
        ("variant", lambda cause: cause.variant, "extra"),
        "status",
        ("p", lambda c: "" if c.p_adjusted is None else fmt.p_value(c.p_adjusted), "number"),
        ("gap", share_of_gap, "number"),
        ("what was seen", lambda cause: cause.message, "words"),
    )


def share_of_gap(cause: Cause) -> str:
    """Write the share of the gap that a cause explains; empty if unknown."""
    return "" if cause.accounts_for is None else fmt.percent(cause.accounts_for)


_STRENGTHS = ("offline_strength", "online_strength")

_MAX_LABELS = 12
"""Most points that have their names beside them; others show it on hovering."""


def _quadrant_figure(rows: Sequence[AgreementRow], colour_index: int) -> fig.Figure:
    """Draw offline against online strength, in half-widths of the intervals."""
    plotted_rows = [
        row for row in rows if all(getattr(row, name) is not None for name in _STRENGTHS)
    ]
    # The axes reach beyond ±1, where an interval begins to exclude zero.
    across, up = ([1.5, -1.5, *(getattr(row, name) for row in plotted_rows)] for name in _STRENGTHS)
    is_named = sum(row.standing in ("conflict", "agree") for row in rows) <= _MAX_LABELS
    traces = []
    for i, name in enumerate(_STANDING_WORDS):
        standing_rows = [row for row in plotted_rows if row.standing == name]
        names = {
            "text": [fig.label(row.offline) for row in standing_rows],
            "textposition": "top center",
        }
        # Filled: both sides moved. Hollow: at least one did not.
        mark = fig.symbol(i) + "-open" * (i > 1)
        points = fig.scatter(
            [f"{row.offline} and {row.online}: {name}" for row in standing_rows],
            x=[row.offline_strength for row in standing_rows],
            y=[row.online_strength for row in standing_rows],
            mode="markers+text" if is_named and i < 2 else "markers",
            name=name,
            marker={"color": fig.colour(colour_index), "symbol": mark, "size": 9},
            **(names if is_named and i < 2 else {}),
        )
        # An empty trace would still have an entry in the legend.
        traces += [points] * bool(standing_rows)
    return fig.figure(
        traces,
        380,
        {"b": 48},
        xaxis=fig.effect_axis(across, title="offline, on control's traffic"),
        yaxis=fig.effect_axis(up, title="online"),
        shapes=[fig.line_at(axis, at, dash="dot") for at in (-1, 1) for axis in "xy"],
    )


def standing_lines(study: Study) -> tuple[str, ...]:
    """Write one line per variant: do its offline and online results agree?"""
    # A draft, or a test that failed its checks, concludes nothing.
    if study.agreement is None or study.questions or not study.trusted:
        return ()
    agreement = study.agreement
    return tuple(
        f"{f'{explanation.variant}: ' * (len(agreement.explanations) > 1)}"
        f"{explanation.offline} offline and {explanation.online} online "
        f"{_STANDING_WORDS[explanation.standing]}{_first_cause(agreement, explanation)}."
        f"{_promise(explanation)}"
        for explanation in agreement.explanations
    )


def _promise(explanation: Explanation) -> str:
    """Write the promised lift, the measured lift and the largest cause."""
    gap = explanation.gap
    if gap is None or gap.promised is None:
        return ""
    first = (
        f"; {codes.describe_code(gap.causes[0].name)} {gap.causes[0].points:+.1%}"
        if gap.causes
        else ""
    )
    return f" Promised{gap.basis} {gap.promised:+.1%}, came {gap.came:+.1%}{first}."


def _first_cause(agreement: Agreement, explanation: Explanation) -> str:
    """Name the first cause of a conflict, with its share of the gap."""
    if explanation.standing != "conflict":
        return ""
    for cause in agreement.confirmed_causes:
        if cause.variant == explanation.variant:
            share = f", {share_of_gap(cause)} of the gap" * (cause.accounts_for is not None)
            return f"; the first cause is {codes.describe_code(cause.name)}{share}"
    return "; no cause explains it"


@page_part(
    "causes",
    view="explore",
    title="Offline meets online",
    short="Agreement",
    after="catalog",
    gated=True,
    lead=(
        "Whether offline and online agree, and why not. Causes found come first, ordered by how "
        "much of the gap they explain (Holm-adjusted p)."
    ),
)
def _causes_part(study: Study) -> Iterator[Block]:
    """Show what offline and online say together, and every cause.

    The bill is here unless it is first on the page.
    """
    result = study.agreement
    if result is None:
        return
    if study.analysis is not None:
        yield from bill_tables(result)
    sentences = [conclusion.sentence for conclusion in conclude_variants(result)]
    formatters = {"share_of_gap": share_of_gap, "number": number}
    yield assets.block("causes.html", sentences=sentences, result=result, **formatters)


@page_part(
    "quadrant",
    view="explore",
    title="Offline against online",
    short="Quadrant",
    result="agreement",
    after="causes",
    gated=True,
    lead=(
        "Each offline metric, on control's traffic, against each goal online, both in half-widths "
        "of their {level} intervals and turned so that more is better. Inside the dotted lines an "
        "interval contains zero; upper left and lower right contradict each other."
    ),
)
def _quadrant_part(result: Agreement) -> Iterator[Block]:
    """Draw offline metrics against goals, one figure per variant; list all pairs."""
    rows_by_variant = fig.group(result.rows, lambda row: row.variant)
    for i, (variant, variant_rows) in enumerate(rows_by_variant.items()):
        # A test without a goal still shows its pairs.
        plotted_rows = [row for row in variant_rows if row.role == "goal"] or variant_rows
        count = sum(row.standing == "conflict" for row in plotted_rows)
        takeaway = f"{count} of {len(plotted_rows)} pairs of metrics contradict each other."
        title, key = f"Offline against online, {variant}", ("quadrant", variant)
        yield FigureView(title, takeaway, _quadrant_figure(plotted_rows, i + 1), key)
    for pairs in tables.drop_empty(_pair_table(result)):
        yield Closed(f"{pairs.title}, all metrics ({len(pairs.rows)})", (pairs,))


@page_part(
    "position",
    view="explore",
    title="Clicks by position",
    short="Position",
    result="agreement",
    after="traffics",
    gated=True,
    lead=(
        "Clicks fall on what is shown on top. Where the variants differ at each position, the "
        "items are better; where one shows more on top, its clicks are helped by the place."
    ),
)
def _position_part(agreement: Agreement) -> Iterator[Block]:
    """Compare click rates of the variants by position."""
    rates = tuple(dict.fromkeys(agreement.positions))
    totals = Counter[str]()
    for rate in rates:
        totals[rate.variant] += rate.impressions
    series: dict[str, list[fig.Point]] = {}
    for rate in rates:
        ends = tables.rescale(100, rate.ctr, rate.low, rate.high)
        text = (
            f"position {fmt.count(rate.position)}, impressions {fmt.count(rate.impressions)}, "
            f"share {tables.format_share(rate.impressions, totals[rate.variant])}, "
            f"clicks {fmt.count(rate.clicks)}, CTR {' '.join(_percent(rate))}"
        )
        point = fig.Point(rate.position, 100 * rate.ctr, text, ends)
        series.setdefault(rate.variant, []).append(point)
    up = {"ticksuffix": "%", "rangemode": "tozero"}
    if rates:
        figure = fig.lines(series, "position", "CTR", {"tickformat": "d"}, up)
        first = min(rate.position for rate in rates)
        on_top = [f"{r.variant} {_percent(r)[0]}" for r in rates if r.position == first]
        text = f"At position {first}: {fmt.listing(on_top)}."
        yield FigureView("CTR by position", text, figure, ("position", "ctr"))


def _percent(rate: PositionRate) -> tuple[str, str]:
    value, interval = fmt.estimate(*tables.rescale(100, rate.ctr, rate.low, rate.high))
    return f"{value}%", interval
