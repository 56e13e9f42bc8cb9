"""Find units by their ids: hashes, segments, and relations for queries.

Arrays know a unit by its index only; ids are read where something hashes or joins them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abeval.assignment import SLOTS, SUB_BUCKETS
from abeval.assignment.draws import Rule
from abeval.bounds import MAX_SEGMENT_VALUES
from abeval.engines.builders import rule_sql, sub_bucket_sql
from abeval.engines.sql import Engine, literal, numbered, query, quoted, row_count
from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.logs import unit_arrays as arrays
from abeval.logs import views
from abeval.logs.cells import Cells
from abeval.logs.run import Run
from abeval.logs.shape import UNITS, Computed, LogShape

SubBuckets = NDArray[np.int16]

_ID = "cast(logged_id as varchar)"


def write_names(engine: Engine, shape: LogShape) -> None:
    """Create the view `logged_names`: the ids of all units, with their hashes."""
    logged = "select unit_id as logged_id from logged_cells where unit_id is not null"
    if shape.impressions.log == UNITS:
        named = logged
    elif shape.exposures is None:
        named = f"select distinct logged_id from ({logged}) as ids"
    else:
        named = f"{logged} union select {same_ids(engine, 'exposed')} as logged_id from exposed"
    engine.view(
        "logged_names", f"select *, {engine.hash64(['logged_id'])} as unit_hash from ({named}) as n"
    )


def same_ids(engine: Engine, relation: str) -> str:
    """Write the units of another log in the type of the impressions' ids."""
    own, other = (engine.columns(name)["unit_id"] for name in ("logged_cells", relation))
    return "unit_id" if own == other else f"cast(unit_id as {own})"


def places_of_hashes(wanted: arrays.Whole, known: arrays.Whole) -> arrays.Codes:
    """Find the index of each hash among sorted ones, `NONE` where missing.

    Example:
        >>> known = np.array([3, 5])
        >>> places_of_hashes(np.array([5, 4]), known).tolist()
        [1, -1]
    """
    if np.array_equal(wanted, known):
        return np.arange(len(known))
    # Looked for in their order, each is found near the one before it.
    order = np.argsort(wanted)
    place = np.empty(len(wanted), dtype=np.int64)
    place[order] = np.searchsorted(known, wanted[order])
    found = np.append(known, arrays.NONE)[place] == wanted
    return np.where(found, place, arrays.NONE)


def places_of_names(wanted: Iterable[str | None], names: Iterable[str]) -> arrays.Codes:
    """Find the index of each name among others, `NONE` where missing.

    Example:
        >>> places_of_names(["b", None], ["a", "b"]).tolist()
        [1, -1]
    """
    place: dict[str | None, int] = {name: number for number, name in enumerate(names)}
    return np.array([place.get(name, arrays.NONE) for name in wanted], dtype=np.int64)


def of_names(engine: Engine, sql: str, hashes: arrays.Whole) -> arrays.Whole:
    """Compute a whole number of each unit of sorted hashes, by SQL."""
    # A cast of a column: on Spark a cast becomes a long expression, which repeats what it is of.
    valued = f"select unit_hash, {sql} as value from logged_names"
    table = engine.arrays(f"select unit_hash, cast(value as bigint) as value from ({valued}) as n")
    return _aligned(table["unit_hash"], table["value"], hashes, 0)


def _aligned(
    unit: NDArray[Any], values: NDArray[Any], hashes: arrays.Whole, otherwise: object
) -> NDArray[Any]:
    """Bring values of units, by their hashes, into the order of sorted hashes."""
    place = places_of_hashes(unit.astype(np.int64), hashes)
    aligned = np.full(len(hashes), otherwise, values.dtype)
    aligned[place[place != arrays.NONE]] = values[place != arrays.NONE]
    return aligned


def drawn(engine: Engine, experiment: Experiment, hashes: arrays.Whole) -> arrays.Whole:
    """Draw a number for each unit by the experiment's hash."""
    return of_names(engine, engine.hash60(experiment.salt, _ID), hashes)


