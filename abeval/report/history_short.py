"""A history of experiments as short tables: what predicts what, what moves, what was gained.

`short.py` asks for them; `history_page.py` shares the words.
"""

from typing import TYPE_CHECKING

from abeval.report.layout import Kind
from abeval.report.tables import TextTable
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

PREDICTIONS = (
    *("predictor", "target", "experiments", "correlation", "not corrected", "slope"),
    *("signs agree", "P(better)", "explains", "why not"),
)
SENSITIVITY = ("metric", "moved", "share", "interval", "true spread", "typical se", "signal")
GAINED = ("metric", "shipped", "sum as measured", "really gained", "prior", "why not")


def added_parts(result: "Added") -> tuple[str, ...]:
    """One line a result, and how large the history is."""
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
    """The entry of an experiment file, and how sure it is."""
    lines = [f"prior = {result.toml}"]
    shown = (
        fmt.lift(result.mean, result.mean_low, result.mean_high),
        fmt.lift(result.sd, result.sd_low, result.sd_high),
    )
    mean, sd = (one.text.replace("+", "") if one else fmt.MISSING for one in shown)
    lines.append(
        f"{result.metric}: {result.effects} lifts of {result.experiments} experiments; "
        f"mean {mean}, sd {sd}"
    )
    return tuple(lines)


def history_tables(result: "HistoryReport") -> tuple[TextTable | str, ...]:
    """Choices in words, then every table that has rows."""
    level = fmt.level(result.alpha)
    parts: list[TextTable | str] = [choice.sentence for choice in result.choices]
    for side, title in (
        ("offline", "Offline against online"),
        ("early", "First against last days"),
    ):
        rows = [prediction_cells(p) for p in result.predictions if p.side == side]
        if rows:
            lead = f"correlation of true effects, corrected for noise in both, {level} interval."
            parts.append(TextTable(title, lead, PREDICTIONS, tuple(rows), _KINDS))
    moves = tuple(sensitivity_cells(one) for one in result.sensitivity)
    lead = f"how often each metric has p below {result.alpha:g}, and how far true lifts spread."
    parts.append(TextTable("Sensitivity", lead, SENSITIVITY, moves, _MOVES))
    sums = tuple(gained_cells(one) for one in result.gained)
    lead = "lifts of what was shipped, summed: as measured, and shrunk by the spread of all."
    parts.append(TextTable("Gained", lead, GAINED, sums, _SUMS))
    return tuple(parts)


_KINDS: tuple[Kind, ...] = (
    *("name", "name", "spare", "number", "extra", "extra", "extra", "number", "spare", "note"),
)
_MOVES: tuple[Kind, ...] = ("name", "number", "number", "extra", "number", "spare", "number")
_SUMS: tuple[Kind, ...] = ("name", "number", "number", "number", "extra", "note")


def prediction_cells(row: "Prediction") -> tuple[str, ...]:
    """The cells of `PREDICTIONS`."""
    corrected = " ".join(fmt.estimate(row.correlation, row.low, row.high))
    ends = fmt.MISSING if row.slope is None else f"{row.slope:.3g} {_ends(row)}"
    agree = f"{fmt.percent(row.agree_share)} [{row.agree_low:.0%}, {row.agree_high:.0%}]"
    chance = "" if row.chance is None else f"{row.chance:.0%} after {row.step:+.2g}"
    return (
        *(row.predictor, row.target, str(row.experiments)),
        *(corrected.strip(), "" if row.naive is None else f"{row.naive:.2f}"),
        *(ends, agree, chance, "" if row.explained is None else f"{row.explained:.0%}"),
        codes.reason(row.reason),
    )


def _ends(row: "Prediction") -> str:
    low, high = (
        fmt.UNBOUNDED if end is None else f"{end:.3g}" for end in (row.slope_low, row.slope_high)
    )
    return f"[{low}, {high}]"


def sensitivity_cells(row: "Sensitivity") -> tuple[str, ...]:
    """The cells of `SENSITIVITY`."""
    return (
        *(row.measure, f"{row.moved} of {row.effects}", fmt.percent(row.share)),
        f"[{row.low:.0%}, {row.high:.0%}]",
        codes.reason(row.reason) if row.spread is None else f"{100 * row.spread:.2g}%",
        f"{100 * row.se:.2g}%",
        "" if row.signal is None else f"{row.signal:.0%}",
    )


def gained_cells(row: "Gained") -> tuple[str, ...]:
    """The cells of `GAINED`."""
    shown = fmt.lift(row.gained, row.low, row.high)
    prior = (
        ""
        if row.prior_mean is None or row.prior_sd is None
        else (f"{100 * row.prior_mean:+.2g}% ± {100 * row.prior_sd:.2g}%")
    )
    return (
        *(row.metric, f"{row.shipped} of {row.effects}", f"{100 * row.naive:+.2f}%"),
        *(fmt.MISSING if shown is None else shown.text, prior, codes.reason(row.reason)),
    )
