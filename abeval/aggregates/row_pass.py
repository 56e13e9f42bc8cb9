"""One scan of the impressions for all sources that are no sums of them, and their kernels.

`collect.py` makes `RowSums` where the engine has arrays; they take the place of the queries
`units/page_views` to `units/auc`, of `catalogue/reach` and of the values of quantiles. It reads the
view `logged`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.kernels import lists, reach
from abeval.aggregates.kernels.auc import score_sums
from abeval.aggregates.kernels.blocks import Column
from abeval.aggregates.kernels.events import Events
from abeval.aggregates.kernels.rows import BLOCK, NONE, Block, Choice, UnitBlocks
from abeval.aggregates.kernels.sessions import sessions
from abeval.aggregates.reach import Reach
from abeval.aggregates.row_words import INTEGERS, Categories, Items, hashed, places_of, word_of
from abeval.aggregates.rows import GroupUnits
from abeval.aggregates.wanted import Wanted
from abeval.engines.protocol import ArrayEngine
from abeval.errors import QueryError
from abeval.experiment.model import Experiment
from abeval.logs.faults import faulty_expression
from abeval.logs.names import SubBuckets
from abeval.logs.prepare import Prepared
from abeval.logs.run import Run
from abeval.logs.shape import LogShape, value_columns
from abeval.logs.unit_arrays import NO_DAY, UnitDays, Units, Whole
from abeval.logs.views import ITEM_GROUPS
from abeval.metrics.sources import (
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
from abeval.threads import in_threads

LISTS = (PAGE_VIEWS, SERVED_RANKING, CATEGORY_DIVERSITY)

KERNELS = frozenset((*LISTS, SESSIONS, GAUC, AUC, QUANTILE, CATALOGUE))
"""Sources that are computed over arrays where the engine has them."""

_SCORE = "score"


@dataclass(frozen=True)
class RowSums:
    """What the asked sources are over all impressions of analysed units.

    Attributes:
        days: Source → its sums by unit, phase and day.
        reach: Who was shown what; None where nothing asked for it.
        group_units: Units of the groups by which it counts.
        values: Columns of values by variant → the impressions of the period that have one.
    """

    days: Mapping[Source, UnitDays]
    reach: Reach | None
    group_units: Sequence[GroupUnits]
    values: Mapping[tuple[str, ...], Events]

    def events(self, columns: Mapping[str, str]) -> Events:
        """The impressions that have a value; variant → the column of its values."""
        return self.values[tuple(columns.values())]


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
    """

    experiment: Experiment
    shape: LogShape
    engine: ArrayEngine
    units: Units
    sources: frozenset[Source]
    values: Sequence[tuple[str, ...]]
    rows: int
    bucket: SubBuckets

    def sums(self) -> RowSums:
        """Read the impressions once, and run the kernel of every source."""
        events: dict[str, list[tuple[NDArray[np.int32], Whole]]]
        events = {f"value_{i}": [] for i in range(len(self.values))}
        with closing(self._blocks()) as blocks:
            for chunk in self.engine.chunks(self._sql):
                placed = blocks.place(self._numbered(chunk))
                for name, listed in events.items():
                    listed.append(_with_value(placed.block, name))
                blocks.add(placed, without=events)
            days = self._days(blocks)
            if self._is_scored:
                of_scores = score_sums(blocks, self._arm, len(self.experiment.variants))
                days |= {GAUC: of_scores.gauc, AUC: of_scores.auc}
            found = self._reach(blocks) if CATALOGUE in self.sources else None
        units, variants = self.units, list(self.experiment.variants)
        values = {
            columns: Events(variants, self._arm, units.stretch, *_together(listed))
            for columns, listed in zip(self.values, events.values(), strict=True)
        }
        groups = [] if found is None else self._group_units()
        return RowSums(days, found, groups, values)

    def _blocks(self) -> UnitBlocks:
        choices = {f"value_{i}": self._choice(columns) for i, columns in enumerate(self.values)}
        if self._is_scored:
            of_variant = [self.shape.score_of.get(v, "") for v in self.experiment.variants]
            choices[_SCORE] = self._choice(of_variant)._replace(none=np.nan)
        gap = self._gap_ms if SESSIONS in self.sources else 1
        count = min(max(1, self.rows // BLOCK), max(1, len(self.units.hash)))
        folder = self.experiment.engine.temp_directory
        return UnitBlocks(self.units.hash, count, gap, choices, folder)

    def _choice(self, columns: Sequence[str]) -> Choice:
        """A column that each variant has of its own; an empty name for none."""
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
        """The columns that the sources need, and nothing null."""
        listed = {"unit": hashed("unit_id"), "in_period": "in_period"}
        has_lists = any(source in self.sources for source in LISTS)
        if has_lists or SESSIONS in self.sources:
            since = "date_diff('day', date '1970-01-01', day)"
            listed["day"] = f"cast(coalesce({since}, {NO_DAY}) as integer)"
        if has_lists:
            is_number = self.engine.columns("logged")["request_id"] in INTEGERS
            listed["request"] = word_of("request_id", is_number)
        if SESSIONS in self.sources:
            listed["time_ms"] = f"coalesce(time_ms, {NONE})"
        if SERVED_RANKING in self.sources:
            listed["position"] = f"coalesce(position, {NONE})"
        if SERVED_RANKING in self.sources or self._is_scored:
            listed["click"] = "click = 1"
        if self._items is not None:
            listed["item"] = self._items.sql
        if self._categories is not None and "category" in self.shape.impressions:
            listed["category"] = word_of("category", is_number=False)
        if self._is_scored:
            scores = dict.fromkeys(self.shape.score_of.values())
            listed |= {name: f"coalesce({name}, cast('nan' as double))" for name in scores}
        values = dict.fromkeys(name for columns in self.values for name in columns)
        listed |= {name: f"coalesce({name}, {NONE})" for name in values}
        only = "" if has_lists or SESSIONS in self.sources else " and in_period"
        columns = ", ".join(f"{sql} as {name}" for name, sql in listed.items())
        return f"select {columns} from logged where counts{only}"

    def _numbered(self, chunk: Mapping[str, Column]) -> Mapping[str, Column]:
        """Rows whose items and categories are numbers."""
        rows = dict(chunk)
        if self._items is not None:
            rows["item"] = self._items.numbers(rows["item"])
        if "category" in rows and self._categories is not None:
            rows["category"] = places_of(self._categories.known, rows["category"])
        return rows

    def _days(self, blocks: UnitBlocks) -> dict[Source, UnitDays]:
        """The sums of sources that need the rows of one block alone."""

        def work(number: int) -> dict[Source, UnitDays]:
            columns = ("click", "position", "item", "category")
            return dict(self._of_block(blocks.read(number, *columns)))

        parts = in_threads(work, blocks)
        return {s: _joined([part[s] for part in parts]) for s in (parts[0] if parts else ())}

    def _of_block(self, block: Block) -> Iterator[tuple[Source, UnitDays]]:
        if SESSIONS in self.sources:
            yield SESSIONS, sessions(block, self._gap_ms)
        if not any(source in self.sources for source in LISTS):
            return
        of_block = lists.lists_of(block)
        if PAGE_VIEWS in self.sources:
            yield PAGE_VIEWS, lists.page_views(of_block)
        if SERVED_RANKING in self.sources:
            yield SERVED_RANKING, lists.served_ranking(block, of_block)
        if self._categories is not None:
            category = self._categories.of(block.rows.get("category"), block.rows.get("item"))
            yield CATEGORY_DIVERSITY, lists.category_diversity(block, of_block, category)

    @cached_property
    def _group(self) -> Whole:
        """The variant and the group of each unit, as one number."""
        return self._arm * np.int64(ITEM_GROUPS) + self.bucket % ITEM_GROUPS

    def _group_units(self) -> list[GroupUnits]:
        groups, units = np.unique(self._group, return_counts=True)
        names = [*self.experiment.variants]
        return [
            GroupUnits(names[group // ITEM_GROUPS], group % ITEM_GROUPS, count)
            for group, count in zip(groups.tolist(), units.tolist(), strict=True)
        ]

    def _reach(self, blocks: UnitBlocks) -> Reach | None:
        """Who was shown what; None where its numbers are too large for arrays."""
        variants, items = [*self.experiment.variants], self._items
        if items is None:
            return None
        arms = len(variants) * ITEM_GROUPS
        sizes = reach.Sizes(arms, max(len(items.ids), 1), max(len(self.units.hash), 1))
        if not sizes.fit:
            return None
        # Sorted by their ids, so that sums over items are the same to the last digit in every run.
        shown = reach.shown_in(blocks, len(items.ids))
        ids = np.asarray(items.ids)[shown].astype(str)
        order = np.argsort(ids)
        place = np.zeros(len(items.ids), dtype=np.int32)
        place[shown[order]] = np.arange(len(shown))
        listed = reach.reach_of(blocks, self._group, place, sizes)
        group, item, units, impressions = map(np.concatenate, zip(*listed, strict=True))
        arm, group = np.divmod(group, ITEM_GROUPS)
        return Reach(variants, ids[order].tolist(), arm, item, group, units, impressions)


def row_sums(run: Run, prepared: Prepared, wanted: Wanted, bucket: SubBuckets) -> RowSums | None:
    """What the wanted metrics need of the rows; None where queries compute it.

    Raises:
        ExperimentError: The expression of a value cannot be computed.
        QueryError: The engine could not read the log.
    """
    ranked = [*wanted.quantiles, *wanted.spreads]
    sources = KERNELS & {*wanted.sources, *(metric.source for metric in ranked)}
    engine, shape, experiment = run.engine, prepared.shape, run.experiment
    if not sources or not prepared.summed.has_rows or not isinstance(engine, ArrayEngine):
        return None
    columns = (tuple(value_columns(shape, experiment, one).values()) for one in ranked)
    values = tuple(dict.fromkeys(columns))
    run.step("impressions")
    try:
        units = prepared.placed.units
        return RowPass(
            experiment, shape, engine, units, sources, values, prepared.rows, bucket
        ).sums()
    except QueryError as error:
        raise faulty_expression(experiment, ranked, shape, engine, error) from error


def _with_value(block: Block, name: str) -> tuple[NDArray[np.int32], Whole]:
    """The unit and the value of the impressions of the period that have one."""
    rows = np.flatnonzero(block.rows[name] != NONE)
    run = block.run[rows]
    used = block.runs["in_period"][run]
    return block.runs["unit"][run[used]], block.rows[name][rows[used]]


def _together(
    parts: Sequence[tuple[NDArray[np.int32], Whole]],
) -> tuple[NDArray[np.int32], Whole]:
    nothing = (np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64))
    unit, value = zip(nothing, *parts, strict=True)
    return np.concatenate(unit), np.concatenate(value)


def _joined(parts: Sequence[UnitDays]) -> UnitDays:
    """The sums of blocks, whose units follow each other."""
    columns = {
        name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns
    }
    unit, phase, day = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return UnitDays(unit, phase, day, columns)
