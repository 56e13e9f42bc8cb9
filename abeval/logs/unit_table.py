"""The table of units beside a log of impressions: segments, covariates and outcomes of a unit.

`prepare.py` joins its rows to the units, `accounting.py` counts them, and
`aggregates/unit_events.py` reads its outcomes.
"""

import numpy as np

from abeval.engines.protocol import Engine, row_count, whole_number
from abeval.engines.sql import query, quoted
from abeval.experiment.model import Experiment
from abeval.logs import mapping
from abeval.logs.shape import Computed
from abeval.logs.unit_arrays import Units, labels


def write_unit_rows(experiment: Experiment, table: Computed, engine: Engine, units: Units) -> Units:
    """Create `described_rows`: distinct rows, with the unit, and why they do not count.

    Returns:
        The units with the segments and covariates of their rows; empty and 0 without a row.
    """
    engine.view("unit_log", _view(experiment, table))
    engine.table("described_rows", query("log/described_rows"))
    covariates = [*table.covariates.values()]
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


def _view(experiment: Experiment, table: Computed) -> str:
    """The rows under canonical names; constants, because queries need a column of each kind."""
    log = table.log
    once = mapping.distinct_rows(log, "raw_units", experiment.cleaning.duplicates == "drop")
    named = [
        f"{mapping.column(log, 'unit_id')} as unit_id",
        f"{mapping.copies(log)} as copies",
        *mapping.own_columns(log, table.own_columns),
    ]
    columns = [
        *("cast('' as varchar) as s_", "0 as u_0", "0 as v_0"),
        *(f"{sql} as {quoted(f's_{name}')}" for name, sql in table.segments.items()),
        *(f"{sql} as {name}" for sql, name in (*table.covariates.items(), *table.values.items())),
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
