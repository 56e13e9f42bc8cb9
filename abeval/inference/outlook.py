"""One metric as far as a plan looks: its value, spread and units after any number of days.

`power.py` plans each metric by it, `ship_plan.py` the decision on all of them.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.moment_rows import pooled
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis, compare
from abeval.inference.comparison import Arms
from abeval.inference.growth import Growth, Horizon
from abeval.inference.looks import START_PRECISION, planned_fractions
from abeval.inference.means_and_ratios import estimate
from abeval.inference.stretches import pair_of, population
from abeval.logs.stretches import planned_splits
from abeval.metrics.definition import Metric
from abeval.stats import design, group_sequential, sequential
from abeval.stats.records import Refusal, RefusalReason

MOST_DAYS = 1_000.0
"""Days beyond which nothing is planned."""


class Target(NamedTuple):
    """The relative effect to find, or the days to run (at most one of them), and the power."""

    mde: float | None
    days: float | None
    power: float


class Outlook(NamedTuple):
    """A metric that can be planned, or why it cannot.

    A size is a number of days; of a log without time, a number of units.

    Attributes:
        metric: The metric.
        seen: The metric in the whole log; its spread as the experiment's tests see it.
        days: Days of the log, 0 without time.
        growth: The metric by day, None without time.
        shares: Shares of all units in control, and in the first other variant.
        refusal: Why it cannot be planned.
    """

    metric: Metric
    seen: Horizon
    days: int
    growth: Growth | None
    shares: tuple[float, float]
    refusal: RefusalReason | None = None

    @property
    def margin(self) -> float | None:
        """A guardrail's margin as a share of control."""
        margin = self.metric.margin
        if self.metric.role != "guardrail" or margin is None:
            return None
        if margin.relative:
            return margin.size
        self.check()
        return margin.size / abs(self.seen.value)

    def size_of(self, days: float | None) -> float:
        """The size of so many days; without, that of the log."""
        self.check()
        if days is not None and self.growth is None:
            raise Refusal("not_applicable", "the log has no time, so traffic per day is unknown")
        seen = float(self.days) if self.growth is not None else self.seen.units
        return seen if days is None else days

    def at(self, size: float) -> Horizon:
        """The metric at a size."""
        self.check()
        if self.growth is None:
            return self.seen._replace(units=size)
        return self.growth.after(size)

    def error(self, size: float, effect: float = 0.0) -> float:
        """Standard error of the relative effect at a size, where the true one is `effect`."""
        return math.sqrt(self._split(effect) / self.at(size).information)

    def size_for(self, error: float, effect: float = 0.0) -> float:
        """The size at which the relative effect has this standard error."""
        self.check()
        needed = self._split(effect) / error**2
        if self.growth is None:
            return needed * self.seen.units / self.seen.information
        return self.growth.days_for(needed)

    def effect_at(self, size: float, reach: float) -> float:
        """The relative effect, or margin, that is so many of its standard errors at a size."""
        error = reach * self.error(size)
        if self.margin is not None:
            return error
        control, treatment = self.shares
        # e² = error² (1 + e s), of which s is treatment's part of the variance.
        grows = error**2 * control / (control + treatment)
        return (grows + math.sqrt(grows**2 + 4 * error**2)) / 2

    def _split(self, effect: float) -> float:
        """What the shares, and the treatment's spread, make of the variance between units.

        The variance of treatment is taken to grow as its mean does, as that of counts and of rare
        events; of a total of many it grows faster.
        """
        control, treatment = self.shares
        return 1 / control + max(1 + effect, 0.0) / treatment

    def check(self) -> None:
        """Raise why it cannot be planned."""
        if self.refusal is not None:
            raise Refusal(self.refusal, f"{self.metric.name} cannot be planned")


def outlooks_of(
    experiment: Experiment,
    metrics: Sequence[Metric],
    aggregates: Aggregates,
    growths: Mapping[str, Growth],
) -> list[Outlook]:
    """The means and ratios among the metrics, and every goal and guardrail."""
    inference = experiment.inference.model_copy(update={"looks": "fixed"})
    fixed = experiment.model_copy(update={"inference": inference})
    analysis = Analysis(fixed, metrics, aggregates)
    return [_outlook(analysis, m, growths.get(m.name)) for m in metrics if _is_planned(m)]


def _is_planned(metric: Metric) -> bool:
    return metric.is_mean_or_ratio or metric.role in ("goal", "guardrail")


