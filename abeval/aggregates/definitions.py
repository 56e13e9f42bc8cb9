"""Runs the queries that define what kernels compute: for `abeval sql`, and for tests of kernels."""

from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.quantiles import quantile_groups
from abeval.aggregates.row_pass import KERNELS
from abeval.aggregates.wanted import spread_metrics, wanted_of
from abeval.engines.sql import by_value, query
from abeval.experiment.metrics import chosen_metrics
from abeval.logs.prepare import prepare
from abeval.logs.run import Run
from abeval.logs.shape import value_columns
from abeval.logs.views import show_scored
from abeval.metrics.definition import Metric
from abeval.stats.quantiles import PARTS


def run_definitions(run: Run) -> None:
    """Run every definition that the metrics of an experiment ask for.

    Raises:
        LogError: A log is missing, unreadable, or not what the file says.
        QueryError: The engine could not run a query.
    """
    chosen = chosen_metrics(run.experiment)
    prepared = prepare(run, [*chosen, *spread_metrics(chosen)])
    wanted = wanted_of(run.experiment, chosen, prepared)
    queries = MetricQueries(run.experiment, prepared.shape, run.engine)
    for source in wanted.sources:
        if source in KERNELS and source.per_unit:
            if source.scored:
                show_scored(run.engine, queries.scored(("unit_id", "click")))
            run.engine.table(source.name, query(source.query))
    for name in ("catalogue/reach", "catalogue/group_units"):
        run.engine.rows(query(name))
    for group in quantile_groups([*wanted.quantiles, *wanted.spreads]):
        run_median(queries, group[0])


def run_median(queries: MetricQueries, metric: Metric) -> None:
    """Create `quantile_level` of the values that a metric ranks, `quantile_below` of their median.

    Where variants differ in the value, such as the score of their model, each has its own.
    """
    columns = value_columns(queries.shape, queries.experiment, metric)
    listed = {variant: f"i.{column}" for variant, column in columns.items()}
    engine = queries.engine
    engine.table("quantile_event", _EVENTS.format(value=by_value("u.variant", listed)))
    engine.table("quantile_level", query("metric/quantile_levels"))
    engine.table("quantile_step", _MEDIANS)
    engine.table("quantile_below", query("units/quantile_below"))


_EVENTS = """
with valued as (
  select u.variant, i.unit_id, {value} as value
  from impressions i
  join units u on i.unit_id = u.unit_id
  where i.in_period
)
select variant, unit_id, value from valued where value is not null
"""

_MEDIANS = f"""
with sized as (
  select variant, cast(sum(events) as bigint) as place from quantile_level group by variant
),
around as (
  select l.variant, l.value, l.next_value,
    cast(round(
      {PARTS / 2:.1e} * (s.place - l.middle) / nullif(l.next_middle - l.middle, 0)
    ) as bigint) as at_upper
  from quantile_level l
  join sized s on l.variant = s.variant and l.middle <= s.place and l.next_middle > s.place
)
select
  variant as step_variant, 0 as number, value as lower, next_value as upper,
  cast({PARTS} as bigint) as whole, {PARTS // 2} + at_upper as at_lower, at_upper
from around
"""
"""The values on either side of each variant's median, and how far they count as below it."""
