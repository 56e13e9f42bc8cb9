"""How much an experiment like this one can see, and how long it needs: from its own logs.

`api/` calls it on collected aggregates and on the growth of units and spread by day
(`time/growth.py`), for `abeval power`. `ship_plan.py` plans the decision on all metrics.
"""

from collections.abc import Mapping, Sequence

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.model import Experiment
from abeval.inference import outlook, ship_plan
from abeval.inference.growth import Growth
from abeval.inference.outlook import MOST_DAYS, Outlook
from abeval.metrics.definition import Metric
from abeval.results.power import Plan, Plans
from abeval.stats import design
from abeval.stats.records import Refusal

_ROUNDS = 12
"""Of the boundary that follows from the size that follows from the boundary."""


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
    outlooks = outlook.outlooks_of(experiment, metrics, aggregates, growths)
    plans = tuple(_plan(experiment, one, target) for one in outlooks)
    decision = ship_plan.decision_plan(experiment, aggregates, outlooks, target)
    return Plans(experiment.alpha, power, experiment.inference.looks, plans, decision)


def _plan(experiment: Experiment, one: Outlook, target: outlook.Target) -> Plan:
    sought = target.days is None and target.mde is not None and one.growth is not None
    try:
        plan = _filled(experiment, one, target)
    except Refusal as refusal:
        ends = one.refusal is not None or refusal.reason != "not_applicable"
        reason = refusal.reason if ends or not sought else _too_long(experiment, one, target)
        return _without_size(one, target, reason)
    if sought and plan.days is not None and plan.days > MOST_DAYS:
        return _without_size(one, target, _too_long(experiment, one, target))
    return plan


def _too_long(experiment: Experiment, one: Outlook, target: outlook.Target) -> str:
    """That no reasonable length finds the effect, and which one the longest would find."""
    least = one.effect_at(MOST_DAYS, _reach(experiment, one, MOST_DAYS, target.power))
    return f"more than {MOST_DAYS:,.0f} days are needed; so many find {100 * least:.2g}%"


def _without_size(one: Outlook, target: outlook.Target, reason: str) -> Plan:
    """A plan that ends in no size: what the log has of the metric, and the reason."""
    return Plan(
        metric=one.metric.name,
        role=one.metric.role,
        baseline=None if one.refusal else one.seen.value,
        sd=None if one.refusal else one.seen.sd,
        mde=target.mde,
        units_control=None,
        units=None,
        days=target.days,
        reason=reason,
    )


def _filled(experiment: Experiment, one: Outlook, target: outlook.Target) -> Plan:
    """The size for an effect or a margin, or the effect and the margin for a size."""
    if target.mde is None:
        size = one.size_of(target.days)
        effect = one.effect_at(size, _reach(experiment, one, size, target.power))
    else:
        effect = one.margin if one.margin is not None else target.mde
        size = _size_for(experiment, one, effect, target.power)
    horizon = one.at(size)
    control, treatment = (horizon.units * share for share in outlook.shares(experiment))
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


def _size_for(experiment: Experiment, one: Outlook, effect: float, power: float) -> float:
    """The days, or without time the units, after which an effect is found with that power."""
    # A margin is held where there is no effect.
    true = 0.0 if one.margin is not None else effect
    size = one.size_for(effect / _reach_of(None, experiment, power), true)
    for _ in range(_ROUNDS):
        # The boundary without a plan rises with the information, which follows from it.
        size = one.size_for(effect / _reach(experiment, one, size, power), true)
    return size


def _reach(experiment: Experiment, one: Outlook, size: float, power: float) -> float:
    """Standard errors between nothing and an effect that is found with that power."""
    return _reach_of(outlook.critical(experiment, one, size, experiment.alpha), experiment, power)


def _reach_of(critical: float | None, experiment: Experiment, power: float) -> float:
    return design.mde_from_se(1.0, experiment.alpha, power, critical)
