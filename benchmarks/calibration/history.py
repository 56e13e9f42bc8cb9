"""Do the statistics of a history hold: correlations without noise, and what was really gained?

    python -m benchmarks.calibration.history

Every world goes through the report of a history. True effects on an offline and an online metric
are normal; or zero on both in three quarters of experiments; or have heavy tails (t with three
degrees of freedom, both metrics large in the same experiments, or each on its own); or are skewed
(lognormal). Errors are small or large, of one size or from one to ten. What is significantly
better is shipped.
Gains: fifty experiments with normal true effects, of which the significant ones are shipped.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from abeval.history.measures import build_measures
from abeval.history.report import report
from abeval.history.table import StoredRows
from abeval.results.history import HistoryRow
from abeval.stats import shrinkage
from abeval.stats.records import Floats

SMALL, MIDDLE, LARGE = 0.65, 1.22, 3.0
"""Spread of true effects over their errors: they are 30, 60 and 90 % of the variance."""


class Pair(NamedTuple):
    """A world of two metrics.

    Attributes:
        correlation: Of true effects, before they are made skewed.
        online: Spread of true online effects over their standard error.
        experiments: How many there are.
        sizes: Standard deviation of the log of the errors' size between experiments.
        shape: How true effects are distributed: `normal`, `null`, `heavy`, `apart` or `skewed`.
        offline: As `online`.
    """

    correlation: float
    online: float
    experiments: int = 30
    sizes: float = 0.0
    shape: str = "normal"
    offline: float = 1.73


class Correlations(NamedTuple):
    """What came out of a world: medians, and shares of intervals that hold the truth.

    Attributes:
        naive: Median correlation of the estimates.
        corrected: Median corrected correlation.
        covered: Intervals that hold the true correlation.
        width: Their median width.
        sure: Intervals without zero.
        said: Sentences that say that it predicts.
        slope_covered: Intervals that hold the true slope.
        chance: Mean stated probability that the effect of a next experiment is positive.
        positive: How often it is; an effect of zero is half positive.
        total_covered: Intervals of what the shipped ones gained that hold it.
        each_covered: Intervals of single shrunken effects that hold the true one.
        sd_covered: Intervals of the spread of true effects that hold it.
    """

    naive: float
    corrected: float
    covered: float
    width: float
    sure: float
    said: float
    slope_covered: float
    chance: float
    positive: float
    total_covered: float
    each_covered: float
    sd_covered: float


class Gain(NamedTuple):
    """A world of shipped experiments.

    Attributes:
        spread: Standard deviation of true effects.
        se: Standard error.
        experiments: How many there are.
        mean: Mean of true effects.
    """

    spread: float = 0.01
    se: float = 0.01
    experiments: int = 50
    mean: float = 0.0


class Gained(NamedTuple):
    """Sums over what was shipped, over all repetitions, and shares.

    Attributes:
        naive: Of the estimates, over that of true effects.
        shrunken: Of the shrunken ones, over that of true effects.
        covered: Intervals of the sum that hold the true sum, where something was shipped.
        sd: Median fitted standard deviation over the true one.
        prior_covered: Intervals of the standard deviation that hold the true one.
    """

    naive: float
    shrunken: float
    covered: float
    sd: float
    prior_covered: float


PAIRS = (
    *(
        Pair(r, ratio, n, offline=ratio)
        for n in (20, 40, 80)
        for ratio in (SMALL, MIDDLE, LARGE)
        for r in (0.0, 0.6, 0.9)
    ),
    *(Pair(r, MIDDLE, n) for n in (5, 8, 12) for r in (0.0, 0.9)),
    *(
        Pair(r, ratio, n, shape=shape, offline=ratio)
        for n in (12, 20, 40, 80)
        for ratio in (MIDDLE, LARGE)
        for shape, r in (("null", 0.0), ("null", 0.8), ("heavy", 0.0))
    ),
    *(
        Pair(r, ratio, 40, shape=shape, offline=ratio)
        for ratio in (MIDDLE, LARGE)
        for shape, r in (("heavy", 0.8), ("apart", 0.0), ("skewed", 0.0), ("skewed", 0.8))
    ),
    *(Pair(r, MIDDLE, 40, 0.66, shape) for r in (0.0, 0.8) for shape in ("normal", "null")),
)
GAINS = (
    *(Gain(), Gain(experiments=20), Gain(experiments=10), Gain(experiments=5)),
    *(Gain(spread=0.005), Gain(spread=0.02), Gain(mean=0.01), Gain(spread=0.002)),
)


def correlations(world: Pair, repetitions: int, seed: int = 1) -> Correlations:
    """Report on many histories of one world."""
    random = np.random.default_rng(seed)
    rows = np.array([_reported(world, random) for _ in range(repetitions)])
    medians, means = np.median(rows, axis=0), np.nanmean(rows, axis=0)
    whole = dict(zip(Correlations._fields, means.tolist(), strict=True))
    middle = dict(zip(Correlations._fields, medians.tolist(), strict=True))
    return Correlations(
        **{**whole, **{name: middle[name] for name in ("naive", "corrected", "width")}}
    )


def _reported(world: Pair, random: np.random.Generator) -> tuple[float, ...]:
    x, x_se, y, y_se, true = drawn(world, random, world.experiments)
    rows = [row for i in range(len(x)) for row in _rows(i, x[i], x_se[i], y[i], y_se[i])]
    kept = StoredRows(tuple(rows), is_signed=True)
    outcome = report(Path("history.parquet"), kept, None, None, 0.05)
    (row,), (gained,) = outcome.predictions, outcome.gained
    said = any(choice.sentence.startswith("auc predicts") for choice in outcome.choices)
    expected = _true_correlation(world)
    shipped = y > 1.96 * y_se
    total = float(true[shipped].sum())
    each = [one for one in outcome.effects if one.shrunk is not None]
    held = [_held(e.shrunk_low, t, e.shrunk_high) for e, t in zip(each, true, strict=True)]
    online = build_measures(rows).select_side("online")[0]
    prior = shrinkage.prior(online.values, online.ses)
    # A next experiment whose estimate is of the size that the report speaks of.
    ahead = drawn(world, random, 200)
    nearest = np.argmin(np.abs(ahead[0] - _number(row.step)))
    low, high = _number(row.low), _number(row.high)
    return (
        *(_number(row.naive), _number(row.correlation)),
        *(_held(low, expected, high), high - low, low > 0 or high < 0, said),
        *(_held(row.slope_low, expected, row.slope_high), _number(row.chance)),
        float(1 + np.sign(ahead[4][nearest])) / 2,
        _held(gained.low, total, gained.high) if shipped.any() else np.nan,
        *(float(np.mean(held)), _held(prior.sd_low, 1, prior.sd_high)),
    )


def _held(low: float | None, true: float, high: float | None) -> bool:
    """Whether an interval holds what is true; an end without a bound is None."""
    return (low is None or low <= true) and (high is None or true <= high)


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def _rows(i: int, x: float, x_se: float, y: float, y_se: float) -> list[HistoryRow]:
    """One experiment: its replay, and its analysis, shipped if it is significantly better."""
    blank: dict[str, Any] = dict.fromkeys(HistoryRow.__dataclass_fields__)
    common = {"experiment": f"e{i}", "digest": "", "variant": "new", "control": "old", "units": 0}
    p_value = float(2 * special.ndtr(-abs(y / y_se)))
    analysis = {"source": "analysis", "side": "online", "metric": "ctr", "p_value": p_value}
    replay = {"source": "replay", "side": "offline", "metric": "auc", "traffic": "old"}
    ends = {"shipped": bool(y > 1.96 * y_se), "trusted": True, "model": "new"}
    return [
        HistoryRow(**{**blank, **common, **ends, **own, "effect": float(v), "se": float(se)})
        for own, v, se in ((analysis, y, y_se), (replay, x, x_se))
    ]


def drawn(
    world: Pair, random: np.random.Generator, experiments: int
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Estimates on both metrics with their errors, and true effects on the second; spread 1."""
    true_x, true_y = _true(world, random, experiments)
    size = np.exp(world.sizes * random.standard_normal(experiments))
    x_se, y_se = size / world.offline, size / world.online
    error_x, error_y = random.standard_normal((2, experiments))
    return true_x + x_se * error_x, x_se, true_y + y_se * error_y, y_se, true_y


