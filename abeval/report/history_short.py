"""Tabulate a history of experiments: what predicts what, what moves, what was gained."""

from typing import TYPE_CHECKING

from abeval.report.tables import WHY_NOT, TextTable, interval, table, text_of
from abeval.results import codes
from abeval.results import format as fmt

if TYPE_CHECKING:
    from abeval.results.history import (
        Added,
        Gained,
        HistoryPrior,
        HistoryReport,
        Prediction,
        Sensitivity,
    )

SIDES = {"offline": "Offline against online", "early": "First against last days"}


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


def prior_parts(result: "HistoryPrior") -> tuple[str, ...]:
    """Write the entry of an experiment file, and how sure it is."""
    shown = (text_of(fmt.lift(*interval(result, name))) for name in ("mean", "sd"))
    mean, sd = (one.replace("+", "") for one in shown)
    lifts = f"{result.metric}: {result.effects} lifts of {result.experiments} experiments"
    return f"prior = {result.toml}", f"{lifts}; mean {mean}, sd {sd}"


def history_tables(result: "HistoryReport") -> tuple[TextTable | str, ...]:
    """List choices in words, then every table that has rows."""
    predictions = (prediction_table(result, side) for side in SIDES)
    filled = (one for one in predictions if one.rows)
    sentences = (choice.sentence for choice in result.choices)
    return (*sentences, *filled, sensitivity_table(result), gained_table(result))


def prediction_table(result: "HistoryReport", side: str) -> TextTable:
    """Tabulate what predicts what: offline metrics, or first days."""
    level = fmt.level(result.alpha)
    return table(
        SIDES[side],
        f"correlation of true effects, corrected for noise in both, {level} interval.",
        [row for row in result.predictions if row.side == side],
        *("predictor", "target"),
        ("experiments", lambda row: str(row.experiments), "spare"),
        ("correlation", _correlation, "number"),
        ("not corrected", lambda r: "" if r.naive is None else f"{r.naive:.2f}", "extra"),
        ("slope", _slope, "extra"),
        ("signs agree", _agreement, "extra"),
        ("P(better)", _chance, "number"),
        ("explains", lambda r: "" if r.explained is None else f"{r.explained:.0%}", "spare"),
        WHY_NOT,
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
    return codes.reason(row.reason) if row.spread is None else f"{100 * row.spread:.2g}%"


def gained_table(result: "HistoryReport") -> TextTable:
    """Tabulate what was gained."""
    return table(
        "Gained",
        "lifts of what was shipped, summed: as measured, and shrunk by the spread of all.",
        result.gained,
        "metric",
        ("shipped", lambda row: f"{row.shipped} of {row.effects}", "number"),
        ("sum as measured", lambda row: f"{100 * row.naive:+.2f}%", "number"),
        ("really gained", lambda r: text_of(fmt.lift(r.gained, r.low, r.high)), "number"),
        ("prior", _prior, "extra"),
        WHY_NOT,
    )


def _prior(row: "Gained") -> str:
    if row.prior_mean is None or row.prior_sd is None:
        return ""
    return f"{100 * row.prior_mean:+.2g}% ± {100 * row.prior_sd:.2g}%"
