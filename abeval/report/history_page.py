"""Tabulate and draw a history: predictors, sensitivity, shipped gains."""

import math
from collections.abc import Iterator, Sequence
from itertools import islice

from abeval.report import figures as fig
from abeval.report import tables
from abeval.report.figures import FigureView
from abeval.report.tables import Tables, TextTable, VerdictLine, read_interval, rescale, table
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results import history as records
from abeval.results.record import group_rows

_LISTED = 3
"""Most metrics that one sentence names."""


def tabulate_additions(result: records.Added, show_all: bool) -> Tables:
    """Write one line per added result, and the size of the history."""
    lines = []
    for addition in result.sources:
        bare = f", {addition.without_effect} of them without an effect"
        bare *= addition.without_effect > 0
        how = {
            "unchanged": f"unchanged: its {addition.rows} rows are in the history",
            "replaced": f"REPLACED: {addition.rows} rows{bare} in the place of {addition.replaced}",
            "added": f"added: {addition.rows} rows{bare}",
        }[addition.change]
        lines.append(f"{result.experiment}: {addition.source} {how}")
    several = "s" * (result.experiments != 1)
    return Tables((*lines, f"{result.history} has {result.experiments} experiment{several}"))


def tabulate_history(result: records.HistoryReport, show_all: bool) -> Tables:
    """Write the verdict and what was learned, then every table with rows."""
    visible_tables = tables.drop_empty(
        tabulate_predictions(result),
        tabulate_sensitivity(result),
        tabulate_lasting_effects(result),
        tabulate_launches(result),
    )
    left_out = (f"left out, {why}: {n:,} rows" for why, n in result.left_out)
    lines = (*tables.write_verdict_lines(judge_offline_metrics(result)), *describe_history(result))
    return Tables((*lines, *visible_tables), (*left_out, *result.notes))


def judge_offline_metrics(result: records.HistoryReport) -> VerdictLine:
    """Decide which offline metric to trust for each target, or why none."""
    # The level of a choice is corrected for the number of predictors: its sentence follows it.
    trusted = [c for c in result.choices if c.sentence.startswith(f"{c.best} predicts ")]
    decision = ""
    action = "Add the JSON of abeval replay with that of analyze (abeval history add)."
    if trusted:
        pairs = fmt.join_items([f"{choice.best} FOR {choice.target}" for choice in trusted])
        decision, word = "ship", f"TRUST {pairs}"
        sentence = "; ".join(choice.sentence for choice in trusted)
        by = " and ".join(f"candidates for {c.target} by {c.best}" for c in trusted)
        action = f"Before a test, choose {by}; decide by the test itself."
    elif not result.predictions:
        word, sentence = "NO OFFLINE METRIC TO JUDGE", "The history has none beside its experiments"
        if gains := _list_gains(result):
            most = max(gains, key=lambda gain: gain.shipped)
            word = f"{most.shipped} OF {most.effects} SHIPPED"
            sums = [f"{gain.metric} {_format_gain(gain)[1]}" for gain in gains[:_LISTED]]
            sentence = f"Expected sum of their true lifts: {fmt.join_items(sums)}"
            later = f"To judge offline metrics too, {action[:1].lower()}{action[1:]}"
            action = f"Plan with these lifts, not with those measured. {later}"
    elif result.choices and all(choice.best is None for choice in result.choices):
        decision, word = "draft", "TRUST NO OFFLINE METRIC"
        sentence = "; ".join(choice.sentence for choice in result.choices)
        action = "Decide by tests online, and compare other offline metrics (abeval replay)."
    else:
        word = "TOO FEW EXPERIMENTS TO SAY"
        sentence = "No offline metric can be told to predict a metric online yet"
        lacking = min(filter(None, map(_count_missing_experiments, result.predictions)), default=1)
        more = f"{fmt.format_count(lacking)} more experiment{'s' * (lacking > 1)}"
        action = f"Add at least {more} with both (abeval history add); until then decide by tests."
    return VerdictLine("", decision, word, f"{sentence}.", action=action)


