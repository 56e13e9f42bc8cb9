"""Decide when results may be read: at the end, at planned looks, or any time."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from scipy import special

from abeval.experiment.model import Experiment
from abeval.experiment.sections import Period, convert_to_datetime
from abeval.logs.accounting import DayRows
from abeval.stats import effects, sequential
from abeval.stats.distributions import compute_p_value, two_sided_quantile
from abeval.stats.records import Effect, Refusal

# A look up to this share of the information late still counts as planned.
_NEAR = 0.01

# A look needs at least this share of new information.
_NEW = 1e-6

# Beyond this z, tail probabilities are 0 in double precision.
_WIDEST = 37.0


START_UNITS = 100
"""Always-valid looks begin at this many units per variant, for they are asymptotic."""

START_PRECISION = 0.15
"""Always-valid looks begin once the standard error is this share of the metric's value.

As with 90 conversions a variant at an even split. From there on effects are close enough to normal
at each look, also those of skewed metrics at uneven splits (docs/calibration.md). Without a plan,
information is counted in multiples of what there is then.
"""


class LookBoundary(NamedTuple):
    """The critical |z| of this look, and whether the effect has crossed it.

    Information is the share of the plan. Without a plan, it is a multiple of the information at
    which looks may begin.
    """

    information: float
    z: float
    boundary: float
    crossed: bool
    looks: "Looks"


class EffectAtLook(NamedTuple):
    """An effect with an interval and a p-value that hold at this look.

    `level` is the error rate at which a fixed-horizon interval is as wide.
    """

    effect: Effect
    level: float
    boundary: LookBoundary | None


class AlwaysValidLooks(NamedTuple):
    """Any number of looks: units of both variants, now and as planned."""

    units_control: int
    units: int
    planned_units: int | None = None

    def information(self, effect: Effect, variances: tuple[float, float]) -> float:
        """Return the information at this look, in the unit of `LookBoundary`.

        Raises:
            Refusal: `before_first_look` if looks may not begin yet.
        """
        units = self.units_control, self.units
        if min(units) < START_UNITS:
            raise Refusal("before_first_look", f"a variant has fewer than {START_UNITS} units")
        error = estimate_relative_error(effect, variances, units)
        if error > START_PRECISION:
            raise Refusal("before_first_look", f"the standard error is {error:.0%} of the value")
        planned = self.planned_units
        return (START_PRECISION / error) ** 2 if planned is None else sum(units) / planned

    def critical(self, information: float, level: float) -> tuple[float, ...]:
        """Return the critical |z| of this look."""
        if self.planned_units is None:
            return (sequential.find_bound_from_start(max(information, 1.0), level),)
        return (sequential.find_sequence_bound(information, level),)

    def adjust_effect(self, effect: Effect, information: float, alpha: float) -> EffectAtLook:
        """Replace the interval and p-value by a confidence sequence's."""
        planned = self.planned_units is not None
        follow = sequential.confidence_sequence if planned else sequential.look_from_start
        look = follow(effect.difference, effect.se, information, alpha)
        half = (look.high - effect.difference) / effect.se
        level = compute_p_value(half, effect.df)
        z = effect.difference / effect.se
        boundary = LookBoundary(information, z, half, abs(z) >= half, self)
        valid = _replace_interval(effect, "always_valid", look.low, look.high, look.p_value)
        return EffectAtLook(valid, level, boundary)


class PlannedLooks(NamedTuple):
    """A number of planned looks, up to this one.

    Attributes:
        shares: Share of the plan at each look so far, this one last; it determines spent alpha.
        fractions: Information at each look over that at this look.
        planned: Whether this look is one of the plan.
        total_looks: Number of planned looks.
    """

    shares: tuple[float, ...]
    fractions: tuple[float, ...]
    spending: sequential.Spending
    planned: bool = True
    total_looks: int = 1

    def information(self, _effect: Effect, _variances: tuple[float, float]) -> float:
        """Return the share of the plan at this look."""
        return self.shares[-1]

    def critical(self, _information: float, level: float) -> tuple[float, ...]:
        """Return the critical |z| of each look so far."""
        bounds = sequential.bounds(self.fractions, level, self.spending, spent_at=self.shares)
        return tuple(min(z, _WIDEST) for z in bounds.z)

    def adjust_effect(self, effect: Effect, information: float, alpha: float) -> EffectAtLook:
        """Replace interval and p-value by repeated ones.

        Source: Jennison and Turnbull (1989), for the z with the p-value of t.
        """
        # The bounds are for z, so the t statistic is converted by its p-value.
        z = -float(special.ndtri(effect.p_value / 2)) if effect.p_value > 0 else _WIDEST
        critical = self.critical(information, alpha)[-1]
        level = 2 * float(special.ndtr(-critical))
        ends = effects.compute_interval(effect.difference, effect.se, effect.df, level)
        p = sequential.repeated_p_value(z, self.fractions, self.spending, spent_at=self.shares)
        signed = z if effect.difference >= 0 else -z
        boundary = LookBoundary(information, signed, critical, z >= critical, self)
        valid = _replace_interval(effect, "group_sequential", *ends, p.value)
        return EffectAtLook(valid, level, boundary)


Looks = AlwaysValidLooks | PlannedLooks


class InformationByDay(NamedTuple):
    """Days, and the information on an effect up to the end of so many of them."""

    days: Sequence[str]
    until: Callable[[int], float]


def _replace_interval(effect: Effect, name: str, low: float, high: float, p_value: float) -> Effect:
    method = f"{name}_{effect.method.removesuffix('_t')}"
    return effect._replace(low=low, high=high, p_value=p_value, method=method)


