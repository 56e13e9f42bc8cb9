"""Read single impressions once, and compute every source that needs them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.kernels import auc, reach, rows, values
from abeval.aggregates.kernels.rows import NONE, Block, Choice, Columns, UnitRows
from abeval.aggregates.wanted import Wanted
from abeval.bounds import MAX_WINDOW_DAYS
from abeval.engines.sql import Engine
from abeval.errors import QueryError
from abeval.experiment.model import Experiment
from abeval.logs.prepare import Prepared, faulty_expression
from abeval.logs.run import Run
from abeval.logs.shape import LogShape, value_columns
from abeval.logs.unit_arrays import NO_DAY, HashIndex, UnitDays, Units, Whole
from abeval.logs.units import SubBuckets
from abeval.logs.views import ITEM_GROUPS
from abeval.metrics.definition import (
    AUC,
    CATALOGUE,
    CATEGORY_DIVERSITY,
    GAUC,
    PAGE_VIEWS,
    QUANTILE,
    SERVED_RANKING,
    SESSIONS,
    Source,
)

INTEGERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
)
"""Types of ids that are words themselves."""

_SPAN = 1 << 26
"""Whole numbers of items in such a span are numbers of their own."""


class Items(NamedTuple):
    """Numbers of items, from 0.

    Attributes:
        sql: A word of 64 bits for the item of a row, negative without one.
        known: Place of each word, where words are hashes; None where they are the numbers.
    """

    sql: str
    known: HashIndex | None
    ids: "Sequence[object] | NDArray[np.generic]"

    @classmethod
    def of(cls, engine: Engine) -> "Items":
        """Return the items of all impressions."""
        if engine.columns("logged")["item_id"] in INTEGERS:
            id_ = "cast(item_id as bigint)"
            ((low, high),) = engine.rows(f"select min({id_}), max({id_}) from logged")
            first, last = int(low or 0), int(high or 0)
            if last - first < _SPAN:
                number = f"case when {id_} between {first} and {last} then {id_} - {first} else -1"
                return cls(f"{number} end", None, np.arange(first, last + 1))
        known = engine.arrays(
            f"select item_id, {engine.hash64(['item_id'])} as hash from "
            "(select distinct item_id from logged where item_id is not null) order by 2"
        )
        ids, hashes = np.asarray(known["item_id"]), np.asarray(known["hash"], dtype=np.int64)
        if not np.diff(hashes).all():
            raise ValueError("two items have the same hash of 64 bits")
        return cls(_hash_of(engine, "item_id"), HashIndex(hashes), ids)


class Categories(NamedTuple):
    """Numbers of categories, from 0.

    Attributes:
        known: Place of the hash of each.
        of_item: Number of the category of each item, and -1 at the end; None where only the
            impressions have categories.
    """

    known: HashIndex
    of_item: NDArray[np.int32] | None

    @classmethod
    def among(cls, engine: Engine, own: bool, items: Items | None) -> "Categories":
        """Return the categories of impressions, and those of a catalogue of items."""
        hashes, word = np.zeros(0, np.int64), engine.hash64(["category"])
        if own:
            distinct = "select distinct category from logged where category is not null"
            read = engine.arrays(f"select {word} as word from ({distinct}) as c")
            hashes = np.asarray(read["word"], dtype=np.int64)
        if items is None:
            return cls(HashIndex(np.unique(hashes)), None)
        # Equal numbers of two types have different hashes.
        kind = engine.columns("logged")["item_id"]
        listed = engine.arrays(
            f"select {items.sql} as item, {word} as category from "
            f"(select try_cast(item_id as {kind}) as item_id, category from items) as i "
            "where category is not null and item_id is not null"
        )
        item, words = (np.asarray(column, dtype=np.int64) for column in listed.values())
        index = HashIndex(np.unique(np.append(hashes, words)))
        number = item if items.known is None else _places(items.known, item)
        of_item = np.full(len(items.ids) + 1, -1, dtype=np.int32)
        of_item[number[number >= 0]] = index.places(words[number >= 0])
        return cls(index, of_item)

    def of(self, block: Block) -> NDArray[np.integer]:
        """Return the number of each impression's category, else of its item's; -1 for none."""
        own = block.rows.get("category")
        if self.of_item is None:
            return block.rows["category"]
        of_item = self.of_item[block.rows["item"]]
        return of_item if own is None else np.where(own >= 0, own, of_item)


def _places(index: HashIndex, words: Whole) -> NDArray[np.int32]:
    """Return the place of each hash, -1 for `NONE`."""
    return np.where(words < 0, -1, index.places(np.maximum(words, 0))).astype(np.int32)


def _hash_of(engine: Engine, column: str) -> str:
    """Return SQL of a word of 64 bits that stands for a value, `NONE` for null."""
    return f"case when {column} is null then {NONE} else {engine.hash64([column])} end"


def _numbered(known: Mapping[str, HashIndex | None], columns: Columns) -> Columns:
    """Return rows whose items and categories are numbers, by the places of their hashes."""
    hashed = [(name, index) for name, index in known.items() if index and name in columns]
    return {**columns, **{name: _places(index, columns[name]) for name, index in hashed}}


LISTS = (PAGE_VIEWS, SERVED_RANKING, CATEGORY_DIVERSITY)

KERNELS = frozenset((*LISTS, SESSIONS, GAUC, AUC, QUANTILE, CATALOGUE))
"""Sources that are computed over arrays."""


@dataclass(frozen=True)
class RowSums:
    """What the asked sources are over all impressions of analysed units.

    Attributes:
        days: Source → its sums by unit, phase and day, in the fewest bytes.
        catalogue: Who was shown what, where something asks for it.
        values: Columns of values by variant → the impressions of the period that have one.
        by_day: GAUC of each unit's days, where windows ask for it.
    """

    days: Mapping[Source, UnitDays]
    catalogue: reach.Catalogue
    values: Mapping[tuple[str, ...], values.Events]
    by_day: Mapping[Source, UnitDays]


NO_ROWS = RowSums({}, reach.NO_CATALOGUE, {}, {})
"""Of logs of which no source needs single impressions."""


@dataclass(frozen=True)
class PreparedLogs:
    """The logs of an experiment that are prepared on an open engine."""

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
    def shape(self) -> LogShape:
        """Return what the logs have."""
        return self.prepared.shape

    @property
    def units(self) -> Units:
        """Return the analysed units."""
        return self.prepared.placed.units


@dataclass(frozen=True)
class RowPass(PreparedLogs):
    """The scan of the impressions (`logged`) for some sources.

    Attributes:
        values: Columns of the values of each variant, for each value that is ranked.
        bucket: The sub-bucket of each unit, where the catalogue is among the sources.
        span: The first and the last day, where windows of days are asked for.
    """

    sources: frozenset[Source]
    values: Sequence[tuple[str, ...]]
    bucket: SubBuckets
    span: auc.Days | None = None

    def sums(self) -> RowSums:
        """Read the impressions once, and run the kernel of every source."""
        places = [f"value_{place}" for place in range(len(self.values))]
        variants = list(self.experiment.variants)
        with rows.unit_rows(self.engine, self._scan, places) as (read, events):
            days, of_days = self._days(read), list[UnitDays]()
            if self._is_scored:
                of_scores, of_days = auc.score_sums(read, self._arm, len(variants), self.span)
                days |= of_scores
            catalogue = self._catalogue(read) if CATALOGUE in self.sources else reach.NO_CATALOGUE
        of_values = [values.Events(variants, self._arm, self.units.stretch, *own) for own in events]
        known = dict(zip(self.values, of_values, strict=True))
        return RowSums(days, catalogue, known, {GAUC: _joined(of_days)} if of_days else {})

    @property
    def _scan(self) -> rows.Scan:
        choices = {f"value_{i}": self._choice(columns) for i, columns in enumerate(self.values)}
        if self._is_scored:
            of_variant = [self.shape.score_of.get(v, "") for v in self.experiment.variants]
            choices["score"] = self._choice(of_variant)._replace(none=np.nan)
        known = {
            "item": self._items and self._items.known,
            "category": self._categories and self._categories.known,
        }
        return rows.Scan(
            sql=self._sql,
            hashes=self.units.hash,
            count=min(max(1, self.prepared.rows // rows.BLOCK), max(1, len(self.units.hash))),
            slot_ms=self._gap_ms if SESSIONS in self.sources else 1,
            choices=choices,
            numbered=partial(_numbered, known),
            room=rows.room_of(self.experiment.engine),
            dated=self.span is not None,
        )

    def _choice(self, columns: Sequence[str]) -> Choice:
        """Return a column that each variant has of its own; an empty name for none."""
        listed = [*dict.fromkeys(filter(None, columns))]
        place = [listed.index(name) if name else -1 for name in columns]
        return Choice(listed, np.array(place, dtype=np.int16)[self._arm])

    @cached_property
    def _arm(self) -> NDArray[np.int16]:
        return self.units.variant.astype(np.int16)

    @cached_property
    def _items(self) -> Items | None:
        by_item = self.shape.has_item_categories and CATEGORY_DIVERSITY in self.sources
        return Items.of(self.engine) if by_item or CATALOGUE in self.sources else None

    @cached_property
    def _categories(self) -> Categories | None:
        if CATEGORY_DIVERSITY not in self.sources:
            return None
        items = self._items if self.shape.has_item_categories else None
        return Categories.among(self.engine, "category" in self.shape.impressions, items)

    @property
    def _is_scored(self) -> bool:
        return any(source.scored for source in self.sources)

    @property
    def _gap_ms(self) -> int:
        return max(1, round(self.experiment.sessions.gap_minutes * 60_000))

    @property
    def _sql(self) -> str:
        """Return the columns that the sources need, and nothing null."""
        listed = {"unit": self.engine.hash64(["unit_id"]), "in_period": "in_period"}
        has_lists = any(source in self.sources for source in LISTS)
        if has_lists or SESSIONS in self.sources or self.span:
            since = "date_diff('day', date '1970-01-01', day)"
            listed["day"] = f"cast(coalesce({since}, {NO_DAY}) as integer)"
        if has_lists:
            is_number = self.engine.columns("logged")["request_id"] in INTEGERS
            number = f"coalesce(cast(request_id as bigint), {NONE})"
            listed["request"] = number if is_number else _hash_of(self.engine, "request_id")
        if SESSIONS in self.sources:
            listed["time_ms"] = f"coalesce(time_ms, {NONE})"
        if SERVED_RANKING in self.sources:
            listed["position"] = f"coalesce(position, {NONE})"
        if SERVED_RANKING in self.sources or self._is_scored:
            listed["click"] = "click = 1"
        if self._items is not None:
            listed["item"] = self._items.sql
        if self._categories is not None and "category" in self.shape.impressions:
            listed["category"] = _hash_of(self.engine, "category")
        if self._is_scored:
            scores = self.shape.score_of.values()
            listed |= {name: f"coalesce({name}, cast('nan' as double))" for name in scores}
        names = [name for columns in self.values for name in columns]
        listed |= {name: f"coalesce({name}, {NONE})" for name in names}
        only = "" if has_lists or SESSIONS in self.sources else " and in_period"
        columns = ", ".join(f"{sql} as {name}" for name, sql in listed.items())
        return f"select {columns} from logged where counts{only}"

    def _days(self, read: UnitRows) -> dict[Source, UnitDays]:
        """Return the sums of sources that need the rows of one block alone."""
        if self.sources.isdisjoint({*LISTS, SESSIONS}):
            return {}
        work = partial(_of_block, self.sources, self._gap_ms, self._categories)
        parts = [*read.each(work, "click", "position", "item", "category")]
        # The parts of a source go as it is joined: all together would be there twice.
        return {source: _joined([part.pop(source) for part in parts]) for source in [*parts[0]]}

    def _catalogue(self, read: UnitRows) -> reach.Catalogue:
        """Return who was shown what."""
        variants, listed = [*self.experiment.variants], self._items.ids if self._items else ()
        first, last = self.span or (0, -1)
        sizes = reach.Sizes(
            len(variants) * ITEM_GROUPS,
            *(max(len(listed), 1), max(len(self.units.hash), 1)),
            *(first, last - first + 1),
        )
        if not sizes.fit:
            raise QueryError("units and items are too many to count who was shown what")
        # Sorted by their ids, so that sums over items are the same to the last digit in every run.
        met = reach.shown_in(read, len(listed))
        ids = np.asarray(listed)[met].astype(str)
        order = np.argsort(ids)
        place = np.zeros(len(listed), dtype=np.int32)
        place[met[order]] = np.arange(len(met))
        group = self._arm * np.int64(ITEM_GROUPS) + self.bucket % ITEM_GROUPS
        counts = reach.shown(read, group, place, sizes, rows.room_of(self.experiment.engine))
        period = reach.reach_of(variants, ids[order].tolist(), counts, sizes)
        return reach.Catalogue(period, group, counts if self.span else rows.Blocks(0), sizes)


def row_sums(
    run: Run, prepared: Prepared, wanted: Wanted, bucket: SubBuckets, by_day: bool = False
) -> RowSums:
    """Compute what the wanted metrics need of the rows; by day too, if windows are computed.

    Raises:
        ExperimentError: The expression of a value cannot be computed.
        QueryError: The engine could not read the log.
    """
    ranked = [*wanted.quantiles, *wanted.spreads]
    sources = KERNELS & {*wanted.sources, *(metric.source for metric in ranked)}
    if not sources:
        return NO_ROWS
    shape, span = prepared.shape, _span(prepared) if by_day else None
    columns = (tuple(value_columns(shape, run.experiment, one).values()) for one in ranked)
    run.step("impressions")
    try:
        return RowPass(run, prepared, sources, [*dict.fromkeys(columns)], bucket, span).sums()
    except QueryError as error:
        raise faulty_expression(run, ranked, shape, error) from error


def _span(prepared: Prepared) -> auc.Days | None:
    """Return the first and the last day of the period; None where windows refuse so many days."""
    days = prepared.days.day[prepared.days.in_period & (prepared.days.day != NO_DAY)]
    first, last = int(days.min(initial=2**31 - 1)), int(days.max(initial=NO_DAY))
    return (first, last) if len(days) and last - first < MAX_WINDOW_DAYS else None


def _of_block(
    sources: frozenset[Source], gap_ms: int, categories: Categories | None, block: Block
) -> dict[Source, UnitDays]:
    """Return the sums of the units of a block."""
    days = {SESSIONS: values.sessions(block, gap_ms)} if SESSIONS in sources else {}
    if sources.isdisjoint(LISTS):
        return days
    lists = values.lists_of(block)
    if PAGE_VIEWS in sources:
        days[PAGE_VIEWS] = values.page_views(lists)
    if SERVED_RANKING in sources:
        days[SERVED_RANKING] = values.served_ranking(block, lists)
    if categories is not None:
        category = categories.of(block)
        days[CATEGORY_DIVERSITY] = values.category_diversity(block, lists, category)
    return days


def _joined(parts: Sequence[UnitDays]) -> UnitDays:
    """Join the sums of blocks by unit: those of another machine have units from everywhere."""
    unit, phase, day = (np.concatenate([part[i] for part in parts]) for i in range(3))
    order = slice(None) if (np.diff(unit) >= 0).all() else np.argsort(unit, kind="stable")
    columns = {
        name: np.concatenate([part.columns[name] for part in parts])[order]
        for name in parts[0].columns
    }
    return UnitDays(unit[order], phase[order], day[order], columns)
