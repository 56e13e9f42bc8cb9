"""Predict what a scorecard row can detect, now and at other sizes.

An `Outlook` scales a row's standard error to other numbers of days or units, by its growth.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.metrics import list_scorecard_metrics
from abeval.experiment.model import Experiment
from abeval.inference import looks as look_plan
from abeval.inference.compare import Analysis, build_rule, compare
from abeval.inference.comparison import Arms, Comparison
from abeval.inference.families import list_goal_weights
from abeval.inference.looks import AlwaysValidLooks, Looks, PlannedLooks
from abeval.inference.means_and_ratios import estimate, find_comparable_periods, pool_pair
from abeval.logs.placing import list_planned_splits
from abeval.metrics.definition import Metric
from abeval.stats import design, multiplicity, srm
from abeval.stats.records import Refusal, RefusalReason

_Prediction = Callable[[Sequence[float], float], float]
"""Extrapolates values by day to a number of days."""


class Horizon(NamedTuple):
    """A metric after some days: units, control's value and its sd."""

    units: float
    value: float
    sd: float

    @property
    def information(self) -> float:
        """Return units × (value / sd)²: 1 / se² apart from the split."""
        return self.units * (self.value / self.sd) ** 2


class Growth(NamedTuple):
    """A metric with the data up to the end of each day.

    Attributes:
        units: Units of all variants.
        spreads: Variance of control's value between units, over its square.
        is_total: Whether the value grows while units return; a ratio does not.
        ended: Number of complete days; an incomplete one would look like falling traffic.
        splits: Variance by the split of each day's new units, over that by the latest split; empty
            if the split did not change.
    """

    units: Sequence[float]
    values: Sequence[float]
    spreads: Sequence[float]
    is_total: bool = True
    ended: int | None = None
    splits: Sequence[float] = ()

    def after(self, days: float) -> Horizon:
        """Predict the metric after some days, from its growth in the last week.

        Units and totals grow as powers of time. The variance falls towards the variance between
        returning units (`design.information_at`). New units come in the latest split.

        Example:
            >>> Growth([100.0, 150.0], [1.0, 2.0], [4.0, 1.0]).after(2)
            Horizon(units=150.0, value=2.0, sd=2.0)
        """
        units = self._interpolate(self.units, days, design.predict_total)
        # Information is units over relative variance.
        gathered = [n / v for n, v in zip(self.units, self.spreads, strict=True)]
        information = self._interpolate(gathered, days, design.predict_information)
        sizes = [abs(value) for value in self.values]
        value = self._interpolate(sizes, days, design.predict_total if self.is_total else _last)
        sd = math.sqrt(units / information * self._split_factor(units, days)) * value
        return Horizon(units, math.copysign(value, self.values[-1]), sd)

    def _split_factor(self, units: float, days: float) -> float:
        """Return the mean of `splits` over the units entered by then."""
        if not self.splits:
            return 1.0
        # Units that entered each day, times the variance factor of its split.
        weighed = np.cumsum(np.diff(self.units, prepend=0.0) * self.splits).tolist()
        if days <= len(weighed):
            return self._interpolate(weighed, days, _last) / units
        return float(weighed[-1] + units - self.units[-1]) / units

    def _interpolate(self, values: Sequence[float], days: float, beyond: _Prediction) -> float:
        """Interpolate between days of the log; extrapolate beyond it."""
        if days <= len(values):
            return float(np.interp(days, np.arange(len(values) + 1), [0.0, *values]))
        ended = values[: self.ended]
        return values[-1] * beyond(ended, days) / beyond(ended, len(values))


def _last(values: Sequence[float], _days: float) -> float:
    return values[-1]


POWER = 0.8
"""Power for the smallest detectable effect of a row."""

MOST_DAYS = 1_000.0
"""Longest plan, in days."""

MOST_UNITS = 1e10


def solve_detectable_effect(
    se: float, control: float, critical: float, treated: float, power: float = POWER
) -> float:
    """Return the smallest relative effect, or margin, found with this power.

    Args:
        se: Standard error of the difference in the deciding test.
        control: Control's value.
        critical: The |z| at which that test rejects.
        treated: The treatment's share of the variance, which grows with the effect; 0 for a margin,
            which is planned for no effect.
        power: Probability of finding the effect, or of proving that the margin holds.
    """
    error = design.compute_mde(se, power=power, critical=critical) / abs(control)
    # e² = error² (1 + e treated)
    grows = error**2 * treated
    return (grows + math.sqrt(grows**2 + 4 * error**2)) / 2


