"""Find what the log has of assigned units while they were not exposed.

With a log of exposures, only exposed units are analysed. The rest of the traffic says how much of
the site the experiment touched, and proves that the trigger is right: nothing reached those units,
so they must not differ between variants (Deng & Hu 2015).
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.logs import unit_arrays as arrays
from abeval.logs import units
from abeval.logs.cells import IN_PERIOD, LogCells
from abeval.logs.placing import (
    UnitAssignment,
    find_observed_units,
    look_up_values,
    number_split_periods,
)
from abeval.logs.run import Run

_MOST_UNKNOWN = 0.01
"""Largest share without a variant of the units that may have been assigned."""

_NEAR_MS = 300_000
_AT_ONCE_MS = 1_000
_GRAINS_MS = (3_600_000, 60_000, 1_000)
_MOST_ON_GRAIN = 0.99


class Unexposed(NamedTuple):
    """Hold the sums of impressions without an exposure, by unit.

    Attributes:
        units: Analysed units with impressions before their exposure, and units never exposed.
        sums: `c_1`, … → sums over those impressions of the period, shape (units,).
        is_never: Whether each unit was never exposed.
    """

    units: arrays.Units
    sums: Mapping[str, arrays.Integers]
    is_never: NDArray[np.bool_]


def find_unexposed(run: Run, cells: LogCells, assignment: UnitAssignment) -> Unexposed | None:
    """Find the assigned units' impressions without exposure; None without any.

    Units that neither the log nor the rule gives a variant of the experiment are left out. If there
    are more than a few without any variant, nobody knows which of them were assigned: None.
    """
    if run.experiment.logs.exposures is None or assignment.units.clusters is not None:
        return None
    rows = _find_unexposed_rows(cells)
    is_never = assignment.candidate_index == arrays.NONE
    variant = look_up_values(assignment.units.variant.astype(np.int64), assignment.unit_index)
    never = rows[is_never[cells.unit[rows]]]
    if len(never):
        hashes, of_never, unknown = _find_variants(run, cells, never)
        if unknown > _MOST_UNKNOWN * (unknown + (of_never != arrays.NONE).sum()):
            return None
        variant[units.find_hash_indices(hashes, cells.hashes)] = of_never
    rows = rows[variant[cells.unit[rows]] != arrays.NONE]
    if not len(rows):
        return None
    start = arrays.run_starts(cells.unit[rows])
    unit = cells.unit[rows][start]
    zeros = np.zeros(len(unit), dtype=np.int8)
    first_ms = arrays.reduce_runs(np.minimum, cells.first_ms[rows], start)
    return Unexposed(
        units=arrays.Units(
            hash=cells.hashes[unit],
            variant=variant[unit].astype(np.int8),
            split_period=number_split_periods(run.experiment, first_ms, assignment.split_periods),
            is_new=zeros,
            first_ms=first_ms,
            segments={},
            covariates={},
            crosses=zeros.astype(bool),
        ),
        sums={name: arrays.sum_runs(column[rows], start) for name, column in cells.sums.items()},
        is_never=is_never[unit],
    )


class NearRows(NamedTuple):
    """Count impressions that come just before the exposure of their unit.

    `ms` is their median distance, and `grain` the seconds to which exposures are written, 0 if
    impressions are not written finer.
    """

    rows: int
    ms: int
    grain: int


def count_near_rows(cells: LogCells, assignment: UnitAssignment) -> NearRows | None:
    """Count impressions just before their unit's exposure; None without any.

    They are those of the last five minutes before it (the last second, or the grain of the times of
    exposures) if the unit's next impression is further from the exposure. A trigger that works
    is logged with what is shown then.
    """
    exposed_ms = look_up_values(assignment.logged.first_ms, assignment.candidate_index)
    exposed_ms = np.where(assignment.candidate_index == arrays.NONE, arrays.NO_FIRST, exposed_ms)
    rows = _find_unexposed_rows(cells)
    is_exposed = exposed_ms[cells.unit[rows]] != arrays.NO_FIRST
    rows = rows[is_exposed & (cells.last_ms[rows] != arrays.NO_LAST)]
    if not len(rows):
        return None
    unit = cells.unit[rows]
    before = exposed_ms[unit] - cells.last_ms[rows]
    grain = _find_grain(exposed_ms[exposed_ms != arrays.NO_FIRST], cells.last_ms[rows])
    # The nearest of a unit's impressions after its exposure.
    next_ms = np.full(len(cells.hashes), arrays.NO_FIRST)
    shown = np.flatnonzero(cells.counts & cells.in_period)
    np.minimum.at(next_ms, cells.unit[shown], cells.first_ms[shown])
    nearest = np.minimum.reduceat(before, starts := arrays.run_starts(unit))
    nearest = nearest[arrays.run_numbers(starts, len(unit))]
    is_near = (nearest <= max(_AT_ONCE_MS, grain)) | (nearest < next_ms[unit] - exposed_ms[unit])
    chosen = np.flatnonzero(is_near & (before <= max(_NEAR_MS, grain)))
    if not len(chosen):
        return None
    return NearRows(
        rows=int(cells.sums["c_1"][rows[chosen]].sum()),
        ms=int(np.median(before[chosen])),
        grain=grain // 1_000,
    )


def _find_unexposed_rows(cells: LogCells) -> arrays.Indices:
    """Find cells of the period's impressions without an earlier exposure of the unit."""
    unexposed = [k.set_aside == "not_exposed" and k.phase == IN_PERIOD for k in cells.kinds]
    return np.flatnonzero(np.array(unexposed, dtype=bool)[cells.kind])


def _find_grain(exposed_ms: arrays.Integers, impression_ms: arrays.Integers) -> int:
    """Find the grain of exposure times in ms; 0 unless impression times are finer."""
    for grain in _GRAINS_MS:
        if (exposed_ms % grain == 0).mean() >= _MOST_ON_GRAIN > (impression_ms % grain == 0).mean():
            return grain
    return 0


def _find_variants(
    run: Run, cells: LogCells, rows: arrays.Indices
) -> tuple[arrays.Integers, arrays.Codes, int]:
    """Find the variants of units that were never exposed: by log, else by rule.

    Also count the units of which nobody knows the variant.
    """
    experiment = run.experiment
    logged = {kind.variant for kind in cells.kinds if kind.variant is not None}
    seen = find_observed_units(cells, sorted(logged | {*experiment.variants}), rows)
    of_crossovers = arrays.NONE if experiment.cleaning.crossover == "exclude" else seen.first
    variant = np.where(seen.crosses, of_crossovers, seen.low)
    rule, by_rule = experiment.assignment_rule, experiment.cleaning.crossover == "as_assigned"
    if rule is not None:
        expected = units.apply_rule(run.engine, rule, seen.hashes, seen.names)
        variant = np.where(by_rule | (seen.low == arrays.NONE), expected, variant)
    arms = units.find_name_indices(seen.names, experiment.variants)
    unknown = int((seen.low == arrays.NONE).sum()) if rule is None else 0
    return seen.hashes, look_up_values(arms, variant), unknown
