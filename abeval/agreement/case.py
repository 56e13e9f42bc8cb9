"""Describe one variant against control, and how a cause is checked on it.

A cause is a `CauseCheck`: a pure function from a `CauseContext` to a `Finding`, and its table in
`causes/causes.toml`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from abeval.agreement.clusters import compute_p_above
from abeval.agreement.levels import Levels
from abeval.agreement.standing import find_sign, orient_offline
from abeval.experiment.model import Experiment
from abeval.experiment.sections import AgreementColumns
from abeval.results import codes
from abeval.results.agreement import AgreementRow, Backtest, Evidence
from abeval.results.analysis import Result
from abeval.results.effects import Row
from abeval.results.format import join_items
from abeval.results.replay import PairRow, ReplayResult, ReplayRow
from abeval.stats import effects
from abeval.stats.distributions import quantile
from abeval.stats.records import Estimate, Floats

Frames = Mapping[str, pd.DataFrame]
"""Name of a query in `queries/agreement/` → its rows."""

COLUMNS = ""
"""Among the frames of the facts: one without rows, whose columns are those that the logs have."""

_IN_WORDS: Mapping[str, str] = {
    "baseline": "scores of both models ([models])",
    "candidate": "scores of both models ([models])",
    "day": "ts",
    "training": "[logs.training]",
    "training_policy": "item_id and policy in [logs.training]",
    "training_scores": "the candidate's score and clicks in [logs.training]",
    **{name: f"[agreement] {name}" for name in AgreementColumns.model_fields},
}
"""Column of `agreement_rows` → what a user calls it, where that differs."""


def name_needs(columns: Iterable[str]) -> tuple[str, ...]:
    """Return what a user calls columns, each name once.

    Several columns may have one name.
    """
    return tuple(dict.fromkeys(_IN_WORDS.get(name, name) for name in columns))


@dataclass(frozen=True)
class CauseContext:
    """One variant against control, with all that is known of both.

    A cause may have moved the models' difference offline or the effect online. The `closed_…`
    methods say which share of the gap between the two closes without it, from 0 to 1, so that
    causes of either kind can be ranked together; None where nobody can say.

    Attributes:
        baseline: The model of control; empty where it names none.
        candidate: The model of the variant.
        replay: Both models on the log; None without two models.
        backtests: Off-policy estimates of the variant and of control from each other's log.
        experiment: Its file, for causes that read its entries; None of two results alone.
        facts: Rows of the queries that the logs allow; None where no log was read.
        gap: The offline and the online result that are explained; None where there are none.
        levels: Lifts between promise and outcome, or why nobody knows them; None without logs.
    """

    control: str
    variant: str
    baseline: str
    candidate: str
    alpha: float
    result: Result
    replay: ReplayResult | None
    backtests: tuple[Backtest, ...] = ()
    experiment: Experiment | None = None
    facts: Frames | None = None
    gap: AgreementRow | None = None
    levels: Levels | str | None = None

    @cached_property
    def _pairs(self) -> dict[tuple[str, str], PairRow]:
        rows = () if self.replay is None else self.replay.pairs
        compared = (r for r in rows if (r.control, r.model) == (self.baseline, self.candidate))
        return {(row.metric, row.traffic): row for row in compared}

    @property
    def served_models(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Return control and its model, the variant and its model."""
        return (self.control, self.baseline), (self.variant, self.candidate)

    def pair(self, metric: str, traffic: str) -> PairRow | None:
        """Return candidate minus baseline on one traffic.

        None if the replay does not have it.
        """
        return self._pairs.get((metric, traffic))

    def find_replay_row(self, metric: str, model: str, traffic: str) -> ReplayRow | None:
        """Return a model's value on one traffic; None if the replay does not have it."""
        rows = () if self.replay is None else self.replay.rows
        key = (metric, model, traffic)
        return next((row for row in rows if (row.metric, row.model, row.traffic) == key), None)

    def estimate(self, metric: str, model: str, traffic: str) -> Estimate | None:
        """Return a model's value on one traffic with its variance.

        None without an interval.
        """
        row = self.find_replay_row(metric, model, traffic)
        if row is None or self.replay is None:
            return None
        return spread(row.value, row.low, row.high, row.units, self.replay.alpha)

    def difference(self, metric: str, traffic: str) -> Estimate | None:
        """Return candidate minus baseline with its variance; None without an interval."""
        pair = self.pair(metric, traffic)
        if pair is None or self.replay is None:
            return None
        return spread(pair.difference, pair.low, pair.high, pair.units, self.replay.alpha)

    def rows(self, query: str) -> pd.DataFrame:
        """Return the rows of a query that the cause has named."""
        return (self.facts or {})[query]

    def number(self, name: str, estimate: Estimate | None, where: str = "") -> Evidence:
        """Return a number with its interval as evidence."""
        if estimate is None:
            return Evidence(name, None, where=where)
        se = float(np.sqrt(estimate.variance))
        ends = effects.compute_interval(estimate.value, se, estimate.df, self.alpha)
        return Evidence(name, estimate.value, *ends, where=where)

    def sides(self, name: str, control: Estimate, variant: Estimate) -> tuple[Evidence, Evidence]:
        """Return a number of control and of the variant as evidence."""
        return self.number(name, control, self.control), self.number(name, variant, self.variant)

    @cached_property
    def online(self) -> Row | None:
        """Find the scorecard's row of the online metric that is explained."""
        if self.gap is None:
            return None
        rows = (row for row in self.result.scorecard if row.variant == self.variant)
        return next((row for row in rows if row.metric == self.gap.online), None)

    @property
    def sign(self) -> int:
        """Return -1 where less of the online metric is better, at its values, else 1."""
        row = self.online
        return 1 if row is None else find_sign(row.direction, row.control or 0.0)

    @property
    def offline_sign(self) -> int:
        """Return the sign of the offline difference on control's traffic.

        It is 1 where the candidate is better, -1 where worse, else 0.
        """
        if self.gap is None:
            return 0
        return orient_offline(self.pair(self.gap.offline, self.control)).sign

    @property
    def _standing(self) -> str:
        """Return how offline and online stand to each other, such as `conflict`."""
        return "" if self.gap is None else self.gap.standing

    def closed_offline(self, before: float, without: float) -> float | None:
        """Return the share that closes if a difference offline becomes `without`.

        Without the cause the difference is `without`, with it `before`.

        Both differences are of a metric of which more is better.
        """
        # Where only online differs, nobody can say how far the gap closes, but only a move towards
        # the sign online closes it.
        if self.gap is not None and self._standing == "online only":
            return None if (without - before) * (self.gap.online_strength or 0.0) > 0 else 0.0
        # Where offline differs, the gap closes as the difference reaches zero.
        differs = self._standing in ("conflict", "offline only")
        return _clip_share(without - before, -before) if differs else None

    def closed_online(self, before: float, without: float) -> float | None:
        """Return the share that closes if an effect online is not `before` but `without`."""
        before, without = self.sign * before, self.sign * without
        # Where only online differs, the gap closes as the effect reaches zero.
        if self._standing == "online only":
            return _clip_share(without - before, -before)
        if self._standing not in ("conflict", "offline only"):
            return None
        # Where offline differs, it closes as the effect reaches the sign of the models there.
        return _clip_share(
            without - before, without if without * self.offline_sign > 0 else -before
        )

    def closed_by_rates(self, before: Floats, without: Floats) -> float | None:
        """Return the share that closes if click rates become `without`.

        Rates are control's, then the variant's; with the cause they are `before`.
        """
        # A lift needs rates above zero; more clicks are no gain where less of the metric is better.
        if self.online is None or self.sign < 0 or min(before[0], without[0]) <= 0:
            return None
        lifts = (float(rates[1] / rates[0] - 1) for rates in (before, without))
        return self.closed_online(*lifts)

    def closed_without(self, points: float) -> float | None:
        """Return the share that closes if the lift of clicks does not change by `points`."""
        if self.online is None or self.sign < 0 or self.online.lift is None:
            return None
        return self.closed_online(self.online.lift, self.online.lift - points)

    def closed_by_auc(self, change: float) -> float | None:
        """Return the share that closes if the models' AUC differs by `change` more."""
        pair = None if self.gap is None else self.pair("auc", self.control)
        if pair is None or pair.difference is None:
            return None
        return self.closed_offline(pair.difference, pair.difference + change)


