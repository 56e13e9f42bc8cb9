"""Calibration of always-valid looks, with and without a plan, as an analysis tests them.

    python -m benchmarks.calibration.looks
    python -m benchmarks.calibration.looks --part speed

A/A experiments whose users come back, looked at daily over 90 days and hourly over 28; and
experiments looked at after each new user. Every look is judged by the rules of
`inference.looks.adjust_to_look`: whether it may begin, and its boundary.
"""

import argparse
import sys
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from abeval.inference.looks import START_PRECISION, START_UNITS
from abeval.stats import sequential
from abeval.stats.records import Bools, Floats
from benchmarks.calibration.logs import Split
from benchmarks.calibration.outcome import ALPHA

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


class Cell(NamedTuple):
    """What looks did in many experiments; shares of experiments.

    Attributes:
        world: How users come, and the split.
        metric: The metric.
        runs: Experiments.
        free: Without a plan, rejected at some look.
        planned: With the planned number of units.
        naive: By the p-value for one look.
        begun: In which looks without a plan began at all.
    """

    world: str
    metric: str
    runs: int
    free: float
    planned: float
    naive: float
    begun: float


class Speed(NamedTuple):
    """When a true effect, which a single look at the end finds in `power`, is detected.

    Attributes:
        power: Of the test for one look, at the end.
        free: Mean share of the experiment until looks without a plan find it, 1 where they do not.
        planned: The same with a plan.
        free_power: Share of experiments in which looks without a plan find it.
        planned_power: With a plan.
    """

    world: str
    metric: str
    runs: int
    power: float
    free: float
    planned: float
    free_power: float
    planned_power: float


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


def free(path: Path) -> Bools:
    """Which looks reject without a plan."""
    begun = (path.units >= START_UNITS) & (path.precision <= START_PRECISION)
    growth = np.maximum(1.0, (START_PRECISION / path.precision) ** 2)
    critical = np.sqrt(sequential.critical_from_start(1.0, ALPHA) ** 2 + np.log(growth))
    return np.asarray(begun & (np.abs(path.z) >= critical))


def planned(path: Path, units: int) -> Bools:
    """Which looks reject with a planned number of units."""
    begun = (path.units >= START_UNITS) & (path.precision <= START_PRECISION)
    clock = sequential.tuning(ALPHA) ** 2 * path.total / units
    critical = np.sqrt(2 * (clock + 1) / clock * (0.5 * np.log1p(clock) - np.log(ALPHA)))
    return np.asarray(begun & (np.abs(path.z) >= critical))


def returning(seed: int, runs: int, visits: Visits, split: Split, world: str) -> list[Cell]:
    """A/A experiments whose users come back."""
    users, rng = paths(seed, visits), np.random.default_rng([seed, 18])
    flags = np.zeros((runs, len(METRICS), 4), dtype=bool)
    for run in range(runs):
        for k, path in enumerate(experiment(rng, users, users, split)):
            flags[run, k] = _flags(path, sum(split))
    rates = flags.mean(axis=0)
    return [Cell(world, name, runs, *rates[k].tolist()) for k, name in enumerate(METRICS)]


def _flags(path: Path, units: int) -> tuple[bool, ...]:
    begun = (path.units >= START_UNITS) & (path.precision <= START_PRECISION)
    naive = (path.units >= START_UNITS) & (np.abs(path.z) >= -special.ndtri(ALPHA / 2))
    looks = free(path), planned(path, units), naive, begun
    return tuple(bool(look.any()) for look in looks)


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


def each_unit(seed: int, runs: int, name: str, share: float, units: int = 100_000) -> Cell:
    """A/A experiments that are looked at after each new user."""
    rng = np.random.default_rng([seed, 19, VALUES.index(name)])
    flags = np.zeros((runs, 4), dtype=bool)
    for run in range(runs):
        flags[run] = _flags(_one_by_one(rng, name, share, units), units)
    world = f"each of {units:,} units, {100 - 100 * share:g}/{100 * share:g}"
    return Cell(world, name, runs, *flags.mean(axis=0).tolist())


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