def _true(world: Pair, random: np.random.Generator, experiments: int) -> Floats:
    """True effects on both metrics, shape (2, experiments): mean 0, standard deviation 1."""
    pair = random.standard_normal((2, experiments))
    if world.shape == "apart":
        pair = random.standard_t(3, (2, experiments)) / np.sqrt(3)
    pair[1] = world.correlation * pair[0] + np.sqrt(1 - world.correlation**2) * pair[1]
    if world.shape == "null":
        pair *= 2 * (random.random(experiments) < 0.25)
    if world.shape == "heavy":
        pair /= np.sqrt(random.chisquare(3, experiments))
    if world.shape == "skewed":
        spread = np.exp(SKEW**2)
        pair = (np.exp(SKEW * pair) - np.sqrt(spread)) / np.sqrt(spread * (spread - 1))
    return pair


SKEW = 0.75
"""Standard deviation of the log of lognormal effects."""


def _true_correlation(world: Pair) -> float:
    """Of true effects over all experiments: of lognormal ones it is smaller than of their logs."""
    if world.shape != "skewed":
        return world.correlation
    return float(np.expm1(world.correlation * SKEW**2) / np.expm1(SKEW**2))


def gains(world: Gain, repetitions: int, seed: int = 1) -> Gained:
    """Ship what is significantly better in many histories of one world, and add it up."""
    random = np.random.default_rng(seed)
    rows = np.array([_added(world, random) for _ in range(repetitions)])
    naive, shrunken, true = rows[:, :3].sum(0)
    shipped = rows[:, 3] > 0
    return Gained(
        float(naive / true) if shipped.any() else 1.0,
        float(shrunken / true) if shipped.any() else 1.0,
        float(rows[shipped, 4].mean()) if shipped.any() else 1.0,
        float(np.median(rows[:, 5]) / world.spread),
        float(rows[:, 6].mean()),
    )


