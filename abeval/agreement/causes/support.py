"""Support: the candidate shows items that control never showed, of which its log says nothing."""

import numpy as np
import pandas as pd

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.agreement.clusters import share
from abeval.agreement.days import closed_by_rates
from abeval.results.agreement import Evidence

LARGEST = 0.1


def judge(case: Case, frames: Frames) -> Finding | Unchecked:
    """Compare the variant's share of unseen items with that of control among itself."""
    sides = frames["support"]
    shares = [share(sides, side, "unsupported", "impressions") for side in ("control", "variant")]
    if shares[0] is None or shares[1] is None:
        return Unchecked("Support: a variant has no items", ("item_id of both variants",))
    excess = clusters.difference(shares[0], shares[1])
    return Finding(
        exceeds=excess.value >= LARGEST,
        message=f"Support: {shares[1].value:.1%} of what the variant showed is of items that "
        f"control's log does not have, against {shares[0].value:.1%} of control's own.",
        evidence=(
            clusters.evidence("share on items never shown", shares[1], case.alpha, case.variant),
            clusters.evidence("share on items never shown", shares[0], case.alpha, case.control),
            clusters.evidence("difference", excess, case.alpha),
            *_effective(frames["weights"], case.control),
        ),
        threshold=LARGEST,
        threshold_reason="a tenth or more of what the variant shows is unknown to control's log",
        p_value=clusters.p_value(excess) if excess.value > 0 else 1.0,
        accounts_for=_closed(case, sides),
        remedy="Collect exploration traffic with the candidate's items; offline values on "
        "control's traffic say nothing of them.",
    )


def _closed(case: Case, sides: pd.DataFrame) -> float | None:
    """The share of the gap that closes by the click rates on items that are supported."""
    sums = sides.groupby("side")[["impressions", "clicks", "unsupported", "unsupported_clicks"]]
    rows, clicks, unknown, unknown_clicks = sums.sum().to_numpy(dtype=np.float64).T
    known = rows - unknown
    if known.size < 2 or not known.all():
        return None
    return closed_by_rates(case, clicks / rows, (clicks - unknown_clicks) / known)


def _effective(weights: pd.DataFrame, control: str) -> tuple[Evidence, ...]:
    """Kish's effective share of control's rows if they are weighted to the variant's items."""
    row = weights.iloc[0]
    if not row["control_rows"] or not row["squared_weight"]:
        return ()
    share = float(row["weight"]) ** 2 / float(row["squared_weight"]) / float(row["control_rows"])
    return (Evidence("effective share of the sample", share, where=control),)


CHECK = CauseCheck(
    "support",
    judge,
    queries=("support", "weights"),
    columns=("item_id",),
    shows="whether control's log knows the candidate's items",
)
