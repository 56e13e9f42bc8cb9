"""What only tests run: queries that define what kernels compute; an analysis on an open engine."""

from abeval.aggregates.collect import collect
from abeval.aggregates.metric_queries import scored_rows
from abeval.aggregates.quantiles import quantile_groups
from abeval.aggregates.row_pass import KERNELS
from abeval.aggregates.wanted import spread_metrics, wanted_of
from abeval.engines.sql import Engine, by_value, query
from abeval.experiment.metrics import chosen_metrics, named_metrics
from abeval.experiment.model import Experiment
from abeval.logs.prepare import prepare
from abeval.logs.run import Run
from abeval.logs.shape import LogShape, value_columns
from abeval.logs.views import show_scored
from abeval.metrics.definition import Metric
from abeval.pipeline import judged
from abeval.results.analysis import Result
from abeval.stats.quantiles import PARTS


def run_definitions(run: Run) -> None:
    """Run every definition that the metrics of an experiment ask for; raises as `collect`."""
    chosen = chosen_metrics(run.experiment)
    prepared = prepare(run, [*chosen, *spread_metrics(chosen)])
    wanted = wanted_of(run.experiment, chosen, prepared)
    shape, engine = prepared.shape, run.engine
    for source in wanted.sources:
        if source in KERNELS and source.per_unit:
            if source.scored:
                show_scored(engine, scored_rows(shape, ("unit_id", "click")))
            engine.table(source.name, query(source.query))
    for name in ("catalogue/reach", "catalogue/group_units"):
        engine.rows(query(name))
    for group in quantile_groups([*wanted.quantiles, *wanted.spreads]):
        run_median(run.experiment, shape, engine, group[0])


def run_median(experiment: Experiment, shape: LogShape, engine: Engine, metric: Metric) -> None:
    """Create `quantile_level` of what a metric ranks, `quantile_below` of each variant's median."""
    columns = value_columns(shape, experiment, metric)
    listed = {variant: f"i.{column}" for variant, column in columns.items()}
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


def analyze_on(run: Run) -> Result:
    """Analyse an experiment on an engine of the caller's."""
    aggregates = collect(run, named_metrics(run.experiment))
    return judged(run.experiment, aggregates, run.step)
