"""Count what became of each log row: used, or set aside for one reason."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from abeval.engines.sql import Engine, query, read_int
from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.experiment.problems import find_meant_variant
from abeval.logs import checks
from abeval.logs import unit_arrays as arrays
from abeval.logs.checks import USED, USED_BEFORE
from abeval.logs.placing import REASONS, look_up_values
from abeval.logs.prepare import Prepared, name_outcome_relation
from abeval.logs.shape import UNITS
from abeval.stats.faults import measure_clock_lag


class LogRows(NamedTuple):
    """Count rows of a log that were used, or set aside for one reason."""

    log: str
    reason: str
    rows: int


class DayRows(NamedTuple):
    """Count units and impressions of one local day (ISO).

    `new_units` are on their first day. Times are None where only the day is known.
    """

    day: str
    units: int
    new_units: int
    impressions: int
    first_ms: int | None
    last_ms: int | None


def count_log_rows(prepared: Prepared, engine: Engine) -> list[LogRows]:
    """Count the rows of each log: those used, and those set aside, by reason."""
    schema = prepared.schema
    logs = [(schema.impressions.log, _count_impressions(prepared))]
    if schema.clicks is not None:
        logs.append(("clicks", _count_clicks(engine)))
    if schema.table is not None:
        logs.append((UNITS, _count_unit_rows(engine)))
    logs += [(name, _count_outcomes(name, engine)) for name in schema.outcomes]
    return [LogRows(log, reason, count) for log, rows in logs for reason, count in rows]


def check_some_left(experiment: Experiment, prepared: Prepared, engine: Engine) -> None:
    """Raise `LogError` with the reasons if no impression is left to analyse."""
    if not prepared.days.in_period.any():
        counts = _count_impressions(prepared)
        raise checks.make_nothing_left_error(prepared.schema, counts, experiment.timezone, engine)


def check_all_counted(prepared: Prepared, row_counts: Sequence[LogRows]) -> None:
    """Raise `LogError` unless every row that was read is counted once."""
    log = prepared.schema.impressions.log
    counted = sum(row.rows for row in row_counts if row.log == log)
    if counted != prepared.rows:
        raise LogError(
            f"{log}: {counted:,} rows were used or set aside, but {prepared.rows:,} were read",
            "were files written during the run? Run it again; if it stays so, report it",
        )


def _count_impressions(prepared: Prepared) -> list[tuple[str, int]]:
    """Count impressions: used in the period, used before it, then set aside."""
    used, reasons = list[int](), Counter({"null_unit": sum(prepared.cells.nameless)})
    for kind, rows in zip(prepared.cells.kinds, _count_rows_per_kind(prepared), strict=True):
        if kind.set_aside is not None:
            reasons[kind.set_aside] += rows
    for in_period in (True, False):
        # The last count is of rows whose unit has no reason to be set aside.
        *set_aside, analysed = _count_rows_per_reason(prepared, in_period)
        used.append(analysed)
        reasons.update(dict(zip(REASONS, set_aside, strict=True)))
    repeats = prepared.repeats
    repeated = (("duplicate", repeats.dropped), ("repeated_unit", repeats.units))
    rows_of = (*zip((USED, USED_BEFORE), used, strict=True), *repeated, *sorted(reasons.items()))
    return [(reason, rows) for reason, rows in rows_of if rows or reason in (USED, USED_BEFORE)]


def _count_rows_per_kind(prepared: Prepared) -> list[int]:
    """Count impressions of each row class that have a unit."""
    cells = prepared.cells
    counts = np.bincount(cells.kind, cells.sums["c_1"], len(cells.kinds))
    return [*map(int, counts)]


def _count_rows_per_reason(prepared: Prepared, in_period: bool) -> list[int]:
    """Count impressions by `REASONS` of their units; used ones come last."""
    cells, assignment = prepared.cells, prepared.assignment
    rows = arrays.find_rows(cells.counts & (cells.in_period == in_period))
    # A unit that is not among those that might be analysed is not in the experiment.
    reason = np.append(assignment.set_aside, REASONS.index("not_in_experiment"))[
        assignment.candidate_index
    ]
    # Modulo maps NONE (-1), a unit without a reason, to the last count.
    code = reason[cells.unit[rows]] % (len(REASONS) + 1)
    return [*map(int, np.bincount(code, cells.sums["c_1"][rows], len(REASONS) + 1))]


def _count_clicks(engine: Engine) -> list[tuple[str, int]]:
    rows = engine.rows(query("audit/click_accounting"))
    used = sum(read_int(clicks) for reason, clicks, _ in rows if reason is None)
    duplicates = sum(read_int(copies) for *_, copies in rows)
    set_aside = [
        (str(reason), read_int(clicks)) for reason, clicks, _ in rows if reason is not None
    ]
    return [(USED, used), *([("duplicate", duplicates)] if duplicates else []), *set_aside]


def _count_unit_rows(engine: Engine) -> list[tuple[str, int]]:
    """Count rows of the table of units by what became of them."""
    counts = Counter[str]()
    for reason, units, duplicates in engine.rows(query("audit/unit_accounting")):
        counts[USED if reason is None else str(reason)] += read_int(units)
        counts["duplicate"] += read_int(duplicates)
    return [(reason, rows) for reason, rows in counts.items() if rows]


def _count_outcomes(name: str, engine: Engine) -> list[tuple[str, int]]:
    """Count rows of an outcome log by what became of them."""
    _show_outcomes(engine, name)
    used, reasons = Counter[str](), Counter[str]()
    for reason, in_period, events, duplicates in engine.rows(query("audit/outcome_accounting")):
        kept = USED if in_period else USED_BEFORE
        counts = used if reason is None else reasons
        counts[kept if reason is None else str(reason)] += read_int(events)
        # Copies are counted in every group, also where their first row is used.
        reasons["duplicate"] += read_int(duplicates)
    return [*used.items(), *((reason, rows) for reason, rows in sorted(reasons.items()) if rows)]


class OutcomeClock(NamedTuple):
    """Hold by how many hours the clock of an outcome log is behind, to half an hour.

    `of_day` is the hour (UTC) of all its rows, the earlier if clocks change; None if they differ.
    """

    hours_behind: float
    of_day: int | None


_HOUR_MS = 3_600_000


def find_early_clocks(row_counts: Sequence[LogRows], engine: Engine) -> dict[str, OutcomeClock]:
    """Find the clock of each outcome log that has rows before an exposure."""
    clocks = dict[str, OutcomeClock]()
    for log in (row.log for row in row_counts if row.reason == "before_exposure"):
        _show_outcomes(engine, log)
        early = {read_int(n): read_int(rows) for n, rows in engine.rows(query("audit/early_rows"))}
        ((first, last, days),) = engine.rows(query("audit/times_of_day"))
        # Clocks are put forward and back by an hour; days are written as midnights of some zone.
        are_days = read_int(days) > 1 and read_int(last) - read_int(first) <= _HOUR_MS
        of_day = read_int(first) // _HOUR_MS if are_days else None
        # Zones differ by half hours.
        clocks[log] = OutcomeClock(round(2 * measure_clock_lag(early)) / 2, of_day)
    return clocks


def _show_outcomes(engine: Engine, name: str) -> None:
    engine.view("outcome_rows", f"select * from {name_outcome_relation(name)}")


def count_facts(prepared: Prepared) -> dict[str, int]:
    """Count what the trust checks read."""
    schema, assignment, cells = prepared.schema, prepared.assignment, prepared.cells
    is_in_experiment = assignment.set_aside != REASONS.index("not_in_experiment")
    duplicates = prepared.repeats.duplicates
    rows = arrays.find_rows(cells.counts & cells.in_period)

    def total(components: Sequence[str]) -> int:
        return sum(int(cells.sums[name][rows].sum()) for name in components)

    ruled = count_expected_variants(prepared)
    return {
        "clicks": total([schema.clicks_component]),
        "scored": total(schema.scored_components),
        "units": int(is_in_experiment.sum()),
        "crossovers": int((assignment.logged.crosses & is_in_experiment).sum()),
        "tied": int(assignment.tied.sum()),
        "tied_out": int((assignment.set_aside == REASONS.index("tied_crossover")).sum()),
        "assigned": sum(count for *_, count in ruled),
        "reassigned": sum(count for _, variant, rule, count in ruled if variant != rule),
        # Without the key, the check of duplicates is skipped rather than passed.
        **({} if duplicates is None else {"duplicates": duplicates}),
        "unidentified": prepared.repeats.unidentified,
        "limited": int(prepared.is_limited),
    }


def count_expected_variants(prepared: Prepared) -> list[tuple[str | None, str, str | None, int]]:
    """Count units by first day, logged variant and the rule's variant."""
    assignment, cells = prepared.assignment, prepared.cells
    logged, expected = assignment.logged, assignment.expected
    if expected is None or not prepared.schema.tells_variant:
        return []
    # Of units in several variants only the first can be compared with the rule.
    first_variant = np.where(logged.crosses, logged.first, logged.low)
    rows = np.flatnonzero(cells.counts & cells.in_period)
    start = arrays.run_starts(cells.unit[rows])
    candidate_index = assignment.candidate_index[cells.unit[rows[start]]]
    days = arrays.reduce_runs(np.minimum, cells.day[rows], start)
    first_day = np.full(len(first_variant), arrays.NO_DAY)
    first_day[candidate_index[candidate_index != arrays.NONE]] = days[
        candidate_index != arrays.NONE
    ]
    # False stands for NONE, which indexes the last entry.
    compared = [*(name in prepared.variants for name in logged.names), False]
    chosen = np.flatnonzero(np.array(compared)[first_variant])
    names = [*logged.names, None]
    return [
        (format_day(day), str(names[variant]), names[rule], count)
        for day, variant, rule, count in arrays.count_combinations(
            first_day[chosen], first_variant[chosen], expected[chosen]
        )
    ]


