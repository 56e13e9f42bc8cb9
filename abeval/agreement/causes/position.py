"""Position: clicks follow the place of an item, so a model looks good on lists that it ordered.

On its own traffic a model put above what it scores high, and there is more clicked. Compared only
among rows of one position, the models meet on even terms (Craswell et al. 2008; COEC: Zhang and
Jones 2007).
"""

import numpy as np
import pandas as pd

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked, spread
from abeval.agreement.clusters import stratified
from abeval.agreement.gap import closed_offline
from abeval.results.agreement import Evidence
from abeval.stats.records import Estimate

HALF = 0.5


def judge(case: Case, frames: Frames) -> Finding | Unchecked:
    """How much of the models' difference on control's traffic is gone within positions."""
    traffics = (case.control, case.variant)
    raw = [_raw(case, traffic) for traffic in traffics]
    within = [stratified(frames["pairs:position"], traffic) for traffic in traffics]
    if raw[0] is None or raw[1] is None or within[0] is None or within[1] is None:
        needs = ("clicks at several positions of both variants",)
        return Unchecked("Position: there is no AUC of both models within positions", needs)
    before, own = raw[0], raw[1]
    even, own_even = within[0].difference, within[1].difference
    # Both are of the same rows: their errors are added as if they were fully dependent.
    error = before.variance**0.5 + even.variance**0.5
    change = Estimate(even.value - before.value, error**2, before.units, before.df)
    return Finding(
        exceeds=abs(change.value) >= HALF * abs(before.value),
        message=f"Position: the candidate's AUC differs by {before.value:+.3f} on control's "
        f"traffic and {own.value:+.3f} on its own; within positions by {even.value:+.3f} and "
        f"{own_even.value:+.3f}.",
        evidence=(
            clusters.evidence("AUC difference within positions", even, case.alpha, case.control),
            clusters.evidence(
                "AUC difference within positions", own_even, case.alpha, case.variant
            ),
            clusters.evidence("AUC difference", before, case.alpha, case.control),
            clusters.evidence("AUC difference", own, case.alpha, case.variant),
            *_coec(case, frames["positions"]),
        ),
        threshold=HALF,
        threshold_reason="at least half of the models' difference on control's traffic is gone "
        "within positions",
        p_value=clusters.p_value(change),
        accounts_for=closed_offline(case, before.value, even.value),
        remedy="Compare models within positions, or on traffic whose order is random; do not "
        "compare AUC on lists that one of them ordered.",
    )


def _raw(case: Case, traffic: str) -> Estimate | None:
    pair = case.pair("auc", traffic)
    if pair is None:
        return None
    return spread(pair.difference, pair.low, pair.high, pair.units, case.alpha)


def _coec(case: Case, positions: pd.DataFrame) -> tuple[Evidence, ...]:
    """Clicks over the clicks expected at the same positions of both variants together."""
    sums = positions.groupby("position")[["clicks", "impressions"]].sum()
    rate = sums["clicks"] / sums["impressions"]
    expected = positions.assign(
        expected=positions["impressions"] * positions["position"].map(rate).astype(float)
    )
    by_cluster = expected.groupby(["variant", "cluster"], as_index=False)[["clicks", "expected"]]
    totals = by_cluster.sum()
    of_variants = []
    for variant in (case.control, case.variant):
        own = totals[totals["variant"] == variant]
        above, below = (own[c].to_numpy(dtype=np.float64) for c in ("clicks", "expected"))
        estimate = clusters.ratio(above, below)
        of_variants.append(
            clusters.evidence("clicks over expected clicks", estimate, case.alpha, variant)
        )
    return tuple(of_variants)


CHECK = CauseCheck(
    "position",
    judge,
    queries=("pairs:position", "positions"),
    columns=("position", "baseline", "candidate"),
    shows="whether clicks follow position rather than the models",
)
