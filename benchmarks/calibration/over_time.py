"""Calibration of repeated looks at users who arrive and return."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.stats import sequential, shapes, srm
from abeval.stats.moments import Moments
from abeval.stats.records import Floats, Integers
from abeval.stats.sequential import Spending
from benchmarks.calibration.outcome import ALPHA, Outcome, nominal, outcomes, rate
from tests.worlds.users import Split

MINIMUM_UNITS = 50
"""Looks begin when each variant has this many units with a click."""


class Histories(NamedTuple):
    """Cumulative clicks and impressions of users by look, shape (users, looks).

    Users not yet exposed have NaN.
    """

    clicks: NDArray[np.float32]
    shown: NDArray[np.float32]


class Looks(NamedTuple):
    """An A/A experiment at every look, from the first usable one.

    Attributes:
        mean: Difference in clicks per user.
        mean_se: Its standard error.
        pooled: Clicks per user of both variants together, the scale of the information.
        ratio: Difference in click rate.
        ratio_se: Its standard error.
    """

    mean: Floats
    mean_se: Floats
    pooled: Floats
    ratio: Floats
    ratio_se: Floats


def histories(seed: int, looks: int, users: int, daily: float) -> Histories:
    """Users who arrive over the first half and then return at their own rate."""
    rng = np.random.default_rng([seed, 7])
    arrival = rng.integers(0, max(1, looks // 2), users)
    arrival[: users // 2] = 0
    rate_shown = daily * rng.lognormal(-0.3, 0.8, users)
    taste = rng.beta(1.5, 13.5, users)
    shown = rng.poisson(rate_shown[:, None], (users, looks))
    # The first visit of a user has an impression.
    shown[np.arange(users), arrival] += 1
    clicks = rng.binomial(shown, taste[:, None])
    before = np.arange(looks) < arrival[:, None]
    totals = [np.where(before, 0, x).cumsum(axis=1).astype(np.float32) for x in (clicks, shown)]
    return Histories(*(np.where(before, np.nan, x).astype(np.float32) for x in totals))


def _arm(h: Histories, users: Integers) -> tuple[Floats, ...]:
    """Units, units with clicks, mean and its variance, ratio and its variance at every look."""
    y, x = h.clicks[users], h.shown[users]
    exposed = ~np.isnan(y)
    y, x = np.where(exposed, y, 0), np.where(exposed, x, 0)
    n = exposed.sum(axis=0).astype(float)
    sums = [np.sum(a, axis=0, dtype=float) for a in (y, x, y * y, y * x, x * x)]
    mean_y, mean_x = sums[0] / n, sums[1] / n
    yy, yx, xx = (
        (s - n * a * b) / (n - 1)
        for s, a, b in zip(
            sums[2:], (mean_y, mean_y, mean_x), (mean_y, mean_x, mean_x), strict=True
        )
    )
    ratio = mean_y / mean_x
    spread = (yy - 2 * ratio * yx + ratio**2 * xx) / (n * mean_x**2)
    return n, np.count_nonzero(y, axis=0).astype(float), mean_y, yy / n, ratio, spread


def experiment(rng: np.random.Generator, h: Histories, split: Split) -> Looks:
    """An A/A experiment on users drawn from `h`."""
    c, t = (_arm(h, rng.integers(0, len(h.clicks), n)) for n in split)
    usable = np.flatnonzero(np.minimum(c[1], t[1]) >= MINIMUM_UNITS)
    first = int(usable[0]) if len(usable) else len(c[0])
    pooled = (c[2] * c[0] + t[2] * t[0]) / (c[0] + t[0])
    columns = (t[2] - c[2], np.sqrt(c[3] + t[3]), pooled, t[4] - c[4], np.sqrt(c[5] + t[5]))
    return Looks(*(column[first:] for column in columns))


def always_valid(seed: int, runs: int, split: Split, looks: int) -> list[Outcome]:
    """Always-valid tests of a total per user and of a ratio, with users who return."""
    h = histories(seed, looks, users=6000 if looks > 100 else 40_000, daily=30 / looks + 0.5)
    rng = np.random.default_rng([seed, 8])
    # The plan is a rough guess of the information at the last look; it need not be exact.
    last = experiment(rng, h, split)
    plan_mean = float((last.pooled[-1] / last.mean_se[-1]) ** 2)
    plan_ratio = float(1 / last.ratio_se[-1] ** 2)
    flags = np.zeros((3, runs), dtype=bool)
    for run in range(runs):
        looks_at = experiment(rng, h, split)
        flags[:, run] = _flags(looks_at, plan_mean, plan_ratio)
    data = f"{split}, {looks:,} looks, users return"
    names = (
        "sequential.always_valid, clicks per user",
        "sequential.always_valid, click rate",
    )
    mean, ratio = outcomes([(name, "at_most") for name in names], data, flags)
    return [mean, ratio._replace(coverage=rate(flags[2]))]


def _flags(looks: Looks, plan_mean: float, plan_ratio: float) -> list[bool]:
    """Whether each of two tests rejected at some look, and whether all intervals covered."""
    if len(looks.mean) == 0:
        return [False, False, True]
    mean = _follow(looks.mean, looks.mean_se, looks.pooled, plan_mean)
    ratio = _follow(looks.ratio, looks.ratio_se, np.ones(len(looks.ratio)), plan_ratio)
    return [
        any(look.p_value <= ALPHA for look in mean),
        any(look.p_value <= ALPHA for look in ratio),
        all(look.low <= 0 <= look.high for look in ratio),
    ]


def _follow(
    differences: Floats, ses: Floats, scales: Floats, planned: float
) -> list[sequential.AlwaysValid]:
    """Every look; a clock that would run backwards stands still."""
    clock = np.maximum.accumulate(sequential.measure_information(ses, scales)) / planned
    looks = zip(differences.tolist(), ses.tolist(), clock.tolist(), strict=True)
    return [sequential.confidence_sequence(*look, ALPHA) for look in looks]


def planned_looks(seed: int, runs: int, split: Split) -> list[Outcome]:
    """Group-sequential bounds at five looks with unequal information, with users who return."""
    days = np.array([4, 9, 15, 21, 27])
    h = histories(seed, 28, users=40_000, daily=1.5)
    rng = np.random.default_rng([seed, 9])
    information = np.mean(
        [_information(experiment(rng, h, split), days) for _ in range(40)], axis=0
    )
    fractions = np.maximum.accumulate(information / information[-1])
    spendings: tuple[Spending, ...] = ("obrien_fleming", "pocock", "power")
    bounds = np.array([sequential.bounds(fractions, ALPHA, s).z for s in spendings])
    crossed = np.zeros((len(spendings), runs), dtype=bool)
    for run in range(runs):
        looks = experiment(rng, h, split)
        z = np.abs(looks.ratio / looks.ratio_se)[_positions(looks, days)]
        crossed[:, run] = np.any(z >= bounds, axis=1)
    tests = nominal(*(f"group_sequential.bounds, {name}" for name in spendings))
    return outcomes(tests, f"{split}, 5 unequal looks, users return", crossed)


def _positions(looks: Looks, days: Integers) -> Integers:
    return np.maximum(days - (28 - len(looks.ratio)), 0)


def _information(looks: Looks, days: Integers) -> Floats:
    return sequential.measure_information(looks.ratio_se)[_positions(looks, days)]


def mismatch(seed: int, runs: int, looks: int) -> list[Outcome]:
    """Sequential SRM tests of a 90/10 split, and the fixed-horizon test at the last look."""
    rng = np.random.default_rng([seed, 10])
    weights = (0.9, 0.1)
    flags = np.zeros((2, runs), dtype=bool)
    for run in range(runs):
        arrivals = 20 + rng.poisson(20_000 / looks, looks)
        treated = rng.binomial(arrivals, weights[1])
        path = np.cumsum(np.stack([arrivals - treated, treated], axis=1), axis=0)
        flags[:, run] = (
            srm.check_split_at_looks(path, weights)[-1] <= ALPHA,
            srm.chi_square(path[-1].tolist(), weights).p_value <= ALPHA,
        )
    return [
        *outcomes([("srm.sequential", "at_most")], f"90/10, {looks:,} looks", flags[:1]),
        *outcomes(nominal("srm.chi_square"), "90/10, at the end", flags[1:]),
    ]


def windows(seed: int, runs: int, split: Split) -> list[Outcome]:
    """Measure late against early days of a constant daily effect, with users who return."""
    rng = np.random.default_rng([seed, 11])
    rejected = np.zeros((1, runs), dtype=bool)
    for run in range(runs):
        arms = []
        for units, effect in zip(split, (0.0, 0.2), strict=True):
            habit = rng.gamma(0.8, 1.0, units)
            totals = rng.poisson(habit + effect, size=(7, units))
            arms.append(Moments.of(*totals))
        delta = arms[1].mean - arms[0].mean
        sigma = arms[0].covariance / arms[0].n + arms[1].covariance / arms[1].n
        late = shapes.contrast(delta, sigma, np.array([-1, -1, -1, 0, 1, 1, 1]) / 3)
        rejected[0, run] = late.p_value <= ALPHA
    return outcomes(
        nominal("stability.contrast, late against early"),
        f"{split}, 7 days, users return",
        rejected,
    )
