"""What the audits count in the logs, by variant: sums over groups of units, exact and small.

`collect.py` keeps them in the aggregates; `inference/audits/` compares the variants with them. A
long log is audited on some of its units, and on the heaviest of all, so that audits never cost more
than a few million rows.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from abeval.aggregates.audit_arrays import (
    Arrays,
    AuditedUnits,
    AuditRow,
    audit_rows,
    hour_rows,
    list_rows,
    machine_rows,
    machines,
    unit_shares,
)
from abeval.aggregates.rows import AuditSums
from abeval.engines.file_columns import without_nulls
from abeval.engines.protocol import Cell, Engine, whole
from abeval.engines.queries import query
from abeval.engines.sql import quoted
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ROW_UNIT
from abeval.logs.audited import (
    CLUSTERS,
    HEAVY,
    PARTS,
    Flag,
    Sample,
    audited_keys,
    audited_view,
    flags,
)
from abeval.logs.grouping import heads
from abeval.logs.names import places_of_hashes
from abeval.logs.prepare import Prepared
from abeval.logs.run import Run
from abeval.logs.shape import LogShape
from abeval.logs.unit_arrays import NONE, Whole

MOST_ROWS = 4_000_000
"""Impressions that are audited, about; of a longer log those of some of the units."""


def audit_sums(run: Run, prepared: Prepared) -> list[AuditSums]:
    """Every audit that these logs allow.

    Args:
        run: The experiment, on the engine where `prepare` created its relations.
        prepared: What is known of its logs.
    """
    experiment, engine, shape = run.experiment, run.engine, prepared.shape
    if experiment.unit == ROW_UNIT or not prepared.summed.has_rows:
        return []
    run.step("audits")
    audited = _audited(experiment, engine, prepared)
    rows = [
        *_of_impressions(audited),
        *_of_machines(experiment, audited),
        *_of_clicks(audited),
        *_set_aside(experiment, engine, prepared, audited.units),
    ]
    if prepared.duplicates:
        rows += _of_duplicates(engine, shape, audited)
    if shape.exposures is not None:
        rows += _silent(prepared, audited.units.everyone)
    return [AuditSums(*row) for row in rows]


class _Audited(NamedTuple):
    """What is read of the units.

    Attributes:
        units: The analysed units; rows are read of a sample of them, and of the busiest.
        hours: Impressions of the period of every unit by local hour.
        impressions: Of each unit.
        clicked: Clicked impressions of each unit; None of a log without clicks.
        flags: What the columns of `flagged` count: `f_0`, `f_2`, …, and `f_1`, … among what.
        flagged: Flags of the impressions by unit; empty without flags.
        lists: Positions and items of each list; None where the log has no lists.
        moments: When each unit had a list, or an impression; None without times.
        clicks: Clicks of each unit, by what is odd about them; None without a log of clicks.
        has_items: Whether the log names items.
    """

    units: AuditedUnits
    hours: Arrays
    impressions: Whole
    clicked: Whole | None
    flags: Sequence[Flag]
    flagged: Arrays
    lists: Arrays | None
    moments: Arrays | None
    clicks: Arrays | None
    has_items: bool


def _audited(experiment: Experiment, engine: Engine, prepared: Prepared) -> _Audited:
    """The only place where audits read a log."""
    shape = prepared.shape
    chosen = flags(experiment, shape, _never_null(experiment, prepared))
    has_lists = "request_id" in shape.impressions and "position" in shape.impressions
    hours = _hours(prepared, shape)
    size = len(prepared.placed.units.hash)
    units, sample = _units(experiment, prepared, int(hours["impressions"].sum()))
    lists = moments = clicks = None
    if has_lists or shape.has_time or any(flag.sql or flag.among for flag in chosen):
        engine.table("audited", audited_view(engine, chosen, has_lists, sample))
    is_flagged = any(flag.sql or flag.among for flag in chosen)
    flagged = _arrays(engine, "audit/flags", units) if is_flagged else {}
    if has_lists:
        engine.table("audited_items", query("audit/items"))
        lists = _arrays(engine, "audit/lists", units)
    if shape.has_time:
        moments = lists or _arrays(engine, "audit/moments", units)
    if shape.clicks is not None:
        engine.view("audited_keys", audited_keys(engine, sample))
        clicks = _arrays(engine, "audit/clicks", units)
    has_clicks = shape.clicks is not None or "click" in shape.impressions
    return _Audited(
        units,
        hours,
        impressions=np.bincount(hours["unit"], hours["impressions"], size).astype(np.int64),
        clicked=np.bincount(hours["unit"], hours["clicks"], size).astype(np.int64)
        if has_clicks
        else None,
        flags=chosen,
        flagged=flagged,
        lists=lists,
        moments=moments,
        clicks=clicks,
        has_items="item_id" in shape.impressions,
    )


def _never_null(experiment: Experiment, prepared: Prepared) -> frozenset[str]:
    """The columns without a null, where the files of the log say so."""
    source, files = experiment.logs.rows, prepared.files
    if not files.files or files.are_lines or source.where or source.query:
        return frozenset()
    return without_nulls(files.files)


def _hours(prepared: Prepared, shape: LogShape) -> Arrays:
    """The impressions and clicks of the period of analysed units, by local hour."""
    cells, unit_of = prepared.cells, prepared.placed.unit_of
    rows = np.flatnonzero(cells.counts & cells.in_period & (unit_of[cells.unit] != NONE))
    unit, hour = unit_of[cells.unit[rows]], cells.hour[rows]
    order = np.lexsort((hour, unit))
    rows, unit, hour = rows[order], unit[order], hour[order]
    # A unit may have several cells in an hour, of several segments.
    starts = heads(np.stack([unit, hour], axis=1))
    columns = {"impressions": "c_1", "clicks": shape.clicks_component}
    sums = {
        name: np.add.reduceat(cells.sums[column][rows], starts) if len(rows) else rows
        for name, column in columns.items()
    }
    return {"unit": unit[starts], "hour": hour[starts], **sums}


def _units(
    experiment: Experiment, prepared: Prepared, impressions: int
) -> tuple[AuditedUnits, Sample]:
    """The units, and those of which rows are read: a share by hash, and the busiest."""
    units = prepared.placed.units
    share = min(1.0, MOST_ROWS / max(impressions, 1))
    parts = PARTS if share == 1 else max(CLUSTERS, int(PARTS * share))
    part = units.hash % PARTS
    sampled = part < parts
    heavy = units.hash[_busiest(prepared)] if parts < PARTS else units.hash[:0]
    group = part % CLUSTERS
    audited = AuditedUnits(
        number=units.hash,
        variant=units.variant.astype(np.int64),
        group=group,
        cluster=np.where(sampled, group, HEAVY),
        stretch=units.stretch.astype(np.int64),
        segments=units.segments,
        variants=[*experiment.variants],
    )
    return audited, Sample(parts, heavy.tolist())


def _busiest(prepared: Prepared) -> Whole:
    """The units with the 64 busiest days of each variant."""
    days, units = prepared.days, prepared.placed.units
    most = np.zeros(len(units.hash), dtype=np.int64)
    np.maximum.at(most, days.unit[days.in_period], days.columns["c_1"][days.in_period])
    order = np.argsort(-most, kind="stable")
    of_variants = (order[units.variant[order] == arm][:_BUSY] for arm in np.unique(units.variant))
    return np.concatenate([*of_variants, np.empty(0, dtype=np.int64)])


_BUSY = 64


def _arrays(engine: Engine, name: str, units: AuditedUnits) -> Arrays:
    """The whole numbers of a query over `unit_hash`, with the place of each analysed unit."""
    arrays = engine.arrays(query(name))
    columns = {n: np.ma.filled(column, 0).astype(np.int64) for n, column in arrays.items()}
    unit = places_of_hashes(columns.pop("unit_hash"), units.number)
    rows = np.flatnonzero(unit != NONE)
    return {"unit": unit[rows], **{name: column[rows] for name, column in columns.items()}}


def _of_impressions(audited: _Audited) -> Iterator[AuditRow]:
    """Impressions, flags, hours and lists."""
    units = audited.units
    everyone = units.everyone
    whole = everyone.grouped(audited.hours["unit"], audited.hours["impressions"])
    yield from audit_rows("impressions", [""], units.variants, whole, (whole > 0).astype(np.int64))
    yield from _of_flags(audited)
    if audited.moments is not None:
        yield from hour_rows(everyone, audited.hours)
    if audited.lists is not None:
        yield from list_rows(units, audited.lists, audited.has_items)


def _of_flags(audited: _Audited) -> Iterator[AuditRow]:
    units = audited.units
    for number, flag in enumerate(audited.flags):
        y, x = np.zeros_like(audited.impressions), audited.impressions
        if flag.sql:
            y = units.totals(audited.flagged["unit"], audited.flagged[f"f_{2 * number}"])
        if flag.among:
            x = units.totals(audited.flagged["unit"], audited.flagged[f"f_{2 * number + 1}"])
        if flag.variants:
            serves = np.isin(units.variant, [units.variants.index(v) for v in flag.variants])
            y, x = y * serves, x * serves
        yield from unit_shares(units, flag.audit, y, x, flag.name)


def _of_machines(experiment: Experiment, audited: _Audited) -> Iterator[AuditRow]:
    """Units that no person can be; none are looked for where single units are not to be seen."""
    if audited.moments is None or experiment.privacy.min_units is not None:
        return
    sums = {"impressions": audited.impressions}
    if audited.clicked is not None:
        sums["clicks"] = audited.clicked
    of_units = machines(audited.units, audited.hours, audited.moments)
    yield from machine_rows(audited.units, of_units, sums)


def _of_clicks(audited: _Audited) -> Iterator[AuditRow]:
    units, total = audited.units, audited.clicked
    if total is None:
        return
    everyone = units.everyone
    yield from unit_shares(everyone, "clicked", total, audited.impressions, by_segment=True)
    if audited.clicks is None:
        return
    clicks = {n: units.totals(audited.clicks["unit"], v) for n, v in audited.clicks.items()}
    for cell in ("early", "same", "late", "unknown"):
        yield from unit_shares(units, "click_delay", clicks[cell], clicks["clicks"], cell)
    of = clicks["different"]
    yield from unit_shares(units, "click_again", clicks["again"], of, by_segment=True)
    yield from unit_shares(units, "clicks_each", of, clicks["impressions"])


def _of_duplicates(engine: Engine, shape: LogShape, audited: _Audited) -> Iterator[AuditRow]:
    unit = engine.hash64([quoted(shape.impressions.mapped["unit_id"])])
    copies = " union all ".join(
        f"select {unit} as unit_hash, {sign} as copies from {relation}"
        for sign, relation in ((1, "repeated_rows"), (-1, "restored_rows"))
    )
    engine.view("repeated_copies", copies)
    rows = _arrays(engine, "audit/duplicates", audited.units)
    y = audited.units.totals(rows["unit"], rows["duplicates"])
    return unit_shares(audited.units.everyone, "duplicate", y, audited.impressions)


def _silent(prepared: Prepared, units: AuditedUnits) -> Iterator[AuditRow]:
    """Exposed units without an impression, by stretch: who entered late had less time."""
    cells = prepared.cells
    unit = prepared.placed.unit_of[cells.unit[cells.counts & cells.in_period]]
    is_silent = np.ones(len(prepared.placed.units.hash) + 1, dtype=np.int64)
    is_silent[unit] = 0
    silent = is_silent[:-1]
    every, count = np.arange(silent.size), int(units.stretch.max(initial=0)) + 1
    y, x = (
        units.grouped(every, one, units.stretch, count) for one in (silent, np.ones_like(silent))
    )
    return audit_rows("silent", [str(cell) for cell in range(count)], units.variants, y, x)


def _set_aside(
    experiment: Experiment, engine: Engine, prepared: Prepared, units: AuditedUnits
) -> Iterator[AuditRow]:
    """Reasons for which rows of a logged variant are set aside; days are their clusters."""
    shape, cells = prepared.shape, prepared.cells
    if shape.names_variant and not experiment.assigns:
        yield from _reasons(engine.rows(query("audit/set_aside")), units.variants)
    if shape.has_time and any(kind.set_aside == "null_time" for kind in cells.kinds):
        untimed = np.array([kind.set_aside == "null_time" for kind in cells.kinds])[cells.kind]
        place = prepared.placed.unit_of[cells.unit]
        known = place != NONE
        count = len(units.number)
        y, x = (
            np.bincount(place[own], cells.sums["c_1"][own], count).astype(np.int64)
            for own in (untimed & known, known)
        )
        yield from unit_shares(units.everyone, "set_aside", y, x, "null_time")


def _reasons(rows: Sequence[Sequence[Cell]], variants: Sequence[str]) -> Iterator[AuditRow]:
    known = [(str(v), str(day), str(why), whole(n)) for v, day, why, n in rows if v in variants]
    days = sorted({day for _, day, _, _ in known})
    for reason in ("null_unit", "not_exposed"):
        if not any(why == reason for _, _, why, _ in known):
            continue
        y, x = np.zeros((2, 1, len(variants), max(len(days), 1)), np.int64)
        for variant, day, why, count in known:
            place = variants.index(variant), days.index(day)
            x[0][place] += count
            y[0][place] += count * (why == reason)
        yield from audit_rows("set_aside", [reason], variants, y, x)
