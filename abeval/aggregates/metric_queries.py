"""Read each unit's sums of a source, or the values of an event query."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np

from abeval.aggregates.source_values import SourceValues, sum_days_by_unit
from abeval.aggregates.unit_rows import PreparedLogs, RowSums
from abeval.engines.sql import Engine, literal, query
from abeval.logs.prepare import convert_to_epoch_ms, name_outcome_relation
from abeval.logs.shape import UNITS, LogSchema
from abeval.logs.unit_arrays import NO_DAY, UnitDays
from abeval.metrics.definition import UNIT_DAY, Metric, PerUnit, Source

_PREFIX = {"any": "max", "max": "max", "first": "max", "sum": "sum", "count_distinct": "distinct"}
"""Rule that combines a unit's values → prefix of columns of `4_metrics/unit_events`."""

_NOTHING = ("0 as sum_no_sum", "0 as max_no_max", "0 as distinct_no_count")
"""`columns(…)` needs a column of each kind."""


@dataclass(frozen=True)
class ReadLogs(PreparedLogs):
    """Hold prepared logs with the sums of single impressions."""

    rows: RowSums = field(default_factory=RowSums)

    def days(self, source: Source, metrics: Sequence[Metric], by_day: bool = False) -> UnitDays:
        """Return a source by unit and day; of a source of events, by unit.

        `by_day` asks for the days of a source whose days do not add up.
        """
        if source is UNIT_DAY:
            return self.prepared.days
        if source.events is not None:
            write_unit_event(self, metrics)
            self.engine.table(source.name, query(source.query))
            arrays = self.engine.arrays(f"select * from {source.name}")
            unit = np.ma.filled(arrays["unit_id"], 0).astype(np.int32)
            in_period = np.asarray(arrays["in_period"], dtype=bool)
            # Engines return groups in any order.
            order = np.lexsort((in_period, unit))
            columns = {
                name: np.ma.filled(column, 0).astype(np.int64)[order]
                for name, column in arrays.items()
                if name.startswith("c_")
            }
            day = np.full(len(unit), NO_DAY, dtype=np.int32)
            return UnitDays(unit[order], in_period[order], day, columns)
        rows = self.rows.by_day if by_day and source.of_days else self.rows.days
        return rows[source]

    def values(self, days: UnitDays) -> SourceValues:
        """Sum the days of a source by unit, in the period and before it."""
        size = len(self.units.hash)
        now, before = (sum_days_by_unit(days, part, size) for part in (True, False))
        return SourceValues(self.experiment, self.schema, self.units, now, before)


def write_unit_event(logs: ReadLogs, metrics: Sequence[Metric]) -> None:
    """Create `unit_event` for metrics of one source, a column each.

    One extra row per unit records whether its window is complete.
    """
    engine, schema = logs.engine, logs.schema
    # Several metrics may read one value, which is one column.
    chosen = list({m.per_unit.number: m.per_unit for m in metrics if m.per_unit}.values())
    columns, of_units, of_rows = list[str](), dict[str, str](), dict[str, str]()
    row_groups = [(of_units, "unit_entry", "true")]
    for per_unit in chosen:
        timed = _write_window_flags(logs, per_unit) if per_unit.is_timed else {}
        value_sql = (
            {f"max_{per_unit.column('value')}": "1"}
            if per_unit.is_funnel
            else dict(_write_values(schema, per_unit))
        )
        columns += [*value_sql, *timed]
        of_units |= timed
        if per_unit.is_funnel:
            row_groups.append((value_sql, _write_funnel(engine, schema, per_unit), "in_period"))
        else:
            of_rows |= value_sql
    if of_rows:
        row_groups.append((of_rows, _create_event_rows(engine, chosen[0].logs[0]), "in_period"))
    selects = (
        _select_values(values, columns, rows, in_period) for values, rows, in_period in row_groups
    )
    engine.view("unit_event", "\nunion all ".join(selects))


def _select_values(
    values: Mapping[str, str], columns: Sequence[str], rows: str, in_period: str
) -> str:
    """Select all columns, null where the rows have no value for them."""
    selected = [f"{values.get(name, 'null')} as {name}" for name in columns]
    return (
        f"select unit_id, {in_period} as in_period, {', '.join([*selected, *_NOTHING])} from {rows}"
    )


