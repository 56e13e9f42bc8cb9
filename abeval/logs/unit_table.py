"""The table of units beside a log of impressions: segments, covariates and outcomes of a unit.

`shape.py` takes its columns from here, `placing.py` joins its rows to the units, `accounting.py`
counts them, and `aggregates/unit_events.py` reads its outcomes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from abeval.engines.protocol import Engine, row_count, whole_number
from abeval.engines.queries import query
from abeval.engines.sql import quoted
from abeval.experiment.model import Experiment
from abeval.experiment.sources import UnitLog
from abeval.logs import canonical
from abeval.logs.mapping import LogColumns
from abeval.logs.row_sql import (
    UNIT_COLUMNS,
    event_name,
    in_view_names,
    own_columns_of,
    own_name,
    row_value_sql,
    unit_term_sql,
)
from abeval.logs.unit_arrays import Units, labels
from abeval.metrics.definition import Metric, UnitTerm, row_values, unit_terms
from abeval.metrics.per_unit import RowValue

UNITS = "units"
"""The log of an outcome that is a column of the table."""


@dataclass(frozen=True)
class UnitTable:
    """What the view of the table depends on.

    Attributes:
        log: Its columns.
        segments: Name of each segment → its SQL.
        covariates: SQL of each covariate, a whole number.
        values: SQL of each outcome, null for nothing.
        own_columns: Its columns that expressions read under their own names.
    """

    log: LogColumns
    segments: Mapping[str, str]
    covariates: tuple[str, ...]
    values: tuple[str, ...]
    own_columns: tuple[str, ...]

    def covariate(self, term: UnitTerm) -> str:
        """The column of the units with a covariate."""
        return f"u_{self.covariates.index(unit_term_sql(term)) + 1}"


def unit_table(log: LogColumns, source: UnitLog, metrics: Sequence[Metric]) -> UnitTable:
    """The shape of the table for these metrics.

    Raises:
        ExperimentError: An expression reads a column that the table does not have.
    """
    terms = [term for metric in metrics for term in unit_terms(metric)]
    values = [value for metric in metrics for value in row_values(metric) if value.log == UNITS]
    texts = [*source.segments.values(), *(term.expression for term in terms)]
    texts += [value.expression for value in values]
    return UnitTable(
        log,
        {
            name: f"cast({in_view_names(text, None, UNIT_COLUMNS)} as varchar)"
            for name, text in source.segments.items()
        },
        _once(unit_term_sql(term) for term in terms),
        _once(_value_sql(value) for value in values),
        own_columns_of(texts, log, UNIT_COLUMNS),
    )


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _value_sql(value: RowValue) -> str:
    return row_value_sql(value, UNIT_COLUMNS)


def write_unit_rows(
    experiment: Experiment, table: UnitTable, engine: Engine, units: Units
) -> Units:
    """Create `described_rows`: distinct rows, with the unit, and why they do not count.

    Returns:
        The units with the segments and covariates of their rows; empty and 0 without a row.
    """
    engine.view("unit_log", _view(experiment, table))
    engine.table("described_rows", query("log/described_rows"))
    covariates = [f"u_{number}" for number in range(1, len(table.covariates) + 1)]
    known = " from described_rows where set_aside is null"
    texts = "".join(
        f", coalesce({quoted(f's_{name}')}, '') as {quoted(f's_{name}')}" for name in table.segments
    )
    whole = "".join(f", cast(coalesce({name}, 0) as bigint) as {name}" for name in covariates)
    arrays = engine.arrays(f"select known_unit_id{texts}{whole}{known}")
    place = arrays["known_unit_id"].astype(np.int64)
    segments = dict(units.segments)
    for name in table.segments:
        values = np.full(len(units.hash), "", dtype=object)
        values[place] = arrays[f"s_{name}"]
        segments[name] = labels(values)
    sums = {name: np.zeros(len(units.hash), dtype=np.int64) for name in covariates}
    for name, column in sums.items():
        column[place] = arrays[name]
    return units._replace(segments=segments, covariates=sums)


def _view(experiment: Experiment, table: UnitTable) -> str:
    """The rows under canonical names; constants, because queries need a column of each kind."""
    log = table.log
    once = canonical.distinct_rows(log, "raw_units", experiment.cleaning.duplicates == "drop")
    named = [
        f"{canonical.column(log, 'unit_id')} as unit_id",
        f"{canonical.copies(log)} as copies",
        *(f"{canonical.own_column(log, c)} as {quoted(own_name(c))}" for c in table.own_columns),
    ]
    columns = [
        *("cast('' as varchar) as s_", "0 as u_0", "0 as v_0"),
        *(f"{sql} as {quoted(f's_{name}')}" for name, sql in table.segments.items()),
        *(f"{sql} as u_{i}" for i, sql in enumerate(table.covariates, start=1)),
        *(f"{sql} as {event_name(i)}" for i, sql in enumerate(table.values)),
    ]
    return f"""
    with once as ({once}),
    named as (select {", ".join(named)} from once)
    select unit_id as logged_id, copies, {", ".join(columns)} from named
    """


def missing_note(engine: Engine) -> list[str]:
    """A sentence on analysed units that the table does not have."""
    known = whole_number(engine, "select count(*) from described_rows where set_aside is null")
    units = row_count(engine, "units")
    if known == units:
        return []
    return [
        f"{units - known:,} of {units:,} analysed units have no row in the table of units: their "
        "covariates and outcomes there are 0, their segments empty."
    ]
