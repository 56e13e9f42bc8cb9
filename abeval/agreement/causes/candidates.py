"""Candidates: items that the variant's model would show never reach it.

A source of candidates that failed, a filter, a category that is not indexed. What a model does not
like it scores low on control's traffic; what it scores high there and never shows, it did not get.
"""

import numpy as np
import pandas as pd

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.agreement.clusters import p_above, share
from abeval.agreement.days import closed_by_rates
from abeval.results import format as fmt

LARGEST = 0.05
_NAMED = 3
_SUMS = ["impressions", "clicks", "wanted", "missing", "missing_clicks"]


def judge(case: Case, frames: Frames) -> Finding | Unchecked:
    """Of what control shows and the candidate scores high, the share that the variant lacks."""
    rows = frames["unshown"]
    missing = share(rows, "control", "missing", "wanted")
    if missing is None:
        message = "Candidates: of what control shows, the candidate scores nothing high"
        return Unchecked(message, ("rows of both variants with the candidate's score",))
    by_category = rows.groupby("category")["missing"].sum().sort_values(ascending=False)
    named = list(by_category.index[:_NAMED])
    most = f", above all of {fmt.listing(named)}," if named else ""
    return Finding(
        exceeds=missing.value > LARGEST,
        message=f"Candidates: of what control shows and the candidate scores high, "
        f"{missing.value:.1%} is of items{most} that the variant hardly shows.",
        evidence=(
            clusters.evidence("wanted rows that the variant lacks", missing, case.alpha),
            clusters.evidence(
                "wanted rows", share(rows, "control", "wanted", "impressions"), case.alpha
            ),
        ),
        threshold=LARGEST,
        threshold_reason=f"{LARGEST:.0%} of control's rows with a score in the upper half of those "
        "that the variant shows: it shows their item or category at most a tenth as often",
        p_value=p_above(missing, LARGEST),
        accounts_for=_closed(case, rows, missing.value),
        remedy="Compare what both variants' rankers get: sources of candidates, filters, indexes.",
    )


def _closed(case: Case, rows: pd.DataFrame, missing: float) -> float | None:
    """The click rate if so much of what the variant shows were what it lacks, clicked as there."""
    sums = rows.groupby("side")[_SUMS].sum()
    if len(sums) < 2 or not missing:
        return None
    shown, clicks, _, lacked, lost = sums.to_numpy(dtype=np.float64).T
    rates = clicks / shown
    whole = (1 - missing) * rates[1] + missing * lost[0] / lacked[0]
    return closed_by_rates(case, rates, np.array([rates[0], whole]))


CHECK = CauseCheck(
    "candidates",
    judge,
    queries=("unshown",),
    columns=("item_id", "candidate"),
    shows="whether the variant lacks items that its model would show",
)
