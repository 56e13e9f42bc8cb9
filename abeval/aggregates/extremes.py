"""The units that deviate most from the value of their variant, by metric, without their ids.

`collect.py` asks for them while a source's values per unit are at hand; `inference/trust/` says how
much of an effect they make.
"""

from collections.abc import Sequence

from abeval.aggregates.kernels.extreme_pass import extremes_by_arrays
from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.rows import ExtremeUnit
from abeval.aggregates.terms import Row, Terms
from abeval.engines.protocol import ArrayEngine, whole
from abeval.engines.queries import query
from abeval.errors import QueryError
from abeval.metrics.definition import Metric


def extreme_units(queries: MetricQueries, metrics: Sequence[Metric]) -> list[ExtremeUnit]:
    """The ten units of each mean or ratio and variant that deviate most.

    Args:
        queries: After `of_source`, whose `source_unit` has the values of the metrics.
        metrics: Metrics of that source.
    """
    chosen = [metric for metric in metrics if metric.is_mean_or_ratio]
    if not chosen:
        return []
    terms = [queries.judged_terms(metric) for metric in chosen]
    _show_values(queries, terms)
    rows = _by_arrays(queries, terms)
    if rows is None:
        rows = queries.engine.rows(query("audit/influence"))
    return [
        ExtremeUnit(chosen[whole(part)].name, str(variant), whole(place), str(y), str(x))
        for part, variant, place, y, x in rows
    ]


def _by_arrays(queries: MetricQueries, terms: Sequence[Terms]) -> Sequence[Row] | None:
    if not isinstance(queries.engine, ArrayEngine):
        return None
    try:
        return extremes_by_arrays(queries.engine, terms, list(queries.experiment.variants))
    except QueryError:
        return None


def _show_values(queries: MetricQueries, terms: Sequence[Terms]) -> None:
    """Show the values that the query reads."""
    parts = (
        f"select {number} as part, variant, {one.y} as y, {one.x} as x from source_unit"
        for number, one in enumerate(terms)
    )
    queries.engine.view("unit_value", " union all ".join(parts))