def _clip_share(moved: float, total: float) -> float:
    """Return the share from 0 to 1 of a change in the direction of `total`.

    Example:
        >>> _clip_share(0.5, 2.0), _clip_share(3.0, 2.0), _clip_share(-1.0, 2.0)
        (0.25, 1.0, 0.0)
    """
    return min(max(moved / total, 0.0), 1.0) if total else 0.0


def spread(
    value: float | None, low: float | None, high: float | None, units: int, alpha: float
) -> Estimate | None:
    """Return an estimate from its interval.

    The interval is by t with `units - 1` degrees of freedom.

    Example:
        >>> round(spread(1.0, 0.0, 2.0, 1_000_000, 0.05).variance, 4)
        0.2603
    """
    if value is None or low is None or high is None or units < 2:
        return None
    # Half of an interval by t is the standard error times the quantile.
    half = (high - low) / 2 / quantile(1 - alpha / 2, units - 1.0)
    return Estimate(value, half * half, units, units - 1.0)


class Finding(NamedTuple):
    """What a cause's function says, before Holm over all causes.

    `exceeds` says whether its deciding number passes the threshold. `p_value`, that there is
    nothing of it, is None where it is no test but a fact. `accounts_for` is the share of the gap
    that closes without it; `remedy` says what to do, where that depends on what was seen. `points`
    is what it changes of the online lift, where the cause itself can tell.
    """

    exceeds: bool
    message: str
    evidence: tuple[Evidence, ...]
    p_value: float | None = None
    accounts_for: float | None = None
    remedy: str = ""
    points: Estimate | None = None


