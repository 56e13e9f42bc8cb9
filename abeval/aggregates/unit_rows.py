"""Keep impressions of analysed units as narrow rows, and sum their sources."""

import ctypes
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.ranked_values import UnitValues
from abeval.aggregates.reach import Catalogue, read_catalogue, split_into_blocks
from abeval.aggregates.wanted import MetricPlan
from abeval.engines.sql import WHOLE, Engine, query, quote, read_int
from abeval.errors import ExperimentError, QueryError
from abeval.experiment.model import Experiment
from abeval.logs.cells import write_unit_hash
from abeval.logs.prepare import Prepared, find_faulty_expression
from abeval.logs.run import Run, extract_reason
from abeval.logs.shape import LogSchema, find_quantile_columns, name_row_column
from abeval.logs.unit_arrays import NO_DAY, UnitDays, Units, downcast, pack_key
from abeval.logs.units import SubBuckets
from abeval.logs.views import ITEM_GROUPS, write_popularity, write_row_steps
from abeval.metrics.definition import AUC, CATALOGUE, GAUC, QUANTILE, Source

_NUMBERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
)
"""Types of ids that are narrow already."""


@dataclass(frozen=True)
class RowSums:
    """Hold the chosen sources over all impressions of analysed units.

    Attributes:
        days: Source → its sums by unit, phase and day, in the fewest bytes.
        by_day: GAUC of each unit's days, where windows ask for it.
        values: Columns of values by variant → those that each unit has.
        catalogue: Who was shown what, where something asks for it.
    """

    days: Mapping[Source, UnitDays] = field(default_factory=dict)
    by_day: Mapping[Source, UnitDays] = field(default_factory=dict)
    values: Mapping[tuple[str, ...], UnitValues] = field(default_factory=dict)
    catalogue: Catalogue = field(default_factory=Catalogue)


@dataclass(frozen=True)
class PreparedLogs:
    """Hold logs of an experiment that are prepared on an open engine."""

    run: Run
    prepared: Prepared

    @property
    def experiment(self) -> Experiment:
        """Return what is analysed."""
        return self.run.experiment

    @property
    def engine(self) -> Engine:
        """Return where queries run."""
        return self.run.engine

    @property
    def schema(self) -> LogSchema:
        """Return what the logs have."""
        return self.prepared.schema

    @property
    def units(self) -> Units:
        """Return the analysed units."""
        return self.prepared.assignment.units


