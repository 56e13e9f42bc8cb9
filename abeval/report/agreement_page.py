"""Build an agreement's page part: slopes, bill, causes, traffic, positions."""

from collections import Counter
from collections.abc import Iterator

from abeval.offline.metrics import find_direction
from abeval.report import assets, tables
from abeval.report import figures as fig
from abeval.report.figures import Beside, Block, Closed, FigureView
from abeval.report.parts import page_part
from abeval.report.tables import Column, Kind, Tables, TextTable, VerdictLine, format_lift, table
from abeval.results import agreement as records
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.record import group_rows
from abeval.results.study import Study

_STANDING_WORDS = {
    "conflict": "contradict each other",
    "agree": "agree",
    "offline only": "differ: offline moved, online did not",
    "online only": "differ: online moved, offline did not",
    "inconclusive": "say nothing together: neither moved clearly",
}
"""Standing → its words."""

_ORDER = "the candidate's order"

_SIGNED = "+.4f"
"""How differences are written."""

_MOST_NEEDS = 4
"""Most missing columns that one sentence names."""


def tabulate_agreement(result: records.Agreement, show_all: bool) -> Tables:
    """Tabulate conclusions and goals; with `show_all`, every pair, model and cause."""
    conclusions, bills = write_conclusions(result), tabulate_gaps(result)
    if show_all:
        others = _tabulate_pairs(result), *_tabulate_traffics(result), _tabulate_causes(result)
        return Tables((*conclusions, *bills, *tables.drop_empty(*others)), result.notes)
    missing = [cause for cause in result.causes if cause.status == "cannot be checked"]
    needs = dict.fromkeys(need for cause in missing for need in cause.needs)
    absent = [cause.name for cause in result.causes if cause.status == "not found"]
    unchecked = fmt.format_count(len({cause.name for cause in missing}))
    lines = {
        "Checked, and no cause": dict.fromkeys(map(codes.describe_code, absent)),
        f"{unchecked} causes cannot be checked without": needs,
        "With --all": ("every pair with intervals", "models on traffics", "each cause"),
    }
    summary = (f"{lead}: {fmt.join_items(list(items))}" for lead, items in lines.items() if items)
    goals = tables.drop_empty(tabulate_standings(result))
    return Tables((*conclusions, *bills, *goals, *summary), result.notes)


def tabulate_gaps(result: records.Agreement) -> Iterator[TextTable]:
    """Tabulate the promised and the measured lift, and the share of each cause."""
    several = len(result.explanations) > 1
    for gap in filter(None, (explanation.sized_gap for explanation in result.explanations)):
        yield table(
            f"What was promised and what came{f', {gap.variant}' * several}",
            f"the lift of {gap.metric} that {'past experiments' if gap.predictor else _ORDER} "
            f"promised{f' by {gap.predictor}' * bool(gap.predictor)}, and what each cause "
            f"took of it, with {fmt.format_level(result.alpha)} intervals.",
            gap.steps,
            ("part", lambda step: step[0]),
            ("points", lambda step: fmt.format_interval(step[1], "+.1%"), "number"),
            ("p", lambda step: fmt.format_optional(step[2], fmt.format_p_value), "number"),
        )


def tabulate_standings(result: records.Agreement) -> TextTable:
    """Tabulate offline metrics against goals, goals of one standing in one row."""
    goals = (row for row in result.rows if row.role == "goal")
    groups = group_rows(goals, lambda row: (row.offline, row.variant, row.standing))

    def describe_goal(row: records.AgreementRow) -> str:
        lift = format_lift(row)
        return f"{row.online} {lift.estimate}" if lift else row.online

    return table(
        "Offline against goals",
        "the difference on control's traffic beside the lift online"
        f"{_describe_directions(result)}.",
        groups.values(),
        ("offline", lambda rows: rows[0].offline),
        ("variant", lambda rows: rows[0].variant, "extra"),
        (
            "difference",
            lambda rows: fmt.format_number(rows[0].difference, _SIGNED) or fmt.MISSING,
            "number",
        ),
        ("offline it", lambda rows: _describe_movement(rows[0].offline_strength), "extra"),
        ("standing", lambda rows: rows[0].standing),
        ("goals", lambda rows: ", ".join(map(describe_goal, rows)), "words"),
        ("why not", lambda rows: codes.describe_reason(rows[0].reason), "note"),
    )


