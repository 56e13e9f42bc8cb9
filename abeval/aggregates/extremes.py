"""The units that deviate most from the value of their variant, by metric, without their ids.

`collect.py` asks for them while a source's values per unit are at hand; `inference/trust/` says how
much of an effect they make.
"""

from collections.abc import Sequence

import pandas as pd

from abeval.aggregates.kernels.extreme_pass import extremes_by_arrays
from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.terms import Terms
from abeval.engines.protocol import ArrayEngine
from abeval.engines.queries import query
from abeval.errors import QueryError
from abeval.metrics.definition import Metric

COLUMNS = ("metric", "variant", "place", "y", "x")


def no_extremes() -> pd.DataFrame:
    """Of no metric."""
    return pd.DataFrame(columns=list(COLUMNS))


def extreme_units(queries: MetricQueries, metrics: Sequence[Metric]) -> pd.DataFrame:
    """The ten units of each mean or ratio and variant that deviate most; y and x are text.

    Args:
        queries: After `of_source`, whose `source_unit` has the values of the metrics.
        metrics: Metrics of that source.
    """
    chosen = [metric for metric in metrics if metric.is_mean_or_ratio]
    if not chosen:
        return no_extremes()
    terms = [queries.judged_terms(metric) for metric in chosen]
    _show_values(queries, terms)
    rows = _by_arrays(queries, terms)
    if rows is None:
        rows = queries.engine.frame(query("audit/influence"))
    names = rows["part"].map(lambda part: chosen[int(part)].name)
    return rows.assign(metric=names)[list(COLUMNS)]


def _by_arrays(queries: MetricQueries, terms: Sequence[Terms]) -> pd.DataFrame | None:
    if not isinstance(queries.engine, ArrayEngine):
        return None
    try:
        rows = extremes_by_arrays(queries.engine, terms, list(queries.experiment.variants))
    except QueryError:
        return None
    return None if rows is None else pd.DataFrame(rows, columns=["part", *COLUMNS[1:]])


def _show_values(queries: MetricQueries, terms: Sequence[Terms]) -> None:
    """Show the values that the query reads."""
    parts = (
        f"select {number} as part, variant, {one.y} as y, {one.x} as x from source_unit"
        for number, one in enumerate(terms)
    )
    queries.engine.view("unit_value", " union all ".join(parts))