@dataclass(frozen=True)
class UnitRows(PreparedLogs):
    """Keep the impressions of analysed units as `narrow_rows`, with numeric ids.

    Attributes:
        values: Columns of the values of each variant, for each value that is ranked.
        bucket: The sub-bucket of each unit, where the catalogue is among the sources.
        by_day: Whether days are wanted also where they do not add up.
    """

    sources: Sequence[Source]
    values: Sequence[tuple[str, ...]]
    bucket: SubBuckets
    by_day: bool = False

    def sums(self) -> RowSums:
        """Sum the sources: added ones, then the others, over rows that are written once."""
        engine = self.engine
        units: dict[str, NDArray[np.generic]] = {
            "unit_hash": self.units.hash,
            "unit_id": np.arange(len(self.units.hash), dtype=np.int32),
            "arm": self.units.variant,
        }
        if CATALOGUE in self.sources:
            units["unit_group"] = self._group
        engine.add_arrays("row_units", units)
        days, of_scores = self._sum_added(), dict[Source, UnitDays]()
        values, catalogue = dict[tuple[str, ...], UnitValues](), Catalogue()
        if len(days) < len(self.sources):
            shown = {name: name for name in self._write_narrow_rows()}
            days |= self._sum_sources(self._metric_sources, "metric_rows", shown)
            days |= self._sum_scores()
            of_scores = self._sum_scores(by_day=True) if self.by_day else {}
            values = {columns: self._read_values(i) for i, columns in enumerate(self.values)}
            if CATALOGUE in self.sources:
                catalogue = self._read_catalogue()
        engine.drop("narrow_rows", "row_units")
        # glibc keeps most of what threads have freed; other systems have no such call.
        with suppress(AttributeError, OSError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)
        return RowSums(days, of_scores, values, catalogue)

    def _is_number(self, name: str) -> bool:
        """Tell whether an id is a narrow number in the log."""
        return self.schema.impressions.find_type(name) in _NUMBERS

    def _number(self, name: str) -> str:
        """Write an id of a row `l` as a number: itself, or its hash."""
        return f"l.{name}" if self._is_number(name) else _hash(self.engine, f"l.{name}")

    @property
    def _metric_sources(self) -> list[Source]:
        return [s for s in self.sources if s.reads_metric_rows and s.sql is None]

    @property
    def _score_sources(self) -> list[Source]:
        return [source for source in (GAUC, AUC) if source in self.sources]

    @property
    def _score_sql(self) -> str:
        """Write the score that a unit's variant serves."""
        return _pick_by_variant([self.schema.score_of.get(v) for v in self.experiment.variants])

    @property
    def _period(self) -> dict[str, str]:
        """Return the columns of `analysed_rows` for sums over the period, or by day."""
        return _PERIOD | ({"day": "day"} if self.by_day else {})

    @property
    def _group(self) -> NDArray[np.integer]:
        """Pack variant and group of sub-buckets of each unit into one number."""
        return downcast(self.units.variant * np.int64(ITEM_GROUPS) + self.bucket % ITEM_GROUPS)

    def _write(self, relation: str, columns: Mapping[str, str], joins: str, counts: str) -> None:
        """Write rows of analysed units; `columns` are SQL of a row and its unit."""
        columns_sql = ", ".join(f"{sql} as {name}" for name, sql in columns.items())
        unit_hash = write_unit_hash(self.engine, self.schema, "l.unit_id")
        self.engine.table(
            relation,
            f"select u.unit_id, {columns_sql} from logged l "
            f"join row_units u on {unit_hash} = u.unit_hash {joins} "
            f"where {counts}",
        )

    def _sum_added(self) -> dict[Source, UnitDays]:
        """Sum the sources of added metrics, which read ids as they are in the log."""
        sources = [source for source in self.sources if source.sql is not None]
        if not sources:
            return {}
        joins, columns = "", {"in_period": "l.in_period", "day": _DAY}
        for name in (name for source in sources for name in source.reads if name not in columns):
            if name == "category":
                columns[name], joins = self._select_category("l.category")
            elif name == "score":
                columns[name] = self._score_sql
            else:
                columns[quote(name)] = f"l.{quote(name_row_column(name))}"
        self._write("metric_rows", columns, joins, "counts")
        days = {source: _read_added_days(self.engine, source) for source in sources}
        self.engine.drop("metric_rows")
        return days

    def _write_narrow_rows(self) -> list[str]:
        """Write the rows for the other sources; return the columns that the sources read."""
        item_join = category_join = ""
        columns, counts = {"in_period": "l.in_period"}, "counts"
        read = {name for source in self._metric_sources for name in source.reads}
        if "day" in read or self.by_day:
            columns["day"] = _DAY
        columns |= {name: f"l.{name}" for name in ("time_ms", "position") if name in read}
        if "request_id" in read:
            columns["request_id"] = self._number("request_id")
        if "item_id" in read:
            columns["item"] = self._number("item_id")
        if any(source.of_past for source in self._metric_sources):
            write_popularity(self.engine, columns["item"])
        if "category" in read:
            category = _hash(self.engine, "l.category")
            columns["category"], category_join = self._select_category(category)
        if "click" in read or self._score_sources:
            columns["click"] = "cast(l.click as tinyint)"
        of_period = {f"value_{i}": _pick_by_variant(c) for i, c in enumerate(self.values)}
        if self._score_sources:
            of_period["score"], columns["arm"] = self._score_sql, "u.arm"
        if CATALOGUE in self.sources:
            of_period["shown_item"], item_join = self._name_items()
            columns["unit_group"] = "u.unit_group"
        if not read:
            has_any = " or ".join(f"{sql} is not null" for sql in of_period.values())
            counts = f"counts and l.in_period and ({has_any})"
        self._write("narrow_rows", columns | of_period, f"{category_join} {item_join}", counts)
        return ["unit_id", *columns]

    def _select_category(self, own_category: str) -> tuple[str, str]:
        """Return SQL of a row's category, its own or that of its item, and its join."""
        has_own = "category" in self.schema.impressions
        if not self.schema.has_item_categories:
            return own_category if has_own else "null", ""
        is_logged = own_category == "l.category"
        id_type = self.schema.impressions.find_type("item_id")
        _write_categories(
            self.engine, "text" if is_logged else "hash" if has_own else "number", id_type
        )
        categories = f"{own_category}, c.category" if has_own else "c.category"
        return f"coalesce({categories})", "left join item_categories c on l.item_id = c.item_id"

    def _name_items(self) -> tuple[str, str]:
        """Create `item_names`; return SQL of an item's number, and its join."""
        engine, log = self.engine, self.schema.impressions
        if self._is_number("item_id"):
            item_id = quote(log.mapped["item_id"])
            ((low, high),) = engine.rows(f"select min({item_id}), max({item_id}) from {log.raw}")
            if low is not None and (size := read_int(high) - read_int(low) + 1) <= _SPAN:
                item = np.arange(size)
                engine.add_arrays("item_names", {"item_id": read_int(low) + item, "item": item})
                # Ids in a small range are numbers already, which saves a join over all rows.
                return f"cast(l.item_id - {low} as integer)", ""
        engine.table("item_names", _ITEM_NAMES)
        return "i.item", "left join item_names i on l.item_id = i.item_id"

    def _sum_scores(self, by_day: bool = False) -> dict[Source, UnitDays]:
        """Sum the sources of scores over the period, or GAUC by day."""
        columns = {**_PERIOD, **{name: name for name in ("score", "click")}, "variant": "arm"}
        days, tests = dict[Source, UnitDays](), ""
        if by_day:
            columns["day"], tests = "day", "day is not null and"
        for source in self._score_sources:
            if source.of_days or not by_day:
                days |= self._sum_sources([source], "scored", columns, tests)
        return days

    def _sum_sources(
        self, sources: Sequence[Source], name: str, columns: Mapping[str, str], tests: str = ""
    ) -> dict[Source, UnitDays]:
        """Sum sources of a query of `3_rows/`."""
        parts: dict[Source, list[UnitDays]] = {source: [] for source in sources}
        # Many rows are grouped for some units at a time; AUC compares the rows of all.
        size = 0 if AUC in sources else self.prepared.rows
        for start, end in split_into_blocks(self.engine, size, len(self.units.hash)):
            rows = f"narrow_rows where {tests} unit_id >= {start} and unit_id < {end}"
            steps = write_row_steps(name, columns, rows)
            for source in sources:
                parts[source].append(read_days(self.engine, source, steps))
        return {source: _concatenate(days) for source, days in parts.items()}

    def _read_values(self, index: int) -> UnitValues:
        """Read the values of each unit, by day where windows ask for it."""
        steps = write_row_steps(
            "valued", {**self._period, "value": f"value_{index}"}, "narrow_rows"
        )
        read = self.engine.arrays(self.engine.write_steps(steps, query(QUANTILE.query)))
        return UnitValues(
            [*self.experiment.variants],
            self.units.variant,
            self.units.split_period,
            unit=np.asarray(read["unit_id"]).astype(np.int32),
            value=np.asarray(read["value"]).astype(np.int64),
            events=downcast(np.asarray(read["events"])),
            day=np.ma.filled(read["day"], NO_DAY).astype(np.int32),
        )

    def _read_catalogue(self) -> Catalogue:
        """Read who was shown what."""
        variants, rows = [*self.experiment.variants], self.prepared.rows
        columns = {**self._period, "unit_group": "unit_group", "item": "shown_item"}
        return read_catalogue(self.engine, variants, self._group, rows, columns)