def sub_buckets(
    engine: Engine, experiment: Experiment, hashes: arrays.Whole, cells: Cells | None = None
) -> SubBuckets:
    """Return the sub-bucket of each unit, from its cells if they have it."""
    if cells is not None and cells.sub_bucket is not None:
        return cells.sub_bucket[places_of_hashes(hashes, cells.hashes)]
    return (drawn(engine, experiment, hashes) // SLOTS % SUB_BUCKETS).astype(np.int16)


def expected_by_rule(
    engine: Engine, rule: Rule, hashes: arrays.Whole, names: Sequence[str]
) -> arrays.Codes:
    """Find the variant that a rule gives each unit, as an index, or `NONE`."""
    expected = rule_sql(rule, _ID)
    if expected is not None:
        return of_names(
            engine, f"coalesce({numbered(f'({expected})', names)}, {arrays.NONE})", hashes
        )
    # The hash has no form in SQL: ids are fetched, and hashed in Python.
    ids = engine.arrays(f"select unit_hash, {_ID} as id from logged_names")
    code = places_of_names(rule.variants(ids["id"]), names)
    return _aligned(ids["unit_hash"], code, hashes, arrays.NONE)


def write_units(run: Run, shape: LogShape, units: arrays.Units) -> arrays.Units:
    """Create `unit_names` and `units`; add what the units' table says."""
    engine, experiment = run.engine, run.experiment
    number = np.arange(len(units.hash))
    engine.add_arrays("placed_hashes", {"unit_hash": units.hash, "unit_id": number})
    engine.table(
        "unit_names",
        "select p.unit_id, n.logged_id from logged_names n "
        "join placed_hashes p on n.unit_hash = p.unit_hash",
    )
    if shape.table is not None:
        units = _described(run, shape.table, units)
    of_units: dict[str, NDArray[np.generic]] = {
        "unit_id": number,
        "arm": units.variant,
        "stretch": units.stretch,
        "is_new": units.is_new,
        "entered_ms": units.first_ms,
        "crossover": units.crosses,
        **{f"s_{name}": texts.code for name, texts in units.segments.items()},
        **units.covariates,
    }
    engine.add_arrays("placed_units", of_units)
    segments = {quoted(f"s_{name}"): texts.names for name, texts in units.segments.items()}
    columns = [
        "p.unit_id",
        f"{text_of('p.arm', [*experiment.variants])} as variant",
        *("p.stretch", "p.is_new", "p.crossover"),
        f"nullif(p.entered_ms, {arrays.NO_FIRST}) as first_ms",
        f"{sub_bucket_sql(engine, experiment.salt, 'n.logged_id')} as sub_bucket",
        *(f"{text_of(f'p.{name}', names)} as {name}" for name, names in segments.items()),
        *(f"p.{name}" for name in units.covariates),
    ]
    engine.table(
        "units",
        f"select {', '.join(columns)} from placed_units p "
        "join unit_names n on p.unit_id = n.unit_id",
    )
    return units


def text_of(code: str, names: Sequence[str]) -> str:
    """Write SQL of the name that a code stands for."""
    cases = " ".join(f"when {place} then {literal(name)}" for place, name in enumerate(names))
    return f"case {code} {cases} end" if names else "cast(null as varchar)"


def segments_of(
    run: Run, shape: LogShape, cells: Cells, hashes: arrays.Whole, unit_of: arrays.Codes
) -> dict[str, arrays.Labels]:
    """Find the segments of each analysed unit, empty where it has none.

    They are those of its first impression in the period, of its last one before, or of its
    exposure, as the experiment says; a table of units has one value of each.
    """
    experiment = run.experiment
    of_exposures = _of_exposures(run.engine, [*experiment.known_from("exposure")], hashes)
    if not shape.segments:
        return of_exposures
    before = () if experiment.of_units else experiment.known_from("before")
    counts = cells.counts & (unit_of[cells.unit] != arrays.NONE)
    chosen = {side: _chosen(cells, counts, side) for side in {n in before for n in shape.segments}}
    segments = {}
    for number, name in enumerate(shape.segments):
        names = sorted({"", *(kind.segments[number] for kind in cells.kinds)})
        code = places_of_names((kind.segments[number] for kind in cells.kinds), names)
        rows = chosen[name in before]
        start = arrays.heads(cells.unit[rows])
        of_units = np.zeros(len(hashes), dtype=np.int32)
        # Of rows at the same time the least value counts, alike on every run.
        least = arrays.reduced(np.minimum, code[cells.kind[rows]], start)
        of_units[unit_of[cells.unit[rows[start]]]] = least
        segments[name] = arrays.Labels(of_units, names)
    return segments | of_exposures


def check_values(segments: Mapping[str, arrays.Labels]) -> None:
    """Raise if a segment has so many values that it is rather an id.

    Raises:
        LogError: It has more than `MAX_SEGMENT_VALUES`.
    """
    for name, labels in segments.items():
        if len(labels.names) > MAX_SEGMENT_VALUES:
            what = f"segments.{name}: {len(labels.names):,} values, but at most"
            raise LogError(
                f"{what} {MAX_SEGMENT_VALUES:,} are compared",
                "group them, as in \"case when age < 30 then 'young' else 'old' end\"",
            )


def _chosen(cells: Cells, counts: NDArray[np.bool_], is_before: bool) -> arrays.Places:
    """Select each unit's cells of its first time, or its last before the period."""
    rows = np.flatnonzero(counts & (cells.in_period != is_before))
    by, every = (np.maximum, cells.last_ms) if is_before else (np.minimum, cells.first_ms)
    times, start = every[rows], arrays.heads(cells.unit[rows])
    extremes = arrays.reduced(by, times, start)[arrays.runs(start, len(rows))]
    return rows[np.flatnonzero(times == extremes)]


def _of_exposures(
    engine: Engine, names: Sequence[str], hashes: arrays.Whole
) -> dict[str, arrays.Labels]:
    """Find the segments of units at their first exposure."""
    if not names:
        return {}
    engine.view("exposure_segments", query("2_units/exposure_segments"))
    listed = ", ".join(quoted(f"s_{name}") for name in names)
    unit = engine.hash64([same_ids(engine, "exposure_segments")])
    table = engine.arrays(f"select {unit} as unit, {listed} from exposure_segments")
    return {
        name: arrays.labels(_aligned(table["unit"], table[f"s_{name}"].astype(str), hashes, ""))
        for name in names
    }


def _described(run: Run, table: Computed, units: arrays.Units) -> arrays.Units:
    """Add to units what their table says; 0 and empty without a row in it."""
    engine = run.engine
    engine.view("unit_log", views.unit_log_view(run.experiment, table))
    engine.table("described_rows", query("3_rows/described_rows"))
    texts = (quoted(f"s_{name}") for name in table.segments)
    columns = [
        "known_unit_id",
        *(f"coalesce({name}, '') as {name}" for name in texts),
        *(f"cast(coalesce({u}, 0) as bigint) as {u}" for u in table.covariates.values()),
    ]
    rows = engine.arrays(f"select {', '.join(columns)} from described_rows where set_aside is null")
    place = rows["known_unit_id"].astype(np.int64)

    def of_units(column: str, none: object, kind: type) -> NDArray[Any]:
        values: NDArray[Any] = np.full(len(units.hash), none, dtype=kind)
        values[place] = rows[column]
        return values

    segments = {n: arrays.labels(of_units(f"s_{n}", "", object)) for n in table.segments}
    covariates = {u: of_units(u, 0, np.int64) for u in table.covariates.values()}
    return units._replace(segments={**units.segments, **segments}, covariates=covariates)


def missing_note(engine: Engine) -> list[str]:
    """Write a note on analysed units that the table does not have."""
    known = row_count(engine, "described_rows where set_aside is null")
    units = row_count(engine, "units")
    if known == units:
        return []
    return [
        f"{units - known:,} of {units:,} analysed units have no row in the table of units: their "
        "covariates and outcomes there are 0, their segments empty."
    ]