def list_days(prepared: Prepared) -> list[DayRows]:
    """List each local day with an analysed unit, and its counts and times."""
    cells, days = prepared.cells, prepared.days
    rows = np.flatnonzero(days.in_period & (days.day != arrays.NO_DAY))
    # Days are sorted by unit, so that a unit's first row is its first day.
    unit, day = days.unit[rows], days.day[rows]
    if not len(rows):
        return []
    low = int(day.min())
    size = int(day.max()) - low + 1
    units = np.bincount(day - low, minlength=size)
    new = np.bincount(day[arrays.run_starts(unit)] - low, minlength=size)
    impressions = np.bincount(day - low, days.columns["c_1"][rows], size).astype(np.int64)
    # Times are of all rows that count, not of analysed units alone.
    first, last = np.full(size, arrays.NO_FIRST), np.full(size, arrays.NO_LAST)
    every = np.flatnonzero(cells.counts & cells.in_period & (cells.hour != arrays.NO_DAY))
    day_offset = cells.day[every] - low
    inside = (day_offset >= 0) & (day_offset < size)
    groups = arrays.Groups.build(day_offset[inside].astype(np.int64), every[inside])
    of_days = cells.day[groups.first] - low
    first[of_days] = np.minimum.reduceat(cells.first_ms[groups.order], groups.start)
    last[of_days] = np.maximum.reduceat(cells.last_ms[groups.order], groups.start)
    columns = (units, new, impressions, first, last)
    return [
        DayRows(str(format_day(low + number)), *row)
        for number, row in enumerate(zip(*(column.tolist() for column in columns), strict=True))
        if row[0]
    ]


