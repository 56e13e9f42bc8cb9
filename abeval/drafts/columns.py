"""Measure what a table's columns hold: types, ranges, and how often a value comes again."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from abeval.drafts.words import yes_and_no
from abeval.engines.protocol import Engine, whole
from abeval.engines.sql import literal, quoted

Kind = Literal["boolean", "integer", "real", "time", "text", "other"]

FEW = 20
"""Columns of at most this many values have them listed."""

_KINDS: Mapping[Kind, tuple[str, ...]] = {
    "boolean": ("BOOLEAN",),
    "time": ("TIMESTAMP", "DATE"),
    "text": ("VARCHAR", "UUID", "ENUM"),
    "real": ("DOUBLE", "FLOAT", "DECIMAL"),
}
"""Kind → how the names of its types begin."""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        distinct: Different values; where there are many, and they do not seem to be ids, about.
        low: The smallest number; None unless it holds numbers or booleans.
        values: Each value as text with its rows, most frequent first, where there are few.
        is_whole: Whether it holds numbers without a fraction, whatever its type.
        looks: What most of its values are, if they are text: times of ISO 8601, or numbers.
    """

    name: str
    type: str
    kind: Kind
    rows: int
    distinct: int
    low: float | None
    high: float | None
    values: tuple[tuple[str, int], ...]
    is_whole: bool = False
    looks: Literal["time", "number", ""] = ""

    @property
    def is_number(self) -> bool:
        """Say whether sums of it mean something."""
        return self.kind in ("boolean", "integer", "real")

    @property
    def may_be_id(self) -> bool:
        """Say whether it can hold ids: text or whole numbers, even if stored as 7.0."""
        return self.kind in ("text", "integer") or (self.kind == "real" and self.is_whole)

    @property
    def answers(self) -> tuple[list[str], list[str]] | None:
        """Return the spellings of yes and of no, if it is text of nothing else."""
        is_text = self.kind == "text" and 2 <= self.distinct == len(self.values)
        return yes_and_no([value for value, _ in self.values]) if is_text else None

    @property
    def number(self) -> str:
        """Write SQL of its number; a null remains one."""
        value = quoted(self.name)
        if self.answers is not None:
            yes, no = (", ".join(map(literal, spelled)) for spelled in self.answers)
            return f"case when {value} in ({yes}) then 1 when {value} in ({no}) then 0 end"
        is_flag = self.kind == "boolean"
        return f"case when {value} then 1 when not {value} then 0 end" if is_flag else value

    @property
    def is_share(self) -> bool:
        """Say whether it holds nothing but 0 and 1, or yes and no."""
        return self.answers is not None or (
            self.is_number and self.distinct == 2 and (self.low, self.high) == (0.0, 1.0)
        )

    @property
    def is_count(self) -> bool:
        """Say whether it holds whole numbers from 0 or 1 on, more than two of them."""
        return self.is_number and self.is_whole and (self.low or 0) >= 0 and (self.high or 0) > 1


@dataclass(frozen=True)
class Table:
    """A table's columns and its number of rows; the engine has it as `relation`.

    Attributes:
        rows: Its rows, but those in which every column is empty.
        clusters: Columns of which each value comes again, and has one variant.
    """

    relation: str
    rows: int
    columns: tuple[Column, ...]
    clusters: frozenset[str] = frozenset()


AT_ONCE = 50
"""Columns in one query of exact counts or shares, whose time grows with the square of them."""

NEARLY = 0.8
"""Share of the rows, from which on an approximate count of different values is made exact."""

FIRST = 10_000
"""Rows of which the text is read."""

_IS_NUMBER = r"^[-+]?[$€£¥₽₹]?\s?\d[\d\s.,'']*\s?[%$€£¥₽₹]?$"
_MEASURES = 4


