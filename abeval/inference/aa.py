"""A/A replays: would this metric's test keep its level on these logs?

The units are split anew, thousands of times, whatever they were shown. Nothing differs between the
halves, so a test at 5 % must reject 5 % of the splits.

It splits the `BucketSums` of the aggregates, by the test that judges the rows. `judge.py` puts the
answer into the result and `trust/replays.py` into its trust check; `time/aa.py` replays on the
logs, for `abeval aa`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from abeval.aggregates.aggregates import FEW_UNITS, FEW_VALUES, BucketSums, deals_units
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis
from abeval.inference.special_tests import LIMIT, MOST
from abeval.results import AAMetric
from abeval.results.trust import AAResult
from abeval.stats.records import Floats, Refusal
from abeval.stats.replay import aa_replay, aa_summary

BINS = 20
"""Of the histogram of p-values, from 0 to 1."""

EXACT = "judged by Fisher's exact test with its mid-p, for few successes or failures"
PERMUTED = "judged by a permutation of its units, which keeps its level"
TOO_SKEWED = "too skewed for a test with so few units"
RESAMPLED = "judged by resampling of sub-buckets"

AA_UNITS = 200
"""With fewer units a variant than this, large-sample tests do not keep their level."""


def aa_of(analysis: Analysis) -> AAResult | None:
    """A/A replays of the metrics, None where none were requested or units are too few."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    counts = {name: aggregates.units_of(name) for name in experiment.variants}
    if not aggregates.buckets or min(counts.values()) < AA_UNITS:
        return None
    refused = _not_replayed(analysis, most_uneven(experiment, counts))
    sums = {name: one for name, one in aggregates.buckets.items() if name not in refused}
    skewed = _skewed(analysis, most_uneven(experiment, counts))
    result = aa_replays(experiment, sums, counts, experiment.trust.aa_runs, skewed=skewed)
    return replace(result, refused={**refused, **result.refused})


def _not_replayed(analysis: Analysis, variant: str) -> dict[str, str]:
    """Why the test of a metric's rows is none that is replayed."""
    why: dict[str, str] = {}
    for metric in analysis.metrics:
        row = analysis.comparisons[metric.name, variant]
        if metric.source.no_replays:
            why[metric.name] = metric.source.no_replays
        elif analysis.experiment.inference.resample and metric.is_mean_or_ratio:
            why[metric.name] = RESAMPLED
        elif row.rare is not None:
            why[metric.name] = EXACT
        elif row.permuted is not None and row.permuted.pair is not None:
            why[metric.name] = PERMUTED
        elif row.reason == "too_skewed":
            why[metric.name] = TOO_SKEWED
    return why


def _skewed(analysis: Analysis, variant: str) -> dict[str, float]:
    """The skewness of metrics that the test of skewed values judges."""
    rows = ((m.name, analysis.comparisons[m.name, variant].permuted) for m in analysis.metrics)
    return {name: skewness_of(permuted) for name, permuted in rows if permuted is not None}


def aa_replays(
    experiment: Experiment,
    sums: Mapping[str, BucketSums],
    counts: Mapping[str, int],
    runs: int,
    seed: int = 0,
    skewed: Mapping[str, float] | None = None,
) -> AAResult:
    """A/A replays of metrics from their pooled sums.

    Args:
        experiment: Its level, variants and adjustment.
        sums: Metric → its pooled sums, in the metric's own unit.
        counts: Variant → its analysed units.
        runs: Replays.
        seed: Of the re-splits.
        skewed: Metric → the skewness of those that the test of skewed values judges. Without it,
            single units tell which.
    """
    share, units = _share(experiment, counts), sum(counts.values())
    # An exact test judges the values as they are, also where others are adjusted.
    few = [name for name, one in sums.items() if few_expected(one, share)]
    if experiment.inference.adjust in ("cuped", "regression"):
        sums = {name: without_past(one) for name, one in sums.items()}
    refused: dict[str, str] = {}
    knows_skewed = skewed is not None or deals_units(units)
    if skewed is None:
        skewed, refused = _skewed_units(
            {name: one for name, one in sums.items() if name not in few}, share
        )
        refused |= dict.fromkeys(few, EXACT)
    replayed = {name: one for name, one in sums.items() if name not in refused}
    p_values, impossible = aa_p_values(replayed, share, runs, seed, skewed)
    return AAResult(
        alpha=experiment.alpha,
        share=share,
        dealt="units" if deals_units(units) else "sub_buckets",
        units=units,
        metrics=tuple(_row(name, p, experiment.alpha) for name, p in p_values.items()),
        histograms={name: _histogram(p) for name, p in p_values.items()},
        refused={**refused, **impossible},
        notes=_notes(experiment, deals_units(units), knows_skewed),
        seed=seed,
    )