def _infer_standard_error(comparison: Comparison, alpha: float) -> float | None:
    """Return the standard error implied by a row's interval at this look."""
    effect = comparison.effect
    if effect is None:
        return None
    se = (effect.high - effect.low) / 2 / _find_critical_value(comparison, alpha)
    return se if 0 < se < math.inf else None


def _find_critical_value(comparison: Comparison, alpha: float) -> float:
    """Return the critical value of abs(z) at this look, for a two-sided level."""
    boundary = comparison.boundary
    looks, information = (None, 1.0) if boundary is None else (boundary.looks, boundary.information)
    return look_plan.list_critical_values(looks, information, alpha)[-1]


def compute_treated_share(experiment: Experiment, metric: Metric, variant: str) -> float:
    """Return the treatment's share of a row's variance, for `detectable`."""
    control, treatment = find_latest_shares(experiment, variant)
    return 0.0 if metric.role == "guardrail" or control == 0 else control / (control + treatment)


def estimate_detectable_lift(
    experiment: Experiment,
    metrics: Sequence[Metric],
    metric: Metric,
    variant: str,
    comparison: Comparison,
) -> float | None:
    """Return the smallest lift a row's test could detect; None without a lift."""
    se, control = _infer_standard_error(comparison, experiment.alpha), comparison.control
    if se is None or not control or comparison.lift is None:
        return None
    critical = _find_critical_value(comparison, _compute_level(experiment, metrics, metric))
    return solve_detectable_effect(
        se, control, critical, compute_treated_share(experiment, metric, variant)
    )


def _compute_level(experiment: Experiment, metrics: Sequence[Metric], metric: Metric) -> float:
    """Return a row's error rate if no other row of its family moves.

    Margins need no correction, because all of them must hold. Diagnostics have none either.
    """
    alpha, family = experiment.alpha, experiment.inference.family
    if family == "none" or metric.role != "goal":
        return alpha
    goals = [goal for goal in metrics if goal.role == "goal"]
    variants = len(experiment.treatments)
    tests = len(goals) * variants
    match family:
        case "dunnett":
            pairs = [find_latest_shares(experiment, name) for name in experiment.treatments]
            loadings = [math.sqrt(treated / (treated + control)) for control, treated in pairs]
            return multiplicity.dunnett_level(alpha * variants / tests, loadings)
        case "weighted":
            total_weight = variants * sum(
                list_goal_weights(experiment, [goal.name for goal in goals])
            )
            return alpha * list_goal_weights(experiment, [metric.name])[0] / total_weight
        case "by":
            # Benjamini-Yekutieli compares the smallest p with alpha / (m · Σ 1/i).
            return alpha / tests / sum(1 / rank for rank in range(1, tests + 1))
        case _:
            return alpha / tests


_DAY = np.timedelta64(1, "D")

# Above this p-value, the observed split is taken to be the planned one.
_OTHER_SPLIT = 1e-3


