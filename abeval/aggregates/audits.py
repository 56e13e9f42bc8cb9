"""What the audits count in the logs, by variant: sums over groups of units, exact and small.

`collect.py` keeps them in the aggregates; `inference/audits/` compares the variants with them. Of a
long log, rows are read of a few hours, and of the busiest hours of single units; what follows from
cells is counted of all rows.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from abeval.aggregates.aggregates import AuditSums
from abeval.aggregates.audit_arrays import (
    CLUSTERS,
    GAPS,
    LONGEST_GAP_MS,
    LONGEST_SAMPLED_MS,
    Arrays,
    AuditedUnits,
    AuditRow,
    Hours,
    audit_rows,
    hour_rows,
    list_rows,
    machine_rows,
    machines,
    shares,
)
from abeval.aggregates.audits import PARTS, Flag, audited_keys
from abeval.engines.protocol import Cell, Engine, whole
from abeval.engines.sql import query, quoted
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ROW_UNIT
from abeval.logs.files import without_nulls
from abeval.logs.prepare import Prepared
from abeval.logs.run import Run
from abeval.logs.shape import LogShape
from abeval.logs.unit_arrays import NO_DAY, NO_FIRST, NO_LAST, NONE, Whole, ranked, where
from abeval.logs.units import places_of_hashes

MOST_ROWS = 4_000_000
"""Impressions of the longest log of which all are audited."""

FEWEST_ROWS = 600_000
"""Of a longer log so many are read at least, or a twenty-fourth: an hour of each day."""

_EDGE_MS = 300_000
_BUSY = 64
_GOLDEN = (5**0.5 - 1) / 2


def audit_sums(run: Run, prepared: Prepared) -> list[AuditSums]:
    """Every audit that these logs allow.

    Args:
        run: The experiment, on the engine where `prepare` created its relations.
        prepared: What is known of its logs.
    """
    shape = prepared.shape
    if run.experiment.unit == ROW_UNIT or not prepared.summed.has_rows:
        return []
    run.step("audits")
    units, hours = _units(run.experiment, prepared), _hours(prepared)
    impressions = units.grouped(hours.unit, hours.impressions)
    is_any = (impressions > 0).astype(np.int64)
    rows = [*audit_rows("impressions", [""], units.variants, impressions, is_any)]
    if shape.has_time:
        rows += hour_rows(units, hours, impressions)
    if _has_clicks(shape):
        every = hours.unit, hours.clicks, hours.impressions
        rows += shares(units, "clicked", *every, by_segment=True)
    rows += _of_rows(run, prepared, units, hours, impressions)
    rows += _set_aside(run.experiment, run.engine, prepared, units)
    if prepared.repeats.duplicates:
        rows += _of_duplicates(run.engine, shape, units, impressions)
    if shape.exposures is not None:
        rows += _silent(units, hours)
    return [AuditSums(*row) for row in rows]


def _has_clicks(shape: LogShape) -> bool:
    return shape.clicks is not None or "click" in shape.impressions


def _of_rows(
    run: Run, prepared: Prepared, units: AuditedUnits, hours: Hours, impressions: Whole
) -> Iterator[AuditRow]:
    """Flags, lists, machines and clicks: the only place where audits read a log."""
    experiment, engine, shape = run.experiment, run.engine, prepared.shape
    chosen = flags(experiment, shape, _never_null(run, prepared))
    has_lists = "request_id" in shape.impressions and "position" in shape.impressions
    sample = _sample(hours)
    show_audited(run, shape, sample, chosen, has_lists)
    flagged = _arrays(engine, "audit/flags", units) if any(flag.sql for flag in chosen) else {}
    yield from _of_flags(units, chosen, flagged, impressions)
    if has_lists or shape.has_time:
        name = "audit/lists" if has_lists else "audit/moments"
        lists = _arrays(engine, name, units)
        if has_lists:
            yield from list_rows(units, _whole_lists(lists, sample))
        # None are looked for where single units are not to be seen.
        if shape.has_time and experiment.privacy.min_units is None:
            parts = [lists]
            busy = _busiest(units, hours, lists) if sample.spans else sample
            if busy.hashes:
                show_audited(run, shape, busy, chosen, has_lists)
                parts.append(_arrays(engine, name, units))
            unit, time = (np.concatenate([part[n] for part in parts]) for n in ("unit", "time_ms"))
            longest = LONGEST_SAMPLED_MS if sample.spans else LONGEST_GAP_MS
            of_units = machines(units, hours, unit, time, longest)
            yield from machine_rows(units, of_units, hours, _has_clicks(shape))
    if shape.clicks is not None:
        engine.view("audited_keys", audited_keys(engine, sample))
        yield from _of_clicks(units, _arrays(engine, "audit/clicks", units))


def _never_null(run: Run, prepared: Prepared) -> frozenset[str]:
    """The columns without a null, where the files of the log say so; of a table of units, any."""
    source, files, columns = run.experiment.logs.rows, prepared.files, prepared.shape.own_columns
    if run.experiment.of_units and columns:
        counts = ", ".join(f"count({quoted(column)})" for column in columns)
        ((rows, *counted),) = run.engine.rows(f"select count(*), {counts} from kept_impressions")
        return frozenset(c.lower() for c, n in zip(columns, counted, strict=True) if n == rows)
    if not files.files or files.are_lines or source.where or source.query:
        return frozenset()
    return without_nulls(files.files)


def _units(experiment: Experiment, prepared: Prepared) -> AuditedUnits:
    units = prepared.placed.units
    return AuditedUnits(
        number=units.hash,
        variant=units.variant.astype(np.int64),
        place=units.variant * np.int64(CLUSTERS) + units.hash % CLUSTERS,
        stretch=units.stretch.astype(np.int64),
        segments=units.segments,
        variants=[*experiment.variants],
    )


def _hours(prepared: Prepared) -> Hours:
    """The cells of the period of analysed units."""
    cells, unit_of = prepared.cells, prepared.placed.unit_of
    unit = unit_of[cells.unit]
    rows = where(cells.counts & cells.in_period & (unit != NONE))
    hour = cells.hour[rows].astype(np.int64)
    timed = where(hour != NO_DAY)
    place = np.full(hour.size, NONE)
    known, place[timed] = ranked(hour[timed])
    return Hours(
        unit=unit[rows],
        known=known,
        hour=place,
        first_ms=cells.first_ms[rows],
        last_ms=cells.last_ms[rows],
        impressions=cells.sums["c_1"][rows].astype(np.int64),
        clicks=cells.sums[prepared.shape.clicks_component][rows].astype(np.int64),
    )


def _sample(hours: Hours) -> Sample:
    """All impressions of a short log; of a longer one those of whole hours spread over it.

    Steps of the golden section leave no part of the log, and no hour of the day, without one.
    """
    impressions = int(hours.impressions.sum())
    if impressions <= MOST_ROWS:
        return Sample()
    read = max(FEWEST_ROWS, impressions // 24)
    if not hours.known.size:
        return Sample(parts=PARTS * read // impressions)
    timed = hours.hour != NONE
    counts = np.bincount(hours.hour[timed], hours.impressions[timed])
    order = np.argsort(np.arange(counts.size) * _GOLDEN % 1)
    order = order[: np.searchsorted(counts[order].cumsum(), read) + 1]
    return Sample(_spans(hours, np.sort(order)))


def _spans(hours: Hours, chosen: Whole) -> list[tuple[int, int]]:
    """The first and the last time of some hours."""
    own = np.flatnonzero(np.isin(hours.hour, chosen))
    first, last = np.full(hours.known.size, NO_FIRST), np.full(hours.known.size, NO_LAST)
    np.minimum.at(first, hours.hour[own], hours.first_ms[own])
    np.maximum.at(last, hours.hour[own], hours.last_ms[own])
    return list(zip(first[chosen].tolist(), last[chosen].tolist(), strict=True))


def _whole_lists(lists: Arrays, sample: Sample) -> Arrays:
    """The lists that begin so far from the ends of their span that all of their rows are in it."""
    if not sample.spans:
        return lists
    first, last = np.array(sample.spans).T
    time = lists["time_ms"]
    span = np.searchsorted(first, time, "right") - 1
    inside = (time - first[span] >= _EDGE_MS) & (last[span] - time >= _EDGE_MS)
    return {name: column[inside] for name, column in lists.items()}


def _busiest(units: AuditedUnits, hours: Hours, lists: Arrays) -> Sample:
    """The busiest hours of single units, if these have rows for as many lists as a machine has.

    A list of a machine may be half as long as is usual.
    """
    length = np.median(lists["shown"]) if "shown" in lists else 1
    is_busy = (hours.impressions > GAPS * max(1, length / 2)) & (hours.first_ms < NO_FIRST)
    many = np.flatnonzero(is_busy)
    order = many[np.lexsort((hours.hour[many], hours.unit[many], -hours.impressions[many]))]
    variant, count = units.variant[hours.unit[order]], max(1, _BUSY // len(units.variants))
    top = np.concatenate([order[variant == v][:count] for v in range(len(units.variants))])
    spans = zip(hours.first_ms[top].tolist(), hours.last_ms[top].tolist(), strict=True)
    return Sample([*spans], hashes=np.unique(units.number[hours.unit[top]]).tolist())


def _arrays(engine: Engine, name: str, units: AuditedUnits) -> Arrays:
    """The whole numbers of a query over `unit_hash`, with the place of each analysed unit."""
    arrays = engine.arrays(query(name))
    columns = {n: np.ma.filled(column, 0).astype(np.int64) for n, column in arrays.items()}
    unit = places_of_hashes(columns.pop("unit_hash"), units.number)
    rows = np.flatnonzero(unit != NONE)
    return {"unit": unit[rows], **{name: column[rows] for name, column in columns.items()}}


def _of_flags(
    units: AuditedUnits, chosen: Sequence[Flag], flagged: Arrays, impressions: Whole
) -> Iterator[AuditRow]:
    for number, flag in enumerate(chosen):
        y, x = np.zeros_like(impressions), impressions
        if flag.sql:
            among = f"f_{2 * number + 1}" if flag.among else "impressions"
            columns = flagged[f"f_{2 * number}"], flagged[among]
            y, x = (units.grouped(flagged["unit"], column) for column in columns)
        if flag.variants:
            serves = np.isin(units.variants, flag.variants)[:, None]
            y, x = y * serves, x * serves
        yield from audit_rows(flag.audit, [flag.name], units.variants, y, x)


def _of_clicks(units: AuditedUnits, clicks: Arrays) -> Iterator[AuditRow]:
    unit, of = clicks["unit"], clicks["different"]
    for cell in ("early", "same", "late", "unknown"):
        yield from shares(units, "click_delay", unit, clicks[cell], clicks["clicks"], cell)
    yield from shares(units, "click_again", unit, clicks["again"], of, by_segment=True)
    yield from shares(units, "clicks_each", unit, of, clicks["impressions"])


def _of_duplicates(
    engine: Engine, shape: LogShape, units: AuditedUnits, impressions: Whole
) -> Iterator[AuditRow]:
    unit = engine.hash64([quoted(shape.impressions.mapped["unit_id"])])
    copies = " union all ".join(
        f"select {unit} as unit_hash, {sign} as copies from {relation}"
        for sign, relation in ((1, "repeated_rows"), (-1, "restored_rows"))
    )
    engine.view("repeated_copies", copies)
    rows = _arrays(engine, "audit/duplicates", units)
    y = units.grouped(rows["unit"], rows["duplicates"])
    return audit_rows("duplicate", [""], units.variants, y, impressions)


def _silent(units: AuditedUnits, hours: Hours) -> Iterator[AuditRow]:
    """Exposed units without an impression, by stretch: who entered late had less time."""
    x = np.ones_like(units.number)
    y = x.copy()
    y[hours.unit] = 0
    every, count = np.arange(x.size), int(units.stretch.max(initial=0)) + 1
    sums = (units.grouped(every, one, units.stretch, count) for one in (y, x))
    return audit_rows("silent", [str(cell) for cell in range(count)], units.variants, *sums)


def _set_aside(
    experiment: Experiment, engine: Engine, prepared: Prepared, units: AuditedUnits
) -> Iterator[AuditRow]:
    """Reasons for which rows of a logged variant are set aside; days are their clusters."""
    shape, cells = prepared.shape, prepared.cells
    reasons = {kind.set_aside for kind in cells.kinds}
    is_named = shape.names_variant and not experiment.assigns
    if is_named and (any(cells.nameless) or "not_exposed" in reasons):
        rows = engine.rows(query("audit/set_aside"))
        yield from _reasons([row for row in rows if row[0] in units.variants], units.variants)
    if shape.has_time and "null_time" in reasons:
        unit = prepared.placed.unit_of[cells.unit]
        known = np.flatnonzero(unit != NONE)
        untimed = np.array([kind.set_aside == "null_time" for kind in cells.kinds])
        x = cells.sums["c_1"][known].astype(np.int64)
        y = x * untimed[cells.kind[known]]
        yield from shares(units, "set_aside", unit[known], y, x, "null_time")


def _reasons(rows: Sequence[Sequence[Cell]], variants: Sequence[str]) -> Iterator[AuditRow]:
    known = [(variants.index(str(v)), whole(day), why, whole(n)) for v, day, why, n in rows]
    days = sorted({day for _, day, _, _ in known})
    for reason in ("null_unit", "not_exposed"):
        y, x = np.zeros((2, 1, len(variants), max(len(days), 1)), np.int64)
        for variant, day, why, count in known:
            place = 0, variant, days.index(day)
            x[place] += count
            y[place] += count * (why == reason)
        if y.any():
            yield from audit_rows("set_aside", [reason], variants, y, x)