def conclude_variants(result: records.Agreement) -> tuple[VerdictLine, ...]:
    """Conclude for each variant whether offline and online agree, and why not."""
    rows = {(row.variant, row.offline, row.online): row for row in result.rows}
    return tuple(
        VerdictLine(
            explanation.variant,
            # Only the colours of these two decisions fit; nothing is decided here.
            {"agree": "ship", "conflict": "draft"}.get(explanation.standing, ""),
            f"offline and online {_describe_standing(explanation)}".upper(),
            f"{_describe_sides(row)} {_count_standings(result, explanation.variant)}",
            colour_index,
            *_explain_and_recommend(result, row),
        )
        for colour_index, explanation in enumerate(result.explanations, 1)
        for row in (rows[explanation.variant, explanation.offline, explanation.online],)
    )


def _describe_standing(explanation: records.Explanation) -> str:
    # Both moved the same way, but a cause explains a part of the difference in size.
    if explanation.standing == "agree" and explanation.has_causes:
        return "agree in sign, not in size"
    return _STANDING_WORDS[explanation.standing].partition(":")[0]


def write_conclusions(result: records.Agreement) -> Iterator[str]:
    """Write the conclusions, then trust and guardrails, as lines of text."""
    for conclusion in conclude_variants(result):
        before = f"{conclusion.variant}: " if len(result.explanations) > 1 else ""
        yield from tables.write_verdict_lines(conclusion, before)
    for name, sentence in write_trust_and_guardrails(result):
        yield f"{name}: {sentence}"


def write_trust_and_guardrails(result: records.Agreement) -> Iterator[tuple[str, str]]:
    """Report failed checks that affect goals, and how guardrails moved online."""
    # The same check may be named for several variants.
    for message in dict.fromkeys(cause.message for cause in result.causes if cause.name == "trust"):
        yield "Trust", message.removeprefix("Trust: ")
    several = len(result.explanations) > 1
    lifts = [
        f"{row.online}{f' of {row.variant}' * several} {format_lift(row).text}"
        for row in result.rows
        if row.role == "guardrail"
    ]
    yield "Guardrails", f"online {fmt.join_items([*dict.fromkeys(lifts)])}." if lifts else "none."


def _describe_directions(result: records.Agreement) -> str:
    """Name the offline metrics for which higher is not better."""
    metrics = dict.fromkeys(row.offline for row in result.rows)
    names = group_rows(metrics, lambda metric: codes.describe_direction(find_direction(metric)))
    names.pop("higher is better", None)
    return "".join(f"; {direction} for {fmt.join_items(same)}" for direction, same in names.items())


def _describe_sides(row: records.AgreementRow) -> str:
    return (
        f"On control's traffic {row.offline} "
        f"{_describe_movement(row.offline_strength)} offline ({_format_difference(row)}); "
        f"online {row.online} {_describe_movement(row.online_strength)} ({format_lift(row).text})."
    )


def _describe_movement(strength: float | None) -> str:
    if strength is None or abs(strength) <= 1:
        return "is unclear"
    return "is better" if strength > 0 else "is worse"


def _count_standings(result: records.Agreement, variant: str) -> str:
    """Count the standings of all pairs of an offline metric and a goal."""
    goal_rows = [row for row in result.rows if row.variant == variant and row.role == "goal"]
    counts = Counter(_STANDING_WORDS[row.standing].partition(":")[0] for row in goal_rows)
    tally = fmt.join_items([f"{count} {word}" for word, count in counts.most_common()])
    return f"Of {len(goal_rows)} pairs of an offline metric and a goal, {tally}." if tally else ""


def _explain_and_recommend(result: records.Agreement, row: records.AgreementRow) -> tuple[str, str]:
    """Explain the conclusion by its first cause, and recommend a next step."""
    causes = [cause for cause in result.causes if cause.variant == row.variant]
    first = next((cause for cause in causes if cause.status == "found"), None)
    if first is not None:
        why, share = first.message, _write_gap_share(first)
        if share:
            # The message is `cause: details`; the share belongs to the cause.
            why = why.replace(":", f" accounts for {share} of the gap:", 1)
        remedy = fmt.capitalize_first(first.remedy)
        return why, f"Decide by the online result. {remedy}".rstrip()
    if row.reason is not None:
        why = f"they cannot be compared: {codes.describe_reason(row.reason)}."
        return why, "Mend that, and run again."
    if row.standing == "agree":
        history = f"one experiment does not show that {row.offline} predicts {row.online}"
        remedy = f"Add it to a history (abeval history add): {history}."
        return "there is no gap to explain.", remedy
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
    missing = fmt.join_items([*needs[:_MOST_NEEDS], *more])
    why = f"cannot be known yet: {why[:-1]}, and {len(causes) - checked} need what is missing."
    return why, f"Decide by the online result. To know why, add {missing}, and run again."


