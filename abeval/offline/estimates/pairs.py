"""Two models, or two parts of a log, against each other, in pairs by unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from abeval.offline.estimates import jackknife
from abeval.offline.estimates.estimates import BY_GROUP, Estimates
from abeval.offline.estimates.group_values import GroupValues
from abeval.offline.estimates.inference import Found, compare
from abeval.offline.metrics.definitions import OfflineMetric
from abeval.results.replay import PairRow
from abeval.stats.records import Effect


class Side(NamedTuple):
    """One side of a comparison: a model, over the rows of some estimates."""

    estimates: Estimates
    model: str

    def found(self, metric: OfflineMetric, traffic: str) -> Found:
        """Its value with its interval, or why there is none."""
        return self.estimates.found(self.model, metric, traffic)


class Compared(NamedTuple):
    """A difference with its interval and test, or why there is none."""

    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    reason: str | None

    @classmethod
    def of(cls, effect: Effect | str, difference: float | None) -> Compared:
        """From an effect; of a reason, with what is known of the difference."""
        if isinstance(effect, str):
            return cls(difference, None, None, None, effect)
        return cls(effect.difference, effect.low, effect.high, effect.p_value, None)


def compared(
    before: Side, after: Side, metric: OfflineMetric, traffic: str, reason: str | None
) -> Compared:
    """Two sides over the same units.

    Args:
        before: The side that is taken off.
        after: The side that the difference is from.
        metric: The metric.
        traffic: Whose units.
        reason: Why a side has no interval, so that there is nothing to compare; None where both do.
    """
    effect = reason or _effect(before, after, metric, traffic)
    values = before.found(metric, traffic).value, after.found(metric, traffic).value
    return Compared.of(effect, _difference(*values))


def pairs(estimates: Estimates, control: str | None) -> Iterator[PairRow]:
    """The control model, at the same stage if there are any, against each other.

    A model without scores is not compared.
    """
    models = estimates.models
    against = [(_control_of(model, control, models), model) for model in models]
    for first, second in (pair for pair in against if pair[0] != pair[1]):
        for traffic in estimates.traffics:
            for metric in estimates.metrics:
                yield _pair(Side(estimates, first), Side(estimates, second), metric, traffic)


def pair_row(
    head: tuple[str, str, str, str, float | None, float | None], units: int, found: Compared
) -> PairRow:
    """A row of a comparison.

    Args:
        head: Control, model, traffic, metric and both values.
        units: Units behind it.
        found: What came out.
    """
    return PairRow(*head, *found[:4], units, found.reason)


def _pair(before: Side, after: Side, metric: OfflineMetric, traffic: str) -> PairRow:
    values = [side.found(metric, traffic) for side in (before, after)]
    # A side without any value says more than one without an interval.
    reasons = [found.reason for found in sorted(values, key=lambda f: f.value is not None)]
    found = compared(before, after, metric, traffic, reasons[0] or reasons[1])
    head = (before.model, after.model, traffic, metric.id, values[0].value, values[1].value)
    return pair_row(head, int(before.estimates.mask(traffic).sum()), found)


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
    return jackknife.compare(values, without, int(mask.sum()), alpha)


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _control_of(model: str, control: str | None, models: Sequence[str]) -> str:
    """What a model is compared with: control at its own stage, else control, else the first."""
    same_stage = f"{model.rpartition('/')[0]}/{control}"
    return next((name for name in (same_stage, control) if name in models), models[0]) or models[0]
