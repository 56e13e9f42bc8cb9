"""The variant of each unit, from the cells of the log, the exposures, and the rule of assignment.

`prepare.py` calls it after the pass. A unit is placed by what the log shows first, or by its rule;
why units are set aside, and when they entered, follow from the same cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.assignment import SLOTS, Assignment
from abeval.engines.protocol import Engine
from abeval.engines.sql import numbered
from abeval.experiment.model import Experiment
from abeval.logs import checks
from abeval.logs.cells import Cells
from abeval.logs.run import Run
from abeval.logs.shape import LogShape
from abeval.logs.unit_arrays import NO_FIRST, NONE, Codes, Units, Whole, heads, reduced, runs, where
from abeval.logs.units import (
    drawn,
    expected_by_rule,
    place_of,
    places_of_hashes,
    same_ids,
    segments_of,
)

REASONS = ("crossover", "tied_crossover", "no_variant", "not_in_experiment")
"""Why a unit is not analysed."""


class Logged(NamedTuple):
    """Where logs show the units that might be analysed, sorted by hash.

    Attributes:
        hashes: Of the units, shape (units,).
        first_ms: First impression in the period, or exposure; `NO_FIRST` without a time.
        low: The lowest variant that the log shows them in, by name.
        high: The highest.
        first: Of those that it shows in several: the first, `NONE` where the log does not tell.
        names: Every variant that a log names or the file has, sorted; variants are places in it.
    """

    hashes: Whole
    first_ms: Whole
    low: Codes
    high: Codes
    first: Codes
    names: Sequence[str]

    @property
    def crosses(self) -> NDArray[np.bool_]:
        """Whether the log shows a unit in more than one variant."""
        return np.not_equal(self.low, self.high)


@dataclass(frozen=True, eq=False)
class Placed:
    """The units that might be analysed, and which of them are.

    Attributes:
        logged: Where logs show them.
        variant: Where they are placed, a place in `logged.names`.
        expected: Where the rule of assignment places them; None without a rule.
        tied: Whether the log does not tell which of their variants was first.
        set_aside: Place in `REASONS`, `NONE` for units that are analysed.
        place: The place here of each unit of the cells, `NONE` for units that are not here.
        units: The analysed units.
        analysed: The place of each unit in `units`, `NONE` for those that are not analysed.
        entered: When the analysed units entered.
        stretches: Stretches of one split each; none where it did not change.
    """

    logged: Logged
    variant: Codes
    expected: Codes | None
    tied: NDArray[np.bool_]
    set_aside: Codes
    place: Codes
    units: Units
    analysed: Codes
    entered: Sequence[Entered]
    stretches: Stretches

    @cached_property
    def unit_of(self) -> Codes:
        """The place in `units` of each unit of the cells, `NONE` where it is not analysed."""
        return at(self.analysed, self.place)


def at(values: Codes, places: Codes) -> Codes:
    """The values at places, `NONE` where there is no place."""
    return np.append(values, NONE)[places]


def place_units(run: Run, shape: LogShape, cells: Cells) -> Placed:
    """Place every unit that has an impression in the period, or was exposed."""
    experiment, engine = run.experiment, run.engine
    by = _placement(experiment, shape)
    changes = len(planned_splits(experiment)) > 1
    checks.check_schedule(changes, knows_entries(shape), by != "log")
    named = {kind.variant for kind in cells.kinds if kind.variant is not None}
    logged = seen_units(cells, sorted(named | {*experiment.variants}))
    if shape.exposures is not None:
        logged = exposed_units(engine, logged)
    rule = experiment.assignment_rule
    expected = None
    if rule is not None:
        expected = expected_by_rule(engine, rule, logged.hashes, logged.names)
    tied = logged.crosses & (logged.first == NONE) & (by == "log")
    if by == "log":
        ties = _ties(experiment, engine, logged, tied, expected)
        variant = np.where(logged.crosses, np.where(tied, ties, logged.first), logged.low)
    elif by == "rule" and expected is not None:
        variant = expected
    else:
        variant = _by_slot(experiment, engine, logged)
    set_aside = _set_aside(experiment, logged, variant, tied)
    if by == "hash":
        set_aside[variant == NONE] = REASONS.index("not_in_experiment")
    is_analysed = set_aside == NONE
    chosen = where(is_analysed)
    analysed = np.where(is_analysed, np.cumsum(is_analysed) - 1, NONE)
    place = places_of_hashes(cells.hashes, logged.hashes)
    arms = np.array([place_of([*experiment.variants], name) for name in logged.names])
    arm, first_ms = arms[variant[chosen]], logged.first_ms[chosen]
    entries = entered(experiment, first_ms, arm) if knows_entries(shape) else []
    stretches = stretches_of(experiment, entries) if entries else ()
    unit_of = at(analysed, place)
    units = Units(
        hash=logged.hashes[chosen],
        variant=arm.astype(np.int8),
        stretch=stretch_of(experiment, first_ms, stretches),
        is_new=_is_new(cells, unit_of, len(arm)),
        first_ms=first_ms,
        segments=segments_of(experiment, engine, shape, cells, logged.hashes[chosen], unit_of),
        covariates={},
        crosses=logged.crosses[chosen],
    )
    return Placed(
        *(logged, variant, expected, tied, set_aside, place),
        *(units, analysed, entries, stretches),
    )


def seen_units(cells: Cells, names: Sequence[str]) -> Logged:
    """Find the units with an impression that counts in the period, and where the log shows them."""
    code = np.array([place_of(names, kind.variant) for kind in cells.kinds], dtype=np.int64)
    rows = where(cells.counts & cells.in_period)
    unit, variant, first = cells.unit[rows], code[cells.kind[rows]], cells.first_ms[rows]
    start = heads(unit)
    first_ms = reduced(np.minimum, first, start)
    high = reduced(np.maximum, variant, start)
    named = np.where(variant == NONE, len(names), variant)
    low = np.minimum(reduced(np.minimum, named, start), high)
    # Of units in several variants: the cells that may hold their first impression.
    run = runs(start, len(unit))
    several = (low != high)[run] & ((first == first_ms[run]) | (first == NO_FIRST))
    run, variant = run[several], variant[several]
    own = heads(run)
    least, most = (reduced(by, variant, own) for by in (np.minimum, np.maximum))
    first_variant = np.full(len(start), NONE)
    first_variant[run[own]] = np.where(least == most, most, NONE)
    return Logged(cells.hashes[unit[start]], first_ms, low, high, first_variant, names)


def exposed_units(engine: Engine, seen: Logged) -> Logged:
    """Every exposed unit, active or not; where the exposures name no variant, the log does."""
    rows = engine.rows("select distinct variant_low, variant_high from exposed")
    named = {str(name) for row in rows for name in row if name is not None}
    names = sorted({*seen.names, *named})
    columns = ("variant_low", "variant_high", "first_variant")
    listed = ", ".join(
        f"cast(coalesce({numbered(name, names)}, {NONE}) as bigint) as {name}" for name in columns
    )
    arrays = engine.arrays(
        f"select {engine.hash64([same_ids(engine, 'exposed')])} as unit, "
        f"cast(coalesce(first_ms, {NO_FIRST}) as bigint) as first_ms, {listed} from exposed"
    )
    order = np.argsort(arrays["unit"])
    hashes, first_ms, *exposed = (
        arrays[name][order].astype(np.int64) for name in ("unit", "first_ms", *columns)
    )
    renumbered = np.array([names.index(name) for name in seen.names])
    place = places_of_hashes(hashes, seen.hashes)
    of_log = (at(at(renumbered, own), place) for own in (seen.low, seen.high, seen.first))
    is_named = exposed[0] != NONE
    low, high, first = (
        np.where(is_named, own, log) for own, log in zip(exposed, of_log, strict=True)
    )
    return Logged(hashes, first_ms, low, high, first, names)


def _ties(
    experiment: Experiment,
    engine: Engine,
    logged: Logged,
    tied: NDArray[np.bool_],
    expected: Codes | None,
) -> Codes:
    """Where units are placed of which the log does not tell the first variant."""
    if experiment.ties == "rule" and expected is not None:
        return expected
    if experiment.ties == "weight" and tied.any():
        return _by_slot(experiment, engine, logged)
    return np.full(len(tied), NONE)


def _by_slot(experiment: Experiment, engine: Engine, logged: Logged) -> Codes:
    """The variant that owns the slot of each unit."""
    weights = {name: variant.weight for name, variant in experiment.variants.items()}
    slots = drawn(engine, experiment, logged.hashes) % SLOTS
    variant = np.full(len(slots), NONE)
    for one in Assignment(experiment.salt, weights).ranges:
        variant[(slots >= one.start) & (slots < one.stop)] = logged.names.index(one.variant)
    return variant


def _set_aside(
    experiment: Experiment, logged: Logged, variant: Codes, tied: NDArray[np.bool_]
) -> Codes:
    """Why each unit is not analysed; of several reasons the first of `REASONS`."""
    is_compared = np.array([*(name in experiment.variants for name in logged.names), False])
    excludes = experiment.cleaning.crossover == "exclude"
    tests = (logged.crosses & excludes, tied & (variant == NONE), ~is_compared[variant])
    return np.select(tests, range(len(tests)), NONE)


def _is_new(cells: Cells, unit_of: Codes, units: int) -> NDArray[np.int8]:
    """1 for each analysed unit that has no impression before the period."""
    before = unit_of[cells.unit[cells.counts & ~cells.in_period]]
    is_new = np.ones(units + 1, dtype=np.int8)
    is_new[before] = 0
    return is_new[:units]


def _placement(experiment: Experiment, shape: LogShape) -> Literal["log", "hash", "rule"]:
    """What places a unit: the log, its own hash, or another rule."""
    as_assigned = experiment.cleaning.crossover == "as_assigned"
    rule = experiment.assignment
    if rule is None or not experiment.assigns or (names_variant(shape) and not as_assigned):
        return "log"
    return "hash" if rule.is_plain else "rule"


def knows_entries(shape: LogShape) -> bool:
    """Whether the logs say when a unit entered."""
    return shape.has_time or (shape.exposures is not None and "ts" in shape.exposures)


def names_variant(shape: LogShape) -> bool:
    """Whether a log says which variant a unit was in."""
    by_exposure = shape.exposures is not None and "variant" in shape.exposures
    return shape.names_variant or by_exposure
