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
from abeval.engines.builders import write_rule_variant, write_sub_bucket
from abeval.engines.sql import Engine, count_rows, literal, query, quote, write_index
from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.logs import unit_arrays as arrays
from abeval.logs import views
from abeval.logs.cells import LogCells, write_unit_hash
from abeval.logs.run import Run
from abeval.logs.shape import UNITS, ComputedColumns, LogSchema

SubBuckets = NDArray[np.int16]

_ID = "cast(logged_id as varchar)"


def write_names(engine: Engine, schema: LogSchema) -> None:
    """Create the view `logged_names`: the ids of all units, with their hashes."""
    logged = "select unit_id as logged_id from logged_cells where unit_id is not null"
    if schema.impressions.log == UNITS:
        ids_sql = logged
    elif schema.exposures is None:
        ids_sql = f"select distinct logged_id from ({logged}) as ids"
    else:
        ids_sql = (
            f"{logged} union select {write_same_ids(engine, 'exposed')} as logged_id from exposed"
        )
    engine.view(
        "logged_names",
        f"select *, {write_unit_hash(engine, schema, 'logged_id')} as unit_hash "
        f"from ({ids_sql}) as n",
    )


def write_same_ids(engine: Engine, relation: str) -> str:
    """Write the units of another log in the type of the impressions' ids."""
    logged_type, other_type = (
        engine.columns(name)["unit_id"] for name in ("logged_cells", relation)
    )
    return "unit_id" if logged_type == other_type else f"cast(unit_id as {logged_type})"


def find_hash_indices(hashes: arrays.Integers, sorted_hashes: arrays.Integers) -> arrays.Codes:
    """Find the index of each hash among sorted ones, `NONE` where missing.

    Example:
        >>> known = np.array([3, 5])
        >>> find_hash_indices(np.array([5, 4]), known).tolist()
        [1, -1]
    """
    if np.array_equal(hashes, sorted_hashes):
        return np.arange(len(sorted_hashes))
    # Looked for in their order, each is found near the one before it.
    order = np.argsort(hashes)
    index = np.empty(len(hashes), dtype=np.int64)
    index[order] = np.searchsorted(sorted_hashes, hashes[order])
    is_present = np.append(sorted_hashes, arrays.NONE)[index] == hashes
    return np.where(is_present, index, arrays.NONE)


def find_name_indices(texts: Iterable[str | None], names: Iterable[str]) -> arrays.Codes:
    """Find the index of each name among others, `NONE` where missing.

    Example:
        >>> find_name_indices(["b", None], ["a", "b"]).tolist()
        [1, -1]
    """
    index_by_name: dict[str | None, int] = {name: number for number, name in enumerate(names)}
    return np.array([index_by_name.get(name, arrays.NONE) for name in texts], dtype=np.int64)


def _compute_unit_values(engine: Engine, sql: str, hashes: arrays.Integers) -> arrays.Integers:
    """Compute a whole number of each unit of sorted hashes, by SQL."""
    # A cast of a column: on Spark a cast becomes a long expression, which repeats what it is of.
    valued = f"select unit_hash, {sql} as value from logged_names"
    table = engine.arrays(f"select unit_hash, cast(value as bigint) as value from ({valued}) as n")
    return _align_to_hashes(table["unit_hash"], table["value"], hashes, 0)


def _align_to_hashes(
    unit: NDArray[Any], values: NDArray[Any], hashes: arrays.Integers, otherwise: object
) -> NDArray[Any]:
    """Bring values of units, by their hashes, into the order of sorted hashes."""
    index = find_hash_indices(unit.astype(np.int64), hashes)
    aligned = np.full(len(hashes), otherwise, values.dtype)
    aligned[index[index != arrays.NONE]] = values[index != arrays.NONE]
    return aligned


def draw_numbers(
    engine: Engine, experiment: Experiment, hashes: arrays.Integers
) -> arrays.Integers:
    """Draw a number for each unit by the experiment's hash."""
    return _compute_unit_values(engine, engine.hash60(experiment.salt, _ID), hashes)


