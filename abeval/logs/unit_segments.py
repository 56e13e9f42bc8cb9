"""The segments of a unit: at its first impression, from before the period, or at its exposure.

`placing.py` asks for them; `prepare.py` creates the view of the exposures.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from abeval.engines.protocol import Engine
from abeval.engines.sql import query, quoted
from abeval.experiment.model import Experiment
from abeval.experiment.segment_rules import known_from
from abeval.experiment.sources import LogSource
from abeval.logs import mapping
from abeval.logs.cells import Cells
from abeval.logs.mapping import LogColumns
from abeval.logs.shape import UNIT_COLUMNS, LogShape, as_text, own_columns_of
from abeval.logs.unit_arrays import NONE, Codes, Labels, Places, Whole, heads, labels, reduced, runs
from abeval.logs.units import places_of_hashes, same_ids


def exposures_view(experiment: Experiment, log: LogColumns, engine: Engine) -> str:
    """Exposures under canonical names, with the segments `s_…` that are known from them.

    Raises:
        ExperimentError: An expression reads a column that the exposures do not have.
    """
    source = experiment.logs.exposures or LogSource()
    unit, variant = mapping.column(log, "unit_id"), mapping.cast(log, "variant", "varchar")
    values = known_from(experiment, "exposure")
    named = [
        f"{unit} as unit_id",
        f"{mapping.time_ms(log, source, engine)} as time_ms",
        f"{mapping.variant_of(experiment, variant)} as variant",
        *mapping.own_columns(log, own_columns_of([*values.values()], log, UNIT_COLUMNS)),
    ]
    segments = [
        f"{sql} as {quoted(f's_{name}')}" for name, sql in as_text(values, UNIT_COLUMNS).items()
    ]
    return f"""
    with named as (select {", ".join(named)} from raw_exposures where {unit} is not null)
    select {", ".join(["unit_id", "time_ms", "variant", *segments])} from named
    """


def segments_of(
    experiment: Experiment,
    engine: Engine,
    shape: LogShape,
    cells: Cells,
    hashes: Whole,
    unit_of: Codes,
) -> dict[str, Labels]:
    """The segments of each analysed unit, empty where it has none.

    They are those of its first impression in the period, of its last one before, or of its
    exposure. A table of units has one value of each, which is that from before if its file says so.

    Args:
        experiment: Where its segments are known from.
        engine: With the exposures.
        shape: The segments.
        cells: The cells of the log.
        hashes: Of the analysed units.
        unit_of: Place of each unit of the cells among them, `NONE` where it is not.
    """
    before, exposed = (known_from(experiment, source) for source in ("before", "exposure"))
    if not shape.segments:
        return _of_exposures(engine, [*exposed], hashes)
    counts = cells.counts & (unit_of[cells.unit] != NONE)
    sides = {name in before and not experiment.of_units for name in shape.segments}
    chosen = {is_before: _chosen(cells, counts, is_before) for is_before in sides}
    segments = {}
    for number, name in enumerate(shape.segments):
        names = sorted({"", *(kind.segments[number] for kind in cells.kinds)})
        code = np.array([names.index(kind.segments[number]) for kind in cells.kinds])
        rows = chosen[name in before and not experiment.of_units]
        start = heads(cells.unit[rows])
        of_units = np.zeros(len(hashes), dtype=np.int32)
        least = reduced(np.minimum, code[cells.kind[rows]], start)
        of_units[unit_of[cells.unit[rows[start]]]] = least
        segments[name] = Labels(of_units, names)
    return segments | _of_exposures(engine, [*exposed], hashes)


def _chosen(cells: Cells, counts: NDArray[np.bool_], is_before: bool) -> Places:
    """The cells that count with the first time of their unit, or the last one before the period."""
    rows = np.flatnonzero(counts & (cells.in_period != is_before))
    by, every = (np.maximum, cells.last_ms) if is_before else (np.minimum, cells.first_ms)
    times, start = every[rows], heads(cells.unit[rows])
    extremes = reduced(by, times, start)[runs(start, len(rows))]
    return rows[np.flatnonzero(times == extremes)]


def _of_exposures(engine: Engine, names: Sequence[str], hashes: Whole) -> dict[str, Labels]:
    """The segments of units at their first exposure."""
    if not names:
        return {}
    engine.view("exposure_segments", query("units/exposure_segments"))
    listed = ", ".join(quoted(f"s_{name}") for name in names)
    unit = engine.hash64([same_ids(engine, "exposure_segments")])
    arrays = engine.arrays(f"select {unit} as unit, {listed} from exposure_segments")
    order = np.argsort(arrays["unit"])
    place = places_of_hashes(hashes, arrays["unit"][order].astype(np.int64))
    return {
        name: labels(np.append(arrays[f"s_{name}"][order].astype(str), "")[place]) for name in names
    }
