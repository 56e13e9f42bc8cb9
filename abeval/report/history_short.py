"""Tabulate a history of experiments: what predicts what, what moves, what was gained."""

import math
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from abeval.report.tables import TextTable, VerdictLine, interval, table, text_lines, with_rows
from abeval.results import format as fmt

if TYPE_CHECKING:
    from abeval.results.history import Added, Gained, HistoryReport, Prediction, Sensitivity

_LISTED = 3
"""Metrics that a sentence names."""


def added_parts(result: "Added") -> tuple[str, ...]:
    """Write one line a result, and how large the history is."""
    return (
        *(_added(result, i) for i in range(len(result.sources))),
        f"{result.history} has {result.experiments} experiment{'s' * (result.experiments != 1)}",
    )


def _added(result: "Added", i: int) -> str:
    one = result.sources[i]
    what = f"{result.experiment}: {one.source}"
    bare = f", {one.without_effect} of them without an effect" if one.without_effect else ""
    if one.change == "unchanged":
        return f"{what} unchanged: its {one.rows} rows are in the history"
    if one.change == "replaced":
        return f"{what} REPLACED: {one.rows} rows{bare} in the place of {one.replaced}"
    return f"{what} added: {one.rows} rows{bare}"


def history_tables(result: "HistoryReport") -> tuple[TextTable | str, ...]:
    """Write the verdict, what was learned and cannot be said; then every table that has rows."""
    tables = with_rows(prediction_table(result), sensitivity_table(result))
    return (*text_lines(verdict(result)), *sentences(result), *tables)


def verdict(result: "HistoryReport") -> VerdictLine:
    """Say which offline metric to trust for each target, or why that cannot be said."""
    # The level of a choice is corrected for the number of predictors: its sentence follows it.
    trusted = [c for c in result.choices if c.sentence.startswith(f"{c.best} predicts ")]
    if trusted:
        pairs = [f"{one.best} FOR {one.target}" for one in trusted]
        what = " and ".join(f"candidates for {one.target} by {one.best}" for one in trusted)
        return VerdictLine(
            "",
            "ship",
            f"TRUST {fmt.listing(pairs)}",
            "; ".join(one.sentence for one in trusted) + ".",
            action=f"Before a test, choose {what}; decide by the test itself.",
        )
    if not result.predictions:
        return VerdictLine(
            "",
            "",
            "NO OFFLINE METRIC TO JUDGE",
            "The history has none beside its experiments.",
            action="Add the JSON of abeval replay with that of analyze (abeval history add).",
        )
    if result.choices and all(choice.best is None for choice in result.choices):
        said = "; ".join(choice.sentence for choice in result.choices)
        step = "Decide by tests online, and compare other offline metrics (abeval replay)."
        return VerdictLine("", "draft", "TRUST NO OFFLINE METRIC", f"{said}.", action=step)
    lacking = min(filter(None, map(_needs, result.predictions)), default=1)
    more = f"{fmt.count(lacking)} more experiment{'s' * (lacking > 1)}"
    return VerdictLine(
        "",
        "",
        "TOO FEW EXPERIMENTS TO SAY",
        "None of the offline metrics can be told to predict a metric online yet.",
        action=f"Add at least {more} with both (abeval history add); until then decide by tests.",
    )


def sentences(result: "HistoryReport") -> tuple[str, ...]:
    """Say what was learned, the number of experiments first; then, once, what cannot be said."""
    open_pairs = {(one.predictor, one.target) for one in result.predictions if _needs(one)}
    concluded = verdict(result).sentence
    learned = (
        choice.sentence
        for choice in result.choices
        if (choice.best, choice.target) not in open_pairs and choice.sentence not in concluded
    )
    # Most commands print tables, and have no history.
    from abeval.results.history import FEWEST

    gained = [one for one in result.gained if one.gained is not None]
    least = min((one.shipped for one in gained), default=FEWEST)
    return (
        f"{len(result.experiments)} experiments",
        *_signs(result),
        *learned,
        *(
            f"{o.metric}, sum of the {o.shipped} lifts shipped (of {o.effects}): {gained_words(o)}"
            for o in gained
        ),
        *[f"Only {least} shipped: take these sums as rough guesses"] * (least < FEWEST),
        *_unsaid(result),
    )


def _signs(result: "HistoryReport") -> Iterator[str]:
    """Say for each target how often the signs of its offline metrics agreed, best first."""
    for target in dict.fromkeys(one.target for one in result.predictions):
        own = [one for one in result.predictions if one.target == target]
        own.sort(key=lambda one: -one.agree_share)
        listed = (f"{o.predictor} in {o.agree} of {o.effects} ({_agreement(o)})" for o in own)
        more = f"; {len(own) - _LISTED} more below" if len(own) > _LISTED else ""
        yield f"Signs agreed with {target}: {'; '.join(islice(listed, _LISTED))}{more}"


