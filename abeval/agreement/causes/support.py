"""Support: the candidate shows items that control never showed, of which its log says nothing."""

import numpy as np
import pandas as pd

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.agreement.days import online_row
from abeval.agreement.gap import closed_online
from abeval.agreement.standing import more_is_better
from abeval.results.agreement import Evidence
from abeval.stats.records import Estimate

LARGEST = 0.1


def judge(case: Case, frames: Frames) -> Finding | Unchecked:
    """Compare the variant's share of unseen items with that of control among itself."""
    sides = frames["support"]
    shares = [_share(sides, side, "unsupported", "impressions") for side in ("control", "variant")]
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
        accounts_for=_accounts(case, sides),
        remedy="Collect exploration traffic with the candidate's items; offline values on "
        "control's traffic say nothing of them.",
    )


def _share(sides: pd.DataFrame, side: str, above: str, below: str) -> Estimate | None:
    own = sides[sides["side"] == side]
    return clusters.ratio(*(own[c].to_numpy(dtype=np.float64) for c in (above, below)))


def _accounts(case: Case, sides: pd.DataFrame) -> float | None:
    """By the click rate on items that control showed."""
    row = online_row(case)
    sums = sides.groupby("side")[["impressions", "clicks", "unsupported", "unsupported_clicks"]]
    totals = sums.sum().astype(float)
    if row is None or not more_is_better(row) or len(totals) < 2:
        return None
    known = totals["impressions"] - totals["unsupported"]
    if not known.all() or not totals["clicks"].all():
        return None
    whole = totals["clicks"] / totals["impressions"]
    seen = (totals["clicks"] - totals["unsupported_clicks"]) / known
    lifts = [float(rate["variant"] / rate["control"] - 1) for rate in (whole, seen)]
    return closed_online(case, *lifts)


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
