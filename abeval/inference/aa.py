"""Replay A/A tests: would this metric's test keep its level on these logs?

The units are split again at random, thousands of times, whatever they were shown. Nothing differs
between the halves, so a test at 5 % must reject 5 % of the splits.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import NamedTuple

import numpy as np
from scipy import special

from abeval.aggregates.aggregates import Aggregates, BucketSums, deals_units
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis, compare_all
from abeval.inference.comparison import Comparisons
from abeval.metrics.definition import Metric
from abeval.results.trust import AAMetric, AAResult
from abeval.stats.distributions import two_sided_quantile
from abeval.stats.proportions import clopper_pearson
from abeval.stats.records import Floats, Refusal
from abeval.stats.replay import replay_aa_tests, summarise_aa_tests
from abeval.stats.skewed import Skewed


def subtract_past_effect(sums: BucketSums) -> BucketSums:
    """Subtract what past values predict, by one slope over all units (CUPED).

    Only the numerator of a ratio is adjusted, which is the same to first order. Without past values
    nothing changes. Source: Deng et al. (2013).

    Example:
        >>> y, before = np.array([1.0, 2.0, 3.0, 5.0]), np.array([[1.0, 2.0, 3.0, 4.0]]).T
        >>> past = np.hstack([before, np.ones((4, 1)), np.zeros((4, 1))])
        >>> after = subtract_past_effect(BucketSums.per_unit(y, np.ones(4), past)).sums[:, 0]
        >>> float(after.mean()), round(float(after.var()), 4)
        (2.75, 0.075)
    """
    if sums.before is None or sums.before[:, 2].all():
        return sums
    y, x = sums.sums[:, 0], sums.sums[:, 1]
    past = sums.before - sums.before.mean(axis=0)
    past = past[:, past.any(axis=0)]
    if not past.size:
        return sums
    slopes = np.linalg.lstsq(past, sums.deviations, rcond=None)[0]
    return BucketSums.per_unit(y - past @ slopes, x)


def compute_skewness(compared: Skewed) -> float:
    """Return the skewness of unit values, pooled over both variants."""
    arms = [(arm, s.share) for s in compared.strata for arm in (s.control, s.treatment)]
    # Third standardised moment of all units together: m₃ / m₂^1.5.
    square = sum(arm.square for arm, _ in arms) / compared.units
    cube = sum(arm.cube for arm, _ in arms) / compared.units
    return cube / square**1.5 if square > 0 else 0.0


_BINS = 20
"""Bins of the histogram of p-values, from 0 to 1."""

EXACT = "judged by Fisher's exact test with its mid-p, for few successes or failures"
_TOO_SKEWED = "too skewed for a test with so few units"
_DRAWN = "its test draws assignments as the design does, which is what a replay would do"
_ADDED_TEST = "judged by an added test statistic"
_RESAMPLED = "judged by resampling of sub-buckets"

# Splits that are dealt together; after each batch the replays of a metric may end.
_BATCH = 500

AA_UNITS = 200
"""With fewer units per variant, large-sample tests do not keep their level."""


class Level(NamedTuple):
    """Limits of the rejection rate of tests at `alpha`.

    Attributes:
        errors: How many standard errors above alpha a rate is high.
        clear: A rate whose interval is below this one needs no more replays. All of them would
            call a test with this rate high in 19 of 20 cases.
    """

    alpha: float
    errors: float
    clear: float

    @classmethod
    def at(cls, alpha: float, false_alarms: float, runs: int) -> "Level":
        """Build the limits of so many replays, from the chance of a false alarm."""
        errors = float(special.ndtri(1 - false_alarms))
        above = (errors + two_sided_quantile(0.05)) * math.sqrt(alpha * (1 - alpha) / runs)
        return cls(alpha, errors, alpha + above)

    def is_high(self, p_values: Floats) -> bool:
        """Tell whether so many rejections are more than chance."""
        error = math.sqrt(self.alpha * (1 - self.alpha) / len(p_values))
        return float(np.mean(p_values < self.alpha)) >= self.alpha + self.errors * error

    def is_clear(self, p_values: Floats) -> bool:
        """Tell whether the rate is surely below the one that all replays would find.

        Example:
            >>> level = Level.at(0.05, 0.002, 2_000)
            >>> [level.is_clear(np.arange(0.5, runs) / runs) for runs in (250, 1_000)]
            [False, True]
        """
        rejections = int(np.count_nonzero(p_values < self.alpha))
        return clopper_pearson(rejections, len(p_values)).high < self.clear


def replay_scorecard(analysis: Analysis, comparisons: Comparisons) -> AAResult | None:
    """Replay the scorecard's metrics; None if not requested or units are too few."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    fewest = min(aggregates.count_units(name) for name in experiment.variants)
    if not aggregates.buckets or fewest < AA_UNITS:
        return None
    runs = experiment.trust.aa_runs
    return _replay_metrics(analysis, comparisons, aggregates.buckets, runs, ends_early=True)