def _tabulate_traffics(result: records.Agreement) -> tuple[TextTable, ...]:
    """Tabulate models by traffic, the logged difference and off-policy backtests."""
    return (*_tabulate_matrix(result), *tables.drop_empty(_tabulate_backtests(result)))


def _tabulate_pairs(result: records.Agreement) -> TextTable:
    """Pair offline and online metrics."""
    return table(
        "Offline against online",
        "offline on control's traffic, online as lift, "
        f"with {fmt.format_level(result.alpha)} intervals.",
        result.rows,
        *("offline", "online"),
        ("variant", lambda row: row.variant, "extra"),
        ("difference", _format_difference, "number"),
        ("lift", lambda row: format_lift(row).text, "number"),
        "standing",
        tables.REASON_COLUMN,
    )


def _format_difference(row: records.AgreementRow) -> str:
    return fmt.format_interval((row.difference, row.low, row.high), _SIGNED)


def _format_value(row: records.Backtest | records.Evidence | records.MatrixCell) -> str:
    return fmt.format_interval((row.value, row.low, row.high), ".4f")


def _tabulate_matrix(result: records.Agreement) -> Iterator[TextTable]:
    if not result.matrix:
        return
    traffics = list(dict.fromkeys(cell.traffic for cell in result.matrix))
    numbers: tuple[Kind, ...] = ("number",)
    keys = dict.fromkeys((cell.metric, cell.model) for cell in result.matrix)
    cells = {(c.metric, c.model, c.traffic): _format_value(c) for c in result.matrix}
    yield TextTable(
        "Models by traffic",
        "each model on the traffic that each variant served.",
        ("metric", "model", *traffics),
        tuple((*key, *(cells.get((*key, t), fmt.MISSING) for t in traffics)) for key in keys),
        ("name", "name", *numbers * len(traffics)),
    )

    def part(name: str) -> Column[records.Decomposition]:
        return (
            name,
            lambda row: fmt.format_interval(tables.read_interval(row, name), _SIGNED),
            "number",
        )

    yield table(
        "Logged difference",
        "each model on its own traffic: what the model changes, and what the traffic.",
        result.decompositions,
        "metric",
        ("variant", lambda part: part.variant, "extra"),
        *map(part, ("logged", "model", "traffic")),
    )


def _tabulate_backtests(result: records.Agreement) -> TextTable:
    return table(
        "Off-policy backtest",
        "one variant estimated from the log of the other, against what happened.",
        result.backtests,
        ("from", lambda row: row.source),
        ("to", lambda row: row.target),
        "estimator",
        ("estimate", _format_value, "number"),
        ("realised", lambda row: fmt.format_number(row.realised, ".4f") or fmt.MISSING, "number"),
        ("z", lambda row: fmt.format_number(row.z, "+.2f") or fmt.MISSING, "number"),
    )


def _tabulate_causes(result: records.Agreement) -> TextTable:
    return table(
        "Causes",
        "found ones first, by the share of the gap that they account for.",
        result.causes,
        ("cause", lambda cause: cause.name),
        ("variant", lambda cause: cause.variant, "extra"),
        "status",
        ("p", lambda cause: fmt.format_optional(cause.p_adjusted, fmt.format_p_value), "number"),
        ("gap", _write_gap_share, "number"),
        ("what was seen", lambda cause: cause.message, "words"),
    )


def _write_gap_share(cause: records.Cause) -> str:
    """Write the share of the gap that a cause explains; empty if unknown."""
    return fmt.format_optional(cause.accounts_for, fmt.format_percent)


_STATIONS = ("control's traffic", "its own traffic", "online")

_MAX_LINES = 8
"""Most offline metrics in a slope chart: the one of the conclusion, then the clearest."""