def look(engine: Engine, relation: str) -> Table:
    """Measure the columns of a relation."""
    types = engine.columns(relation)
    kinds = {name: _kind(type) for name, type in types.items()}
    filled = " or ".join(f"{quoted(name)} is not null" for name in types)
    ((counted,),) = engine.rows(f"select count(*) from {quoted(relation)} where {filled}")
    rows = whole(counted)

    def measured(
        names: Sequence[str],
        measure: Callable[[str], str],
        at_once: int = AT_ONCE,
        source: str = quoted(relation),
    ) -> list[object]:
        values: list[object] = []
        for start in range(0, len(names), at_once):
            listed = ", ".join(map(measure, names[start : start + at_once]))
            values += engine.rows(f"select {listed} from {source}")[0]
        return values

    flat = measured(list(types), lambda name: _measures(quoted(name), kinds[name]), 1000)
    each = {name: flat[i * _MEASURES : (i + 1) * _MEASURES] for i, name in enumerate(types)}
    about = {name: int(str(m[1])) for name, m in each.items()}
    whole_ends = [n for n in types if kinds[n] == "real" and all(map(_is_whole, each[n][2:]))]
    no_fraction = measured(whole_ends, lambda n: f"bool_and({quoted(n)} = floor({quoted(n)}))")
    are_whole = {n for n, test in zip(whole_ends, no_fraction, strict=True) if test}
    are_whole |= {name for name, kind in kinds.items() if kind == "integer"}
    ids = [n for n in types if about[n] > FEW / 2 and (kinds[n] == "text" or n in are_whole)]
    if len(ids) > AT_ONCE:
        ids = [name for name in ids if about[name] >= NEARLY * rows]
    exact = measured(ids, lambda name: f"count(distinct {quoted(name)})")
    distinct = about | {name: int(str(n)) for name, n in zip(ids, exact, strict=True)}
    few = [name for name in types if 0 < distinct[name] <= FEW]
    counts = measured(few, lambda name: f"to_json(histogram(cast({quoted(name)} as varchar)))")
    values = {name: json.loads(str(text)) for name, text in zip(few, counts, strict=True)}
    texts = [name for name, kind in kinds.items() if kind == "text"]
    first = f"(select * from {quoted(relation)} limit {FIRST})"
    shares = measured(texts, lambda name: _looks(quoted(name)), source=first)
    looks = {name: (shares[2 * i], shares[2 * i + 1]) for i, name in enumerate(texts)}
    columns: list[Column] = []
    for name, (filled_rows, _, low, high) in each.items():
        listed = tuple(sorted(values.get(name, {}).items(), key=lambda one: (-one[1], one[0])))
        time, number = (float(str(share or 0)) >= NEARLY for share in looks.get(name, (0, 0)))
        column = Column(
            name,
            types[name],
            kinds[name],
            int(str(filled_rows)),
            len(listed) or distinct[name],
            None if low is None else float(str(low)),
            None if high is None else float(str(high)),
            listed,
            name in are_whole,
            "time" if time else "number" if number else "",
        )
        columns.append(column)
    return Table(relation, rows, tuple(columns))


def _kind(type: str) -> Kind:
    for kind, starts in _KINDS.items():
        if type.startswith(starts):
            return "other" if type.endswith("]") else kind
    return "integer" if type.endswith(("INT", "INTEGER")) else "other"


def _measures(column: str, kind: Kind) -> str:
    value = f"cast({column} as int)" if kind == "boolean" else column
    has_ends = kind in ("boolean", "integer", "real")
    ends = f"min({value}), max({value})" if has_ends else "null, null"
    return f"count({column}), approx_count_distinct({column}), {ends}"


def _is_whole(end: object) -> bool:
    return end is not None and float(str(end)).is_integer()


def _looks(column: str) -> str:
    time = f"try_cast({column} as timestamp) is not null and {column} not similar to '\\d+'"
    number = f"regexp_matches(trim({column}), '{_IS_NUMBER}')"
    return ", ".join(
        f"avg(case when {column} is null then null when {test} then 1 else 0 end)"
        for test in (time, number)
    )
