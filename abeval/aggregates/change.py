"""Aggregates of all units from those of before, where only some units have new rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from abeval.aggregates.aggregates import MOMENT_COLUMNS, Aggregates
from abeval.aggregates.buckets import BucketSums
from abeval.engines.protocol import Cell
from abeval.logs.checks import USED, USED_BEFORE

Row = tuple[Cell, ...]


def with_change(all_units: Aggregates, before: Aggregates, after: Aggregates) -> Aggregates:
    """Aggregates of all units, where some changed: whole numbers of units add up.

    Args:
        all_units: Of every unit, as it was.
        before: Of the units that changed, as they were.
        after: Of the same units as they are; notes and refusals are taken from here.
    """
    signed = ((1, all_units), (-1, before), (1, after))
    rows = [(sign, row) for sign, a in signed for row in a.moments.itertuples(index=False)]
    units = _summed([(sign, a.units) for sign, a in signed], ["variant"])
    return replace(
        after,
        moments=pd.DataFrame(added_up(rows), columns=list(MOMENT_COLUMNS)),
        units=units[units["units"] > 0].reset_index(drop=True),
        accounts=_accounts([(sign, a.accounts) for sign, a in signed]),
        days=_days(all_units.days, before.days, after.days),
        facts={name: sum(sign * a.facts[name] for sign, a in signed) for name in all_units.facts},
        buckets=_buckets(all_units.buckets, before.buckets, after.buckets),
    )


def added_up(rows: Iterable[tuple[int, Row]]) -> list[Row]:
    """Rows of `aggregates.MOMENT_COLUMNS` with the same labels, each times its sign, as one.

    Example:
        >>> label = ("ctr", "day", "2026-01-01", "a")
        >>> added_up([(1, (*label, 3, "9")), (-1, (*label, 1, "4"))])
        [('ctr', 'day', '2026-01-01', 'a', 2, '5')]
    """
    totals: dict[Row, list[int]] = {}
    for sign, row in rows:
        sums = [sign * int(str(value)) for value in row[4:]]
        before = totals.get(row[:4])
        totals[row[:4]] = (
            sums if before is None else [a + b for a, b in zip(before, sums, strict=True)]
        )
    return [(*labels, units, *map(str, sums)) for labels, (units, *sums) in totals.items() if units]


def _summed(frames: Sequence[tuple[int, pd.DataFrame]], labels: list[str]) -> pd.DataFrame:
    """Counts by label, each times its sign."""
    signed = [frame.set_index(labels) * sign for sign, frame in frames]
    total = pd.concat(signed).groupby(level=labels, sort=False).sum()
    return total.astype(np.int64).reset_index()


def _accounts(frames: Sequence[tuple[int, pd.DataFrame]]) -> pd.DataFrame:
    """What was used stands first, even where it is nothing; then reasons by name."""
    total = _summed(frames, ["log", "reason"])
    is_used = total["reason"].isin([USED, USED_BEFORE])
    aside = total[~is_used & (total["rows"] > 0)].sort_values("reason")
    return pd.concat([total[is_used], aside], ignore_index=True)


def _days(all_units: pd.DataFrame, before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    counts = ["day", "units", "new_units", "impressions"]
    total = _summed([(1, all_units[counts]), (-1, before[counts]), (1, after[counts])], ["day"])
    seen = pd.concat([all_units, after]).groupby("day")
    ends = pd.DataFrame({"first_ms": seen["first_ms"].min(), "last_ms": seen["last_ms"].max()})
    return total.join(ends, on="day").sort_values("day", ignore_index=True)


def _buckets(
    all_units: Mapping[str, BucketSums],
    before: Mapping[str, BucketSums],
    after: Mapping[str, BucketSums],
) -> dict[str, BucketSums]:
    return {
        name: BucketSums(
            units=found.units - before[name].units + after[name].units,
            sums=found.sums - before[name].sums + after[name].sums,
        )
        for name, found in all_units.items()
    }
