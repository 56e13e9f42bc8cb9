"""Levels and power of ratios whose denominators a few units hold, beside the delta method.

Users have impressions by a Pareto tail, a lognormal or a negative binomial, and clicks with a rate
of their own; in `another rate` one in fifty sees some 400 and clicks 2.5 times as often. Stores
have so many users by a Pareto tail, and half of them are treated. Each experiment without an
effect is judged as an analysis judges it. The same with a gain of 2.8 standard errors gives the
power; the delta method (Deng, Knoblich and Lu 2018) is what would run instead.
"""

import math
from collections import Counter
from collections.abc import Callable

import numpy as np

from abeval.experiment.load import parse_experiment
from abeval.inference.compare import compare
from abeval.inference.comparison import Comparison, Rule
from abeval.inference.means_and_ratios import compare_moments
from abeval.metrics.definition import Metric
from abeval.simulate.stores import Users
from abeval.stats import effects, means
from abeval.stats.moments import Moments
from abeval.stats.records import Effect, Floats
from benchmarks.runner import Record, Table
from tests.worlds.clusters import ARMS, World, analysis_of, entries

SIZES = ((150, 150), (200, 200), (500, 500), (1_000, 1_000), (2_000, 2_000), (5_000, 5_000))
UNEVEN = ((1_800, 200), (9_000, 1_000), (45_000, 5_000))
STORES = (10, 20, 60)
POWER_AT = 2.8
POWER_EVERY = 4
"""Of so many experiments, one has a gain as well."""

MOST = 3_000.0
"""Impressions of a user: no log keeps more of one."""

RATIO = Metric("ctr", "ratio", "Σ clicks / Σ impressions")
Generator = np.random.Generator
Draw = Callable[[Generator, int], Floats]


def _pareto(tail: float, least: float) -> Draw:
    def draw(random: Generator, units: int) -> Floats:
        drawn = np.floor(least * (random.pareto(tail, units) + 1))
        return np.minimum(drawn, MOST).astype(np.float64)

    return draw


def _lognormal(random: Generator, units: int) -> Floats:
    return np.ceil(random.lognormal(1.5, 1.5, units)).astype(np.float64)


def _negative_binomial(random: Generator, units: int) -> Floats:
    return np.asarray(1.0 + random.poisson(random.gamma(0.5, 20, units)), dtype=np.float64)


def _another(random: Generator, units: int) -> Floats:
    heavy = 200 + random.poisson(random.gamma(0.5, 400, units))
    return np.where(random.random(units) < 0.02, heavy, 1.0 + random.poisson(5, units))


WORLDS: dict[str, Draw] = {
    "Pareto 1.1": _pareto(1.1, 1),
    "Pareto 1.5": _pareto(1.5, 3),
    "Pareto 2": _pareto(2.0, 5),
    "lognormal σ 1.5": _lognormal,
    "negative binomial": _negative_binomial,
    "another rate": _another,
}


def users(random: Generator, world: str, units: int) -> tuple[Floats, Floats]:
    """Draw clicks and impressions of users."""
    shown = WORLDS[world](random, units)
    rate = random.beta(1.5, 15, units)
    if world == "another rate":
        rate = np.where(shown >= 200, np.minimum(2.5 * rate, 0.9), rate)
    return random.binomial(shown.astype(np.int64), rate).astype(np.float64), shown


def _delta(control: Moments, treatment: Moments) -> Effect:
    first, second = (means.estimate_smooth(m, means.ratio(0, 1)) for m in (control, treatment))
    return effects.compare(first, second)