def describe_history(result: records.HistoryReport) -> tuple[str, ...]:
    """Write what the history shows, and what it cannot show yet."""
    open_pairs = {
        (row.predictor, row.target) for row in result.predictions if _count_missing_experiments(row)
    }
    concluded = judge_offline_metrics(result).sentence
    learned = (
        choice.sentence
        for choice in result.choices
        if (choice.best, choice.target) not in open_pairs and choice.sentence not in concluded
    )
    gained = _list_gains(result)
    least = min((row.shipped for row in gained), default=records.FEWEST)
    return (
        f"{len(result.experiments)} experiments",
        *_describe_sign_agreement(result),
        *learned,
        *(
            f"{o.metric}, sum of the {o.shipped} lifts shipped (of {o.effects}): {describe_gain(o)}"
            for o in gained
        ),
        *describe_quarter(result),
        *[f"Only {least} shipped: take these sums as rough guesses"] * (least < records.FEWEST),
        *_list_open_questions(result),
    )


def _describe_sign_agreement(result: records.HistoryReport) -> Iterator[str]:
    """Write for each target how often offline signs agreed, best first."""
    for target, predictions in group_rows(result.predictions, lambda row: row.target).items():
        best = sorted(predictions, key=lambda row: -row.agree_share)
        phrases = (
            f"{o.predictor} in {o.agree} of {o.effects} ({_format_agreement(o)})" for o in best
        )
        more = f"; {len(predictions) - _LISTED} more below" if len(predictions) > _LISTED else ""
        yield f"Signs agreed with {target}: {'; '.join(islice(phrases, _LISTED))}{more}"


def _list_gains(result: records.HistoryReport) -> list[records.Gained]:
    """List the gains of metrics for which something was shipped."""
    return [gain for gain in result.gained if gain.gained is not None and gain.shipped]


def describe_gain(row: records.Gained) -> str:
    """Write the expected sum of lifts; the printed terms add up exactly."""
    value, expected = _format_gain(row)
    # From the rounded terms, so that a reader who subtracts them gets the same.
    apart = round(value - round(100 * row.naive, 1), 1)
    way = f"{abs(apart):.1f} points {'higher' if apart > 0 else 'lower'}" if apart else "the same"
    return f"measured {100 * row.naive:+.1f}%, expect {expected}, {way}"


def _format_gain(row: records.Gained) -> tuple[float, str]:
    """Return the expected sum of lifts in per cent, and its text."""
    value, low, high = (round(100 * (end or 0.0), 1) for end in (row.gained, row.low, row.high))
    return value, f"{value:+.1f}% [{low:+.1f}%, {high:+.1f}%]"


def _count_missing_experiments(row: records.Prediction) -> int:
    """Count the experiments that a correlation still needs; 0 if it is clear."""
    if row.correlation is None or row.low is None or row.high is None:
        return max(records.FEWEST - row.experiments, 1)
    if not row.low <= 0 <= row.high:
        return 0
    # The distance to an end of an interval shrinks with the root of the experiments.
    value, end = row.correlation, row.low if row.correlation > 0 else row.high
    reach = abs(end - value) / max(abs(value), 0.01)
    return max(math.ceil(row.experiments * reach**2) - row.experiments, 1)


def _list_open_questions(result: records.HistoryReport) -> Iterator[str]:
    """Write once what the history cannot show, and how many experiments that needs."""
    few = [row for row in result.predictions if row.correlation is None]
    clear = [
        row
        for row in result.predictions
        if row.correlation is not None and _count_missing_experiments(row)
    ]
    clear.sort(key=_count_missing_experiments)
    gaps = []
    if few:
        pairs = f"{len(few)} pair{'s' * (len(few) > 1)} of metrics"
        most = max(map(_count_missing_experiments, few))
        with_both = f"{most} more experiment{'s' * (most > 1)} with both"
        gaps.append(f"how {pairs} go together ({with_both})")
    if clear:
        phrases = (
            f"{o.predictor} with {o.target} {_count_missing_experiments(o):,}"
            for o in clear[:_LISTED]
        )
        more = f", {len(clear) - _LISTED} others more" if len(clear) > _LISTED else ""
        what = "whether a correlation is none (more experiments that it takes, if it stays: "
        gaps.append(f"{what}{', '.join(phrases)}{more})")
    lacking = [r.metric for r in result.gained if r.gained is None]
    if lacking:
        gaps.append(f"what was gained on {fmt.join_items(lacking)} (too few have it)")
    if gaps:
        yield f"Cannot be said yet: {'; '.join(gaps)}"


