"""Both models on both variants' traffic, and the logged difference split into model and traffic.

Everything follows from the rows and the pairs of a replay: units of two variants are independent,
and on one traffic the models are paired, so that the variance of the sum of two models is
2 Var(a) + 2 Var(b) - Var(b - a).
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from abeval.agreement.case import Case, spread
from abeval.results.agreement import Decomposition, MatrixCell
from abeval.stats import effects
from abeval.stats.records import Estimate

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
