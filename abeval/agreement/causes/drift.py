"""Drift: after the launch the candidate changes from day to day, and the baseline does not."""

import numpy as np
import pandas as pd

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.stats.records import Estimate, Floats

LARGEST = 0.03
LEAST_DAYS = 4


def judge(case: Case, frames: Frames) -> Finding | Unchecked:
    """The change of AUC from first to last day, of the candidate less that of the baseline."""
    pairs = frames["pairs:day"]
    served = ((case.control, "baseline"), (case.variant, "candidate"))
    changes = [_change(pairs[pairs["variant"] == v], model) for v, model in served]
    if changes[0] is None or changes[1] is None:
        message = f"Drift: there are not {LEAST_DAYS} days with clicks and non-clicks"
        return Unchecked(message, (f"{LEAST_DAYS} days",))
    apart = clusters.difference(changes[0], changes[1])
    return Finding(
        exceeds=abs(apart.value) >= LARGEST,
        message=f"Drift: from first to last day the AUC of the candidate changes by "
        f"{changes[1].value:+.3f} and that of the baseline by {changes[0].value:+.3f}, each on its "
        "own traffic.",
        evidence=(
            clusters.evidence("change of AUC of the candidate", changes[1], case.alpha),
            clusters.evidence("change of AUC of the baseline", changes[0], case.alpha),
            clusters.evidence("difference of the two", apart, case.alpha),
        ),
        threshold=LARGEST,
        threshold_reason="the models part by .03 of AUC or more while the experiment runs",
        p_value=clusters.p_value(apart),
        accounts_for=None,
        remedy="Check how often the candidate is trained and how old its features are.",
    )


def _change(pairs: pd.DataFrame, model: str) -> Estimate | None:
    """The slope of AUC over days times the days, weighted by pairs; units are the clusters."""
    halves = pairs.pivot_table(
        index="cluster", columns="part", values=f"{model}_halves", aggfunc="sum", fill_value=0
    )
    counts = pairs.pivot_table(
        index="cluster", columns="part", values="pairs", aggfunc="sum", fill_value=0
    )
    won, of = halves.to_numpy(dtype=np.float64) / 2, counts.to_numpy(dtype=np.float64)
    kept = of.sum(axis=0) > 0
    won, of = won[:, kept], of[:, kept]
    if of.shape[1] < LEAST_DAYS or of.shape[0] < 2:
        return None
    totals = of.sum(axis=0)
    auc = won.sum(axis=0) / totals
    influence = 2 * (won - auc * of) / totals
    slope = _slope_weights(totals) * (totals.size - 1)
    return clusters.influenced(float(slope @ auc), influence @ slope)


def _slope_weights(weights: Floats) -> Floats:
    """What each day's value counts in the slope of a weighted regression on the day's number.

    Example:
        >>> import numpy as np
        >>> float(_slope_weights(np.ones(3)) @ np.array([1.0, 3.0, 5.0]))
        2.0
    """
    day = np.arange(weights.size, dtype=np.float64)
    centred = day - (weights * day).sum() / weights.sum()
    return np.asarray(weights * centred / (weights * centred**2).sum())


CHECK = CauseCheck(
    "drift",
    judge,
    queries=("pairs:day",),
    columns=("day", "baseline", "candidate"),
    shows="whether the candidate gets worse after the launch",
)
