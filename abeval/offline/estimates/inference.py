"""Sums per unit → estimates with unit-clustered intervals, and paired comparisons of models.

`offline/estimates/estimates.py` hands it the `UnitValues` of a model and asks for values;
`offline/estimates/pairs.py` and `slices.py` ask for comparisons.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from abeval.offline.kernels import UnitValues, cut_column
from abeval.offline.metrics import Form, OfflineMetric, Policy
from abeval.results.replay import ReplayRow
from abeval.stats import effects, means, off_policy, proportions
from abeval.stats.moments import Moments
from abeval.stats.proportions import Count
from abeval.stats.records import Bools, Effect, Floats, Refusal

MIN_UNITS = 30
"""Fewer units than this are too few for a large-sample interval."""

FEW = 10
"""Fewer hits or misses than this, of units of one request each, have an interval of a share."""

_ROUNDING = 1e-9
"""A standard error below this share of the value is rounding: nothing varies."""

_REASONS = {
    "zero_denominator": "empty_denominator",
    "not_applicable": "one_class",
}


@dataclass(frozen=True)
class Columns:
    """A metric's variables per unit.

    Attributes:
        above: The numerator.
        below: The denominator.
        clicks: Clicks; None unless the metric needs their entropy.
        form: What is computed from the means.
        is_share: Whether what is averaged is 0 or 1 by definition, whatever the data.
    """

    above: Floats
    below: Floats
    clicks: Floats | None
    form: Form
    is_share: bool = False

    def stacked(self, of: Bools) -> list[Floats]:
        """The variables of some units."""
        columns = [self.above, self.below]
        if self.clicks is not None:
            columns.append(self.clicks)
        return columns if of.all() else [column[of] for column in columns]


@dataclass(frozen=True)
class Value:
    """A value with its interval, or the reason why there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None

    @property
    def why_not_compared(self) -> str | None:
        """Its reason, unless it only does not vary: then it can be compared with one that does."""
        return None if self.reason == "zero_variance" else self.reason

    def row(
        self,
        head: tuple[str, str, str],
        units: int,
        counted: float,
        left_out: tuple[tuple[str, int], ...] = (),
    ) -> ReplayRow:
        """The row of the result; `head` is model, traffic and id of the metric."""
        value = (self.value, self.low, self.high)
        return ReplayRow(*head, *value, units, counted, left_out, self.reason)


def columns_of(metric: OfflineMetric, values: UnitValues, policy: Policy, by: str) -> Columns:
    """The variables of a metric; `by` is `traffic` or `pooled`, which AUC depends on.

    Raises:
        KeyError: The run has no such values.
    """
    definition = metric.definition
    match definition.family:
        case "list" | "r_precision" | "tied":
            return _of_requests(metric, values, policy)
        case "auc":
            return Columns(values[f"auc:{by}"], values[f"units:{by}"], None, "ratio")
        case "pairs":
            below = "gauc_clicks" if definition.denominator == "clicks" else definition.denominator
            return Columns(values[definition.numerator], values[below], None, "ratio")
        case "beyond":
            names = (definition.numerator, definition.denominator)
            above, below_values = (values[cut_column(name, metric.cutoff)] for name in names)
            return Columns(above, below_values, None, "ratio")
    above = values[f"point_{definition.numerator}"]
    below_name = definition.denominator or "rows"
    clicks = values["point_clicks"] if definition.form in ("entropy", "information") else None
    return Columns(above, values[f"point_{below_name}"], clicks, definition.form)


def _of_requests(metric: OfflineMetric, values: UnitValues, policy: Policy) -> Columns:
    definition = metric.definition
    above = values[cut_column(definition.numerator, metric.cutoff)]
    listed = policy.missing_for(definition.name) == "drop"
    relevant = values["listed_relevant" if listed else "relevant"]
    is_share = definition.name == "hit"
    if policy.no_relevant == "drop":
        return Columns(above, relevant, None, "ratio", is_share)
    every = values["listed" if listed else "requests"]
    if policy.no_relevant == "one" and definition.name in ("ndcg", "map"):
        above = above + (every - relevant)
    return Columns(above, every, None, "ratio", is_share)