class Outlook(NamedTuple):
    """A scorecard row that can be planned, or why it cannot.

    A size is a number of days; if the log has no time, a number of units.

    Attributes:
        size: Size of the log.
        units: Units of all variants in the log.
        se: Standard error of the difference in the row's own test.
        information: Information at this look, in the unit of `looks.LookBoundary`.
        growth: The metric by day; None without time.
    """

    experiment: Experiment
    metric: Metric
    variant: str
    size: float
    units: float
    level: float
    looks: Looks | None
    control: float = 0.0
    se: float = 0.0
    information: float = 1.0
    growth: Growth | None = None
    refusal: RefusalReason | None = None

    @property
    def shares(self) -> tuple[float, float]:
        """Return the shares of all units in control, and in the variant."""
        return find_latest_shares(self.experiment, self.variant)

    @property
    def margin(self) -> float | None:
        """Return a guardrail's margin as a share of control.

        For a range, the distance to its nearer end.
        """
        if self.metric.role != "guardrail":
            return None
        self.check()
        if self.metric.within is not None:
            low, high = self.metric.within
            return max(0.0, min(self.control - low, high - self.control)) / abs(self.control)
        margin = self.metric.margin
        if margin is None:
            return None
        return margin.size if margin.relative else margin.size / abs(self.control)

    def days_to_size(self, days: float | None) -> float:
        """Convert days to a size; without days, return the size of the log."""
        self.check()
        if days is not None and self.growth is None:
            raise Refusal("not_applicable", "the log has no time, so traffic per day is unknown")
        return self.size if days is None else days

    def horizon_at(self, size: float) -> Horizon:
        """Predict units, control's value and its sd at a size."""
        grown_units, grown_value, _ = self._project_growth(size)
        units, value = self.units * grown_units, self.control * grown_value
        between = sum(1 / share for share in self.shares)
        return Horizon(units, value, self.error(size) * abs(value) * math.sqrt(units / between))

    def error(self, size: float, effect: float = 0.0) -> float:
        """Return the standard error of a relative effect of `effect`, at a size."""
        *_, information = self._project_growth(size)
        se = self.se / abs(self.control) / math.sqrt(information)
        treated = compute_treated_share(self.experiment, self.metric, self.variant)
        return se * math.sqrt(1 + effect * treated)

    def detectable(self, size: float, power: float = POWER) -> float:
        """Return the relative effect, or margin, that this test finds at a size."""
        *_, information = self._project_growth(size)
        se = self.se / math.sqrt(information)
        critical = self.critical(size, self.level)[-1]
        treated = compute_treated_share(self.experiment, self.metric, self.variant)
        return solve_detectable_effect(se, self.control, critical, treated, power)

    def size_for(self, effect: float, power: float = POWER, start: float | None = None) -> float:
        """Return the days, or without time the units, after which an effect is found.

        The search begins at `start`, or at the size of the log.

        Raises:
            Refusal: `not_applicable` if it is more than a plan may have.
        """
        most = MOST_UNITS if self.growth is None else MOST_DAYS
        return seek_smallest_number(
            lambda size: self.detectable(size, power) <= effect, start or self.size, most
        )

    def critical(self, size: float, level: float) -> tuple[float, ...]:
        """Return the critical |z| of each look up to a size."""
        looks, information = self.looks_at(size), self.information
        if isinstance(looks, AlwaysValidLooks):
            units, _, grown = self._project_growth(size)
            information *= grown if looks.planned_units is None else units
        return look_plan.list_critical_values(looks, information, level)

    def looks_at(self, size: float) -> Looks | None:
        """Return the looks up to a size; beyond the plan, those up to its end."""
        looks = self.looks
        if not isinstance(looks, PlannedLooks) or size == self.size:
            return looks
        share = min(1.0, looks.shares[-1] * size / self.size)
        before = [at for at in look_plan.list_planned_fractions(self.experiment) if at < share]
        *_, total = self._project_growth(size)
        gathered = [self._project_growth(size * at / share)[2] / total for at in before]
        shares, fractions = look_plan.keep_informative_looks(before, gathered)
        return looks._replace(shares=(*shares, share), fractions=(*fractions, 1.0))

    def _project_growth(self, size: float) -> tuple[float, float, float]:
        """Return units, value and information at a size, divided by those of the log."""
        self.check()
        if self.growth is None or size == self.size:
            return size / self.size, 1.0, size / self.size
        now, then = self.growth.after(self.size), self.growth.after(size)
        information = then.information / now.information
        return then.units / now.units, then.value / now.value, information

    def check(self) -> None:
        """Raise the refusal if the row cannot be planned."""
        if self.refusal is not None:
            raise Refusal(self.refusal, f"{self.metric.name} cannot be planned")


def seek_smallest_number(enough: Callable[[float], bool], start: float, most: float) -> float:
    """Seek the smallest number that is enough, from one that is near.

    Raises:
        Refusal: `not_applicable` if even the largest number is not enough.
    """
    # Double until it is enough, then bisect.
    high = start
    while not enough(high):
        if high >= most:
            raise Refusal("not_applicable", f"more than {most:,.0f} days or units are needed")
        high = min(2 * high, most)
    low = high / 2
    while low > 1e-6 and enough(low):
        low, high = low / 2, low
    while high - low > 1e-5 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def build_outlooks(
    analysis: Analysis, growths: Mapping[str, Growth], variants: Sequence[str]
) -> list[Outlook]:
    """Build the outlooks of all rows that can be planned."""
    return [
        _build_outlook(analysis, metric, variant, growths.get(metric.name))
        for metric in analysis.metrics
        if metric.is_mean_or_ratio or metric.role != "diagnostic"
        for variant in variants
    ]


