"""Runs the queries of time: one pass over the log, then sums by cohort and pairs of days."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

import numpy as np

from abeval.aggregates.aggregates import moments_by_variant
from abeval.aggregates.metric_queries import Asked, Terms
from abeval.engines.protocol import Engine
from abeval.engines.queries import query
from abeval.engines.sql import by_value
from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.inference.context import partial_days
from abeval.metrics.definition import Metric, scales
from abeval.metrics.sources import Source
from abeval.stats.moments import Moments
from abeval.steps import Step
from abeval.time.clock import By, ClockSums, by_weekday, hour_sums, weekday_sums
from abeval.time.opened import Opened
from abeval.time.pairs import cohort_of, pair_sums
from abeval.time.sums import Activity, DaySums


@dataclass(frozen=True)
class TimeSums:
    """What the analysis over time starts from.

    Attributes:
        days: Every day from the first with an impression to the last (ISO).
        partial: Days that the log covers only in part, or not at all.
        activity: Variant → when its units were there.
        metrics: Metric → variant → its sums.
        refused: Metric → why it has none.
        before: Metric → variant → moments of (y, x) before the period, over the analysed units.
        clocks: Sums by hour and by weekday, where they are asked for.
    """

    days: tuple[str, ...]
    partial: frozenset[str]
    activity: Mapping[str, Activity]
    metrics: Mapping[str, Mapping[str, DaySums]]
    refused: Mapping[str, str]
    clocks: tuple[ClockSums, ...] = ()
    before: Mapping[str, Mapping[str, Moments]] = field(default_factory=dict)


def sums_of(opened: Opened, step: Step, by: Sequence[By] = ()) -> TimeSums:
    """The sums of opened logs.

    Raises:
        LogError: The log has no time.
        QueryError: The engine could not run a query.
    """
    experiment, engine = opened.run.experiment, opened.run.engine
    if not opened.shape.has_time:
        raise LogError(
            "windows need a time, and the impressions log has no column `ts`",
            'map it: [logs.impressions] columns = { ts = "..." }',
        )
    engine.table("entry", _entry(experiment, engine))
    days, partial = _days(experiment, engine)
    activity = _activity(experiment, engine, days)
    refused = {name: f"the logs lack {', '.join(what)}" for name, what in opened.refused.items()}
    found: dict[str, Mapping[str, DaySums]] = {}
    weekdays: dict[str, Mapping[str, DaySums]] = {}
    before: dict[str, Mapping[str, Moments]] = {}
    for source, chosen in opened.by_source().items():
        if source.no_days is not None:
            refused |= dict.fromkeys((m.name for m in chosen), source.no_days)
            continue
        step(f"pairs of days of {source}")
        load_days(opened, source, engine)
        found |= pair_sums(opened.run, chosen, "placed_unit_day", days, days, activity)
        if experiment.pre_period is not None and source.daily:
            before |= _before(opened, chosen)
        if "weekday" in by:
            weekdays |= weekday_sums(opened, chosen, days)
    ordered = {m.name: found[m.name] for m in opened.metrics if m.name in found}
    clocks: list[ClockSums] = []
    if "hour" in by:
        step("hours of the day")
        clocks.append(hour_sums(opened, days, partial))
    if "weekday" in by:
        clocks.append(by_weekday(weekdays, days, partial))
    return TimeSums(days, partial, activity, ordered, refused, tuple(clocks), before)


def _days(experiment: Experiment, engine: Engine) -> tuple[tuple[str, ...], frozenset[str]]:
    """The days from the first to the last with an impression, and which the log lacks in part."""
    seen = engine.frame(query("units/days"))
    seen = seen[seen["units"] > 0]
    if seen.empty:
        raise LogError("no analysed unit has an impression with a time in the period")
    days = _calendar(seen["day"].tolist())
    return days, frozenset(partial_days(experiment, seen) | (set(days) - set(seen["day"])))


def _entry(experiment: Experiment, engine: Engine) -> str:
    """When each analysed unit entered: its first impression, or its exposure.

    An exposure without a time is taken for one on the first day.
    """
    entered = engine.local_time("first_ms", experiment.timezone)
    return f"""
    select unit_id, variant, coalesce(
      cast({entered} as date), (select min(day) from unit_day where in_period)
    ) as entry_day
    from units
    """


def _calendar(days: Sequence[str]) -> tuple[str, ...]:
    first, last = date.fromisoformat(min(days)), date.fromisoformat(max(days))
    return tuple(str(first + timedelta(days=i)) for i in range((last - first).days + 1))


def _activity(experiment: Experiment, engine: Engine, days: Sequence[str]) -> dict[str, Activity]:
    place = {day: i for i, day in enumerate(days)}
    size = len(days)
    entered = {name: np.zeros(size, dtype=np.int64) for name in experiment.variants}
    returns = {
        name: np.zeros((size, size + 1, size), dtype=np.int64) for name in experiment.variants
    }
    for variant, cohort, units in engine.rows(query("time/entered")):
        entered[str(variant)][cohort_of(str(cohort), days)] += int(units or 0)
    for variant, cohort, before, day, units in engine.rows(query("time/returns")):
        where = cohort_of(str(cohort), days), 1 + place.get(str(before), -1), place[str(day)]
        returns[str(variant)][where] += int(units or 0)
    return {name: Activity(entered[name], returns[name]) for name in experiment.variants}


def load_days(opened: Opened, source: Source, engine: Engine) -> None:
    """Show the source's values by unit and day as `placed_unit_day`."""
    if source.day_query is not None:
        engine.table("scored_day", scored_day_view(opened.shape.score_of))
        engine.table("gauc_day", query(source.day_query))
        engine.view("source_day", "select * from gauc_day")
    else:
        opened.run.load(source)
    engine.table("placed_unit_day", query("time/placed_unit_day"))


def _before(opened: Opened, metrics: Sequence[Metric]) -> dict[str, Mapping[str, Moments]]:
    """What the source that is loaded adds up to before the period."""
    run = opened.run
    run.engine.table("source_unit", query("units/unit_total"))
    found: dict[str, Mapping[str, Moments]] = {}
    for metric in metrics:
        rows = run.sums([Asked(metric, "before", "''", Terms(*run.both(metric, "p_")))])
        found[metric.name] = moments_by_variant(rows, scales(metric))
    return found


def scored_day_view(score_of: Mapping[str, str]) -> str:
    """Impressions of the period with their day and the score of the variant's model."""
    served = by_value("u.variant", {v: f"i.{score}" for v, score in score_of.items()})
    return f"""
    with served as (
      select u.variant, i.unit_id, i.day, i.click, {served} as score
      from impressions i join units u on i.unit_id = u.unit_id
      where i.in_period and i.day is not null
    )
    select variant, unit_id, day, score, click from served where score is not null
    """
