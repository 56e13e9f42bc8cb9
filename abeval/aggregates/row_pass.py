"""Read single impressions once, and compute every source that needs them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.kernels import reach, values
from abeval.aggregates.kernels.auc import Days, score_sums
from abeval.aggregates.kernels.reach import NO_CATALOGUE, Catalogue
from abeval.aggregates.kernels.rows import (
    BLOCK,
    NONE,
    Block,
    Choice,
    Column,
    HashIndex,
    Placing,
    Scan,
    UnitRows,
    room_of,
    unit_rows,
)
from abeval.aggregates.kernels.values import Events, sessions
from abeval.aggregates.wanted import Wanted
from abeval.bounds import MAX_WINDOW_DAYS
from abeval.engines.protocol import Engine
from abeval.errors import QueryError
from abeval.experiment.model import Experiment
from abeval.logs.prepare import Prepared, faulty_expression
from abeval.logs.run import Run
from abeval.logs.shape import LogShape, value_columns
from abeval.logs.unit_arrays import NO_DAY, UnitDays, Units, Whole, narrow
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
        sql: A word of 64 bits for the item of a row, `NONE` without one.
        first: The word of item 0, where words are numbers themselves.
        known: Place of each word, where they are hashes; None where they are not.
        ids: Of each item.
    """

    sql: str
    first: int
    known: HashIndex | None
    ids: "Sequence[object] | NDArray[np.generic]"

    @classmethod
    def of(cls, engine: Engine) -> "Items":
        """Return the items of all impressions."""
        if engine.columns("logged")["item_id"] in INTEGERS:
            ((low, high),) = engine.rows(
                "select cast(min(item_id) as bigint), cast(max(item_id) as bigint) from logged"
            )
            first, last = int(low or 0), int(high or 0)
            if last - first < _SPAN:
                word = word_of(engine, "item_id", is_number=True)
                return cls(word, first, None, np.arange(first, last + 1))
        known = engine.frame(
            f"select item_id, {engine.hash64(['item_id'])} as hash from "
            "(select distinct item_id from logged where item_id is not null) order by 2"
        )
        if known["hash"].duplicated().any():
            raise ValueError("two items have the same hash of 64 bits")
        index = HashIndex(known["hash"].to_numpy(np.int64))
        word = word_of(engine, "item_id", is_number=False)
        return cls(word, 0, index, known["item_id"].to_numpy())

    def numbers(self, words: Whole) -> NDArray[np.int32]:
        """Return the number of each word, -1 for no known item."""
        if self.known is not None:
            return _places(self.known, words)
        known = (words >= self.first) & (words < self.first + len(self.ids))
        number = (words - self.first).astype(np.int32)
        if not known.all():
            number[~known] = -1
        return number


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
            hashes = np.asarray(
                engine.arrays(f"select {word} as word from ({distinct}) as c")["word"]
            )
        if items is None:
            return cls(HashIndex(np.unique(hashes)), None)
        # Equal numbers of two types have different hashes.
        kind = engine.columns("logged")["item_id"]
        listed = engine.arrays(
            f"select {items.sql} as item, {word} as category from "
            f"(select try_cast(item_id as {kind}) as item_id, category from items) as i "
            "where category is not null and item_id is not null"
        )
        words = np.asarray(listed["category"], dtype=np.int64)
        index = HashIndex(np.unique(np.append(hashes, words)))
        of_item = np.full(len(items.ids) + 1, -1, dtype=np.int32)
        number = items.numbers(np.asarray(listed["item"], dtype=np.int64))
        known = number >= 0
        of_item[number[known]] = index.places(words[known])
        return cls(index, of_item)

    def of(
        self, own: NDArray[np.integer] | None, item: NDArray[np.integer] | None
    ) -> NDArray[np.integer]:
        """Return the number of each impression's category, else of its item's; -1 for none."""
        if self.of_item is None or item is None:
            if own is None:
                raise ValueError("neither impressions nor items have categories")
            return own
        of_item = self.of_item[item]
        return of_item if own is None else np.where(own >= 0, own, of_item)


def _places(index: HashIndex, words: Whole) -> NDArray[np.int32]:
    """Return the place of each hash, -1 for `NONE`."""
    return np.where(words < 0, -1, index.places(np.maximum(words, 0))).astype(np.int32)


def word_of(engine: Engine, column: str, is_number: bool) -> str:
    """Return SQL of a word of 64 bits that stands for a value, `NONE` for null."""
    if is_number:
        return f"coalesce(cast({column} as bigint), {NONE})"
    return f"case when {column} is null then {NONE} else {engine.hash64([column])} end"


