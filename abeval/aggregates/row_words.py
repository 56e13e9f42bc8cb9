"""Items and categories of impressions as numbers from 0.

`row_pass.py` puts their SQL into its scan, and gets numbers for the words that come back.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.kernels.rows import NONE, Column, HashIndex
from abeval.engines.protocol import Engine
from abeval.logs.unit_arrays import Whole

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
        """The items of all impressions."""
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
        """The number of each word, -1 for no known item."""
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
        """The categories of impressions, and those of a catalogue of items."""
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
        """The number of each impression's own category, else that of its item's; -1 for none."""
        if self.of_item is None or item is None:
            if own is None:
                raise ValueError("neither impressions nor items have categories")
            return own
        of_item = self.of_item[item]
        return of_item if own is None else np.where(own >= 0, own, of_item)


def _places(index: HashIndex, words: Whole) -> NDArray[np.int32]:
    """The place of each hash, -1 for `NONE`."""
    return np.where(words < 0, -1, index.places(np.maximum(words, 0))).astype(np.int32)


def word_of(engine: Engine, column: str, is_number: bool) -> str:
    """SQL of a word of 64 bits that stands for a value, `NONE` for null."""
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
