"""Build the bill of a gap: the promise, the outcome, and what each cause took.

Every number is a lift of clicks per impression, or a difference of two, as a share of control's.
A cause takes the step between two levels of `gap.py`; parts add up to the gap.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from abeval.agreement.case import CauseContext, spread
from abeval.agreement.levels import PARTS, Levels
from abeval.history.promise import Promise
from abeval.results.agreement import Cause, Gap, GapPart
from abeval.stats import effects
from abeval.stats.distributions import quantile
from abeval.stats.records import Estimate, Floats
from abeval.stats.resampling import jackknife_se

METRIC = "ctr"
_LEAST_PART = 0.1
"""A cause whose step is a smaller share of the gap does not explain it."""

_ALIKE = 0.6
"""Steps of lists add up to what lists lost, up to this share of it: two ways to the same number."""

# Stricter than the analysis, because a gap that is noise would get a cause all the same.
_GAP_ALPHA = 0.02
"""Level of the test that there is a gap at all, before causes are named."""

# These change the score that served; the log shows only what they do together.
_SERVED = ("leakage", "stale_model", "half_precision", "served_score")
_LEARNED = ("overlap", "overfitting")
_BESIDE_LISTS = ("position", "labels", "serving", "cannibalised")
_STEPS: Mapping[str, tuple[str, str]] = {
    "position": ("naive", "promised"),
    **dict.fromkeys(_LEARNED, ("promised", "new")),
    "candidates": ("new", "supplied"),
    **dict.fromkeys(_SERVED, ("supplied", "served")),
    "reordered": ("served", "kept"),
    "labels": ("kept", "acted"),
    "serving": ("acted", "here"),
    "cannibalised": ("here", "came"),
}
"""Cause → the levels between which it acts."""


class Number(NamedTuple):
    """Hold a number of all units and without each part.

    `extra` is an error that parts do not show.
    """

    values: Floats
    extra: float = 0.0

    @property
    def value(self) -> float:
        """Return the number of all units."""
        return float(self.values[0])

    @property
    def se(self) -> float:
        """Return the standard error: the jackknife's, and the extra one."""
        # The two errors are independent, so their squares are added.
        return float(np.hypot(jackknife_se(self.values[1:]), self.extra))

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the interval by t with PARTS - 1 degrees of freedom."""
        return effects.compute_interval(self.value, self.se, PARTS - 1.0, alpha)

    def exceeds_noise(self, alpha: float) -> bool:
        """Tell whether the interval excludes zero."""
        return abs(self.value) > quantile(1 - alpha / 2, PARTS - 1.0) * self.se


def is_gap(levels: Levels) -> bool:
    """Tell whether what came differs from what was promised beyond noise."""
    gap = levels.lifts["came"] - levels.lifts["promised"]
    return Number(gap, levels.misfit).exceeds_noise(_GAP_ALPHA)


def find_part(levels: Levels, name: str, points: Estimate | None) -> float | None:
    """Return the share of the gap that a cause takes by its own step.

    None if it explains nothing.

    A step explains if it has the sign of the gap, beyond noise, and is no small part of it.
    """
    gap = float(levels.lifts["came"][0] - levels.lifts["promised"][0])
    if name == "candidates":
        # Lists in the order of the served score lack nothing but candidates.
        step = Number(levels.lifts["kept"] - levels.lifts["new"])
    elif name in _STEPS and name != "position":
        before, after = (levels.lifts[level] for level in _STEPS[name])
        step = Number(after - before)
    elif points is not None:
        step = _repeat_over_parts(points)
    else:
        return None
    # A step against the gap has a negative share, so the limit below refuses it too.
    share = step.value / gap
    return min(share, 1.0) if share >= _LEAST_PART and step.exceeds_noise(0.05) else None


def _repeat_over_parts(points: Estimate) -> Number:
    """Return a number of which all parts have the same value, and the error is known."""
    return Number(np.full(1 + PARTS, points.value), points.variance**0.5)


def build_gap(
    variant: str,
    levels: Levels,
    found_causes: Sequence[Cause],
    points: Mapping[str, Estimate],
    alpha: float,
) -> Gap:
    """Charge the gap to the causes that were found.

    `points` are steps that days or rows gave.

    What lists show instead of the promised ones is one difference, from the promise to what was
    shown. Causes of it take their own steps, and the last of them what is left.
    """
    names = [cause.name for cause in found_causes]
    lifts, misfit = levels.lifts, levels.misfit
    promised = Number(lifts["naive" if "position" in names else "promised"], misfit)
    came = Number(lifts["came"])
    parts = dict[str, Number]()
    for name in names:
        if name in points and name not in _STEPS:
            parts[name] = _repeat_over_parts(points[name])
    # Steps without levels are in what was shown as well, and must not be charged twice.
    by_days = sum((part.values for part in parts.values()), np.zeros(1 + PARTS))
    # Both causes are one step between the same levels, which is charged once.
    learned = [name for name in _LEARNED if name in names][:1]
    for name in (*learned, *(name for name in _BESIDE_LISTS if name in names)):
        before, after = _STEPS[name]
        step = lifts[after] - lifts[before]
        extra = 0.0
        if name == "labels" and levels.labels.share:
            # The share of lost clicks is estimated, and the step has the same relative error.
            extra = abs(float(step[0])) * levels.labels.error / levels.labels.share
        parts[name] = Number(step, extra)
    base = lifts["new" if learned else "promised"]
    of_lists, apart = _charge_lists(levels, base, lifts["kept"] - by_days, found_causes)
    parts |= of_lists
    # The misfit of the promise is in the unexplained rest, unless a cause of lists has taken it.
    errors = [part.extra for name, part in parts.items() if name not in of_lists]
    gap = Gap(variant, METRIC, source="rows")
    both = (promised, came)
    return _fill(gap, both, [*errors, apart if of_lists else misfit], parts, found_causes, alpha)


def build_gap_of_history(
    case: CauseContext, promise: Promise, found: Sequence[Cause], points: Mapping[str, Estimate]
) -> Gap:
    """Set what past experiments promise beside what came.

    `points` are steps of causes.
    """
    row, target = case.online, "" if case.gap is None else case.gap.online
    lift = None
    if row is not None:
        units = row.units_control + row.units
        lift = spread(row.lift, row.lift_low, row.lift_high, units, case.alpha)
    if lift is None:
        return Gap(case.variant, target, reason=f"{target} has no interval online")
    # Points are lifts of clicks per impression, which do not add up with another metric.
    names = [cause.name for cause in found if cause.name in points and target == METRIC]
    parts = {name: _repeat_over_parts(points[name]) for name in names}
    both = (_repeat_over_parts(promise.lift), _repeat_over_parts(lift))
    errors = [one.extra for one in (*both, *parts.values())]
    gap = Gap(case.variant, target, source="history", predictor=promise.predictor)
    return _fill(gap, both, errors, parts, found, case.alpha)


def _fill(
    gap: Gap,
    both: tuple[Number, Number],
    errors: Sequence[float],
    parts: Mapping[str, Number],
    found: Sequence[Cause],
    alpha: float,
) -> Gap:
    """Write both ends of a gap, its parts by cause, and what is not explained.

    `errors` are those of what is not explained.
    """
    promised, came = both
    rest = came.values - promised.values - sum((p.values for p in parts.values()), np.zeros(1))
    ends = {
        "promised": promised,
        "came": came,
        "unexplained": Number(rest, float(np.linalg.norm(errors))),
    }
    numbers = dict[str, Any]()
    for name, number in ends.items():
        low, high = number.interval(alpha)
        numbers |= {name: number.value, f"{name}_low": low, f"{name}_high": high}
    sized = [(cause, parts[cause.name]) for cause in found if cause.name in parts]
    return replace(
        gap,
        causes=tuple(
            GapPart(cause.name, part.value, *part.interval(alpha), cause.p_adjusted)
            for cause, part in sized
        ),
        unsized=tuple(cause.name for cause in found if cause.name not in parts),
        **numbers,
    )


def _charge_lists(
    levels: Levels, base: Floats, shown: Floats, found_causes: Sequence[Cause]
) -> tuple[dict[str, Number], float]:
    """Share out what lists lost, up to what was shown.

    Return by how much two ways differ, too.
    """
    names = {cause.name for cause in found_causes}
    chain = [("candidates",), _SERVED, ("reordered",)]
    groups = [group for group in chain if names.intersection(group)]
    parts = dict[str, Number]()
    total_loss, apart = float((shown - base)[0]), 0.0
    for group in groups:
        end = levels.lifts[_STEPS[group[0]][1]]
        apart = abs(float((shown - end)[0]))
        # Without the fault, lists would be the promised ones: the last cause takes what is left,
        # if that is little.
        if group == groups[-1] and apart <= _ALIKE * abs(total_loss):
            end = shown
        # Causes of one step share it by what they account for, or equally if nobody knows.
        weights = {c.name: c.accounts_for or 0.0 for c in found_causes if c.name in group}
        total = sum(weights.values())
        for name, weight in weights.items():
            share = weight / total if total else 1 / len(weights)
            parts[name] = Number(share * (end - base), levels.misfit)
        base = end
    return parts, apart
