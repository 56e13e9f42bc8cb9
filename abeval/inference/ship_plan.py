"""The size at which an experiment ends in ship as often as wanted, if its effect is true.

`power.py` calls it with the outlooks of all goals and guardrails; `shipping.py` simulates.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from abeval.aggregates.aggregates import Aggregates, BucketSums
from abeval.experiment.model import Experiment
from abeval.inference import power
from abeval.inference.looks import Planned, planned_fractions
from abeval.inference.outlook import MOST_DAYS, MOST_UNITS, Outlook, smallest
from abeval.inference.power import Target
from abeval.results.power import DecisionPlan
from abeval.stats.records import Floats, Refusal

LARGEST = 10.0
"""Largest relative effect that is tried."""


class _Case(NamedTuple):
    """What is decided on, and the draws it is decided by."""

    experiment: Experiment
    goals: tuple[Outlook, ...]
    guardrails: tuple[Outlook, ...]
    steps: Floats

    def odds(self, size: float, effects: Sequence[float]) -> power.Odds:
        """How often the experiment ends in each decision, at a size and effects on its goals."""
        gains = [e / one.error(size, e) for e, one in zip(effects, self.goals, strict=True)]
        margins = [(one.margin or 0.0) / one.error(size) for one in self.guardrails]
        variants = len(self.experiment.treatments)
        claims = power.Claims(gains, margins, variants)
        rule = self.rule(size)
        return power.odds(claims, rule, self.steps[: len(rule.fractions)])

    def rule(self, size: float) -> power.Rule:
        """How a decision at this size is made."""
        experiment, first = self.experiment, self.goals[0]
        weights = {choice.name: choice.weight or 1.0 for choice in experiment.metrics}
        looks = first.looks_at(size)
        return power.Rule(
            experiment.alpha,
            experiment.inference.family,
            [weights.get(one.metric.name, 1.0) for one in self.goals],
            cache(partial(first.critical, size)),
            looks.fractions if isinstance(looks, Planned) else (1.0,),
        )


def decision_plan(
    experiment: Experiment, aggregates: Aggregates, outlooks: Sequence[Outlook], target: Target
) -> DecisionPlan | None:
    """The plan for the verdict, None without a goal."""
    goals = tuple(one for one in outlooks if one.metric.role == "goal")
    guardrails = tuple(one for one in outlooks if one.metric.role == "guardrail")
    if not goals:
        return None
    inference = experiment.inference
    looks = len(planned_fractions(experiment)) if inference.looks == "group_sequential" else 1
    bare = DecisionPlan(
        goals=len(goals),
        guardrails=len(guardrails),
        family=inference.family,
        looks=looks,
        mde=target.mde,
        units=None,
        days=target.days,
        ship=None,
        ship_one=None,
        ship_none=None,
        stop_none=None,
        reason=None,
    )
    case = _Case(experiment, goals, guardrails, _draws(experiment, aggregates, outlooks, looks))
    try:
        return _planned(bare, case, target)
    except Refusal as refusal:
        return replace(bare, reason=str(refusal))


def _draws(
    experiment: Experiment, aggregates: Aggregates, outlooks: Sequence[Outlook], looks: int
) -> Floats:
    control, treatment = outlooks[0].shares
    shared = treatment / (control + treatment)
    ordered = sorted(outlooks, key=lambda one: one.metric.role != "goal")
    decided = [one for one in ordered if one.metric.role in ("goal", "guardrail")]
    correlation = _correlation(decided, aggregates)
    return power.draws(correlation, len(experiment.treatments), shared, looks)


def _correlation(outlooks: Sequence[Outlook], aggregates: Aggregates) -> Floats:
    """Of the estimates, each in its good direction, from sub-buckets of units.

    A metric without such sums is taken to be independent of the others.
    """
    size = len(outlooks)
    correlation = np.eye(size)
    for i in range(size):
        for j in range(i):
            correlation[i, j] = correlation[j, i] = _of_two(outlooks[i], outlooks[j], aggregates)
    return correlation


def _of_two(one: Outlook, other: Outlook, aggregates: Aggregates) -> float:
    sums = [aggregates.buckets.get(each.metric.name) for each in (one, other)]
    if sums[0] is None or sums[1] is None:
        return 0.0
    first, second = _residuals(sums[0]), _residuals(sums[1])
    if min(first.std(), second.std()) == 0:
        return 0.0
    signs = one.metric.direction.sign * other.metric.direction.sign
    return float(np.corrcoef(first, second)[0, 1]) * signs


def _residuals(sums: BucketSums) -> Floats:
    """What each bucket adds to the metric's value, beyond its share."""
    y, x = sums.sums[:, 0], sums.sums[:, 1]
    return np.asarray(y - y.sum() / x.sum() * x)


def _planned(bare: DecisionPlan, case: _Case, target: Target) -> DecisionPlan:
    if target.mde is None:
        size = case.goals[0].size_of(target.days)
        effect = _effect_for(case, size, target.power)
    else:
        effect = target.mde
        size = _size_for(case, effect, target.power)
    horizon = case.goals[0].at(size)
    days = size if case.goals[0].growth is not None else None
    size_known = replace(bare, units=horizon.units, days=days)
    none = case.odds(size, [0.0] * len(case.goals))
    if effect is None:
        most = case.odds(size, [LARGEST] * len(case.goals))
        return replace(
            size_known,
            ship=most.ship,
            ship_none=none.ship,
            stop_none=none.stop,
            reason="the guardrails hold too seldom at this size, whatever the goals gain",
        )
    every = case.odds(size, [effect] * len(case.goals))
    one = case.odds(size, [effect, *[0.0] * (len(case.goals) - 1)])
    return replace(
        size_known,
        mde=effect,
        ship=every.ship,
        ship_one=one.ship,
        ship_none=none.ship,
        stop_none=none.stop,
    )


def _size_for(case: _Case, effect: float, power: float) -> float:
    """The smallest size at which the effect ends in ship as often as wanted."""
    first, effects = case.goals[0], [effect] * len(case.goals)

    def ships(size: float) -> bool:
        return case.odds(size, effects).ship >= power

    return smallest(ships, first.size_of(None), MOST_UNITS if first.growth is None else MOST_DAYS)


def _effect_for(case: _Case, size: float, power: float) -> float | None:
    """The smallest effect that ends in ship as often as wanted, None where none does."""

    def ships(effect: float) -> bool:
        return case.odds(size, [effect] * len(case.goals)).ship >= power

    return smallest(ships, 0.1, LARGEST) if ships(LARGEST) else None
