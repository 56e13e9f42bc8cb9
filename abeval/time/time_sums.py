"""Read logs and sum their days, for windows and growth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from abeval.aggregates.collect import Collected
from abeval.aggregates.metric_queries import ReadLogs
from abeval.aggregates.source_values import SourceValues, find_unit_day_rows
from abeval.aggregates.sums import DAY, WHOLE, MomentsByPeriod, index_rows, make_moments_by_period
from abeval.aggregates.unit_rows import collect_row_sums
from abeval.aggregates.wanted import find_refusals, plan_sums
from abeval.bounds import MAX_WINDOW_DAYS
from abeval.engines.builders import convert_to_local_ms
from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.inference.comparison import Arms, Key, Rule
from abeval.inference.context import find_partial_days
from abeval.inference.means_and_ratios import estimate
from abeval.inference.outlook import Growth
from abeval.logs.accounting import check_all_counted, check_some_left, count_log_rows, list_days
from abeval.logs.placing import SplitPeriods, find_enrollment_periods
from abeval.logs.prepare import Prepared, prepare
from abeval.logs.run import Run
from abeval.logs.unit_arrays import NO_DAY, NO_FIRST, Clusters, Groups, Integers, Labels, pack_key
from abeval.logs.units import assign_sub_buckets
from abeval.metrics.definition import CATALOGUE, Metric, Source, Term, UnitTerm, list_scales
from abeval.results.record import group_rows
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal
from abeval.time import windows as axes
from abeval.time.daily_table import DailyTable, DaySums, MetricDays

_DAY_MS = 86_400_000


def read_logs(
    run: Run, metrics: Sequence[Metric], of_rows: Sequence[Metric], by_day: bool = False
) -> ReadLogs:
    """Read the logs; of some metrics also single impressions, for windows by day.

    Raises:
        LogError: A log is missing, unreadable, or not what the file says.
        QueryError: The engine could not run a query.
    """
    prepared = prepare(run, metrics, by_arrays=True, units_read=False)
    check_some_left(run.experiment, prepared, run.engine)
    check_all_counted(prepared, count_log_rows(prepared, run.engine))
    plan = plan_sums(run.experiment, of_rows, prepared)._replace(spreads=())
    bucket = np.zeros(0, dtype=np.int16)
    if CATALOGUE in plan.sources:
        bucket = assign_sub_buckets(run.engine, run.experiment, prepared.assignment.units.hash)
    return ReadLogs(run, prepared, collect_row_sums(run, prepared, plan, bucket, by_day))


def find_entry_periods(read: ReadLogs) -> SplitPeriods:
    """Find the split periods; none where the split did not change."""
    return find_enrollment_periods(read.experiment, read.prepared.assignment.enrollments)


By = Literal["hour", "weekday"]


class DailyLogs(NamedTuple):
    """Hold logs that are read, with what their units do each day.

    Attributes:
        metrics: Those that the logs can give; `refused` says why not others.
        split_periods: Periods of one split each; none where it did not change.
        days: Every day from the first with an impression to the last (ISO).
        first: The first of them, counted from 1970.
        partial: Days that the log covers only in part, or not at all.
        table: The units, and when they are active.
        by_day: Source → what units are in its columns on each row of the table; 0 where the source
            knows nothing of the day. Only sources that have days.
        period_values: Source → the same over the period, with what was before it.
    """

    read: ReadLogs
    metrics: Sequence[Metric]
    refused: Mapping[str, str]
    split_periods: SplitPeriods
    days: tuple[str, ...]
    first: int
    partial: frozenset[str]
    table: DailyTable
    by_day: dict[Source, SourceValues]
    period_values: dict[Source, SourceValues]


class ClockSums(NamedTuple):
    """Hold values by hour of the day, or by weekday.

    Attributes:
        labels: `00:00` to `23:00`, or `Monday` to `Sunday`.
        days: How many days of the log have each.
        partial: Whether the log covers one of these days only partly.
        metrics: Metric → its values by hour or weekday; those without are `refused`.
    """

    by: By
    labels: tuple[str, ...]
    days: tuple[int, ...]
    partial: tuple[bool, ...]
    metrics: Mapping[str, MetricDays]
    refused: Sequence[str] = ()


@dataclass(frozen=True)
class Timeline:
    """Hold an experiment's sums over time, and the windows and looks to compute.

    Attributes:
        days: Every day from the first with an impression to the last (ISO).
        partial: Days that the log covers only in part, or not at all.
        before: Metric → moments of (y, x) before the period over the analysed units, by split
            period and variant.
        split_periods: Those periods; none where the split did not change.
        thirds: Metric → third moments of the days and of all days, of metrics whose days add up;
            none where the split changed, as split periods are combined without them.
        looks: Days of planned looks; without, those of the experiment file.
        cuts: Metric and variant → windows that are no sums over days.
    """

    experiment: Experiment
    days: tuple[str, ...]
    partial: frozenset[str]
    entry_counts: Mapping[str, Integers]
    metrics: Mapping[str, MetricDays]
    refused: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, MomentsByPeriod] = field(default_factory=dict)
    split_periods: SplitPeriods = ()
    thirds: Mapping[str, axes.ThirdMoments] = field(default_factory=dict)
    widths: Sequence[int] = ()
    looks: Sequence[int] = ()
    cuts: Mapping[Key, Sequence[axes.Window]] = field(default_factory=dict)
    clocks: Sequence[ClockSums] = ()

    @cached_property
    def strata(self) -> axes.Strata:
        """Return groups of entry days whose traffic was split at the same shares."""
        return axes.group_entry_days(self.split_periods, self.days)

    @property
    def rule(self) -> Rule:
        """Return how effects are judged: at a fixed horizon, without adjustment."""
        return Rule(self.experiment.alpha, self.experiment.inference.relative)

    def find_skewness(self, metric: Metric, variant: str) -> axes.SkewnessInputs | None:
        """Find how skewed a metric is in a variant and control, None if unknown."""
        thirds, arms = self.thirds.get(metric.name), Arms(self.experiment.control, variant)
        if thirds is None:
            return None
        return axes.find_skewness_inputs(metric, thirds, arms, self.days)


def load_days(read: ReadLogs, metrics: Sequence[Metric], reason: str = "") -> DailyLogs:
    """Load what units do each day, for the metrics that the logs can give.

    All are refused if there is a `reason`.

    Raises:
        LogError: The log has no time.
        QueryError: The engine could not run a query.
    """
    experiment = read.experiment
    lacks = find_refusals(metrics, read.schema.needs_met(experiment.unit))
    refused = {name: f"the logs lack {', '.join(columns)}" for name, columns in lacks.items()}
    if reason:
        refused |= {metric.name: reason for metric in metrics if metric.name not in lacks}
    metrics = [metric for metric in metrics if metric.name not in refused]
    if not read.schema.has_time:
        raise LogError(
            "windows need a time, but the impressions log has no column `ts`",
            'map it: [logs.impressions] columns = { ts = "..." }',
        )
    days, partial = _list_days(experiment, read.prepared)
    first = (date.fromisoformat(days[0]) - date(1970, 1, 1)).days
    table = _build_table(read, days, first, partial)
    by_day, period_values = dict[Source, SourceValues](), dict[Source, SourceValues]()
    for source, group in group_rows(metrics, lambda metric: metric.source).items():
        if source.no_days is not None:
            continue
        read.run.step(f"days of {source}")
        of_source, names = read.days(source, group, by_day=True), list_term_columns(read, group)
        of_source = of_source._replace(columns={name: of_source.columns[name] for name in names})
        rows = find_unit_day_rows(of_source, table.unit, table.day + np.int32(first))
        # Row -1, for days that the source lacks, is the appended 0.
        columns = {name: np.append(column, 0)[rows] for name, column in of_source.columns.items()}
        period_values[source] = read.values(of_source)
        period_values[source].check_none_missing(group)
        by_day[source] = period_values[source].take_units(table.unit, columns)

    return DailyLogs(
        read=read,
        metrics=metrics,
        refused=refused,
        split_periods=find_entry_periods(read),
        days=days,
        first=first,
        partial=partial,
        table=table,
        by_day=by_day,
        period_values=period_values,
    )


def _build_table(
    read: ReadLogs, days: Sequence[str], first: int, partial: frozenset[str]
) -> DailyTable:
    """Build the table of the days on which units are active.

    `first` is the first day, counted from 1970.
    """
    experiment, units, active = read.experiment, read.units, read.prepared.days
    entry = np.full(len(units.hash), NO_DAY, dtype=np.int64)
    has_entry = units.first_ms != NO_FIRST
    entry[has_entry] = (
        convert_to_local_ms(units.first_ms[has_entry], experiment.timezone) // _DAY_MS
    )
    chosen = np.flatnonzero(active.in_period & (active.day != NO_DAY))
    return DailyTable(
        variants=[*experiment.variants],
        variant=units.variant,
        entry=entry - first,
        unit=active.unit[chosen],
        day=active.day[chosen] - np.int32(first),
        days=len(days),
        cohorts=len(days),
        # A partial last day is no day since entry that was observed.
        observed=len(days) - (len(days) > 1 and days[-1] in partial),
    )


def list_term_columns(read: ReadLogs, metrics: Sequence[Metric]) -> list[str]:
    """List the columns that metrics of one source read, each once."""
    terms = list[Term | None]()
    for m in metrics:
        terms += [m.value, m.per, *m.covariates, *(m.presence_terms or ())]
        terms += [term for _, term in m.lacking if m.missing == "refuse"]
    logged = [term for term in terms if term is not None and not isinstance(term, UnitTerm)]
    variants = read.experiment.variants
    return list(dict.fromkeys(read.schema.component(t, v) for t in logged for v in variants))


def build_timeline(daily: DailyLogs) -> Timeline:
    """Sum what effects are computed from."""
    metrics, experiment = daily.metrics, daily.read.experiment
    no_days = {m.name: m.source.no_days for m in metrics if m.source.no_days is not None}
    before, thirds = dict[str, MomentsByPeriod](), dict[str, axes.ThirdMoments]()
    for source, values in daily.period_values.items():
        group = [metric for metric in metrics if metric.source == source and source.daily]
        if experiment.pre_period is not None:
            before |= _sum_before(daily, values, group)
        if not daily.split_periods:
            thirds |= _sum_thirds(daily, source, group)
    return Timeline(
        experiment,
        daily.days,
        daily.partial,
        entry_counts=dict(zip(daily.table.variants, daily.table.entry_counts, strict=True)),
        metrics=_list_metric_days(daily),
        refused={**daily.refused, **no_days},
        before=before,
        split_periods=daily.split_periods,
        thirds=thirds,
    )


def _list_metric_days(daily: DailyLogs) -> dict[str, MetricDays]:
    """Return the values of each metric that has days, by name."""
    dated = [metric for metric in daily.metrics if metric.source in daily.by_day]
    return {m.name: build_metric_days(m, daily.by_day[m.source], daily.table) for m in dated}


def build_metric_days(metric: Metric, values: SourceValues, table: DailyTable) -> MetricDays:
    """Return the values of a metric on the rows of a table."""
    among, size = values.included_units(metric), len(table.unit)
    y, x = (np.broadcast_to(value, size) for value in values.pair(metric, values.now))
    kept = table if among is None else table.restrict_to(among)
    return MetricDays(kept, y, x, list_scales(metric), per_unit=metric.per is None)


def _sum_before(
    daily: DailyLogs, values: SourceValues, metrics: Sequence[Metric]
) -> dict[str, MomentsByPeriod]:
    """Compute moments of (y, x) before the period by metric."""
    rows = index_rows(values.sum_cells(metrics, WHOLE, before=True))
    periods = len(daily.split_periods) or 1
    totals = {metric.name: rows[metric.name, WHOLE][""] for metric in metrics}
    return {
        m.name: make_moments_by_period(totals[m.name], periods, list_scales(m), 2) for m in metrics
    }


def _sum_thirds(
    daily: DailyLogs, source: Source, metrics: Sequence[Metric]
) -> dict[str, axes.ThirdMoments]:
    """Compute third moments by metric, of a split that did not change."""
    days = daily.by_day[source].sum_cells(metrics, DAY, Labels(daily.table.day, daily.days))
    rows = index_rows([*days, *daily.period_values[source].sum_cells(metrics, WHOLE)])

    def moments(metric: Metric, name: str) -> dict[str, Mapping[str, Moments]]:
        cells = rows.get((metric.name, name), {})
        worth = list_scales(metric)
        return {cell: make_moments_by_period(cells[cell], 1, worth, 2)[0] for cell in cells}

    return {m.name: axes.ThirdMoments(moments(m, DAY), moments(m, WHOLE)[""]) for m in metrics}


def _list_days(
    experiment: Experiment, prepared: Prepared
) -> tuple[tuple[str, ...], frozenset[str]]:
    """List all days from first to last impression, and those not covered."""
    with_units = list_days(prepared)
    if not with_units:
        raise LogError("no analysed unit has an impression with a time in the period")
    active_days = [row.day for row in with_units]
    first, last = date.fromisoformat(active_days[0]), date.fromisoformat(active_days[-1])
    size = (last - first).days + 1
    if size > MAX_WINDOW_DAYS:
        # Such as a log with a row of 1970.
        raise LogError(
            f"the analysed days run from {first} to {last}, {size:,} days: windows are computed "
            f"over at most {MAX_WINDOW_DAYS}",
            "set or shorten [period]; a row with a wrong time may be the cause",
        )
    days = tuple(str(first + timedelta(days=i)) for i in range(size))
    return days, frozenset(
        {*find_partial_days(experiment, with_units)} | ({*days} - {*active_days})
    )


def find_growth_by_metric(
    collected: Collected, metrics: Sequence[Metric], daily: DailyLogs | None = None
) -> dict[str, Growth]:
    """Find the growth of each metric whose days add up.

    `daily` are the days if they are loaded already.
    """
    if not len(collected.aggregates.days):
        return {}
    daily, clusters = daily or load_days(collected.logs, metrics), collected.logs.units.clusters
    by_day = _list_metric_days(daily)
    units = np.cumsum(daily.table.entry_counts.sum(axis=0)).astype(float).tolist()
    if clusters is not None:
        # The clusters stay and see more units: the number of clusters does not grow.
        units = [float(len(clusters.variant))] * len(units)
        by_day = {
            metric.name: _sum_clusters(by_day[metric.name], clusters)
            for metric in metrics
            if metric.source.daily and metric.name in by_day
        }
    # A last day that is not over would look like fewer new units.
    ended = len(units) - (len(units) > 1 and daily.days[-1] in daily.partial)
    growths = dict[str, Growth]()
    for metric in (m for m in metrics if m.name in by_day):
        sums = by_day[metric.name].sum_days()
        growths |= find_growth(metric, sums, daily.read.experiment.control, units, ended)
    return growths


def _sum_clusters(values: MetricDays, clusters: Clusters) -> MetricDays:
    """Sum a metric's values by cluster and day; a unit counts from its first day on."""
    table = values.table
    cluster = clusters.of_unit[table.unit]
    cells = Groups.build(pack_key(cluster, table.day))
    is_first = np.append(True, np.diff(table.unit) != 0).astype(np.int64)
    y, x = (v if table.row is None else v[table.row] for v in (values.y, values.x))
    of_clusters = replace(
        table,
        variant=clusters.variant,
        entry=np.zeros(len(clusters.variant), dtype=np.int64),
        unit=cluster[cells.first],
        day=table.day[cells.first],
        cohorts=1,
        observed=table.days,
        row=None,
        counts=None,
    )
    below = is_first if values.per_unit else x
    return MetricDays(of_clusters, cells.sum(y), cells.sum(below))


