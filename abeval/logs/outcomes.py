"""Outcome logs: what units did elsewhere, such as orders, joined by unit and time to the exposure.

`prepare.py` calls it once the units are known; `accounting.py` counts the rows, and
`aggregates/unit_events.py` reads those that count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from abeval.engines.protocol import Engine
from abeval.engines.sources import relation_of
from abeval.engines.sql import query
from abeval.experiment.model import Experiment
from abeval.experiment.sections import moment
from abeval.experiment.sources import OUTCOME
from abeval.logs import mapping
from abeval.logs.cells import Cells
from abeval.logs.run import Run
from abeval.logs.shape import Computed, LogShape
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
        ((last,),) = engine.rows(f"select max(time_ms) from {relation(name)}")
        until = experiment.logs.events[name].until
        end = last if until is None else local_ms(moment(until), experiment)
        covered[name] = coverage(experiment, None if end is None else int(end))
    return covered


def relation(name: str) -> str:
    """The relation of the rows of an outcome log."""
    return f"outcomes_{name}"


def outcome_view(experiment: Experiment, name: str, outcome: Computed, engine: Engine) -> str:
    """The rows of an outcome log under canonical names, with what each is worth."""
    log, raw = outcome.log, relation_of("raw", OUTCOME + name)
    once = mapping.distinct_rows(log, raw, experiment.cleaning.duplicates == "drop")
    time = mapping.time_of_impression(experiment, log)
    time_ms = mapping.time_ms(log, experiment.logs.events[name], engine, time)
    ts = engine.local_time("time_ms", experiment.timezone)
    if log.type_of("ts") == "DATE":
        # Its last moment, so that it is not before the exposure of that day; on the day that it
        # names, also where that moment is not 24 hours after its first.
        end = engine.utc_time(f"cast({time} as timestamp) + interval 1 day", experiment.timezone)
        time_ms, ts = f"{engine.epoch_ms(end)} - 1", "own_ts"
    columns = [
        f"{mapping.column(log, 'unit_id')} as logged_id",
        f"{mapping.copies(log)} as copies",
        f"{time_ms} as time_ms",
        *([f"cast({time} as timestamp) as own_ts"] if ts == "own_ts" else []),
        *mapping.own_columns(log, outcome.own_columns),
    ]
    values = [f"{sql} as {column}" for sql, column in outcome.values.items()]
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


def _entry(experiment: Experiment, shape: LogShape, engine: Engine) -> str:
    """When each analysed unit was exposed, as logged and in UTC, and on which local day."""
    log = shape.impressions if shape.exposures is None else shape.exposures
    zone = experiment.timezone
    exposed = "first_ms"
    if log.type_of("ts") == "DATE":
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
    if last is not None and log.type_of("ts") == "DATE":
        # The day that it names ends when the local day does.
        day = datetime.fromtimestamp(last / 1000, UTC) + timedelta(days=1)
        last = local_ms(day, experiment)
    return coverage(experiment, last)


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
