"""What windows start from: the days of the log, and every metric's values by unit and day.

`time/analysis.py` calls it with the `OpenLogs` of `time/open.py`, and computes every effect from
the `TimeSums`, but for windows that are no sums over days (`time/cut.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import NamedTuple

import numpy as np

from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.sums import ByStretch
from abeval.agreement.causes.serving import moments_by, source_days, values_of
from abeval.bounds import MAX_WINDOW_DAYS
from abeval.engines.builders import local_ms
from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.inference.context import partial_days
from abeval.logs.accounting import days_of
from abeval.logs.placing import Stretches
from abeval.logs.prepare import Prepared
from abeval.logs.unit_arrays import NO_DAY, NO_FIRST, Units, Whole
from abeval.metrics.definition import Metric, Source, Term, scales
from abeval.progress import Step
from abeval.stats.moments import Moments
from abeval.time.day_sums import MetricDays, Panel, Presence, Thirds, thirds_of
from abeval.time.open import OpenLogs, by_source
from abeval.time.time_sums import source_sums


class TimedLogs(NamedTuple):
    """Open logs with their days.

    Attributes:
        logs: The logs.
        days: Every day from the first with an impression to the last (ISO).
        first: The first of them, counted from 1970.
        partial: Days that the log covers only in part, or not at all.
        panel: The units, and when they are active.
        sources: What units add up to, of the sources that have days.
    """

    logs: OpenLogs
    days: tuple[str, ...]
    first: int
    partial: frozenset[str]
    panel: Panel
    sources: Mapping[Source, SourceSums]

    @property
    def observed(self) -> int:
        """Days since entry that can be observed: a partial last day is left out."""
        size = len(self.days)
        return size - (size > 1 and self.days[-1] in self.partial)


@dataclass(frozen=True)
class TimeSums:
    """Everything that windows are computed from.

    Attributes:
        days: Every day from the first with an impression to the last (ISO).
        partial: Days that the log covers only in part, or not at all.
        entered: Variant → units by day of entry.
        metrics: Metric → its values.
        refused: Metric → why it has none.
        before: Metric → moments of (y, x) before the period over the analysed units, by stretch
            of entry days and variant.
        stretches: Those stretches; none where the split did not change.
        thirds: Metric → third moments of the days and of all days, of metrics whose days add up;
            none where the split changed, as stretches are combined without them.
    """

    days: tuple[str, ...]
    partial: frozenset[str]
    entered: Mapping[str, Whole]
    metrics: Mapping[str, MetricDays]
    refused: Mapping[str, str]
    before: Mapping[str, ByStretch] = field(default_factory=dict)
    stretches: Stretches = ()
    thirds: Mapping[str, Thirds] = field(default_factory=dict)


def timed(logs: OpenLogs, step: Step) -> TimedLogs:
    """Read the days of open logs.

    Raises:
        LogError: The log has no time.
        QueryError: The engine could not run a query.
    """
    queries = logs.queries
    experiment = queries.experiment
    _check_time(queries)
    days, partial = _days(experiment, logs.prepared)
    first = (date.fromisoformat(days[0]) - date(1970, 1, 1)).days
    units = logs.prepared.placed.units
    entry = np.full(len(units.hash), NO_DAY, dtype=np.int64)
    known = units.first_ms != NO_FIRST
    entry[known] = local_ms(units.first_ms[known], experiment.timezone) // _DAY_MS
    active = logs.prepared.days
    rows = np.flatnonzero(active.in_period & (active.day != NO_DAY))
    panel = Panel(units, entry - first, active.unit[rows], active.day[rows] - first, len(days))
    sources = {}
    for source, group in by_source(logs.metrics).items():
        if source.no_days is None:
            step(f"days of {source}")
            own = source_days(queries, active, source, group, by_day=True)
            columns = columns_of(queries.shape, experiment.variants, group)
            own = own._replace(columns={name: own.columns[name] for name in columns})
            sources[source] = source_sums(panel, own, first)
    return TimedLogs(logs, days, first, partial, panel, sources)


def sums_of(timed: TimedLogs) -> TimeSums:
    """What effects are computed from."""
    logs, panel = timed.logs, timed.panel
    variants = list(logs.queries.experiment.variants)
    presences = presences_of(panel, variants, len(timed.days))
    ages = {name: one.by_age(timed.observed) for name, one in presences.items()}
    summed = [(m, timed.sources[m.source]) for m in logs.metrics if m.source in timed.sources]
    daily = [(metric, sums) for metric, sums in summed if metric.source.daily]
    metrics = {
        metric.name: metric_days(logs.queries, metric, sums.by_day, presences, ages)
        for metric, sums in summed
    }
    has_before = logs.queries.experiment.pre_period is not None
    return TimeSums(
        timed.days,
        timed.partial,
        entered={name: one.entered for name, one in presences.items()},
        metrics=metrics,
        refused=dict(logs.refused)
        | {m.name: m.source.no_days for m in logs.metrics if m.source.no_days is not None},
        before={m.name: _before(logs, panel.units, m, s) for m, s in daily if has_before},
        stretches=logs.stretches,
        thirds={
            m.name: thirds_of(logs.queries, m, panel.units, s, metrics[m.name], timed.days)
            for m, s in daily
            if not logs.stretches
        },
    )


def presences_of(panel: Panel, variants: Sequence[str], cohorts: int) -> dict[str, Presence]:
    """Variant → when its units are active."""
    return {name: Presence.of(panel, i, cohorts) for i, name in enumerate(variants)}


def metric_days(
    queries: MetricQueries,
    metric: Metric,
    by_day: Mapping[str, Whole],
    days: Mapping[str, Presence],
    ages: Mapping[str, Presence],
) -> MetricDays:
    """The values of a metric on the rows of a panel."""
    ones = np.ones(len(next(iter(by_day.values()))), dtype=np.int64)

    def of_variants(term: Term | None) -> dict[str, Whole]:
        if term is None:
            return dict.fromkeys(days, ones)
        return {name: by_day[queries.shape.component(term, name)] for name in days}

    y, x = of_variants(metric.value), of_variants(metric.per)
    return MetricDays(days, ages, y, x, scales(metric), metric.per is None)


def _check_time(queries: MetricQueries) -> None:
    if not queries.shape.has_time:
        raise LogError(
            "windows need a time, but the impressions log has no column `ts`",
            'map it: [logs.impressions] columns = { ts = "..." }',
        )


def _days(experiment: Experiment, prepared: Prepared) -> tuple[tuple[str, ...], frozenset[str]]:
    """The days from the first to the last with an impression, and which the log lacks in part."""
    with_units = days_of(prepared)
    if not with_units:
        raise LogError("no analysed unit has an impression with a time in the period")
    known = [one.day for one in with_units]
    first, last = date.fromisoformat(known[0]), date.fromisoformat(known[-1])
    _check_span(first, last)
    days = tuple(str(first + timedelta(days=i)) for i in range((last - first).days + 1))
    return days, frozenset(partial_days(experiment, with_units) | ({*days} - {*known}))


_DAY_MS = 86_400_000


def _check_span(first: date, last: date) -> None:
    """Refuse a log of very many days, such as one with a row of 1970.

    Raises:
        LogError: With the first and the last day.
    """
    days = (last - first).days + 1
    if days > MAX_WINDOW_DAYS:
        raise LogError(
            f"the analysed days run from {first} to {last}, {days:,} days: windows are computed "
            f"over at most {MAX_WINDOW_DAYS}",
            "set or shorten [period]; a row with a wrong time may be the cause",
        )


def _before(logs: OpenLogs, units: Units, metric: Metric, sums: SourceSums) -> ByStretch:
    """Moments of a metric before the period, by stretch and variant."""
    variants = list(logs.queries.experiment.variants)
    stretch = units.stretch.astype(np.int64) * len(variants) if logs.stretches else 0
    values = values_of(logs.queries, units, metric, sums.before)
    moments: list[dict[str, Moments]] = [{} for _ in range(max(1, len(logs.stretches)))]
    for number, one in moments_by(metric, values, stretch + units.variant).items():
        place, variant = divmod(number, len(variants))
        moments[place][variants[variant]] = one
    return moments
