"""A/A replays of an experiment's metrics on its own logs.

`api/` calls it (`abeval aa`) with a `Run` and metrics; sums per sub-bucket come from
`aggregates/source_values.py`, and `inference/aa.py` splits them at random: an `AAResult`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from abeval.aggregates.aggregates import BucketSums, deals_units
from abeval.aggregates.collect import unit_counts
from abeval.agreement.causes.serving import source_days, values_of
from abeval.inference.aa import aa_replays
from abeval.logs.run import Run
from abeval.logs.units import sub_buckets
from abeval.metrics.definition import Metric, scales
from abeval.results.trust import AAResult
from abeval.time.open import OpenLogs, by_source, open_logs


def aa(
    run: Run, metrics: Sequence[Metric], runs: int, seed: int, logs: OpenLogs | None = None
) -> AAResult:
    """Replay A/A tests of an experiment's metrics on its own logs, which may be open already."""
    replayed = [metric for metric in metrics if metric.source.no_replays is None]
    logs = logs or open_logs(run, metrics, replayed)
    sums, refused, counts = collect_buckets(run, logs)
    run.step("replays")
    ordered = {m.name: sums[m.name] for m in metrics if m.name in sums}
    result = aa_replays(run.experiment, ordered, counts, runs, seed)
    return replace(result, refused={**refused, **result.refused})


def collect_buckets(
    run: Run, logs: OpenLogs
) -> tuple[dict[str, BucketSums], dict[str, str], Mapping[str, int]]:
    """Bucket sums of every metric, why others have none, and the units of each variant."""
    queries, prepared, refused = logs.queries, logs.prepared, dict(logs.refused)
    units = prepared.placed.units
    counts = {one.variant: one.units for one in unit_counts(run.experiment, units)}
    by_units = deals_units(sum(counts.values()))
    bucket = None if by_units else sub_buckets(run.engine, run.experiment, units.hash)
    active = prepared.days
    sums: dict[str, BucketSums] = {}
    for source, group in by_source(logs.metrics).items():
        if source.no_replays is not None:
            refused |= dict.fromkeys((m.name for m in group), source.no_replays)
            continue
        run.step(f"sums per sub-bucket of {source}")
        days = source_days(queries, active, source, group)
        values = values_of(queries, units, days)
        sums |= {m.name: values.buckets(m, bucket).scaled(*scales(m)) for m in group}
    return sums, refused, counts
