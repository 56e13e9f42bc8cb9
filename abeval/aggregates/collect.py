"""Read an experiment's logs, and collect what the statistics need of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from abeval.aggregates.aggregates import Aggregates, Quantile, VariantUnits, deals_units
from abeval.aggregates.audits import audit_sums
from abeval.aggregates.cells import joined_cells
from abeval.aggregates.cuts import CutSums, cut_sums
from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.per_unit import Besides, per_unit_sums
from abeval.aggregates.quantiles import collect_quantiles, quantile_groups
from abeval.aggregates.row_pass import KERNELS, RowSums, row_sums
from abeval.aggregates.sums import DAY, LACKING, SLICE, Groups, Row, Slice, Terms, sums_of
from abeval.aggregates.wanted import Wanted, spread_metrics, wanted_of
from abeval.engines.protocol import Engine
from abeval.engines.queries import query
from abeval.engines.sql import by_value, literal, numbered, quoted
from abeval.experiment.covariates import covariate_means
from abeval.experiment.metrics import chosen_metrics
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ROW_UNIT
from abeval.logs.accounting import (
    accounts,
    check_all_counted,
    check_some_left,
    count_other_variants,
    days_of,
    facts,
    seen_in,
)
from abeval.logs.mapping import variant_of
from abeval.logs.names import sub_buckets
from abeval.logs.prepare import Extra, Prepared, prepare
from abeval.logs.run import Run
from abeval.logs.shape import value_columns
from abeval.logs.sums import Sums, one_pass
from abeval.logs.unit_arrays import Units
from abeval.logs.views import show_scored
from abeval.metrics.definition import Metric
from abeval.metrics.sources import CATALOGUE, QUANTILE
from abeval.stats.mid_distribution import PARTS
from abeval.steps import Step


def lacking_sums(experiment: Experiment, prepared: Prepared, engine: Engine) -> list[Row]:
    """Rows of `moment_rows.MOMENT_COLUMNS` for each column that is read and that files lack."""
    facts = prepared.files
    if experiment.logs.rows.query is not None:
        # The rows of a query are not those of a file.
        return []
    by_files: dict[tuple[str, ...], list[str]] = {}
    for column in prepared.lacking:
        by_files.setdefault(tuple(facts.lacking[column.lower()]), []).append(column)
    rows: list[Row] = []
    for lacking, columns in by_files.items():
        rest = [file for file in facts.files if file not in lacking]
        if _show_units(experiment, engine, list(lacking), rest):
            rows += _sums(experiment, engine, columns)
    return rows


def _sums(experiment: Experiment, engine: Engine, columns: Sequence[str]) -> list[Row]:
    """Sums of `lacking_units` by variant, the same of each column."""
    variants = [*experiment.variants]
    listed = (
        f"{numbered('variant', variants)} as arm, cast(x as bigint) as x, cast(y as bigint) as y"
    )
    read = engine.arrays(f"select {listed} from lacking_units")
    arm, x, y = (column.astype(np.int64) for column in read.values())
    slices = [Slice(column, LACKING, Terms(y, x)) for column in columns]
    return sums_of(slices, Groups(arm, np.zeros_like(arm), variants))


def _show_units(
    experiment: Experiment, engine: Engine, lacking: list[str], rest: list[str]
) -> bool:
    """Make `lacking_units`; false if the files do not say whose rows they have."""
    source = experiment.logs.rows
    is_row = experiment.unit == ROW_UNIT
    name = "variant" if is_row else "unit_id"
    column = source.columns.get(name, "variant" if is_row else experiment.unit)
    selects = []
    for lacks, files in ((1, lacking), (0, rest)):
        relation = f"raw_files_{lacks}"
        paths = [str(Path(file).absolute()) for file in files]
        some = source.model_copy(update={"path": paths}).with_unit(experiment.unit)
        engine.add_log(relation, some)
        own = [c for c in engine.columns(relation) if c.lower() == column.lower()]
        if not own:
            return False
        whose = f"cast({quoted(own[0])} as varchar)"
        selects.append(f"select {whose} as logged_id, {lacks} as lacks from {relation}")
    engine.view("file_rows", " union all ".join(selects))
    known = ", ".join(literal(variant) for variant in experiment.variants)
    of_rows = (
        "select variant, 1 as x, lacks as y from ("
        f"select {variant_of(experiment, 'logged_id')} as variant, lacks from file_rows"
        f") as r where variant in ({known})"
    )
    engine.view("lacking_units", of_rows if is_row else _OF_UNITS)
    return True


_OF_UNITS = """
with counted as (
  select logged_id, cast(count(*) as bigint) as x, cast(sum(lacks) as bigint) as y
  from file_rows
  group by logged_id
)
select u.variant, c.x, c.y
from units u
join unit_names n on u.unit_id = n.unit_id
join counted c on cast(n.logged_id as varchar) = c.logged_id
"""


def collect(
    run: Run, metrics: Sequence[Metric], sums: Sums = one_pass, by_bucket: bool = False
) -> Aggregates:
    """Aggregate the logs of an experiment.

    Args:
        run: The experiment and its engine.
        metrics: The metrics of the scorecard.
        sums: Makes the sums per unit and day.
        by_bucket: `buckets` has every metric by sub-bucket, however few the units are: the same
            units are in a sub-bucket of each metric, which values of single units do not say.

    Raises:
        LogError: A log is missing, unreadable, or not what the experiment file says.
        QueryError: The engine could not run a query.
    """
    return collect_prepared(run, metrics, sums, by_bucket, Further(units=False)).aggregates


class Further(NamedTuple):
    """What is read of prepared logs after the aggregates.

    Attributes:
        units: Whether queries read the relations of the units.
        by_day: Whether windows are computed of the same units.
        columns: More columns of the impressions that they read, as of `prepare`.
    """

    units: bool = True
    by_day: bool = False
    columns: Sequence[str] | Extra = ()


class Collected(NamedTuple):
    """Aggregates, and the logs that they are of, for more sums of the same units.

    Attributes:
        aggregates: The aggregates.
        prepared: The logs.
        rows: What kernels computed of single impressions; None without any.
    """

    aggregates: Aggregates
    prepared: Prepared
    rows: RowSums | None


def collect_prepared(
    run: Run,
    metrics: Sequence[Metric],
    sums: Sums = one_pass,
    by_bucket: bool = False,
    further: Further = Further(),  # noqa: B008 (it is immutable)
) -> Collected:
    """Aggregate the logs as `collect` does, and keep what was read of them.

    Args:
        run: As of `collect`, like the next three.
        metrics: The metrics.
        sums: Makes the sums.
        by_bucket: Whether every metric is summed by sub-bucket.
        further: What else will be read of the logs.
    """
    read = [*metrics, *covariate_means(run.experiment), *spread_metrics(metrics)]
    cuts = tuple(run.experiment.cuts)
    prepared = prepare(run, read, further.columns, sums, cuts, KERNELS, further.units)
    check_some_left(run.experiment, prepared, run.engine)
    aggregates, rows = _gathered(run, metrics, prepared, by_bucket, further.by_day)
    check_all_counted(prepared, aggregates.accounts)
    return Collected(joined_cells(aggregates, run.experiment.privacy.min_units), prepared, rows)


def _gathered(
    run: Run, metrics: Sequence[Metric], prepared: Prepared, by_bucket: bool, by_day: bool
) -> tuple[Aggregates, RowSums | None]:
    experiment, engine, has_rows = run.experiment, run.engine, prepared.summed.has_rows
    wanted = wanted_of(experiment, metrics, prepared)
    units = unit_counts(experiment, prepared.placed.units)
    besides = _besides(experiment, units, has_rows, by_bucket)
    dealt = wanted.resampled or CATALOGUE in wanted.sources
    bucket = np.zeros(0, dtype=np.int16)
    if dealt or (besides.buckets and not besides.by_units):
        bucket = sub_buckets(engine, experiment, prepared.placed.units.hash, prepared.cells)
    rows = row_sums(run, prepared, wanted, bucket, by_day)
    queries = _queries(run, prepared, rows)
    per_unit = per_unit_sums(queries, prepared, wanted, besides, bucket, run.step)
    lacking = lacking_sums(experiment, prepared, engine) if prepared.lacking else []
    placed = prepared.placed.units
    cuts = cut_sums(queries, placed, wanted.metrics, run.step) if has_rows else CutSums()
    quantiles = _quantiles(queries, wanted, run.step)
    shows_items = CATALOGUE in wanted.sources
    run.step("catalogue" if shows_items else "accounting")
    counted = accounts(prepared, engine)
    aggregates = Aggregates(
        moments=_moments(per_unit.rows, [*lacking, *cuts.rows]),
        caps=per_unit.caps,
        catalogue_size=None,
        units=units,
        accounts=counted,
        days=days_of(prepared),
        refused=wanted.refused,
        facts=facts(prepared) | count_other_variants(experiment, prepared),
        quantiles=quantiles,
        buckets=per_unit.buckets,
        entered=prepared.placed.entered,
        stretches=prepared.placed.stretches,
        notes=(*prepared.notes, *prepared.summed.notes, *cuts.notes),
        audits=audit_sums(run, prepared),
        extremes=per_unit.extremes,
        unit_values=per_unit.values,
        seen_in=seen_in(prepared) if has_rows else (),
        unit_aucs=per_unit.unit_aucs,
    )
    return _catalogue(queries, aggregates) if shows_items else aggregates, rows


def unit_counts(experiment: Experiment, units: Units) -> list[VariantUnits]:
    """Analysed units of each variant that has some."""
    return [
        VariantUnits(variant, int(own.sum()), int(units.crosses[own].sum()))
        for place, variant in enumerate(experiment.variants)
        for own in (units.variant == place,)
        if own.any()
    ]


def _queries(run: Run, prepared: Prepared, rows: RowSums | None) -> MetricQueries:
    return MetricQueries(
        run.experiment,
        prepared.shape,
        run.engine,
        by_stretch=bool(prepared.placed.stretches),
        covered=prepared.covered,
        rows=rows,
    )


def _besides(
    experiment: Experiment, units: Sequence[VariantUnits], has_rows: bool, by_bucket: bool
) -> Besides:
    """What is taken of a source's values besides their sums."""
    few = deals_units(sum(one.units for one in units))
    return Besides(
        extremes=has_rows and experiment.privacy.min_units is None,
        buckets=by_bucket or bool(experiment.trust.aa_runs),
        by_units=few and not by_bucket,
        before=covariate_means(experiment),
    )


