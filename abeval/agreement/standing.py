"""Offline differences beside effects online: rows, models on both traffics, decompositions."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from abeval.agreement.case import Case, spread
from abeval.results.agreement import (
    AgreementRow,
    Decomposition,
    MatrixCell,
    OfflineDifference,
    Standing,
)
from abeval.results.effects import Row
from abeval.results.replay import PairRow
from abeval.stats import effects
from abeval.stats.records import Estimate

LOWER_IS_BETTER = frozenset({"log_loss", "ne", "brier", "mae", "rmse", "ece", "gini", "popularity"})
"""Offline metrics, without cut-off and definition, of which less is better."""

CALIBRATED_AT = {"q_ctr": 1.0}
"""Offline metrics that are best at a value."""


class Gain(NamedTuple):
    """An interval whose positive side is the good one; `reason` where there is none."""

    low: float | None
    high: float | None
    reason: str | None = None

    @property
    def sign(self) -> int:
        """1 for better, -1 for worse, 0 where zero is inside or the interval is missing."""
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 0) - int(self.high < 0)

    @property
    def strength(self) -> float | None:
        """Its middle in half-widths: beyond 1 it excludes zero.

        Example:
            >>> Gain(1.0, 3.0).strength
            2.0
        """
        if self.low is None or self.high is None or self.high <= self.low:
            return None
        return (self.low + self.high) / (self.high - self.low)


def standing(offline: Gain, online: Gain) -> Standing:
    """Conflict and agreement need both intervals to exclude zero; nothing is said without both.

    Example:
        >>> standing(Gain(0.01, 0.02), Gain(-0.3, -0.1)), standing(Gain(0.01, 0.02), Gain(-1, 1))
        ('conflict', 'offline only')
        >>> standing(Gain(None, None, "not_replayed"), Gain(0.1, 0.3))
        'inconclusive'
    """
    if offline.reason or online.reason:
        return "inconclusive"
    match (offline.sign, online.sign):
        case (0, 0):
            return "inconclusive"
        case (0, _):
            return "online only"
        case (_, 0):
            return "offline only"
    return "agree" if offline.sign == online.sign else "conflict"


def offline_gain(pair: PairRow | None) -> Gain:
    """The difference of a pair, turned so that more is better."""
    if pair is None:
        return Gain(None, None, "not_replayed")
    if pair.low is None or pair.high is None:
        return Gain(None, None, pair.reason or "no_interval")
    name = pair.metric.split("@")[0].split("[")[0]
    if name in CALIBRATED_AT:
        return _toward(CALIBRATED_AT[name], pair.value_control, pair.value, pair.low, pair.high)
    return _turned(pair.low, pair.high, name not in LOWER_IS_BETTER)


def online_gain(row: Row) -> Gain:
    """The effect of a scorecard's row, turned so that more is better."""
    low, high = row.lift_low, row.lift_high
    if low is None or high is None:
        low, high = row.difference_low, row.difference_high
    if row.status == "untrusted":
        return Gain(None, None, "untrusted")
    if low is None or high is None:
        return Gain(None, None, row.reason or "no_interval")
    if row.direction.startswith("toward "):
        goal = float(row.direction.removeprefix("toward "))
        return _toward(goal, row.control, row.treatment, low, high)
    return _turned(low, high, more_is_better(row))


def more_is_better(row: Row) -> bool:
    """Whether the good direction of an online metric, at its values, is up."""
    if not row.direction.startswith("toward "):
        return row.direction != "decrease"
    return (row.control or 0.0) < float(row.direction.removeprefix("toward "))


def _turned(low: float, high: float, more_is_better: bool) -> Gain:
    return Gain(low, high) if more_is_better else Gain(-high, -low)


def _toward(
    goal: float, control: float | None, treatment: float | None, low: float, high: float
) -> Gain:
    """Of values on one side of their goal, more is better below it and less above it."""
    if control is None or treatment is None or (control - goal) * (treatment - goal) < 0:
        return Gain(None, None, "crosses_its_goal")
    return _turned(low, high, control < goal or treatment < goal)