def _added(world: Gain, random: np.random.Generator) -> Floats:
    true = world.mean + world.spread * random.standard_normal(world.experiments)
    ses = np.full(world.experiments, world.se)
    seen = true + ses * random.standard_normal(world.experiments)
    shipped = seen > 1.96 * ses
    total = shrinkage.total(seen, ses, shipped)
    prior = shrinkage.prior(seen, ses)
    truth = true[shipped].sum()
    covered = total.low <= truth <= total.high
    known = prior.sd_low <= world.spread <= prior.sd_high
    numbers = total.naive, total.value, truth, total.effects, covered, prior.sd, known
    return np.array(numbers, dtype=float)


def lines(repetitions: int) -> Iterator[str]:
    """One line a world."""
    yield " ".join((*Pair._fields, *Correlations._fields))
    for pair in PAIRS:
        yield _line(pair, correlations(pair, repetitions))
    yield " ".join((*Gain._fields, *Gained._fields))
    for gain in GAINS:
        yield _line(gain, gains(gain, repetitions))


def _line(world: tuple[float | str, ...], outcome: tuple[float, ...]) -> str:
    left = " ".join(one if isinstance(one, str) else f"{one:g}" for one in world)
    return f"{left}: {' '.join(f'{number:.3f}' for number in outcome)}"


def main(arguments: list[str] | None = None) -> None:
    """Print one line a world."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=500)
    options = parser.parse_args(arguments)
    for line in lines(options.repetitions):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
