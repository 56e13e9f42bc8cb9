"""Compare windows that are no sums over days, such as quantiles or hours."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import accumulate, chain

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.collect import read_item_ids
from abeval.aggregates.quantiles import compute_quantiles, find_ranked_values
from abeval.aggregates.reach import Reach
from abeval.aggregates.source_values import sum_units
from abeval.aggregates.sums import sum_slices
from abeval.inference.compare import Analysis, compare_all
from abeval.inference.comparison import MIN_UNITS, Key
from abeval.logs.cells import HOURS
from abeval.logs.unit_arrays import NO_DAY, NONE, Groups
from abeval.metrics.definition import CATALOGUE, QUANTILE, UNIT_DAY, Metric, RowTerm, Source
from abeval.progress import Step
from abeval.results.record import group_rows
from abeval.results.windows import Rhythm, WindowRow
from abeval.stats import shapes
from abeval.stats.records import Refusal
from abeval.time import time_sums
from abeval.time.change import has_effect
from abeval.time.daily_table import MetricDays, Places, Span
from abeval.time.windows import Axis, Course, Window, build_row, list_spans


def cut_windows(
    daily: time_sums.DailyLogs, widths: Sequence[int], step: Step
) -> dict[Key, tuple[Window, ...]]:
    """Compute the windows of metrics that are no sums over days.

    These are such as have no sums, are capped or adjusted, or leave units without a value out.
    """
    windows: dict[Key, list[Window]] = {}
    experiment = daily.read.experiment.single_look
    # Where the split changed, only sums over units are compared.
    of_rows = () if daily.split_periods else ("quantile", "catalogue")
    chosen = [
        m
        for m in daily.metrics
        if m.kind in of_rows
        or (m.cap is not None and m.source.can_cap)
        or (m.presence_terms is not None and m.source.daily)
        or (experiment.inference.adjust != "none" and m.is_mean_or_ratio and m.source.daily)
    ]
    for source, group in group_rows(chosen, lambda metric: metric.source).items():
        step(f"windows of {source}, one by one")
        read = _READERS.get(source, _build_totals_reader)(daily, group)
        # Items × groups in every window are many: the catalogue has no rolling ones.
        for kind, span in list_spans(len(daily.days), () if source is CATALOGUE else widths):
            units = _find_active_units(daily, span, by_entry=kind == "cumulative")
            window = read(_count_window_units(daily, units), span, units)
            # Catalogue metrics are tested by the jackknife, not by permutations.
            comparisons = compare_all(Analysis(experiment, group, window), permutations=0)
            for key, comparison in comparisons.items():
                windows.setdefault(key, []).append(Window(kind, span, comparison))
    return {key: tuple(of_key) for key, of_key in windows.items()}


def _find_active_units(daily: time_sums.DailyLogs, span: Span, by_entry: bool) -> Places:
    """Find the units active in a window, or by entry those entered by its end."""
    table = daily.table
    chosen = np.zeros(len(table.entry), dtype=bool)
    chosen[table.unit[table.find_rows(span)]] = True
    # In a cumulative window a unit counts from its entry on, active or not.
    return np.flatnonzero(chosen | (by_entry & (table.entry <= span[1])))


def _count_window_units(daily: time_sums.DailyLogs, units: Places) -> Aggregates:
    """Count the units of a window, as aggregates without any sums."""
    variants = daily.table.variants
    counts = np.bincount(daily.table.variant[units], minlength=len(variants)).tolist()
    return Aggregates(
        units=dict(zip(variants, counts, strict=True)),
        # Not counted in a window: 1 says that there are some.
        facts={"clicks": 1, "scored": 1},
        split_periods=daily.split_periods,
    )


_Reader = Callable[[Aggregates, Span, Places], Aggregates]
"""Function that adds the sums of a window to its unit counts."""


def _build_catalogue_reader(daily: time_sums.DailyLogs, metrics: Sequence[Metric]) -> _Reader:
    """Make a reader of who was shown what in a window.

    Windows must be read in the order of `list_spans`.
    """
    catalogue = daily.read.rows.catalogue
    # Items that could have been shown, over the whole log.
    size = len(read_item_ids(daily.read) | {*catalogue.reach.items})
    days = range(daily.first, daily.first + len(daily.days))
    first_days = (catalogue.select_day(day, days[0]) for day in days)
    # A cumulative window adds its last day to the window before: the log is not read for it again.
    reaches = chain(
        (((at, at), catalogue.select_day(day, day)) for at, day in enumerate(days)),
        (((0, at), reach) for at, reach in enumerate(accumulate(first_days, Reach.add))),
    )

    def add_window(window: Aggregates, span: Span, units: Places) -> Aggregates:
        reach = next(reach for read, reach in reaches if read == span)
        groups = catalogue.group_units(units)
        return replace(window, reach=reach, group_units=groups, catalogue_size=size)

    return add_window


def _build_quantiles_reader(daily: time_sums.DailyLogs, metrics: Sequence[Metric]) -> _Reader:
    """Make a reader of the quantiles of a window."""
    ranked = find_ranked_values(daily.read, metrics)

    def add_window(window: Aggregates, span: Span, units: Places) -> Aggregates:
        first, last = (daily.first + day for day in span)
        values = {key: events.select_days(units, first, last) for key, events in ranked.items()}
        return replace(window, quantiles=compute_quantiles(metrics, values))

    return add_window


def _build_totals_reader(daily: time_sums.DailyLogs, metrics: Sequence[Metric]) -> _Reader:
    """Make a reader of a window's totals by unit, with earlier values."""
    table = daily.table
    source = metrics[0].source
    by_day, period_values = daily.by_day[source], daily.period_values[source]
    columns = time_sums.list_term_columns(daily.read, metrics)
    size = len(table.entry)
    # Windows do not say what is left out.
    counted = [replace(metric, left_out=(), lacking=()) for metric in metrics]

    def add_window(window: Aggregates, span: Span, units: Places) -> Aggregates:
        rows = table.find_rows(span)
        unit = table.unit[rows]
        now = {name: sum_units(unit, by_day.now[name][rows], size)[units] for name in columns}
        # What units did before the period is the same for all windows.
        before = {name: period_values.before[name][units] for name in columns}
        values = period_values.take_units(units, now, before)
        slices = [metric_slice for metric in counted for metric_slice in values.slices(metric)]
        return replace(
            window,
            moments=sum_slices(slices, values.groups),
            covariates={m.name: values.covariate_moments(m) for m in metrics if m.covariates},
            caps={m.name: values.caps(m) for m in metrics if m.cap is not None},
        )

    return add_window


