"""Numbers with unit-clustered variances from the rows of queries: shares, AUC within strata."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtr

from abeval.agreement.case import Case, Frames
from abeval.agreement.causes.days import closed_offline
from abeval.results.agreement import Evidence
from abeval.stats import effects
from abeval.stats.records import Estimate, Floats


def ratio(above: Floats, below: Floats) -> Estimate | None:
    """Σ above / Σ below over clusters, by the delta method; None without clusters or a denominator.

    Example:
        >>> import numpy as np
        >>> e = ratio(np.array([1.0, 2.0, 3.0]), np.array([10.0, 10.0, 10.0]))
        >>> e.value, round(e.variance, 6)
        (0.2, 0.003333)
    """
    total = float(below.sum())
    if above.size < 2 or total == 0:
        return None
    value = float(above.sum()) / total
    return influenced(value, (above - value * below) / total)


def influenced(value: float, influence: Floats) -> Estimate:
    """An estimate from the influence of each cluster, which sums to zero."""
    n = influence.size
    return Estimate(value, float((influence**2).sum()) * n / (n - 1), n, n - 1.0)


def difference(first: Estimate, second: Estimate) -> Estimate:
    """`second - first` of independent clusters."""
    variance = first.variance + second.variance
    df = effects.satterthwaite([first.variance, second.variance], [first.df, second.df])
    return Estimate(second.value - first.value, variance, first.units + second.units, df)


def p_value(estimate: Estimate) -> float:
    """Two-sided, of zero.

    Example:
        >>> round(p_value(Estimate(1.0, 0.25, 1000, 999.0)), 3)
        0.046
    """
    if estimate.variance <= 0:
        return 0.0 if estimate.value else 1.0
    return float(2 * stdtr(estimate.df, -abs(estimate.value) / estimate.variance**0.5))


def evidence(name: str, estimate: Estimate | None, alpha: float, where: str = "") -> Evidence:
    """A number with its interval as evidence."""
    if estimate is None:
        return Evidence(name, None, where=where)
    ends = effects.interval(estimate.value, float(np.sqrt(estimate.variance)), estimate.df, alpha)
    return Evidence(name, estimate.value, *ends, where=where)


def by_side(name: str, sides: Sequence[Estimate | None], case: Case) -> tuple[Evidence, ...]:
    """A number of control and of the variant as evidence."""
    variants = (case.control, case.variant)
    return tuple(
        evidence(name, own, case.alpha, where) for own, where in zip(sides, variants, strict=True)
    )


def single(pairs: pd.DataFrame, variant: str, part: str) -> Estimate | None:
    """AUC of one value, from the rows of `queries/agreement/single_pairs`."""
    twice = pairs.assign(baseline_halves=pairs["halves"], candidate_halves=pairs["halves"])
    both = stratified(twice, variant, part)
    return None if both is None else both.candidate


class Stratified(NamedTuple):
    """AUC within positions, weighted by pairs, of both models on one traffic."""

    baseline: Estimate
    candidate: Estimate
    difference: Estimate


def stratified(pairs: pd.DataFrame, variant: str, part: str = "all") -> Stratified | None:
    """Halves of won pairs and pairs by cluster, each pair counted at both of its rows.

    A cluster's influence is twice its share, because a pair has two rows (Hoeffding 1948).
    """
    own = pairs[(pairs["variant"] == variant) & (pairs["part"] == part)]
    count = own["pairs"].to_numpy(dtype=np.float64)
    total = count.sum()
    if count.size < 2 or not total:
        return None
    values, influences = list[float](), list[Floats]()
    for model in ("baseline", "candidate"):
        won = own[f"{model}_halves"].to_numpy(dtype=np.float64) / 2
        values.append(float(won.sum() / total))
        influences.append(2 * (won - values[-1] * count) / total)
    return Stratified(
        influenced(values[0], influences[0]),
        influenced(values[1], influences[1]),
        influenced(values[1] - values[0], influences[1] - influences[0]),
    )


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
    return ratio(above, below)


def excess(rows: pd.DataFrame, of: str, among: str) -> Estimate | None:
    """The variant's share minus control's; None if one side has none."""
    sides = [share(rows, side, of, among) for side in ("control", "variant")]
    return None if sides[0] is None or sides[1] is None else difference(sides[0], sides[1])


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