def assign_sub_buckets(
    engine: Engine, experiment: Experiment, hashes: arrays.Integers, cells: LogCells | None = None
) -> SubBuckets:
    """Return the sub-bucket of each unit, from its cells if they have it."""
    if cells is not None and cells.sub_bucket is not None:
        return cells.sub_bucket[find_hash_indices(hashes, cells.hashes)]
    if cells is not None and cells.are_numbered:
        # Numbers need no rows of the frame.
        drawn = f"cast({write_sub_bucket(engine, experiment.salt, 'number')} as smallint) as drawn"
        rows = f"range(1, {len(cells.hashes) + 1}) as r (number)"
        return engine.compute(f"select {drawn} from {rows}")["drawn"][hashes - 1].astype(np.int16)
    return (draw_numbers(engine, experiment, hashes) // SLOTS % SUB_BUCKETS).astype(np.int16)


def apply_rule(
    engine: Engine, rule: Rule, hashes: arrays.Integers, names: Sequence[str]
) -> arrays.Codes:
    """Find the variant that a rule gives each unit, as an index, or `NONE`."""
    expected = write_rule_variant(rule, _ID)
    if expected is not None:
        return _compute_unit_values(
            engine, f"coalesce({write_index(f'({expected})', names)}, {arrays.NONE})", hashes
        )
    # The hash has no form in SQL: ids are fetched, and hashed in Python.
    ids = engine.arrays(f"select unit_hash, {_ID} as id from logged_names")
    code = find_name_indices(rule.variants(ids["id"]), names)
    return _align_to_hashes(ids["unit_hash"], code, hashes, arrays.NONE)


def write_units(run: Run, schema: LogSchema, units: arrays.Units) -> arrays.Units:
    """Create `unit_names` and `units`; add what the units' table says."""
    engine, experiment = run.engine, run.experiment
    number = np.arange(len(units.hash))
    engine.add_arrays("placed_hashes", {"unit_hash": units.hash, "unit_id": number})
    engine.table(
        "unit_names",
        "select p.unit_id, n.logged_id from logged_names n "
        "join placed_hashes p on n.unit_hash = p.unit_hash",
    )
    if schema.table is not None:
        units = _add_unit_table(run, schema.table, units)
    of_units: dict[str, NDArray[np.generic]] = {
        "unit_id": number,
        "arm": units.variant,
        "stretch": units.split_period,
        "is_new": units.is_new,
        "entered_ms": units.first_ms,
        "crossover": units.crosses,
        **{f"s_{name}": texts.code for name, texts in units.segments.items()},
        **units.covariates,
    }
    engine.add_arrays("placed_units", of_units)
    segments = {quote(f"s_{name}"): texts.names for name, texts in units.segments.items()}
    columns = [
        "p.unit_id",
        f"{write_code_names('p.arm', [*experiment.variants])} as variant",
        *("p.stretch", "p.is_new", "p.crossover"),
        f"nullif(p.entered_ms, {arrays.NO_FIRST}) as first_ms",
        f"{write_sub_bucket(engine, experiment.salt, 'n.logged_id')} as sub_bucket",
        *(f"{write_code_names(f'p.{name}', names)} as {name}" for name, names in segments.items()),
        *(f"p.{name}" for name in units.covariates),
    ]
    engine.table(
        "units",
        f"select {', '.join(columns)} from placed_units p "
        "join unit_names n on p.unit_id = n.unit_id",
    )
    return units


def write_code_names(code: str, names: Sequence[str]) -> str:
    """Write SQL of the name that a code stands for."""
    cases = " ".join(f"when {number} then {literal(name)}" for number, name in enumerate(names))
    return f"case {code} {cases} end" if names else "cast(null as varchar)"


def find_segments(
    run: Run, schema: LogSchema, cells: LogCells, hashes: arrays.Integers, unit_index: arrays.Codes
) -> dict[str, arrays.Labels]:
    """Find the segments of each analysed unit, empty where it has none.

    They are those of its first impression in the period, of its last one before, or of its
    exposure, as the experiment says; a table of units has one value of each.
    """
    experiment = run.experiment
    of_exposures = _find_exposure_segments(run.engine, [*experiment.known_from("exposure")], hashes)
    if not schema.segments:
        return of_exposures
    before = () if experiment.is_unit_table else experiment.known_from("before")
    counts = cells.counts & (unit_index[cells.unit] != arrays.NONE)
    chosen = {
        side: _select_cells(cells, counts, side) for side in {n in before for n in schema.segments}
    }
    segments = {}
    for number, name in enumerate(schema.segments):
        names = sorted({"", *(kind.segments[number] for kind in cells.kinds)})
        code = find_name_indices((kind.segments[number] for kind in cells.kinds), names)
        rows = chosen[name in before]
        start = arrays.run_starts(cells.unit[rows])
        of_units = np.zeros(len(hashes), dtype=np.int32)
        # Of rows at the same time the least value counts, alike on every run.
        least = arrays.reduce_runs(np.minimum, code[cells.kind[rows]], start)
        of_units[unit_index[cells.unit[rows[start]]]] = least
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


def _select_cells(cells: LogCells, counts: NDArray[np.bool_], is_before: bool) -> arrays.Indices:
    """Select each unit's cells of its first time, or its last before the period."""
    rows = np.flatnonzero(counts & (cells.in_period != is_before))
    by, every = (np.maximum, cells.last_ms) if is_before else (np.minimum, cells.first_ms)
    times, start = every[rows], arrays.run_starts(cells.unit[rows])
    extremes = arrays.reduce_runs(by, times, start)[arrays.run_numbers(start, len(rows))]
    return rows[np.flatnonzero(times == extremes)]


def _find_exposure_segments(
    engine: Engine, names: Sequence[str], hashes: arrays.Integers
) -> dict[str, arrays.Labels]:
    """Find the segments of units at their first exposure."""
    if not names:
        return {}
    engine.view("exposure_segments", query("2_units/exposure_segments"))
    columns_sql = ", ".join(quote(f"s_{name}") for name in names)
    unit = engine.hash64([write_same_ids(engine, "exposure_segments")])
    table = engine.arrays(f"select {unit} as unit, {columns_sql} from exposure_segments")
    return {
        name: arrays.encode_labels(
            _align_to_hashes(table["unit"], table[f"s_{name}"].astype(str), hashes, "")
        )
        for name in names
    }


def _add_unit_table(run: Run, table: ComputedColumns, units: arrays.Units) -> arrays.Units:
    """Add to units what their table says; 0 and empty without a row in it."""
    engine = run.engine
    engine.view("unit_log", views.write_unit_log_view(run.experiment, table))
    engine.table("described_rows", query("3_rows/described_rows"))
    texts = (quote(f"s_{name}") for name in table.segments)
    columns = [
        "known_unit_id",
        *(f"coalesce({name}, '') as {name}" for name in texts),
        *(f"cast(coalesce({u}, 0) as bigint) as {u}" for u in table.covariates.values()),
    ]
    rows = engine.arrays(f"select {', '.join(columns)} from described_rows where set_aside is null")
    unit_index = rows["known_unit_id"].astype(np.int64)

    def fill_column(column: str, none: object, kind: type) -> NDArray[Any]:
        values: NDArray[Any] = np.full(len(units.hash), none, dtype=kind)
        values[unit_index] = rows[column]
        return values

    segments = {n: arrays.encode_labels(fill_column(f"s_{n}", "", object)) for n in table.segments}
    covariates = {u: fill_column(u, 0, np.int64) for u in table.covariates.values()}
    return units._replace(segments={**units.segments, **segments}, covariates=covariates)


def note_units_without_row(engine: Engine) -> list[str]:
    """Note how many analysed units have no row in the table of units.

    There is no note if all units have a row.
    """
    described = count_rows(engine, "described_rows where set_aside is null")
    units = engine.count("units")
    if described == units:
        return []
    return [
        f"{units - described:,} of {units:,} analysed units have no row in the table of units: "
        "their covariates and outcomes there are 0, their segments empty."
    ]
