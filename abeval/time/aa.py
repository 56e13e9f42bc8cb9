"""A/A replays of an experiment's metrics on its own logs.

`api/` calls it (`abeval aa`) with a `Run` and metrics; sums per sub-bucket come from
`aggregates/metric_queries.py`, and `inference/aa.py` splits them at random: an `AAResult`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from abeval.aggregates.buckets import BucketSums, deals_units
from abeval.engines.protocol import whole
from abeval.engines.queries import query
from abeval.inference.aa import aa_replays
from abeval.logs.run import Run
from abeval.metrics.definition import Metric, scales
from abeval.results.aa import AAResult
from abeval.time.open import by_source, open_logs


def aa(run: Run, metrics: Sequence[Metric], runs: int, seed: int) -> AAResult:
    """Replay A/A tests of an experiment's metrics on its own logs."""
    sums, refused, counts = collect_buckets(run, metrics)
    run.step("replays")
    ordered = {m.name: sums[m.name] for m in metrics if m.name in sums}
    result = aa_replays(run.experiment, ordered, counts, runs, seed)
    return replace(result, refused={**refused, **result.refused})


def collect_buckets(
    run: Run, metrics: Sequence[Metric]
) -> tuple[dict[str, BucketSums], dict[str, str], Mapping[str, int]]:
    """Bucket sums of every metric, why others have none, and the units of each variant."""
    logs = open_logs(run, metrics)
    queries, refused = logs.queries, dict(logs.refused)
    counts = {str(v): whole(n) for v, n, _ in run.engine.rows(query("units/unit_counts"))}
    by_units = deals_units(sum(counts.values()))
    sums: dict[str, BucketSums] = {}
    for source, group in by_source(logs.metrics).items():
        if source.no_replays is not None:
            refused |= dict.fromkeys((m.name for m in group), source.no_replays)
            continue
        run.step(f"sums per sub-bucket of {source}")
        queries.load(source, group)
        queries.total_units(source)
        sums |= {m.name: queries.bucket_sums(m, by_units).scaled(*scales(m)) for m in group}
    return sums, refused, counts
