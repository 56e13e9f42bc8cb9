"""When one may look: at the planned end, at planned looks, or whenever one likes."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import pandas as pd
from scipy import special

from abeval.experiment.model import Experiment, Period, moment
from abeval.stats import effects, group_sequential, sequential
from abeval.stats.distributions import tail
from abeval.stats.records import Effect

_NEAR = 0.01
"""A look this much later than planned, as a share of the information, is the planned one."""

_WIDEST = 37.0
"""Critical values beyond this have no probability in double precision."""


class AlwaysValid(NamedTuple):
    """Any number of looks; `information` is the share of the planned that is in."""

    information: float


class Planned(NamedTuple):
    """Planned looks.

    Attributes:
        fractions: Information fractions of the looks so far, this one last.
        spending: How alpha is spent over them.
        planned: Whether this look is one of the plan.
        of: Looks of the plan, the last at the end.
    """

    fractions: tuple[float, ...]
    spending: group_sequential.Spending
    planned: bool = True
    of: int = 1


Looks = AlwaysValid | Planned


class Boundary(NamedTuple):
    """What an effect is held against at this look.

    Attributes:
        information: Share of the planned information that is in.
        z: The effect over its standard error.
        boundary: What the size of z has to reach.
        crossed: Whether it does.
    """

    information: float
    z: float
    boundary: float
    crossed: bool


class Judged(NamedTuple):
    """An effect as it may be looked at.

    Attributes:
        effect: With an interval and a p-value that hold at this look.
        level: Error rate at which a fixed interval would be as wide.
        boundary: None for a fixed horizon.
    """

    effect: Effect
    level: float
    boundary: Boundary | None


def looks_of(experiment: Experiment, units: int, days: pd.DataFrame) -> Looks | None:
    """How the looks of an experiment are judged, None for one look at the end.

    Args:
        experiment: Its plan.
        units: Units of the two variants that are compared.
        days: The days with an impression, as `Aggregates.days`.
    """
    inference = experiment.inference
    if inference.looks == "fixed":
        return None
    share = units / inference.planned_units if inference.planned_units else None
    if inference.looks == "always_valid":
        return AlwaysValid(1.0 if share is None else share)
    now = min(1.0, elapsed(experiment.period, days) if share is None else share)
    planned = planned_fractions(experiment)
    before = [fraction for fraction in planned if fraction < now - _NEAR]
    on_plan = any(now - _NEAR <= fraction <= now for fraction in planned)
    return Planned((*before, now), inference.spending, on_plan, len(planned))


def planned_fractions(experiment: Experiment) -> Sequence[float]:
    """Information fractions of the planned looks, the end last."""
    looks, period = experiment.inference.planned_looks or [], experiment.period
    told = [look if isinstance(look, float) else _share(period, moment(look)) for look in looks]
    return sorted({*told, 1.0})


def _share(period: Period | None, until: datetime) -> float:
    if period is None:
        return 1.0
    start, end = period.bounds
    return (until - start) / (end - start)


def elapsed(period: Period | None, days: pd.DataFrame) -> float:
    """Share of the period up to the end of the last day with an impression; 1 without a period."""
    if period is None or days.empty:
        return 1.0
    last = datetime.fromisoformat(str(days["day"].max())) + timedelta(days=1)
    return min(1.0, _share(period, last))


def at_looks(effect: Effect, looks: Looks | None, alpha: float) -> Judged:
    """An effect with an interval and a p-value that hold at this look."""
    match looks:
        case None:
            return Judged(effect, alpha, None)
        case AlwaysValid(information=information):
            return _always_valid(effect, information, alpha)
        case Planned():
            return _planned(effect, looks, alpha)


def _always_valid(effect: Effect, information: float, alpha: float) -> Judged:
    look = sequential.confidence_sequence(effect.difference, effect.se, information, alpha)
    half = (look.high - effect.difference) / effect.se
    level, _ = tail(half, effect.df, "two-sided")
    valid = effect._replace(
        low=look.low,
        high=look.high,
        p_value=look.p_value,
        log10_p_value=look.log10_p_value,
        method=f"always_valid_{effect.method.removesuffix('_t')}",
    )
    z = effect.difference / effect.se
    return Judged(valid, level, Boundary(information, z, half, abs(z) >= half))


def _planned(effect: Effect, looks: Planned, alpha: float) -> Judged:
    """Repeated interval and p-value (Jennison and Turnbull 1989), on the z whose p is the t's."""
    z = -float(special.ndtri(effect.p_value / 2)) if effect.p_value > 0 else _WIDEST
    critical = group_sequential.bounds(looks.fractions, alpha, looks.spending).z[-1]
    critical = min(critical, _WIDEST)
    level = 2 * float(special.ndtr(-critical))
    ends = effects.interval(effect.difference, effect.se, effect.df, level)
    p_value = group_sequential.repeated_p_value(z, looks.fractions, looks.spending)
    found = effect._replace(
        low=ends.low,
        high=ends.high,
        p_value=p_value.value,
        log10_p_value=p_value.log10,
        method=f"group_sequential_{effect.method.removesuffix('_t')}",
    )
    signed = z if effect.difference >= 0 else -z
    return Judged(found, level, Boundary(looks.fractions[-1], signed, critical, z >= critical))
