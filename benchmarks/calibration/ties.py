"""Calibration of quantiles of tied values, as an analysis tests them.

Clicks of users who differ in how long they stay, one to many clicks a user; dwell is rounded to a
resolution. A/A tests, and tests where the treatment stays a tenth longer. Beside them, the sample
quantile with one standard error (Woodruff 1952; Deng, Knoblich and Lu 2018), which ties break.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from abeval.stats import effects, quantiles
from abeval.stats.means import estimate_ratio as ratio
from abeval.stats.moments import Moments
from abeval.stats.quantiles import PARTS, Step, locate_quantile
from abeval.stats.records import Effect, Estimate, Floats, Integers, Refusal
from benchmarks.runner import Record, Table
from tests.worlds import array_quantiles as arrays
from tests.worlds.users import Split

ALPHA = 0.05
LEVELS = (0.5, 0.9, 0.99)
LIFT = 0.1
Z = 1.959963984540054
SPLITS = (Split(1000, 1000), Split(900, 100), Split(1800, 200), Split(9000, 1000), Split(9900, 100))
KINDS = (
    *(("exponential", grain) for grain in (0.001, 0.1, 1.0, 10.0, 60.0)),
    *((kind, 1.0) for kind in ("habits", "pareto", "gamma", "counts", "half zero", "five values")),
)
"""Distribution of a click's dwell, and the seconds to which it is rounded."""


class Arm(NamedTuple):
    """The clicks of one variant: values, the user of each, and how often each value occurs."""

    values: Floats
    users: Integers
    units: int
    levels: Floats
    middles: Integers

    def step(self, at: float) -> Step | None:
        """The neighbours of a place."""
        i = int(np.searchsorted(self.middles, at, side="right")) - 1
        if i < 0 or i + 1 >= self.middles.size:
            return None
        lower, upper = self.levels[i : i + 2].tolist()
        return Step(lower, int(self.middles[i]), upper, int(self.middles[i + 1]))


class Test(NamedTuple):
    """One test: whether its interval is above or below the truth, and whether it rejects."""

    above: bool
    below: bool
    rejected: bool


Pair = tuple[Test | None, Test | None]
"""By the analysis, and by the sample quantile."""


def clicks(kind: str, grain: float, units: int, factor: float, rng: np.random.Generator) -> Arm:
    """The clicks of a variant's users, whose dwell is `factor` times as long."""
    users = np.repeat(np.arange(units), 1 + rng.negative_binomial(0.8, 0.8 / 3.8, units))
    n = users.size
    match kind:
        case "exponential":
            seconds = rng.exponential(rng.gamma(3.0, 5.0, units)[users])
        case "habits":
            seconds = 12 * np.exp(1.2 * rng.normal(size=units)[users] + 0.4 * rng.normal(size=n))
        case "pareto":
            seconds = 5 * rng.gamma(8.0, 1 / 8, units)[users] * rng.random(n) ** (-1 / 2.5)
        case "gamma":
            seconds = rng.gamma(0.5, rng.gamma(3.0, 10.0, units)[users])
        case "counts":
            seconds = rng.poisson(factor * rng.gamma(1.0, 1.5, units)[users]) / factor
        case "half zero":
            seconds = rng.exponential(rng.gamma(3.0, 5.0, units)[users]) * (rng.random(n) < 0.52)
        case _:
            score = 0.7 * rng.normal(size=units)[users] + rng.normal(size=n)
            steps = np.digitize(score + 2 * math.log(factor), [-1.0, -0.2, 0.5, 1.2])
            seconds = (steps + 1) / factor
    values = np.round(factor * seconds / grain) * grain
    levels, counts = np.unique(values, return_counts=True)
    return Arm(values, users, units, levels, 2 * np.cumsum(counts) - counts)


def mid_quantiles(arms: Sequence[Arm], level: float) -> list[quantiles.SidedEstimate] | None:
    """The quantile of each variant as the analysis computes it, None where it refuses."""
    counts = [_counts(arm, level) for arm in arms]
    if None in counts:
        return None
    own = [quantiles.design_effect(one, level) for one in counts if one is not None]
    used = quantiles.pool_design_effects(own, [arm.units for arm in arms])
    try:
        return [_sided(arm, level, effect) for arm, effect in zip(arms, used, strict=True)]
    except Refusal:
        return None


def _counts(arm: Arm, level: float) -> Moments | None:
    at = locate_quantile(arm.values.size, level)
    step = arm.step(at)
    if step is None:
        return None
    at_lower, at_upper = step.weights(at)
    below = (arm.values < step.lower) + (arm.values == step.lower) * (at_lower / PARTS)
    below += (arm.values == step.upper) * (at_upper / PARTS)
    return Moments.of(np.bincount(arm.users, below), np.bincount(arm.users))