def measure_users(cell: tuple[str, tuple[int, int]], repetitions: int, seed: int) -> Record:
    """Judge experiments of users."""
    world, sizes = cell
    runs = max(200, min(repetitions, 20_000_000 // sum(sizes)))
    random = np.random.default_rng([46 + seed, list(WORLDS).index(world), *sizes])
    counts, top = Counter[str](), 0.0
    for run in range(runs):
        pair = [users(random, world, size) for size in sizes]
        control, treatment = (Moments.build_with_third(*one) for one in pair)
        top += max(float((x / x.sum()).max()) for _, x in pair)
        one, plain = compare_moments(RATIO, control, treatment, Rule()), _delta(control, treatment)
        _count(counts, one, plain)
        if run % POWER_EVERY:
            continue
        # A gain that the delta method would find in four of five.
        gain = POWER_AT * plain.se
        moved = Moments.build_with_third(pair[1][0] + gain * pair[1][1], pair[1][1])
        found, also = compare_moments(RATIO, control, moved, Rule()), _delta(control, moved)
        counts["with gain"] += 1
        counts["found"] += found.effect is not None and found.effect.p_value < 0.05
        counts["found by delta"] += also.p_value < 0.05
    return _record(world, f"{sizes[0]:,}/{sizes[1]:,}", counts, top, runs)


def _count(counts: Counter[str], one: Comparison, plain: Effect | None) -> None:
    counts["flagged"] += one.few_units_decide
    counts["rejected by delta"] += plain is not None and plain.p_value < 0.05
    if one.effect is not None:
        rejected = one.effect.p_value < 0.05
        counts["answered"] += 1
        counts["rejected"] += rejected
        counts["rejected, flagged"] += rejected and one.few_units_decide
        counts["answered, flagged"] += one.few_units_decide
        counts["permuted"] += one.permuted is not None


def stores(random: Generator, number: int) -> Users:
    """Draw users of stores whose sizes have a Pareto tail."""
    size = (40 * random.pareto(2, number) + 20).astype(np.int64)
    treated = random.permutation(np.repeat([False, True], number // 2))
    rate = np.clip(0.1 * np.exp(random.normal(0, 0.4, number)), 0, 0.9)
    store = np.repeat(np.arange(number), size)
    shown = 1 + random.poisson(4, len(store))
    clicks = random.binomial(shown, rate[store])
    return Users(clicks, shown, store, treated, np.zeros(number, dtype=np.int64))


def measure_stores(number: int, repetitions: int, seed: int) -> Record:
    """Judge experiments of stores."""
    experiment = parse_experiment(entries(World(number, 0.1), by_cluster=True))
    random, counts, top = np.random.default_rng([46 + seed, number]), Counter[str](), 0.0
    for _ in range(repetitions):
        drawn = stores(random, number)
        y, x = (np.bincount(drawn.store, one) for one in (drawn.y, drawn.x))
        low, high = (Moments.of(y[arm], x[arm]) for arm in (~drawn.treated, drawn.treated))
        top += max(low.largest, high.largest)
        analysis = analysis_of(experiment, drawn)
        _count(counts, compare(analysis, analysis.metrics[0], ARMS), _delta(low, high))
    halves = f"{number // 2}/{number // 2}"
    return _record("stores, Pareto 2", halves, counts, top, repetitions)


def _record(impressions: str, units: str, counts: Counter[str], top: float, runs: int) -> Record:
    """Write the shares of a world; `top` is the mean share of the denominator that a unit holds."""

    def share(name: str, whole: str = "runs") -> float:
        total = runs if whole == "runs" else counts[whole]
        return counts[name] / total if total and name in counts else math.nan

    level = share("rejected", "answered")
    error = math.sqrt(level * (1 - level) / max(counts["answered"], 1))
    return {
        "impressions": impressions,
        "units": units,
        "top unit, %": top / runs,
        "flagged, %": share("flagged"),
        "delta method rejects, %": share("rejected by delta"),
        "no answer, %": 1 - share("answered"),
        "skewed test, %": share("permuted", "answered"),
        "rejected, %": level,
        "± error, %": error,
        "rejected of flagged, %": share("rejected, flagged", "answered, flagged"),
        "delta's power, %": share("found by delta", "with gain"),
        "power, %": share("found", "with gain"),
        "repetitions": runs,
    }


CELLS = [(world, sizes) for world in WORLDS for sizes in (*SIZES, *UNEVEN)]
TABLES = {
    "users": Table(measure_users, CELLS, repetitions=2_000),
    "stores": Table(measure_stores, STORES, repetitions=2_000),
}
