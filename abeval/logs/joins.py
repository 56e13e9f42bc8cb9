"""Clicks joined to impressions, and outcome logs, such as orders, joined to units.

A click names its impression by an id, or means the unit's last one of the item before it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from abeval.engines.sql import query
from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.experiment.sections import moment
from abeval.experiment.sources import OUTCOME, ROW_UNIT
from abeval.logs import checks, views
from abeval.logs.cells import Cells
from abeval.logs.mapping import CLICK_KEYS
from abeval.logs.run import Run
from abeval.logs.shape import LogShape
from abeval.logs.unit_arrays import NO_LAST
from abeval.metrics.definition import Metric, row_values

_IDS = ("impression_id", "request_id", "item_id", "position")
UNIT = "unit_id"


def click_join(experiment: Experiment, shape: LogShape) -> tuple[str, ...]:
    """Choose the columns that a click shares with its impression, by their canonical names.

    With the unit they are of several impressions, of which the last before the click is meant.
    """
    if shape.clicks is None or experiment.logs.clicks is None:
        return ()
    in_both = [n for n in (UNIT, *_IDS) if n in shape.impressions and n in shape.clicks]
    if experiment.unit == ROW_UNIT:
        in_both = [name for name in in_both if name != UNIT]
    chosen: list[str] = list(experiment.logs.clicks.join or [])
    missing = [name for name in chosen if name not in in_both]
    if missing:
        raise LogError(
            f"logs.clicks.join names {missing[0]!r}, which is not in both logs",
            f"both have: {', '.join(in_both) or 'none of ' + ', '.join((UNIT, *_IDS))}",
        )
    join = tuple(chosen[: len(CLICK_KEYS)]) or _natural(in_both)
    checks.check_joinable(shape.impressions, shape.clicks, join)
    for log in (shape.impressions, shape.clicks):
        if UNIT in join and "ts" not in log:
            raise LogError(
                f"clicks are tied to impressions by {' and '.join(join)}, and by time, but "
                f"logs.{log.log} has no ts",
                "map ts, or give both logs an impression_id",
            )
    return join


def _natural(in_both: Sequence[str]) -> tuple[str, ...]:
    """Choose the columns that identify an impression, or come nearest to it."""
    if "impression_id" in in_both:
        return ("impression_id",)
    if {"request_id", "item_id"} <= set(in_both):
        return tuple(name for name in in_both if name not in ("impression_id", UNIT))
    if {UNIT, "item_id"} <= set(in_both):
        return (UNIT, "item_id")
    raise LogError(
        "clicks cannot be joined to impressions: the logs share neither impression_id nor "
        "(request_id, item_id), nor (the unit, item_id) and times",
        "map the columns in logs.impressions.columns and logs.clicks.columns",
    )


def write_clicks(run: Run, shape: LogShape, join: Sequence[str]) -> None:
    """Make the tables of clicks: what became of each, and those of each impression."""
    source, engine = run.experiment.logs.clicks, run.engine
    if shape.clicks is None or source is None:
        return
    run.step("clicks")
    clicks = views.clicks_view(source, shape.clicks, engine, join)
    engine.table("untied_clicks" if UNIT in join else "click_log", clicks)
    if UNIT in join:
        engine.table("click_log", query("log/last_touch"))
    engine.table("clicked_keys", query("log/clicked_keys"))
    engine.table("click_fate", query("log/click_fate"))
    engine.table("attributed", query("log/attributed"))


def join_notes(experiment: Experiment, join: Sequence[str]) -> tuple[str, ...]:
    """Say how clicks without an id of their impression were attributed."""
    if UNIT not in join or experiment.logs.clicks is None:
        return ()
    hours = experiment.logs.clicks.attribution_hours
    rest = [name for name in join if name != UNIT]
    same = f" with the same {' and '.join(rest)}" if rest else ""
    return (
        f"A click belongs to its unit's last impression{same} before it, at most {hours:g} hours "
        "earlier, because the logs share no id of the impression.",
    )


_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Coverage:
    """Up to when a log is whole: epoch milliseconds, and the first local day that is not."""

    end_ms: int
    end_day: date


def outcome_logs(experiment: Experiment, metrics: Sequence[Metric]) -> list[str]:
    """List the outcome logs that metrics read, by their paths in the file."""
    read = {value.log for metric in metrics for value in row_values(metric)}
    return [OUTCOME + name for name in experiment.logs.events if name in read]


def write_outcomes(
    run: Run, shape: LogShape, metrics: Sequence[Metric], cells: Cells
) -> Mapping[str, Coverage | None]:
    """Create `unit_entry`, and `outcomes_NAME` of each log; return up to when each is whole."""
    experiment, engine = run.experiment, run.engine
    if not any(row_values(metric) for metric in metrics):
        return {}
    engine.view("unit_entry", views.entry_view(experiment, shape, engine))
    covered = {"impressions": _covered_impressions(experiment, shape, cells)}
    for name, outcome in shape.outcomes.items():
        run.step(name)
        engine.view("outcome_log", views.outcome_view(experiment, name, outcome, engine))
        engine.table(relation(name), query("log/outcomes"))
        ((last,),) = engine.rows(f"select max(time_ms) from {relation(name)}")
        until = experiment.logs.events[name].until
        end = last if until is None else local_ms(moment(until), experiment)
        covered[name] = coverage(experiment, None if end is None else int(end))
    return covered


def relation(name: str) -> str:
    """Name the relation of the rows of an outcome log."""
    return f"outcomes_{name}"


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
    """Find up to when a log is whole: its last row, or an end of period or day just after it."""
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
    """Return milliseconds since 1970 UTC of a local time of the experiment."""
    return round(local.replace(tzinfo=ZoneInfo(experiment.timezone)).timestamp() * 1000)