def replay_aa(
    experiment: Experiment,
    metrics: Sequence[Metric],
    aggregates: Aggregates,
    runs: int,
    seed: int,
) -> AAResult:
    """Replay A/A tests of metrics, and say which metrics have no replay and why."""
    given = [metric for metric in metrics if metric.name in aggregates.buckets]
    analysis = Analysis(experiment, given, aggregates)
    comparisons = compare_all(replace(analysis, experiment=experiment.single_look))
    lacking = aggregates.refused.items()
    refused = {name: f"the logs lack {', '.join(columns)}" for name, columns in lacking}
    refused |= {m.name: m.source.no_replays for m in metrics if m.source.no_replays is not None}
    sums = {metric.name: aggregates.buckets[metric.name] for metric in given}
    result = _replay_metrics(analysis, comparisons, sums, runs, seed)
    return replace(result, refused={**refused, **result.refused})


def _classify_row_tests(
    analysis: Analysis, variant: str, comparisons: Comparisons
) -> tuple[dict[str, str], dict[str, float]]:
    """Return by metric why its test has no replay, and the skewness of the others."""
    why, skewed = dict[str, str](), dict[str, float]()
    for metric in analysis.metrics:
        row = comparisons[metric.name, variant]
        if metric.source.no_replays:
            why[metric.name] = metric.source.no_replays
        elif analysis.experiment.inference.resample and metric.is_mean_or_ratio:
            why[metric.name] = _RESAMPLED
        elif metric.test is not None:
            why[metric.name] = _ADDED_TEST
        elif row.randomisation_test is not None:
            why[metric.name] = _DRAWN
        elif row.rare is not None:
            why[metric.name] = EXACT
        elif row.reason == "too_skewed":
            why[metric.name] = _TOO_SKEWED
        elif row.permuted is not None:
            skewed[metric.name] = compute_skewness(row.permuted)
    return why, skewed


def _replay_metrics(
    analysis: Analysis,
    comparisons: Comparisons,
    sums: Mapping[str, BucketSums],
    runs: int,
    seed: int = 0,
    ends_early: bool = False,
) -> AAResult:
    """Replay metrics from their bucket sums, each by the test of its row.

    A metric that rejects too often is replayed again with another seed, and only that replay
    counts. If replays end early, those of a metric end as soon as its rate is clear
    (`Level.is_clear`).
    """
    experiment = analysis.experiment
    counts = {name: analysis.aggregates.count_units(name) for name in experiment.variants}
    variant, share = _find_most_uneven_variant(experiment, counts)
    refused, skewed = _classify_row_tests(analysis, variant, comparisons)
    # A metric whose row has another test is not judged by a replay of t.
    replayed = {name: bucket_sums for name, bucket_sums in sums.items() if name not in refused}
    if experiment.inference.adjust in ("cuped", "regression"):
        replayed = {
            name: subtract_past_effect(bucket_sums) for name, bucket_sums in replayed.items()
        }
    units, alpha = sum(counts.values()), experiment.alpha
    level = Level.at(alpha, experiment.trust.alpha_warn / max(1, len(replayed)), runs)
    is_enough = level.is_clear if ends_early else None
    p_values, impossible = replay_p_values(replayed, share, runs, seed, skewed, is_enough)
    # Chance alone seldom makes two independent replays reject too often.
    again = {name: replayed[name] for name, p in p_values.items() if level.is_high(p)}
    p_values |= replay_p_values(again, share, runs, seed + 1, skewed, is_enough)[0]
    return AAResult(
        alpha=alpha,
        share=share,
        dealt="units" if deals_units(units) else "sub_buckets",
        units=units,
        metrics=tuple(
            AAMetric(name, test.replays, test.rate, test.low, test.high, test.ks_p_value)
            for name, p in p_values.items()
            for test in [summarise_aa_tests(p, alpha)]
        ),
        histograms={
            name: tuple(np.histogram(p, bins=_BINS, range=(0.0, 1.0))[0].tolist())
            for name, p in p_values.items()
        },
        refused={**refused, **impossible},
        notes=_note_test_differences(experiment, deals_units(units)),
        seed=seed,
    )


