"""What an agreement shows beside causes: its table, models on both traffics, clicks by position."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from abeval.agreement import clusters
from abeval.agreement.case import Case, spread
from abeval.agreement.standing import Gain, offline_gain, online_gain, standing
from abeval.results.agreement import (
    AgreementRow,
    Decomposition,
    MatrixCell,
    OfflineDifference,
    PositionRate,
)
from abeval.results.effects import Row
from abeval.stats import effects
from abeval.stats.records import Estimate

METRICS = ("auc", "gauc[impressions]", "q_ctr", "log_loss")
"""Of the models on both traffics."""

DEEPEST = 50
"""Positions further down are not shown; they have few impressions."""


def agreement_rows(case: Case) -> Iterator[AgreementRow]:
    """Set every offline metric of the replay against every online metric of the scorecard."""
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


def matrix(case: Case) -> Iterator[MatrixCell]:
    """Return every metric of `METRICS` of both models on both traffics."""
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
        """The variance of their sum, not below zero.

        It is 2 Var(a) + 2 Var(b) - Var(b - a): on one traffic, models are paired.
        """
        return max(2 * self.baseline.variance + 2 * self.candidate.variance - self.difference, 0.0)


def decompositions(case: Case) -> Iterator[Decomposition]:
    """Split the logged difference of each metric of `METRICS` into model and traffic."""
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
    df = float(first.baseline.units + second.baseline.units - 2)

    def number(value: float, variance: float) -> tuple[float, float, float]:
        return (value, *effects.interval(value, math.sqrt(variance), df, case.alpha))

    own = (first.baseline, second.candidate)
    logged = own[1].value - own[0].value
    model = (
        first.candidate.value
        - first.baseline.value
        + second.candidate.value
        - second.baseline.value
    ) / 2
    return Decomposition(
        case.variant,
        metric,
        *number(logged, own[0].variance + own[1].variance),
        *number(model, (first.difference + second.difference) / 4),
        *number(logged - model, (first.total + second.total) / 4),
        reason=None,
    )


def _on(case: Case, metric: str, traffic: str) -> _Traffic | None:
    models = [case.estimate(metric, m, traffic) for m in (case.baseline, case.candidate)]
    pair = case.pair(metric, traffic)
    if models[0] is None or models[1] is None or pair is None or case.replay is None:
        return None
    paired = spread(pair.difference, pair.low, pair.high, pair.units, case.replay.alpha)
    return None if paired is None else _Traffic(models[0], models[1], paired.variance)


def position_rates(case: Case) -> Iterator[PositionRate]:
    """Return a click rate for each variant and position; nothing without positions."""
    rows = (case.facts or {}).get("positions")
    if rows is None:
        return
    shown = sorted(rows["position"].unique())[:DEEPEST]
    cells = dict(list(rows.groupby(["variant", "position"])))
    for variant in (case.control, case.variant):
        for position in (p for p in shown if (variant, p) in cells):
            columns = cells[variant, position][["clicks", "impressions"]]
            clicks, shows = columns.to_numpy(dtype=np.float64).T
            ends = case.number("", clusters.ratio(clicks, shows))
            counts = (int(shows.sum()), int(clicks.sum()))
            value = float(clicks.sum() / shows.sum())
            yield PositionRate(variant, int(position), *counts, value, ends.low, ends.high)