def format_day(day: int) -> str | None:
    """Write a day since 1970 as ISO text; None for no day.

    Example:
        >>> format_day(20_000)
        '2024-10-04'
    """
    return None if day == arrays.NO_DAY else str(np.datetime64(day, "D"))


_LISTED = 10
"""Number of variants to count by name, besides misspelled ones of the file."""


def count_other_variants(experiment: Experiment, prepared: Prepared) -> dict[str, int]:
    """Count rows of variants that the file does not name, most rows first."""
    cells, assignment = prepared.cells, prepared.assignment
    rows = Counter[str]()
    for kind, count in zip(cells.kinds, _count_rows_per_kind(prepared), strict=True):
        if kind.set_aside == "not_compared" and kind.variant is not None:
            rows[kind.variant] += count
    # Exposures or a rule may have placed units elsewhere than their rows say.
    elsewhere = assignment.set_aside == REASONS.index("no_variant")
    cell = arrays.find_rows(cells.counts & cells.in_period)
    candidate_index = assignment.candidate_index[cells.unit[cell]]
    outside_variant = np.where(elsewhere, assignment.variant, arrays.NONE)
    code = look_up_values(outside_variant, candidate_index)
    sums = np.bincount(code[code != arrays.NONE], cells.sums["c_1"][cell][code != arrays.NONE])
    for variant, count in enumerate(sums.astype(np.int64).tolist()):
        rows[assignment.logged.names[variant]] += count
    largest = sorted(((n, c) for n, c in rows.items() if c), key=lambda row: (-row[1], row[0]))
    # Other spellings of the file's variants always count: they may be mistakes.
    respelled = [n for n, _ in largest if find_meant_variant(n, experiment.variants) is not None]
    shown = {*dict(largest[:_LISTED]), *respelled}
    return {n: c for n, c in largest if n in shown}
