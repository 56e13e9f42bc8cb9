"""Calibration of always-valid looks, with and without a plan, as an analysis tests them.

A/A experiments whose users come back, looked at daily over 90 days and hourly over 28; and
experiments looked at after each new user. Every look is judged by the rules of
`inference.looks.adjust_to_look`: whether it may begin, and its boundary.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from abeval.inference.looks import START_PRECISION, START_UNITS
from abeval.stats import sequential
from abeval.stats.records import Bools, Floats
from benchmarks.calibration.outcome import ALPHA
from benchmarks.runner import Record, Table
from tests.worlds.users import Split

Float32s = NDArray[np.float32]
METRICS = ("clicks per user", "click rate", "revenue per user")


class Visits(NamedTuple):
    """How users come.

    Attributes:
        looks: Looks, one a day or an hour.
        per_look: Mean impressions of a present user until the next look.
        users: Users that experiments draw from.
    """

    looks: int
    per_look: float
    users: int


class Paths(NamedTuple):
    """Users at each look, shape (users, looks).

    Attributes:
        clicks: Clicks so far.
        shown: Impressions so far.
        revenue: Revenue so far.
        present: Whether the user has been seen.
    """

    clicks: Float32s
    shown: Float32s
    revenue: Float32s
    present: Bools


class Path(NamedTuple):
    """One metric of one experiment, shape (looks,).

    Attributes:
        z: The difference over its standard error.
        precision: The standard error over the value of both variants.
        units: Units of the smaller variant.
        total: Units of both.
    """

    z: Floats
    precision: Floats
    units: Floats
    total: Floats


def paths(seed: int, visits: Visits, lift: float = 0.0) -> Paths:
    """Users who enter over the first half and come back at rates of their own."""
    rng = np.random.default_rng([seed, 17])
    looks, per_look, users = visits
    entry = rng.integers(0, max(1, looks // 2), users)
    entry[: users // 4] = 0
    habit = per_look * rng.lognormal(-0.3, 0.8, users)
    taste = rng.beta(1.5, 13.5, users) * (1 + lift)
    shown = rng.poisson(habit[:, None], (users, looks))
    shown[np.arange(users), entry] += 1
    shown[np.arange(looks) < entry[:, None]] = 0
    clicks = rng.binomial(shown, np.minimum(taste, 1.0)[:, None])
    bought = rng.binomial(clicks, 0.2)
    revenue = bought * rng.lognormal(0, 1, (users, looks))
    y, x, r = (np.cumsum(v, axis=1).astype(np.float32) for v in (clicks, shown, revenue))
    return Paths(y, x, r, np.arange(looks) >= entry[:, None])


class Arm(NamedTuple):
    """A variant at each look: its units; value and variance of each metric, in order."""

    units: Floats
    values: tuple[Floats, ...]
    variances: tuple[Floats, ...]


def _arm(of: Paths, rng: np.random.Generator, units: int) -> Arm:
    drawn = rng.integers(0, len(of.clicks), units)
    y, x, r = of.clicks[drawn], of.shown[drawn], of.revenue[drawn]
    n = of.present[drawn].sum(axis=0).astype(float)
    mean, mean_x, mean_r = _sum(y) / n, _sum(x) / n, _sum(r) / n
    ratio = mean / mean_x
    residual = _sum(y * y) - 2 * ratio * _sum(y * x) + ratio**2 * _sum(x * x)
    return Arm(
        n,
        (mean, ratio, mean_r),
        (
            (_sum(y * y) / n - mean**2) / (n - 1),
            residual / n / (n - 1) / mean_x**2,
            (_sum(r * r) / n - mean_r**2) / (n - 1),
        ),
    )


def _sum(values: Float32s) -> Floats:
    return np.asarray(np.sum(values, axis=0, dtype=float))


def experiment(
    rng: np.random.Generator, control: Paths, treatment: Paths, split: Split
) -> list[Path]:
    """The looks at each metric of one experiment."""
    with np.errstate(all="ignore"):
        c, t = _arm(control, rng, split[0]), _arm(treatment, rng, split[1])
        return [
            path_of(
                (c.values[k], t.values[k]), (c.variances[k], t.variances[k]), (c.units, t.units)
            )
            for k in range(len(METRICS))
        ]


def path_of(
    values: tuple[Floats, Floats],
    variances: tuple[Floats, Floats],
    units: tuple[Floats, Floats],
) -> Path:
    """Looks from the values of control and of the variant, their variances and their units."""
    total = units[0] + units[1]
    se = np.sqrt(variances[0] + variances[1])
    pooled = (units[0] * values[0] + units[1] * values[1]) / total
    larger = np.where(units[0] >= units[1], variances[0] * units[0], variances[1] * units[1])
    alike = np.sqrt(larger * (1 / units[0] + 1 / units[1]))
    precision = np.maximum(se, alike) / np.abs(pooled)
    return Path((values[1] - values[0]) / se, precision, np.minimum(*units), total)


def has_begun(path: Path) -> Bools:
    """Return at which looks the rules let them begin."""
    return np.asarray((path.units >= START_UNITS) & (path.precision <= START_PRECISION))


def reject_freely(path: Path) -> Bools:
    """Return which looks reject without a plan."""
    growth = np.maximum(1.0, (START_PRECISION / path.precision) ** 2)
    critical = np.sqrt(sequential.find_bound_from_start(1.0, ALPHA) ** 2 + np.log(growth))
    return np.asarray(has_begun(path) & (np.abs(path.z) >= critical))


def reject_planned(path: Path, units: int) -> Bools:
    """Return which looks reject with a planned number of units."""
    clock = sequential.tune_mixture(ALPHA) ** 2 * path.total / units
    critical = np.sqrt(2 * (clock + 1) / clock * (0.5 * np.log1p(clock) - np.log(ALPHA)))
    return np.asarray(has_begun(path) & (np.abs(path.z) >= critical))


def measure_returning(
    cell: tuple[str, Visits, Split], repetitions: int, seed: int
) -> Iterator[Record]:
    """Look at A/A experiments whose users come back."""
    name, visits, split = cell
    users, rng = paths(seed, visits), np.random.default_rng([seed, 18])
    flags = np.zeros((repetitions, len(METRICS), 4), dtype=bool)
    for run in range(repetitions):
        for k, path in enumerate(experiment(rng, users, users, split)):
            flags[run, k] = _flags(path, sum(split))
    for k, metric in enumerate(METRICS):
        yield _record(f"{name}, {split}", metric, flags[:, k])


def _record(world: str, metric: str, flags: Bools) -> Record:
    heads = ("without a plan, %", "with a plan, %", "p of one look, %", "began, %")
    return {"looks": world, "metric": metric, **dict(zip(heads, flags.mean(axis=0), strict=True))}


def _flags(path: Path, units: int) -> list[bool]:
    """Return which rejects at some look: without a plan, with one, by p; and if looks began."""
    naive = (path.units >= START_UNITS) & (np.abs(path.z) >= -special.ndtri(ALPHA / 2))
    looks = reject_freely(path), reject_planned(path, units), naive, has_begun(path)
    return [bool(look.any()) for look in looks]


VALUES = ("exponential", "conversion of 1 %", "3 % buyers, lognormal")


def _values(rng: np.random.Generator, name: str, units: int) -> Floats:
    match name:
        case "exponential":
            return rng.exponential(1.0, units)
        case "conversion of 1 %":
            return (rng.random(units) < 0.01).astype(float)
        case _:
            bought = rng.random(units) < 0.03
            return np.where(bought, rng.lognormal(0, 1, units), 0.0)


def measure_each_unit(cell: tuple[str, float], repetitions: int, seed: int) -> Record:
    """Look at A/A experiments after each new user."""
    (name, share), units = cell, 100_000
    rng = np.random.default_rng([seed, 19, VALUES.index(name)])
    flags = [_flags(_one_by_one(rng, name, share, units), units) for _ in range(repetitions)]
    world = f"each of {units:,} units, {100 - 100 * share:g}/{100 * share:g}"
    return _record(world, name, np.array(flags))


def _one_by_one(rng: np.random.Generator, name: str, share: float, units: int) -> Path:
    values = _values(rng, name, units)
    treated = rng.random(units) < share
    with np.errstate(all="ignore"):
        arms = [_cumulative(np.where(own, values, 0.0), own) for own in (~treated, treated)]
        n, means, variances = zip(*arms, strict=True)
        return path_of((means[0], means[1]), (variances[0], variances[1]), (n[0], n[1]))


def _cumulative(values: Floats, own: Bools) -> tuple[Floats, Floats, Floats]:
    n = np.cumsum(own).astype(float)
    mean = np.cumsum(values) / n
    return n, mean, (np.cumsum(values * values) / n - mean**2) / (n - 1)


def measure_speed(cell: tuple[Split, float], repetitions: int, seed: int) -> Record:
    """Measure how soon a true effect on clicks per user is found, 1 where it is not."""
    split, lift = cell
    control, treatment = paths(seed, DAILY), paths(seed + 1, DAILY, lift)
    rng = np.random.default_rng([seed, 20])
    fixed, firsts = [], np.ones((2, repetitions))
    hits = np.zeros((2, repetitions), dtype=bool)
    for run in range(repetitions):
        path = experiment(rng, control, treatment, split)[0]
        fixed.append(abs(path.z[-1]) >= -special.ndtri(ALPHA / 2))
        for k, crossed in enumerate((reject_freely(path), reject_planned(path, sum(split)))):
            hits[k, run] = crossed.any()
            firsts[k, run] = (np.argmax(crossed) + 1) / DAILY.looks if crossed.any() else 1.0
    found, after = hits.mean(axis=1).tolist(), [f"{share:.2f}" for share in firsts.mean(axis=1)]
    return {
        "looks": f"daily, 90 days, {split}, lift {lift:.1%}",
        "one look at the end finds, %": float(np.mean(fixed)),
        "without a plan finds, %": found[0],
        "after, share of the days": after[0],
        "with a plan finds, %": found[1],
        "after": after[1],
    }


DAILY, HOURLY = Visits(90, 0.5, 20_000), Visits(672, 0.05, 6_000)
EVEN, UNEVEN = Split(2000, 2000), Split(5400, 600)
RETURNING = [
    *(("daily, 90 days", DAILY, split) for split in (EVEN, UNEVEN)),
    *(("hourly, 28 days", HOURLY, split) for split in (Split(500, 500), Split(900, 100))),
]
# One look at the end finds 40 to 95 % of these effects.
LIFTS = [
    *((EVEN, lift) for lift in (0.073, 0.11, 0.15)),
    *((UNEVEN, lift) for lift in (0.1, 0.15, 0.2)),
]
TABLES = {
    "returning": Table(measure_returning, RETURNING, repetitions=4_000, digits=2),
    "each": Table(measure_each_unit, [(v, s) for v in VALUES for s in (0.5, 0.1)], 4_000, 2),
    "speed": Table(measure_speed, LIFTS, repetitions=1_000),
}
