"""Find the variant of each unit, from log cells, exposures and the rule.

Where 10 % became 50 %, treatment's units entered later than control's, and whatever differs between
early and late units looks like an effect (Simpson's paradox). So units are compared within split
periods: entry days over which traffic was split alike. First impressions alone do not tell a ramp
from a treatment that moves them, so the file has to say how units were assigned, or when.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.assignment import SLOTS, Assignment
from abeval.engines.builders import convert_to_local_ms
from abeval.engines.sql import Engine, write_index
from abeval.experiment.model import Experiment
from abeval.experiment.sections import convert_to_datetime
from abeval.experiment.sources import ROW_UNIT
from abeval.logs import checks, units
from abeval.logs import unit_arrays as arrays
from abeval.logs.cells import LogCells
from abeval.logs.clusters import find_clusters, find_slots
from abeval.logs.run import Run
from abeval.logs.shape import LogSchema
from abeval.stats import srm


class Enrollment(NamedTuple):
    """Count units of a variant that entered in one hour of a local day (ISO).

    `planned` is the number of the scheduled split then.
    """

    planned: int
    entry_day: str
    entry_hour: int
    variant: str
    units: int


@dataclass(frozen=True)
class SplitPeriod:
    """Describe a split period: entry days on which traffic was split alike.

    `start` is its first local day, or the local time at which its split began (ISO). `units` are
    the analysed units that entered in it, by variant; `weights` are None without a schedule.
    """

    start: str
    end: str
    units: Mapping[str, int]
    weights: Mapping[str, float] | None

    @property
    def shares(self) -> dict[str, float]:
        """Return variant → its share of the units."""
        total = max(sum(self.units.values()), 1)
        return {name: n / total for name, n in self.units.items()}


SplitPeriods = tuple[SplitPeriod, ...]
"""In order of time; none where the split did not change, or where the log has no time."""


class PlannedSplit(NamedTuple):
    """Hold the planned weights of the variants from a local time on.

    `start` is None for the beginning.
    """

    start: datetime | None
    weights: Mapping[str, float]


def list_planned_splits(experiment: Experiment) -> list[PlannedSplit]:
    """List the planned splits in order, without those that change nothing."""
    first = {name: variant.weight for name, variant in experiment.variants.items()}
    plans = [PlannedSplit(None, first)]
    for split in experiment.schedule:
        weights = {name: split.weights[name] for name in first}
        if _normalise_weights(weights) != _normalise_weights(plans[-1].weights):
            plans.append(PlannedSplit(convert_to_datetime(split.start), weights))
    return plans


def _normalise_weights(weights: Mapping[str, float]) -> dict[str, float]:
    total = sum(weights.values())
    # Rounded, so that weights 1:1 and 50:50 are one split.
    return {name: round(weight / total, 12) for name, weight in weights.items()}


def _count_enrollments(
    experiment: Experiment, first_ms: arrays.Integers, variant: arrays.Integers
) -> list[Enrollment]:
    """Count the units that entered in each scheduled split, hour and variant."""
    has_time = first_ms != arrays.NO_FIRST
    local = convert_to_local_ms(first_ms[has_time], experiment.timezone)
    starts = [plan.start for plan in list_planned_splits(experiment)[1:] if plan.start is not None]
    names = [*experiment.variants]
    hours = arrays.count_combinations(
        _count_passed(local, starts), local // _HOUR_MS, variant[has_time]
    )
    return sorted(
        Enrollment(planned, str(np.datetime64(hour // 24, "D")), hour % 24, names[arm], units)
        for planned, hour, arm, units in hours
    )


def group_enrollments(
    experiment: Experiment, counts: Iterable[Enrollment], cell: Callable[[Enrollment], str]
) -> dict[str, list[int]]:
    """Count enrollments by cell, such as their day, and by variant."""
    variant_index = {variant: i for i, variant in enumerate(experiment.variants)}
    table: dict[str, list[int]] = {}
    for row in counts:
        table.setdefault(cell(row), [0] * len(variant_index))[variant_index[row.variant]] += (
            row.units
        )
    return dict(sorted(table.items()))


def find_split_periods(experiment: Experiment, counts: Sequence[Enrollment]) -> SplitPeriods:
    """Split the period wherever the traffic split changed."""
    return find_enrollment_periods(experiment, counts) if knows_assignment(experiment) else ()


def find_enrollment_periods(experiment: Experiment, counts: Sequence[Enrollment]) -> SplitPeriods:
    """Find split periods as scheduled, else as enrollments show.

    There are none if the split did not change.
    """
    split_periods = [
        split_period
        for number, plan in enumerate(list_planned_splits(experiment))
        for split_period in _find_periods_of_plan(
            experiment, plan, [o for o in counts if o.planned == number]
        )
    ]
    # A single period needs no stratification.
    return tuple(split_periods) if len(split_periods) > 1 else ()


def _is_declared(experiment: Experiment) -> bool:
    """Tell whether the file says how traffic was split."""
    return bool(experiment.schedule) or experiment.assignment_rule is not None


def knows_assignment(experiment: Experiment) -> bool:
    """Tell whether the file says how units were assigned, or when."""
    return _is_declared(experiment) or experiment.logs.exposures is not None


def _find_periods_of_plan(
    experiment: Experiment, plan: PlannedSplit, counts: Sequence[Enrollment]
) -> list[SplitPeriod]:
    """Find the split periods of one planned split, which may be several."""
    if not counts:
        return []
    by_day = group_enrollments(experiment, counts, lambda row: row.entry_day)
    days, table = list(by_day), np.array(list(by_day.values()))
    # Rows of one user come together: counts of rows vary more than the search allows for.
    is_one = _is_declared(experiment) or experiment.unit == ROW_UNIT
    day_ranges = [range(len(days))] if is_one else srm.find_split_periods(table)
    # A scheduled split may begin within its first day.
    starts = [days[part.start] for part in day_ranges]
    if plan.start is not None and plan.start > datetime.fromisoformat(starts[0]):
        starts[0] = plan.start.isoformat(" ")
    weights = plan.weights if experiment.schedule else None
    sums = [table[list(part)].sum(axis=0).tolist() for part in day_ranges]
    return [
        SplitPeriod(
            start, days[part[-1]], dict(zip(experiment.variants, units, strict=True)), weights
        )
        for start, part, units in zip(starts, day_ranges, sums, strict=True)
    ]


def number_split_periods(
    experiment: Experiment, first_ms: arrays.Integers, split_periods: SplitPeriods
) -> NDArray[np.int16]:
    """Number the split period in which each unit entered, 0 if unknown."""
    starts = [datetime.fromisoformat(split_period.start) for split_period in split_periods[1:]]
    has_time = first_ms != arrays.NO_FIRST
    number = np.zeros(len(first_ms), dtype=np.int16)
    number[has_time] = _count_passed(
        convert_to_local_ms(first_ms[has_time], experiment.timezone), starts
    )
    return number


def _count_passed(local: arrays.Integers, starts: Sequence[datetime]) -> arrays.Integers:
    """Count the starts that have passed at each local time."""
    moments = [round((start - _EPOCH) / timedelta(milliseconds=1)) for start in starts]
    return np.searchsorted(np.array(moments, dtype=np.int64), local, side="right")


_EPOCH, _HOUR_MS = datetime(1970, 1, 1), 3_600_000


REASONS = ("crossover", "tied_crossover", "no_variant", "not_in_experiment")
"""Why a unit is not analysed."""


class ObservedUnits(NamedTuple):
    """Hold first and last variant seen for each candidate unit, sorted by hash.

    Variants are indices into `names`.

    Attributes:
        first_ms: First impression in the period, or exposure; `NO_FIRST` without a time.
        low: The lowest variant that the log shows them in, by name; `high` the highest.
        first: First variant of units seen in several, `NONE` where the log does not tell.
        names: Every variant that a log names or the file has, sorted.
    """

    hashes: arrays.Integers
    first_ms: arrays.Integers
    low: arrays.Codes
    high: arrays.Codes
    first: arrays.Codes
    names: Sequence[str]

    @property
    def crosses(self) -> NDArray[np.bool_]:
        """Tell which units the log shows in more than one variant."""
        return np.not_equal(self.low, self.high)


@dataclass(frozen=True, eq=False)
class UnitAssignment:
    """Hold the variant of each candidate unit, and which units are analysed.

    Attributes:
        variant: Variant that they are analysed in, an index into `logged.names`.
        expected: Variant by the rule of assignment; None without a rule.
        tied: Whether the log does not tell which of their variants was first.
        set_aside: Index into `REASONS`, `NONE` for units that are analysed.
        candidate_index: Index here of each unit of the cells, `NONE` for units that are not here.
        unit_index: Index into `units` of each unit of the cells, `NONE` where it is not analysed.
        split_periods: Periods of one split each; none where it did not change.
    """

    logged: ObservedUnits
    variant: arrays.Codes
    expected: arrays.Codes | None
    tied: NDArray[np.bool_]
    set_aside: arrays.Codes
    candidate_index: arrays.Codes
    unit_index: arrays.Codes
    units: arrays.Units
    enrollments: Sequence[Enrollment]
    split_periods: SplitPeriods


def look_up_values(values: arrays.Codes, indices: arrays.Codes) -> arrays.Codes:
    """Look values up by index; the index NONE gives NONE."""
    # Index -1 is the last entry, which is the appended NONE.
    return np.append(values, arrays.NONE)[indices]


def assign_units(run: Run, schema: LogSchema, cells: LogCells) -> UnitAssignment:
    """Assign every unit with an impression in the period, or an exposure."""
    experiment, engine = run.experiment, run.engine
    as_assigned = experiment.cleaning.crossover == "as_assigned"
    by_rule = experiment.assigns and (as_assigned or not schema.tells_variant)
    checks.check_schedule(len(list_planned_splits(experiment)) > 1, schema.knows_entries, by_rule)
    logged_variants = {kind.variant for kind in cells.kinds if kind.variant is not None}
    logged = find_observed_units(cells, sorted(logged_variants | {*experiment.variants}))
    if schema.exposures is not None:
        # Exposures say better than impressions who was in the experiment, and when.
        logged = find_exposed_units(engine, logged)
    rule, expected = experiment.assignment_rule, None
    if rule is not None:
        expected = units.apply_rule(engine, rule, logged.hashes, logged.names)
    # Two variants at one time: the log does not tell which was first.
    tied = logged.crosses & (logged.first == arrays.NONE) & (not by_rule)
    variant = np.where(logged.crosses, logged.first, logged.low)
    if by_rule or (tied.any() and experiment.ties != "none"):
        # Without a rule, slots by salt and weights decide, alike on every run.
        rule_variant = _find_slot_variants(run, logged) if expected is None else expected
        variant = np.where(by_rule | tied, rule_variant, variant)
    set_aside = _find_reasons(experiment, logged, variant, tied)
    is_analysed = set_aside == arrays.NONE
    chosen = arrays.find_rows(is_analysed)
    candidate_index = units.find_hash_indices(cells.hashes, logged.hashes)
    # Analysed units are numbered in the order of their hashes.
    unit_index = look_up_values(
        np.where(is_analysed, np.cumsum(is_analysed) - 1, arrays.NONE), candidate_index
    )
    arms = units.find_name_indices(logged.names, experiment.variants)
    arm, hashes, first_ms = arms[variant[chosen]], logged.hashes[chosen], logged.first_ms[chosen]
    segments = units.find_segments(run, schema, cells, hashes, unit_index)
    clusters, entries = None, _count_enrollments(experiment, first_ms, arm)
    design = {name: segments.pop(name) for name in [*segments] if name.startswith("design.")}
    units.check_values(segments)
    if (turns := experiment.switchback) is not None:
        clusters, entries = find_slots(experiment, turns, arm.astype(np.int8), design), []
    elif design:
        clusters = find_clusters(experiment, arm.astype(np.int8), design)
        # Clusters were split, once: when their units come says nothing of it.
        entries = []
    split_periods = find_split_periods(experiment, entries)
    # The last place stands for units that are not analysed.
    is_new = np.ones(len(arm) + 1, dtype=np.int8)
    # Cells before the period show which units had been there already.
    is_new[unit_index[cells.unit[cells.counts & ~cells.in_period]]] = 0
    analysed = arrays.Units(
        hash=hashes,
        variant=arm.astype(np.int8),
        split_period=number_split_periods(experiment, first_ms, split_periods),
        is_new=is_new[:-1],
        first_ms=first_ms,
        segments=segments,
        covariates={},
        crosses=logged.crosses[chosen],
        clusters=clusters,
    )
    return UnitAssignment(
        logged=logged,
        variant=variant,
        expected=expected,
        tied=tied,
        set_aside=set_aside,
        candidate_index=candidate_index,
        unit_index=unit_index,
        units=analysed,
        enrollments=entries,
        split_periods=split_periods,
    )


def find_observed_units(
    cells: LogCells, names: Sequence[str], rows: arrays.Indices | slice | None = None
) -> ObservedUnits:
    """Find the units of some cells, and their variants.

    Without `rows`, they are the units with an impression that counts in the period.
    """
    code = units.find_name_indices((kind.variant for kind in cells.kinds), names)
    if rows is None:
        rows = arrays.find_rows(cells.counts & cells.in_period)
    unit, variant, first = cells.unit[rows], code[cells.kind[rows]], cells.first_ms[rows]
    start = arrays.run_starts(unit)
    first_ms = arrays.reduce_runs(np.minimum, first, start)
    high = arrays.reduce_runs(np.maximum, variant, start)
    # For the minimum, rows without a variant must not come first.
    variant_rank = np.where(variant == arrays.NONE, len(names), variant)
    low = np.minimum(arrays.reduce_runs(np.minimum, variant_rank, start), high)
    # Of units in several variants: the cells that may hold their first impression.
    run = arrays.run_numbers(start, len(unit))
    several = (low != high)[run] & ((first == first_ms[run]) | (first == arrays.NO_FIRST))
    run, variant = run[several], variant[several]
    run_start = arrays.run_starts(run)
    least, most = (arrays.reduce_runs(by, variant, run_start) for by in (np.minimum, np.maximum))
    first_variant = np.full(len(start), arrays.NONE)
    first_variant[run[run_start]] = np.where(least == most, most, arrays.NONE)
    return ObservedUnits(cells.hashes[unit[start]], first_ms, low, high, first_variant, names)


def find_exposed_units(engine: Engine, seen: ObservedUnits) -> ObservedUnits:
    """Find every exposed unit; where exposures name no variant, the log does."""
    rows = engine.rows("select distinct variant_low, variant_high from exposed")
    exposed_names = {str(name) for row in rows for name in row if name is not None}
    names = sorted({*seen.names, *exposed_names})
    columns = ("variant_low", "variant_high", "first_variant")
    columns_sql = ", ".join(
        f"cast(coalesce({write_index(name, names)}, {arrays.NONE}) as bigint) as {name}"
        for name in columns
    )
    table = engine.arrays(
        f"select {engine.hash64([units.write_same_ids(engine, 'exposed')])} as unit, "
        f"cast(coalesce(first_ms, {arrays.NO_FIRST}) as bigint) as first_ms, "
        f"{columns_sql} from exposed"
    )
    order = np.argsort(table["unit"])
    hashes, first_ms, *exposed = (
        table[name][order].astype(np.int64) for name in ("unit", "first_ms", *columns)
    )
    # Exposures may name variants that the impressions do not, which shifts indices.
    renumbered = np.array([names.index(name) for name in seen.names])
    seen_index = units.find_hash_indices(hashes, seen.hashes)
    of_log = (
        look_up_values(look_up_values(renumbered, codes), seen_index)
        for codes in (seen.low, seen.high, seen.first)
    )
    is_named = exposed[0] != arrays.NONE
    low, high, first = (
        np.where(is_named, codes, log) for codes, log in zip(exposed, of_log, strict=True)
    )
    return ObservedUnits(hashes, first_ms, low, high, first, names)


def _find_slot_variants(run: Run, logged: ObservedUnits) -> arrays.Codes:
    """Find the variant whose range of slots holds each unit's draw."""
    experiment = run.experiment
    weights = {name: variant.weight for name, variant in experiment.variants.items()}
    slots = units.draw_numbers(run.engine, experiment, logged.hashes) % SLOTS
    variant = np.full(len(slots), arrays.NONE)
    for slot_range in Assignment(experiment.salt, weights).ranges:
        variant[(slots >= slot_range.start) & (slots < slot_range.stop)] = logged.names.index(
            slot_range.label
        )
    return variant


def _find_reasons(
    experiment: Experiment, logged: ObservedUnits, variant: arrays.Codes, tied: NDArray[np.bool_]
) -> arrays.Codes:
    """Say why each unit is not analysed: the first of `REASONS` that holds."""
    is_compared = np.array([*(name in experiment.variants for name in logged.names), False])
    excludes = experiment.cleaning.crossover == "exclude"
    tests = (logged.crosses & excludes, tied & (variant == arrays.NONE), ~is_compared[variant])
    return np.select(tests, range(len(tests)), arrays.NONE)