def _sided(arm: Arm, level: float, effect: float) -> quantiles.SidedEstimate:
    n = arm.values.size
    places = [locate_quantile(n, at) for at in (level, *quantiles.ends(n, level, effect))]
    steps = [arm.step(at) for at in places]
    if None in steps:
        raise quantiles.explain_no_quantile(n, level)
    value, low, high = (
        step.value(at) for step, at in zip(steps, places, strict=True) if step is not None
    )
    return quantiles.estimate_from_ends(value, low, high, arm.units)


def sample_quantile(arm: Arm, level: float) -> Estimate | None:
    """The sample quantile with one standard error, None where it is tied or values are few."""
    n = arm.values.size
    half = Z * math.sqrt(level * (1 - level) / n)
    if level - half <= 0 or level + half >= 1:
        return None
    value, low, high = np.quantile(arm.values, [level, level - half, level + half]).tolist()
    if high <= low:
        return None
    threshold = np.partition(arm.values, math.floor((n - 1) * level))[math.floor((n - 1) * level)]
    below = np.bincount(arm.users, arm.values <= threshold)
    share = ratio(Moments.of(below, np.bincount(arm.users)))
    factor = share.variance / (level * (1 - level) / n)
    return Estimate(value, ((high - low) / 2 / Z) ** 2 * factor, arm.units, arm.units - 1.0)


def tests(arms: tuple[Arm, Arm], level: float, truth: float) -> Pair:
    """The test of the analysis and that of the sample quantile."""
    pair = mid_quantiles(arms, level)
    after = None if pair is None else arrays.compare(pair[0], pair[1], ALPHA)
    control, treatment = (sample_quantile(arm, level) for arm in arms)
    before = control and treatment and effects.compare(control, treatment, ALPHA)
    return after and _test(after, truth), before and _test(before, truth)


def _test(effect: Effect, truth: float) -> Test:
    return Test(effect.low > truth, effect.high < truth, effect.p_value < ALPHA)


@cache
def true_values(kind: str, grain: float, factor: float, units: int = 1_000_000) -> list[float]:
    """The quantiles of the mid-distribution of a very large log."""
    arm = clicks(kind, grain, units, factor, np.random.default_rng(99))
    places = [locate_quantile(arm.values.size, level) for level in LEVELS]
    return [math.nan if (step := arm.step(at)) is None else step.value(at) for at in places]


def measure_cell(
    cell: tuple[Split, tuple[str, float]], repetitions: int, seed: int
) -> Iterator[Record]:
    """Judge A/A tests and tests with an effect of a split, a kind of dwell and its resolution."""
    split, (kind, grain) = cell
    rng = np.random.default_rng([seed, *split])
    truths = np.subtract(true_values(kind, grain, 1 + LIFT), true_values(kind, grain, 1.0))
    null: dict[float, list[Pair]] = {level: [] for level in LEVELS}
    moved: dict[float, list[Pair]] = {level: [] for level in LEVELS}
    for _ in range(repetitions):
        control = clicks(kind, grain, split.control, 1.0, rng)
        same, longer = (clicks(kind, grain, split.treatment, f, rng) for f in (1.0, 1 + LIFT))
        for level, truth in zip(LEVELS, truths, strict=True):
            null[level].append(tests((control, same), level, 0.0))
            moved[level].append(tests((control, longer), level, float(truth)))
    for level in LEVELS:
        after, before = (_shares(null[level], moved[level], which) for which in (0, 1))
        answered, worse, better, covered, power = after
        yield {
            "dwell": kind,
            "to": f"{grain:g} s",
            "split": f"{split}",
            "quantile": f"p{100 * level:g}",
            "answered, %": _write(answered, 0),
            "rejected, %": _write(worse + better, 2),
            "worse + better, %": f"{_write(worse)} + {_write(better)}".replace("– + –", "–"),
            "coverage, %": _write(covered),
            "power, %": _write(power, 0),
            "sample quantile rejects, %": _write(before[1] + before[2], 2),
            "its power, %": _write(before[4], 0),
        }


def _write(share: float, digits: int = 1) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.{digits}f}"


def _shares(null: Sequence[Pair], moved: Sequence[Pair], which: int) -> list[float]:
    """Return shares: answered; of those, both sides in A/A, coverage and power."""
    without = [test for pair in null if (test := pair[which]) is not None]
    with_effect = [test for pair in moved if (test := pair[which]) is not None]
    if len(without) < len(null) / 20 or not with_effect:
        return [len(without) / len(null), *[math.nan] * 4]
    above, below, _ = np.mean(without, axis=0).tolist()
    over, under, power = np.mean(with_effect, axis=0).tolist()
    return [len(without) / len(null), below, above, 1 - over - under, power]


CELLS = [(split, kind) for split in SPLITS for kind in KINDS]
TABLES = {"quantiles": Table(measure_cell, CELLS, repetitions=2_000)}
