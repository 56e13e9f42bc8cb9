"""Guess what the tables of several are: the impressions, their clicks, items, units, events."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from abeval.drafts import words
from abeval.drafts.columns import Column, Table
from abeval.drafts.guess import (
    canonical_guesses,
    is_of_unit,
    time_guess,
    time_unit,
    unit_guess,
    value_guesses,
    variant_candidates,
    variant_of,
)
from abeval.engines.protocol import Engine
from abeval.engines.sql import quoted
from abeval.experiment.sources import CANONICAL_COLUMNS

Kind = Literal["items", "clicks", "exposures", "units", "events"]

JOINED = 0.5
"""Share of a table's rows, or units, that are those of the main table, from which on they join."""

_JOINS = (("impression_id",), ("request_id", "item_id"), ("unit_id", "item_id"))
"""What can tie a click to its impression, best first; a unit and its item need times too."""


@dataclass(frozen=True)
class Other:
    """A table beside the main one.

    Attributes:
        kind: What it is; None where that is not clear, and it is not used.
        columns: Entries of its log → its columns: `unit_id`, `ts`, `variant`.
        outcomes: Its columns that are sums of a unit.
        join: What ties clicks to impressions, where the experiment file has to say it.
        casts: Columns → types, where the same ids are text in one log and numbers in the other.
        reason: Why it is of this kind, or is not used.
        question: What a person has to say of it; empty where it is plain.
    """

    table: Table
    kind: Kind | None
    columns: Mapping[str, Column] = field(default_factory=dict)
    outcomes: tuple[Column, ...] = ()
    join: tuple[str, ...] = ()
    casts: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    question: str = ""


@dataclass(frozen=True)
class Named:
    """A table with the name of its file, or of the type of its rows."""

    engine: Engine
    table: Table
    name: str

    @cached_property
    def columns(self) -> dict[str, Column]:
        """Return entry → column of a log of impressions or clicks."""
        unit, time = unit_guess(self.table).column, time_guess(self.table).column
        if unit is None:
            # A table of few units, such as refunds.
            ids = (c for c in self.table.columns if c.may_be_id)
            unit = next((c for c in ids if words.named(c.name, words.UNIT) is not None), None)
        taken = set() if unit is None else {unit.name}
        own = {g.entry: g.column for g in canonical_guesses(self.table, taken)}
        return {e: c for e, c in {"unit_id": unit, "ts": time, **own}.items() if c is not None}

    @cached_property
    def variant(self) -> Column | None:
        """Return the column of which most units have one value."""
        return variant_of(self.engine, self.table, False).column

    @property
    def says_clicks(self) -> bool:
        """Say whether its name is that of clicks."""
        return words.has_word(self.name, words.CLICKS)

    @property
    def is_event(self) -> bool:
        """Say whether rows are orders or the like, by the name or the columns."""
        is_named = says_other(self.name) and not self.says_clicks
        return is_named or any(_outcomes(self.table, ()))

    @property
    def has_one_row(self) -> bool:
        """Say whether no unit has a second row."""
        unit = self.columns.get("unit_id")
        return unit is not None and unit.distinct == self.table.rows

    @property
    def shows_rows(self) -> bool:
        """Say whether it has a unit, and clicks, items or positions."""
        return "unit_id" in self.columns and bool(self.columns.keys() - {"unit_id", "ts"})

    @property
    def has_entries_alone(self) -> bool:
        """Say whether it has units, times and what may be variants, and nothing else."""
        known = {"unit_id", "ts"}
        names = [self.columns[e].name for e in known & self.columns.keys()]
        names += [column.name for column in variant_candidates(self.table)]
        return known <= self.columns.keys() and {c.name for c in self.table.columns} <= {*names}

    @property
    def places_units(self) -> bool:
        """Say whether it has who was in which variant, and nothing that they saw or did."""
        is_of_units = self.has_one_row and not self.shows_rows
        return self.variant is not None and (self.has_entries_alone or is_of_units)


def says_shown(name: str) -> int:
    """Say how well a name says that rows are what units saw; 0 where it does not."""
    listed = words.SHOWN[::-1]
    return max((listed.index(word) + 1 for word in words.words(name) if word in listed), default=0)


def says_other(name: str) -> bool:
    """Say whether a name says that rows are what units did."""
    return words.has_word(name, (*words.CLICKS, *words.OUTCOME, *words.EVENTS))


