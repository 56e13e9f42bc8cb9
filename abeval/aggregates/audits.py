"""Count what audits compare between variants: exact sums, and shares of units.

Of a long log, rows are read of a few hours, and of the busiest hours of single units; what follows
from cells is counted of all rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates import audit_arrays
from abeval.aggregates.aggregates import GroupRows, UnitShares
from abeval.aggregates.audit_arrays import CLUSTERS, GAPS, Arrays, AuditedUnits, HourlyRows
from abeval.aggregates.breaks import count_outcome_units, read_daily_rows, sum_days
from abeval.engines.sql import Engine, query, quote, read_int
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ROW_UNIT
from abeval.logs.columns import name_copies_column, write_click
from abeval.logs.files import find_columns_without_nulls
from abeval.logs.mapping import SERVED_FLAGS, name_raw_column
from abeval.logs.placing import number_split_periods
from abeval.logs.prepare import Prepared
from abeval.logs.run import Run
from abeval.logs.shape import LogSchema
from abeval.logs.unit_arrays import (
    NO_DAY,
    NO_FIRST,
    NO_LAST,
    NONE,
    Integers,
    find_rows,
    unique_inverse,
)
from abeval.logs.units import find_hash_indices
from abeval.metrics.definition import Metric
from abeval.results.record import group_rows

PARTS = 4096
"""Number of parts of the units by hash, of which a sample takes some."""

MOST_ROWS = 4_000_000
"""Largest number of impressions that are audited in full."""

FEWEST_ROWS = 600_000
"""Fewest impressions of a longer log to audit; one in 24, an hour of each day, if more."""

_ITEMS = 2**31 - 1
"""Range of the hashes of items, so that sums of them fit into 64 bits."""

_UTC = ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
_EDGE_MS = 300_000
_LONGEST_GAP_MS, _LONGEST_SAMPLED_MS = 86_400_000, 3_600_000
"""Longest distances between lists of one visit: in a whole log, and in sampled hours."""

_BUSY = 64
_GOLDEN = (5**0.5 - 1) / 2


class Sample(NamedTuple):
    """Describe the impressions that are read; without any of these, all are.

    Attributes:
        spans: The first and the last millisecond of each span of time.
        parts: Of the units of so many of `PARTS`, where rows have no time.
        hashes: Only of these units.
    """

    spans: Sequence[tuple[int, int]] = ()
    parts: int = PARTS
    hashes: Sequence[int] = ()

    def has(self, unit_hash: str, kind: str | None = None) -> str:
        """Write SQL of whether an impression is in the sample.

        Args:
            unit_hash: SQL of the hash of its unit.
            kind: Type of its column `own_ts`, if that is a time in UTC: of a column as it is the
                engine knows between which times it lies in each part of a file.
        """
        column, tests = "time_ms" if kind is None else "own_ts", []
        if self.spans:
            spans = (
                f"{column} >= {_bound(first, kind)} and {column} < {_bound(last + 1, kind)}"
                for first, last in self.spans
            )
            tests.append(f"({' or '.join(spans)})")
        if self.parts < PARTS:
            tests.append(f"{unit_hash} % {PARTS} < {self.parts}")
        if self.hashes:
            tests.append(f"{unit_hash} in ({', '.join(map(str, self.hashes))})")
        return " and ".join(tests) or "true"


def _bound(milliseconds: int, kind: str | None) -> str:
    if kind is None:
        return str(milliseconds)
    utc = datetime(1970, 1, 1) + timedelta(milliseconds=milliseconds)
    return f"cast('{utc}{'' if kind == 'TIMESTAMP' else '+00:00'}' as {kind})"


class Flag(NamedTuple):
    """Define something that is true or false of an impression.

    Attributes:
        audit: `null` for a missing value, `served` for one of `SERVED_FLAGS`.
        name: The column, by its canonical name or the log's own.
        sql: True where it is flagged; empty where no impression can be.
        among: Of which impressions; all of them if empty.
        variants: Of which variants it is counted; of all if empty.
    """

    audit: str
    name: str
    sql: str
    among: str = ""
    variants: Sequence[str] = ()


def list_flags(experiment: Experiment, schema: LogSchema, never_null: frozenset[str]) -> list[Flag]:
    """List the flags of an impression that these columns can give.

    `never_null` are columns of the log in lower case that have no null.
    """
    log = schema.impressions

    def missing(name: str, column: str, sql: str) -> Flag:
        return Flag("null", name, "" if column.lower() in never_null else f"{sql} is null")

    nulls = [
        missing(name, log.mapped[name], f"i.{'own_' if name == 'category' else ''}{name}")
        for name in ("request_id", "item_id", "position", "category", "propensity")
        if name in log
    ]
    if "dwell" in log and "click" in log:
        clicked = "i.own_click = 1"
        nulls.append(Flag("null", "dwell", f"{clicked} and i.own_dwell_ms is null", clicked))
    models = [schema.score_of.get(variant, "") for variant in experiment.variants]
    # If a variant serves no score, nobody misses one.
    for score in dict.fromkeys(models) if "" not in models else ():
        serves = [
            v for v, columns in zip(experiment.variants, models, strict=True) if columns == score
        ]
        nulls.append(Flag("null", "score", f"i.{score} is null", variants=serves))
    mapped = {column.lower() for column in log.mapped.values()}
    columns = (name for name in schema.own_columns if name.lower() not in mapped)
    served = (name for name in SERVED_FLAGS if name in log)
    return [
        *nulls,
        *(missing(name, name, f"i.{quote(name_raw_column(name))}") for name in columns),
        *(Flag("served", name, f"coalesce(i.{name} > 0, false)") for name in served),
    ]


def show_audited(
    run: Run, schema: LogSchema, sample: Sample, chosen: Sequence[Flag], has_lists: bool
) -> None:
    """Create the view `audited`: one row per sampled impression.

    Args:
        run: The experiment and its engine.
        schema: The log's columns.
        sample: Which units are read; of a log that is small, all.
        chosen: What is looked for; each becomes one or two columns of 0 and 1.
        has_lists: Whether the columns are added that repeated items of a request need.
    """
    engine, log, source = run.engine, schema.impressions, run.experiment.logs.rows
    flag_columns = [
        f"cast(case when {sql} then 1 else 0 end as tinyint) as f_{number}"
        for number, flag in enumerate(chosen)
        for sql, number in ((flag.sql, 2 * number), (flag.among, 2 * number + 1))
        if sql
    ]
    item = f"case when i.item_id is not null then {engine.hash64(['i.item_id'])} % {_ITEMS} end"
    lists = ["i.request_id", "i.position", f"{item} as item"] if has_lists else []
    unit = engine.hash64(["i.unit_id"])
    is_utc = source.ts_zone is None and log.find_type("ts") in _UTC
    sql = f"""
    select {", ".join([f"{unit} as unit_hash", "i.time_ms", *lists, *flag_columns])}
    from seen i
    where i.in_period and i.set_aside is null
      and {sample.has(unit, log.find_type("ts") if is_utc else None)}
    """
    engine.view("audited", sql)


class Audits(NamedTuple):
    """Hold what the audits of a log counted, by name of the audit.

    `audits` are rows by hour and day, such as impressions; `shares` are shares of a variant's
    rows, such as those without an item.
    """

    audits: Mapping[str, Sequence[GroupRows]]
    shares: Mapping[str, Sequence[UnitShares]]


def audit_sums(run: Run, prepared: Prepared, metrics: Sequence[Metric] = ()) -> Audits:
    """Count every audit that these logs allow, after `prepare`."""
    if run.experiment.unit == ROW_UNIT:
        return Audits({}, {})
    run.step("audits")
    units, hours = _build_audited_units(run.experiment, prepared), _build_hourly_rows(prepared)
    daily = read_daily_rows(run, prepared, metrics)
    audits = audit_arrays.sum_hours(units, hours)
    if prepared.schema.has_time:
        audits |= sum_days(units, daily)
    shares = [
        *_audit_shares(run, prepared, units, hours),
        *count_outcome_units(units, {log: daily[log] for log in daily if log in prepared.covered}),
    ]
    return Audits(audits, group_rows(shares, lambda row: row.audit))


def _audit_shares(
    run: Run, prepared: Prepared, units: AuditedUnits, hours: HourlyRows
) -> Iterator[UnitShares]:
    schema, impressions = prepared.schema, units.sums(hours.unit, hours.impressions)
    if _has_clicks(schema):
        clicks = units.sums(hours.unit, hours.clicks)
        yield from units.shares_of_units("clicked", clicks, impressions, by_segment=True)
    yield from _count_row_shares(run, prepared, units, hours, impressions)
    yield from _count_set_aside(run, prepared, units)
    if prepared.repeats.duplicates:
        yield from _count_duplicates(run, schema, units, hours, impressions)
    if schema.exposures is not None:
        # By split period: who entered late had less time to come.
        code = units.split_period * len(units.variants) + units.variant
        names = [str(cell) for cell in range(int(units.split_period.max(initial=0)) + 1)]
        silent = (impressions == 0).astype(np.int64)
        yield from audit_arrays.sum_unit_shares(
            "silent", names, units.variants, code, silent, np.ones_like(silent)
        )


def _count_duplicates(
    run: Run, schema: LogSchema, units: AuditedUnits, hours: HourlyRows, impressions: Integers
) -> Iterator[UnitShares]:
    """Count rows that repeat another, of clicked and of other rows.

    Where clicks are sent again, a variant with more clicks has more repeated rows.
    """
    log = schema.impressions
    unit = run.engine.hash64([quote(log.mapped["unit_id"])])
    copies = f"{name_copies_column(log)} - 1 as copies, {write_click(log)} as click"
    run.engine.view("repeated_copies", f"select {unit} as unit_hash, {copies} from first_rows")
    read = _read_unit_arrays(run.engine, "audit/duplicates", units)
    clicked, repeated = (units.sums(read["unit"], read[name]) for name in ("clicked", "duplicates"))
    if "click" not in log or schema.clicks is not None:
        yield from units.shares_of_units("duplicate", repeated, impressions)
        return
    clicks = units.sums(hours.unit, hours.clicks)
    yield from units.shares_of_units("duplicate", clicked, clicks, "clicked")
    yield from units.shares_of_units("duplicate", repeated - clicked, impressions - clicks)


def _has_clicks(schema: LogSchema) -> bool:
    return schema.clicks is not None or "click" in schema.impressions


def _count_row_shares(
    run: Run, prepared: Prepared, units: AuditedUnits, hours: HourlyRows, impressions: Integers
) -> Iterator[UnitShares]:
    """Count flags, lists, machines and clicks by unit.

    This is the only place where audits read a log.
    """
    experiment, engine, schema = run.experiment, run.engine, prepared.schema
    chosen = list_flags(experiment, schema, _find_complete_columns(run, prepared))
    has_lists = "request_id" in schema.impressions and "position" in schema.impressions
    sample, none = _sample(hours), np.zeros_like(impressions)
    show_audited(run, schema, sample, chosen, has_lists)
    flagged = (
        _read_unit_arrays(engine, "audit/flags", units) if any(flag.sql for flag in chosen) else {}
    )
    # A column without a null has the same zero shares as any other: summed once.
    unflagged = [*units.shares_of_units("", none, impressions)]
    for index, flag in enumerate(chosen):
        if not flag.sql and not flag.variants:
            yield from (row._replace(audit=flag.audit, cell=flag.name) for row in unflagged)
            continue
        y, x = none, impressions
        if flag.sql:
            among = f"f_{2 * index + 1}" if flag.among else "impressions"
            columns = flagged[f"f_{2 * index}"], flagged[among]
            y, x = (units.sums(flagged["unit"], column) for column in columns)
        if flag.variants:
            # Other variants serve another score, so they cannot lack this one.
            x = x * np.isin(units.variants, flag.variants)[units.variant]
        yield from units.shares_of_units(flag.audit, y, x, flag.name)
    if has_lists or schema.has_time:
        name = "audit/lists" if has_lists else "audit/moments"
        lists = _read_unit_arrays(engine, name, units)
        if has_lists:
            yield from audit_arrays.list_shares(units, _keep_whole_lists(lists, sample))
        # None are looked for where single units are not to be seen.
        if schema.has_time and experiment.privacy.min_units is None:
            batches = [lists]
            busy = _choose_busiest_hours(units, hours, lists) if sample.spans else sample
            if busy.hashes:
                show_audited(run, schema, busy, chosen, has_lists)
                batches.append(_read_unit_arrays(engine, name, units))
            unit, time = (
                np.concatenate([part[n] for part in batches]) for n in ("unit", "time_ms")
            )
            longest = _LONGEST_SAMPLED_MS if sample.spans else _LONGEST_GAP_MS
            of_units = audit_arrays.find_machines(units, hours, unit, time, longest)
            yield from audit_arrays.sum_machine_shares(units, of_units, hours, _has_clicks(schema))
    if schema.clicks is not None:
        number = engine.hash64(["unit_id"])
        keys = f"select *, {number} as unit_hash from clicked_keys where {sample.has(number)}"
        engine.view("audited_keys", keys)
        clicks = _read_unit_arrays(engine, "audit/clicks", units)
        unit, different = clicks["unit"], clicks["different"]
        for cell in ("early", "same", "late", "unknown"):
            yield from units.shares("click_delay", unit, clicks[cell], clicks["clicks"], cell)
        yield from units.shares("click_again", unit, clicks["again"], different, by_segment=True)


def _find_complete_columns(run: Run, prepared: Prepared) -> frozenset[str]:
    """Find columns without a null.

    Footers of files tell; of a table of units, all are counted.
    """
    source, files, columns = run.experiment.logs.rows, prepared.files, prepared.schema.own_columns
    if run.experiment.is_unit_table and columns:
        counts = ", ".join(f"count({quote(column)})" for column in columns)
        ((rows, *counted),) = run.engine.rows(f"select count(*), {counts} from kept_impressions")
        return frozenset(c.lower() for c, n in zip(columns, counted, strict=True) if n == rows)
    # Text files have no footers, and a filter or query may make nulls.
    if not files.files or files.are_lines or source.where or source.query:
        return frozenset()
    return find_columns_without_nulls(files.files)


def _build_audited_units(experiment: Experiment, prepared: Prepared) -> AuditedUnits:
    units = prepared.assignment.units
    # Units that were assigned together come and stay away together.
    independent = units.hash if units.clusters is None else units.clusters.of_unit
    return AuditedUnits(
        number=units.hash,
        variant=units.variant.astype(np.int64),
        variant_group=units.variant * np.int64(CLUSTERS) + independent % CLUSTERS,
        split_period=units.split_period.astype(np.int64),
        segments=units.segments,
        variants=[*experiment.variants],
    )


def _build_hourly_rows(prepared: Prepared) -> HourlyRows:
    """Return the period's cells of analysed units, by hour."""
    cells, unit_index = prepared.cells, prepared.assignment.unit_index
    unit = unit_index[cells.unit]
    rows = find_rows(cells.counts & cells.in_period & (unit != NONE))
    hour = cells.hour[rows].astype(np.int64)
    timed = find_rows(hour != NO_DAY)
    hour_index = np.full(hour.size, NONE)
    distinct_hours, hour_index[timed] = unique_inverse(hour[timed])
    return HourlyRows(
        unit=unit[rows],
        distinct_hours=distinct_hours,
        hour=hour_index,
        first_ms=cells.first_ms[rows],
        last_ms=cells.last_ms[rows],
        impressions=cells.sums["c_1"][rows].astype(np.int64),
        clicks=cells.sums[prepared.schema.clicks_component][rows].astype(np.int64),
    )


