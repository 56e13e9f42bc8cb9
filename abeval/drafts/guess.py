"""Guess what a table's columns are: the unit, the variant, the time, and those of a log."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from abeval.drafts import words
from abeval.drafts.columns import FEW, Column, Origin, Table, look
from abeval.engines.sql import Engine, literal, quoted, whole
from abeval.errors import LogError

Certainty = Literal["sure", "likely", "not sure"]

ONE_VARIANT = 0.9
"""Share of units with one value, from which on a column can be their variant."""

MOST_VARIANTS = 12
_LONGEST_VARIANT = 200

RARE = 0.05
"""Share of the rows below which a value is hardly a variant, where no name says so."""

REPEATS = 10
"""Rows beyond one a unit from which on it is no chance that each unit has one variant."""

NEAR = 0.1
"""Shares of units that differ less than this from equal ones are meant to be equal."""

LOG_COLUMNS = (
    *("click", "item_id", "position", "score", "propensity", "request_id", "impression_id"),
    *("dwell", "category"),
)
"""Roles that are columns of logs, besides unit, time and variant."""

OF_ROWS = {"click", "item_id", "request_id", "impression_id"}
"""Columns without one of which a score or a category is a property of the unit."""

_KNOWN = ("outcome", "cost", "before", "description")
"""Roles of columns that are no variant, whatever their values."""


@dataclass(frozen=True)
class Guess:
    """What one column, or one entry such as `unit`, `ts` or `outcome`, is taken for.

    Attributes:
        question: What a person must say of it.
        over: The denominator, of a ratio.
        decreases: Whether less of it is better.
        is_share: Whether its metric is one, whatever the column holds.
        name: The name of its metric; by the column where it is empty.
    """

    entry: str
    column: Column | None
    certainty: Certainty
    reason: str
    question: str = ""
    over: Column | None = None
    decreases: bool = False
    is_share: bool = False
    name: str = ""


class Arms(NamedTuple):
    """The values of the variant column: each with its units, and the control, surely or not."""

    units: Mapping[str, int]
    control: str
    is_sure: bool


def looked(engine: Engine, relation: str, origin: Origin) -> Table:
    """Measure a table, and find the ids of which each value has one variant."""
    table = replace(look(engine, relation), origin=origin)
    for variant in variant_candidates(table)[:1]:
        ids = [c for c in table.columns if names_id(c) and c != variant]
        ids = [c for c in ids if variant.distinct < c.distinct <= c.rows - REPEATS]
        ids = sorted(ids, key=lambda c: c.distinct)[:FEW]
        clusters = [c for c in ids if _constant(engine, table, c, variant) > 0.99]
        table = replace(table, clusters=tuple(clusters))
    return table


def rows_where(engine: Engine, table: Table, relation: str, where: str) -> Table:
    """Make a table of some rows of another."""
    engine.view(relation, f"select * from {quoted(table.relation)} where {where}")
    both = f"({table.origin.where}) and {where}" if table.origin.where else where
    return looked(engine, relation, replace(table.origin, where=both))


def names_id(column: Column) -> bool:
    """Say whether a column has ids of people or places."""
    is_id = words.words(column.name)[-1:] == ("id",) or column.says("place") or column.named("unit")
    return column.may_be_id and is_id and not column.named(*LOG_COLUMNS)


def unit_guess(table: Table) -> Guess:
    """Guess the randomisation unit: ids by their name, or that have one variant; else each row."""
    ids = [c for c in table.columns if c.may_be_id and c.distinct > FEW and c.named("unit")]
    ids.sort(key=lambda c: (rank(c, "unit"), c.name))
    if table.clusters and table.clusters[0] not in ids:
        return _cluster(table, ids)
    if ids:
        column, missing = ids[0], table.rows - ids[0].rows
        reason = f"{column.distinct:,} units in {table.rows:,} rows"
        reason += f", of which {missing:,} have none" if missing else ""
        certainty: Certainty = "likely" if missing or column.kind == "real" else "sure"
        return Guess("unit", column, certainty, reason)
    others = [c.name for c in table.columns if names_id(c) and 1 < c.distinct < table.rows]
    shown = [c.name for c in table.columns if c.is_count and c.says("seen")]
    days = [c.distinct for c in table.columns if c.named("time")]
    variants = [c.distinct for c in variant_candidates(table)[:1]]
    is_by_day = any(abs(d * v - table.rows) < 0.1 * table.rows for d in days for v in variants)
    if others:
        reason = f"each row is taken for a unit; or is it {' or '.join(others)}?"
    elif shown or is_by_day:
        what = f"many people ({shown[0]})" if shown else "a day of a variant"
        reason = f"each row seems to be {what}, not a unit that was randomised: what was "
        reason += "randomised? Rows are compared as if they were"
    else:
        return Guess("unit", None, "likely", "no column names a unit, so each row is one")
    return Guess("unit", None, "not sure", reason, f"unit: {reason}")


def _cluster(table: Table, ids: Sequence[Column]) -> Guess:
    """Guess that the coarsest ids are the unit of which each value has one variant.

    Variants that were not assigned by place would not be the same all over each place.
    """
    best = table.clusters[0]
    units = f"{best.distinct:,} in {table.rows:,} rows, and each has one variant"
    finer = [c.name for c in (*table.clusters[1:], *ids) if c.distinct > best.distinct]
    if best.says("place") or not finer:
        return Guess("unit", best, "likely", units)
    names = " or ".join(dict.fromkeys(finer))
    question = f"unit: was {best.name} randomised, or {names}? There are {units}"
    return Guess("unit", best, "not sure", units, question)


def staged(engine: Engine, table: Table) -> Table:
    """Leave out rows from before the experiment, where a column says which they are; ask so."""
    for column in table.columns:
        first = words.LISTS["stage_before"]
        own = [v for v in column.values if not {*words.words(v)[:1]} & first.keys()]
        if not column.named("stage") or not 0 < len(own) < len(column.values):
            continue
        where = f"cast({quoted(column.name)} as varchar) in ({', '.join(map(literal, own))})"
        left = table.rows - sum(column.values[value] for value in own)
        slots = {"own": " or ".join(own), "left": left, "rows": table.rows}
        question = words.question("rows", column=column.name, **slots)
        return asked(rows_where(engine, table, f"{table.relation}_own", where), question)
    return table


def asked(table: Table, question: str) -> Table:
    """Add a question about the rows of a table."""
    questions = (*table.origin.questions, question)
    return replace(table, origin=replace(table.origin, questions=questions))


def is_of_units(table: Table, unit: Guess, time: Guess) -> bool:
    """Say whether rows are units, and not what units saw: no row names an item or a list."""
    taken = {g.column.name for g in (unit, time) if g.column is not None}
    entries = {one.entry for one in canonical_guesses(table, taken)}
    is_one = time.column is None if unit.column is None else has_one_row(unit)
    of_rows = {"item_id", "request_id", "impression_id", "propensity"}
    return is_one and not entries & of_rows and not {"click", "position"} <= entries


def has_one_row(unit: Guess) -> bool:
    """Say whether no unit has a second row."""
    return unit.column is None or unit.column.distinct == unit.column.rows


def rank(column: Column, role: str) -> int:
    """Return the place of a name in the list of a role; of another name, one behind all."""
    listed = words.LISTS[role]
    return listed.get(words.whole(column.name), len(listed))


def variant_candidates(table: Table, weakly: bool = False) -> list[Column]:
    """List columns of few values: with the surest control first, then by their names.

    `weakly` lists what only its values speak for, such as 0 and 1.
    """
    few = [c for c in table.columns if 2 <= c.distinct <= MOST_VARIANTS]
    few = [c for c in few if len(c.values) == c.distinct and (c.may_be_id or c.kind == "boolean")]
    others = [c for c in few if not c.says(*_KNOWN)]
    if weakly:
        # What hardly anybody has is something that units do, such as to follow.
        fitting = [c for c in others if c.is_share or any(map(names_control, c.values))]
        return [c for c in fitting if min(c.values.values()) >= RARE * c.rows]
    texts = [c for c in others if c.kind == "text" and any(map(names_control, c.values))]
    own = [c for c in few if c.named("variant") or c in texts or (c in others and _is_tested(c))]
    return sorted(own, key=lambda c: (not _likeness(c)[0], rank(c, "variant")))


def _is_tested(column: Column) -> bool:
    """Say whether a column of 0 and 1 is called like a test, with as many of both."""
    parts, rows = words.words(column.name), column.values.values()
    is_named = any(words.named(part, "tested") for part in {*parts[:1], *parts[-1:]})
    return is_named and min(rows) > 0.9 * max(rows)


def _likeness(column: Column) -> tuple[bool, bool]:
    """Say whether values have a sure control, or are letters, and whether the name is known."""
    letters = sorted(value.strip().lower() for value in column.values)
    is_ab = letters == list("abcdefghijkl")[: len(letters)]
    is_sure = is_ab or any(names_control(value, surely=True) for value in column.values)
    return is_sure, column.named("variant")


def names_control(value: str, surely: bool = False) -> bool:
    """Say whether a value is the name of a control, and maybe of something else unless `surely`."""
    value = value.removesuffix(".0")
    parts = words.words(value)
    ends = {"".join(parts), *parts[:1], *parts[-1:]}
    is_negative = len(parts) > 1 and words.named(parts[0], "negative")
    is_sure = bool(ends & words.LISTS["control_sure"].keys())
    return is_sure or (not surely and (words.named(value, "control") or is_negative))


def variant_of(engine: Engine, table: Table, weakly: bool = False) -> Guess:
    """Guess the column of the variant: the first candidate of which units have one value."""
    unit = unit_guess(table)
    candidates = [c for c in variant_candidates(table, weakly) if c != unit.column][:FEW]
    shares = {c.name: _constant(engine, table, unit.column, c) for c in candidates}
    fitting = [c for c in candidates if shares[c.name] >= ONE_VARIANT]
    if not fitting:
        reason = "no column names the variant of a unit: which one is it?"
        return Guess("variant", None, "not sure", reason)
    best, share, by_row = fitting[0], shares[fitting[0].name], has_one_row(unit)
    rivals = [c.name for c in fitting[1:] if _likeness(c) == _likeness(best)]
    reason = f"its values are {', '.join(map(repr, best.values))}"
    if not by_row:
        reason = "each unit has one" if share == 1 else f"{share:.1%} of the units have one"
    if rivals:
        reason += f"; or is it {' or '.join(rivals[:3])}?"
    if best.named("variant_sure") or (not rivals and (any(_likeness(best)) or _is_tested(best))):
        is_sure = best.named("variant") and not rivals and not by_row and share > 0.99
        return Guess("variant", best, "sure" if is_sure else "likely", reason)
    return Guess("variant", best, "not sure", reason, f"variant: is it {best.name}? {reason}")


def arms_of(engine: Engine, table: Table, guessed: Guess) -> Arms | None:
    """Return the values of a column of the variant; None where there is no such column."""
    unit, variant = unit_guess(table).column, guessed.column
    if variant is None:
        return None
    counted = "count(*)" if unit is None else f"count(distinct {quoted(unit.name)})"
    rows = engine.rows(
        f"select cast({quoted(variant.name)} as varchar) as v, {counted} as n "
        f"from {quoted(table.relation)} where {quoted(variant.name)} is not null "
        "group by v order by n desc, v"
    )
    long = next((str(value) for value, _ in rows if len(str(value)) > _LONGEST_VARIANT), None)
    if long is not None:
        what = f"a variant in column {variant.name!r} is called {long[:80]!r}…"
        raise LogError(what, f"names of variants have at most {_LONGEST_VARIANT} characters")
    return arms({str(value): whole(count) for value, count in rows})


def arms(units: Mapping[str, int]) -> Arms:
    """Return the variants with their units, and guess the control."""
    sure = [value for value in units if names_control(value, surely=True)]
    likely = sure or [value for value in units if names_control(value)]
    return Arms(units, min(likely or units), len(likely) == 1)


def are_near_equal(units: Mapping[str, int]) -> bool:
    """Say whether all variants have about as many units."""
    equal = sum(units.values()) / len(units)
    return all(abs(count - equal) <= NEAR * equal for count in units.values())


def _constant(engine: Engine, table: Table, unit: Column | None, column: Column) -> float:
    """Return the share of units that have one value of a column, however it is spelled."""
    if unit is None:
        return 1.0
    values = f"count(distinct lower(trim(cast({quoted(column.name)} as varchar))))"
    ((share,),) = engine.rows(
        f"select avg(cast(n <= 1 as int)) from (select {values} as n from {quoted(table.relation)} "
        f"where {quoted(unit.name)} is not null group by {quoted(unit.name)})"
    )
    return float(share or 0)


def time_guess(table: Table) -> Guess:
    """Guess the time of a row."""
    for column in sorted(table.columns, key=lambda c: (c.kind != "time", rank(c, "time"))):
        if column.kind == "time":
            return Guess("ts", column, "sure", f"of type {column.type}")
        if column.named("time") and column.time_unit is not None:
            reason = f"whole numbers since 1970, in {column.time_unit}"
            return Guess("ts", column, "likely", reason)
        if column.named("time") and column.looks == "time":
            return Guess("ts", column, "likely", "text as ISO 8601 writes times")
    return Guess("ts", None, "likely", "no column has times")


def canonical_guesses(table: Table, taken: set[str]) -> Iterator[Guess]:
    """Guess click, item, position, score and the like, by name and content."""
    for column in (c for c in table.columns if c.name not in taken):
        role = next((role for role in LOG_COLUMNS if column.named(role)), "")
        if role and _fits(role, column):
            yield Guess(role, column, "likely", "by its name")


def _fits(role: str, column: Column) -> bool:
    if role in ("item_id", "request_id", "impression_id"):
        is_id = column.distinct > FEW or words.words(column.name)[-1] in ("id", "item")
        return column.kind in ("text", "integer") and is_id
    if role == "category":
        return column.kind == "text"
    is_above = column.is_number and (column.low or 0) >= 0
    own = {"click": column.is_share, "position": column.is_whole}
    return is_above and own.get(role, role != "propensity" or (column.high or 0) <= 1)


def segment_guesses(table: Table, taken: set[str]) -> Iterator[Guess]:
    """Guess segments: properties of few values."""
    for column in (c for c in table.columns if c.name not in taken and c.kind == "text"):
        if 2 <= column.distinct <= MOST_VARIANTS:
            yield Guess("segment", column, "likely", f"{column.distinct} values")