def build_looks(
    experiment: Experiment,
    units: tuple[int, int],
    days: Sequence[DayRows],
    information: InformationByDay | None = None,
) -> Looks | None:
    """Build the looks of an experiment; None for one look at the end.

    `units` are the numbers of units in control and in the variant. Without information by day,
    every day brings as much as the plan says.
    """
    inference = experiment.inference
    if inference.looks == "fixed":
        return None
    if inference.looks == "always_valid":
        return AlwaysValidLooks(*units, inference.planned_units)
    share = 1.0
    if inference.planned_units:
        share = sum(units) / inference.planned_units
    elif days:
        share = _share(experiment.period, _find_day_end(max(day.day for day in days)))
    now = min(1.0, share)
    planned = list_planned_fractions(experiment)
    before = [share for share in planned if share < now - _NEAR]
    on_plan = any(now - _NEAR <= share <= now for share in planned)
    # Without information by day, it is taken to grow evenly with the plan.
    fractions = [share / now for share in before]
    total = information.until(len(information.days)) if information and before else 0.0
    if information and total > 0:
        listed = [day for day in days if day.day in information.days]
        ends = [0.0, *_list_day_end_shares(experiment, listed, now)]
        fractions = [_interpolate(information, ends, share) / total for share in before]
    shares, kept = keep_informative_looks(before, fractions)
    return PlannedLooks((*shares, now), (*kept, 1.0), inference.spending, on_plan, len(planned))


def _interpolate(information: InformationByDay, ends: Sequence[float], share: float) -> float:
    """Return the information at a share of the plan.

    Between the ends of two days the information grows linearly.
    """
    days = float(np.interp(share, ends, np.arange(len(ends))))
    last, part = int(days), days % 1
    so_far = information.until(last)
    return so_far + part * (information.until(last + 1) - so_far) if part else so_far


def _list_day_end_shares(
    experiment: Experiment, days: Sequence[DayRows], now: float
) -> list[float]:
    """Return the share of the plan reached by each day's end.

    In units if the plan has them, else in time.
    """
    if experiment.inference.planned_units is not None:
        units = list(accumulate(day.new_units for day in days))
        return [now * float(n) / float(units[-1]) for n in units]
    return [min(1.0, _share(experiment.period, _find_day_end(day.day))) for day in days]


def _find_day_end(day: str) -> datetime:
    return datetime.fromisoformat(day) + timedelta(days=1)


def keep_informative_looks(
    shares: Sequence[float], fractions: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Keep earlier looks that added information."""
    kept: list[tuple[float, float]] = []
    for share, fraction in zip(shares, fractions, strict=True):
        last = kept[-1][1] if kept else 0.0
        if last + _NEW < fraction < 1 - _NEW:
            kept.append((share, fraction))
    return [share for share, _ in kept], [fraction for _, fraction in kept]


def list_planned_fractions(experiment: Experiment) -> Sequence[float]:
    """Return the shares of the plan at the planned looks; the last is 1."""
    looks, period = experiment.inference.planned_looks or [], experiment.period
    shares = [
        look if isinstance(look, float) else _share(period, convert_to_datetime(look))
        for look in looks
    ]
    return sorted({*shares, 1.0})


def find_next_look(experiment: Experiment, looks: Looks | None) -> str | None:
    """Return the next planned look: its local day, or a number of units."""
    shares, period = list_planned_fractions(experiment), experiment.period
    if not isinstance(looks, PlannedLooks) or shares[-1] <= looks.shares[-1]:
        return None
    share = next(planned_share for planned_share in shares if planned_share > looks.shares[-1])
    if experiment.inference.planned_units is not None:
        return f"{math.ceil(share * experiment.inference.planned_units):,} units"
    if period is None:
        return None
    start, end = period.bounds
    return str((start + share * (end - start)).date())


def _share(period: Period | None, until: datetime) -> float:
    if period is None:
        return 1.0
    start, end = period.bounds
    return (until - start) / (end - start)


def adjust_to_look(
    effect: Effect, looks: Looks | None, alpha: float, variances: tuple[float, float]
) -> EffectAtLook:
    """Correct a fixed-horizon effect for the looks so far.

    `variances` are the sampling variances of control's and the variant's value.

    Raises:
        Refusal: `before_first_look` if always-valid looks may not begin yet.
    """
    if looks is None:
        return EffectAtLook(effect, alpha, None)
    return looks.adjust_effect(effect, looks.information(effect, variances), alpha)


def list_critical_values(
    looks: Looks | None, information: float, level: float
) -> tuple[float, ...]:
    """Return the |z| at which each look so far rejects; the last is this look.

    `information` is in the unit of `LookBoundary`. `level` is two-sided, over all looks together.
    """
    return (two_sided_quantile(level),) if looks is None else looks.critical(information, level)


def estimate_relative_error(
    effect: Effect, variances: tuple[float, float], units: tuple[int, int]
) -> float:
    """Return the standard error of an effect over the metric's mean value.

    It is no smaller than if both variants varied as the larger one does.
    """
    larger = 0 if units[0] >= units[1] else 1
    # Rare events may be few in the smaller variant by chance.
    alike = variances[larger] * units[larger] * (1 / units[0] + 1 / units[1])
    value = abs(units[0] * effect.control + units[1] * effect.treatment) / sum(units)
    return math.inf if value == 0 else math.sqrt(max(effect.se**2, alike)) / value


def adjust_to_same_look(effect: Effect, boundary: LookBoundary | None, alpha: float) -> Effect:
    """Correct an effect by the boundary of another one of the same units."""
    if boundary is None:
        return effect
    return boundary.looks.adjust_effect(effect, boundary.information, alpha).effect
