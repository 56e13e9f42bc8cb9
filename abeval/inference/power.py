"""How much an experiment like this one can see, and how long it needs: from its own logs.

`api/` calls it on collected aggregates and on the growth of units and spread by day
(`time/growth.py`), for `abeval power`. `ship_plan.py` plans the decision on all metrics.
"""

from collections.abc import Mapping, Sequence

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.model import Experiment
from abeval.inference import outlook
from abeval.inference.outlook import MOST_DAYS, Growth, Outlook
from abeval.metrics.definition import Metric
from abeval.results.power import Plan, Plans
from abeval.stats.records import Refusal


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
    decision = power.decision_plan(experiment, aggregates, outlooks, target)
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