def _draw_slopes(
    result: records.Agreement, explanation: records.Explanation, colour_index: int
) -> FigureView:
    """Draw offline metrics as lines that end at the effect online.

    A line begins with control's traffic, and goes on to the variant's own traffic.
    """
    pair = (explanation.variant, explanation.online)
    valued = [row for row in result.rows if row.offline_strength is not None]
    rows = [row for row in valued if (row.variant, row.online) == pair]
    # The metric of the conclusion is drawn last, above all others.
    rows.sort(key=lambda row: (row.offline != explanation.offline, -abs(row.offline_strength or 0)))
    traces, named = [], list[float]()
    drawn = {
        row.offline: (row.offline_strength, elsewhere.get(row.variant), row.online_strength)
        for row in rows[:_MAX_LINES]
        for elsewhere in [{other.traffic: other.strength for other in row.others}]
    }
    axis = fig.build_effect_axis([1.5, -1.5, *(end for ends in drawn.values() for end in ends)])
    room = 0.05 * (axis["range"][1] - axis["range"][0])
    for offline, strengths in drawn.items():
        points = [(x, y) for x, y in zip(_STATIONS, strengths, strict=True) if y is not None]
        is_concluded = offline == explanation.offline
        tone = fig.choose_colour(colour_index) if is_concluded else fig.GREY
        # A name beside another one could not be read.
        is_free = all(abs(points[0][1] - y) > room for y in named)
        named += [points[0][1]] * is_free
        traces.append(
            fig.draw_trace(
                [f"{offline}, {x}: {y:+.2f}" for x, y in points],
                x=[x for x, _ in points],
                y=[y for _, y in points],
                mode="lines+markers+text",
                text=[fig.escape_label(offline) * is_free] + [""] * (len(points) - 1),
                textposition="middle left",
                cliponaxis=False,
                name=fig.escape_label(offline),
                line={"color": tone, "width": 3 if is_concluded else 1.5},
                marker={"color": tone, "size": 9 if is_concluded else 6},
            )
        )
    figure = fig.lay_out_figure(
        [*reversed(traces)],
        300,
        {"l": 130, "t": 16},
        showlegend=False,
        # In two lines the names have room on a phone.
        xaxis={
            **{"type": "category", "range": [-0.15, 2.15], "showgrid": False, "tickangle": 0},
            "tickvals": [*_STATIONS],
            "ticktext": [name.replace(" traffic", "<br>traffic") for name in _STATIONS],
        },
        yaxis={**axis, **fig.build_axis("half-widths of the interval"), "side": "right"},
        shapes=[fig.draw_line_across("y", at, dash="dot") for at in (-1, 1)],
    )
    figure["layout"]["margin"]["r"] = 70
    count = sum(row.standing == "conflict" for row in rows)
    takeaway = (
        f"{count} of {len(rows)} offline metrics contradict {explanation.online}. More is better; "
        "between the dotted lines an interval contains zero."
    )
    title = f"From offline to {explanation.online} online, {explanation.variant}"
    return FigureView(title, takeaway, figure, ("slope", explanation.variant))


def _draw_gap(gap: records.Gap, colour_index: int) -> FigureView:
    """Draw what was promised, what each cause changed, and what came, as a waterfall."""
    steps = gap.steps
    bars = [(name, tables.rescale(100, *points)) for name, points, _ in steps]
    values = [value or 0.0 for _, (value, _, _) in bars]
    bases = [0.0, *(sum(values[:i]) for i in range(1, len(bars) - 1)), 0.0]
    ends = zip(bases, bars, strict=True)
    reached = [base + end for base, (_, points) in ends for end in points if end is not None]
    tone = fig.choose_colour(colour_index)
    texts = [fmt.format_interval(points, "+.1%") for _, points, _ in steps]
    labels = [
        f"{fig.escape_label(name)}<br>{fmt.typeset_numbers(text.partition(' ')[0])}"
        for (name, _), text in zip(bars, texts, strict=True)
    ]
    trace = fig.draw_trace(
        [f"{name}: {text}" for (name, _), text in zip(bars, texts, strict=True)],
        x=values,
        y=labels,
        orientation="h",
        base=bases,
        error_x=fig.draw_error_bars([ends for _, ends in bars], fig.GREY, 1.4),
        width=[0.55] * len(bars),
        marker={"color": [tone, *[fig.GREY] * (len(bars) - 2), tone]},
    )
    # From the top down: beside their bars the names have room on a phone.
    causes = {"type": "category", "autorange": "reversed", "automargin": True, "showgrid": False}
    axis = fig.build_effect_axis(reached, "%")
    height, margin = 108 + 48 * len(bars), {"l": 12, "t": 16}
    bar_trace = trace | {"type": "bar"}
    figure = fig.lay_out_figure(
        [bar_trace], height, margin, showlegend=False, xaxis=axis, yaxis=causes
    )
    title = f"From the promised to the measured lift of {gap.metric}, {gap.variant}"
    return FigureView(title, "What each cause gave or took.", figure, ("bill", gap.variant))