def main_table(tables: Sequence[Named]) -> Named:
    """Choose the impressions by their name, or the table that has unit and variant, the longest.

    Who is in which variant is not the main table where another says what units saw or did.
    """

    def rank(one: Named) -> tuple[int, bool, int]:
        shown = says_shown(one.name) if "unit_id" in one.columns else 0
        return shown, one.variant is not None, one.table.rows

    first, *rest = sorted(tables, key=rank, reverse=True)
    if not rest or not first.places_units:
        return first
    return next((one for one in rest if one.shows_rows and not one.is_event), first)


def others_of(tables: Sequence[Named], main: Named) -> tuple[Other, ...]:
    """Guess what the tables beside the main one are; each kind but events once."""
    others: dict[str, Other] = {}
    for one in sorted(tables, key=lambda one: not one.says_clicks):
        kinds = {other.kind for other in others.values()} - {"events"}
        readings = (_items(one, main), _clicks(one, main), _of_units(one, main))
        twice = Other(one.table, None, reason="another file has these already")
        own = (reading for reading in readings if reading and reading.kind not in kinds)
        others[one.table.relation] = next(own, twice)
    return tuple(others[one.table.relation] for one in tables)


def _items(one: Named, main: Named) -> Other | None:
    """Guess that each row is an item of the impressions."""
    named = next((c for c in one.table.columns if words.named(c.name, ("id",)) is not None), None)
    is_of_items = words.has_word(one.name.rstrip("s"), words.COLUMNS["item_id"])
    item = one.columns.get("item_id") or (named if is_of_items else None)
    seen, unit = main.columns.get("item_id"), one.columns.get("unit_id")
    if item is None or seen is None or item.distinct < one.table.rows:
        return None
    is_of_units = unit not in (None, item) and "ts" in one.columns
    if is_of_units or _share((main, seen), (one, item)) < JOINED:
        return None
    columns = {"item_id": item}
    columns |= {e: c for e, c in one.columns.items() if e == "category"}
    casts = _casts(columns, main)
    return Other(one.table, "items", columns, casts=casts, reason="each row is an item")


def _clicks(one: Named, main: Named) -> Other | None:
    """Guess that rows are clicks: most of them follow an impression of the same keys.

    Those that are called clicks and follow none are events, with a question.
    """
    if one.table.rows > main.table.rows or (one.is_event and not one.says_clicks):
        return None
    both = one.columns.keys() & main.columns.keys()
    joins = [j for j in _JOINS if {*j} <= both and ("unit_id" not in j or "ts" in both)]
    known, after = 0.0, 0.0
    for join in joins:
        by_time = "unit_id" in join
        known, after, soon = _followed(one, main, join)
        if (after if by_time else known) < JOINED:
            continue
        keys = " and ".join(one.columns[entry].name for entry in join)
        reason = f"{known:.1%} of the rows have the {keys} of an impression"
        columns = {e: one.columns[e] for e in CANONICAL_COLUMNS["clicks"] if e in one.columns}
        question = "" if one.says_clicks or "dwell" in columns else "are its rows clicks?"
        if by_time:
            reason += f", {after:.1%} of one before"
        else:
            columns.pop("unit_id", None)
        if by_time and soon < 0.9 * after:
            question = (
                f"{1 - soon / after:.0%} of the clicks come later than 24 hours after their "
                "impression, and do not count: is attribution_hours longer?"
            )
        casts = _casts({entry: columns[entry] for entry in join}, main)
        is_default = join == joins[0] and not by_time
        own = () if is_default else join
        return Other(one.table, "clicks", columns, (), own, casts, reason, question)
    if not one.says_clicks:
        return None
    question = "it shares no item, request or impression with the impressions, so it gives no CTR"
    if joins:
        question = (
            f"{known:.0%} of its rows have ids of an impression, {after:.0%} of one before, so it "
            "gives no CTR: are ids and times written alike in both files?"
        )
    return replace(_of_units(one, main), question=question)