def find_above(
    number: Estimate, limit: float, message: str, *evidence: Evidence, tests: int = 1
) -> Finding:
    """Return what a number says that is a sign of its cause above a limit.

    It is the largest of some `tests`.
    """
    p_value = min(1.0, compute_p_above(number, limit) * tests)
    return Finding(number.value > limit, message, evidence, p_value)


class Unchecked(NamedTuple):
    """Why a cause cannot be checked on this case, and what would make it checkable."""

    message: str
    needs: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class CauseCheck:
    """Check one cause by its function and its table of `causes/causes.toml`.

    The function takes a case and the limits; it returns None where the cause is `unknown`.
    """

    name: str
    function: Callable[..., Finding | Unchecked | None]
    reason: str
    limits: Sequence[float] = ()
    remedy: str = ""
    queries: Sequence[str] = ()
    columns: Sequence[str] = ()
    shows: str = ""
    unknown: str = ""
    needs: Sequence[str] = ()

    def judge(self, case: CauseContext) -> Finding | Unchecked:
        """Say what the cause is to a case, or why nobody can."""
        title = codes.describe_code(self.name).capitalize()
        if self.queries and case.facts is None:
            message = f"{title}: the logs would show {self.shows}"
            return Unchecked(message, ("the logs (abeval agree)",))
        has = (case.facts or {}).get(COLUMNS)
        if missing := [n for n in self.needed_columns if has is not None and n not in has]:
            needs = name_needs(missing)
            return Unchecked(f"{title}: {join_items(needs)} would show {self.shows}", needs)
        if finding := self.function(case, *self.limits):
            return finding
        unknown, *needed = (text.format(*self.limits) for text in (self.unknown, *self.needs))
        # A column without values is still needed, where the log lacks no other.
        lacks = [name for name in needed if has is None or name not in has]
        return Unchecked(unknown, name_needs(lacks or needed))

    @property
    def needed_columns(self) -> tuple[str, ...]:
        """Return the columns of `agreement_rows` that the queries need."""
        # Every query over the rows reads clicks.
        return (*self.columns, *(("click",) if self.queries else ()))