def _build_outlook(
    analysis: Analysis, metric: Metric, variant: str, growth: Growth | None
) -> Outlook:
    experiment, aggregates = analysis.experiment, analysis.aggregates
    arms, dates = Arms(experiment.control, variant), list_dates(aggregates)
    units = float(sum(aggregates.units.values()))
    level = _compute_level(experiment, list_scorecard_metrics(experiment), metric)
    looks = build_rule(analysis, metric, arms).looks
    size = float(len(dates) or units)
    bare = Outlook(experiment, metric, variant, size, units, level, looks)
    try:
        comparison, control, se = _compare_or_estimate(analysis, metric, arms)
        se *= _compute_split_factor(aggregates, arms, bare.shares)
    except Refusal as refusal:
        return bare._replace(refusal=refusal.reason)
    information = 1.0
    if comparison.boundary is not None:
        information = comparison.boundary.information
    elif isinstance(looks, AlwaysValidLooks):
        planned = looks.planned_units
        information = (look_plan.START_PRECISION * control / se) ** 2
        if planned is not None:
            information = (looks.units_control + looks.units) / planned
    if dates:
        has_slots = experiment.switchback is not None
        growth = _build_entry_growth(aggregates, dates) if has_slots or growth is None else growth
        growth = growth._replace(
            splits=_compare_split_variances(aggregates, arms, dates[: len(growth.units)])
        )
    return bare._replace(control=control, se=se, information=information, growth=growth)


def _compare_or_estimate(
    analysis: Analysis, metric: Metric, arms: Arms
) -> tuple[Comparison, float, float]:
    """Compare a metric; return also control's value and the standard error."""
    if metric.kind == "catalogue" or metric.name in analysis.aggregates.refused:
        raise Refusal("not_applicable", "it depends on how many items are shown")
    comparison = compare(analysis, metric, arms)
    se, control = _infer_standard_error(comparison, analysis.experiment.alpha), comparison.control
    if se is None or control is None:
        if not metric.is_mean_or_ratio:
            raise Refusal("not_applicable", "it has no standard error")
        pair = pool_pair(analysis.moments(metric), arms)
        values = [estimate(metric, arm) for arm in pair if arm is not None]
        if len(values) < len(pair):
            raise Refusal("too_few_units", "a variant has no units")
        control, se = values[0].value, math.sqrt(sum(value.variance for value in values))
    if control == 0:
        raise Refusal("control_near_zero", "the control is zero: a relative effect has no meaning")
    if not 0 < se < math.inf:
        raise Refusal("zero_variance", "the metric does not vary: nothing to plan with")
    return comparison, control, se


def _compute_split_factor(aggregates: Aggregates, arms: Arms, shares: tuple[float, float]) -> float:
    """Return the factor from the observed split's standard error to the plan's."""
    if min(shares) == 0:
        raise Refusal("not_applicable", "the latest split gives a variant no units")
    counts = arms.units(aggregates)
    if aggregates.split_periods or min(counts) == 0:
        return 1.0
    if srm.chi_square(counts, shares).p_value > _OTHER_SPLIT:
        return 1.0
    planned_units = [sum(counts) * share / sum(shares) for share in shares]
    return math.sqrt(sum(1 / n for n in planned_units) / sum(1 / n for n in counts))


def list_dates(aggregates: Aggregates) -> list[str]:
    """List every day from the first impression to the last; none without time."""
    days = np.array([day_rows.day for day_rows in aggregates.days], dtype="datetime64[D]")
    return [str(day) for day in np.arange(days.min(), days.max() + _DAY)] if days.size else []


def _build_entry_growth(aggregates: Aggregates, dates: Sequence[str]) -> Growth:
    """Build growth from entries alone, for metrics whose days do not add up."""
    new = {day_rows.day: day_rows.new_units for day_rows in aggregates.days}
    entered = [float(n) for n in np.cumsum([new.get(day, 0) for day in dates])]
    if (clustering := aggregates.clusters) is not None:
        # More days bring units, but no clusters; of slots each day brings as many.
        fractions = (
            np.arange(1, len(dates) + 1) / len(dates) if clustering.slots else np.ones(len(dates))
        )
        entered = (len(clustering.variant) * fractions).tolist()
    return Growth(entered, [1.0] * len(dates), [1.0] * len(dates))


def _compare_split_variances(
    aggregates: Aggregates, arms: Arms, dates: Sequence[str]
) -> list[float]:
    """Return the variance by each day's split over that by the latest one."""
    compared = find_comparable_periods(aggregates, arms)
    periods = [aggregates.split_periods[index] for index in compared]
    if len(periods) < 2:
        return []
    inverse_shares = [sum(1 / period.shares[name] for name in arms) for period in periods]
    starts = [period.start[:10] for period in periods]
    indices = [max(bisect_right(starts, day) - 1, 0) for day in dates]
    return [inverse_shares[index] / inverse_shares[-1] for index in indices]


def find_latest_shares(experiment: Experiment, variant: str) -> tuple[float, float]:
    """Return the shares of control and of a variant in the latest split."""
    weights = list_planned_splits(experiment)[-1].weights
    total = sum(weights.values())
    return weights[experiment.control] / total, weights[variant] / total