def estimate(columns: Columns, of: Bools, alpha: float) -> Value:
    """A metric over some units, with its interval if they are enough."""
    try:
        moments = Moments.of(*columns.stacked(of))
        if moments.n == 0:
            return Value(None, reason="no_units")
        value, _ = smooth(columns.form, 0, 1, 2, moments.n)(moments.mean)
    except Refusal as refusal:
        return Value(None, reason=_REASONS.get(refusal.reason, refusal.reason))
    if moments.n < MIN_UNITS:
        return Value(value, reason="too_few_units")
    few = _few(columns, of)
    if few is not None:
        return Value(value, *proportions.interval(few, alpha))
    spread = off_policy.estimate(moments, smooth(columns.form, 0, 1, 2, moments.n))
    return with_interval(value, math.sqrt(spread.variance), spread.df, alpha)


def with_interval(value: float, se: float, df: float, alpha: float) -> Value:
    """A value with its interval by t, which it does not have if nothing varies.

    Example:
        >>> with_interval(0.1, 0.0, 39, 0.05).reason
        'zero_variance'
    """
    if se <= _ROUNDING * abs(value):
        return Value(value, reason="zero_variance")
    return Value(value, *effects.interval(value, se, df, alpha))


def _few(columns: Columns, of: Bools) -> Count | None:
    """Hits and all units, where each has one request of value 0 or 1 and few are of one kind.

    A mean of no hits at all is a share only by definition: another metric that happens to be 0
    everywhere may have any value elsewhere.
    """
    if columns.form != "ratio":
        return None
    above, below = columns.stacked(of)[:2]
    count = Count(int(above.sum()), int(below.sum()))
    fewest = min(count.successes, count.units - count.successes)
    if fewest >= FEW or not (fewest > 0 or columns.is_share):
        return None
    is_each = ((below == 0) | (below == 1)) & ((above == 0) | (above == below))
    return count if is_each.all() else None


def compare(control: Columns, model: Columns, of: Bools, alpha: float) -> Effect | str:
    """Effect of a model against another over the same units; a reason where there is none."""
    before, after = control.stacked(of), model.stacked(of)
    if len(before[0]) < MIN_UNITS:
        return "too_few_units" if len(before[0]) else "no_units"
    try:
        moments = Moments.of(*before, *after)
        first = smooth(control.form, 0, 1, 2, moments.n)
        shift = len(before)
        second = smooth(model.form, shift, shift + 1, shift + 2, moments.n)
        return means.difference(moments, first, second, alpha)
    except Refusal as refusal:
        return _REASONS.get(refusal.reason, refusal.reason)


def smooth(form: Form, above: int, below: int, clicks: int, units: int) -> means.Smooth:
    """A form as a function of the means over `units`, with its derivative.

    `above`, `below` and `clicks` are the indices of the numerator, the denominator and the clicks.

    Example:
        >>> value, _ = smooth("root", 0, 1, 2, 5)(np.array([8.0, 2.0]))
        >>> value
        2.0
    """
    plain = means.ratio(above, below)
    forms: dict[Form, Callable[[Floats], tuple[float, Floats]]] = {
        "ratio": plain,
        "root": lambda mean: _root(*plain(mean)),
        "total": lambda mean: _total(mean, above, units),
        "entropy": lambda mean: _entropy(mean, above, below, clicks),
        "information": lambda mean: _one_minus(*_entropy(mean, above, below, clicks)),
    }
    return forms[form]


def _root(value: float, slope: Floats) -> tuple[float, Floats]:
    root = math.sqrt(value)
    return root, slope / (2 * root) if root > 0 else np.zeros_like(slope)


def _total(mean: Floats, above: int, units: int) -> tuple[float, Floats]:
    slope = np.zeros(mean.size)
    slope[above] = units
    return float(mean[above]) * units, slope


def _one_minus(value: float, slope: Floats) -> tuple[float, Floats]:
    return 1 - value, -slope


def _entropy(mean: Floats, above: int, below: int, clicks: int) -> tuple[float, Floats]:
    """Log loss over the entropy of the click rate (He et al. 2014), and its derivative."""
    loss, loss_slope = means.ratio(above, below)(mean)
    rate, rate_slope = means.ratio(clicks, below)(mean)
    if not 0 < rate < 1:
        raise Refusal("not_applicable", "without both clicks and non-clicks, the entropy is zero")
    entropy = -rate * math.log(rate) - (1 - rate) * math.log(1 - rate)
    slope_of_entropy = math.log((1 - rate) / rate) * rate_slope
    return loss / entropy, loss_slope / entropy - loss / entropy**2 * slope_of_entropy
