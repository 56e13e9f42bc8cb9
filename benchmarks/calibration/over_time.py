"""Calibration over many looks: users arrive, return and are looked at again and again."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.stats import group_sequential, sequential, srm, stability
from abeval.stats.group_sequential import Spending
from abeval.stats.moments import Moments
from benchmarks.calibration.logs import Split
from benchmarks.calibration.outcome import ALPHA, Outcome, rate

Floats = NDArray[np.float64]
MINIMUM_UNITS = 50
"""Looks begin once each variant has this many units that have clicked."""


class Histories(NamedTuple):
    """Cumulative clicks and impressions of users by look, shape (users, looks).

    Users not yet exposed have NaN.
    """

    clicks: NDArray[np.float32]
    shown: NDArray[np.float32]


class Looks(NamedTuple):
    """An A/A experiment as seen at every look from the first usable one.

    Attributes:
        mean: Difference in clicks per user so far.
        mean_se: Its standard error.
        pooled: Clicks per user so far of both variants, the clock's scale.
        ratio: Difference in click rate so far.
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
    # The visit that exposes a user has an impression.
    shown[np.arange(users), arrival] += 1
    clicks = rng.binomial(shown, taste[:, None])
    before = np.arange(looks) < arrival[:, None]
    totals = [np.where(before, 0, x).cumsum(axis=1).astype(np.float32) for x in (clicks, shown)]
    return Histories(*(np.where(before, np.nan, x).astype(np.float32) for x in totals))


def _arm(h: Histories, drawn: NDArray[np.int64]) -> tuple[Floats, ...]:
    """Units, clicked units, mean and its variance, ratio and its variance at every look."""
    y, x = h.clicks[drawn], h.shown[drawn]
    here = ~np.isnan(y)
    y, x = np.where(here, y, 0), np.where(here, x, 0)
    n = here.sum(axis=0).astype(float)
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
    """One A/A experiment on users drawn from `h`."""
    c, t = (_arm(h, rng.integers(0, len(h.clicks), n)) for n in split)
    usable = np.flatnonzero(np.minimum(c[1], t[1]) >= MINIMUM_UNITS)
    since = slice(int(usable[0]) if len(usable) else len(c[0]), None)
    pooled = (c[2] * c[0] + t[2] * t[0]) / (c[0] + t[0])
    columns = (t[2] - c[2], np.sqrt(c[3] + t[3]), pooled, t[4] - c[4], np.sqrt(c[5] + t[5]))
    return Looks(*(column[since] for column in columns))


def always_valid(seed: int, runs: int, split: Split, looks: int) -> list[Outcome]:
    """Always-valid tests of a total per user and of a ratio, users returning."""
    h = histories(seed, looks, users=6000 if looks > 100 else 40_000, daily=30 / looks + 0.5)
    rng = np.random.default_rng([seed, 8])
    # The plan is a round guess at the last look's information; it need not be right.
    last = experiment(rng, h, split)
    plan_mean = float((last.pooled[-1] / last.mean_se[-1]) ** 2)
    plan_ratio = float(1 / last.ratio_se[-1] ** 2)
    flags = np.zeros((3, runs), dtype=bool)
    for run in range(runs):
        seen = experiment(rng, h, split)
        flags[:, run] = _looked(seen, plan_mean, plan_ratio)
    data = f"{split}, {looks:,} looks, users return"
    names = (
        "sequential.always_valid, clicks per user",
        "sequential.always_valid, click rate",
    )
    found = [Outcome(n, data, "at_most", rate(flags[i]), None) for i, n in enumerate(names)]
    covered = [None, rate(flags[2])]
    return [o._replace(coverage=c) for o, c in zip(found, covered, strict=True)]


def _looked(seen: Looks, plan_mean: float, plan_ratio: float) -> list[bool]:
    if len(seen.mean) == 0:
        return [False, False, True]
    mean = sequential.always_valid(seen.mean, seen.mean_se, plan_mean, ALPHA, scale=seen.pooled)
    ratio = sequential.always_valid(seen.ratio, seen.ratio_se, plan_ratio, ALPHA)
    return [
        mean.p_values[-1] <= ALPHA,
        ratio.p_values[-1] <= ALPHA,
        all(look.low <= 0 <= look.high for look in ratio.looks),
    ]


