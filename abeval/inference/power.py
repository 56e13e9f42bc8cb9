"""How much an experiment like this one can see, and how long it needs: from its own logs.

`api/` calls it on collected aggregates and on the growth of units and spread by day
(`time/growth.py`), for `abeval power`. `ship_plan.py` plans the decision on all metrics.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from abeval.aggregates.aggregates import Aggregates, BucketSums
from abeval.experiment.model import Experiment
from abeval.experiment.sections import Family
from abeval.inference import outlook
from abeval.inference.looks import Planned, planned_fractions
from abeval.inference.outlook import (
    MOST_DAYS,
    MOST_UNITS,
    POWER,
    Growth,
    Outlook,
    outlooks_of,
    smallest,
)
from abeval.metrics.definition import Metric
from abeval.results.power import DecisionPlan, MetricOutlook, Plan, Plans, PowerOutlook
from abeval.stats.records import Bools, Floats, Refusal

DRAWS = 20_000
"""Simulated experiments; their error is at most .35 points."""

Critical = Callable[[float], Sequence[float]]
"""The critical |z| at each look of a test at a two-sided level."""


class Rule(NamedTuple):
    """What a decision goes by.

    Attributes:
        alpha: Two-sided level.
        family: Correction over goals × variants.
        weights: Of each goal, for the weighted family.
        critical: Critical values.
        fractions: Information at each look over that at the end, which is the last.
    """

    alpha: float
    family: Family
    weights: Sequence[float]
    critical: Critical
    fractions: Sequence[float] = (1.0,)


class Claims(NamedTuple):
    """The metrics of a decision at one size, in standard errors of their estimates at the end.

    Attributes:
        goals: True gain of each goal.
        margins: Margin of each guardrail, none of which moves.
        variants: Variants beside control; no other than the first differs from it.
    """

    goals: Sequence[float]
    margins: Sequence[float]
    variants: int = 1


class Odds(NamedTuple):
    """How often an experiment ends in each decision, the first that a look brings."""

    ship: float
    stop: float


def draws(correlation: Floats, variants: int, shared: float, looks: int, seed: int = 0) -> Floats:
    """Standard normal steps of the estimates, shape (looks, DRAWS, variants, metrics).

    Args:
        correlation: Of the metrics, goals first, each in its good direction.
        variants: Variants beside control.
        shared: Correlation of two variants' effects on one metric, by the control they share.
        looks: Looks.
        seed: Of the draws.
    """
    size = len(correlation)
    between = np.full((variants, variants), shared) + (1 - shared) * np.eye(variants)
    joint = np.kron(between, correlation)
    values, vectors = np.linalg.eigh(joint)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    normal = np.random.default_rng(seed).standard_normal((looks, DRAWS, variants * size))
    return np.asarray((normal @ root.T).reshape(looks, DRAWS, variants, size))


def odds(claims: Claims, rule: Rule, steps: Floats) -> Odds:
    """How often the first variant is shipped, and how often it is stopped.

    Args:
        claims: Its metrics.
        rule: How it is judged.
        steps: As of `draws`.
    """
    fractions = np.asarray(rule.fractions)
    paths = np.cumsum(steps * np.sqrt(np.diff(fractions, prepend=0.0))[:, None, None, None], axis=0)
    goals, variants = len(claims.goals), claims.variants
    shipped = np.zeros(DRAWS, dtype=bool)
    stopped = np.zeros(DRAWS, dtype=bool)
    for look, fraction in enumerate(fractions):
        z = paths[look] / np.sqrt(fraction)
        z[:, 0, :goals] += np.asarray(claims.goals) * np.sqrt(fraction)
        proven = _family(np.abs(z[:, :, :goals]).reshape(DRAWS, variants * goals), rule, look)
        own = proven[:, :goals]
        better = own & (z[:, 0, :goals] > 0)
        harmed = (own & (z[:, 0, :goals] < 0)).any(axis=1)
        margins = np.asarray(claims.margins) * np.sqrt(fraction)
        held, worse = _guardrails(z[:, 0, goals:], margins, rule, look)
        stop = harmed | worse
        ship = better.any(axis=1) & held & ~stop
        open_still = ~(shipped | stopped)
        shipped |= open_still & ship
        stopped |= open_still & stop
    return Odds(float(shipped.mean()), float(stopped.mean()))


def _guardrails(z: Floats, margins: Floats, rule: Rule, look: int) -> tuple[Bools, Bools]:
    """Whether all guardrails hold, and whether one is worse (Holm over them)."""
    if not z.shape[1]:
        return np.ones(DRAWS, dtype=bool), np.zeros(DRAWS, dtype=bool)
    held = z > rule.critical(rule.alpha)[look] - margins
    family: Family = "none" if rule.family == "none" else "holm"
    proven = _family(np.abs(z), rule._replace(family=family), look)
    better = proven & (z > 0)
    worse = proven & (z < 0) & ~held
    return np.asarray((held | better).all(axis=1)), np.asarray(worse.any(axis=1))


def _family(z: Floats, rule: Rule, look: int) -> Bools:
    """Which tests of a family reject, shape (draws, tests).

    Hommel's procedure rejects at least what Hochberg's does, and Dunnett's what Holm's does at one
    variant; they are simulated as those.
    """
    size, alpha = z.shape[1], rule.alpha
    ranks = np.arange(size)
    match rule.family:
        case "none":
            return np.asarray(z >= rule.critical(alpha)[look])
        case "bonferroni":
            return np.asarray(z >= rule.critical(alpha / size)[look])
        case "weighted":
            weights = np.tile(rule.weights, size // max(len(rule.weights), 1))
            levels = alpha * weights / weights.sum()
            return np.asarray(z >= [rule.critical(float(level))[look] for level in levels])
        case "bh" | "by":
            shrink = 1.0 if rule.family == "bh" else float(np.sum(1 / (ranks + 1)))
            levels = alpha * (ranks + 1) / size / shrink
        case _:
            levels = alpha / (size - ranks)
    order = np.argsort(-z, axis=1)
    limits = [rule.critical(float(level))[look] for level in levels]
    passed = np.take_along_axis(z, order, axis=1) >= limits
    if rule.family in ("holm", "dunnett"):
        rejected = np.logical_and.accumulate(passed, axis=1)
    else:
        rejected = np.logical_or.accumulate(passed[:, ::-1], axis=1)[:, ::-1]
    back = np.empty_like(rejected)
    np.put_along_axis(back, order, rejected, axis=1)
    return back


LARGEST = 10.0
"""Largest relative effect that is tried."""


class _Case(NamedTuple):
    """What is decided on, and the draws it is decided by."""

    experiment: Experiment
    goals: tuple[Outlook, ...]
    guardrails: tuple[Outlook, ...]
    steps: Floats

    def odds(self, size: float, effects: Sequence[float]) -> Odds:
        """How often the experiment ends in each decision, at a size and effects on its goals."""
        gains = [e / one.error(size, e) for e, one in zip(effects, self.goals, strict=True)]
        margins = [(one.margin or 0.0) / one.error(size) for one in self.guardrails]
        variants = len(self.experiment.treatments)
        claims = Claims(gains, margins, variants)
        rule = self.rule(size)
        return odds(claims, rule, self.steps[: len(rule.fractions)])

    def rule(self, size: float) -> Rule:
        """How a decision at this size is made."""
        experiment, first = self.experiment, self.goals[0]
        weights = {choice.name: choice.weight or 1.0 for choice in experiment.metrics}
        looks = first.looks_at(size)
        return Rule(
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
    return draws(correlation, len(experiment.treatments), shared, looks)


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
        size = _size_to_ship(case, effect, target.power)
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


def _size_to_ship(case: _Case, effect: float, power: float) -> float:
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


def plan(
    experiment: Experiment,
    metrics: Sequence[Metric],
    aggregates: Aggregates,
    growths: Mapping[str, Growth],
    mde: float | None,
    days: float | None,
    power: float,
) -> Plans:
    """Plan each metric for a relative effect, or for a number of days; and the decision on them.

    Args:
        experiment: Its variants' weights give the split, its `[inference]` the method.
        metrics: Means and ratios, goals and guardrails; of other metrics there is no plan.
        aggregates: What the logs add up to.
        growths: Units and spread by day, of metrics whose days add up.
        mde: Relative effect to find; the days follow from it.
        days: Length of the experiment; the effect follows from it. Without either, the effect
            that the units seen so far can find.
        power: Wanted probability of finding it, and of shipping.
    """
    target = outlook.Target(mde, days, power)
    first = experiment.treatments[:1]
    outlooks = outlook.outlooks_of(experiment, metrics, aggregates, growths, first)
    plans = tuple(_plan(one, target) for one in outlooks)
    decision = decision_plan(experiment, aggregates, outlooks, target)
    return Plans(experiment.alpha, power, experiment.inference.looks, plans, decision)


def _plan(one: Outlook, target: outlook.Target) -> Plan:
    sought = target.days is None and target.mde is not None and one.growth is not None
    try:
        return _filled(one, target)
    except Refusal as refusal:
        reason: str = refusal.reason
        if sought and one.refusal is None and refusal.reason == "not_applicable":
            least = one.detectable(MOST_DAYS, target.power)
            reason = f"more than {MOST_DAYS:,.0f} days are needed; so many find {100 * least:.2g}%"
    known = one.refusal is None
    return Plan(
        metric=one.metric.name,
        role=one.metric.role,
        baseline=one.control if known else None,
        sd=one.at(one.size).sd if known else None,
        mde=target.mde,
        units_control=None,
        units=None,
        days=target.days,
        reason=reason,
    )


def _first(one: Outlook, effect: float, power: float) -> float | None:
    """The first day of the log by whose end the effect could be found; None where none is."""
    days = range(1, int(one.size) if one.growth is not None else 1)
    return next((float(day) for day in days if one.detectable(day, power) <= effect), None)


def _filled(one: Outlook, target: outlook.Target) -> Plan:
    """The size for an effect or a margin, or the effect and the margin for a size."""
    if target.mde is None:
        size = one.size_of(target.days)
        effect = one.detectable(size, target.power)
    else:
        effect = target.mde if one.margin is None else one.margin
        size = one.size_for(effect, target.power, _first(one, effect, target.power))
    horizon = one.at(size)
    control, treatment = (horizon.units * share for share in one.shares)
    return Plan(
        metric=one.metric.name,
        role=one.metric.role,
        baseline=horizon.value,
        sd=horizon.sd,
        mde=effect,
        units_control=control,
        units=treatment,
        days=size if one.growth is not None else None,
        reason=None,
    )


_AHEAD = 3.0
"""The curve of effects against days ends after so many times the days of the log."""

_SMALLER = 0.8
"""A target is at most this share of the effect that can be seen now."""

_POINTS = 12


def power_outlook(
    experiment: Experiment,
    metrics: Sequence[Metric],
    aggregates: Aggregates,
    growths: Mapping[str, Growth],
) -> PowerOutlook:
    """The outlook of each goal and guardrail in each variant."""
    judging = [metric for metric in metrics if metric.role != "diagnostic"]
    outlooks = outlooks_of(experiment, judging, aggregates, growths, experiment.treatments)
    planned = _planned_days(experiment)
    return PowerOutlook(
        experiment.alpha,
        POWER,
        tuple(_metric(one, planned) for one in outlooks),
        planned_days=planned,
        next_look=_next_look(experiment, outlooks),
    )


def _planned_days(experiment: Experiment) -> float | None:
    if experiment.period is None:
        return None
    start, end = experiment.period.bounds
    return (end - start) / timedelta(days=1)


def _next_look(experiment: Experiment, outlooks: Sequence[Outlook]) -> str | None:
    """The next of the planned looks: its local day, or the units at which it is."""
    looks = outlooks[0].looks if outlooks else None
    if not isinstance(looks, Planned):
        return None
    share = next((one for one in outlooks[0].planned if one > looks.shares[-1]), None)
    if share is None:
        return None
    if experiment.inference.planned_units is not None:
        return f"{math.ceil(share * experiment.inference.planned_units):,} units"
    if experiment.period is None:
        return None
    start, end = experiment.period.bounds
    return str((start + share * (end - start)).date())


def _metric(one: Outlook, planned: float | None) -> MetricOutlook:
    name, variant = one.metric.name, one.variant
    days = None if one.growth is None else one.size
    try:
        mde = one.detectable(one.size)
    except Refusal as refusal:
        return MetricOutlook(name, days, None, (), None, None, refusal.reason, variant)
    target = one.margin or round_effect(_SMALLER * mde)
    size, units = _size_for(one, target)
    if days is None:
        return MetricOutlook(name, None, mde, (), target, None, "no_time", variant, units)
    points = tuple((size, seen) for size in _sizes(days, planned) if (seen := _seen(one, size)))
    return MetricOutlook(name, days, mde, points, target, size, None, variant, units)


def _size_for(one: Outlook, target: float) -> tuple[float | None, float | None]:
    """Days, or units, until an effect can be seen, and units then; None beyond what is planned."""
    try:
        size = one.size_for(target)
        return size, one.at(size).units
    except Refusal:
        return None, None


def _seen(one: Outlook, size: float) -> float | None:
    """The effect at a size; None where one day does not say how the log goes on."""
    try:
        return one.detectable(size)
    except Refusal:
        return None


def _sizes(days: float, planned: float | None) -> list[float]:
    """Whole days from the first to some times those of the log, with today and the planned end."""
    step = max(1, math.ceil(_AHEAD * days / _POINTS))
    ends = [] if planned is None else [planned]
    return sorted({*map(float, range(step, int(_AHEAD * days) + 1, step)), days, *ends})


def round_effect(effect: float) -> float:
    """The largest of 1, 2 or 5 times a power of ten that is at most an effect.

    Example:
        >>> round_effect(0.072), round_effect(0.0199)
        (0.05, 0.01)
    """
    power = 10.0 ** math.floor(math.log10(effect))
    step = max(step for step in (1.0, 2.0, 5.0) if step * power <= effect * (1 + 1e-9))
    return float(f"{step * power:.6g}")