def _sample(hours: HourlyRows) -> Sample:
    """Choose all impressions of a short log, or whole hours of a longer one."""
    impressions = int(hours.impressions.sum())
    if impressions <= MOST_ROWS:
        return Sample()
    read = max(FEWEST_ROWS, impressions // 24)
    if not hours.distinct_hours.size:
        return Sample(parts=PARTS * read // impressions)
    timed = hours.hour != NONE
    counts = np.bincount(hours.hour[timed], hours.impressions[timed])
    # Steps of the golden section leave no part of the log, and no hour of the day, without one.
    order = np.argsort(np.arange(counts.size) * _GOLDEN % 1)
    order = order[: np.searchsorted(counts[order].cumsum(), read) + 1]
    return Sample(_find_hour_spans(hours, np.sort(order)))


def _find_hour_spans(hours: HourlyRows, chosen: Integers) -> list[tuple[int, int]]:
    """Find the first and the last time of some hours."""
    first = np.full(hours.distinct_hours.size, NO_FIRST)
    last = np.full(hours.distinct_hours.size, NO_LAST)
    rows = np.flatnonzero(np.isin(hours.hour, chosen))
    np.minimum.at(first, hours.hour[rows], hours.first_ms[rows])
    np.maximum.at(last, hours.hour[rows], hours.last_ms[rows])
    return list(zip(first[chosen].tolist(), last[chosen].tolist(), strict=True))


def _keep_whole_lists(lists: Arrays, sample: Sample) -> Arrays:
    """Keep the lists that lie far enough inside their span to be whole."""
    if not sample.spans:
        return lists
    first, last = np.array(sample.spans).T
    time = lists["time_ms"]
    span = np.searchsorted(first, time, "right") - 1
    # A list at the edge of a span may have rows on the other side.
    inside = (time - first[span] >= _EDGE_MS) & (last[span] - time >= _EDGE_MS)
    return {name: column[inside] for name, column in lists.items()}


def _choose_busiest_hours(units: AuditedUnits, hours: HourlyRows, lists: Arrays) -> Sample:
    """Choose the busiest hours of single units, with as many rows as machines have.

    A list of a machine may be half as long as is usual.
    """
    length = np.median(lists["shown"]) if "shown" in lists else 1
    # A list of a machine may be half as long as is usual.
    is_busy = (hours.impressions > GAPS * max(1, length / 2)) & (hours.first_ms < NO_FIRST)
    many = np.flatnonzero(is_busy)
    order = many[np.lexsort((hours.hour[many], hours.unit[many], -hours.impressions[many]))]
    variant, count = units.variant[hours.unit[order]], max(1, _BUSY // len(units.variants))
    top = np.concatenate([order[variant == v][:count] for v in range(len(units.variants))])
    spans = zip(hours.first_ms[top].tolist(), hours.last_ms[top].tolist(), strict=True)
    return Sample([*spans], hashes=np.unique(units.number[hours.unit[top]]).tolist())


def _read_unit_arrays(engine: Engine, name: str, units: AuditedUnits) -> Arrays:
    """Fetch the numbers of a query by unit, for analysed units."""
    arrays = engine.arrays(query(name))
    columns = {n: np.ma.filled(column, 0).astype(np.int64) for n, column in arrays.items()}
    unit = find_hash_indices(columns.pop("unit_hash"), units.number)
    rows = np.flatnonzero(unit != NONE)
    return {"unit": unit[rows], **{name: column[rows] for name, column in columns.items()}}


def _count_set_aside(run: Run, prepared: Prepared, units: AuditedUnits) -> Iterator[UnitShares]:
    """Count rows of a logged variant that are set aside, by reason."""
    schema, cells, variants = prepared.schema, prepared.cells, units.variants
    reasons = [kind.set_aside for kind in cells.kinds]
    impressions = cells.sums["c_1"].astype(np.int64)

    def has(reason: str | None) -> NDArray[np.bool_]:
        return np.array([kind_reason == reason for kind_reason in reasons])[cells.kind]

    if schema.names_variant and not run.experiment.assigns:
        # Nobody knows whose rows without a unit are: the hours count as units.
        rows = run.engine.rows(query("audit/set_aside")) if any(cells.nameless) else ()
        hours = np.array(
            [(variants.index(str(v)), *map(read_int, row)) for v, _, *row in rows if v in variants]
        )
        if hours.size:
            yield from audit_arrays.sum_unit_shares("set_aside", ["null_unit"], variants, *hours.T)
        # Who was not exposed is no analysed unit, and has the variant of the log.
        if "not_exposed" in reasons:
            index = {name: i for i, name in enumerate(variants)}
            logged = np.array([index.get(kind.variant or "", NONE) for kind in cells.kinds])
            lost, variant = has("not_exposed"), logged[cells.kind]
            chosen = np.flatnonzero((variant != NONE) & (lost | has(None) & cells.in_period))
            code = cells.unit[chosen] * np.int64(len(variants)) + variant[chosen]
            y, x = (
                np.bincount(code, weights[chosen]) for weights in (impressions * lost, impressions)
            )
            # By split period of the first impression: who comes late is exposed less often.
            first_ms, splits = np.full(x.size, NO_FIRST), prepared.assignment.split_periods
            times = np.where(cells.in_period, cells.first_ms, NO_FIRST)[chosen]
            np.minimum.at(first_ms, code, times)
            number = number_split_periods(run.experiment, first_ms, splits).astype(np.int64)
            names = [f"not_exposed from {split.start}" for split in splits] or ["not_exposed"]
            # A code is unit times variants plus variant, so the remainder is the variant.
            every = number * len(variants) + np.arange(x.size) % len(variants)
            yield from audit_arrays.sum_unit_shares("set_aside", names, variants, every, y, x)
    if schema.has_time and "null_time" in reasons:
        unit = prepared.assignment.unit_index[cells.unit]
        analysed = np.flatnonzero(unit != NONE)
        y = (impressions * has("null_time"))[analysed]
        yield from units.shares("set_aside", unit[analysed], y, impressions[analysed], "null_time")
