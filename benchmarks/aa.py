"""10,000 A/A replays of 10 metrics over a million users: what they take, and how often they reject.

    python benchmarks/aa.py [--users 1000000] [--runs 10000]

Users are simulated with tastes of their own: five means and five ratios, from Bernoulli to
log-normal, summed by sub-bucket as the scan would have left them. The scan is not timed.
"""

import argparse
import os
import time

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.aggregates import Aggregates, BucketSums
from abeval.assignment import SUB_BUCKETS
from abeval.experiment.load import parse_experiment
from abeval.inference.aa import aa_replays
from abeval.inference.compare import Analysis

Floats = NDArray[np.float64]


def main() -> None:
    """Simulate, replay, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=10_000)
    given = parser.parse_args()
    experiment = parse_experiment(
        {
            "name": "aa",
            "unit": "user_id",
            "control": "a",
            "variants": {"a": {}, "b": {}},
            "logs": {"impressions": {"path": "none.parquet"}},
        }
    )
    sums = simulated(given.users)
    counts = {"a": given.users // 2, "b": given.users - given.users // 2}
    analysis = Analysis(experiment, (), Aggregates())
    aa_replays(analysis, {}, counts, sums, 100)
    load, began = os.getloadavg()[0], time.perf_counter()
    found = aa_replays(analysis, {}, counts, sums, given.runs)
    seconds = time.perf_counter() - began
    error = (experiment.alpha * (1 - experiment.alpha) / given.runs) ** 0.5
    print(
        f"load {load:.2f}; cores {os.cpu_count()}; {given.users:,} users; {found.dealt} dealt out"
    )
    print(f"{given.runs:,} replays of {len(sums)} metrics, with summaries  {seconds:.2f} s")
    for row in found.metrics:
        away = (row.rejection_rate - experiment.alpha) / error
        print(f"{row.metric:24} {row.rejection_rate:7.2%}  {away:+5.1f} Monte Carlo errors")
    print(f"off, sub-buckets being finitely many allowed for: {', '.join(found.off()) or 'none'}")


def simulated(users: int) -> dict[str, BucketSums]:
    """Five means and five ratios of users in random sub-buckets."""
    rng = np.random.default_rng(20)
    bucket = rng.integers(0, SUB_BUCKETS, users)
    shown = 1.0 + rng.poisson(rng.gamma(1.0, 20.0, users))
    clicks = rng.binomial(shown.astype(int), rng.beta(2.0, 18.0, users)).astype(float)
    dwell = clicks * np.round(rng.lognormal(3.0, 1.0, users))
    days = 1.0 + rng.binomial(13, rng.beta(1.0, 2.0, users))
    long_clicks = rng.binomial(clicks.astype(int), 0.4).astype(float)
    one = np.ones(users)
    pairs = {
        "impressions_per_user": (shown, one),
        "clicks_per_user": (clicks, one),
        "dwell_per_user": (dwell, one),
        "days_per_user": (days, one),
        "clicked": (np.minimum(clicks, 1.0), one),
        "ctr": (clicks, shown),
        "dwell_per_impression": (dwell, shown),
        "dwell_per_click": (dwell, clicks),
        "long_click_rate": (long_clicks, clicks),
        "impressions_per_day": (shown, days),
    }
    return {name: in_buckets(bucket, y, x) for name, (y, x) in pairs.items()}


def in_buckets(bucket: NDArray[np.int64], y: Floats, x: Floats) -> BucketSums:
    """Sums by sub-bucket."""
    parts = (np.ones(len(y)), y, x, y * y, y * x, x * x)
    summed = np.stack([np.bincount(bucket, part, SUB_BUCKETS) for part in parts], axis=1)
    return BucketSums(summed[:, 0], summed[:, 1:])


if __name__ == "__main__":
    main()
