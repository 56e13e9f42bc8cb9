"""Outcome logs: what units did elsewhere, such as orders, joined by unit and time to the exposure.

`prepare.py` calls it once the units are known; `accounting.py` counts the rows, and
`aggregates/unit_events.py` reads those that count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from abeval.engines.protocol import Engine
from abeval.engines.queries import query
from abeval.engines.sources import relation_of
from abeval.engines.sql import quoted
from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.experiment.sources import OUTCOME, EventLog
from abeval.experiment.values import moment
from abeval.logs import canonical
from abeval.logs.cells import Cells
from abeval.logs.mapping import LogColumns
from abeval.logs.row_sql import event_name, own_name
from abeval.logs.run import Run
from abeval.logs.shape import LogShape, OutcomeShape
from abeval.logs.unit_arrays import NO_LAST
from abeval.logs.views import phase
from abeval.metrics.definition import Metric, row_values

_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Coverage:
    """Up to when a log can be taken to hold what units did.

    Attributes:
        end_ms: Milliseconds since 1970 UTC.
        end_day: The local day that is not wholly in it any more.
    """

    end_ms: int
    end_day: date


def outcome_logs(experiment: Experiment, metrics: Sequence[Metric]) -> list[str]:
    """The outcome logs that metrics read, by their paths in the file."""
    read = {value.log for metric in metrics for value in row_values(metric)}
    return [OUTCOME + name for name in experiment.logs.events if name in read]


def check_outcome(log: LogColumns) -> None:
    """Refuse an outcome log without a time.

    Raises:
        LogError: It has no column of the time.
    """
    if "ts" not in log:
        raise LogError(
            f"logs.{log.log}: no column ts: an outcome counts from the unit's exposure on",
            f'map it: columns = {{ ts = "..." }}; the log has: {", ".join(log.types)}',
        )


def write_outcomes(
    run: Run, shape: LogShape, metrics: Sequence[Metric], cells: Cells
) -> Mapping[str, Coverage | None]:
    """Create `unit_entry`, and `outcomes_NAME` of each outcome log.

    Returns:
        Log → up to when it can be taken to be whole, None if it has no row with a time; of the
        impressions too.
    """
    experiment, engine = run.experiment, run.engine
    if not any(row_values(metric) for metric in metrics):
        return {}
    engine.view("unit_entry", _entry(experiment, shape, engine))
    covered = {"impressions": _covered_impressions(experiment, shape, cells)}
    for name, outcome in shape.outcomes.items():
        run.step(name)
        engine.view("outcome_log", outcome_view(experiment, name, outcome, engine))
        engine.table(relation(name), query("log/outcomes"))
        source = experiment.logs.events[name]
        last = whole_or_none(engine, f"select max(time_ms) from {relation(name)}")
        covered[name] = coverage(experiment, _until(experiment, source, last))
    return covered


def relation(name: str) -> str:
    """The relation of the rows of an outcome log."""
    return f"outcomes_{name}"


def whole_or_none(engine: Engine, sql: str) -> int | None:
    """The single whole number of a query, None where it is null."""
    ((number,),) = engine.rows(sql)
    return None if number is None else int(number)


def outcome_view(experiment: Experiment, name: str, outcome: OutcomeShape, engine: Engine) -> str:
    """The rows of an outcome log under canonical names, with what each is worth."""
    log, source = outcome.log, experiment.logs.events[name]
    raw = relation_of("raw", OUTCOME + name)
    once = canonical.distinct_rows(log, raw, experiment.cleaning.duplicates == "drop")
    columns = [
        f"{canonical.column(log, 'unit_id')} as logged_id",
        f"{canonical.copies(log)} as copies",
        f"{_time_ms(experiment, log, source, engine)} as time_ms",
        *(f"{canonical.own_column(log, c)} as {quoted(own_name(c))}" for c in outcome.own_columns),
    ]
    ts = engine.local_time("time_ms", experiment.timezone)
    if log.type_of("ts") == "DATE":
        # The day that it names, also where its last moment is not 24 hours after its first.
        ts = "own_ts"
        columns.append(
            f"cast({canonical.time_of_impression(experiment, log)} as timestamp) as own_ts"
        )
    values = [f"{sql} as {event_name(i)}" for i, sql in enumerate(outcome.values)]
    return f"""
    with once as ({once}),
    named as (select {", ".join(columns)} from once),
    timed as (
      select *, logged_id as unit_id, {ts} as ts from named
    ),
    dated as (select *, cast(ts as date) as day, {phase(experiment)} as phase from timed)
    select logged_id, copies, time_ms, day,
      case when time_ms is null then 1 else phase end as phase, {", ".join(values)}
    from dated
    """


def _time_ms(experiment: Experiment, log: LogColumns, source: EventLog, engine: Engine) -> str:
    """The time of a row; of a date the last moment of that day, so that it is not before it."""
    time = canonical.time_of_impression(experiment, log)
    if log.type_of("ts") != "DATE":
        return canonical.time_ms(log, source, engine, time)
    end = engine.utc_time(f"cast({time} as timestamp) + interval 1 day", experiment.timezone)
    return f"{engine.epoch_ms(end)} - 1"


def _entry(experiment: Experiment, shape: LogShape, engine: Engine) -> str:
    """When each analysed unit was exposed, as logged and in UTC, and on which local day."""
    log = shape.impressions if shape.exposures is None else shape.exposures
    zone = experiment.timezone
    exposed = "first_ms"
    if "ts" in log and log.type_of("ts") == "DATE":
        # The day of a DATE is local already, and begins when the local day does.
        zone = "UTC"
        start = engine.utc_time(engine.local_time("first_ms", zone), experiment.timezone)
        exposed = engine.epoch_ms(start)
    return f"""
    select unit_id, first_ms, {exposed} as exposed_ms,
      cast({engine.local_time("first_ms", zone)} as date) as entry_day
    from units
    """


def _covered_impressions(experiment: Experiment, shape: LogShape, cells: Cells) -> Coverage | None:
    times = cells.last_ms[cells.last_ms != NO_LAST]
    last = int(times.max()) if len(times) else None
    log = shape.impressions
    if last is not None and "ts" in log and log.type_of("ts") == "DATE":
        # The day that it names ends when the local day does.
        day = datetime.fromtimestamp(last / 1000, UTC) + timedelta(days=1)
        last = local_ms(day, experiment)
    return coverage(experiment, last)


def _until(experiment: Experiment, source: EventLog, last: int | None) -> int | None:
    if source.until is None:
        return last
    return local_ms(moment(source.until), experiment)


def coverage(experiment: Experiment, last_ms: int | None) -> Coverage | None:
    """Up to when a log is whole: its last row, or the end of the period or day it nearly reaches.

    Args:
        experiment: Its period and time zone.
        last_ms: The last row; None if there is none.
    """
    if last_ms is None:
        return None
    zone = ZoneInfo(experiment.timezone)
    last = datetime.fromtimestamp(last_ms / 1000, zone)
    end = datetime(last.year, last.month, last.day) + timedelta(days=1)
    if experiment.period is not None:
        end = min(end, experiment.period.bounds[1])
    end_ms = local_ms(end, experiment)
    covered = end_ms if last_ms >= end_ms - _HOUR_MS else last_ms
    return Coverage(covered, datetime.fromtimestamp(covered / 1000, zone).date())


def local_ms(local: datetime, experiment: Experiment) -> int:
    """Milliseconds since 1970 UTC of a local time of the experiment."""
    return round(local.replace(tzinfo=ZoneInfo(experiment.timezone)).timestamp() * 1000)
