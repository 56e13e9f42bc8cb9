"""Aggregates of all units after some of them have changed.

`store/collect.py` hands it the totals of the previous run, and the changed units before and now;
`store/closing.py` moves rows of units that changed variant by it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.buckets import BucketSums
from abeval.aggregates.moment_rows import MOMENT_COLUMNS
from abeval.aggregates.terms import add_signed
from abeval.aggregates.unit_values import LABELS, no_values
from abeval.logs.checks import USED, USED_BEFORE


def with_change(total: Aggregates, before: Aggregates, after: Aggregates) -> Aggregates:
    """Aggregates of all units: the previous total, less the changed units before, plus after.

    Args:
        total: All units in the previous run.
        before: The changed units in the previous run.
        after: The same units now; notes and refusals are theirs.
    """
    signed = ((1, total), (-1, before), (1, after))
    rows = [(sign, row) for sign, a in signed for row in a.moments.itertuples(index=False)]
    units = _add_counts([(sign, a.units) for sign, a in signed], "variant")
    return replace(
        after,
        moments=pd.DataFrame(add_signed(rows), columns=list(MOMENT_COLUMNS)),
        units=units[units["units"] > 0].reset_index(drop=True),
        accounts=_accounts([(sign, a.accounts) for sign, a in signed]),
        days=_days(total.days, before.days, after.days),
        facts={
            name: sum(sign * a.facts.get(name, 0) for sign, a in signed)
            for name in {**total.facts, **after.facts}
        },
        buckets=_buckets(total.buckets, before.buckets, after.buckets),
        entered=_entered([(sign, a.entered) for sign, a in signed]),
        unit_values=_unit_values([(sign, a.unit_values) for sign, a in signed]),
    )


def _add_counts(frames: Sequence[tuple[int, pd.DataFrame]], *labels: str) -> pd.DataFrame:
    signed = [frame.set_index(list(labels)) * sign for sign, frame in frames]
    total = pd.concat(signed).groupby(level=list(labels), sort=False).sum()
    return total.astype(np.int64).reset_index()


def _accounts(frames: Sequence[tuple[int, pd.DataFrame]]) -> pd.DataFrame:
    """The rows that are used come first, even if there are none; then reasons by name."""
    total = _add_counts(frames, "log", "reason")
    is_used = total["reason"].isin([USED, USED_BEFORE])
    set_aside = total[~is_used & (total["rows"] > 0)].sort_values("reason")
    return pd.concat([total[is_used], set_aside], ignore_index=True)


def _entered(frames: Sequence[tuple[int, pd.DataFrame]]) -> pd.DataFrame:
    counts = _add_counts(frames, "planned", "entry_day", "entry_hour", "variant")
    return counts[counts["units"] > 0].reset_index(drop=True)


def _unit_values(frames: Sequence[tuple[int, pd.DataFrame]]) -> pd.DataFrame:
    known = [(sign, frame) for sign, frame in frames if len(frame)]
    counts = _add_counts(known, *LABELS) if known else no_values()
    return counts[counts["units"] != 0].sort_values(list(LABELS), ignore_index=True)


def _days(total: pd.DataFrame, before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    columns = ["day", "units", "new_units", "impressions"]
    counts = _add_counts([(1, total[columns]), (-1, before[columns]), (1, after[columns])], "day")
    by_day = pd.concat([total, after]).groupby("day")
    ends = pd.DataFrame({"first_ms": by_day["first_ms"].min(), "last_ms": by_day["last_ms"].max()})
    return counts.join(ends, on="day").sort_values("day", ignore_index=True)


def _buckets(
    total: Mapping[str, BucketSums],
    before: Mapping[str, BucketSums],
    after: Mapping[str, BucketSums],
) -> dict[str, BucketSums]:
    return {
        name: BucketSums(
            units=sums.units - before[name].units + after[name].units,
            sums=sums.sums - before[name].sums + after[name].sums,
        )
        for name, sums in total.items()
    }
