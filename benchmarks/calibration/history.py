"""Do the statistics of a history hold: correlations without noise, and what was really gained?

Every world goes through the report of a history. True effects on an offline and an online metric
are normal; or zero on both in three quarters of experiments; or have heavy tails (t with three
degrees of freedom, both metrics large in the same experiments, or each on its own); or are skewed
(lognormal). Errors are small or large, of one size or from one to ten. What is significantly
better is shipped.
Gains: fifty experiments with normal true effects, of which the significant ones are shipped.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from abeval.history.measures import build_measures
from abeval.history.report import report
from abeval.history.table import StoredRows
from abeval.results.history import HistoryRow
from abeval.stats import shrinkage
from abeval.stats.records import Floats
from benchmarks.runner import Record, Table
from tests.worlds.effects import SKEW, Pair, drawn

SMALL, MIDDLE, LARGE = 0.65, 1.22, 3.0
"""Spread of true effects over their errors: they are 30, 60 and 90 % of the variance."""


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


def measure_correlations(world: Pair, repetitions: int, seed: int) -> Record:
    """Report on many histories of a world: medians of sizes, and shares of what should hold."""
    random = np.random.default_rng(1 + seed)
    rows = pd.DataFrame([_report(world, random) for _ in range(repetitions)])
    sizes = rows[["naive", "corrected", "width"]].median()
    numbers = {f"{name}": f"{sizes.get(name, rows[name].mean()):.3f}" for name in rows}
    return {**world._asdict(), **numbers}


def _report(world: Pair, random: np.random.Generator) -> dict[str, float]:
    """Say what the report tells of a history, and whether its intervals hold the truth."""
    x, x_se, y, y_se, true = drawn(world, random, world.experiments)
    rows = [row for i in range(len(x)) for row in _rows(i, x[i], x_se[i], y[i], y_se[i])]
    outcome = report(
        Path("history.parquet"), StoredRows(tuple(rows), is_signed=True), None, None, 0.05
    )
    (row,), (gained,) = outcome.predictions, outcome.gained
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
    return {
        "naive": _number(row.naive),
        "corrected": _number(row.correlation),
        "covered": _held(low, expected, high),
        "width": high - low,
        "sure": low > 0 or high < 0,
        "said": any(one.sentence.startswith("auc predicts") for one in outcome.choices),
        "slope covered": _held(row.slope_low, expected, row.slope_high),
        "chance": _number(row.chance),
        "positive": float(1 + np.sign(ahead[4][nearest])) / 2,
        "total covered": _held(gained.low, total, gained.high) if shipped.any() else np.nan,
        "each covered": float(np.mean(held)),
        "sd covered": _held(prior.sd_low, 1, prior.sd_high),
    }


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


def _true_correlation(world: Pair) -> float:
    """Of true effects over all experiments: of lognormal ones it is smaller than of their logs."""
    if world.shape != "skewed":
        return world.correlation
    return float(np.expm1(world.correlation * SKEW**2) / np.expm1(SKEW**2))


def measure_gains(world: Gain, repetitions: int, seed: int) -> Record:
    """Ship what is significantly better in many histories of a world, and add it up.

    Naive and shrunken sums are over that of true effects; coverage is where something was shipped.
    """
    random = np.random.default_rng(1 + seed)
    rows = np.array([_added(world, random) for _ in range(repetitions)])
    naive, shrunken, true = rows[:, :3].sum(0)
    shipped = rows[:, 3] > 0
    sums = naive / true, shrunken / true, rows[shipped, 4].mean()
    numbers = *(sums if shipped.any() else [1.0] * 3), np.median(rows[:, 5]) / world.spread
    names = ("naive", "shrunken", "covered", "sd", "sd covered")
    shown = zip(names, (*numbers, rows[:, 6].mean()), strict=True)
    return {**world._asdict(), **{name: f"{number:.3f}" for name, number in shown}}


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


TABLES = {
    "correlations": Table(measure_correlations, PAIRS, repetitions=200),
    "gains": Table(measure_gains, GAINS, repetitions=200),
}
