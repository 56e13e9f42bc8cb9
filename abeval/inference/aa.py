"""A/A replay: would this metric's test keep its level on these logs?

The units are dealt out anew, thousands of times, with no regard to what they were shown. Nothing
differs between the halves, so a test at 5 % must reject 5 % of them.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.buckets import BucketSums, deals_units
from abeval.experiment.model import Experiment
from abeval.results import AAMetric
from abeval.results.aa import AAResult
from abeval.stats.records import Refusal
from abeval.stats.replay import aa_replay, aa_summary

Floats = NDArray[np.float64]

BINS = 20
"""Of the histogram of p-values, from 0 to 1."""


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