_DAY = "cast(date_diff('day', date '1970-01-01', l.day) as integer)"
_NO_DAY = "cast(null as integer)"
_PERIOD = {"unit_id": "unit_id", "in_period": "in_period"}

_SPAN = 2**20
"""Largest range of numeric item ids that are used as they are."""

_ITEM_NAMES = """
select item_id, cast(row_number() over (order by item_id) - 1 as integer) as item
from (select distinct item_id from seen where item_id is not null) as shown
"""


def _hash(engine: Engine, column: str) -> str:
    """Write a 64-bit hash of a value, null for null."""
    return f"case when {column} is not null then {engine.hash64([column])} end"


def _pick_by_variant(columns: Sequence[str | None]) -> str:
    """Write the column that each unit's variant reads; null for None."""
    if len({*columns}) == 1:
        return f"l.{columns[0]}"
    cases = " ".join(f"when {arm} then l.{column}" for arm, column in enumerate(columns) if column)
    return f"case u.arm {cases} end"


def _write_categories(
    engine: Engine, form: Literal["text", "hash", "number"], id_type: str
) -> None:
    """Create `item_categories`, with categories as texts, hashes or numbers."""
    word = {
        "text": "category",
        "hash": engine.hash64(["category"]),
        "number": "dense_rank() over (order by category)",
    }[form]
    # Ids of the item log may be text where those of the impressions are numbers.
    kind = id_type or "bigint"
    engine.table(
        "item_categories",
        f"""
        with cast_ids as (select try_cast(item_id as {kind}) as item_id, category from items),
        listed as (
          select item_id, min(category) as category from cast_ids
          where item_id is not null and category is not null group by item_id
        )
        select item_id, {word} as category from listed
        """,
    )