_READERS = {CATALOGUE: _build_catalogue_reader, QUANTILE: _build_quantiles_reader}

_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _sum_by_hour(daily: time_sums.DailyLogs, step: Step) -> time_sums.ClockSums:
    """Sum metrics of impressions by local hour of the day."""
    step("hours of the day")
    read, all_metrics = daily.read, daily.metrics
    metrics = [m for m in all_metrics if m.source is UNIT_DAY and _is_row_metric(m)]
    cells = read.prepared.cells
    unit = read.prepared.assignment.unit_index[cells.unit]
    rows = np.flatnonzero(cells.counts & cells.in_period & (unit != NONE) & (cells.hour != NO_DAY))
    columns = {name: cells.sums[name][rows] for name in time_sums.list_term_columns(read, metrics)}
    hours = unit[rows], cells.hour[rows] % HOURS, HOURS
    return time_sums.ClockSums(
        by="hour",
        labels=tuple(f"{hour:02d}:00" for hour in range(HOURS)),
        days=(len(daily.days),) * HOURS,
        partial=(bool(daily.partial),) * HOURS,
        metrics=_sum_by_clock(daily, metrics, hours, {UNIT_DAY: columns}),
        refused=[metric.name for metric in all_metrics if metric not in metrics],
    )


def _sum_by_weekday(daily: time_sums.DailyLogs, step: Step) -> time_sums.ClockSums:
    """Sum every metric that has days by weekday."""
    weekday = np.array([date.fromisoformat(day).weekday() for day in daily.days])
    metrics = [m for m in daily.metrics if m.source in daily.by_day]
    columns = {source: values.now for source, values in daily.by_day.items()}
    table, partial = daily.table, {date.fromisoformat(day).weekday() for day in daily.partial}
    return time_sums.ClockSums(
        by="weekday",
        labels=_NAMES,
        days=tuple(np.bincount(weekday, minlength=7).tolist()),
        partial=tuple(number in partial for number in range(7)),
        metrics=_sum_by_clock(daily, metrics, (table.unit, weekday[table.day], 7), columns),
    )


