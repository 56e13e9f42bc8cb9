"""A/A replays: would this metric's test keep its level on these logs?

The units are split anew, thousands of times, whatever they were shown. Nothing differs between the
halves, so a test at 5 % must reject 5 % of the splits.

It splits the `BucketSums` of the aggregates. `judge.py` puts the answer into the result and its
trust check; `time/aa.py` replays on the logs, for `abeval aa`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from abeval.aggregates.buckets import BucketSums, deals_units
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis
from abeval.inference.proportions import FEW, FEW_UNEVEN, UNEVEN
from abeval.results import AAMetric
from abeval.results.aa import AAResult
from abeval.stats.arrays import Floats
from abeval.stats.records import Refusal
from abeval.stats.replay import aa_replay, aa_summary

BINS = 20
"""Of the histogram of p-values, from 0 to 1."""

EXACT = "judged by Fisher's exact test, which keeps its level with few successes or failures"

AA_UNITS = 200
"""With fewer units a variant than this, large-sample tests do not keep their level."""


def aa_of(analysis: Analysis) -> AAResult | None:
    """A/A replays of the metrics, None where none were requested or units are too few."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    counts = {name: aggregates.units_of(name) for name in experiment.variants}
    if not aggregates.buckets or min(counts.values()) < AA_UNITS:
        return None
    exact = dict.fromkeys(analysis.exact, EXACT)
    sums = {name: one for name, one in aggregates.buckets.items() if name not in exact}
    unlike = {m.name: m.source.no_replays for m in analysis.metrics if m.source.no_replays}
    result = aa_replays(experiment, sums, counts, experiment.trust.aa_runs)
    return replace(result, refused={**unlike, **exact, **result.refused})


def aa_replays(
    experiment: Experiment,
    sums: Mapping[str, BucketSums],
    counts: Mapping[str, int],
    runs: int,
    seed: int = 0,
) -> AAResult:
    """A/A replays of metrics from their pooled sums.

    Args:
        experiment: Its level and variants.
        sums: Metric → its pooled sums.
        counts: Variant → its analysed units.
        runs: Replays.
        seed: Of the re-splits.
    """
    share = _share(experiment, counts)
    exact = {name: EXACT for name, one in sums.items() if few_expected(one, share)}
    large = {name: one for name, one in sums.items() if name not in exact}
    p_values, refused = aa_p_values(large, share, runs, seed)
    units = sum(counts.values())
    return AAResult(
        alpha=experiment.alpha,
        share=share,
        dealt="units" if deals_units(units) else "sub_buckets",
        units=units,
        metrics=tuple(_row(name, p, experiment.alpha) for name, p in p_values.items()),
        histograms={name: _histogram(p) for name, p in p_values.items()},
        refused={**exact, **refused},
        notes=_notes(experiment),
    )


def _notes(experiment: Experiment) -> tuple[str, ...]:
    """How the tests of the rows differ from those that are replayed."""
    inference, notes = experiment.inference, []
    if inference.adjust != "none":
        notes.append(f'replayed without adjust = "{inference.adjust}"')
    if inference.resample is not None:
        notes.append(f'replayed without resample = "{inference.resample}"')
    if inference.looks != "fixed":
        notes.append("replayed with one look at the end")
    return tuple(notes)


def few_expected(sums: BucketSums, share: float) -> bool:
    """Whether values of 0 and 1 are so few in the smaller variant that an exact test judges them.

    Args:
        sums: Pooled sums of a metric.
        share: Of units that go to treatment.

    Example:
        >>> few_expected(BucketSums.of_units([1.0] * 9 + [0.0] * 991, [1.0] * 1000), 0.5)
        True
    """
    y, x, yy, _, xx = sums.sums.sum(axis=0).tolist()
    n = float(sums.units.sum())
    if not y == yy == round(y) or not x == xx == n:
        return False
    smaller = min(share, 1 - share)
    limit = FEW_UNEVEN if 1 - smaller > UNEVEN * smaller else FEW
    return bool(smaller * min(y, n - y) < limit)


def aa_p_values(
    sums: Mapping[str, BucketSums], share: float, runs: int, seed: int
) -> tuple[dict[str, Floats], dict[str, str]]:
    """P-values of every metric over the same re-splits, and why a metric has none.

    Args:
        sums: Metric → its pooled sums.
        share: Of units that go to treatment.
        runs: Replays.
        seed: Of the re-splits.

    Example:
        >>> y = np.random.default_rng(1).poisson(3.0, 5000).astype(float)
        >>> sums = {"mean": BucketSums.of_units(y, np.ones(5000))}
        >>> p, refused = aa_p_values(sums, 0.5, 200, 0)
        >>> p["mean"].shape, refused
        ((200,), {})
    """
    if not sums:
        return {}, {}
    # Metrics with the same units in each bucket are computed together, which is faster.
    together = [name for name, one in sums.items() if _same_units(one, next(iter(sums.values())))]
    try:
        columns = _resplit([sums[name] for name in together], share, runs, seed)
        p_values = {name: columns[:, i] for i, name in enumerate(together)}
    except Refusal:
        p_values = {}
    refused: dict[str, str] = {}
    for name in [name for name in sums if name not in p_values]:
        try:
            p_values[name] = _resplit([sums[name]], share, runs, seed)[:, 0]
        except Refusal as refusal:
            refused[name] = str(refusal)
    return {name: p_values[name] for name in sums if name in p_values}, refused


def _same_units(one: BucketSums, other: BucketSums) -> bool:
    return one.units.shape == other.units.shape and bool(np.all(one.units == other.units))


def _resplit(sums: Sequence[BucketSums], share: float, runs: int, seed: int) -> Floats:
    """P-values of several metrics, shape (runs, metrics)."""
    stacked = np.stack([one.sums for one in sums], axis=1)
    return aa_replay(sums[0].units, stacked, share, runs, seed).p_values


def _share(experiment: Experiment, counts: Mapping[str, int]) -> float:
    """A variant's share of the units of itself and control: the most uneven one."""
    control = counts.get(experiment.control, 0)
    shares = [
        counts[name] / (control + counts[name])
        for name in experiment.treatments
        if counts.get(name, 0) and control
    ]
    return min(shares, key=lambda share: min(share, 1 - share), default=0.5)


def _row(name: str, p_values: Floats, alpha: float) -> AAMetric:
    summary = aa_summary(p_values, alpha)
    return AAMetric(
        name, summary.replays, summary.rate, summary.low, summary.high, summary.ks_p_value
    )


def _histogram(p_values: Floats) -> tuple[int, ...]:
    counts, _ = np.histogram(p_values, bins=BINS, range=(0.0, 1.0))
    return tuple(int(n) for n in counts)
