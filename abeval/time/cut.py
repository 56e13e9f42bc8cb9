"""Compare windows that are no sums over days: quantiles, the catalogue, hours and weekdays."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.aggregates import Aggregates, VariantUnits
from abeval.aggregates.collect import listed_items
from abeval.aggregates.kernels.reach import Reach
from abeval.aggregates.quantiles import quantiles_of, values_of
from abeval.aggregates.source_values import by_unit
from abeval.aggregates.sums import sums_of
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis, compare_all
from abeval.inference.comparison import MIN_UNITS, Rule
from abeval.logs.cells import HOURS
from abeval.logs.unit_arrays import NO_DAY, NONE
from abeval.metrics.definition import CATALOGUE, QUANTILE, UNIT_DAY, Metric, RowTerm, Source
from abeval.progress import Step
from abeval.results.windows import Rhythm, WindowRow
from abeval.stats import shapes
from abeval.stats.records import Refusal
from abeval.time.change import has_effect
from abeval.time.day_sums import Known, MetricDays, Panel, Span
from abeval.time.open import by_source
from abeval.time.time_sums import TimedLogs, columns_of, metric_days
from abeval.time.windows import Axis, Course, Strata, Window, row_of, spans

Key = tuple[str, str]

Places = NDArray[np.int64]


def cut_metrics(
    experiment: Experiment, metrics: Sequence[Metric], changed: bool = False
) -> list[Metric]:
    """Return the metrics whose windows are computed one by one.

    Args:
        experiment: Whether it adjusts.
        metrics: All metrics.
        changed: Whether the split changed: only sums over units are then compared.
    """
    adjusts = experiment.inference.adjust != "none"
    return [
        m
        for m in metrics
        if (m.kind in ("quantile", "catalogue") and not changed)
        or (m.cap is not None and m.source.capped)
        or (adjusts and m.is_mean_or_ratio and m.source.daily)
    ]


def cut_windows(
    timed: TimedLogs, widths: Sequence[int], step: Step
) -> dict[Key, tuple[Window, ...]]:
    """Return every window of the metrics that `cut_metrics` names.

    Args:
        timed: The logs.
        widths: Days of rolling windows.
        step: Called with the name of each step as it begins.
    """
    windows: dict[Key, list[Window]] = {}
    logs = timed.logs
    experiment = _at_a_fixed_horizon(logs.read.experiment)
    changed = bool(logs.stretches)
    for source, group in by_source(cut_metrics(experiment, logs.metrics, changed)).items():
        step(f"windows of {source}, one by one")
        read = _READERS.get(source, _totals)(timed, group)
        # Items × groups in every window are many: the catalogue has no rolling ones.
        by_kind = spans(len(timed.days), () if source is CATALOGUE else widths)
        for kind, span in [(kind, span) for kind, own in by_kind.items() for span in own]:
            units = units_of(timed, span, by_entry=kind == "cumulative")
            window = read(_of_units(timed, units), span, units)
            # Catalogue metrics are tested by the jackknife, not by permutations.
            comparisons = compare_all(Analysis(experiment, group, window), permutations=0)
            for key, comparison in comparisons.items():
                windows.setdefault(key, []).append(Window(kind, span, comparison))
    return {key: tuple(of_key) for key, of_key in windows.items()}


def _at_a_fixed_horizon(experiment: Experiment) -> Experiment:
    inference = experiment.inference.model_copy(update={"looks": "fixed"})
    return experiment.model_copy(update={"inference": inference})


def units_of(timed: TimedLogs, span: Span, by_entry: bool) -> Places:
    """Return the units active in a window; by entry, also those that entered by its end."""
    panel = timed.panel
    chosen = np.zeros(len(panel.entry), dtype=bool)
    chosen[panel.unit[(panel.day >= span[0]) & (panel.day <= span[1])]] = True
    return np.flatnonzero(chosen | (by_entry & (panel.entry <= span[1])))


def _of_units(timed: TimedLogs, units: Places) -> Aggregates:
    """Aggregates with nothing but unit counts."""
    variants = timed.variants
    counts = np.bincount(timed.panel.units.variant[units], minlength=len(variants)).tolist()
    return Aggregates(
        moments=(),
        catalogue_size=None,
        units=[VariantUnits(name, n, 0) for name, n in zip(variants, counts, strict=True)],
        accounts=(),
        days=(),
        refused={},
        # Not counted in a window: 1 says that there are some.
        facts={"clicks": 1, "scored": 1},
        caps={},
        stretches=timed.logs.stretches,
    )


Reader = Callable[[Aggregates, Span, Places], Aggregates]
"""Adds the sums of a window to its unit counts, from its days and its units."""


def _catalogue(timed: TimedLogs, metrics: Sequence[Metric]) -> Reader:
    """Reads who was shown what in a window."""
    catalogue = timed.logs.read.rows.catalogue

    def reach(span: Span) -> Reach:
        return catalogue.of_days(*(timed.first + day for day in span))

    # Items that could have been shown, over the whole log.
    whole = reach((0, len(timed.days) - 1))
    shown = {whole.items[item] for item in np.unique(whole.item).tolist()}
    size = len(listed_items(timed.logs.read) | shown)

    def read(window: Aggregates, span: Span, units: Places) -> Aggregates:
        groups = catalogue.group_units(units)
        return replace(window, reach=reach(span), group_units=groups, catalogue_size=size)

    return read


def _quantiles(timed: TimedLogs, metrics: Sequence[Metric]) -> Reader:
    """Reads the quantiles of a window."""
    events = values_of(timed.logs.read, metrics)

    def read(window: Aggregates, span: Span, units: Places) -> Aggregates:
        days = [timed.first + day for day in span]
        values = [one.of_days(units, days[0], days[1]) for one in events]
        return replace(window, quantiles=quantiles_of(metrics, values))

    return read


def _totals(timed: TimedLogs, metrics: Sequence[Metric]) -> Reader:
    """Reads the totals by unit of a window, with what the units did before the period."""
    panel = timed.panel
    by_day, whole = timed.sources[metrics[0].source]
    columns = columns_of(timed.logs.read, metrics)
    size = len(panel.entry)
    # Windows do not say what is left out.
    counted = [replace(metric, left_out=(), zeros=()) for metric in metrics]

    def read(window: Aggregates, span: Span, units: Places) -> Aggregates:
        rows = np.flatnonzero((panel.day >= span[0]) & (panel.day <= span[1]))
        unit = panel.unit[rows]
        now = {name: by_unit(unit, by_day.now[name][rows], size)[units] for name in columns}
        before = {name: whole.before[name][units] for name in columns}
        values = whole.at(units, now, before)
        slices = [one for metric in counted for one in values.slices(metric)]
        return replace(
            window,
            moments=sums_of(slices, values.groups),
            caps={m.name: values.caps(m) for m in metrics if m.cap is not None},
        )

    return read


_READERS = {CATALOGUE: _catalogue, QUANTILE: _quantiles}


By = Literal["hour", "weekday"]
CLOCKS: tuple[By, ...] = get_args(By)

_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True)
class ClockSums:
    """Values by hour of the day, or by weekday.

    Attributes:
        by: `hour` or `weekday`.
        labels: `00:00` to `23:00`, or `Monday` to `Sunday`.
        days: How many days of the log have each.
        partial: Whether the log covers one of these days only partly.
        metrics: Metric → its values by hour or weekday.
        refused: Metric → why it has none.
    """

    by: By
    labels: tuple[str, ...]
    days: tuple[int, ...]
    partial: tuple[bool, ...]
    metrics: Mapping[str, MetricDays]
    refused: Mapping[str, str] = field(default_factory=dict)


def hour_sums(timed: TimedLogs) -> ClockSums:
    """Sum the metrics that are sums over impressions by local hour of the day."""
    read, size = timed.logs.read, len(timed.days)
    metrics = [m for m in timed.logs.metrics if m.source is UNIT_DAY and _of_rows(m)]
    why = "effects by hour are only for sums over impressions"
    refused = {m.name: why for m in timed.logs.metrics if m not in metrics}
    cells = read.prepared.cells
    unit = read.prepared.placed.unit_of[cells.unit]
    rows = np.flatnonzero(cells.counts & cells.in_period & (unit != NONE) & (cells.hour != NO_DAY))
    columns = {name: cells.sums[name][rows] for name in columns_of(read, metrics)}
    sums = _clock(
        timed, metrics, (unit[rows], cells.hour[rows] % HOURS, HOURS), {UNIT_DAY: columns}
    )
    labels = tuple(f"{hour:02d}:00" for hour in range(HOURS))
    partial = (bool(timed.partial),) * HOURS
    return ClockSums("hour", labels, (size,) * HOURS, partial, sums, refused)


def weekday_sums(timed: TimedLogs) -> ClockSums:
    """Sum every metric that has days by weekday."""
    weekday = np.array([date.fromisoformat(day).weekday() for day in timed.days])
    metrics = [m for m in timed.logs.metrics if m.source in timed.sources]
    columns = {source: sums.by_day.now for source, sums in timed.sources.items()}
    panel, partial = timed.panel, {date.fromisoformat(day).weekday() for day in timed.partial}
    return ClockSums(
        by="weekday",
        labels=_NAMES,
        days=tuple(np.bincount(weekday, minlength=7).tolist()),
        partial=tuple(place in partial for place in range(7)),
        metrics=_clock(timed, metrics, (panel.unit, weekday[panel.day], 7), columns),
    )


def _of_rows(metric: Metric) -> bool:
    return all(isinstance(term, RowTerm) for term in (metric.value, metric.per) if term is not None)


def _clock(
    timed: TimedLogs,
    metrics: Sequence[Metric],
    rows: tuple[NDArray[np.integer], NDArray[np.integer], int],
    columns: Mapping[Source, Mapping[str, NDArray[np.integer]]],
) -> dict[str, MetricDays]:
    """Sum metrics by unit and hour or weekday.

    Args:
        timed: The logs.
        metrics: Of the sources.
        rows: Place of the unit and of the hour of each row, and how many hours there are.
        columns: Source → its columns on the rows.
    """
    if not metrics:
        return {}
    unit, place, size = rows
    cell = unit.astype(np.int64) * size + place
    order = np.argsort(cell, kind="stable")
    cells, starts = np.unique(cell[order], return_index=True)
    of_cells = (cells // size).astype(np.int32), (cells % size).astype(np.int32)
    panel = Panel(timed.panel.units, timed.panel.entry, *of_cells, size)
    presences = panel.presences(timed.variants, len(timed.days))
    values = {
        source: panel.values(
            timed.logs.read,
            {name: np.add.reduceat(column[order], starts) for name, column in own.items()},
        )
        for source, own in columns.items()
    }
    return {m.name: metric_days(m, values[m.source], presences, {}) for m in metrics}


def clock_axis(metric: Metric, sums: ClockSums, control: str, strata: Strata) -> Axis:
    """Hours or weekdays as places on an axis; every cohort is in all of them."""
    last = max(cohort for group in strata for cohort in group)
    last_cohort = (last,) * len(sums.labels)
    days = sums.metrics[metric.name]
    of_variants = days.sums(days.days)
    return Axis(sums.by, sums.labels, of_variants, control, strata, last_cohort, sums.partial)


def clock_rows(
    known_of: Callable[[Metric, str], Known | None],
    experiment: Experiment,
    metrics: Sequence[Metric],
    sums: ClockSums,
    strata: Strata,
) -> tuple[tuple[WindowRow, ...], tuple[Rhythm, ...]]:
    """Return the effect in every hour or weekday, and the test of one effect in all of them."""
    rule = Rule(experiment.alpha, experiment.inference.relative)
    rows: list[WindowRow] = []
    tests: list[Rhythm] = []
    for metric in (m for m in metrics if m.name in sums.metrics):
        axis = clock_axis(metric, sums, experiment.control, strata)
        for variant in experiment.treatments:
            course = Course(metric, variant, axis, known_of(metric, variant))
            spans = [(place, place) for place in range(len(sums.days))]
            rows += [
                replace(row_of(course, "recurring", span, effect), days=days)
                for days, (span, effect) in zip(sums.days, course.effects(spans, rule), strict=True)
            ]
            tests.append(rhythm_of(course))
    return tuple(rows), tuple(tests)


def rhythm_of(course: Course) -> Rhythm:
    """Test of one effect in all hours or weekdays, the same units being in several."""
    parts = [place for place, arms in enumerate(course.each_day()) if has_effect(arms)]
    rhythm = Rhythm(course.metric.name, course.variant, course.axis.name, len(parts))
    if len(parts) < 2:
        return replace(
            rhythm, reason=f"fewer than two of them have {MIN_UNITS} units in each variant"
        )
    try:
        windows = shapes.window_effects(*course.by_day(parts))
        level = shapes.fit(windows.effect, windows.covariance, np.ones((len(parts), 1)), windows.df)
    except Refusal as refusal:
        return replace(rhythm, reason=str(refusal))
    return replace(
        rhythm,
        scale=windows.scale,
        effect=float(level.coefficients[0]),
        effect_se=math.sqrt(level.covariance[0, 0]),
        p_value=level.q_p_value,
    )
