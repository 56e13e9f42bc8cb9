"""Read a table of units from a frame as arrays.

The metrics of the table must be plain columns. Every number is that of the SQL of the views, which
read all other tables.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.engines.builders import write_sub_bucket
from abeval.engines.frames import find_column, has_all_values, read_numbers, read_texts
from abeval.engines.sql import is_number, quote
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ROW_UNIT
from abeval.logs import unit_arrays as arrays
from abeval.logs.cells import IN_PERIOD, LogCells, RowClass
from abeval.logs.run import Run
from abeval.logs.shape import LogSchema
from abeval.metrics.definition import Metric, RowTerm, list_row_terms


def read_frame_cells(run: Run, schema: LogSchema, metrics: Sequence[Metric]) -> LogCells | None:
    """Read the rows of a frame as cells; None if SQL has to read them.

    Each row is a unit. `metrics` are those that the schema was built for.
    """
    experiment, frame = run.experiment, run.engine.plain_frame(schema.impressions.raw)
    if frame is None or not _are_plain(experiment, schema):
        return None
    units = _read_units(run, frame, schema)
    texts = read_texts(frame, schema.impressions.mapped["variant"])
    shared = {schema.components["1"]: 1, schema.clicks_component: 0}
    has = schema.needs_met(experiment.unit)
    computable = (metric for metric in metrics if metric.needs <= has)
    terms = {schema.component(t, ""): t for metric in computable for t in list_row_terms(metric)}
    if texts is None or units is None or {*terms, *shared} != {*schema.components.values()}:
        return None
    sums = dict[str, NDArray[np.integer]]()
    for name, term in terms.items():
        values = _sum_term(frame, schema, term)
        if values is None:
            return None
        sums[name] = arrays.downcast(values[units.order])
    rows = len(texts.code)
    # The last kind is that of rows without a variant.
    kind = np.where(texts.code < 0, len(texts.names), texts.code).astype(np.int32)

    def share(value: int, kind: type = np.int64) -> NDArray[Any]:
        # A column that all rows share takes the memory of one value.
        return np.broadcast_to(np.array(value, kind), rows)

    return LogCells(
        hashes=units.hashes,
        unit=np.arange(rows, dtype=np.int32),
        kind=kind[units.order],
        hour=share(arrays.NO_DAY, np.int32),
        first_ms=share(arrays.NO_FIRST),
        last_ms=share(arrays.NO_LAST),
        sums={name: share(value) for name, value in shared.items()} | sums,
        kinds=[*(_make_kind(experiment, name) for name in (*texts.names, None))],
        nameless=[0] * (len(texts.names) + 1),
        sub_bucket=units.sub_bucket,
        are_numbered=experiment.unit == ROW_UNIT,
    )


class _Units(NamedTuple):
    """Hold the hashes of units, sorted, and the order of rows by them."""

    hashes: arrays.Integers
    order: arrays.Indices | slice
    sub_bucket: NDArray[np.int16] | None = None


def _read_units(run: Run, frame: Any, schema: LogSchema) -> _Units | None:  # noqa: ANN401
    """Read the units of a frame's rows; None unless each row has its own unit."""
    experiment, engine, log = run.experiment, run.engine, schema.impressions
    if experiment.unit == ROW_UNIT:
        return _Units(np.arange(1, len(frame) + 1), slice(None))
    unit = log.mapped["unit_id"]
    if not has_all_values(frame, unit):
        return None
    columns = [f"{engine.hash64([quote(unit)])} as unit_hash"]
    if experiment.trust.aa_runs:
        columns.append(f"{write_sub_bucket(engine, experiment.salt, quote(unit))} as bucket")
    read = engine.arrays(f"select {', '.join(columns)} from {log.raw}")
    order = np.argsort(hashes := read["unit_hash"].astype(np.int64))
    if len(arrays.run_starts(hashes[order])) < len(hashes):
        return None
    bucket = read["bucket"][order].astype(np.int16) if "bucket" in read else None
    return _Units(hashes[order], order, bucket)


def _are_plain(experiment: Experiment, schema: LogSchema) -> bool:
    """Tell whether rows are units, and only variant and metrics are read of them."""
    return (
        experiment.is_unit_table
        and {*schema.impressions.mapped} - {"unit_id"} == {"variant"}
        and not (schema.segments or schema.events or experiment.cleaning.duplicate_key)
        and not (experiment.assigns or any(v.of for v in experiment.variants.values()))
    )


def _make_kind(experiment: Experiment, variant: str | None) -> RowClass:
    """Make the row class of a variant; the only phase is that without a period."""
    reason = "null_variant" if variant is None else "not_compared"
    set_aside = None if variant in experiment.variants else reason
    return RowClass(IN_PERIOD, variant, (), set_aside)


def _sum_term(frame: object, schema: LogSchema, term: RowTerm) -> NDArray[np.int64] | None:
    """Compute a term as a whole number of each row; None where SQL has to."""
    types, names = schema.impressions.types, [term.expression]
    if term.test is not None:
        names = [*term.test.values]
    columns = [find_column(name, types) for name in names]
    if not all(column is not None and is_number(types[column]) for column in columns):
        return None
    values = [read_numbers(frame, str(column)) for column in columns]
    # NaN and infinity compare false.
    are_numbers = np.logical_and.reduce([np.abs(column) < 1e300 for column in values])
    if term.test is not None:
        counted: NDArray[np.int64] = (are_numbers == term.test.marks_finite).astype(np.int64)
        return counted
    if term.resolution is None:
        return None
    steps = np.where(are_numbers, values[0], 0.0) / term.resolution
    # Beyond 64 bits SQL says what is wrong.
    return arrays.round_half_away(steps) if (np.abs(steps) < 2.0**63).all() else None
