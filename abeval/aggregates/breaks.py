"""Sum each log's rows by day, to find where those of one variant break off."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.aggregates import GroupRows, UnitShares
from abeval.aggregates.audit_arrays import AuditedUnits
from abeval.engines.sql import query
from abeval.logs.prepare import Prepared, name_outcome_relation
from abeval.logs.run import Run
from abeval.logs.shape import LogSchema
from abeval.logs.unit_arrays import NO_DAY, find_rows, unique_inverse
from abeval.metrics.definition import UNIT_DAY, Metric, RowTerm

DAYS = "day:"
"""Prefix of the audits by day: then the log, and the segment if there is one."""

OUTCOMES = "outcome"
"""The audit of units that have rows, by outcome log."""

IMPRESSIONS, VALUES = "impressions", "values of "

_LARGEST = 2.0**31
_LARGEST_CELLS = 20


class DailyRows(NamedTuple):
    """Hold a log's rows of the period by unit and local day (since 1970)."""

    unit: NDArray[np.integer]
    day: NDArray[np.integer]
    rows: NDArray[np.integer]


def read_daily_rows(
    run: Run, prepared: Prepared, metrics: Sequence[Metric] = ()
) -> dict[str, DailyRows]:
    """Read the rows by day of impressions, clicks and each outcome log that is read.

    What metrics sum over the rows follows, under `VALUES` and the metric's name; not what is below
    zero for some unit and day.
    """
    days, schema = prepared.days, prepared.schema
    timed = find_rows(days.in_period & (days.day != NO_DAY))
    columns = {IMPRESSIONS: "c_1"}
    if schema.clicks is not None or "click" in schema.impressions:
        columns["clicks"] = schema.clicks_component
    columns |= _list_impression_values(run, schema, metrics, {*columns.values()})
    read = {
        log: DailyRows(days.unit[timed], days.day[timed], days.columns[column][timed])
        for log, column in columns.items()
    }
    for log in (log for log in schema.outcomes if log in prepared.covered):
        values = _list_outcome_values(schema, metrics, log)
        selected = ", ".join([*values.values(), "0 as v_none"])
        relation = f"select unit_id, in_period, set_aside, day, {selected} from "
        run.engine.view("outcome_values", relation + name_outcome_relation(log))
        arrays = {
            name: np.ma.filled(column, 0).astype(np.int64)
            for name, column in run.engine.arrays(query("audit/outcome_days")).items()
        }
        unit, day = arrays["unit_id"], arrays["day"]
        read[log] = DailyRows(unit, day, arrays["events"])
        read |= {key: DailyRows(unit, day, arrays[column]) for key, column in values.items()}
    # Rows come before values, which end where they do.
    ordered = sorted(read, key=lambda key: key.startswith(VALUES))
    return {key: _limit(read[key]) for key in ordered if (read[key].rows >= 0).all()}


def _limit(daily: DailyRows) -> DailyRows:
    """Make large numbers smaller, so that squares of group sums fit into 64 bits."""
    total = float(daily.rows.sum(dtype=np.float64))
    if total <= _LARGEST:
        return daily
    return daily._replace(rows=np.round(daily.rows * (_LARGEST / total)).astype(np.int64))


def _list_impression_values(
    run: Run, schema: LogSchema, metrics: Sequence[Metric], taken: set[str]
) -> dict[str, str]:
    """List the columns of metrics that are sums over impressions.

    Columns in `taken` are left out.
    """
    columns = dict[str, str]()
    for metric in metrics:
        term = metric.value
        if (
            metric.source is not UNIT_DAY
            or not isinstance(term, RowTerm)
            or not metric.is_mean_or_ratio
        ):
            continue
        names = {schema.component(term, variant) for variant in run.experiment.variants}
        # Scores of two models are not of one scale.
        if len(names) == 1 and not names & taken:
            taken |= names
            columns[name_values(metric)] = names.pop()
    return columns


def _list_outcome_values(schema: LogSchema, metrics: Sequence[Metric], log: str) -> dict[str, str]:
    """List the values of rows of an outcome log that metrics sum, each once."""
    columns = dict[str, str]()
    for metric in metrics:
        if metric.per_unit is None or metric.per_unit.is_funnel:
            continue
        value = metric.per_unit.values[0]
        if value.log == log and value.combine == "sum":
            columns.setdefault(schema.row_value(value), name_values(metric))
    return {name: column for column, name in columns.items()}


def name_values(metric: Metric) -> str:
    """Name what a metric sums, beside the rows of logs."""
    return VALUES + metric.name.replace(":", " ")


def sum_days(units: AuditedUnits, logs: Mapping[str, DailyRows]) -> dict[str, list[GroupRows]]:
    """Sum rows by day, of all units and of the largest cells of each segment."""
    audits = dict[str, list[GroupRows]]()
    for log, daily in logs.items():
        days, index = unique_inverse(daily.day.astype(np.int64))
        segments = {} if log.startswith(VALUES) else units.segments
        for name, labels in [("", None), *segments.items()] if days.size > 1 else ():
            audits[f"{DAYS}{log}:{name}"] = units.sum_times(
                daily.unit, daily.rows, index, days, labels, _LARGEST_CELLS
            )
    return audits


def count_outcome_units(units: AuditedUnits, logs: Mapping[str, DailyRows]) -> Iterator[UnitShares]:
    """Count the units that have rows of each outcome log."""
    for log, daily in logs.items():
        has_rows = (np.bincount(daily.unit, minlength=units.number.size) > 0).astype(np.int64)
        yield from units.shares_of_units(OUTCOMES, has_rows, np.ones_like(has_rows), log)