def _of_units(one: Named, main: Named) -> Other:
    """Guess what a table is that shares the main one's units."""
    unit, seen, time = (
        one.columns.get("unit_id"),
        main.columns.get("unit_id"),
        one.columns.get("ts"),
    )
    if unit is None or seen is None:
        return Other(one.table, None, reason="no column has units, or items of the impressions")
    share = _share((one, unit), (main, seen))
    if share < JOINED:
        reason = f"{share:.0%} of its {unit.name} are units of the impressions"
        return Other(one.table, None, reason=reason)
    columns = {"unit_id": unit}
    casts = _casts(columns, main)
    is_dated = one.has_one_row and is_of_unit(time_guess(one.table))
    if one.variant and (one.has_entries_alone or (one.places_units and not main.variant)):
        columns["variant"] = one.variant
        if time is not None and (one.has_entries_alone or not is_dated):
            columns["ts"] = time
        reason = "units with their variant"
        return Other(one.table, "exposures", columns, casts=casts, reason=reason)
    if time is None or is_dated:
        kind: Kind | None = "units" if one.has_one_row else None
        reason = "each row is a unit" if kind else "units have several rows, and those no times"
        return Other(one.table, kind, columns, casts=casts, reason=reason)
    if "ts" not in main.columns:
        return Other(one.table, None, reason="its rows have times, but the impressions have none")
    columns["ts"] = time
    outcomes = tuple(_outcomes(one.table, columns.values()))
    reason = "rows of units, with times"
    return Other(one.table, "events", columns, outcomes, casts=casts, reason=reason)


def _outcomes(table: Table, columns: Iterable[Column]) -> Iterator[Column]:
    """List columns of numbers that are outcomes by their names, beside these ones."""
    for one in value_guesses(table, {column.name for column in columns}):
        column = one.column if one.entry == "outcome" else None
        if column is not None and words.has_word(column.name, words.OUTCOME):
            yield column


def _casts(columns: Mapping[str, Column], main: Named) -> dict[str, str]:
    """Return column → type, of ids that are text in one table and numbers in the other."""
    casts = {}
    for entry, column in columns.items():
        seen = main.columns.get(entry, column)
        is_other = (seen.kind == "text") != (column.kind == "text") or column.kind == "real"
        if entry != "ts" and is_other:
            casts[column.name] = "varchar" if seen.kind == "text" else "bigint"
    return casts


def _share(part: tuple[Named, Column], every: tuple[Named, Column]) -> float:
    """Return the share of the ids of a column that another one has."""
    ids, known = (
        f"select distinct {_text(column)} as id from {quoted(one.table.relation)} "
        f"where {quoted(column.name)} is not null"
        for one, column in (part, every)
    )
    ((share,),) = part[0].engine.rows(
        "select avg(case when b.id is null then 0 else 1 end) "
        f"from ({ids}) a left join ({known}) b on a.id = b.id"
    )
    return float(share or 0)


def _followed(clicks: Named, main: Named, join: Sequence[str]) -> tuple[float, float, float]:
    """Return the shares of clicks with an impression of their keys, before them, a day before."""
    rows, impressions = (
        f"select {', '.join(f'{_text(one.columns[e])} as k_{i}' for i, e in enumerate(join))}, "
        f"{moment(one.columns['ts']) if 'ts' in one.columns else 'cast(null as timestamp)'} as t "
        f"from {quoted(one.table.relation)}"
        for one in (clicks, main)
    )
    keys = " and ".join(f"c.k_{i} = s.k_{i}" for i in range(len(join)))
    (shares,) = clicks.engine.rows(
        f"with seen as ({impressions}), named as (select distinct * exclude t from seen), "
        f"tied as (select c.*, s.k_0 is not null as is_known from ({rows}) c left join named s "
        f"on {keys}) select count_if(is_known) / count(*), count(s.t) / count(*), "
        "count_if(c.t - s.t <= interval 1 day) / count(*) from tied c "
        f"asof left join (select * from seen where t is not null) s on {keys} and c.t >= s.t"
    )
    known, after, soon = (float(share or 0) for share in shares)
    return known, after, soon


def _text(column: Column) -> str:
    """Write SQL of an id as text; ids that pandas wrote as 7.0 become whole."""
    name = quoted(column.name)
    return f"cast({f'cast({name} as bigint)' if column.kind == 'real' else name} as varchar)"


def moment(column: Column) -> str:
    """Write SQL of a column of times as a timestamp in UTC."""
    name = quoted(column.name)
    if column.kind == "integer":
        per_second = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[time_unit(column) or "s"]
        return f"make_timestamp(cast({name} * {1e6 / per_second} as bigint))"
    if column.type == "TIMESTAMP WITH TIME ZONE":
        return f"{name} at time zone 'UTC'"
    return f"try_cast({name} as timestamp)"