def _concatenate(parts: Sequence[UnitDays]) -> UnitDays:
    """Concatenate the sums of blocks of units."""
    unit, in_period, day = (np.concatenate([part[i] for part in parts]) for i in range(3))
    names = parts[0].columns
    columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in names}
    return UnitDays(unit, in_period, day, columns)


def read_days(engine: Engine, source: Source, steps: Mapping[str, str]) -> UnitDays:
    """Run a source's query over some steps; read its sums by unit, phase and day."""
    text = query(source.query, source.sql)
    rows, sums = f"({text})", "columns('^c_')"
    if source.sql is not None:
        engine.view("unit_sums", text)
        rows, sums = "unit_sums", _cast_sums(engine)
    dated = "day" if source.daily or source.of_days else _NO_DAY
    selected = f"select unit_id, in_period, {dated} as day, {sums} from {rows} as s"
    read = dict(engine.arrays(engine.write_steps(steps, selected)))
    unit, in_period = np.asarray(read.pop("unit_id")), np.asarray(read.pop("in_period"), dtype=bool)
    unit, day = unit.astype(np.int32), np.ma.filled(read.pop("day"), NO_DAY).astype(np.int32)
    order = np.argsort(pack_key(unit, in_period, day))
    columns = {
        name: downcast(np.ma.filled(read.pop(name), 0).astype(np.int64))[order] for name in [*read]
    }
    return UnitDays(unit[order], in_period[order], day[order], columns)


def _read_added_days(engine: Engine, source: Source) -> UnitDays:
    """Read the sums of the query of an added metric.

    Raises:
        ExperimentError: The query fails, or its rows are not those of a source.
    """
    try:
        days = read_days(engine, source, {})
    except QueryError as error:
        what = f"the query of metric {source.title!r} cannot be computed: {extract_reason(error)}"
        hint = f"correct the query; metric_rows has unit_id, {', '.join(source.reads)}"
        raise ExperimentError(what, error.hint or hint) from error
    except ValueError as error:
        raise ExperimentError(f"the query of metric {source.title!r}: {error}") from error
    rows = pack_key(days.unit, days.in_period, days.day)
    if len(np.unique(rows)) < len(rows):
        keys = "unit_id, in_period, day" if source.daily else "unit_id, in_period"
        what = f"the query of metric {source.title!r} has several rows of the same {keys}"
        raise ExperimentError(what, f"end it with `group by {keys}`")
    return days


def _cast_sums(engine: Engine) -> str:
    """Select the sums of an added query as whole numbers.

    Raises:
        ValueError: One of them is no whole number.
    """
    kinds = engine.columns("unit_sums")
    sums = {name: kind for name, kind in kinds.items() if name.startswith("c_")}
    for name, kind in sums.items():
        if not WHOLE.match(kind):
            raise ValueError(
                f"{name} is {kind}, and sums are whole numbers: write "
                f"cast(round({name} * 1e6) as bigint), and add the metric with scale=1e-6"
            )
    return ", ".join(f"cast({name} as bigint) as {name}" for name in sums)


def collect_row_sums(
    run: Run, prepared: Prepared, plan: MetricPlan, bucket: SubBuckets, by_day: bool = False
) -> RowSums:
    """Compute what the planned metrics need of single rows.

    With `by_day` also by day, for windows.

    Raises:
        ExperimentError: The expression of a value cannot be computed.
        QueryError: The engine could not read the log.
    """
    ranked = [*plan.quantiles, *plan.spreads]
    every = dict.fromkeys([*plan.sources, *(metric.source for metric in ranked)])
    sources = [source for source in every if source.reads_rows]
    if not sources:
        return RowSums()
    columns = (
        tuple(find_quantile_columns(prepared.schema, run.experiment, m).values()) for m in ranked
    )
    run.step("impressions")
    try:
        return UnitRows(run, prepared, sources, [*dict.fromkeys(columns)], bucket, by_day).sums()
    except QueryError as error:
        raise find_faulty_expression(run, ranked, prepared.schema, error) from error
