"""The values of single units, without their ids, where units and their values are few.

`per_unit.py` asks for them while a source's values per unit are at hand; `Aggregates` hands them to
the tests with the moments, for values that are too skewed for sums alone.
"""

from collections.abc import Sequence

from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.slice_sums import condition_of
from abeval.aggregates.terms import Row
from abeval.engines.queries import query
from abeval.engines.sql import literal
from abeval.metrics.definition import Metric

LABELS = ("metric", "variant", "y", "x", "y0", "x0", "z")

COLUMNS = (*LABELS, "units")

FEW_UNITS = 20_000
"""With more units than this in all variants together, sums tell enough."""

FEW_VALUES = 1_000
"""Metrics whose units have more values than this are summed alone, as the query has it."""


def unit_values(queries: MetricQueries, metrics: Sequence[Metric]) -> list[Row]:
    """The values of each mean or ratio, and how many units of a variant have them.

    Args:
        queries: After `of_source`, whose `source_unit` has the values of the metrics.
        metrics: Metrics of that source.
    """
    parts = [
        f"select {literal(metric.name)} as part, variant, {queries.judged_terms(metric).listed} "
        f"from source_unit{condition_of(metric)}"
        for metric in metrics
        if metric.is_mean_or_ratio
    ]
    if not parts:
        return []
    queries.engine.view("valued_unit", " union all ".join(parts))
    return list(queries.engine.rows(query("metric/unit_values")))
