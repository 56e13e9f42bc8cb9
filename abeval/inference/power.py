"""Plan an experiment by its own logs: each metric, and the decision.

The decision is simulated. Estimates are drawn from their joint normal distribution and judged by
the rule of `verdict.py`, and the size is sought at which they lead to ship often enough.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache, partial
from itertools import combinations
from typing import NamedTuple

import numpy as np

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.model import Experiment
from abeval.experiment.sections import Family
from abeval.inference import outlook
from abeval.inference.compare import Analysis
from abeval.inference.comparison import none_if_refused
from abeval.inference.families import list_goal_weights
from abeval.inference.looks import PlannedLooks, find_next_look, list_planned_fractions
from abeval.inference.outlook import MOST_DAYS, POWER, Growth, Outlook
from abeval.results.power import DecisionPlan, MetricOutlook, Plan, Plans, PowerOutlook
from abeval.stats.records import Bools, Floats, Refusal

DRAWS = 20_000
"""Simulated experiments per decision: the error of a rate is at most 0.35 points."""

# Largest relative effect that is tried.
_LARGEST = 10.0

# The curve of effects ends after this many times the days of the log.
_AHEAD = 3.0

# A target is at most this share of the effect that is detectable now.
_SMALLER = 0.8

_POINTS = 12


class Target(NamedTuple):
    """What to plan for: a relative effect or a number of days, and the power."""

    mde: float | None
    days: float | None
    power: float


def plan(analysis: Analysis, growths: Mapping[str, Growth], target: Target) -> Plans:
    """Plan each metric, and the decision, for an effect or a number of days.

    Without either, a plan has the effect that the units so far can find. Only means, ratios, goals
    and guardrails have plans. `growths` are of metrics whose days add up.
    """
    experiment = analysis.experiment
    outlooks = outlook.build_outlooks(analysis, growths, experiment.treatments[:1])
    bare = [_plan(row, target) for row in outlooks]
    pairs = zip(bare, outlooks, strict=True)
    plans = tuple(_add_clusters(bare_plan, row, analysis, target.power) for bare_plan, row in pairs)
    decision = _plan_decision(analysis, outlooks, target)
    return Plans(experiment.alpha, target.power, experiment.inference.looks, plans, decision)


def _plan(row: Outlook, target: Target) -> Plan:
    """Plan one metric: a size for an effect, or an effect for a size."""
    metric = row.metric
    bare = Plan(metric.name, metric.role, mde=target.mde, days=target.days, reason=row.refusal)
    if row.refusal is not None:
        return bare
    try:
        size, effect = _size_and_effect(row, target)
        horizon = row.horizon_at(size)
    except Refusal as refusal:
        reason: str = refusal.reason
        sought = target.days is None and target.mde is not None and row.growth is not None
        if sought and refusal.reason == "not_applicable":
            least = row.detectable(MOST_DAYS, target.power)
            most = f"{MOST_DAYS:,.0f}"
            reason = f"more than {most} days are needed; {most} find {100 * least:.2g}%"
        return replace(bare, baseline=row.control, sd=row.horizon_at(row.size).sd, reason=reason)
    control, treatment = (horizon.units * share for share in row.shares)
    return replace(
        bare,
        baseline=horizon.value,
        sd=horizon.sd,
        mde=effect,
        units_control=control,
        units=treatment,
        days=size if row.growth is not None else None,
    )


def _add_clusters(plan: Plan, row: Outlook, analysis: Analysis, power: float) -> Plan:
    """Add the number of clusters needed in the days of the log."""
    clustering = analysis.aggregates.clusters
    if clustering is None or clustering.slots or row.refusal is not None:
        return plan
    if not (effect := row.margin or plan.mde):
        return plan
    critical = row.critical(row.size, row.level)[-1]
    now = outlook.solve_detectable_effect(row.se, row.control, critical, 0.0, power)
    treated = outlook.compute_treated_share(row.experiment, row.metric, row.variant)
    needed = len(clustering.variant) * now**2 * (1 + effect * treated) / effect**2
    return replace(plan, mde=effect, clusters=needed)


def _size_and_effect(row: Outlook, target: Target) -> tuple[float, float]:
    if target.mde is None:
        size = row.days_to_size(target.days)
        return size, row.detectable(size, target.power)
    effect = target.mde if row.margin is None else row.margin
    # The first day of the log by whose end the effect could be found, if there is one.
    days = range(1, int(row.size) if row.growth is not None else 1)
    sufficient_days = (float(day) for day in days if row.detectable(day, target.power) <= effect)
    return row.size_for(effect, target.power, next(sufficient_days, None)), effect


class DecisionRule(NamedTuple):
    """How a simulated decision is made.

    Attributes:
        weights: Weight of each goal, for the weighted family.
        critical: Critical |z| of each look, for a test at a two-sided level.
        fractions: Information at each look over that at the end; the last is 1.
    """

    alpha: float
    family: Family
    weights: Sequence[float]
    critical: Callable[[float], Sequence[float]]
    fractions: Sequence[float] = (1.0,)


class Odds(NamedTuple):
    """Probability of each decision, taken at the first look that reaches one."""

    ship: float
    stop: float


class _DecisionCase(NamedTuple):
    """The goals, guardrails and random draws of a simulated decision."""

    experiment: Experiment
    goals: list[Outlook]
    guardrails: list[Outlook]
    steps: Floats

    def odds(self, size: float, *effects: float) -> Odds:
        """Return the odds at a size, with effects on the first goals only."""
        experiment, first = self.experiment, self.goals[0]
        every = [*effects, *[0.0] * (len(self.goals) - len(effects))]
        gains = [e / row.error(size, e) for e, row in zip(every, self.goals, strict=True)]
        margins = [(row.margin or 0.0) / row.error(size) for row in self.guardrails]
        looks = first.looks_at(size)
        rule = DecisionRule(
            experiment.alpha,
            experiment.inference.family,
            list_goal_weights(experiment, [row.metric.name for row in self.goals]),
            cache(partial(first.critical, size)),
            looks.fractions if isinstance(looks, PlannedLooks) else (1.0,),
        )
        return simulate_odds(gains, margins, rule, self.steps[: len(rule.fractions)])

    def ships(self, size: float, effect: float) -> float:
        """Return how often it ships, with the same effect on every goal."""
        return self.odds(size, *[effect] * len(self.goals)).ship


def _plan_decision(
    analysis: Analysis, outlooks: Sequence[Outlook], target: Target
) -> DecisionPlan | None:
    """Plan the verdict; None without a goal."""
    experiment, inference = analysis.experiment, analysis.experiment.inference
    goals = [row for row in outlooks if row.metric.role == "goal"]
    guardrails = [row for row in outlooks if row.metric.role == "guardrail"]
    if not goals:
        return None
    looks = len(list_planned_fractions(experiment)) if inference.looks == "group_sequential" else 1
    bare = DecisionPlan(
        goals=len(goals),
        guardrails=len(guardrails),
        family=inference.family,
        looks=looks,
        mde=target.mde,
        days=target.days,
    )
    control, treatment = outlooks[0].shares
    shared = treatment / (control + treatment)
    correlation = _correlate_estimates([*goals, *guardrails], analysis.aggregates)
    steps = draw_steps(correlation, len(experiment.treatments), shared, looks)
    try:
        return _fill_decision_plan(
            bare, _DecisionCase(experiment, goals, guardrails, steps), target
        )
    except Refusal as refusal:
        return replace(bare, reason=str(refusal))


def _fill_decision_plan(bare: DecisionPlan, case: _DecisionCase, target: Target) -> DecisionPlan:
    """Find the size that ships an effect with the target's power.

    If the target has days and no effect, find the smallest effect for these days.
    """
    first, effect, power = case.goals[0], target.mde, target.power
    if effect is None:
        size = first.days_to_size(target.days)
        if case.ships(size, _LARGEST) >= power:
            effect = outlook.seek_smallest_number(
                lambda e: case.ships(size, e) >= power, 0.1, _LARGEST
            )
    else:
        most = outlook.MOST_UNITS if first.growth is None else MOST_DAYS
        ships = partial(case.ships, effect=effect)
        size = outlook.seek_smallest_number(
            lambda size: ships(size) >= power, first.days_to_size(None), most
        )
    none, days = case.odds(size), bare.days if first.growth is None else size
    sized = replace(bare, units=first.horizon_at(size).units, days=days)
    sized = replace(sized, ship_none=none.ship, stop_none=none.stop)
    if effect is None:
        reason = "the guardrails hold too seldom at this size, whatever the goals gain"
        return replace(sized, ship=case.ships(size, _LARGEST), reason=reason)
    ship, ship_one = case.ships(size, effect), case.odds(size, effect).ship
    return replace(sized, mde=effect, ship=ship, ship_one=ship_one)


def _correlate_estimates(outlooks: Sequence[Outlook], aggregates: Aggregates) -> Floats:
    """Correlate the estimates over sub-buckets, each in its good direction.

    A metric without sums by bucket is taken as independent of the others.
    """
    correlation = np.eye(len(outlooks))
    residuals = {
        index: row.metric.direction.sign * aggregates.buckets[row.metric.name].deviations
        for index, row in enumerate(outlooks)
        if row.metric.name in aggregates.buckets
    }
    for first, second in combinations(
        [index for index, values in residuals.items() if values.any()], 2
    ):
        of_two = np.corrcoef(residuals[second], residuals[first])[0, 1]
        correlation[second, first] = correlation[first, second] = of_two
    return correlation


def draw_steps(
    correlation: Floats, variants: int, shared: float, looks: int, seed: int = 0
) -> Floats:
    """Draw standard normal steps of the estimates.

    Returns shape (looks, DRAWS, variants, metrics). `correlation` is of the metrics, goals first,
    each in its good direction. `shared` is the correlation of two variants' effects on one metric.
    """
    # Effects of two variants correlate by the control that they share.
    between = np.full((variants, variants), shared) + (1 - shared) * np.eye(variants)
    joint = np.kron(between, correlation)
    values, vectors = np.linalg.eigh(joint)
    # Matrix square root; rounding may leave eigenvalues just below 0.
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    normal = np.random.default_rng(seed).standard_normal((looks, DRAWS, len(joint)))
    return np.asarray((normal @ root.T).reshape(looks, DRAWS, variants, len(correlation)))


def simulate_odds(
    gains: Sequence[float], margins: Sequence[float], rule: DecisionRule, steps: Floats
) -> Odds:
    """Simulate how often the first variant is shipped, and how often it is stopped.

    `gains` are the true gains of goals, `margins` the margins of guardrails, both in standard
    errors at the end. Guardrails do not move, and no variant but the first differs from control.
    """
    fractions = np.asarray(rule.fractions)
    # Brownian motion, seen at the information fractions of the looks.
    paths = np.cumsum(steps * np.sqrt(np.diff(fractions, prepend=0.0))[:, None, None, None], axis=0)
    goals, variants = len(gains), steps.shape[2]
    ended = np.zeros(DRAWS, dtype=np.int8)
    for look, fraction in enumerate(fractions):
        z = paths[look] / np.sqrt(fraction)
        z[:, 0, :goals] += np.asarray(gains) * np.sqrt(fraction)
        proven = _test_family(np.abs(z[:, :, :goals]).reshape(DRAWS, variants * goals), rule, look)
        proven_goals = proven[:, :goals]
        better = proven_goals & (z[:, 0, :goals] > 0)
        harmed = (proven_goals & (z[:, 0, :goals] < 0)).any(axis=1)
        reach = np.asarray(margins) * np.sqrt(fraction)
        held, worse = _test_guardrails(z[:, 0, goals:], reach, rule, look)
        stop = harmed | worse
        ship = better.any(axis=1) & held & ~stop
        # 1 where it is shipped, 2 where it is stopped.
        ended = np.where(ended > 0, ended, ship + 2 * stop)
    return Odds(float((ended == 1).mean()), float((ended == 2).mean()))


def _test_guardrails(
    z: Floats, margins: Floats, rule: DecisionRule, look: int
) -> tuple[Bools, Bools]:
    """Tell whether all guardrails hold, and whether any is worse (Holm)."""
    held = z > rule.critical(rule.alpha)[look] - margins
    family: Family = "none" if rule.family == "none" else "holm"
    proven = _test_family(np.abs(z), rule._replace(family=family), look)
    better = proven & (z > 0)
    worse = proven & (z < 0) & ~held
    return np.asarray((held | better).all(axis=1)), np.asarray(worse.any(axis=1))


def _test_family(z: Floats, rule: DecisionRule, look: int) -> Bools:
    """Tell which tests of a family reject, shape (draws, tests).

    Hommel is simulated as Hochberg, and Dunnett as Holm, which reject no more than they do.
    """
    size, alpha, ranks = z.shape[1], rule.alpha, np.arange(z.shape[1])
    match rule.family:
        case "none":
            levels = np.full(size, alpha)
        case "bonferroni":
            levels = np.full(size, alpha / size)
        case "weighted":
            weights = np.tile(rule.weights, size // max(len(rule.weights), 1))
            levels = alpha * weights / weights.sum()
        case "bh" | "by":
            shrink = 1.0 if rule.family == "bh" else float(np.sum(1 / (ranks + 1)))
            levels = alpha * (ranks + 1) / size / shrink
        case _:
            levels = alpha / (size - ranks)
    limits = [rule.critical(float(level))[look] for level in levels]
    if rule.family in ("none", "bonferroni", "weighted"):
        return np.asarray(z >= limits)
    # Step-down methods go from the largest |z|, step-up ones from the smallest.
    order = np.argsort(-z, axis=1)
    passed = np.take_along_axis(z, order, axis=1) >= limits
    if rule.family in ("holm", "dunnett"):
        rejected = np.logical_and.accumulate(passed, axis=1)
    else:
        rejected = np.logical_or.accumulate(passed[:, ::-1], axis=1)[:, ::-1]
    back = np.empty_like(rejected)
    np.put_along_axis(back, order, rejected, axis=1)
    return back


def predict_power(analysis: Analysis, growths: Mapping[str, Growth]) -> PowerOutlook:
    """Predict what goals and guardrails can detect, now and after more days."""
    experiment = analysis.experiment
    judging = [metric for metric in analysis.metrics if metric.role != "diagnostic"]
    of_judging = replace(analysis, metrics=judging)
    outlooks = outlook.build_outlooks(of_judging, growths, experiment.treatments)
    planned = None
    if experiment.period is not None:
        start, end = experiment.period.bounds
        planned = (end - start) / timedelta(days=1)
    rows = tuple(_predict_metric_power(row, planned) for row in outlooks)
    look = find_next_look(experiment, outlooks[0].looks if outlooks else None)
    return PowerOutlook(experiment.alpha, POWER, rows, planned_days=planned, next_look=look)


def _predict_metric_power(row: Outlook, planned: float | None) -> MetricOutlook:
    name, variant = row.metric.name, row.variant
    days = None if row.growth is None else row.size
    try:
        mde = row.detectable(row.size)
    except Refusal as refusal:
        return MetricOutlook(name, days, None, (), None, None, refusal.reason, variant)
    target = row.margin or _round_effect(_SMALLER * mde)
    # Beyond what is planned there is neither a size nor its units.
    size = none_if_refused(lambda: row.size_for(target))
    units = None if size is None else row.horizon_at(size).units
    if days is None:
        return MetricOutlook(name, None, mde, (), target, None, "no_time", variant, units)
    # One day alone does not say how the log goes on.
    seen = {
        at: none_if_refused(partial(row.detectable, at)) for at in _list_curve_days(days, planned)
    }
    points = tuple((at, effect) for at, effect in seen.items() if effect)
    return MetricOutlook(name, days, mde, points, target, size, None, variant, units)


def _list_curve_days(days: float, planned: float | None) -> list[float]:
    """List days for the curve, with today and the planned end."""
    step = max(1, math.ceil(_AHEAD * days / _POINTS))
    ends = [] if planned is None else [planned]
    return sorted({*map(float, range(step, int(_AHEAD * days) + 1, step)), days, *ends})


def _round_effect(effect: float) -> float:
    """Return the largest of 1, 2 or 5 times a power of ten that is at most an effect.

    Example:
        >>> _round_effect(0.072), _round_effect(0.0199)
        (0.05, 0.01)
    """
    power = 10.0 ** math.floor(math.log10(effect))
    step = max(step for step in (1.0, 2.0, 5.0) if step * power <= effect * (1 + 1e-9))
    return float(f"{step * power:.6g}")