def _write_values(schema: LogSchema, per_unit: PerUnit) -> Iterator[tuple[str, str]]:
    """Write the columns of a metric as SQL over the rows of its log."""
    terms = [*zip(("value", "under"), per_unit.values, strict=False)]
    terms += zip(("null", "null_under"), per_unit.nulls, strict=False)
    terms += [("known", value) for value in per_unit.presence]
    for name, value in terms:
        counted = f"case when {_write_counted_rows(per_unit)} then {schema.row_value(value)} end"
        if value.combine == "first":
            # Of equal times the smallest value, so that no order of rows matters.
            order = f"case when {counted} is null then 1 else 0 end, time_ms, {counted}"
            rank_sql = f"row_number() over (partition by unit_id, in_period order by {order})"
            counted = f"case when {rank_sql} = 1 then {counted} end"
        yield f"{_PREFIX[value.combine]}_{per_unit.column(name)}", counted


def _write_counted_rows(per_unit: PerUnit) -> str:
    """Write which rows fall in the window, or on the day, since exposure."""
    if per_unit.day is not None:
        # Before the period there is no exposure, so all rows count, for CUPED.
        return f"not in_period or age = {per_unit.day}"
    if per_unit.within_ms is not None:
        return f"not in_period or since_ms < {per_unit.within_ms}"
    return "true"


def _write_window_flags(logs: ReadLogs, per_unit: PerUnit) -> dict[str, str]:
    """Write whether the window of a unit is complete, or still open."""
    experiment, covered = logs.experiment, [logs.prepared.covered[log] for log in per_unit.logs]
    ends, tests = [end for end in covered if end is not None], list[str]()
    if experiment.period is not None:
        start = convert_to_epoch_ms(experiment.period.bounds[0], experiment)
        tests.append(f"exposed_ms >= {start}")
    if per_unit.within_ms is not None and ends:
        tests.append(f"exposed_ms + {per_unit.within_ms} <= {min(ends)}")
    if per_unit.day is not None and ends:
        last = datetime.fromtimestamp(min(ends) / 1000, ZoneInfo(experiment.timezone)).date()
        day = f"cast({literal(last.isoformat())} as date)"
        tests.append(f"date_diff('day', entry_day, {day}) > {per_unit.day}")
    # A log without an end covers nothing for sure.
    is_complete = " and ".join(tests) if len(ends) == len(covered) else "false"
    return {
        f"sum_{per_unit.column('whole')}": f"case when {is_complete} then 1 else 0 end",
        f"sum_{per_unit.column('open')}": f"case when {is_complete} then 0 else 1 end",
    }


def _create_event_rows(engine: Engine, log: str) -> str:
    """Create the view of a log's rows that count, and return its name."""
    name = f"events_{log}"
    rows = query("3_rows/impression_events")
    if log == UNITS:
        rows = (
            "select known_unit_id as unit_id, true as in_period, cast(null as bigint) as time_ms, "
            "columns('^v_') from described_rows where set_aside is null"
        )
    elif log != "impressions":
        rows = f"select * from {name_outcome_relation(log)} where set_aside is null"
    engine.view(name, rows)
    return name


def _write_funnel(engine: Engine, schema: LogSchema, per_unit: PerUnit) -> str:
    """Create the table of units that reach the last step of a funnel."""
    reached = ""
    for step, value in enumerate(per_unit.values, start=1):
        rows, column = _create_event_rows(engine, value.log), schema.row_value(value)
        event = (
            f"select unit_id, in_period, time_ms from {rows} "
            f"where {column} = 1 and time_ms is not null and ({_write_counted_rows(per_unit)})"
        )
        engine.view("step_event", event)
        # A later step counts from the earliest time of the step before it.
        first = "select unit_id, in_period, min(time_ms) as time_ms from step_event group by 1, 2"
        before = f"select * from {reached}" if reached else first
        engine.view("step_before", before)
        reached = f"reached_{per_unit.number}_{step}"
        engine.table(reached, query("4_metrics/funnel_step") if step > 1 else first)
    return reached
