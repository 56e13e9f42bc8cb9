"""The segments of a unit: at its first impression, from before the period, or at its exposure.

`prepare.py` and `placing.py` create these views.
"""

from abeval.engines.protocol import Engine
from abeval.engines.sql import quoted
from abeval.experiment.model import Experiment
from abeval.experiment.segment_rules import known_from
from abeval.experiment.sources import LogSource
from abeval.logs import canonical
from abeval.logs.mapping import LogColumns
from abeval.logs.row_sql import UNIT_COLUMNS, in_view_names, own_columns_of, own_name
from abeval.logs.shape import LogShape


def exposures_view(experiment: Experiment, log: LogColumns, engine: Engine) -> str:
    """Exposures under canonical names, with the segments `s_…` that are known from them.

    Raises:
        ExperimentError: An expression reads a column that the exposures do not have.
    """
    source = experiment.logs.exposures or LogSource()
    unit, variant = canonical.column(log, "unit_id"), canonical.variant(experiment, log)
    values = known_from(experiment, "exposure")
    own = [
        f"{canonical.own_column(log, column)} as {quoted(own_name(column))}"
        for column in own_columns_of(list(values.values()), log, UNIT_COLUMNS)
    ]
    named = [
        f"{unit} as unit_id",
        f"{canonical.time_ms(log, source, engine)} as time_ms",
        f"{variant} as variant",
        *own,
    ]
    segments = [
        f"cast({in_view_names(text, None, UNIT_COLUMNS)} as varchar) as {quoted(f's_{name}')}"
        for name, text in values.items()
    ]
    return f"""
    with named as (select {", ".join(named)} from raw_exposures where {unit} is not null)
    select {", ".join(["unit_id", "time_ms", "variant", *segments])} from named
    """


def segments_view(experiment: Experiment, shape: LogShape) -> str:
    """The segments of each unit: at its first impression, from before the period, at its exposure.

    A table of units has one value of each, which is that from before if its file says so.
    """
    before, exposed = (known_from(experiment, source) for source in ("before", "exposure"))
    if experiment.of_units or not (before or exposed):
        return "select * from entry_segments"
    places = dict.fromkeys(before, "b") | dict.fromkeys(exposed, "x")
    columns = [
        f"{places.get(name, 'e')}.{quoted(f's_{name}')} as {quoted(f's_{name}')}"
        for name in shape.segments
    ]
    unit, joins = "e.unit_id", ""
    if before:
        joins += "full outer join earlier_segments b on e.unit_id = b.unit_id "
        unit = "coalesce(e.unit_id, b.unit_id)"
    if exposed:
        joins += f"full outer join exposure_segments x on {unit} = x.unit_id"
        unit = f"coalesce({unit}, x.unit_id)"
    return f"select {unit} as unit_id, {', '.join(columns)} from entry_segments e {joins}"