def tabulate_predictions(result: records.HistoryReport) -> TextTable:
    """Tabulate which offline metric predicts which target."""
    level = fmt.format_level(result.alpha)
    return table(
        "Offline against online",
        f"correlation of true effects, corrected for noise in both, {level} interval.",
        result.predictions,
        *("predictor", "target"),
        ("experiments", lambda row: str(row.experiments), "spare"),
        (
            "correlation",
            lambda r: " ".join(fmt.format_estimate(r.correlation, r.low, r.high)),
            "number",
        ),
        ("not corrected", lambda r: fmt.format_number(r.naive, ".2f"), "extra"),
        ("slope", _format_slope, "extra"),
        ("signs agree", _format_agreement, "extra"),
        ("P(better)", _format_chance, "number"),
        ("explains", lambda r: fmt.format_number(r.explained, ".0%"), "spare"),
    )


def _format_agreement(row: records.Prediction) -> str:
    return f"{fmt.format_percent(row.agree_share)} [{row.agree_low:.0%}, {row.agree_high:.0%}]"


def _format_chance(row: records.Prediction) -> str:
    return "" if row.chance is None else f"{row.chance:.0%} after {row.step:+.2g}"


def _format_slope(row: records.Prediction) -> str:
    slope, *ends = read_interval(row, "slope")
    low, high = (fmt.UNBOUNDED if end is None else f"{end:.3g}" for end in ends)
    return fmt.MISSING if slope is None else f"{slope:.3g} [{low}, {high}]"


def tabulate_sensitivity(result: records.HistoryReport) -> TextTable:
    """Tabulate how often each metric moves."""
    return table(
        "Sensitivity",
        f"how often each metric has p below {result.alpha:g}, and how far true lifts spread.",
        result.sensitivity,
        ("metric", lambda row: row.measure),
        ("moved", lambda row: f"{row.moved} of {row.effects}", "number"),
        ("share", lambda row: fmt.format_percent(row.share), "number"),
        ("interval", lambda row: f"[{row.low:.0%}, {row.high:.0%}]", "extra"),
        ("true spread", lambda r: _format_percent(r.spread) or fmt.MISSING, "number"),
        ("typical se", lambda row: _format_percent(row.se), "spare"),
        ("signal", lambda row: fmt.format_number(row.signal, ".0%"), "number"),
    )


def _format_percent(number: float | None) -> str:
    return "" if number is None else f"{100 * number:.2g}%"


def _draw_scatter(
    row: records.Prediction, pairs: Sequence[tuple[records.HistoryEffect, records.HistoryEffect]]
) -> fig.Figure:
    """Draw experiments by effect on predictor and target; more is better."""
    x = [_orient_effect(effect, 1.0) for effect, _ in pairs]
    y = [_orient_effect(effect, 100.0) for _, effect in pairs]
    points = fig.draw_trace(
        x=[value for value, _, _ in x],
        y=[value for value, _, _ in y],
        error_x=fig.draw_error_bars(x, fig.GREY, 1.0),
        error_y=fig.draw_error_bars(y, fig.GREY, 1.0),
        mode="markers",
        marker={"color": fig.choose_colour(0), "size": 8},
        customdata=[
            fig.escape_label(f"{effect.experiment}, {effect.variant}") for effect, _ in pairs
        ],
        hovertemplate="%{customdata}<br>%{x:.4g}, %{y:+.3g}%<extra></extra>",
        showlegend=False,
    )
    across = fig.build_effect_axis((end for ends in x for end in ends), title=row.predictor)
    up = fig.build_effect_axis((end for ends in y for end in ends), "%", row.target)
    lines = []
    if row.slope is not None:
        # The line of true effects goes through the mean of the estimates.
        mean_x, mean_y = (sum(value or 0.0 for value, _, _ in ends) / len(ends) for ends in (x, y))
        heights = [mean_y + 100.0 * row.slope * (end - mean_x) for end in across["range"]]
        lines = [fig.draw_line(across["range"], heights, fig.choose_colour(1), 1.8)]
    room = {"l": 62, "r": 12, "t": 12, "b": 48}
    return fig.lay_out_figure([points], 380, room, xaxis=across, yaxis=up, shapes=lines)