CLOCKS: Mapping[time_sums.By, Callable[[time_sums.DailyLogs, Step], time_sums.ClockSums]] = {
    "hour": _sum_by_hour,
    "weekday": _sum_by_weekday,
}


def _is_row_metric(metric: Metric) -> bool:
    return all(isinstance(term, RowTerm | None) for term in (metric.value, metric.per))


def _sum_by_clock(
    daily: time_sums.DailyLogs,
    metrics: Sequence[Metric],
    rows: tuple[NDArray[np.integer], NDArray[np.integer], int],
    columns: Mapping[Source, Mapping[str, NDArray[np.integer]]],
) -> dict[str, MetricDays]:
    """Sum metrics by unit and hour, or weekday.

    `rows` are units, hours, and how many hours there are.
    """
    if not metrics:
        return {}
    unit, hour, size = rows
    # A unit may come at the same hour on several days.
    groups = Groups.build(unit.astype(np.int64) * size + hour)
    unit, hour = (column[groups.first].astype(np.int32) for column in (unit, hour))
    table = replace(daily.table, unit=unit, day=hour, days=size)
    values = {
        source: daily.period_values[source].take_units(
            table.unit, {name: groups.sum(column) for name, column in source_columns.items()}
        )
        for source, source_columns in columns.items()
    }
    return {m.name: time_sums.build_metric_days(m, values[m.source], table) for m in metrics}


def estimate_clock_effects(
    line: time_sums.Timeline, metrics: Sequence[Metric], clock: time_sums.ClockSums
) -> tuple[list[WindowRow], list[Rhythm]]:
    """Return the effect in every hour or weekday, and a test of equality."""
    rows: list[WindowRow] = []
    tests: list[Rhythm] = []
    # Every cohort is in all of them.
    last_cohort = (len(line.days) - 1,) * len(clock.labels)
    control = line.experiment.control
    for metric in (m for m in metrics if m.name in clock.metrics):
        sums = clock.metrics[metric.name].sum_days()
        axis = Axis(clock.by, clock.labels, sums, control, line.strata, last_cohort, clock.partial)
        for variant in line.experiment.treatments:
            course = Course(metric, variant, axis, line.find_skewness(metric, variant))
            for number, days in enumerate(clock.days):
                span = number, number
                row = build_row(course, "recurring", span, course.effect(span, line.rule))
                rows.append(replace(row, days=days))
            tests.append(_test_rhythm(course))
    return rows, tests


def _test_rhythm(course: Course) -> Rhythm:
    """Test whether the effect is the same in all hours or weekdays."""
    positions = [number for number, arms in enumerate(course.each_day()) if has_effect(arms)]
    rhythm = Rhythm(course.metric.name, course.variant, course.axis.name, len(positions))
    if len(positions) < 2:
        why = f"fewer than two of them have {MIN_UNITS} units in each variant"
        return replace(rhythm, reason=why)
    try:
        # The same units are in several hours, so the effects are correlated.
        windows = shapes.estimate_window_effects(*course.sum_each_day(positions))
        constant = np.ones((len(positions), 1))
        level = shapes.fit(windows.effect, windows.covariance, constant, windows.df)
    except Refusal as refusal:
        return replace(rhythm, reason=str(refusal))
    return replace(
        rhythm,
        scale=windows.scale,
        effect=float(level.coefficients[0]),
        effect_se=math.sqrt(level.covariance[0, 0]),
        p_value=level.q_p_value,
    )