class Numbering(NamedTuple):
    """Makes numbers of the words of items and categories, where there are such."""

    items: Items | None
    categories: Categories | None

    def numbered(self, columns: Mapping[str, Column]) -> Mapping[str, Column]:
        """Rows whose items and categories are numbers."""
        rows = dict(columns)
        if self.items is not None:
            rows["item"] = self.items.numbers(rows["item"])
        if "category" in rows and self.categories is not None:
            rows["category"] = _places(self.categories.known, rows["category"])
        return rows


LISTS = (PAGE_VIEWS, SERVED_RANKING, CATEGORY_DIVERSITY)

KERNELS = frozenset((*LISTS, SESSIONS, GAUC, AUC, QUANTILE, CATALOGUE))
"""Sources that are computed over arrays."""

_SCORE = "score"


@dataclass(frozen=True)
class RowSums:
    """What the asked sources are over all impressions of analysed units.

    Attributes:
        days: Source → its sums by unit, phase and day, in the fewest bytes.
        catalogue: Who was shown what, where something asks for it.
        values: Columns of values by variant → the impressions of the period that have one.
        gauc_days: GAUC of each unit's days, where windows ask for it.
    """

    days: Mapping[Source, UnitDays]
    catalogue: Catalogue
    values: Mapping[tuple[str, ...], Events]
    gauc_days: UnitDays | None = None


NO_ROWS = RowSums({}, NO_CATALOGUE, {})
"""Of logs of which no source needs single impressions."""