def _note_test_differences(experiment: Experiment, by_units: bool) -> tuple[str, ...]:
    """Say how the tests of the rows differ from those that are replayed."""
    inference, notes = experiment.inference, []
    if inference.adjust == "stratify" or (inference.adjust != "none" and not by_units):
        notes.append(f'replayed without adjust = "{inference.adjust}"')
    elif inference.adjust == "regression":
        notes.append("replayed with one slope for all variants")
    if inference.looks != "fixed":
        notes.append("replayed with one look at the end")
    return tuple(notes)


def replay_p_values(
    sums: Mapping[str, BucketSums],
    share: float,
    runs: int,
    seed: int,
    skewed: Mapping[str, float] | None = None,
    is_enough: Callable[[Floats], bool] | None = None,
) -> tuple[dict[str, Floats], dict[str, str]]:
    """Return the p-values of every metric over the same re-splits, and refusals.

    A metric has as many as are enough, in whole batches; without `is_enough`, as there are runs.

    Example:
        >>> y = np.random.default_rng(1).poisson(3.0, 5000).astype(float)
        >>> sums = {"mean": BucketSums.per_unit(y, np.ones(5000))}
        >>> p, refused = replay_p_values(sums, 0.5, 200, 0)
        >>> p["mean"].shape, refused
        ((200,), {})
    """
    # Metrics with the same units in each bucket are computed together, which is faster.
    groups: dict[bytes, list[str]] = {}
    for name, bucket_sums in sums.items():
        groups.setdefault(bucket_sums.units.tobytes(), []).append(name)
    p_values, refused = dict[str, Floats](), dict[str, str]()
    queue = [*groups.values()]
    for group in queue:
        together = {name: sums[name] for name in group}
        try:
            p_values |= _replay_together(together, share, runs, seed, skewed or {}, is_enough)
        except Refusal as refusal:
            # One bad metric must not cost its group the replay: retry each alone.
            if len(group) > 1:
                queue += [[name] for name in group]
            else:
                refused[group[0]] = str(refusal)
    in_order = {name: p_values[name] for name in sums if name in p_values}
    return in_order, {name: refused[name] for name in sums if name in refused}


def _replay_together(
    sums: Mapping[str, BucketSums],
    share: float,
    runs: int,
    seed: int,
    skewed: Mapping[str, float],
    is_enough: Callable[[Floats], bool] | None,
) -> dict[str, Floats]:
    """Return the p-values of metrics that have the same units in each bucket."""
    rng, left = np.random.default_rng(seed), [*sums]
    p_values = {name: np.zeros(0) for name in sums}
    values = np.stack([sums[name].sums for name in left], axis=1)
    for start in range(0, runs, _BATCH):
        replay = replay_aa_tests(
            sums[left[0]].units,
            values,
            share,
            min(_BATCH, runs - start),
            rng,
            [skewed.get(name, np.nan) for name in left],
            [sums[name].heavy for name in left],
        )
        for name, of_batch in zip(left, replay.p_values.T, strict=True):
            p_values[name] = np.append(p_values[name], of_batch)
        if is_enough is None:
            continue
        is_left = np.array([not is_enough(p_values[name]) for name in left])
        left, values = [*compress(left, is_left)], values[:, is_left]
        if not left:
            break
    return p_values


def _find_most_uneven_variant(
    experiment: Experiment, counts: Mapping[str, int]
) -> tuple[str, float]:
    """Return the least evenly split variant, and its share of units with control."""
    control, shares = counts[experiment.control], {}
    for name in experiment.treatments:
        treatment = counts[name]
        shares[name] = treatment / (control + treatment) if control and treatment else 0.5
    variant = min(shares, key=lambda name: min(shares[name], 1 - shares[name]))
    return variant, shares[variant]
