"""Kernels over arrays instead of queries, for the metrics that have one.

`offline/sums/run.py` calls it for each model, with the `Rows` of `offline/candidates/rows.py`;
queries sum the metrics that have no kernel.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from abeval.offline.kernels import UnitValues, list_sums, pair_sums, ranks_of
from abeval.offline.metrics import GRADED, OfflineMetric
from abeval.offline.rows import Rows
from abeval.results.replay import ModelCoverage
from abeval.stats.records import Floats, Integers


def covers(metric: OfflineMetric, rows: Rows) -> bool:
    """Whether a metric has a kernel. FCP has one if all relevant items have the same grade."""
    family, column = metric.definition.family, metric.definition.numerator
    if family == "pairs":
        return column not in GRADED or rows.is_binary
    return family in ("list", "r_precision")


def without_kernel(metrics: Sequence[OfflineMetric], rows: Rows | None) -> list[OfflineMetric]:
    """The metrics that queries sum: all of them if the rows are not at hand as arrays."""
    return [metric for metric in metrics if rows is None or not covers(metric, rows)]


def coverage(rows: Rows) -> Iterator[ModelCoverage]:
    """Rows, requests and units that each model scores (`coverage.sql`)."""
    for model in sorted(rows.scores):
        listed = rows.listed[model]
        scored = int((listed > 0).sum())
        total = int(rows.requests.start[-1])
        units = [_distinct(rows.unit[mask]) for mask in (listed >= 0, listed > 0)]
        unscored = total - int(listed.sum())
        yield ModelCoverage(model, len(rows.requests), scored, total, unscored, *units)


def _distinct(numbers: Integers) -> int:
    return int(np.count_nonzero(np.bincount(numbers)))


def add(
    rows: Rows, model: str, metrics: Sequence[OfflineMetric], values: UnitValues
) -> tuple[float, float]:
    """Add the sums of the metrics that have a kernel, and return the model's score range."""
    score, covered = rows.scores[model], [m for m in metrics if covers(m, rows)]
    values.columns.update(_request_counts(rows, model))
    if covered:
        ranks = ranks_of(rows.requests, score, rows.tie, rows.is_relevant)
    if lists := [m for m in covered if m.definition.family != "pairs"]:
        values.columns.update(list_sums(rows, model, ranks, lists))
    if any(m.definition.family == "pairs" for m in covered):
        values.columns.update(pair_sums(rows, model, ranks))
    return float(np.nanmin(score)), float(np.nanmax(score))


def _request_counts(rows: Rows, model: str) -> dict[str, Floats]:
    """Requests per unit: all, with a relevant item, with a score, with both (`unit_requests`)."""
    relevant = rows.relevant > 0
    listed = rows.listed[model] > 0
    counts = {
        "requests": np.ones(listed.size),
        "relevant": relevant,
        "listed": listed,
        "listed_relevant": relevant & listed,
    }
    return {
        name: np.bincount(rows.unit, weights=mask, minlength=rows.units).astype(np.float64)
        for name, mask in counts.items()
    }