def _moments(by_source: Sequence[Row], more: Sequence[Row]) -> list[Row]:
    """All rows: those of sources with days at their end, and the others."""
    return [*sorted(by_source, key=lambda row: row[SLICE] == DAY), *more]


def _quantiles(
    queries: MetricQueries, wanted: Wanted, step: Step
) -> Mapping[str, Mapping[str, Quantile]]:
    if not (wanted.quantiles or wanted.spreads):
        return {}
    step(QUANTILE.title)
    return collect_quantiles(queries, wanted.quantiles, wanted.spreads)


def _catalogue(queries: MetricQueries, aggregates: Aggregates) -> Aggregates:
    """The aggregates with who was shown what, and how many items there are."""
    if queries.rows is None or queries.rows.catalogue is None:
        raise ValueError("nothing has read who was shown what")
    catalogue = queries.rows.catalogue
    items = listed_items(queries) | {*catalogue.reach.items}
    return replace(
        aggregates,
        reach=catalogue.reach,
        group_units=catalogue.group_units(),
        catalogue_size=len(items),
    )


def listed_items(queries: MetricQueries) -> set[str]:
    """The items of the log of items, if there is one."""
    if queries.shape.items is None:
        return set()
    return {str(item) for (item,) in queries.engine.rows("select item_id from items")}


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
