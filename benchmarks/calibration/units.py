"""Calibration of the tests that need counts or values per unit: rates and quantiles."""

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import special

from abeval.stats import effects, proportions
from abeval.stats.proportions import Count
from abeval.stats.records import Floats
from benchmarks.calibration.outcome import ALPHA, Outcome, nominal, outcomes
from tests.worlds import array_quantiles as quantiles
from tests.worlds.users import SHOWN, Split, pool

RATES = (0.2, 0.26)
"""True conversion rates of control and treatment."""


class Decisions(NamedTuple):
    """Whether one table of counts is rejected, and its interval contains the truth."""

    rejected: bool
    covered: bool


def counts(seed: int, runs: int, split: Split) -> list[Outcome]:
    """Two conversion rates, in samples with few distinct tables."""
    rng = np.random.default_rng([seed, 4])
    units, rates = np.array(split), np.array(RATES)
    null = rng.binomial(units, rates[0], size=(runs, 2))
    effect = rng.binomial(units, rates, size=(runs, 2))
    shift = float(rates[1] - rates[0])

    @cache
    def decide(x_c: int, x_t: int) -> Decisions:
        return _decide(Count(x_c, split.control), Count(x_t, split.treatment), shift)

    rejected = np.array([[decide(int(c), int(t)).rejected for c, t in null]])
    covered = np.array([[decide(int(c), int(t)).covered for c, t in effect]])
    data = f"{split}, conversion {100 * rates[0]:g} %"
    return outcomes([("proportions.exact", "at_most")], data, rejected, covered)


def _decide(c: Count, t: Count, shift: float) -> Decisions:
    if c.successes + t.successes == 0:
        # Refused for zero variance: no test rejects, and every interval contains the truth.
        return Decisions(rejected=False, covered=True)
    effect = proportions.exact(c, t)
    return Decisions(effect.p_value <= ALPHA, effect.low <= shift <= effect.high)


def values(seed: int, runs: int, split: Split) -> list[Outcome]:
    """Measure quantiles of values per user, without an effect."""
    users = pool(1).values
    rng = np.random.default_rng([seed, 5])
    tests = nominal(
        "quantiles.iid, p50 of impressions",
        "quantiles.iid, p90 of impressions",
    )
    rejected = np.zeros((len(tests), runs), dtype=bool)
    for run in range(runs):
        sample = users[rng.integers(0, len(users), sum(split))]
        rejected[:, run] = [_quantile_rejects(sample[:, SHOWN], split, nu) for nu in (0.5, 0.9)]
    return outcomes(tests, f"{split}", rejected)


def _quantile_rejects(values: Floats, split: Split, level: float) -> bool:
    arms = values[: split.control], values[split.control :]
    control, treatment = quantiles.iid(*arms, level=level)
    return quantiles.compare(control, treatment, ALPHA).p_value <= ALPHA


def clustered_quantiles(seed: int, runs: int, split: Split) -> list[Outcome]:
    """Dwell p50 and p90 over clicks, which are correlated within a user."""
    rng = np.random.default_rng([seed, 6])
    levels = (0.5, 0.9)
    rejected, covered = (np.zeros((2, runs), dtype=bool) for _ in range(2))
    # Log-dwell is a user's habit plus noise; the number of clicks is independent of it.
    true = {nu: float(np.exp(special.ndtri(nu) * np.hypot(0.6, 0.9) + 3)) for nu in levels}
    for run in range(runs):
        arms = []
        for units in split:
            user = np.repeat(np.arange(units), 1 + rng.geometric(0.25, units))
            dwell = np.exp(3 + rng.normal(0, 0.6, units)[user] + rng.normal(0, 0.9, len(user)))
            arms.append((dwell, user))
        for i, nu in enumerate(levels):
            control, treatment = quantiles.clustered(*arms, level=nu)
            rejected[i, run] = quantiles.compare(control, treatment, ALPHA).p_value <= ALPHA
            larger = max(control, treatment, key=lambda e: e.units)
            low = effects.compute_interval(larger.value, larger.below).low
            high = effects.compute_interval(larger.value, larger.above).high
            covered[i, run] = low <= true[nu] <= high
    tests = nominal(*(f"quantiles.clustered, p{100 * nu:g} of dwell" for nu in levels))
    return outcomes(tests, f"{split}, coverage of one variant's value", rejected, covered)
