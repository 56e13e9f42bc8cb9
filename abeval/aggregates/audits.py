"""What the audits count in the logs, by variant: sums over groups of units, exact and small.

`collect.py` keeps them in the aggregates; `inference/audits/` compares the variants with them. A
long log is audited on some of its units, and on the heaviest of all, so that audits never cost more
than a few million rows.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

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
from abeval.assignment import SUB_BUCKETS
from abeval.engines.protocol import Engine, whole_number
from abeval.engines.queries import query
from abeval.engines.sql import quoted
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ROW_UNIT
from abeval.logs.audited import (
    AUDITED_NAMES,
    CLUSTERS,
    Flag,
    audited_units,
    audited_view,
    flags,
)
from abeval.logs.prepare import Prepared
from abeval.logs.run import Run
from abeval.logs.shape import LogShape
from abeval.logs.unit_arrays import Labels, Whole

MOST_ROWS = 4_000_000
"""Impressions that are audited, about; of a longer log those of some of the units."""

COLUMNS = ("audit", "cell", "variant", "clusters", "active", "y", "x", "y_y", "y_x", "x_x")
"""Of each share y / x: the audit, a cell of it, the variant, how many clusters there are and in how
many y is above zero, and exact sums over the clusters."""


def no_audits() -> pd.DataFrame:
    """Of logs that are not audited."""
    return pd.DataFrame(columns=list(COLUMNS))


def seen_in(experiment: Experiment, engine: Engine) -> pd.DataFrame:
    """Where units were seen first and at all, and where their rule places them."""
    ruled = experiment.assignment_rule is not None
    engine.view(
        "expected_variant",
        "select unit_id, expected from expected_units"
        if ruled
        else "select unit_id, cast(null as varchar) as expected from hashed_units where false",
    )
    return engine.frame(query("audit/seen_in"))


def audit_sums(run: Run, prepared: Prepared) -> pd.DataFrame:
    """Every audit that these logs allow, with the columns `COLUMNS`.

    Args:
        run: The experiment, on the engine where `prepare` created its relations.
        prepared: What is known of its logs.
    """
    experiment, engine, shape = run.experiment, run.engine, prepared.shape
    if experiment.unit == ROW_UNIT or not prepared.summed.has_rows:
        return no_audits()
    run.step("audits")
    audited = _audited(experiment, engine, shape)
    rows = [
        *_of_impressions(experiment, audited),
        *_of_machines(experiment, audited),
        *_of_clicks(audited),
        *_set_aside(experiment, engine, shape, audited.units),
    ]
    if prepared.duplicates:
        rows += _of_duplicates(engine, shape, audited)
    if shape.exposures is not None:
        rows += _silent(engine, audited.units)
    return pd.DataFrame(rows, columns=list(COLUMNS))


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


def _audited(experiment: Experiment, engine: Engine, shape: LogShape) -> _Audited:
    """The only place where audits read a log."""
    chosen = flags(experiment, shape)
    has_lists = "request_id" in shape.impressions and "position" in shape.impressions
    buckets = _buckets(engine)
    if buckets < SUB_BUCKETS:
        engine.table("heavy_units", query("audit/heavy_units"))
    engine.table("audited_units", audited_units(shape, buckets))
    engine.table("audited_names", AUDITED_NAMES)
    engine.table("audited", audited_view(chosen, has_lists))
    units = _units(experiment, engine, shape)
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


def _buckets(engine: Engine) -> int:
    """How many of the sub-buckets of units are audited."""
    sql = "select sum(c_1) from unit_day where in_period"
    share = MOST_ROWS / max(whole_number(engine, sql), 1)
    return SUB_BUCKETS if share >= 1 else max(CLUSTERS, int(SUB_BUCKETS * share))


def _units(experiment: Experiment, engine: Engine, shape: LogShape) -> AuditedUnits:
    frame = engine.frame("select * from audited_units order by unit_id")
    variants = list(experiment.variants)
    segments = {}
    for name in shape.segments:
        code, names = pd.factorize(frame[f"s_{name}"].astype(str), sort=True)
        segments[name] = Labels(code.astype(np.int32), [str(one) for one in names])
    number, cluster, stretch = (
        frame[name].to_numpy(np.int64) for name in ("unit_id", "cluster", "stretch")
    )
    variant = _places(frame["variant"], variants)
    return AuditedUnits(number, variant, cluster, stretch, segments, variants)


def _places(names: pd.Series, variants: Sequence[str]) -> Whole:
    """The place of each variant, -1 of others."""
    places = {name: place for place, name in enumerate(variants)}
    return np.array([places.get(name, -1) for name in names.tolist()], np.int64)


def _arrays(engine: Engine, name: str, units: AuditedUnits) -> Arrays:
    """The whole numbers of a query, with the place of each unit."""
    frame = engine.frame(query(name))
    columns = {str(name): frame[name].fillna(0).to_numpy(np.int64) for name in frame.columns}
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


def _silent(engine: Engine, units: AuditedUnits) -> Iterator[AuditRow]:
    """Exposed units without an impression, by stretch: who entered late had less time."""
    active = _arrays(engine, "audit/active_units", units)["unit"]
    silent = np.ones(units.number.size, np.int64)
    silent[active] = 0
    every, cells = np.arange(silent.size), int(units.stretch.max(initial=0)) + 1
    y, x = (
        units.grouped(every, one, units.stretch, cells) for one in (silent, np.ones_like(silent))
    )
    return audit_rows("silent", [str(cell) for cell in range(cells)], units.variants, y, x)


def _set_aside(
    experiment: Experiment, engine: Engine, shape: LogShape, units: AuditedUnits
) -> Iterator[AuditRow]:
    """Reasons for which rows of a logged variant are set aside; days are their clusters."""
    if shape.names_variant and not experiment.assigns:
        yield from _reasons(engine.frame(query("audit/set_aside")), units.variants)
    if shape.has_time and engine.rows(_UNTIMED):
        rows = _arrays(engine, "audit/untimed", units)
        y, x = (units.totals(rows["unit"], rows[name]) for name in ("untimed", "impressions"))
        yield from unit_shares(units, "set_aside", y, x, "null_time")


_UNTIMED = "select 1 from logged_cells where set_aside = 'null_time' limit 1"


def _reasons(rows: pd.DataFrame, variants: Sequence[str]) -> Iterator[AuditRow]:
    variant = _places(rows["variant"], variants)
    day, days = pd.factorize(rows["day"])
    counts = rows["impressions"].to_numpy(np.int64)
    for reason in ("null_unit", "not_exposed"):
        own = (rows["reason"] == reason).to_numpy()
        if not own.any():
            continue
        y, x = np.zeros((2, 1, len(variants), len(days)), np.int64)
        known = variant >= 0
        np.add.at(x[0], (variant[known], day[known]), counts[known])
        np.add.at(y[0], (variant[known & own], day[known & own]), counts[known & own])
        yield from audit_rows("set_aside", [reason], variants, y, x)
