"""Two models, or one model on two splits of a log, compared in pairs by unit.

`offline/estimates/judge.py` calls it with the `Estimates` of a replay, for the pairs of the result;
`offline/estimates/slices.py` with those of two splits, for their gaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from abeval.offline.estimates import BY_GROUP, Estimates
from abeval.offline.groups import GroupValues
from abeval.offline.inference import Value, compare
from abeval.offline.metrics import OfflineMetric
from abeval.results.replay import PairRow
from abeval.stats.records import Effect


class Side(NamedTuple):
    """One side of a comparison: a model, over the rows of some estimates."""

    estimates: Estimates
    model: str

    def value(self, metric: OfflineMetric, traffic: str) -> Value:
        """Its value with its interval, or the reason why there is none."""
        return self.estimates.value(self.model, metric, traffic)


class Difference(NamedTuple):
    """A difference with its interval and test, or the reason why there is none."""

    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    reason: str | None

    @classmethod
    def of(cls, effect: Effect | str, difference: float | None) -> Difference:
        """From an effect, or from a reason and the difference without an interval."""
        if isinstance(effect, str):
            return cls(difference, None, None, None, effect)
        return cls(effect.difference, effect.low, effect.high, effect.p_value, None)

    def row(
        self, head: tuple[str, str, str, str, float | None, float | None], units: int
    ) -> PairRow:
        """The row of the result; `head` is control, model, traffic, metric and both values."""
        return PairRow(*head, *self[:4], units, self.reason)


def compare_sides(
    before: Side, after: Side, metric: OfflineMetric, traffic: str, reason: str | None
) -> Difference:
    """`after` minus `before` over the same units, with its interval and test.

    With a `reason`, only the difference, if both values are known, without interval and test.
    """
    effect = reason or _effect(before, after, metric, traffic)
    first, second = before.value(metric, traffic).value, after.value(metric, traffic).value
    known = None if first is None or second is None else second - first
    return Difference.of(effect, known)


def pairs(estimates: Estimates, control: str | None) -> Iterator[PairRow]:
    """Each model against the control model, at its own stage if there are stages.

    A model without scores is not compared.
    """
    models = estimates.models
    against = [(_control_of(model, control, models), model) for model in models]
    for first, second in (pair for pair in against if pair[0] != pair[1]):
        for traffic in estimates.traffics:
            for metric in estimates.metrics:
                yield _pair(Side(estimates, first), Side(estimates, second), metric, traffic)


def _pair(before: Side, after: Side, metric: OfflineMetric, traffic: str) -> PairRow:
    values = [side.value(metric, traffic) for side in (before, after)]
    # A missing value is a better reason than a missing interval.
    values_first = sorted(values, key=lambda value: value.value is not None)
    reasons = [value.why_not_compared for value in values_first]
    difference = compare_sides(before, after, metric, traffic, reasons[0] or reasons[1])
    head = (before.model, after.model, traffic, metric.id, values[0].value, values[1].value)
    return difference.row(head, int(before.estimates.mask(traffic).sum()))


def _effect(before: Side, after: Side, metric: OfflineMetric, traffic: str) -> Effect | str:
    sides = (before, after)
    mask, alpha = before.estimates.mask(traffic), before.estimates.alpha
    if metric.definition.family not in BY_GROUP:
        first, second = (s.estimates.columns(s.model, metric, traffic) for s in sides)
        return compare(first, second, mask, alpha)
    groups = [s.estimates.groups(s.model, metric, traffic) for s in sides]
    known = [g for g in groups if isinstance(g, GroupValues)]
    if len(known) < len(groups) or known[0].without.size != known[1].without.size:
        return "no_lists"
    values, without = [g.value for g in known], [g.without for g in known]
    return groups.compare(values, without, int(mask.sum()), alpha)


def _control_of(model: str, control: str | None, models: Sequence[str]) -> str:
    """What a model is compared with: control at its own stage, else control, else the first."""
    same_stage = f"{model.rpartition('/')[0]}/{control}"
    return next((name for name in (same_stage, control) if name in models), models[0]) or models[0]