def speed(seed: int, runs: int, visits: Visits, split: Split, world: str, lift: float) -> Speed:
    """How soon a true effect on clicks per user is found."""
    control, treatment = paths(seed, visits), paths(seed + 1, visits, lift)
    rng = np.random.default_rng([seed, 20])
    fixed, firsts = [], np.ones((2, runs))
    hits = np.zeros((2, runs), dtype=bool)
    for run in range(runs):
        path = experiment(rng, control, treatment, split)[0]
        fixed.append(abs(path.z[-1]) >= -special.ndtri(ALPHA / 2))
        for k, crossed in enumerate((free(path), planned(path, sum(split)))):
            hits[k, run] = crossed.any()
            firsts[k, run] = (np.argmax(crossed) + 1) / visits.looks if crossed.any() else 1.0
    return Speed(
        world,
        METRICS[0],
        runs,
        float(np.mean(fixed)),
        *firsts.mean(axis=1).tolist(),
        *hits.mean(axis=1).tolist(),
    )


DAILY, HOURLY = Visits(90, 0.5, 20_000), Visits(672, 0.05, 6_000)


LIFTS, LIFTS_UNEVEN = (0.073, 0.11, 0.15), (0.1, 0.15, 0.2)
"""True effects, of which one look at the end finds 40 to 95 %."""


def cells(runs: int, seed: int = 0) -> Iterator[Cell]:
    """Rejections without an effect, of users who come back."""
    for split in (Split(2000, 2000), Split(5400, 600)):
        yield from returning(seed, runs, DAILY, split, f"daily, 90 days, {split}")
    for split in (Split(500, 500), Split(900, 100)):
        yield from returning(seed, runs, HOURLY, split, f"hourly, 28 days, {split}")


def each_unit_cells(runs: int, seed: int = 0) -> Iterator[Cell]:
    """The same, looked at after each new user."""
    for name in VALUES:
        for share in (0.5, 0.1):
            yield each_unit(seed, runs, name, share)


def speeds(runs: int, seed: int = 0) -> Iterator[Speed]:
    """Detections of a true effect."""
    for split, lifts in ((Split(2000, 2000), LIFTS), (Split(5400, 600), LIFTS_UNEVEN)):
        for lift in lifts:
            yield speed(seed, runs, DAILY, split, f"daily, 90 days, {split}, lift {lift:.1%}", lift)


def markdown(rows: Iterator[Cell], found: Iterator[Speed]) -> Iterator[str]:
    """Lines of both tables for the documentation."""
    yield "| looks | metric | without a plan, % | with a plan, % | p of one look, % | began, % |"
    yield "|---|---|--:|--:|--:|--:|"
    for row in rows:
        shares = " | ".join(f"{100 * value:.2f}" for value in row[3:])
        yield f"| {row.world} | {row.metric} | {shares} |"
    yield ""
    yield (
        "| looks | one look at the end finds, % | without a plan finds, % | after, share of the "
        "days | with a plan finds, % | after |"
    )
    yield "|---|--:|--:|--:|--:|--:|"
    for one in found:
        yield (
            f"| {one.world} | {100 * one.power:.1f} | {100 * one.free_power:.1f} | {one.free:.2f} "
            f"| {100 * one.planned_power:.1f} | {one.planned:.2f} |"
        )


def main() -> None:
    """Run all studies and print their tables in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.looks")
    parser.add_argument("--repetitions", type=int, default=4_000)
    parser.add_argument("--part", choices=["returning", "each", "speed"], help="only this one")
    options = parser.parse_args()
    runs, part = options.repetitions, options.part
    rows = chain(
        cells(runs) if part in (None, "returning") else (),
        each_unit_cells(runs) if part in (None, "each") else (),
    )
    found = speeds(runs // 4) if part in (None, "speed") else iter(())
    for line in markdown(rows, found):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