def write_standings(study: Study) -> tuple[str, ...]:
    """Write one line per variant: do its offline and online results agree?"""
    # A draft, or a test that failed its checks, concludes nothing.
    if study.agreement is None or study.questions or not study.trusted:
        return ()
    agreement = study.agreement
    return tuple(
        f"{f'{explanation.variant}: ' * (len(agreement.explanations) > 1)}"
        f"{explanation.offline} offline and {explanation.online} online "
        f"{_STANDING_WORDS[explanation.standing]}{_name_first_cause(agreement, explanation)}."
        f"{_describe_promise(explanation)}"
        for explanation in agreement.explanations
    )


def _describe_promise(explanation: records.Explanation) -> str:
    """Write the promised lift, the measured lift and the largest cause."""
    if (gap := explanation.sized_gap) is None:
        return ""
    first = "".join(
        f", {codes.describe_code(cause.name)} {100 * cause.points:+.1f} points"
        for cause in gap.causes[:1]
    )
    return f" Promised{gap.basis} {gap.promised:+.1%}, came {gap.came:+.1%}{first}."


def _name_first_cause(agreement: records.Agreement, explanation: records.Explanation) -> str:
    """Name the first cause of a conflict, with its share of the gap."""
    if explanation.standing != "conflict":
        return ""
    for cause in agreement.confirmed_causes:
        if cause.variant == explanation.variant:
            # Where the gap is sized in points, a second share of another gap would confuse.
            has_share = cause.accounts_for is not None and not explanation.has_causes
            share = f", {_write_gap_share(cause)} of the gap" * has_share
            return f"; the first cause is {codes.describe_code(cause.name)}{share}"
    return "; no cause explains it"


@page_part(
    "causes",
    view="explore",
    title="Offline against online",
    short="Agreement",
    gated=True,
    lead=(
        "Whether offline and online agree, and why not. Causes found come first, ordered by how "
        "much of the gap they explain (Holm-adjusted p)."
    ),
)
def _build_causes_part(study: Study) -> Iterator[Block]:
    """Show offline beside online, the bill of their gap, and every cause.

    Closed blocks hold the rest.
    """
    result = study.agreement
    if result is None:
        return
    sentences = [conclusion.sentence for conclusion in conclude_variants(result)]
    for i, explanation in enumerate(result.explanations, 1):
        bill = [_draw_gap(gap, i)] if (gap := explanation.sized_gap) else []
        yield Beside((_draw_slopes(result, explanation, i), *bill))
    formatters = {"share_of_gap": _write_gap_share, "number": _format_value}
    yield assets.render_block("causes.html", sentences=sentences, result=result, **formatters)
    # The bill is a table too, where it is not first on the page.
    bills = tuple(tabulate_gaps(result)) if study.analysis is not None else ()
    for name, blocks in (
        ("The bill as a table", bills),
        (f"All {len(result.rows)} pairs of metrics", tables.drop_empty(_tabulate_pairs(result))),
        ("Models by traffic", _tabulate_traffics(result)),
        ("Clicks by position", tuple(_draw_position_rates(result))),
    ):
        if blocks:
            yield Closed(name, (*blocks,))


def _draw_position_rates(agreement: records.Agreement) -> Iterator[Block]:
    """Compare click rates of the variants by position."""
    rates = tuple(dict.fromkeys(agreement.positions))
    if not rates:
        return
    series = {
        variant: [_rate_point(rate, sum(other.impressions for other in same)) for rate in same]
        for variant, same in group_rows(rates, lambda rate: rate.variant).items()
    }
    up = {"ticksuffix": "%", "rangemode": "tozero"}
    figure = fig.draw_lines(series, "position", "CTR", {"tickformat": "d"}, up)
    first = min(rate.position for rate in rates)
    on_top = [f"{r.variant} {_format_rate(r)[0]}" for r in rates if r.position == first]
    text = (
        f"At position {first}: {fmt.join_items(on_top)}. Where the variants differ at each "
        "position, the items are better; where one shows more on top, the place helps it."
    )
    yield FigureView("CTR by position", text, figure, ("position", "ctr"))


def _rate_point(rate: records.PositionRate, impressions: int) -> fig.Point:
    text = (
        f"position {fmt.format_count(rate.position)}, "
        f"impressions {fmt.format_count(rate.impressions)}, "
        f"share {tables.format_share(rate.impressions, impressions)}, "
        f"clicks {fmt.format_count(rate.clicks)}, CTR {' '.join(_format_rate(rate))}"
    )
    ends = tables.rescale(100, rate.ctr, rate.low, rate.high)
    return fig.Point(rate.position, 100 * rate.ctr, text, ends)


def _format_rate(rate: records.PositionRate) -> tuple[str, str]:
    value, interval = fmt.format_estimate(*tables.rescale(100, rate.ctr, rate.low, rate.high))
    return f"{value}%", interval
