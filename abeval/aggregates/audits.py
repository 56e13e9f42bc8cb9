"""What the audits count in the logs, by variant: sums over groups of units, exact and small.

`collect.py` keeps them in the aggregates; `inference/audits/` compares the variants with them. A
long log is audited on some of its units, and on the heaviest of all, so that audits never cost more
than a few million rows.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from zoneinfo import ZoneInfo

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
from abeval.assignment import SUB_BUCKETS
from abeval.engines.protocol import Cell, Engine, whole
from abeval.engines.queries import query
from abeval.engines.sql import quoted
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ROW_UNIT
from abeval.logs.audited import (
    AUDITED_NAMES,
    CLUSTERS,
    HEAVY,
    Flag,
    audited_view,
    flags,
    logged_cells,
)
from abeval.logs.cells import unit_days
from abeval.logs.names import sub_buckets
from abeval.logs.prepare import Prepared
from abeval.logs.run import Run
from abeval.logs.shape import LogShape
from abeval.logs.unit_arrays import NONE, Labels, Whole

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
    engine.view("logged_cells", logged_cells(experiment, shape))
    audited = _audited(experiment, engine, prepared)
    rows = [
        *_of_impressions(experiment, audited),
        *_of_machines(experiment, audited),
        *_of_clicks(audited),
        *_set_aside(experiment, engine, prepared, audited.units),
    ]
    if prepared.duplicates:
        rows += _of_duplicates(engine, shape, audited)
    if shape.exposures is not None:
        rows += _silent(prepared, audited.units)
    return [AuditSums(*row) for row in rows]


class _Audited(NamedTuple):
    """What is read of the audited units.

    Attributes:
        units: The units.
        share: Share of all units that the sample is.
        flags: What the columns `f_…` of `hours` count, and after them among what, where not all.
        hours: Impressions and flags by unit and hour; one hour without times.
        lists: Positions and items of each list; None where the log has no lists.
        moments: When each unit had a list, or an impression; None without times.
        clicks: Clicks of each unit, by what is odd about them; None without a log of clicks.
        has_items: Whether the log names items.
    """

    units: AuditedUnits
    share: float
    flags: Sequence[Flag]
    hours: Arrays
    lists: Arrays | None
    moments: Arrays | None
    clicks: Arrays | None
    has_items: bool

    def flagged(self, number: int) -> Whole:
        """How many impressions of each unit have a flag."""
        return self.units.totals(self.hours["unit"], self.hours[f"f_{number}"])

    @property
    def impressions(self) -> Whole:
        """Impressions of each unit."""
        return self.units.totals(self.hours["unit"], self.hours["impressions"])


def _audited(experiment: Experiment, engine: Engine, prepared: Prepared) -> _Audited:
    """The only place where audits read a log."""
    shape = prepared.shape
    chosen = flags(experiment, shape)
    has_lists = "request_id" in shape.impressions and "position" in shape.impressions
    buckets = _buckets(prepared)
    units = _units(experiment, engine, prepared, buckets)
    engine.add_arrays("audited_units", {"unit_id": units.number})
    engine.table("audited_names", AUDITED_NAMES)
    engine.table("audited", audited_view(chosen, has_lists))
    hours = _arrays(engine, "audit/unit_hours", units)
    lists = moments = clicks = None
    if has_lists:
        engine.table("audited_items", query("audit/items"))
        lists = _arrays(engine, "audit/lists", units)
    if shape.has_time:
        moments = lists or _arrays(engine, "audit/moments", units)
    if shape.clicks is not None:
        clicks = _arrays(engine, "audit/clicks", units)
    share = buckets / SUB_BUCKETS
    has_items = "item_id" in shape.impressions
    return _Audited(units, share, chosen, hours, lists, moments, clicks, has_items)


def _buckets(prepared: Prepared) -> int:
    """How many of the sub-buckets of units are audited."""
    cells = prepared.cells
    rows = int(cells.sums["c_1"][cells.counts & cells.in_period].sum())
    share = MOST_ROWS / max(rows, 1)
    return SUB_BUCKETS if share >= 1 else max(CLUSTERS, int(SUB_BUCKETS * share))


def _units(
    experiment: Experiment, engine: Engine, prepared: Prepared, buckets: int
) -> AuditedUnits:
    """The units of the first sub-buckets, and those with the busiest days of each variant."""
    units = prepared.placed.units
    bucket = sub_buckets(engine, experiment, units.hash)
    sampled = bucket < buckets
    chosen = sampled.copy()
    if buckets < SUB_BUCKETS:
        chosen[_busiest(prepared)] = True
    number = np.flatnonzero(chosen)
    return AuditedUnits(
        number=number,
        variant=units.variant[number].astype(np.int64),
        cluster=np.where(sampled, bucket % CLUSTERS, HEAVY)[number],
        stretch=units.stretch[number].astype(np.int64),
        segments={
            name: Labels(labels.code[number], labels.names)
            for name, labels in units.segments.items()
        },
        variants=[*experiment.variants],
    )


def _busiest(prepared: Prepared) -> Whole:
    """The units with the 64 busiest days of each variant."""
    days, units = unit_days(prepared.cells, prepared.placed.unit_of), prepared.placed.units
    most = np.zeros(len(units.hash), dtype=np.int64)
    np.maximum.at(most, days.unit[days.in_period], days.columns["c_1"][days.in_period])
    order = np.argsort(-most, kind="stable")
    of_variants = (order[units.variant[order] == arm][:_HEAVY] for arm in np.unique(units.variant))
    return np.concatenate([*of_variants, np.empty(0, dtype=np.int64)])


_HEAVY = 64


def _arrays(engine: Engine, name: str, units: AuditedUnits) -> Arrays:
    """The whole numbers of a query, with the place of each unit."""
    arrays = engine.arrays(query(name))
    columns = {n: np.ma.filled(column, 0).astype(np.int64) for n, column in arrays.items()}
    unit = np.searchsorted(units.number, columns.pop("unit_id"))
    return {"unit": unit.astype(np.int64), **columns}


def _of_impressions(experiment: Experiment, audited: _Audited) -> Iterator[AuditRow]:
    """Impressions, flags, hours and lists."""
    units = audited.units
    whole = units.grouped(audited.hours["unit"], audited.hours["impressions"])
    yield from audit_rows("impressions", [""], units.variants, whole, (whole > 0).astype(np.int64))
    among = len(audited.flags)
    for number, flag in enumerate(audited.flags):
        of = audited.impressions
        if flag.among:
            of, among = audited.flagged(among), among + 1
        if flag.audit != "click":
            yield from unit_shares(units, flag.audit, audited.flagged(number), of, flag.name)
    if audited.moments is not None:
        yield from hour_rows(units, audited.hours, ZoneInfo(experiment.timezone))
    if audited.lists is not None:
        yield from list_rows(units, audited.lists, audited.has_items)


def _of_machines(experiment: Experiment, audited: _Audited) -> Iterator[AuditRow]:
    """Units that no person can be; none are looked for where single units are not to be seen."""
    if audited.moments is None or experiment.privacy.min_units is not None:
        return
    sums = {"impressions": audited.impressions}
    clicks = _clicks(audited)
    if clicks is not None:
        sums["clicks"] = clicks
    yield from machine_rows(
        *(audited.units, machines(audited.units, audited.hours, audited.moments)),
        *(sums, audited.share),
    )


def _clicks(audited: _Audited) -> Whole | None:
    """Clicked impressions of each unit; None of a log without clicks."""
    if audited.clicks is not None:
        return audited.units.totals(audited.clicks["unit"], audited.clicks["impressions"])
    own = [n for n, flag in enumerate(audited.flags) if flag.audit == "click"]
    return audited.flagged(own[0]) if own else None


def _of_clicks(audited: _Audited) -> Iterator[AuditRow]:
    units, total = audited.units, _clicks(audited)
    if total is None:
        return
    yield from unit_shares(units, "clicked", total, audited.impressions, by_segment=True)
    if audited.clicks is None:
        return
    clicks = {n: units.totals(audited.clicks["unit"], v) for n, v in audited.clicks.items()}
    for cell in ("early", "same", "late", "unknown"):
        yield from unit_shares(units, "click_delay", clicks[cell], clicks["clicks"], cell)
    of = clicks["different"]
    yield from unit_shares(units, "click_again", clicks["again"], of, by_segment=True)
    yield from unit_shares(units, "clicks_each", of, clicks["impressions"])


def _of_duplicates(engine: Engine, shape: LogShape, audited: _Audited) -> Iterator[AuditRow]:
    unit = quoted(shape.impressions.mapped["unit_id"])
    copies = " union all ".join(
        f"select {unit} as logged_id, {sign} as copies from {relation}"
        for sign, relation in ((1, "repeated_rows"), (-1, "restored_rows"))
    )
    engine.view("repeated_copies", copies)
    rows = _arrays(engine, "audit/duplicates", audited.units)
    y = audited.units.totals(rows["unit"], rows["duplicates"])
    return unit_shares(audited.units, "duplicate", y, audited.impressions)


def _silent(prepared: Prepared, units: AuditedUnits) -> Iterator[AuditRow]:
    """Exposed units without an impression, by stretch: who entered late had less time."""
    cells = prepared.cells
    unit = prepared.placed.unit_of[cells.unit[cells.counts & cells.in_period]]
    is_silent = np.ones(len(prepared.placed.units.hash) + 1, dtype=np.int64)
    is_silent[unit] = 0
    silent = is_silent[units.number]
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
        count = len(prepared.placed.units.hash)
        y, x = (
            np.bincount(place[own], cells.sums["c_1"][own], count).astype(np.int64)[units.number]
            for own in (untimed & known, known)
        )
        yield from unit_shares(units, "set_aside", y, x, "null_time")


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
