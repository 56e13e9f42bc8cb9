"""The first and last days of an experiment as rows of a history.

`entries.py` hands over effects over time.
"""

from collections.abc import Iterator, Sequence

from abeval.results.history import HistoryRow, Side
from abeval.results.windows import TimeResult, WindowRow
from abeval.stats.distributions import quantile

EARLY, LATE = (3, 7), (7, 3)
"""Days at the beginning and at the end that are kept, where they do not overlap the other end."""


def window_rows(result: TimeResult) -> Iterator[HistoryRow]:
    """Effects in the first and the last days, whole calendar days of the log."""
    days, partial = result.days, {*result.partial}
    whole = [row for row in result.windows if row.axis == "calendar" and not row.partial]
    if partial & {*days[:1], *days[-1:]} or not days:
        return
    for length in EARLY:
        if length + min(LATE) <= len(days):
            first = [r for r in whole if r.kind == "cumulative" and r.days == length]
            yield from _rows(result, first, "early", f"first {length} days")
    for length in LATE:
        if length + min(EARLY) <= len(days):
            last = [r for r in whole if r.kind == "rolling" and r.days == length]
            ending = [r for r in last if r.end == days[-1]]
            yield from _rows(result, ending, "late", f"last {length} days")


def _rows(
    result: TimeResult, rows: Sequence[WindowRow], side: Side, window: str
) -> Iterator[HistoryRow]:
    for row in rows:
        yield HistoryRow(
            experiment=result.name,
            source="windows",
            digest="",
            variant=row.variant,
            control="",
            model=None,
            metric=row.metric,
            side=side,
            traffic=None,
            window=window,
            start=row.start,
            end=row.end,
            role=None,
            direction=None,
            scale="lift",
            value_control=row.control,
            value=row.treatment,
            effect=row.lift,
            low=row.lift_low,
            high=row.lift_high,
            se=_se(row, result.alpha),
            p_value=row.p_value,
            alpha=result.alpha,
            units_control=row.units_control,
            units=row.units,
            trusted=True,
            reason=row.reason,
            decision=None,
            shipped=False,
        )


def _se(row: WindowRow, alpha: float) -> float | None:
    if row.lift is None or row.lift_low is None or row.lift_high is None:
        return None
    df = max(row.units_control + row.units - 2, 1)
    return (row.lift_high - row.lift_low) / (-2 * quantile(alpha / 2, df)) or None