def _outlook(analysis: Analysis, metric: Metric, growth: Growth | None) -> Outlook:
    aggregates = analysis.aggregates
    days = aggregates.days
    units = float(aggregates.units["units"].sum())
    dealt = shares(analysis.experiment)
    try:
        seen = (_seen if metric.is_mean_or_ratio else _seen_of_pair)(analysis, metric, units)
    except Refusal as refusal:
        nothing = Horizon(units, 0.0, 0.0)
        return Outlook(metric, nothing, len(days), None, dealt, refusal.reason)
    if len(days) and (growth is None or aggregates.stretches):
        # Its days do not add up, or are of several splits: units grow, the spread is taken to stay.
        entered = [float(n) for n in np.cumsum(days["new_units"])]
        spread = (seen.sd / seen.value) ** 2
        growth = Growth(entered, [seen.value] * len(days), [spread] * len(days))
    elif growth is not None:
        factor = _as_judged(analysis, metric)
        growth = growth._replace(spreads=[spread * factor for spread in growth.spreads])
    factor = _as_judged(analysis, metric) ** 0.5
    return Outlook(metric, seen._replace(sd=seen.sd * factor), len(days), growth, dealt)


def _seen(analysis: Analysis, metric: Metric, units: float) -> Horizon:
    """Control's value and spread in the whole log."""
    if metric.name in analysis.aggregates.refused:
        raise Refusal("not_applicable", "the logs lack a column")
    arms = Arms(analysis.experiment.control, analysis.experiment.treatments[0])
    control = population(analysis.moments(metric), arms)
    if control is None:
        raise Refusal("too_few_units", "control has no units")
    value = estimate(metric, control)
    if value.value == 0:
        raise Refusal("control_near_zero", "the control is zero: a relative effect has no meaning")
    # Units whose window is open are in the plan, but tell nothing.
    counted = sum(one.n for one in pooled(analysis.moments(metric)).values())
    share = 1.0 if metric.among is None else counted / units
    return Horizon(units, value.value, design.sd_of(value) / math.sqrt(share))


def _seen_of_pair(analysis: Analysis, metric: Metric, units: float) -> Horizon:
    """Of a quantile or function, whose variance is taken to fall as 1 / units."""
    if metric.kind == "catalogue":
        raise Refusal("not_applicable", "the value itself depends on how many items are shown")
    arms = Arms(analysis.experiment.control, analysis.experiment.treatments[0])
    effect = compare(analysis, metric, arms).effect
    if effect is None or effect.se == 0:
        raise Refusal("not_applicable", "it has no standard error")
    if effect.control == 0:
        raise Refusal("control_near_zero", "the control is zero: a relative effect has no meaning")
    control, treatment = (units * share for share in shares(analysis.experiment))
    return Horizon(units, effect.control, effect.se / math.sqrt(1 / control + 1 / treatment))


def _as_judged(analysis: Analysis, metric: Metric) -> float:
    """The relative variance with CUPED, strata and caps, over that without."""
    if not metric.is_mean_or_ratio:
        return 1.0
    arms = Arms(analysis.experiment.control, analysis.experiment.treatments[0])
    judged = compare(analysis, metric, arms)
    pair = pair_of(analysis.moments(metric), arms)
    if judged.effect is None or judged.rare is not None or judged.effect.control == 0:
        return 1.0
    plain = [estimate(metric, one) for one in pair if one is not None]
    variance = sum(one.variance for one in plain)
    relative = (judged.effect.se / judged.effect.control) ** 2 * plain[0].value ** 2
    return relative / variance if variance > 0 else 1.0


def shares(experiment: Experiment) -> tuple[float, float]:
    """Shares of all units in control, and in the first other variant, by the latest split."""
    weights = planned_splits(experiment)[-1].weights
    total = sum(weights.values())
    return weights[experiment.control] / total, weights[experiment.treatments[0]] / total


def critical(experiment: Experiment, one: Outlook, size: float, alpha: float) -> float:
    """The critical |z| of a metric at the end of a plan of this size."""
    inference = experiment.inference
    match inference.looks:
        case "fixed":
            return design.critical_value(alpha)
        case "group_sequential":
            return critical_at_looks(experiment, one, size, alpha)[-1]
        case "always_valid":
            if inference.planned_units is not None:
                return design.always_valid_critical(alpha)
            growth = (START_PRECISION / one.error(size)) ** 2
            return sequential.critical_from_start(max(growth, 1.0), alpha)


def critical_at_looks(
    experiment: Experiment, one: Outlook, size: float, alpha: float
) -> tuple[float, ...]:
    """The bounds of the planned looks, which correlate as their information does."""
    planned = planned_fractions(experiment)
    fractions = information_at_looks(one, size, planned)
    spending = experiment.inference.spending
    return group_sequential.bounds(fractions, alpha, spending, spent_at=planned).z


def information_at_looks(one: Outlook, size: float, planned: Sequence[float]) -> list[float]:
    """Information at the planned shares of a size, over that at its end."""
    whole = one.at(size).information
    gathered = [one.at(size * share).information / whole for share in planned]
    # Noise of the first days must not let information fall.
    rising = np.maximum.accumulate(gathered) + np.arange(len(planned)) * 1e-6
    return [float(value) for value in rising / rising[-1]]
