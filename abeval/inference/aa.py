"""A/A replay: would this metric's test keep its level on these logs?

The units are dealt out anew, thousands of times, with no regard to what they were shown. Nothing
differs between the halves, so a test at 5 % must reject 5 % of them.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from abeval.aggregates.buckets import BucketSums, deals_units
from abeval.assignment import SUB_BUCKETS
from abeval.experiment.model import Experiment
from abeval.results import AAMetric
from abeval.stats.distributions import two_sided_quantile
from abeval.stats.records import Refusal
from abeval.stats.replay import aa_replay, aa_summary

Floats = NDArray[np.float64]

BINS = 20
"""Of the histogram of p-values, from 0 to 1."""


@dataclass(frozen=True)
class AAResult:
    """A/A replays of an experiment's metrics on its own logs.

    Attributes:
        alpha: Level of the tests.
        share: Share of units that a replay deals to treatment: the smallest among the variants
            compared with control.
        dealt: What is dealt out: `sub_buckets` or `units`.
        units: Analysed units.
        metrics: One row per metric.
        histograms: Metric → number of p-values in each of `BINS` equal bins.
        refused: Metric → why it cannot be replayed.
    """

    alpha: float
    share: float
    dealt: str
    units: int
    metrics: tuple[AAMetric, ...]
    histograms: Mapping[str, tuple[int, ...]]
    refused: Mapping[str, str]

    def __getitem__(self, metric: str) -> AAMetric:
        """The row of a metric."""
        return next(row for row in self.metrics if row.metric == metric)

    def off(self) -> tuple[str, ...]:
        """Metrics whose rejection rate is more than three errors from alpha.

        Example:
            >>> row = AAMetric("ctr", 10_000, 0.0497, 0.0455, 0.0541, 0.61)
            >>> AAResult(0.05, 0.5, "sub_buckets", 10**6, (row,), {}, {}).off()
            ()
        """
        return tuple(name for name, errors in self.errors().items() if abs(errors) > 3)

    def errors(self) -> dict[str, float]:
        """Metric → how many errors its rejection rate is from alpha, where the test is right.

        Beside the Monte Carlo error there is one of dealing out finitely many sub-buckets: their
        totals vary by 1 / sqrt(2 B) more or less than those of the units in them.
        """
        z = two_sided_quantile(self.alpha)
        # Of the rate, for a standard error that is off by a share: 2 z phi(z) of that share.
        dealing = 0.0 if self.dealt == "units" else 2 * z * _density(z) / (2 * SUB_BUCKETS) ** 0.5
        return {
            row.metric: (row.rejection_rate - self.alpha)
            / (self.alpha * (1 - self.alpha) / row.runs + dealing**2) ** 0.5
            for row in self.metrics
        }

    def doubts(self) -> dict[str, float]:
        """Metric → p-value of its rejection rate being alpha, Bonferroni over the metrics.

        Example:
            >>> rows = [AAMetric(name, 2_000, rate, 0.0, 1.0, 0.5) for name, rate in
            ...         (("ctr", 0.0515), ("dwell", 0.09))]
            >>> found = AAResult(0.05, 0.5, "units", 9_000, tuple(rows), {}, {}).doubts()
            >>> found["ctr"], found["dwell"] < 1e-12
            (1.0, True)
        """
        tests = len(self.metrics)
        return {
            name: min(1.0, tests * 2 * float(special.ndtr(-abs(errors))))
            for name, errors in self.errors().items()
        }

    def to_frame(self) -> pd.DataFrame:
        """One row per metric."""
        return pd.DataFrame([asdict(row) for row in self.metrics])

    def to_json(self) -> str:
        """The result as JSON text."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def replays(
    experiment: Experiment,
    sums: Mapping[str, BucketSums],
    counts: Mapping[str, int],
    runs: int,
    seed: int = 0,
) -> AAResult:
    """Replay A/A tests of metrics from their pooled sums.

    Args:
        experiment: Its level, and the variants.
        sums: Metric → its pooled sums.
        counts: Variant → its analysed units.
        runs: Replays.
        seed: Of the re-splits.
    """
    share = _share(experiment, counts)
    p_values, refused = replay(sums, share, runs, seed)
    units = sum(counts.values())
    return AAResult(
        alpha=experiment.alpha,
        share=share,
        dealt="units" if deals_units(units) else "sub_buckets",
        units=units,
        metrics=tuple(_row(name, p, experiment.alpha) for name, p in p_values.items()),
        histograms={name: _histogram(p) for name, p in p_values.items()},
        refused=refused,
    )


def replay(
    sums: Mapping[str, BucketSums], share: float, runs: int, seed: int
) -> tuple[dict[str, Floats], dict[str, str]]:
    """P-values of every metric over the same re-splits, and why a metric has none.

    Args:
        sums: Metric → its pooled sums, all over the same buckets.
        share: Of units that go to treatment.
        runs: Replays.
        seed: Of the re-splits.

    Example:
        >>> y = np.random.default_rng(1).poisson(3.0, 5000).astype(float)
        >>> p, refused = replay({"mean": BucketSums.of_units(y, np.ones(5000))}, 0.5, 200, 0)
        >>> p["mean"].shape, refused
        ((200,), {})
    """
    together = [name for name, found in sums.items() if _alike(found, next(iter(sums.values())))]
    try:
        p_values = _replayed([sums[name] for name in together], share, runs, seed)
        alone = [name for name in sums if name not in together]
        found = {name: p_values[:, i] for i, name in enumerate(together)}
    except Refusal:
        alone, found = list(sums), {}
    refused: dict[str, str] = {}
    for name in alone:
        try:
            found[name] = _replayed([sums[name]], share, runs, seed)[:, 0]
        except Refusal as refusal:
            refused[name] = str(refusal)
    return {name: found[name] for name in sums if name in found}, refused


def _alike(one: BucketSums, other: BucketSums) -> bool:
    return one.units.shape == other.units.shape and bool(np.all(one.units == other.units))


def _replayed(sums: Sequence[BucketSums], share: float, runs: int, seed: int) -> Floats:
    stacked = np.stack([found.sums for found in sums], axis=1)
    return aa_replay(sums[0].units, stacked, share, runs, seed).p_values


def _share(experiment: Experiment, counts: Mapping[str, int]) -> float:
    """Of control and a variant, the share of the variant, where it is smallest."""
    control = counts.get(experiment.control, 0)
    shares = [
        counts[name] / (control + counts[name])
        for name in experiment.treatments
        if counts.get(name, 0) and control
    ]
    return min(shares, key=lambda share: min(share, 1 - share), default=0.5)


def _row(name: str, p_values: Floats, alpha: float) -> AAMetric:
    found = aa_summary(p_values, alpha)
    return AAMetric(name, found.replays, found.rate, found.low, found.high, found.ks_p_value)


def _histogram(p_values: Floats) -> tuple[int, ...]:
    counts, _ = np.histogram(p_values, bins=BINS, range=(0.0, 1.0))
    return tuple(int(n) for n in counts)


def _density(z: float) -> float:
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