def gained_words(row: "Gained") -> str:
    """Write what to expect of lifts added up, by a subtraction that closes as it is printed."""
    value, low, high = (round(100 * (end or 0.0), 1) for end in (row.gained, row.low, row.high))
    apart = round(value - round(100 * row.naive, 1), 1)
    way = f"{abs(apart):.1f} points {'higher' if apart > 0 else 'lower'}" if apart else "the same"
    return (
        f"measured {100 * row.naive:+.1f}%, expect {value:+.1f}% [{low:+.1f}%, {high:+.1f}%], {way}"
    )


def _needs(row: "Prediction") -> int:
    """Count the experiments that a correlation lacks to be told from none; 0 if it lacks none."""
    # Most commands print tables, and have no history.
    from abeval.results.history import FEWEST

    if row.correlation is None or row.low is None or row.high is None:
        return max(FEWEST - row.experiments, 0)
    if not row.low <= 0 <= row.high:
        return 0
    # The distance to an end of an interval shrinks with the root of the experiments.
    value, end = row.correlation, row.low if row.correlation > 0 else row.high
    reach = abs(end - value) / max(abs(value), 0.01)
    return max(math.ceil(row.experiments * reach**2) - row.experiments, 1)


def _unsaid(result: "HistoryReport") -> Iterator[str]:
    """Say once what the history cannot tell, and how many more experiments that takes."""
    few = [one for one in result.predictions if one.correlation is None]
    clear = [one for one in result.predictions if one.correlation is not None and _needs(one)]
    clear.sort(key=_needs)
    said = []
    if few:
        pairs = f"{len(few)} pair{'s' * (len(few) > 1)} of metrics"
        most = max(_needs(one) for one in few)
        with_both = f"{most} more experiment{'s' * (most > 1)} with both"
        said.append(f"how {pairs} go together ({with_both})")
    if clear:
        listed = (f"{one.predictor} with {one.target} {_needs(one):,}" for one in clear[:_LISTED])
        more = f", {len(clear) - _LISTED} others more" if len(clear) > _LISTED else ""
        what = "whether a correlation is none (more experiments that it takes, if it stays: "
        said.append(f"{what}{', '.join(listed)}{more})")
    lacking = [r.metric for r in result.gained if r.gained is None]
    if lacking:
        said.append(f"what was gained on {fmt.listing(lacking)} (too few have it)")
    if said:
        yield f"Cannot be said yet: {'; '.join(said)}"


def prediction_table(result: "HistoryReport") -> TextTable:
    """Tabulate which offline metric predicts what."""
    level = fmt.level(result.alpha)
    return table(
        "Offline against online",
        f"correlation of true effects, corrected for noise in both, {level} interval.",
        result.predictions,
        *("predictor", "target"),
        ("experiments", lambda row: str(row.experiments), "spare"),
        ("correlation", _correlation, "number"),
        ("not corrected", lambda r: "" if r.naive is None else f"{r.naive:.2f}", "extra"),
        ("slope", _slope, "extra"),
        ("signs agree", _agreement, "extra"),
        ("P(better)", _chance, "number"),
        ("explains", lambda r: "" if r.explained is None else f"{r.explained:.0%}", "spare"),
    )


def _correlation(row: "Prediction") -> str:
    return " ".join(fmt.estimate(row.correlation, row.low, row.high)).strip()


def _agreement(row: "Prediction") -> str:
    return f"{fmt.percent(row.agree_share)} [{row.agree_low:.0%}, {row.agree_high:.0%}]"


def _chance(row: "Prediction") -> str:
    return "" if row.chance is None else f"{row.chance:.0%} after {row.step:+.2g}"


def _slope(row: "Prediction") -> str:
    slope, *ends = interval(row, "slope")
    low, high = (fmt.UNBOUNDED if end is None else f"{end:.3g}" for end in ends)
    return fmt.MISSING if slope is None else f"{slope:.3g} [{low}, {high}]"


def sensitivity_table(result: "HistoryReport") -> TextTable:
    """Tabulate which metrics move."""
    return table(
        "Sensitivity",
        f"how often each metric has p below {result.alpha:g}, and how far true lifts spread.",
        result.sensitivity,
        ("metric", lambda row: row.measure),
        ("moved", lambda row: f"{row.moved} of {row.effects}", "number"),
        ("share", lambda row: fmt.percent(row.share), "number"),
        ("interval", lambda row: f"[{row.low:.0%}, {row.high:.0%}]", "extra"),
        ("true spread", _spread, "number"),
        ("typical se", lambda row: f"{100 * row.se:.2g}%", "spare"),
        ("signal", lambda row: "" if row.signal is None else f"{row.signal:.0%}", "number"),
    )


def _spread(row: "Sensitivity") -> str:
    return fmt.MISSING if row.spread is None else f"{100 * row.spread:.2g}%"