def _skewed_units(
    sums: Mapping[str, BucketSums], share: float
) -> tuple[dict[str, float], dict[str, str]]:
    """The skewness of metrics that the test by moments judges, and why others are not replayed."""
    skewed, refused = dict[str, float](), dict[str, str]()
    for name, one in sums.items():
        skewness, units = skewness_of_units(one), float(one.units.sum())
        left = abs(left_in_difference(skewness, units, share))
        if one.units.max() > 1 or left <= LIMIT:
            continue
        if units <= FEW_UNITS and len(np.unique(one.sums[:, :2], axis=0)) <= FEW_VALUES:
            refused[name] = PERMUTED
        elif left > MOST:
            refused[name] = TOO_SKEWED
        else:
            skewed[name] = skewness
    return skewed, refused


def _notes(experiment: Experiment, by_units: bool, knows_skewed: bool) -> tuple[str, ...]:
    """How the tests of the rows differ from those that are replayed."""
    inference, notes = experiment.inference, []
    if inference.adjust == "stratify" or (inference.adjust != "none" and not by_units):
        notes.append(f'replayed without adjust = "{inference.adjust}"')
    elif inference.adjust == "regression":
        notes.append("replayed with one slope for all variants")
    if inference.resample is not None:
        notes.append(f'replayed without resample = "{inference.resample}"')
    if not knows_skewed:
        notes.append("replayed by large-sample tests, also where values are skewed")
    if inference.looks != "fixed":
        notes.append("replayed with one look at the end")
    return tuple(notes)


def aa_p_values(
    sums: Mapping[str, BucketSums],
    share: float,
    runs: int,
    seed: int,
    skewed: Mapping[str, float] | None = None,
) -> tuple[dict[str, Floats], dict[str, str]]:
    """P-values of every metric over the same re-splits, and why a metric has none.

    Args:
        sums: Metric → its pooled sums.
        share: Of units that go to treatment.
        runs: Replays.
        seed: Of the re-splits.
        skewed: Metric → the skewness of those that the test of skewed values judges.

    Example:
        >>> y = np.random.default_rng(1).poisson(3.0, 5000).astype(float)
        >>> sums = {"mean": BucketSums.of_units(y, np.ones(5000))}
        >>> p, refused = aa_p_values(sums, 0.5, 200, 0)
        >>> p["mean"].shape, refused
        ((200,), {})
    """
    if not sums:
        return {}, {}
    skewness = {name: (skewed or {}).get(name, np.nan) for name in sums}
    # Metrics with the same units in each bucket are computed together, which is faster.
    together = [name for name, one in sums.items() if _same_units(one, next(iter(sums.values())))]
    try:
        of = [skewness[name] for name in together]
        columns = _resplit([sums[name] for name in together], of, share, runs, seed)
        p_values = {name: columns[:, i] for i, name in enumerate(together)}
    except Refusal:
        p_values = {}
    refused: dict[str, str] = {}
    for name in [name for name in sums if name not in p_values]:
        try:
            of = [skewness[name]]
            p_values[name] = _resplit([sums[name]], of, share, runs, seed)[:, 0]
        except Refusal as refusal:
            refused[name] = str(refusal)
    return {name: p_values[name] for name in sums if name in p_values}, refused


def _same_units(one: BucketSums, other: BucketSums) -> bool:
    return one.units.shape == other.units.shape and bool(np.all(one.units == other.units))


def _resplit(
    sums: Sequence[BucketSums], skewness: Sequence[float], share: float, runs: int, seed: int
) -> Floats:
    """P-values of several metrics, shape (runs, metrics)."""
    stacked = np.stack([one.sums for one in sums], axis=1)
    return aa_replay(sums[0].units, stacked, share, runs, seed, skewness).p_values


def most_uneven(experiment: Experiment, counts: Mapping[str, int]) -> str:
    """The variant whose numbers of units and of control's are least even."""
    return min(experiment.treatments, key=lambda name: _evenness(experiment, counts, name))


def _evenness(experiment: Experiment, counts: Mapping[str, int], variant: str) -> float:
    control, own = counts.get(experiment.control, 0), counts.get(variant, 0)
    return min(control, own) / (control + own) if control and own else 0.5


def _share(experiment: Experiment, counts: Mapping[str, int]) -> float:
    """The share of the most uneven variant of the units of itself and control."""
    control = counts.get(experiment.control, 0)
    own = counts.get(most_uneven(experiment, counts), 0)
    return own / (control + own) if control and own else 0.5


def _row(name: str, p_values: Floats, alpha: float) -> AAMetric:
    summary = aa_summary(p_values, alpha)
    return AAMetric(
        name, summary.replays, summary.rate, summary.low, summary.high, summary.ks_p_value
    )


def _histogram(p_values: Floats) -> tuple[int, ...]:
    counts, _ = np.histogram(p_values, bins=BINS, range=(0.0, 1.0))
    return tuple(int(n) for n in counts)
