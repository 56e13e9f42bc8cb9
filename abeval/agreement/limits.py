"""One-sided tests against a limit, and shares by side, for causes that count faults in a log."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtr

from abeval.agreement import clusters
from abeval.agreement.case import Case, Frames
from abeval.agreement.clusters import Stratified, stratified
from abeval.agreement.gap import closed_offline
from abeval.results.agreement import Evidence
from abeval.stats.records import Estimate


class Route(NamedTuple):
    """One way in which a cause can show: its number, what it has to reach, and its test.

    Attributes:
        exceeds: Whether the number passes the limit.
        p_value: One-sided, that the number is not beyond the limit.
        words: What was seen.
        evidence: The numbers.
    """

    exceeds: bool
    p_value: float
    words: str
    evidence: tuple[Evidence, ...]


def p_above(estimate: Estimate, limit: float) -> float:
    """One-sided p-value of a number that is not above a limit.

    Example:
        >>> round(p_above(Estimate(3.0, 1.0, 1000, 999.0), 1.0), 3)
        0.023
    """
    if estimate.variance <= 0:
        return 0.0 if estimate.value > limit else 1.0
    return float(stdtr(estimate.df, (limit - estimate.value) / estimate.variance**0.5))


def share(rows: pd.DataFrame, side: str, of: str, among: str) -> Estimate | None:
    """Σ of a column over Σ of another, over the groups of units of one side; None without any."""
    own = rows[rows["side"] == side].groupby("cluster")[[of, among]].sum()
    above, below = (own[name].to_numpy(dtype=np.float64) for name in (of, among))
    return clusters.ratio(above, below)


def excess(rows: pd.DataFrame, of: str, among: str) -> Estimate | None:
    """The variant's share minus control's; None if one side has none."""
    sides = [share(rows, side, of, among) for side in ("control", "variant")]
    return None if sides[0] is None or sides[1] is None else clusters.difference(sides[0], sides[1])


def any_of(routes: list[Route]) -> tuple[bool, float]:
    """Whether one of several routes exceeds its limit, and its p-value after Bonferroni."""
    exceeding = [route.p_value for route in routes if route.exceeds]
    smallest = min(exceeding or [route.p_value for route in routes])
    return bool(exceeding), min(1.0, smallest * len(routes))


def served_loss(case: Case, frames: Frames, part: str) -> Stratified | None:
    """AUC of the candidate's own and of its served scores on its traffic, of rows in one state."""
    return stratified(frames["pairs:served"], case.variant, part)


def closed_by_served(case: Case, loss: Estimate | None, weight: float = 1.0) -> float | None:
    """The share of the gap that closes if the candidate is judged as it was served.

    Args:
        case: The offline difference is that on control's traffic.
        loss: AUC of served scores minus that of the own ones.
        weight: Share of the variant's rows that it is of.
    """
    pair = None if case.gap is None else case.pair("auc", case.control)
    if pair is None or pair.difference is None or loss is None:
        return None
    return closed_offline(case, pair.difference, pair.difference + weight * loss.value)


def weight_of(rows: pd.DataFrame, state: str) -> float:
    """The share of the variant's compared rows that are in a state."""
    own = rows[rows["side"] == "variant"]
    total = float(own["compared"].sum())
    return float(own.loc[own["state"] == state, "compared"].sum()) / total if total else 0.0
