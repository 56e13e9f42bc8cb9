"""Calibration of the tests that need values per unit: rates, ranks, quantiles, regression, caps."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from abeval.stats import effects, outliers, proportions, quantiles, ranks, regression
from abeval.stats.proportions import Count
from abeval.stats.records import Adjusted, Interval
from benchmarks.calibration.logs import CLICKS, PRE_CLICKS, SHOWN, Split, pool
from benchmarks.calibration.outcome import ALPHA, Outcome, Promise, rate

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

RATES = (0.01, 0.013)
"""True conversion rates of control and of a better treatment."""


class Judged(NamedTuple):
    """Rejections and coverages of one table of counts, methods in the order of `METHODS`."""

    rejected: tuple[bool, ...]
    covered: tuple[bool, ...]


METHODS: tuple[tuple[str, Promise], ...] = (
    ("proportions.z_pooled", "nominal"),
    ("proportions.z_unpooled", "nominal"),
    ("proportions.miettinen_nurminen", "nominal"),
    ("proportions.newcombe", "nominal"),
    ("proportions.agresti_caffo", "nominal"),
    ("proportions.exact", "at_most"),
)


def counts(seed: int, runs: int, split: Split, exact: bool = False) -> list[Outcome]:
    """Two conversion rates; the exact test only where its tables are few enough to be kept."""
    rng = np.random.default_rng([seed, 4])
    units, rates = np.array(split), np.array(RATES) * (20 if exact else 1)
    null = rng.binomial(units, rates[0], size=(runs, 2))
    effect = rng.binomial(units, rates, size=(runs, 2))
    shift = float(rates[1] - rates[0])
    methods = METHODS if exact else METHODS[:5]

    @cache
    def judge(x_c: int, x_t: int) -> Judged:
        return _judge(Count(x_c, split.control), Count(x_t, split.treatment), shift, exact)

    rejected = np.array([judge(int(c), int(t)).rejected for c, t in null])
    covered = np.array([judge(int(c), int(t)).covered for c, t in effect])
    data = f"{split}, conversion {100 * rates[0]:g} %"
    return [
        Outcome(
            name,
            data,
            promise,
            rate(rejected[:, i]),
            rate(covered[:, i]),
        )
        for i, (name, promise) in enumerate(methods)
    ]


def _judge(c: Count, t: Count, shift: float, exact: bool) -> Judged:
    if c.successes + t.successes == 0:
        # Refused as zero variance: no test, no rejection; any interval holds the truth.
        size = 6 if exact else 5
        return Judged((False,) * size, (True,) * size)
    found = [
        proportions.z_pooled(c, t),
        proportions.z_unpooled(c, t),
        proportions.miettinen_nurminen(c, t),
    ]
    spans = [Interval(e.low, e.high) for e in found]
    spans += [proportions.newcombe(c, t), proportions.agresti_caffo(c, t)]
    rejected = [e.p_value <= ALPHA for e in found] + [not s.low <= 0 <= s.high for s in spans[3:]]
    if exact:
        effect = proportions.exact(c, t)
        rejected.append(effect.p_value <= ALPHA)
        spans.append(Interval(effect.low, effect.high))
    return Judged(
        tuple(rejected),
        tuple(s.low <= shift <= s.high for s in spans),
    )


def values(seed: int, runs: int, split: Split) -> list[Outcome]:
    """Ranks, caps, regression and quantiles on users; coverage is of no effect."""
    users = pool(1).values
    rng = np.random.default_rng([seed, 5])
    names: tuple[tuple[str, Promise], ...] = (
        ("ranks.mann_whitney", "nominal"),
        ("ranks.brunner_munzel", "nominal"),
        ("outliers.mean", "nominal"),
        ("outliers.ratio", "nominal"),
        ("regression.ancova, HC2", "nominal"),
        ("regression.lin, HC2", "nominal"),
        ("quantiles.iid, p50 of impressions", "nominal"),
        ("quantiles.iid, p90 of impressions", "nominal"),
    )
    rejected = np.zeros((len(names), runs), dtype=bool)
    for run in range(runs):
        sample = users[rng.integers(0, len(users), sum(split))]
        rejected[:, run] = _values_once(sample, split, rng)
    return [
        Outcome(name, f"{split}", promise, rate(rejected[i]), None)
        for i, (name, promise) in enumerate(names)
    ]


def _values_once(sample: Floats, split: Split, rng: np.random.Generator) -> list[bool]:
    control, treatment = sample[: split.control], sample[split.control :]
    treated = np.arange(len(sample)) >= split.control
    # Impressions are counts; a quantile of a continuous value is what the method promises.
    viewed = sample[:, SHOWN] + rng.random(len(sample))
    return [
        ranks.mann_whitney(control[:, SHOWN], treatment[:, SHOWN]).p_value <= ALPHA,
        ranks.brunner_munzel(control[:, SHOWN], treatment[:, SHOWN]).p_value <= ALPHA,
        outliers.mean(control[:, SHOWN], treatment[:, SHOWN]).effect.p_value <= ALPHA,
        outliers.ratio(
            (control[:, CLICKS], control[:, SHOWN]), (treatment[:, CLICKS], treatment[:, SHOWN])
        ).effect.p_value
        <= ALPHA,
        _regressed(regression.ancova, sample, treated),
        _regressed(regression.lin, sample, treated),
        _quantile(viewed, split, 0.5),
        _quantile(viewed, split, 0.9),
    ]


def _regressed(method: Callable[..., Adjusted], sample: Floats, treated: Flags) -> bool:
    found = method(sample[:, CLICKS], treated, sample[:, PRE_CLICKS])
    return bool(found.effect.p_value <= ALPHA)


def _quantile(viewed: Floats, split: Split, nu: float) -> bool:
    control = quantiles.iid(viewed[: split.control], nu)
    treatment = quantiles.iid(viewed[split.control :], nu)
    return effects.compare(control, treatment, ALPHA, "quantile_z").p_value <= ALPHA


def clustered_quantiles(seed: int, runs: int, split: Split) -> list[Outcome]:
    """Dwell p50 and p90 over clicks of users who differ: clicks of one user are alike."""
    rng = np.random.default_rng([seed, 6])
    levels = (0.5, 0.9)
    rejected, covered = (np.zeros((2, runs), dtype=bool) for _ in range(2))
    # Log-dwell is a user's habit plus noise; user sizes are independent of it.
    true = {nu: float(np.exp(special.ndtri(nu) * np.hypot(0.6, 0.9) + 3)) for nu in levels}
    for run in range(runs):
        estimates = []
        for units in split:
            user = np.repeat(np.arange(units), 1 + rng.geometric(0.25, units))
            dwell = np.exp(3 + rng.normal(0, 0.6, units)[user] + rng.normal(0, 0.9, len(user)))
            estimates.append([quantiles.clustered(dwell, user, nu) for nu in levels])
        for i, nu in enumerate(levels):
            effect = effects.compare(estimates[0][i], estimates[1][i], ALPHA, "quantile_z")
            rejected[i, run] = effect.p_value <= ALPHA
            larger = max(estimates[0][i], estimates[1][i], key=lambda e: e.units)
            alone = effects.interval(larger.value, larger.variance**0.5)
            covered[i, run] = alone.low <= true[nu] <= alone.high
    return [
        Outcome(
            f"quantiles.clustered, p{100 * nu:g} of dwell",
            f"{split}, coverage of one variant's value",
            "nominal",
            rate(rejected[i]),
            rate(covered[i]),
        )
        for i, nu in enumerate(levels)
    ]
