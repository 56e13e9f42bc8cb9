"""Reordered: after the model, another module changes the order of the variant's lists.

Scores are right and the order is not theirs: rules, diversity, another ranker further down.
"""

import numpy as np
import pandas as pd

from abeval.aggregates.audit_arrays import CLUSTERS
from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.agreement.clusters import p_above, share
from abeval.agreement.days import closed_by_rates
from abeval.stats.records import Estimate, Floats

LARGEST = 0.1
COSTS = 0.01
_DEEPEST = 20
_STEPS = 50


def judge(case: Case, frames: Frames) -> Finding | Unchecked:
    """Neighbours in lists of which the later one has the higher score, and what that costs."""
    rows = frames["list_order"]
    sides = [rows[rows["side"] == side] for side in ("control", "variant")]
    ahead = [share(rows, side, "ahead", "neighbours") for side in ("control", "variant")]
    if ahead[0] is None or ahead[1] is None or not all(own["clicks"].sum() for own in sides):
        message = "Reordered: there are no clicked lists of two rows with scores in both variants"
        return Unchecked(message, ("position and scores of all rows of a request_id",))
    gains = [_gain(own) for own in sides]
    more = clusters.difference(ahead[0], ahead[1])
    lost = clusters.difference(gains[0], gains[1])
    rates = np.array([own["clicks"].sum() / own["impressions"].sum() for own in sides])
    in_order = rates * [1 + gain.value for gain in gains]
    return Finding(
        exceeds=more.value > LARGEST and lost.value > COSTS,
        message=f"Reordered: of neighbours in the variant's lists, the later one has the higher "
        f"score in {ahead[1].value:.1%}, in control's in {ahead[0].value:.1%}; in the order of "
        f"scores, the variant would get {gains[1].value:+.1%} clicks.",
        evidence=(
            *clusters.by_side("neighbours against the score", ahead, case),
            clusters.evidence("difference", more, case.alpha),
            clusters.evidence("clicks lost, beyond control's", lost, case.alpha),
        ),
        threshold=LARGEST,
        threshold_reason=f"{LARGEST:.0%} more neighbours than in control stand against their "
        f"score, and it costs {COSTS:.0%} of the clicks",
        p_value=max(p_above(more, LARGEST), p_above(lost, COSTS)),
        accounts_for=closed_by_rates(case, rates, in_order),
        remedy="Find what orders the variant's lists after the model (rules, diversity, a later "
        "ranker), and judge the model without it, or with it offline too.",
    )


def _gain(rows: pd.DataFrame) -> Estimate:
    """The change of clicks if lists were in the order of scores; by the jackknife over groups.

    The click rate of a row is a number of its rank times one of its place (Craswell et al. 2008).
    """
    grids = np.zeros((2, CLUSTERS, _DEEPEST, _DEEPEST))
    cell = rows["cluster"], rows["score_rank"] - 1, rows["place"] - 1
    grids[(slice(None), *cell)] = rows[["impressions", "clicks"]].to_numpy().T
    whole = grids.sum(axis=1, keepdims=True)
    gains = _in_order(*np.concatenate([whole, whole - grids], axis=1))
    others = gains[1:]
    return clusters.influenced(float(gains[0]), (others - others.mean()) * (1 - 1 / CLUSTERS))


def _in_order(shown: Floats, clicks: Floats) -> Floats:
    """Relative gain of clicks of each grid of ranks by places, fitted by turns."""
    places = np.ones_like(shown[:, 0])
    for _ in range(_STEPS):
        ranks = _over(clicks.sum(axis=2), np.einsum("grp,gp->gr", shown, places))
        places = _over(clicks.sum(axis=1), np.einsum("grp,gr->gp", shown, ranks))
    expected = (shown.sum(axis=2) * ranks * places).sum(axis=1)
    gain: Floats = expected / clicks.sum(axis=(1, 2)) - 1
    return gain


def _over(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


CHECK = CauseCheck(
    "reordered",
    judge,
    queries=("list_order",),
    columns=("request_id", "position", "baseline", "candidate"),
    shows="whether lists are in the order of their scores",
)
