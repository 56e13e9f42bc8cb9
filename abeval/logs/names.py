"""The ids of units as logged, for what hashes them, and for queries that read rows of units.

Arrays know a unit by its place only; `placing.py` asks for draws of its id, `prepare.py` writes the
relations of units that queries join with rows of the logs.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from abeval.assignment import SLOTS, SUB_BUCKETS
from abeval.assignment.draws import Rule
from abeval.engines.builders import rule_sql, sub_bucket_sql
from abeval.engines.protocol import Engine
from abeval.engines.sql import literal, numbered, quoted
from abeval.experiment.model import Experiment
from abeval.logs.cells import Cells
from abeval.logs.shape import UNITS, LogShape
from abeval.logs.unit_arrays import NO_FIRST, NONE, Codes, Units, Whole

SubBuckets = NDArray[np.int16]

_ID = "cast(logged_id as varchar)"


def write_names(engine: Engine, shape: LogShape) -> None:
    """Show the ids of all units as `logged_names`: `logged_id`, and its hash as `unit_hash`."""
    logged = "select unit_id as logged_id from logged_sums where unit_id is not null"
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
    """SQL of the units of another log, as the type that they have in the impressions."""
    own, other = (engine.columns(name)["unit_id"] for name in ("logged_sums", relation))
    return "unit_id" if own == other else f"cast(unit_id as {own})"


def places_of_hashes(wanted: Whole, known: Whole) -> Codes:
    """Find the place of each hash among sorted ones, `NONE` where it is not among them.

    Example:
        >>> known = np.array([3, 5])
        >>> places_of_hashes(np.array([5, 4]), known).tolist()
        [1, -1]
    """
    if not len(known):
        return np.full(len(wanted), NONE)
    if np.array_equal(wanted, known):
        return np.arange(len(known))
    if (wanted[1:] < wanted[:-1]).any():
        # In order, each look-up is beside the one before: many times as fast.
        order = np.argsort(wanted)
        places = np.empty(len(wanted), dtype=np.int64)
        places[order] = places_of_hashes(wanted[order], known)
        return places
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, place, NONE)


def place_of(names: Sequence[str], name: str | None) -> int:
    """The place of a name, `NONE` where it is not there."""
    return names.index(name) if name in names else NONE


def of_names(engine: Engine, sql: str, hashes: Whole) -> Whole:
    """A whole number of each unit's id.

    Args:
        engine: After `write_names`.
        sql: Over `logged_id`, never null.
        hashes: Of the units, sorted.
    """
    # A cast of a column: on Spark a cast becomes a long expression, which repeats what it is of.
    valued = f"select unit_hash, {sql} as value from logged_names"
    arrays = engine.arrays(f"select unit_hash, cast(value as bigint) as value from ({valued}) as n")
    place = places_of_hashes(arrays["unit_hash"].astype(np.int64), hashes)
    values = np.zeros(len(hashes), dtype=np.int64)
    values[place[place != NONE]] = arrays["value"][place != NONE]
    return values


def drawn(engine: Engine, experiment: Experiment, hashes: Whole) -> Whole:
    """The number that the experiment's own hash draws for each unit."""
    return of_names(engine, engine.hash60(experiment.salt, _ID), hashes)


def sub_buckets(
    engine: Engine, experiment: Experiment, hashes: Whole, cells: Cells | None = None
) -> SubBuckets:
    """The sub-bucket of each unit; that of its cells, where the pass asked for it."""
    if cells is not None and cells.sub_bucket is not None:
        return cells.sub_bucket[places_of_hashes(hashes, cells.hashes)]
    return (drawn(engine, experiment, hashes) // SLOTS % SUB_BUCKETS).astype(np.int16)


def expected_by_rule(engine: Engine, rule: Rule, hashes: Whole, names: Sequence[str]) -> Codes:
    """The variant that a rule gives each unit, a place in `names`; `NONE` where it gives none."""
    expected = rule_sql(rule, _ID)
    if expected is not None:
        return of_names(engine, f"coalesce({numbered(f'({expected})', names)}, {NONE})", hashes)
    ids = engine.arrays(f"select unit_hash, {_ID} as id from logged_names")
    code = np.array([place_of(names, variant) for variant in rule.variants(ids["id"])])
    place = places_of_hashes(ids["unit_hash"].astype(np.int64), hashes)
    values = np.full(len(hashes), NONE)
    values[place[place != NONE]] = code[place != NONE]
    return values


def write_unit_names(engine: Engine, units: Units) -> None:
    """Create `unit_names`: the place and the id as logged of each analysed unit."""
    places = {"unit_hash": units.hash, "unit_id": np.arange(len(units.hash))}
    engine.add_arrays("placed_hashes", places)
    engine.table(
        "unit_names",
        "select p.unit_id, n.logged_id from logged_names n "
        "join placed_hashes p on n.unit_hash = p.unit_hash",
    )


def write_units(engine: Engine, experiment: Experiment, units: Units) -> None:
    """Create `units`: what is known of each analysed unit, for queries over rows of the logs."""
    of_units: dict[str, NDArray[np.generic]] = {
        "unit_id": np.arange(len(units.hash)),
        "arm": units.variant,
        "stretch": units.stretch,
        "is_new": units.is_new,
        "entered_ms": units.first_ms,
        "crossover": units.crosses,
        **{f"s_{name}": labels.code for name, labels in units.segments.items()},
        **units.covariates,
    }
    engine.add_arrays("placed_units", of_units)
    segments = {quoted(f"s_{name}"): labels.names for name, labels in units.segments.items()}
    texts = [f"{_text(f'p.{name}', texts)} as {name}" for name, texts in segments.items()]
    columns = [
        "p.unit_id",
        f"{_text('p.arm', [*experiment.variants])} as variant",
        *("p.stretch", "p.is_new", "p.crossover"),
        f"nullif(p.entered_ms, {NO_FIRST}) as first_ms",
        f"{sub_bucket_sql(engine, experiment.salt, 'n.logged_id')} as sub_bucket",
        *texts,
        *(f"p.{name}" for name in units.covariates),
    ]
    engine.table(
        "units",
        f"select {', '.join(columns)} from placed_units p "
        "join unit_names n on p.unit_id = n.unit_id",
    )


def _text(code: str, names: Sequence[str]) -> str:
    """SQL of the name that a code stands for."""
    cases = " ".join(f"when {place} then {literal(name)}" for place, name in enumerate(names))
    return f"case {code} {cases} end" if names else "cast(null as varchar)"