def find_growth(
    metric: Metric, sums: DaySums, control: str, units: Sequence[float], ended: int | None
) -> dict[str, Growth]:
    """Find the growth of one metric from its sums in control, by name.

    `units` are those of all variants up to the end of each day. A metric without a spread has none.
    """
    days, cohorts = range(sums.table.days), sums.table.cohorts
    windows = (
        sums.sum_windows(control, range(min(day + 1, cohorts)), day, [(0, True)])[0] for day in days
    )
    estimates = [_find_relative_variance(metric, moments) for moments in windows]
    estimated = [estimate for estimate in estimates if estimate is not None]
    if not estimated:
        return {}
    filled: list[tuple[float, float]] = []
    for relative in estimates:
        # Days at the start without an estimate take that of the first day that has one.
        filled.append(relative or (filled[-1] if filled else estimated[0]))
    values, spreads = zip(*filled, strict=True)
    is_total = metric.per is None
    return {metric.name: Growth([*units], values, spreads, is_total=is_total, ended=ended)}


def _find_relative_variance(metric: Metric, control: Moments) -> tuple[float, float] | None:
    """Return control's value, and its unit variance over its square."""
    try:
        value, variance, units, _ = estimate(metric, control)
    except Refusal:
        return None
    return (value, variance * units / value**2) if value != 0 and variance > 0 else None
