"""Collect what the statistics need from an experiment's logs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from abeval.aggregates import aggregates
from abeval.aggregates.aggregates import Aggregates, UnitsByAuc, UnitShares
from abeval.aggregates.audit_arrays import sum_unit_shares
from abeval.aggregates.audits import audit_sums
from abeval.aggregates.cells import join_small_cells
from abeval.aggregates.cuts import cut_sums
from abeval.aggregates.metric_queries import ReadLogs
from abeval.aggregates.quantiles import collect_quantiles
from abeval.aggregates.source_values import Caps, SourceValues, sum_metrics_by_day
from abeval.aggregates.sums import (
    EXPOSED_LATER,
    NEVER_EXPOSED,
    OUTSIDE,
    Group,
    SumsRow,
    sum_slices,
)
from abeval.aggregates.unit_rows import collect_row_sums
from abeval.aggregates.wanted import MetricPlan, plan_sums, spread_metrics
from abeval.engines.sql import Engine, query, quote, read_int, write_index
from abeval.experiment.metrics import define_covariate_means
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ROW_UNIT
from abeval.logs import accounting, ids
from abeval.logs.clusters import count_mixed_slots
from abeval.logs.columns import write_variant
from abeval.logs.prepare import Extra, Prepared, prepare
from abeval.logs.run import Run
from abeval.logs.unexposed import count_near_rows, find_unexposed
from abeval.logs.unit_arrays import Labels, Units, encode_labels
from abeval.logs.units import SubBuckets, assign_sub_buckets, find_hash_indices, write_code_names
from abeval.metrics.definition import (
    CATALOGUE,
    GAUC,
    QUANTILE,
    UNIT_DAY,
    Metric,
    RowTerm,
    Source,
    list_value_terms,
)
from abeval.results.record import group_rows
from abeval.stats.moments import Moments
from abeval.stats.records import Floats

FindVariants = Callable[[Sequence[str]], list[str | None]]
"""From ids of units to the variant of each in an experiment; no text where it has none."""


class Collected(NamedTuple):
    """Hold aggregates with their logs, for more sums of the same units."""

    aggregates: Aggregates
    logs: ReadLogs


def collect(run: Run, metrics: Sequence[Metric]) -> Aggregates:
    """Aggregate the logs of an experiment for the metrics of its scorecard.

    Raises:
        LogError: A log is missing, unreadable, or not what the experiment file says.
        QueryError: The engine could not run a query.
    """
    return collect_prepared(run, metrics, units_read=False).aggregates


def collect_prepared(
    run: Run,
    metrics: Sequence[Metric],
    by_bucket: bool = False,
    by_day: bool = False,
    replays: bool = False,
    extra: Sequence[str] | Extra = (),
    units_read: bool = True,
    others: Mapping[str, FindVariants] | None = None,
) -> Collected:
    """Aggregate the logs as `collect` does, and keep what was read.

    With `by_bucket`, `buckets` has every metric by sub-bucket, however few the units are.

    Windows are computed of the same units `by_day`, A/A `replays` also where the experiment has
    none; `extra` and `units_read` are as for `prepare`. The variants of `others`, which are
    experiments of the same units, become segments; `OUTSIDE` are units of none.
    """
    experiment, engine = run.experiment, run.engine
    read = [*metrics, *define_covariate_means(experiment), *spread_metrics(metrics)]
    prepared = prepare(
        run,
        read,
        extra,
        cuts=tuple(experiment.cuts),
        by_arrays=True,
        units_read=units_read,
    )
    if others:
        prepared = _label_units(engine, prepared, others)
    accounting.check_some_left(experiment, prepared, engine)
    plan, assignment = plan_sums(experiment, metrics, prepared), prepared.assignment
    units = count_units_by_variant(experiment, assignment.units)
    replays = by_bucket or replays or bool(experiment.trust.aa_runs)
    # In a sub-bucket every metric has the same units, which values of single units do not say.
    by_units = not by_bucket and aggregates.deals_units(sum(units.values()))
    shows_items = CATALOGUE in plan.sources
    bucket = np.zeros(0, dtype=np.int16)
    if plan.resampled or shows_items or (replays and not by_units):
        bucket = assign_sub_buckets(engine, experiment, assignment.units.hash, prepared.cells)
    rows = collect_row_sums(run, prepared, plan, bucket, by_day)
    logs = ReadLogs(run, prepared, rows)
    sums = _UnitSums(logs, plan, bucket, replays, by_units)
    for source in (source for source in plan.sources if source.per_unit):
        run.step(source.title)
        sums.add(source)
    cut_rows, cut_notes = cut_sums(logs, plan.metrics)
    if plan.quantiles or plan.spreads:
        run.step(QUANTILE.title)
    quantiles = collect_quantiles(logs, plan.quantiles, plan.spreads)
    audits, shares = audit_sums(run, prepared, plan.metrics)
    run.step("catalogue" if shows_items else "accounting")
    counted = accounting.count_log_rows(prepared, engine)
    items = read_item_ids(logs) | {*rows.catalogue.reach.items} if shows_items else None
    collected = Aggregates(
        moments=[*sums.rows, *sums.days, *cut_rows],
        covariates=sums.covariates,
        caps=sums.caps,
        catalogue_size=None if items is None else len(items),
        units=units,
        row_counts=counted,
        days=accounting.list_days(prepared),
        refused=plan.refused,
        facts=accounting.count_facts(prepared),
        other_variants=accounting.count_other_variants(experiment, prepared),
        placeholders=ids.count_placeholder_rows(engine, prepared.cells),
        coarser_ids=ids.count_coarser_ids(run, prepared.schema, units),
        order_states=ids.count_states(engine, prepared.schema.outcomes, prepared.covered),
        clocks=accounting.find_early_clocks(counted, engine),
        near_rows=count_near_rows(prepared.cells, assignment),
        mixed_slots=count_mixed_slots(experiment, engine),
        quantiles=quantiles,
        buckets=sums.buckets,
        reach=rows.catalogue.reach,
        group_units=rows.catalogue.group_units(),
        enrollments=assignment.enrollments,
        split_periods=assignment.split_periods,
        notes=(*prepared.notes, *cut_notes),
        audits=audits,
        shares={**shares, "lacking": [*_count_rows_without_column(logs)]},
        questions=prepared.questions,
        extremes=sums.extremes,
        unit_aucs=sums.unit_aucs,
        clusters=assignment.units.clusters,
        cluster_sums=sums.clusters,
    )
    # Files may have changed while they were read: better no result than a wrong one.
    accounting.check_all_counted(prepared, counted)
    return Collected(join_small_cells(collected, experiment.privacy.min_units), logs)


def _label_units(
    engine: Engine, prepared: Prepared, others: Mapping[str, FindVariants]
) -> Prepared:
    """Make segments of the variants that units have in other experiments."""
    names = engine.arrays("select unit_id, cast(logged_id as varchar) as id from unit_names")
    units, unit = prepared.assignment.units, names["unit_id"].astype(np.intp)
    segments = dict(units.segments)
    for name, find_variants in others.items():
        found = find_variants(names["id"].tolist())
        labels = np.full(len(units.hash), OUTSIDE, dtype=object)
        labels[unit] = [variant if isinstance(variant, str) else OUTSIDE for variant in found]
        segments[name] = encode_labels(labels)
    assignment = replace(prepared.assignment, units=units._replace(segments=segments))
    return replace(prepared, assignment=assignment)


@dataclass
class _UnitSums:
    """Accumulate per-unit metric sums, source by source.

    Attributes:
        bucket: The sub-bucket of each unit, where sums by them are taken.
        replays: Whether sums for A/A replays are taken of every metric.
        by_units: Whether they are of single units, for the units are few.
    """

    logs: ReadLogs
    plan: MetricPlan
    bucket: SubBuckets
    replays: bool
    by_units: bool
    rows: list[SumsRow] = field(default_factory=list)
    days: list[SumsRow] = field(default_factory=list)
    covariates: dict[str, dict[Group, Moments]] = field(default_factory=dict)
    caps: dict[str, Caps] = field(default_factory=dict)
    buckets: dict[str, aggregates.BucketSums] = field(default_factory=dict)
    extremes: dict[tuple[str, str], list[tuple[float, float]]] = field(default_factory=dict)
    unit_aucs: list[UnitsByAuc] = field(default_factory=list)
    clusters: dict[str, Floats] = field(default_factory=dict)

    def add(self, source: Source) -> None:
        """Add the sums of the metrics of a source."""
        logs, experiment = self.logs, self.logs.experiment
        metrics = [metric for metric in self.plan.metrics if metric.source == source]
        resampled = [metric for metric in self.plan.resampled if metric.source == source]
        days = logs.days(source, [*metrics, *resampled])
        values = logs.values(days)
        counted = self.plan.counting_metrics if source is UNIT_DAY else []
        values.check_none_missing([*metrics, *counted])
        slices = [metric_slice for metric in metrics for metric_slice in values.slices(metric)]
        slices += [values.bucket_slice(metric, self.bucket) for metric in resampled]
        if source is UNIT_DAY:
            slices += [values.balance(metric) for metric in self.plan.balanced]
            slices += [
                metric_slice for metric in counted for metric_slice in values.left_out(metric)
            ]
        self.rows += sum_slices(slices, values.groups)
        self.covariates |= {m.name: values.covariate_moments(m) for m in metrics if m.covariates}
        if source.daily and experiment.period is not None and logs.schema.has_time:
            self.days += sum_metrics_by_day(values, days, metrics, logs.prepared.days)
        self.caps |= {
            metric.name: values.caps(metric) for metric in metrics if metric.cap is not None
        }
        if self.replays:
            bucket = None if self.by_units else self.bucket
            self.buckets |= {metric.name: values.sum_buckets(metric, bucket) for metric in metrics}
        if values.units.clusters is not None:
            self.clusters |= {metric.name: values.sum_clusters(metric) for metric in metrics}
        if source is GAUC:
            self.unit_aucs += _count_units_by_auc(logs, values)
        if source is UNIT_DAY:
            self.add_unexposed(metrics)
        # Of clusters, a few always weigh most.
        # Values of single units are not to be seen where privacy asks for a minimum.
        if experiment.privacy.min_units is not None or values.units.clusters is not None:
            return
        for metric in (metric for metric in metrics if metric.is_mean_or_ratio):
            self.extremes |= values.extremes(metric)

    def add_unexposed(self, metrics: Sequence[Metric]) -> None:
        """Add sums of impressions without an exposure, for metrics that add up over rows."""
        logs = self.logs
        rest = find_unexposed(logs.run, logs.prepared.cells, logs.prepared.assignment)
        if rest is None:
            return
        values = SourceValues(logs.experiment, logs.schema, rest.units, rest.sums, {})
        parts = Labels(rest.is_never.astype(np.int32), [EXPOSED_LATER, NEVER_EXPOSED])
        slices = [
            values.unexposed_slice(metric, parts, self.caps.get(metric.name))
            for metric in metrics
            if all(isinstance(term, RowTerm) for term in list_value_terms(metric))
        ]
        self.rows += sum_slices(slices, values.groups)


def _count_units_by_auc(logs: ReadLogs, values: SourceValues) -> list[UnitsByAuc]:
    """Count units by their own AUC."""
    columns = {f"t_{name.removeprefix('c_')}": c.astype(np.int64) for name, c in values.now.items()}
    logs.engine.add_arrays("gauc_values", columns | {"arm": values.units.variant})
    variant = write_code_names("arm", [*logs.experiment.variants])
    steps = {"gauc_unit": f"select *, {variant} as variant from gauc_values"}
    rows = logs.engine.rows(logs.engine.write_steps(steps, query("4_metrics/unit_aucs")))
    return sorted(
        UnitsByAuc(str(name), str(fate), *map(read_int, sums)) for name, fate, *sums in rows
    )


def count_units_by_variant(experiment: Experiment, units: Units) -> dict[str, int]:
    """Count the analysed units, or clusters of them, of each variant."""
    variant = units.variant if units.clusters is None else units.clusters.variant
    counts = np.bincount(variant, minlength=len(experiment.variants)).tolist()
    return {name: n for name, n in zip(experiment.variants, counts, strict=True) if n}


def read_item_ids(logs: ReadLogs) -> set[str]:
    """Read the ids of the item log; empty without one."""
    if logs.schema.items is None:
        return set()
    return {str(item) for (item,) in logs.engine.rows("select item_id from items")}


def _count_rows_without_column(logs: ReadLogs) -> Iterator[UnitShares]:
    """Count impressions of files that lack a column, by column and variant."""
    experiment, engine, files = logs.experiment, logs.engine, logs.prepared.files
    # The rows of a query are not those of a file.
    lacking = logs.prepared.lacking if experiment.logs.rows.query is None else ()
    variants = [*experiment.variants]
    by_files = group_rows(lacking, lambda column: tuple(files.lacking[column.lower()]))
    for names, columns in by_files.items():
        other_files = [file for file in files.files if file not in names]
        selects = [
            _write_file_rows(logs, lacks, selected)
            for lacks, selected in ((1, names), (0, other_files))
        ]
        if not all(selects):
            continue
        engine.view("file_rows", " union all ".join(selects))
        if experiment.unit == ROW_UNIT:
            number = write_index(write_variant(experiment, "logged_id"), variants)
            read = engine.arrays(f"select coalesce({number}, -1) as arm, lacks from file_rows")
            arm, y = (np.asarray(column, dtype=np.int64) for column in read.values())
            x = np.ones_like(y)
        else:
            kind = engine.columns("logged")["unit_id"]
            unit = engine.hash64([f"cast(logged_id as {kind})"])
            counts = "cast(count(*) as bigint) as x, cast(sum(lacks) as bigint) as y"
            read = engine.arrays(f"select {unit} as unit, {counts} from file_rows group by 1")
            hashes, x, y = (np.asarray(column, dtype=np.int64) for column in read.values())
            unit_index = find_hash_indices(hashes, logs.units.hash)
            arm = np.where(unit_index >= 0, logs.units.variant[unit_index], -1)
        analysed = np.flatnonzero(arm >= 0)
        for column in columns:
            selected = arm[analysed], y[analysed], x[analysed]
            yield from sum_unit_shares("lacking", [column], variants, *selected)


def _write_file_rows(logs: ReadLogs, lacks: int, files: Sequence[str]) -> str:
    """Write SQL of the units of some files' rows; empty if files do not say."""
    source, unit = logs.experiment.logs.rows, logs.experiment.unit
    canonical, default = ("variant", "variant") if unit == ROW_UNIT else ("unit_id", unit)
    relation, paths = f"raw_files_{lacks}", [str(Path(file).absolute()) for file in files]
    logs.engine.add_log(relation, source.model_copy(update={"path": paths}).map_unit(unit))
    column = source.columns.get(canonical, default).lower()
    for name in (name for name in logs.engine.columns(relation) if name.lower() == column):
        id_sql = f"cast({quote(name)} as varchar)"
        return f"select {id_sql} as logged_id, {lacks} as lacks from {relation}"
    return ""