def _draw_forest(effects: Sequence[records.HistoryEffect]) -> fig.Figure:
    """Draw every effect on one metric, measured and shrunk, largest on top."""
    ordered = sorted(effects, key=lambda effect: -effect.effect)
    several = len({effect.variant for effect in ordered}) > 1
    names = ["* " * e.shipped + e.experiment + f", {e.variant}" * several for e in ordered]
    series: dict[str, list[fig.Spot]] = {"measured": [], "shrunk": []}
    for i, effect in enumerate(ordered):
        measured = rescale(100, effect.effect, effect.low, effect.high)
        for name, ends in (
            ("measured", measured),
            ("shrunk", read_interval(effect, "shrunk", 100)),
        ):
            series[name].append(fig.Spot(i, ends, f"{names[i]}: {ends[0] or 0:+.3g}%"))
    return fig.draw_forest(names, series, fig.build_effect_axis(fig.list_ends(series), "%"))


def _orient_effect(effect: records.HistoryEffect, scale: float) -> fmt.Interval:
    """Orient an effect with its interval so that more is better."""
    if effect.direction == "decrease":
        # Changing the sign swaps the ends.
        return tables.rescale(-scale, effect.effect, effect.high, effect.low)
    return tables.rescale(scale, effect.effect, effect.low, effect.high)


def describe_quarter(result: records.HistoryReport) -> Iterator[str]:
    """Write what the launches of a quarter gained, and what explains the holdout."""
    for row in result.programmes:
        head = f"{row.metric} in the period of {row.name}"
        if row.basis == "none":
            yield f"{head}: nothing can be said ({codes.describe_code(row.reason or '')})"
            continue
        names = "gained", "expected", "holdout"
        gained, expected, holdout = (
            fmt.format_lift(*tables.read_interval(row, name)).text for name in names
        )
        launches = f"{row.launches} launch{'es' * (row.launches != 1)}"
        if row.unmeasured:
            launches += f" (of {row.unmeasured} more no effect was measured)"
        if row.basis == "launches":
            why = codes.describe_code(row.reason or "")
            yield f"{head}: {gained}, by {launches} alone; the holdout cannot say it ({why})"
            continue
        p_value = f"p {fmt.format_p_value(row.p_value or 0.0)}"
        if row.basis == "both":
            alone = f"launches alone {expected}, holdout alone {holdout}, {p_value}"
            yield f"{head}: {gained}, by {launches} and the holdout, which agree ({alone})"
        else:
            yield (
                f"{head}: {gained}, by the holdout alone: {launches} let expect {expected}, which "
                f"it refutes ({p_value}); if they overlap, wore off or were luck cannot be known"
            )
        ends = f"[{_format_points(row.unexplained_low)}, {_format_points(row.unexplained_high)}]"
        yield (
            f"Why {row.metric} is {_format_points(row.naive)}% as measured and "
            f"{_format_points(row.holdout)}% in the holdout, in points: "
            f"{_format_points(row.luck)} winners' luck, {_format_points(row.wear_off)} worn off, "
            f"{_format_points(row.not_live)} not live yet, "
            f"{_format_points(row.unexplained)} unexplained {ends}"
        )


def _format_points(value: float | None) -> str:
    return f"{100 * (value or 0.0):+.1f}"


def tabulate_lasting_effects(result: records.HistoryReport) -> TextTable:
    """Tabulate what is left of effects by week since entry."""
    return table(
        "Effects that last",
        "the true effect in a later week since entry, as a share of that in the first.",
        result.lasting,
        "metric",
        ("week", lambda row: str(row.week)),
        ("experiments", lambda row: str(row.experiments), "spare"),
        ("left", _describe_kept, "number"),
        ("explains", lambda row: fmt.format_number(row.explained, ".0%"), "number"),
        ("error", lambda row: _format_percent(row.error), "spare"),
        ("the first week", lambda row: "predicts it" if row.supported else "does not tell it"),
    )


