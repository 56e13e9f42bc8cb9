"""Quantiles over impressions: their order statistics, and each unit's impressions below them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from abeval.aggregates.aggregates import QUANTILE, Quantile
from abeval.aggregates.metric_queries import Asked, MetricQueries, Row, Terms
from abeval.engines.queries import query
from abeval.engines.sql import by_value, literal
from abeval.metrics.definition import Metric, RowTerm
from abeval.metrics.sources import UNIT_DAY
from abeval.stats import quantiles
from abeval.stats.records import Refusal

Places = Mapping[str, Sequence[quantiles.Place]]
"""Variant → where its quantile stands, and where the two that enclose it do."""


@dataclass(frozen=True)
class QuantileSums:
    """What quantile metrics come down to.

    Attributes:
        rows: Rows of `aggregates.MOMENT_COLUMNS`.
        quantiles: Metric → variant → its quantile.
    """

    rows: list[Row]
    quantiles: Mapping[str, Mapping[str, Quantile]]


def collect_quantiles(run: MetricQueries, metrics: Sequence[Metric]) -> QuantileSums:
    """Quantiles of every metric, those of one value by one sort of it."""
    events = [_events(run, group[0]) for group in quantile_groups(metrics)]
    found = quantile_sums(run, metrics, events)
    return QuantileSums([*found.rows, *_left_out(run, metrics)], found.quantiles)


def quantile_groups(metrics: Sequence[Metric]) -> list[list[Metric]]:
    """The metrics by the value that they are quantiles of."""
    return [list(alike) for _, alike in groupby(sorted(metrics, key=_value), key=_value)]


def quantile_sums(
    run: MetricQueries, metrics: Sequence[Metric], events: Sequence[str]
) -> QuantileSums:
    """Quantiles of every metric over some impressions.

    Args:
        run: The metric queries.
        metrics: Quantile metrics.
        events: SQL of `variant, unit_id, value` for each of `quantile_groups(metrics)`.
    """
    rows: list[Row] = []
    found: dict[str, Mapping[str, Quantile]] = {}
    for chosen, sql in zip(quantile_groups(metrics), events, strict=True):
        run.engine.table("quantile_event", sql)
        run.engine.table("quantile_level", query("metric/quantile_levels"))
        counts = {str(v): int(n or 0) for v, n in run.engine.rows(query("metric/quantile_events"))}
        places = {metric.name: _places(metric, counts) for metric in chosen}
        values = _values(run, places)
        for metric in chosen:
            mine = places[metric.name]
            found[metric.name] = {v: _quantile(counts[v], mine[v], values[v]) for v in mine}
            rows += _below(run, metric, {v: values[v][mine[v][0].lower] for v in mine})
    return QuantileSums(rows, found)


def _value(metric: Metric) -> str:
    return metric.value.expression if isinstance(metric.value, RowTerm) else ""


def _events(run: MetricQueries, metric: Metric) -> str:
    """Every impression of the period that has a value; each variant's own where they differ."""
    return f"""
    with valued as (
      select u.variant, i.unit_id, {_value_sql(run, metric)} as value
      from impressions i
      join units u on i.unit_id = u.unit_id
      where i.in_period
    )
    select variant, unit_id, value from valued where value is not null
    """


def dated_events(run: MetricQueries, metric: Metric) -> str:
    """The same with their day, from the log again."""
    return f"""
    with valued as (
      select u.variant, i.unit_id, i.day, {_value_sql(run, metric)} as value
      from logged_impressions i
      join units u on i.unit_id = u.unit_id
      where i.in_period and i.day is not null
    )
    select variant, unit_id, day, value from valued where value is not null
    """


def _value_sql(run: MetricQueries, metric: Metric) -> str:
    if not isinstance(metric.value, RowTerm):
        raise TypeError(f"the quantile {metric.name!r} has no value of an impression")
    columns = {v: f"i.{run.shape.event(metric.value, v)}" for v in run.experiment.variants}
    return by_value("u.variant", columns)


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


def _values(run: MetricQueries, places: Mapping[str, Places]) -> Mapping[str, Mapping[int, int]]:
    """Variant → place → the value that stands there."""
    wanted = {
        (variant, position)
        for of_metric in places.values()
        for variant, several in of_metric.items()
        for place in several
        for position in (place.lower, place.upper)
    }
    found: dict[str, dict[int, int]] = {variant: {} for variant, _ in wanted}
    if wanted:
        _pairs(run, "wanted_place", "place", sorted(wanted))
        for variant, position, value in run.engine.rows(query("metric/quantile_values")):
            found[str(variant)][int(position or 0)] = int(value or 0)
    return found


def _quantile(events: int, places: Sequence[quantiles.Place], at: Mapping[int, int]) -> Quantile:
    value, *ends = (place.between(at[place.lower], at[place.upper]) for place in places)
    low, high = ends or (None, None)
    return Quantile(events, value, low, high)


def _below(run: MetricQueries, metric: Metric, thresholds: Mapping[str, int]) -> list[Row]:
    """Moments over units of the impressions at or below the quantile, and of all."""
    if not thresholds:
        return []
    _pairs(run, "quantile_threshold", "threshold", sorted(thresholds.items()))
    run.engine.view("source_day", query("units/quantile_below"))
    run.engine.table("source_unit", query("units/unit_total"))
    return run.sums([Asked(metric, QUANTILE, "''", Terms("t_below", "t_events"))])


def _pairs(run: MetricQueries, name: str, column: str, rows: Sequence[tuple[str, int]]) -> None:
    listed = ", ".join(
        f"({literal(variant)}, cast({number} as bigint))" for variant, number in rows
    )
    run.engine.view(name, f"select * from (values {listed}) as v (variant, {column})")


def _left_out(run: MetricQueries, metrics: Sequence[Metric]) -> list[Row]:
    """What definitions leave out, which is a sum over impressions as everywhere else."""
    if not any(metric.left_out for metric in metrics):
        return []
    run.load(UNIT_DAY)
    run.engine.table("source_unit", query("units/unit_total"))
    return run.sums([asked for metric in metrics for asked in run.left_out(metric)])
