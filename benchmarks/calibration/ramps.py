"""Calibration of planned looks while traffic is ramped up, as an analysis tests them.

A/A experiments whose users come back, over 28 days with a planned look each week; the treatment's
share of new users rises. Units are compared within split periods of one share, weighed
alike in both variants; alpha is spent by days, and looks correlate by the information of the days
before each (`inference/compare.py`). Its mean over some experiments stands for each one's own.
Beside it: bounds by share of days, as they were.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from abeval.inference.comparison import Arms, Comparison, Rule
from abeval.inference.means_and_ratios import compare_within
from abeval.metrics.definition import Metric
from abeval.stats import sequential
from abeval.stats.moments import Moments
from abeval.stats.records import Floats, Integers
from abeval.stats.sequential import Spending
from benchmarks.calibration.outcome import ALPHA
from benchmarks.runner import Record, Table

DAYS = 28
LOOKS = (7, 14, 21, 28)
SHARES = tuple(look / DAYS for look in LOOKS)
USERS = 8_000
METRICS = (
    Metric("clicks per user", "mean", "Σ clicks / users"),
    Metric("click rate", "ratio", "Σ clicks / Σ impressions"),
)
ARMS = Arms("a", "b")
SPENDINGS: tuple[Spending, ...] = ("obrien_fleming", "pocock", "power")
RAMPS = {
    "1 % for 21 days, then 50 %": (0.01,) * 21 + (0.5,) * 7,
    "10 % for 14 days, then 50 %": (0.1,) * 14 + (0.5,) * 14,
    "1, 5, 20 % for 3 days each, then 50 %": (0.01,) * 3 + (0.05,) * 3 + (0.2,) * 3 + (0.5,) * 19,
    "always 10 %": (0.1,) * 28,
}
"""Share of the treatment among the users who enter on each day."""

Generator = np.random.Generator


class Users(NamedTuple):
    """Users of one experiment: day of entry, variant, clicks and impressions by day."""

    entry: Integers
    treated: Integers
    clicks: Floats
    shown: Floats


class Looked(NamedTuple):
    """Looks at one experiment, shape (metrics, looks): z, and the information of days so far."""

    z: Floats
    information: Floats


def users_of(shares: Sequence[float], rng: Generator) -> Users:
    """As many new users a day; each comes back at a rate of their own."""
    entry = np.arange(USERS) * DAYS // USERS
    treated = rng.random(USERS) < np.asarray(shares)[entry]
    habit = 0.4 * rng.lognormal(-0.3, 0.8, USERS)
    taste = rng.beta(1.5, 13.5, USERS)
    shown = rng.poisson(habit[:, None], (USERS, DAYS))
    shown[np.arange(USERS), entry] += 1
    shown[np.arange(DAYS) < entry[:, None]] = 0
    clicks = rng.binomial(shown, taste[:, None])
    return Users(entry, treated.astype(int), clicks.astype(float), shown.astype(float))


def looked(shares: Sequence[float], rng: Generator) -> Looked:
    """The looks at one experiment."""
    users = users_of(shares, rng)
    known = np.cumsum(np.diff(np.asarray(shares), prepend=shares[0]) != 0)
    z, information = np.empty((2, len(METRICS), len(LOOKS)))
    for k, days in enumerate(LOOKS):
        here = users.entry < days
        values = np.stack(
            [users.clicks[here, :days].sum(axis=1), users.shown[here, :days].sum(axis=1)], axis=1
        )
        z[:, k] = _z(values, users.treated[here], known[users.entry[here]])
        information[:, k] = _information(users, days)
    return Looked(z, information)


def _z(values: Floats, treated: Integers, stretch: Integers) -> Floats:
    """Of a mean and of a ratio, as the analysis judges them; 0 where there is no test."""
    moments = [
        {
            name: _moments(values[(stretch == s) & (treated == arm)])
            for arm, name in enumerate(ARMS)
            if np.any((stretch == s) & (treated == arm))
        }
        for s in np.unique(stretch)
    ]
    per_user = [{name: one.pick(0, 2) for name, one in variants.items()} for variants in moments]
    rates = [{name: one.pick(0, 1) for name, one in variants.items()} for variants in moments]
    return np.array(
        [
            _signed(compare_within(METRICS[0], per_user, ARMS, Rule())),
            _signed(compare_within(METRICS[1], rates, ARMS, Rule())),
        ]
    )


def _moments(values: Floats) -> Moments:
    return Moments.build_with_third(*values.T, np.ones(len(values)))


def _signed(one: Comparison) -> float:
    """The z with the p-value of the test, which planned looks compare with their bound."""
    return 0.0 if one.effect is None else -float(special.ndtri(max(one.effect.p_value, 1e-300) / 2))


def _information(users: Users, days: int) -> Floats:
    """1/se² of both metrics, if a user's days were independent, in the mean for totals."""
    parts = []
    for arm in (0, 1):
        own = users.treated == arm
        y, x = users.clicks[own, :days], users.shown[own, :days]
        active = x > 0
        parts.append((y[active], x[active]))
    n = np.array([max(len(y), 1) for y, _ in parts])
    means = np.array([y.mean() for y, _ in parts])
    by_mean = (n @ means / n.sum()) ** 2 / sum(y.var() / len(y) for y, _ in parts)
    residuals = [(y - y.sum() / x.sum() * x, x.mean()) for y, x in parts]
    by_ratio = 1 / sum(r.var() / len(r) / mean**2 for r, mean in residuals)
    return np.array([by_mean, by_ratio])


def measure_ramp(name: str, repetitions: int, seed: int) -> Iterator[Record]:
    """Measure how many A/A experiments under a ramp reject at some look."""
    rng = np.random.default_rng([seed, 23, list(RAMPS).index(name)])
    looks = [looked(RAMPS[name], rng) for _ in range(repetitions)]
    z = np.abs(np.stack([one.z for one in looks]))
    information = np.mean([one.information for one in looks[:200]], axis=0)
    for m, metric in enumerate(METRICS):
        fractions = information[m] / information[m, -1]
        for spending in SPENDINGS:
            by_information = sequential.bounds(fractions, ALPHA, spending, spent_at=SHARES).z
            by_days = sequential.bounds(SHARES, ALPHA, spending).z
            yield {
                "ramp": name,
                "metric": metric.name,
                "spending": spending,
                "rejected, %": float((z[:, m] >= by_information).any(axis=1).mean()),
                "by share of days, %": float((z[:, m] >= by_days).any(axis=1).mean()),
            }


TABLES = {"ramps": Table(measure_ramp, tuple(RAMPS), repetitions=4_000, digits=2)}