@dataclass(frozen=True)
class RowPass:
    """The scan of the impressions for some sources.

    Attributes:
        experiment: The experiment.
        shape: Columns of its logs.
        engine: With the view `logged`.
        units: The analysed units.
        sources: What is computed.
        values: Columns of the values of each variant, for each value that is ranked.
        rows: About how many impressions there are.
        bucket: The sub-bucket of each unit, where the catalogue is among the sources.
        span: The first and the last day, where windows of days are asked for.
    """

    experiment: Experiment
    shape: LogShape
    engine: Engine
    units: Units
    sources: frozenset[Source]
    values: Sequence[tuple[str, ...]]
    rows: int
    bucket: SubBuckets
    span: Days | None = None

    def sums(self) -> RowSums:
        """Read the impressions once, and run the kernel of every source."""
        places = [f"value_{place}" for place in range(len(self.values))]
        with unit_rows(self.engine, self._scan, places) as (rows, events):
            days, gauc_days = self._days(rows), None
            if self._is_scored:
                of_scores = score_sums(rows, self._arm, len(self.experiment.variants), self.span)
                days |= {GAUC: _narrow(of_scores.gauc), AUC: _narrow(of_scores.auc)}
                gauc_days = _joined(of_scores.gauc_days) if of_scores.gauc_days else None
            catalogue = self._catalogue(rows) if CATALOGUE in self.sources else NO_CATALOGUE
        units, variants = self.units, list(self.experiment.variants)
        values = {
            columns: Events(variants, self._arm, units.stretch, *listed)
            for columns, listed in zip(self.values, events, strict=True)
        }
        return RowSums(days, catalogue, values, gauc_days)

    @property
    def _scan(self) -> Scan:
        choices = {f"value_{i}": self._choice(columns) for i, columns in enumerate(self.values)}
        if self._is_scored:
            of_variant = [self.shape.score_of.get(v, "") for v in self.experiment.variants]
            choices[_SCORE] = self._choice(of_variant)._replace(none=np.nan)
        gap = self._gap_ms if SESSIONS in self.sources else 1
        count = min(max(1, self.rows // BLOCK), max(1, len(self.units.hash)))
        placing = Placing(self.units.hash, count, gap, choices)
        numbered = Numbering(self._items, self._categories).numbered
        room = room_of(self.experiment.engine)
        return Scan(self._sql, placing, numbered, room, dated=self.span is not None)

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
            listed["request"] = word_of(self.engine, "request_id", is_number)
        if SESSIONS in self.sources:
            listed["time_ms"] = f"coalesce(time_ms, {NONE})"
        if SERVED_RANKING in self.sources:
            listed["position"] = f"coalesce(position, {NONE})"
        if SERVED_RANKING in self.sources or self._is_scored:
            listed["click"] = "click = 1"
        if self._items is not None:
            listed["item"] = self._items.sql
        if self._categories is not None and "category" in self.shape.impressions:
            listed["category"] = word_of(self.engine, "category", is_number=False)
        if self._is_scored:
            scores = dict.fromkeys(self.shape.score_of.values())
            listed |= {name: f"coalesce({name}, cast('nan' as double))" for name in scores}
        values = dict.fromkeys(name for columns in self.values for name in columns)
        listed |= {name: f"coalesce({name}, {NONE})" for name in values}
        only = "" if has_lists or SESSIONS in self.sources else " and in_period"
        columns = ", ".join(f"{sql} as {name}" for name, sql in listed.items())
        return f"select {columns} from logged where counts{only}"

    def _days(self, rows: UnitRows) -> dict[Source, UnitDays]:
        """Return the sums of sources that need the rows of one block alone."""
        if self.sources.isdisjoint({*LISTS, SESSIONS}):
            return {}
        work = partial(_of_block, self.sources, self._gap_ms, self._categories)
        parts = [*rows.each(work, "click", "position", "item", "category")]
        # The parts of a source go as it is joined: all together would be there twice.
        return {source: _joined([part.pop(source) for part in parts]) for source in [*parts[0]]}

    def _catalogue(self, rows: UnitRows) -> Catalogue:
        """Who was shown what."""
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
        met = reach.shown_in(rows, len(listed))
        ids = np.asarray(listed)[met].astype(str)
        order = np.argsort(ids)
        place = np.zeros(len(listed), dtype=np.int32)
        place[met[order]] = np.arange(len(met))
        group = self._arm * np.int64(ITEM_GROUPS) + self.bucket % ITEM_GROUPS
        shown = reach.shown(rows, group, place, sizes, room_of(self.experiment.engine))
        return Catalogue.of(variants, ids[order].tolist(), group, shown)


def row_sums(
    run: Run, prepared: Prepared, wanted: Wanted, bucket: SubBuckets, by_day: bool = False
) -> RowSums:
    """Compute what the wanted metrics need of the rows.

    Args:
        run: The experiment and its engine.
        prepared: What is known of the logs.
        wanted: The metrics.
        bucket: The sub-bucket of each unit, where the catalogue is among their sources.
        by_day: Whether windows are computed of the sums.

    Raises:
        ExperimentError: The expression of a value cannot be computed.
        QueryError: The engine could not read the log.
    """
    ranked = [*wanted.quantiles, *wanted.spreads]
    sources = KERNELS & {*wanted.sources, *(metric.source for metric in ranked)}
    engine, shape, experiment = run.engine, prepared.shape, run.experiment
    if not sources:
        return NO_ROWS
    columns = (tuple(value_columns(shape, experiment, one).values()) for one in ranked)
    values = tuple(dict.fromkeys(columns))
    run.step("impressions")
    try:
        units, span = prepared.placed.units, _span(prepared) if by_day else None
        return RowPass(
            experiment, shape, engine, units, sources, values, prepared.rows, bucket, span
        ).sums()
    except QueryError as error:
        raise faulty_expression(run, ranked, shape, error) from error


def _span(prepared: Prepared) -> Days | None:
    """Return the first and the last day of the period; None where windows refuse so many days."""
    days = prepared.days.day[prepared.days.in_period & (prepared.days.day != NO_DAY)]
    first, last = int(days.min(initial=2**31 - 1)), int(days.max(initial=NO_DAY))
    return (first, last) if len(days) and last - first < MAX_WINDOW_DAYS else None


def _of_block(
    sources: frozenset[Source], gap_ms: int, categories: Categories | None, block: Block
) -> dict[Source, UnitDays]:
    """Return the sums of the units of a block."""
    days = {SESSIONS: sessions(block, gap_ms)} if SESSIONS in sources else {}
    if sources.isdisjoint(LISTS):
        return {source: _narrow(own) for source, own in days.items()}
    of_block = values.lists_of(block)
    if PAGE_VIEWS in sources:
        days[PAGE_VIEWS] = values.page_views(of_block)
    if SERVED_RANKING in sources:
        days[SERVED_RANKING] = values.served_ranking(block, of_block)
    if categories is not None:
        category = categories.of(block.rows.get("category"), block.rows.get("item"))
        days[CATEGORY_DIVERSITY] = values.category_diversity(block, of_block, category)
    return {source: _narrow(own) for source, own in days.items()}


def _narrow(days: UnitDays) -> UnitDays:
    return days._replace(columns={name: narrow(column) for name, column in days.columns.items()})


def _joined(parts: Sequence[UnitDays]) -> UnitDays:
    """Join the sums of blocks by unit: those of another machine have units from everywhere."""
    unit, phase, day = (np.concatenate([part[i] for part in parts]) for i in range(3))
    order = slice(None) if (np.diff(unit) >= 0).all() else np.argsort(unit, kind="stable")
    columns = {
        name: np.concatenate([part.columns[name] for part in parts])[order]
        for name in parts[0].columns
    }
    return UnitDays(unit[order], phase[order], day[order], columns)