def _describe_kept(row: records.Lasting) -> str:
    if row.kept is None:
        return codes.describe_code(row.reason or "")
    low, high = (fmt.UNBOUNDED if end is None else f"{end:.0%}" for end in (row.low, row.high))
    return f"{row.kept:.0%} [{low}, {high}]"


def tabulate_launches(result: records.HistoryReport) -> TextTable:
    """Tabulate the launches of a quarter."""
    return table(
        "What the quarter gained",
        "each launch as measured, and shrunk by the spread of all; live is its share of the days.",
        result.launches,
        *("experiment", "metric"),
        ("since", lambda row: row.since, "spare"),
        ("live", lambda row: fmt.format_percent(row.share), "spare"),
        ("measured", lambda row: f"{_format_points(row.measured)}%", "number"),
        ("expect", lambda row: fmt.format_lift(row.shrunk, row.low, row.high).text, "number"),
    )


def draw_weeks(result: records.HistoryReport) -> Iterator[FigureView]:
    """Draw each metric's lift over the holdout by week, beside the expected lift.

    The launches give the expected lift.
    """
    for i, (metric, weeks) in enumerate(group_rows(result.weeks, lambda week: week.metric).items()):
        names = {"holdout": "holdout", "without covariates": "plain", "launches": "expected"}
        if all(week.holdout == week.plain for week in weeks):
            del names["without covariates"]
        series = {
            shown: [
                fig.Point(week.end, ends[0], f"{week.end}: {ends[0]:+.2f}%", ends)
                for week in weeks
                if (ends := read_interval(week, name, 100))[0] is not None
            ]
            for shown, name in names.items()
        }
        up = {"ticksuffix": "%"}
        figure = fig.draw_lines(series, "", "lift to that day", yaxis=up, is_effect=True)
        yield FigureView(metric, "From the first day to each week's end.", figure, (f"weeks{i}",))


def draw_scatters(result: records.HistoryReport) -> Iterator[FigureView]:
    """Draw one figure per target: its best predictor."""
    for i, row in enumerate(_choose_best_predictions(result)):
        figure = _draw_scatter(row, _pair_effects(result.effects, row))
        title = f"{row.predictor} and {row.target}"
        corrected, ends = fmt.format_estimate(row.correlation, row.low, row.high)
        naive = fmt.MISSING if row.naive is None else f"{row.naive:.2f}"
        sentence = f"Correlation of true effects {corrected} {ends}; of the estimates {naive}."
        yield FigureView(title, sentence, figure, (f"pair{i}",))


def _choose_best_predictions(result: records.HistoryReport) -> list[records.Prediction]:
    fitted = [row for row in result.predictions if row.correlation is not None]
    best = {choice.target: choice.best for choice in result.choices}
    chosen = {row.target: row for row in fitted}

    def rank(row: records.Prediction) -> tuple[bool, float]:
        return row.predictor == best.get(row.target), abs(row.quality or 0.0)

    # The last one of a target wins: the chosen predictor, else the best quality.
    return list((chosen | {r.target: r for r in sorted(fitted, key=rank)}).values())


def _pair_effects(
    effects: Sequence[records.HistoryEffect], row: records.Prediction
) -> list[tuple[records.HistoryEffect, records.HistoryEffect]]:
    on_target, on_predictor = (
        {(e.experiment, e.variant): e for e in effects if e.measure == name}
        for name in (row.target, row.predictor)
    )
    return [(on_predictor[case], on_target[case]) for case in on_predictor if case in on_target]


def draw_forests(result: records.HistoryReport) -> Iterator[FigureView]:
    """Draw all effects on each metric, with the sum of what was shipped."""
    for i, row in enumerate(result.gained):
        online = [e for e in result.effects if (e.measure, e.side) == (row.metric, "online")]
        if shrunk := [effect for effect in online if effect.shrunk is not None]:
            sentence = f"{row.shipped} shipped (*), added up: {describe_gain(row)}."
            yield FigureView(row.metric, sentence, _draw_forest(shrunk), (f"forest{i}",))