def planned_looks(seed: int, runs: int, split: Split) -> list[Outcome]:
    """Group-sequential bounds at five looks of unequal information, users returning."""
    days = np.array([4, 9, 15, 21, 27])
    h = histories(seed, 28, users=40_000, daily=1.5)
    rng = np.random.default_rng([seed, 9])
    clock = np.mean([_clock(experiment(rng, h, split), days) for _ in range(40)], axis=0)
    fractions = np.maximum.accumulate(clock / clock[-1])
    spendings: tuple[Spending, ...] = ("obrien_fleming", "pocock", "power")
    bounds = np.array([group_sequential.bounds(fractions, ALPHA, s).z for s in spendings])
    crossed = np.zeros((len(spendings), runs), dtype=bool)
    for run in range(runs):
        seen = experiment(rng, h, split)
        z = np.abs(seen.ratio / seen.ratio_se)[_positions(seen, days)]
        crossed[:, run] = np.any(z >= bounds, axis=1)
    return [
        Outcome(
            f"group_sequential.bounds, {name}",
            f"{split}, 5 unequal looks, users return",
            "nominal",
            rate(crossed[i]),
            None,
        )
        for i, name in enumerate(spendings)
    ]


def _positions(seen: Looks, days: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.maximum(days - (28 - len(seen.ratio)), 0)


def _clock(seen: Looks, days: NDArray[np.int64]) -> Floats:
    return sequential.information(seen.ratio_se)[_positions(seen, days)]


def mismatch(seed: int, runs: int, looks: int) -> list[Outcome]:
    """Sequential SRM on units that arrive 90/10, and the fixed test at the last look."""
    rng = np.random.default_rng([seed, 10])
    weights = (0.9, 0.1)
    flags = np.zeros((3, runs), dtype=bool)
    for run in range(runs):
        arrivals = 20 + rng.poisson(20_000 / looks, looks)
        treated = rng.binomial(arrivals, weights[1])
        path = np.cumsum(np.stack([arrivals - treated, treated], axis=1), axis=0)
        flags[:, run] = (
            srm.sequential(path, weights).p_value <= ALPHA,
            srm.sequential(path, weights, prior=weights).p_value <= ALPHA,
            srm.chi_square(path[-1].tolist(), weights).p_value <= ALPHA,
        )
    names = ("srm.sequential", "srm.sequential, flat prior", "srm.chi_square")
    outcomes = [
        Outcome(name, f"90/10, {looks:,} looks", "at_most", rate(flags[i]), None)
        for i, name in enumerate(names)
    ]
    return [*outcomes[:2], outcomes[2]._replace(promise="nominal", data="90/10, at the end")]


def windows(seed: int, runs: int, split: Split) -> list[Outcome]:
    """Trend, constancy and novelty of a daily effect that is constant, users returning."""
    rng = np.random.default_rng([seed, 11])
    rejected = np.zeros((3, runs), dtype=bool)
    for run in range(runs):
        found = []
        for units, effect in zip(split, (0.0, 0.2), strict=True):
            habit = rng.gamma(0.8, 1.0, units)
            totals = rng.poisson(habit + effect, size=(7, units))
            found.append(Moments.of(*totals))
        delta = found[1].mean - found[0].mean
        sigma = stability.covariance(*found)
        trend = stability.gls(delta, sigma)
        late = stability.novelty(delta, sigma, windows=3)
        p_values = np.array([trend.slope_p_value, trend.q_p_value, late.p_value])
        rejected[:, run] = p_values <= ALPHA
    names = ("stability.gls, slope", "stability.gls, Q", "stability.novelty")
    data = f"{split}, 7 days, users return"
    return [Outcome(n, data, "nominal", rate(rejected[i]), None) for i, n in enumerate(names)]
