"""The sums that windows start from: one pass over the log, then sums by cohort and pair of days.

`time/analysis.py` calls it with the `OpenLogs` of `time/open.py`, and computes every effect from
the `TimeSums`, but for windows that are no sums over days (`time/cut.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import NamedTuple

from abeval.aggregates.metric_queries import MetricQueries
from abeval.aggregates.moment_rows import ByStretch, moments_of_rows
from abeval.aggregates.terms import SliceTerms, Terms
from abeval.bounds import MAX_WINDOW_DAYS
from abeval.engines.protocol import Engine
from abeval.engines.queries import query
from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.inference.context import partial_days
from abeval.logs.stretches import Stretches
from abeval.metrics.definition import Metric, scales
from abeval.metrics.sources import Source
from abeval.steps import Step
from abeval.time.clock import By, ClockSums, by_weekday, hour_sums, weekday_sums
from abeval.time.day_pairs import Cells, activity_of, day_pair_sums
from abeval.time.day_sums import Activity, DaySums
from abeval.time.open import OpenLogs, by_source
from abeval.time.skew import Thirds, thirds_of


@dataclass(frozen=True)
class TimeSums:
    """Everything that windows are computed from.

    Attributes:
        days: Every day from the first with an impression to the last (ISO).
        partial: Days that the log covers only in part, or not at all.
        activity: Variant → when its units were active.
        metrics: Metric → variant → its sums.
        refused: Metric → why it has none.
        clocks: Sums by hour and by weekday, if chosen.
        before: Metric → moments of (y, x) before the period over the analysed units, by stretch
            of entry days and variant.
        stretches: Those stretches; none where the split did not change.
        thirds: Metric → third moments of the days and of all days, of metrics whose days add up;
            none where the split changed, as stretches are combined without them.
    """

    days: tuple[str, ...]
    partial: frozenset[str]
    activity: Mapping[str, Activity]
    metrics: Mapping[str, Mapping[str, DaySums]]
    refused: Mapping[str, str]
    clocks: tuple[ClockSums, ...] = ()
    before: Mapping[str, ByStretch] = field(default_factory=dict)
    stretches: Stretches = ()
    thirds: Mapping[str, Thirds] = field(default_factory=dict)


def sums_of(logs: OpenLogs, step: Step, by: Sequence[By] = ()) -> TimeSums:
    """The sums of open logs; writes the table `entry`.

    Raises:
        LogError: The log has no time.
        QueryError: The engine could not run a query.
    """
    queries = logs.queries
    experiment, engine = queries.experiment, queries.engine
    _check_time(queries)
    engine.table("entry", _entry(experiment, engine))
    days, partial = _days(experiment, engine)
    activity = activity_of(queries, engine.rows(query("time/returns")), days, days)
    cells = Cells("placed_day", days, days, activity)
    refused, parts = dict(logs.refused), list[_SourceSums]()
    for source, group in by_source(logs.metrics).items():
        if source.no_days is not None:
            refused |= dict.fromkeys((m.name for m in group), source.no_days)
            continue
        step(f"pairs of days of {source}")
        parts.append(_of_source(logs, source, group, cells, by))
    sums = {name: one for part in parts for name, one in part.sums.items()}
    return TimeSums(
        days,
        partial,
        activity,
        metrics={m.name: sums[m.name] for m in logs.metrics if m.name in sums},
        refused=refused,
        clocks=_clocks(logs, days, partial, parts, by, step),
        before={name: one for part in parts for name, one in part.before.items()},
        stretches=logs.stretches,
        thirds={name: one for part in parts for name, one in part.thirds.items()},
    )


def _check_time(queries: MetricQueries) -> None:
    if not queries.shape.has_time:
        raise LogError(
            "windows need a time, but the impressions log has no column `ts`",
            'map it: [logs.impressions] columns = { ts = "..." }',
        )


class _SourceSums(NamedTuple):
    """The sums of the metrics of one source, by metric; in the order in which they are read."""

    sums: Mapping[str, Mapping[str, DaySums]]
    thirds: Mapping[str, Thirds]
    before: Mapping[str, ByStretch]
    weekdays: Mapping[str, Mapping[str, DaySums]]


def _of_source(
    logs: OpenLogs, source: Source, metrics: Sequence[Metric], cells: Cells, by: Sequence[By]
) -> _SourceSums:
    queries, stretches = logs.queries, logs.stretches
    load_days(queries, source)
    replace(queries, units="entry").place_days()
    has_before = queries.experiment.pre_period is not None and source.daily
    return _SourceSums(
        sums=day_pair_sums(queries, metrics, cells),
        thirds=thirds_of(queries, metrics) if source.daily and not stretches else {},
        before=_before(queries, metrics, max(1, len(stretches))) if has_before else {},
        weekdays=weekday_sums(queries, metrics, cells.days) if "weekday" in by else {},
    )


def _clocks(
    logs: OpenLogs,
    days: tuple[str, ...],
    partial: frozenset[str],
    parts: Sequence[_SourceSums],
    by: Sequence[By],
    step: Step,
) -> tuple[ClockSums, ...]:
    """Sums by hour and by weekday, as far as they are chosen."""
    clocks: list[ClockSums] = []
    if "hour" in by:
        step("hours of the day")
        clocks.append(hour_sums(logs, days, partial))
    if "weekday" in by:
        weekdays = {name: one for part in parts for name, one in part.weekdays.items()}
        clocks.append(by_weekday(weekdays, days, partial))
    return tuple(clocks)


def _days(experiment: Experiment, engine: Engine) -> tuple[tuple[str, ...], frozenset[str]]:
    """The days from the first to the last with an impression, and which the log lacks in part."""
    with_units = engine.frame(query("units/days"))
    if with_units.empty:
        raise LogError("no analysed unit has an impression with a time in the period")
    first, last = (
        date.fromisoformat(day) for day in (min(with_units["day"]), max(with_units["day"]))
    )
    _check_span(first, last)
    days = tuple(str(first + timedelta(days=i)) for i in range((last - first).days + 1))
    return days, frozenset(
        partial_days(experiment, with_units) | (set(days) - set(with_units["day"]))
    )


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


def _entry(experiment: Experiment, engine: Engine) -> str:
    """When each analysed unit entered: its first impression, or its exposure.

    Units whose exposure has no time enter on the first day.
    """
    entered = engine.local_time("first_ms", experiment.timezone)
    return f"""
    select unit_id, variant, coalesce(
      cast({entered} as date), (select min(day) from unit_day where in_period)
    ) as entry_day
    from units
    """


def load_days(queries: MetricQueries, source: Source) -> str:
    """Load a source by unit and day as `source_day`; the name of the relation behind it."""
    if source.day_query is None:
        queries.load(source)
        return source.name
    if source.scored:
        scored = queries.scored(("unit_id", "day", "click"))
        queries.engine.table("scored_day", f"select * from ({scored}) as s where day is not null")
    by_day = f"{source}_day"
    queries.engine.table(by_day, query(source.day_query))
    queries.show_days(f"select * from {by_day}")
    return by_day


def _before(
    queries: MetricQueries, metrics: Sequence[Metric], stretches: int
) -> dict[str, ByStretch]:
    """Moments before the period, of metrics whose source is loaded."""
    queries.total_units(metrics[0].source)
    moments: dict[str, ByStretch] = {}
    for metric in metrics:
        rows = queries.sums(
            [SliceTerms(metric, "before", "''", Terms(*queries.both(metric, "p_")))]
        )
        moments[metric.name] = moments_of_rows(rows, stretches, scales(metric))
    return moments
