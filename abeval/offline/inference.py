"""Estimate a metric from sums by unit, and compare two models."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from abeval.offline.metrics import UNCUT, Form, OfflineMetric, Policy
from abeval.offline.sums import ModelSums
from abeval.stats import effects, means, proportions
from abeval.stats.moments import Moments
from abeval.stats.proportions import Count
from abeval.stats.records import Bools, Effect, Floats, Refusal

MIN_UNITS = 30
"""Fewer units than this are too few for a large-sample interval."""

# A normal interval of so few may leave [0, 1], or cover too rarely.
_FEW = 10
"""Fewer hits or misses than this, of units of one request each, have an interval of a share."""

_ROUNDING = 1e-9
"""A standard error below this share of the value is rounding: nothing varies."""

_REASONS = {"zero_denominator": "empty_denominator", "not_applicable": "one_class"}


class MetricValues(NamedTuple):
    """Hold a metric's numerators, denominators and further sums by unit.

    `form` is how the metric is computed from them. `extra` are what a form reads besides: clicks
    for their entropy, relevance and its square for its spread. `is_share` says whether what is
    averaged is 0 or 1 by definition, whatever the data.
    """

    above: Floats
    below: Floats
    extra: tuple[Floats, ...] = ()
    form: Form = "ratio"
    is_share: bool = False

    def select_units(self, mask: Bools) -> list[Floats]:
        """Return the variables of some units."""
        columns = [self.above, self.below, *self.extra]
        return columns if mask.all() else [column[mask] for column in columns]


class Value(NamedTuple):
    """A value with its interval, or the reason why there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None

    @property
    def why_not_compared(self) -> str | None:
        """Return its reason, unless it only does not vary: then it can be compared."""
        return None if self.reason == "zero_variance" else self.reason


def compute_metric_values(
    metric: OfflineMetric, sums: ModelSums, policy: Policy, by: str
) -> MetricValues:
    """Return the variables of a metric.

    `by`, on which AUC depends, is `traffic` or `pooled`.
    """
    definition = metric.definition
    if definition.is_request_mean:
        return _find_request_columns(metric, sums, policy)
    family = f"auc_{by}" if definition.family == "auc" else definition.family
    # The other families here have no cut-off.
    k = metric.cutoff if definition.family in ("beyond", "judged") else UNCUT
    names = (definition.above, definition.below, *_OTHERS.get(definition.form, ()))
    above, below, *extra = (sums.column(family, name, k) for name in names)
    return MetricValues(above, below, tuple(extra), definition.form)


_OTHERS: Mapping[Form, tuple[str, ...]] = {
    "entropy": ("clicks",),
    "information": ("clicks",),
    "explained": ("grade", "grade_squared"),
}
"""What a form reads besides numerator and denominator."""


def _find_request_columns(metric: OfflineMetric, sums: ModelSums, policy: Policy) -> MetricValues:
    definition = metric.definition
    above = sums.column(definition.family, definition.column, metric.cutoff)
    drops_missing = policy.missing_for(definition.name) == "drop"
    relevant = sums.column("requests", "listed_relevant" if drops_missing else "relevant")
    is_share = definition.name == "hit"
    if policy.no_relevant == "drop":
        return MetricValues(above, relevant, is_share=is_share)
    every = sums.column("requests", "listed" if drops_missing else "requests")
    if policy.no_relevant == "one" and definition.name in ("ndcg", "map"):
        # Requests without a relevant item count as 1 each, and have added 0 so far.
        above = above + (every - relevant)
    return MetricValues(above, every, is_share=is_share)


def estimate(columns: MetricValues, mask: Bools, alpha: float) -> Value:
    """Estimate a metric over some units, with its interval if they are enough."""
    try:
        moments = Moments.of(*columns.select_units(mask))
        if moments.n == 0:
            return Value(None, reason="no_units")
        # The value comes first: it is known even where its interval is not.
        value, _ = make_smooth(columns.form, 0, moments.n)(moments.mean)
    except Refusal as refusal:
        return Value(None, reason=_REASONS.get(refusal.reason, refusal.reason))
    if moments.n < MIN_UNITS:
        return Value(value, reason="too_few_units")
    few = _count_few(columns, mask)
    if few is not None:
        return Value(value, *proportions.compute_share_interval(few, alpha))
    try:
        moments = _correct_columns(moments, columns)
        spread = means.estimate_smooth(moments, make_smooth(columns.form, 0, moments.n))
    except Refusal as refusal:
        return Value(value, reason=refusal.reason)
    return add_interval(value, math.sqrt(spread.variance), spread.df, alpha)


