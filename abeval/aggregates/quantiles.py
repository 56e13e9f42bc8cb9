"""Quantiles over impressions: their order statistics, and each unit's impressions below them.

It gets `MetricQueries` and the quantile metrics from `collect.py`, or from `time/cut.py` for
windows; `inference/other_kinds.py` compares variants by the result.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from abeval.aggregates.aggregates import QUANTILE, Quantile
from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.terms import Row, SliceTerms, Terms
from abeval.engines.queries import query
from abeval.engines.sql import by_value, literal
from abeval.metrics.definition import Metric, RowTerm
from abeval.metrics.sources import UNIT_DAY
from abeval.stats import quantiles
from abeval.stats.records import Refusal

Places = Mapping[str, Sequence[quantiles.Place]]
"""Variant → places of its quantile and of the two order statistics that enclose it."""


@dataclass(frozen=True)
class QuantileSums:
    """What quantile metrics come down to.

    Attributes:
        rows: Rows of `aggregates.MOMENT_COLUMNS`.
        quantiles: Metric → variant → its quantile.
    """

    rows: list[Row]
    quantiles: Mapping[str, Mapping[str, Quantile]]


def collect_quantiles(queries: MetricQueries, metrics: Sequence[Metric]) -> QuantileSums:
    """Quantiles of every metric; one sort for all quantiles of the same value."""
    events = [
        f"select variant, unit_id, value from ({events_of(queries, group[0])}) as events"
        for group in quantile_groups(metrics)
    ]
    sums = quantile_sums(queries, metrics, events)
    return QuantileSums([*sums.rows, *_left_out(queries, metrics)], sums.quantiles)


def quantile_groups(metrics: Sequence[Metric]) -> list[list[Metric]]:
    """The metrics by the value that they are quantiles of."""
    return [list(group) for _, group in groupby(sorted(metrics, key=_value), key=_value)]


def quantile_sums(
    queries: MetricQueries, metrics: Sequence[Metric], events: Sequence[str]
) -> QuantileSums:
    """Quantiles of every metric over some impressions.

    Args:
        queries: The metric queries.
        metrics: Quantile metrics.
        events: SQL of `variant, unit_id, value` for each of `quantile_groups(metrics)`.
    """
    engine = queries.engine
    rows: list[Row] = []
    of_metric: dict[str, Mapping[str, Quantile]] = {}
    for group, sql in zip(quantile_groups(metrics), events, strict=True):
        engine.table("quantile_event", sql)
        engine.table("quantile_level", query("metric/quantile_levels"))
        counts = {str(v): int(n or 0) for v, n in engine.rows(query("metric/quantile_events"))}
        places = {metric.name: _places(metric, counts) for metric in group}
        values = _values(queries, places)
        for metric in group:
            own = places[metric.name]
            of_metric[metric.name] = {v: _quantile(counts[v], own[v], values[v]) for v in own}
            rows += _below(queries, metric, {v: values[v][own[v][0].lower] for v in own})
    return QuantileSums(rows, of_metric)


def _value(metric: Metric) -> str:
    return metric.value.expression if isinstance(metric.value, RowTerm) else ""


def events_of(queries: MetricQueries, metric: Metric) -> str:
    """SQL of every impression of the period that has the metric's value, with its day.

    Where variants differ in the value, such as the score of their model, each has its own.
    """
    if not isinstance(metric.value, RowTerm):
        raise TypeError(f"the quantile {metric.name!r} has no value of an impression")
    shape, variants = queries.shape, queries.experiment.variants
    columns = {v: f"i.{shape.event(metric.value, v)}" for v in variants}
    return f"""
    with valued as (
      select u.variant, i.unit_id, i.day, {by_value("u.variant", columns)} as value
      from impressions i
      join units u on i.unit_id = u.unit_id
      where i.in_period
    )
    select variant, unit_id, day, value from valued where value is not null
    """


def _places(metric: Metric, counts: Mapping[str, int]) -> Places:
    level = metric.level or 0.5
    return {
        variant: [quantiles.place(n, at) for at in (level, *_around(n, level))]
        for variant, n in counts.items()
    }


def _around(n: int, level: float) -> Iterator[float]:
    """The levels that enclose a quantile, none where there are too few impressions."""
    try:
        yield from quantiles.ranks(n, level)
    except Refusal:
        return


def _values(
    queries: MetricQueries, places: Mapping[str, Places]
) -> Mapping[str, Mapping[int, int]]:
    """Variant → place → the value at it."""
    wanted = {
        (variant, position)
        for of_metric in places.values()
        for variant, several in of_metric.items()
        for place in several
        for position in (place.lower, place.upper)
    }
    values: dict[str, dict[int, int]] = {variant: {} for variant, _ in wanted}
    if wanted:
        _show(queries, "wanted_place", "place", sorted(wanted))
        for variant, position, value in queries.engine.rows(query("metric/quantile_values")):
            values[str(variant)][int(position or 0)] = int(value or 0)
    return values


def _quantile(events: int, places: Sequence[quantiles.Place], at: Mapping[int, int]) -> Quantile:
    value, *ends = (place.between(at[place.lower], at[place.upper]) for place in places)
    low, high = ends or (None, None)
    return Quantile(events, value, low, high)


def _below(queries: MetricQueries, metric: Metric, thresholds: Mapping[str, int]) -> list[Row]:
    """Moments over units of the impressions at or below the quantile, and of all."""
    if not thresholds:
        return []
    _show(queries, "quantile_threshold", "threshold", sorted(thresholds.items()))
    queries.show_days(query("units/quantile_below"))
    queries.total_units()
    return queries.sums([SliceTerms(metric, QUANTILE, "''", Terms("t_below", "t_events"))])


def _show(queries: MetricQueries, name: str, column: str, rows: Sequence[tuple[str, int]]) -> None:
    """Show a number of each variant as a relation."""
    listed = ", ".join(
        f"({literal(variant)}, cast({number} as bigint))" for variant, number in rows
    )
    queries.engine.view(name, f"select * from (values {listed}) as v (variant, {column})")


def _left_out(queries: MetricQueries, metrics: Sequence[Metric]) -> list[Row]:
    """Impressions that the metrics' definitions leave out."""
    if not any(metric.left_out for metric in metrics):
        return []
    queries.load(UNIT_DAY)
    queries.total_units()
    return queries.sums([count for metric in metrics for count in queries.left_out(metric)])
