"""Checks of the rows that were left out: for each reason, the share of a log."""

from abeval.aggregates.aggregates import Aggregates
from abeval.inference.compare import Analysis
from abeval.inference.trust.finding import (
    CLICK_COLUMNS,
    Limits,
    Words,
    graded,
    skipped,
    touched,
)
from abeval.results import Check

_WHAT = {
    "null_unit": "without a unit",
    "null_time": "without a time",
    "null_variant": "without a variant",
    "no_impression": "without their impression",
    "late": "later than the attribution window",
    "ambiguous_impression": "that fit several impressions",
}

_REMEDIES = {
    "duplicate": "look for events sent or loaded twice; cleaning.duplicate_key says what is equal",
    "null_unit": "look for people who are not signed in, and at the join that adds the id",
    "null_time": "look at the format of the times (`ts_format`) and at clients that send none",
    "null_variant": "look for events logged before the assignment, or by services that lack it",
    "repeated_unit": "make one row of each unit, or analyse the rows as a log of impressions",
    "no_impression": "look for impressions lost on their way, and at the key of the join",
    "late": "look at the clocks and at the attribution window ([logs.clicks])",
    "ambiguous_impression": "give clicks the id of their impression",
}


def row_checks(analysis: Analysis) -> list[Check]:
    """The shares of rows that were left out."""
    log = analysis.experiment.logs.rows_name
    rows = [_duplicates(analysis, log), _share(analysis, log, "null_unit")]
    if analysis.experiment.of_units:
        return [
            *rows,
            _share(analysis, log, "null_variant"),
            _share(analysis, log, "repeated_unit", "rows of units in several rows"),
        ]
    return [
        *rows,
        _share(analysis, log, "null_time"),
        _share(analysis, log, "null_variant"),
        *(
            _share(analysis, "clicks", reason)
            for reason in ("no_impression", "late", "ambiguous_impression")
        ),
    ]


def _duplicates(analysis: Analysis, log: str) -> Check:
    """The share of rows that repeat another, where they were looked for."""
    if "duplicates" in analysis.aggregates.facts:
        return _share(analysis, log, "duplicate", f"duplicate {log}")
    why = "rows have no id, so equal rows may be different people"
    if analysis.experiment.cleaning.duplicates == "unchecked":
        why = 'cleaning.duplicates is "unchecked"'
    return skipped(f"{log}_duplicate", f"duplicates were not looked for: {why}")


def _share(analysis: Analysis, log: str, reason: str, what: str = "") -> Check:
    """The share of a log's rows that was left out for one reason; lost clicks touch few metrics."""
    name, options = f"{log}_{reason}", analysis.experiment.trust
    share, message = share_of(
        analysis.aggregates, log, reason, what or f"{log} {_WHAT.get(reason, reason)}"
    )
    if share is None:
        return skipped(name, message)
    limits = Limits(
        options.rows_warn,
        options.rows_fail,
        "so many rows can hide or make an effect of the size that most experiments look for, if "
        "they are not alike in all variants",
    )
    metrics = touched(analysis.metrics, CLICK_COLUMNS) if log == "clicks" else None
    return graded(name, share, limits, Words(message, message, _REMEDIES[reason]), metrics)


def share_of(aggregates: Aggregates, log: str, reason: str, what: str) -> tuple[float | None, str]:
    """The share of a log's rows left out for a reason, and in words; None without the log."""
    rows = [one for one in aggregates.accounts if one.log == log]
    read = sum(one.rows for one in rows)
    if read == 0:
        return None, f"there is no {log} log"
    count = sum(one.rows for one in rows if one.reason == reason)
    share = count / read
    return share, f"{count:,} of {read:,} {what} set aside ({share:.2%})"