def _correct_columns(moments: Moments, *columns: MetricValues) -> Moments:
    """Correct the spread for units that hold much of a denominator; a total has none."""
    size = moments.mean.size // len(columns)
    blocks = tuple(range(at * size, (at + 1) * size) for at in range(len(columns)))
    if columns[0].form == "total":
        return moments
    return means.correct_leverage(moments, blocks=blocks)


def add_interval(value: float, se: float, df: float, alpha: float) -> Value:
    """Return a value with its interval by t; without one if nothing varies.

    Example:
        >>> add_interval(0.1, 0.0, 39, 0.05).reason
        'zero_variance'
    """
    if se <= _ROUNDING * abs(value):
        return Value(value, reason="zero_variance")
    return Value(value, *effects.compute_interval(value, se, df, alpha))


def _count_few(columns: MetricValues, mask: Bools) -> Count | None:
    """Count hits and units of a share with few hits or misses; None of any other.

    Each of its units has one request, of value 0 or 1.
    """
    if columns.form != "ratio":
        return None
    above, below = columns.select_units(mask)[:2]
    count = Count(int(above.sum()), int(below.sum()))
    fewest = min(count.successes, count.units - count.successes)
    # A mean of no hits at all is a share only by definition: another metric that happens to be 0
    # everywhere may have any value elsewhere.
    if fewest >= _FEW or not (fewest > 0 or columns.is_share):
        return None
    is_each = ((below == 0) | (below == 1)) & ((above == 0) | (above == below))
    return count if is_each.all() else None


def compare(control: MetricValues, model: MetricValues, mask: Bools, alpha: float) -> Effect | str:
    """Compare a model with another over the same units.

    Return a reason where that cannot be.
    """
    before, after = control.select_units(mask), model.select_units(mask)
    if len(before[0]) < MIN_UNITS:
        return "too_few_units" if len(before[0]) else "no_units"
    try:
        size = len(before)
        # Both models go into one set of moments, which has their covariance over the same units.
        moments = Moments.of(*before, *after, below=(1, size + 1))
        moments = _correct_columns(moments, control, model)
        first = make_smooth(control.form, 0, moments.n)
        second = make_smooth(model.form, size, moments.n)
        return means.compare_within_units(moments, first, second, alpha)
    except Refusal as refusal:
        return _REASONS.get(refusal.reason, refusal.reason)


def make_smooth(form: Form, at: int, units: int) -> means.Smooth:
    """Return a form as a function of the means over `units`, with its derivative.

    `at` is the index of the numerator, which the denominator and other variables follow.

    Example:
        >>> value, _ = make_smooth("root", 0, 5)(np.array([8.0, 2.0]))
        >>> value
        2.0
    """

    def evaluate(mean: Floats) -> tuple[float, Floats]:
        if form == "total":
            return float(mean[at]) * units, np.eye(1, mean.size, at)[0] * units
        if form in ("entropy", "information"):
            value, slope = _divide_by_entropy(mean, at)
            return (value, slope) if form == "entropy" else (1 - value, -slope)
        if form == "explained":
            return _explain_spread(mean, at)
        value, slope = means.ratio(at, at + 1)(mean)
        if form == "ratio":
            return value, slope
        root = math.sqrt(value)
        # At 0 the root has no slope: without errors nothing varies.
        return root, slope / (2 * root) if root > 0 else np.zeros_like(slope)

    return evaluate


def _divide_by_entropy(mean: Floats, at: int) -> tuple[float, Floats]:
    """Divide log loss by the entropy of the click rate, with the derivative.

    It is the normalised entropy of He et al. (2014).
    """
    loss, loss_slope = means.ratio(at, at + 1)(mean)
    rate, rate_slope = means.ratio(at + 2, at + 1)(mean)
    if not 0 < rate < 1:
        raise Refusal("not_applicable", "without both clicks and non-clicks, the entropy is zero")
    entropy = -rate * math.log(rate) - (1 - rate) * math.log(1 - rate)
    slope_of_entropy = math.log((1 - rate) / rate) * rate_slope
    return loss / entropy, loss_slope / entropy - loss / entropy**2 * slope_of_entropy


def _explain_spread(mean: Floats, at: int) -> tuple[float, Floats]:
    """Return R² of relevance, with its derivative.

    It is 1 − squared errors / squared deviations of relevance.
    """
    errors, rows, grade, squared = (float(value) for value in mean[at : at + 4])
    spread = squared - grade**2 / rows if rows > 0 else 0.0
    # A difference of two sums that are nearly equal is rounding, not spread.
    if spread <= _ROUNDING * squared:
        raise Refusal("zero_denominator", "all relevance is the same, so there is no spread")
    share, slope = errors / spread, np.zeros_like(mean)
    slope[at : at + 4] = np.array(
        [-1, share * grade**2 / rows**2, -2 * share * grade / rows, share]
    )
    return 1 - share, slope / spread
