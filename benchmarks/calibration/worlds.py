"""Units' days with known truth: what the verdicts over time are calibrated on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abeval.results.windows import Verdict
from abeval.time.day_sums import DaySums
from abeval.time.time_sums import TimeSums

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
DAYS = 28
WEEKDAYS = np.array([1.0, 0.95, 0.95, 1.0, 1.1, 1.3, 1.25])
"""How much is shown on each weekday."""

Lift = Callable[[Whole, Whole], Floats]
"""Of day and days since entry."""


@dataclass(frozen=True)
class World:
    """A truth, and the verdict that is right for it.

    Attributes:
        name: Its name.
        lift: Relative effect on the click rate.
        right: The right verdict.
        ramp: First day of an even split; 10 % are treated before. None for an even split always.
    """

    name: str
    lift: Lift
    right: Verdict
    ramp: int | None = None


def _one_day(day: Whole, _: Whole) -> Floats:
    return np.where(day == 17, -0.35, 0.10)


def _weekend(day: Whole, _: Whole) -> Floats:
    return np.where(day % 7 >= 5, 0.22, 0.06)


WORLDS: tuple[World, ...] = (
    World("no effect", lambda day, _: np.zeros(day.shape), "stable"),
    World("constant", lambda day, _: np.full(day.shape, 0.10), "stable"),
    World("novelty", lambda _, age: 0.05 + 0.30 * np.exp(-age / 3), "settling"),
    World("primacy", lambda _, age: 0.15 - 0.30 * np.exp(-age / 3), "settling"),
    World("drift", lambda day, _: 0.02 + 0.20 * day / (DAYS - 1), "drifting"),
    World("one-day shock", _one_day, "stable"),
    World("weekly rhythm only", _weekend, "stable"),
    World("ramp 10 to 50 %", lambda day, _: np.full(day.shape, 0.10), "stable", ramp=7),
)


@dataclass(frozen=True)
class Units:
    """Simulated units: rows are units, columns days.

    Attributes:
        cohort: Day of entry.
        treated: Whether in treatment.
        shown: Impressions.
        clicks: Clicks.
    """

    cohort: Whole
    treated: NDArray[np.bool_]
    shown: Whole
    clicks: Whole


def units_of(world: World, seed: int, units: int = 8000, days: int = DAYS) -> Units:
    """Units that enter over the first half, come back at their own rate, and click to their taste.

    Half enter on the first day. Early units click more, as the faithful do, so that shares that
    change bring Simpson's paradox along.
    """
    rng = np.random.default_rng([seed, 31])
    cohort = np.where(rng.random(units) < 0.5, 0, rng.integers(0, max(1, days // 2), units))
    share = 0.5 if world.ramp is None else np.where(cohort < world.ramp, 0.1, 0.5)
    treated = rng.random(units) < share
    day = np.arange(days)
    age = day - cohort[:, None]
    comes = rng.random((units, days)) < rng.beta(1.5, 2.5, units)[:, None]
    active = (age == 0) | ((age > 0) & comes)
    often = 8 * rng.lognormal(-0.15, 0.5, units)
    shown = np.where(active, 1 + rng.poisson(often[:, None] * WEEKDAYS[day % 7]), 0)
    taste = rng.beta(4, 26, units) * np.where(cohort < 7, 1.15, 0.85)
    lift = world.lift(np.broadcast_to(day, age.shape), np.maximum(age, 0))
    rate = taste[:, None] * (1 + np.where(treated[:, None], lift, 0.0))
    return Units(cohort, treated, shown, rng.binomial(shown, np.minimum(rate, 1.0)))


def sums_of(made: Units, per_unit: bool = False) -> Mapping[str, DaySums]:
    """The sums of clicks per impression, or of clicks per unit, by variant."""
    from dataclasses import replace

    found = {}
    for name, rows in (("control", ~made.treated), ("treatment", made.treated)):
        active = made.shown[rows] > 0
        below = active if per_unit else made.shown[rows]
        sums = DaySums.of(made.cohort[rows], active, made.clicks[rows], below)
        found[name] = replace(sums, per_unit=per_unit)
    return found


def time_sums(made: Units, name: str = "ctr") -> TimeSums:
    """As the queries would have found them, from the first of March on."""
    from datetime import date, timedelta

    sums = sums_of(made)
    first = date(2027, 3, 1)
    days = tuple(str(first + timedelta(days=i)) for i in range(made.shown.shape[1]))
    activity = {variant: found.activity for variant, found in sums.items()}
    return TimeSums(days, frozenset(), activity, {name: sums}, {})
