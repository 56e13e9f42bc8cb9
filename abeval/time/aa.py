"""A/A replay: would this metric's test keep its level on these logs?

The units are dealt out anew, thousands of times, with no regard to what they were shown. Nothing
differs between the halves, so a test at 5 % must reject 5 % of them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from abeval.assignment import SUB_BUCKETS
from abeval.collect import Step
from abeval.engines.protocol import Engine
from abeval.experiment.model import Experiment
from abeval.metric_queries import MetricQueries
from abeval.metrics import Metric, Source
from abeval.queries import query
from abeval.stats.records import Refusal
from abeval.stats.replay import aa_replay, aa_summary
from abeval.time.opened import open_metrics

Floats = NDArray[np.float64]

UNITS_PER_BUCKET = 10
"""With fewer units per sub-bucket than this, units are dealt out instead."""

BINS = 20
"""Of the histogram of p-values, from 0 to 1."""


@dataclass(frozen=True)
class AAMetric:
    """The A/A replay of one metric.

    Attributes:
        metric: Its id.
        runs: Replays.
        rejection_rate: Share of p-values below alpha, which should be alpha.
        rejection_low: Lower end of its 95 % interval (Clopper and Pearson).
        rejection_high: Upper end.
        uniformity_p_value: Of the p-values being uniform (Kolmogorov and Smirnov).
    """

    metric: str
    runs: int
    rejection_rate: float
    rejection_low: float
    rejection_high: float
    uniformity_p_value: float


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
        """Metrics whose rejection rate is more than three Monte Carlo errors from alpha.

        Example:
            >>> row = AAMetric("ctr", 10_000, 0.0497, 0.0455, 0.0541, 0.61)
            >>> AAResult(0.05, 0.5, "sub_buckets", 10**6, (row,), {}, {}).off()
            ()
        """
        alpha = self.alpha
        return tuple(
            row.metric
            for row in self.metrics
            if abs(row.rejection_rate - alpha) > 3 * (alpha * (1 - alpha) / row.runs) ** 0.5
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per metric."""
        return pd.DataFrame([asdict(row) for row in self.metrics])

    def to_json(self) -> str:
        """The result as JSON text."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


@dataclass(frozen=True, eq=False)
class BucketSums:
    """Pooled sums of one metric over what is dealt out, and nothing of variants.

    Attributes:
        units: Per sub-bucket (or 1 per unit), shape (buckets,).
        sums: Σy, Σx, Σy², Σyx and Σx², shape (buckets, 5).
    """

    units: Floats
    sums: Floats

    @classmethod
    def of_buckets(cls, frame: pd.DataFrame) -> "BucketSums":
        """From `queries/time/bucket_sums.sql`."""
        columns = ["y", "x", "y_y", "y_x", "x_x"]
        return cls(frame["units"].to_numpy(float), frame[columns].to_numpy(float))

    @classmethod
    def of_units(cls, y: Floats, x: Floats) -> "BucketSums":
        """Every unit a bucket of its own.

        Example:
            >>> BucketSums.of_units(np.array([2.0]), np.array([3.0])).sums.tolist()
            [[2.0, 3.0, 4.0, 6.0, 9.0]]
        """
        return cls(np.ones(len(y)), np.stack([y, x, y * y, y * x, x * x], axis=1))


_NOT_SUMS: Mapping[Source, str] = {
    "catalogue": "not a sum over units: items overlap",
    "quantile": "not a sum over units: a quantile is over all impressions",
}


def collect_buckets(
    experiment: Experiment,
    metrics: Sequence[Metric],
    engine: Engine,
    frames: Mapping[str, object],
    step: Step,
) -> tuple[dict[str, BucketSums], dict[str, str], Mapping[str, int]]:
    """Bucket sums of every metric, why others have none, and the units of each variant."""
    opened = open_metrics(experiment, metrics, engine, frames, step)
    refused = {name: f"the logs lack {', '.join(what)}" for name, what in opened.refused.items()}
    counts = {str(v): int(n or 0) for v, n, _ in engine.rows(query("units/unit_counts"))}
    by_units = sum(counts.values()) < UNITS_PER_BUCKET * SUB_BUCKETS
    found: dict[str, BucketSums] = {}
    for source, chosen in opened.by_source().items():
        if source in _NOT_SUMS:
            refused |= {m.name: _NOT_SUMS[source] for m in chosen}
            continue
        step(f"sums per sub-bucket of {source}")
        opened.run.load(source)
        engine.table("source_unit", query("units/unit_total"))
        found |= {m.name: _sums(opened.run, m, engine, by_units) for m in chosen}
    return found, refused, counts


def _sums(run: MetricQueries, metric: Metric, engine: Engine, by_units: bool) -> BucketSums:
    terms = run.judged_terms(metric)
    listed = f"sub_bucket, {terms.y} as y, {terms.x} as x"
    engine.view("bucket_value", f"select {listed} from source_unit")
    if not by_units:
        return BucketSums.of_buckets(engine.frame(query("time/bucket_sums")))
    values = engine.frame(query("time/unit_values"))
    return BucketSums.of_units(values["y"].to_numpy(float), values["x"].to_numpy(float))


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


def aa(
    experiment: Experiment,
    metrics: Sequence[Metric],
    engine: Engine,
    frames: Mapping[str, object],
    step: Step,
    runs: int,
    seed: int,
) -> AAResult:
    """Replay A/A tests of an experiment's metrics on its own logs."""
    sums, refused, counts = collect_buckets(experiment, metrics, engine, frames, step)
    share = _share(experiment, counts)
    step("replays")
    p_values, failed = replay(sums, share, runs, seed)
    units = sum(counts.values())
    return AAResult(
        alpha=experiment.alpha,
        share=share,
        dealt="units" if units < UNITS_PER_BUCKET * SUB_BUCKETS else "sub_buckets",
        units=units,
        metrics=tuple(
            _row(m.name, p_values[m.name], experiment.alpha) for m in metrics if m.name in p_values
        ),
        histograms={name: _histogram(p) for name, p in p_values.items()},
        refused={**refused, **failed},
    )


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
