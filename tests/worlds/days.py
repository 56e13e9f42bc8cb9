"""Simulated days of units with a known effect over time, to calibrate verdicts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import NamedTuple

import numpy as np

from abeval.experiment.load import parse_experiment
from abeval.experiment.model import Experiment
from abeval.logs.placing import Enrollment, find_enrollment_periods
from abeval.results.windows import StabilityVerdict
from abeval.stats.records import Bools, Floats, Integers
from abeval.time.daily_table import DailyTable, MetricDays
from abeval.time.time_sums import Timeline

DAYS = 28
WEEKDAYS = np.array([1.0, 0.95, 0.95, 1.0, 1.1, 1.3, 1.25])
"""Relative impressions on each weekday."""

Lift = Callable[[Integers, Integers], Floats]
"""Relative effect, from the day and the days since entry."""


@dataclass(frozen=True)
class World:
    """A true effect over time, and the right verdict on it.

    Attributes:
        name: Name in the table.
        lift: Relative effect on the click rate.
        right: The right verdict.
        ramp: First day of an even split, after 10 % in treatment; None if it is always even.
    """

    name: str
    lift: Lift
    right: StabilityVerdict
    ramp: int | None = None


def _one_day(day: Integers, _: Integers) -> Floats:
    return np.where(day == 17, -0.35, 0.10)


def _weekend(day: Integers, _: Integers) -> Floats:
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
    """Simulated units, one row per unit and one column per day.

    Attributes:
        cohort: Day of entry, shape (units,).
        treated: Whether the unit is in treatment, shape (units,).
        shown: Impressions, shape (units, days).
        clicks: Clicks, shape (units, days).
    """

    cohort: Integers
    treated: Bools
    shown: Integers
    clicks: Integers


def units_of(world: World, seed: int, units: int = 8000, days: int = DAYS) -> Units:
    """Units that enter over the first half, with a rate of return and of clicks of their own.

    Half enter on the first day. Early units click more, as loyal users do, so that a ramp causes
    Simpson's paradox.
    """
    rng = np.random.default_rng([seed, 31])
    cohort = np.where(rng.random(units) < 0.5, 0, rng.integers(0, max(1, days // 2), units))
    share = 0.5 if world.ramp is None else np.where(cohort < world.ramp, 0.1, 0.5)
    treated = rng.random(units) < share
    day = np.arange(days)
    age = day - cohort[:, None]
    returns = rng.random((units, days)) < rng.beta(1.5, 2.5, units)[:, None]
    active = (age == 0) | ((age > 0) & returns)
    activity = 8 * rng.lognormal(-0.15, 0.5, units)
    shown = np.where(active, 1 + rng.poisson(activity[:, None] * WEEKDAYS[day % 7]), 0)
    taste = rng.beta(4, 26, units) * np.where(cohort < 7, 1.15, 0.85)
    lift = world.lift(np.broadcast_to(day, age.shape), np.maximum(age, 0))
    rate = taste[:, None] * (1 + np.where(treated[:, None], lift, 0.0))
    return Units(cohort, treated, shown, rng.binomial(shown, np.minimum(rate, 1.0)))


class Arm(NamedTuple):
    """The units of one variant: day of entry, and by day whether they are active, y and x."""

    cohort: Integers
    active: Bools
    y: Integers
    x: Integers


def metric_days(
    arms: Mapping[str, Arm], per_unit: bool = False, observed: int | None = None
) -> MetricDays:
    """The values of a metric by day, of which the last days may be observed in part."""
    whole = Arm(*map(np.concatenate, zip(*arms.values(), strict=True)))
    unit, day = np.nonzero(whole.active)
    days = whole.active.shape[1]
    table = DailyTable(
        variants=[*arms],
        variant=np.repeat(np.arange(len(arms)), [len(arm.cohort) for arm in arms.values()]),
        entry=whole.cohort,
        unit=unit.astype(np.int32),
        day=day.astype(np.int32),
        days=days,
        cohorts=days,
        observed=observed or days,
    )
    y, x = (values.astype(np.int64)[unit, day] for values in (whole.y, whole.x))
    return MetricDays(table, y, x, per_unit=per_unit)


def days_of(units: Units, per_unit: bool = False) -> MetricDays:
    """Clicks per impression, or clicks per unit, by variant and day."""
    arms = {}
    for name, rows in (("control", ~units.treated), ("treatment", units.treated)):
        active = units.shown[rows] > 0
        denominator = active.astype(np.int64) if per_unit else units.shown[rows]
        arms[name] = Arm(units.cohort[rows], active, units.clicks[rows], denominator)
    return metric_days(arms, per_unit)


def experiment_of(alpha: float = 0.05) -> Experiment:
    """The experiment of the simulated units."""
    return parse_experiment(
        {
            "name": "simulated",
            "unit": "user_id",
            "control": "control",
            "alpha": alpha,
            "variants": {"control": {}, "treatment": {}},
            "logs": {"impressions": {"path": "none.parquet"}},
        }
    )


def time_sums(units: Units, name: str = "ctr") -> Timeline:
    """Values as the log has them, for days from 1 March on."""
    clicks = days_of(units)
    first = date(2027, 3, 1)
    days = tuple(str(first + timedelta(days=i)) for i in range(units.shown.shape[1]))
    entered = dict(zip(clicks.table.variants, clicks.table.entry_counts, strict=True))
    rows = [
        Enrollment(0, day, 12, variant, int(of_variant[i]))
        for variant, of_variant in entered.items()
        for i, day in enumerate(days)
    ]
    experiment = experiment_of()
    stretches = find_enrollment_periods(experiment, rows)
    return Timeline(experiment, days, frozenset(), entered, {name: clicks}, split_periods=stretches)