def agreement_rows(case: Case) -> Iterator[AgreementRow]:
    """Every offline metric of the replay against every online metric of the scorecard."""
    if case.replay is None:
        return
    own = [row for row in case.result.scorecard if row.variant == case.variant]
    for metric, _ in case.replay.definitions:
        for row in own:
            yield _row(case, metric, row)


def _row(case: Case, metric: str, online: Row) -> AgreementRow:
    pair, effect = case.pair(metric, case.control), online_gain(online)
    gain = offline_gain(pair)
    differences = (None, None, None) if pair is None else (pair.difference, pair.low, pair.high)
    return AgreementRow(
        *(case.variant, metric, online.metric, online.role),
        *differences,
        *(online.lift, online.lift_low, online.lift_high),
        standing=standing(gain, effect),
        reason=gain.reason or effect.reason,
        others=tuple(_others(case, metric, effect)),
        offline_strength=gain.strength,
        online_strength=effect.strength,
    )


def _others(case: Case, metric: str, effect: Gain) -> Iterator[OfflineDifference]:
    traffics = dict.fromkeys(row.traffic for row in (case.replay.pairs if case.replay else ()))
    for traffic in traffics:
        pair = case.pair(metric, traffic)
        if traffic != case.control and pair is not None:
            numbers = (pair.difference, pair.low, pair.high)
            yield OfflineDifference(traffic, *numbers, standing(offline_gain(pair), effect))


METRICS = ("auc", "gauc[impressions]", "q_ctr", "log_loss")
"""Of the matrix."""


def matrix(case: Case) -> Iterator[MatrixCell]:
    """Every metric of `METRICS` of both models on both traffics."""
    wanted = {(m, t) for m in (case.baseline, case.candidate) for t in (case.control, case.variant)}
    for row in case.replay.rows if case.replay is not None else ():
        if row.metric in METRICS and (row.model, row.traffic) in wanted:
            numbers = (row.value, row.low, row.high, row.reason)
            yield MatrixCell(case.variant, row.metric, row.model, row.traffic, *numbers)


class _Traffic(NamedTuple):
    """Both models on one traffic: their values, and the variance of their difference."""

    baseline: Estimate
    candidate: Estimate
    difference: float

    @property
    def total(self) -> float:
        """The variance of their sum, not below zero."""
        return max(2 * self.baseline.variance + 2 * self.candidate.variance - self.difference, 0.0)


def decompositions(case: Case) -> Iterator[Decomposition]:
    """The logged difference of each metric of the matrix that the replay has."""
    known = dict(case.replay.definitions) if case.replay is not None else {}
    for metric in METRICS:
        if metric in known:
            yield _decomposition(case, metric)


def _decomposition(case: Case, metric: str) -> Decomposition:
    first, second = (_on(case, metric, traffic) for traffic in (case.control, case.variant))
    if first is None or second is None:
        nothing = (None, None, None)
        return Decomposition(
            case.variant, metric, *nothing, *nothing, *nothing, reason="no_interval"
        )
    own = (first.baseline, second.candidate)
    logged = own[1].value - own[0].value
    model = (
        first.candidate.value
        - first.baseline.value
        + second.candidate.value
        - second.baseline.value
    ) / 2
    df = float(first.baseline.units + second.baseline.units - 2)
    variances = (
        own[0].variance + own[1].variance,
        (first.difference + second.difference) / 4,
        (first.total + second.total) / 4,
    )
    (low, high), of_model, of_traffic = (
        effects.interval(value, math.sqrt(variance), df, case.alpha)
        for value, variance in zip((logged, model, logged - model), variances, strict=True)
    )
    return Decomposition(
        case.variant,
        metric,
        *(logged, low, high),
        *(model, *of_model),
        *(logged - model, *of_traffic),
        reason=None,
    )


def _on(case: Case, metric: str, traffic: str) -> _Traffic | None:
    models = [case.estimate(metric, m, traffic) for m in (case.baseline, case.candidate)]
    pair = case.pair(metric, traffic)
    if models[0] is None or models[1] is None or pair is None or case.replay is None:
        return None
    paired = spread(pair.difference, pair.low, pair.high, pair.units, case.replay.alpha)
    return None if paired is None else _Traffic(models[0], models[1], paired.variance)
