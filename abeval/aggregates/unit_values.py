"""The values of single units, without their ids, where units and their values are few.

`per_unit.py` asks for them while a source's values per unit are at hand; `Aggregates` hands them to
the tests with the moments, for values that are too skewed for sums alone.
"""

from collections.abc import Sequence

import pandas as pd

from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.slice_sums import condition_of
from abeval.engines.queries import query
from abeval.metrics.definition import Metric

LABELS = ("metric", "variant", "y", "x", "y0", "x0", "z")

FEW_UNITS = 20_000
"""With more units than this in all variants together, sums tell enough."""

FEW_VALUES = 1_000
"""Metrics whose units have more values than this are summed alone, as the query has it."""


def no_values() -> pd.DataFrame:
    """Of no metric."""
    return pd.DataFrame(columns=[*LABELS, "units"])


def unit_values(queries: MetricQueries, metrics: Sequence[Metric]) -> pd.DataFrame:
    """The values of each mean or ratio, and how many units of a variant have them.

    Args:
        queries: After `of_source`, whose `source_unit` has the values of the metrics.
        metrics: Metrics of that source.
    """
    chosen = [metric for metric in metrics if metric.is_mean_or_ratio]
    if not chosen:
        return no_values()
    parts = (
        f"select {number} as part, variant, {queries.judged_terms(metric).listed} "
        f"from source_unit{condition_of(metric)}"
        for number, metric in enumerate(chosen)
    )
    queries.engine.view("unit_value", " union all ".join(parts))
    rows = queries.engine.frame(query("metric/unit_values"))
    names = rows["part"].map(lambda part: chosen[int(part)].name)
    return rows.assign(metric=names)[[*LABELS, "units"]]
