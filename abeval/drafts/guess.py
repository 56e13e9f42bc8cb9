"""Guess what a table's columns are, and what other tables hold of the same units."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Literal

from abeval.drafts import words
from abeval.drafts.columns import FEW, Column, Table
from abeval.engines.protocol import Engine, whole
from abeval.engines.sql import literal, quoted
from abeval.experiment.problems import spelled_alike

Certainty = Literal["sure", "likely", "not sure"]

ONE_VARIANT = 0.9
"""Share of units with one value, from which on a column can be their variant."""

MOST_VARIANTS = 12


@dataclass(frozen=True)
class Guess:
    """What one column, or one entry such as `unit`, `ts` or `outcome`, is taken for."""

    entry: str
    column: Column | None
    certainty: Certainty
    reason: str


@dataclass(frozen=True)
class Arms:
    """The values of the variant column.

    Attributes:
        units: Value → units, most first.
        joined: Value → its spellings, itself first, where it has several.
    """

    units: Mapping[str, int]
    control: str
    certainty: Certainty
    reason: str
    joined: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def unit_guess(table: Table) -> Guess:
    """Guess the randomisation unit: a column by its name, else each row."""
    columns = [c for c in table.columns if c.may_be_id and c.distinct > FEW]
    named = [c for c in columns if words.named(c.name, words.UNIT) is not None]
    if named:
        column = min(named, key=lambda c: (_rank(c, words.UNIT), c.name))
        missing = table.rows - column.rows
        units = f"{column.distinct:,} units in {table.rows:,} rows"
        if column.kind == "real":
            units = f"{units}; its whole numbers are stored as {column.type}"
            return Guess("unit", column, "likely", units)
        if missing:
            reason = f"{missing:,} of {table.rows:,} rows have none"
            return Guess("unit", column, "likely", reason)
        return Guess("unit", column, "sure", units)
    ids = (c for c in columns if words.words(c.name)[-1:] == ("id",))
    other = [c.name for c in ids if c.distinct < table.rows]
    if other:
        reason = f"each row is taken for a unit; or is it {' or '.join(other)}?"
        return Guess("unit", None, "not sure", reason)
    return Guess("unit", None, "likely", "no column names a unit, so each row is one")


def variant_candidates(table: Table) -> list[Column]:
    """List columns of few values, those with a fitting name first."""
    kinds = ("text", "boolean", "integer")
    few = [c for c in table.columns if 2 <= c.distinct <= MOST_VARIANTS and c.kind in kinds]
    named = [c for c in few if words.named(c.name, words.VARIANT) is not None]
    named.sort(key=lambda c: _rank(c, words.VARIANT))
    other = [c for c in few if c.kind == "text" and c not in named]
    return [*named, *(c for c in other if any(names_control(value) for value, _ in c.values))]


def variant_guess(
    candidates: Sequence[Column], constant: Mapping[str, float], rows_are_units: bool
) -> Guess:
    """Guess the variant: the first candidate of which units have one value.

    `constant` is the share of units with one value of a column; it says nothing where rows are
    units.
    """
    fitting = [c for c in candidates if constant[c.name] >= ONE_VARIANT]
    if not fitting:
        reason = "no column names the variant of a unit: which one is it?"
        return Guess("variant", None, "not sure", reason)
    best = fitting[0]
    share = constant[best.name]
    one = "each unit has one" if share == 1 else f"{share:.1%} of the units have one"
    if rows_are_units:
        one = f"by its name, with {best.distinct} values"
    others = [c.name for c in fitting[1:] if words.named(c.name, words.VARIANT) is not None]
    if words.named(best.name, words.VARIANT) is None:
        return Guess("variant", best, "not sure", f"one of its values looks like a control; {one}")
    if others:
        return Guess("variant", best, "likely", f"{one}; or is it {' or '.join(others)}?")
    certain = share > 0.99 and not rows_are_units
    return Guess("variant", best, "sure" if certain else "likely", one)


def arms(units: Mapping[str, int], joined: Mapping[str, tuple[str, ...]]) -> Arms:
    """Return the variants with their units and spellings, and guess the control."""
    likely = [value for value in units if names_control(value)]
    if len(likely) == 1:
        return Arms(units, likely[0], "likely", "by its name", joined)
    first = min(likely or units)
    reason = "no name says it: the first by name is taken"
    return Arms(units, first, "not sure", reason, joined)


def names_control(value: str) -> bool:
    """Say whether a variant is called as controls are."""
    parts = words.words(value)
    return (
        words.named(value, words.CONTROL) is not None
        or parts[:1] == ("control",)
        or parts[-1:] == ("control",)
        or (len(parts) > 1 and parts[0] in words.NEGATIVE)
    )


def time_guess(table: Table) -> Guess:
    """Guess the time of a row."""
    times = [c for c in table.columns if c.kind == "time"]
    if times:
        times.sort(key=lambda c: _rank(c, words.TIME))
        certainty: Certainty = "sure" if len(times) == 1 else "likely"
        return Guess("ts", times[0], certainty, f"of type {times[0].type}")
    for column in sorted(table.columns, key=lambda c: _rank(c, words.TIME)):
        if words.named(column.name, words.TIME) is None:
            continue
        if column.kind == "integer" and (unit := time_unit(column)) is not None:
            return Guess("ts", column, "likely", f"whole numbers since 1970, in {unit}")
        if column.kind == "text":
            reason = f"{column.name} is text: say its format, or leave days out"
            return Guess("ts", None, "not sure", reason)
    return Guess("ts", None, "likely", "no column has times")


def is_of_unit(time: Guess) -> bool:
    """Say whether a time describes a unit by its name, such as the day of its sign-up."""
    return time.column is not None and words.named(time.column.name, words.TIME) is None


def no_time(time: Guess) -> Guess:
    """Guess that a table of units has no time of its rows."""
    name = "" if time.column is None else time.column.name
    return Guess("ts", None, "likely", f"each unit has one row, and {name} is not when it came")


def time_unit(column: Column) -> str | None:
    """Guess the unit of whole numbers since 1970 that lie between 2000 and 2100."""
    if column.low is None or column.high is None:
        return None
    for unit, second in (("s", 1e0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)):
        if 946_684_800 * second <= column.low and column.high <= 4_102_444_800 * second:
            return unit
    return None


def canonical_guesses(table: Table, taken: set[str]) -> Iterator[Guess]:
    """Guess click, item, position, score and the like, by name and content."""
    for column in table.columns:
        if column.name in taken:
            continue
        if words.named(column.name, words.CLICK) is not None and column.is_number:
            reason = f"a count of clicks, up to {column.high:g}"
            own = Guess("outcome", column, "likely", reason)
            yield Guess("click", column, "sure", "0 or 1") if column.is_share else own
            continue
        for entry, names in words.COLUMNS.items():
            if words.named(column.name, names) is not None and _fits(entry, column):
                yield Guess(entry, column, "likely", "by its name")
                break


def _fits(entry: str, column: Column) -> bool:
    if entry in ("item_id", "request_id", "impression_id"):
        is_id = column.distinct > FEW or words.words(column.name)[-1] in ("id", "item")
        return column.kind in ("text", "integer") and is_id
    if entry == "position":
        return column.is_whole and (column.low or 0) >= 0
    if entry == "category":
        return column.kind == "text"
    if entry == "propensity":
        return column.is_number and (column.low or 0) >= 0 and (column.high or 0) <= 1
    return column.is_number and (column.low or 0) >= 0


def value_guesses(table: Table, taken: set[str], has_goal: bool = False) -> Iterator[Guess]:
    """Guess outcomes, covariates, and numbers of which neither is sure.

    `has_goal` says that there is another goal, so that the only number need not be one.
    """
    own = (column for column in table.columns if column.name not in taken)
    values = [column for column in own if column.distinct > 1 and column.is_number]
    names = {"".join(words.words(column.name)) for column in values}
    guesses = [g for column in values if (g := _value_guess(column, table, names)) is not None]
    outcomes = [g for g in guesses if g.entry == "outcome"]
    for one in guesses:
        if outcomes == [one] and one.certainty == "not sure" and not has_goal:
            yield Guess("outcome", one.column, "likely", "no other column is a number to compare")
        else:
            yield one


def _value_guess(column: Column, table: Table, names: Set[str]) -> Guess | None:
    """Guess what numbers are; None where they describe a unit, or number the rows."""
    if words.words(column.name)[-1:] == ("id",):
        return None
    kind = "0 or 1" if column.is_share else f"from {column.low:g} to {column.high:g}"
    pair = _pair(column, names)
    if pair == "pre" or words.has_word(column.name, words.BEFORE):
        return Guess("covariate", column, "likely", "its name says that it was before")
    if pair == "post":
        return Guess("outcome", column, "likely", f"its name says that it was after; {kind}")
    if words.has_word(column.name, words.OUTCOME):
        return Guess("outcome", column, "likely", kind)
    is_type = words.named(column.name, words.EVENT_TYPE) is not None
    if is_type or _numbers_rows(column, table) or words.has_word(column.name, words.DESCRIPTION):
        return None
    return Guess("outcome", column, "not sure", "an outcome, or known before?")


def _pair(column: Column, names: Set[str]) -> str | None:
    """Return the prefix, `pre` or `post`, of one of two columns that differ in it alone."""
    own = "".join(words.words(column.name))
    for own_prefix, other_prefix in (("pre", "post"), ("post", "pre")):
        rest = own.removeprefix(own_prefix)
        if rest != own and rest and other_prefix + rest in names:
            return own_prefix
    return None


def segment_guesses(table: Table, taken: set[str]) -> Iterator[Guess]:
    """Guess segments: properties of few values."""
    for column in (c for c in table.columns if c.name not in taken and c.kind == "text"):
        if 2 <= column.distinct <= MOST_VARIANTS:
            yield Guess("segment", column, "likely", f"{column.distinct} values")


def _numbers_rows(column: Column, table: Table) -> bool:
    return column.kind == "integer" and column.distinct == table.rows


def _rank(column: Column, names: Sequence[str]) -> int:
    place = words.named(column.name, names)
    return len(names) if place is None else place


def variant_of(engine: Engine, table: Table, one_row: bool) -> Guess:
    """Guess the column of the variant; `one_row` where no unit has a second row."""
    unit = unit_guess(table).column
    candidates = [c for c in variant_candidates(table) if c != unit]
    return variant_guess(candidates, _constant(engine, table, unit, candidates), one_row)


def arms_of(engine: Engine, table: Table, guessed: Guess) -> Arms | None:
    """Return the values of a column of the variant; None where there is no such column."""
    unit, variant = unit_guess(table).column, guessed.column
    if variant is None:
        return None
    counted = "count(*)" if unit is None else f"count(distinct {quoted(unit.name)})"
    joined = {names[0]: names for names in spelled_alike(value for value, _ in variant.values)}
    text = f"cast({quoted(variant.name)} as varchar)"
    cases = " ".join(
        f"when {literal(name)} then {literal(names[0])}"
        for names in joined.values()
        for name in names
    )
    rows = engine.rows(
        f"select {f'case {text} {cases} else {text} end' if cases else text} as v, {counted} as n "
        f"from {quoted(table.relation)} where {quoted(variant.name)} is not null "
        "group by v order by n desc, v"
    )
    return arms({str(value): whole(count) for value, count in rows}, joined)


def _constant(
    engine: Engine, table: Table, unit: Column | None, candidates: Sequence[Column]
) -> dict[str, float]:
    """Return column → share of units that have one value of it."""
    if unit is None or not candidates:
        return {c.name: 1.0 for c in candidates}
    counts = ", ".join(
        f"count(distinct {_spelled_once(c)}) as n_{i}" for i, c in enumerate(candidates)
    )
    shares = ", ".join(
        f"avg(case when n_{i} <= 1 then 1.0 else 0.0 end)" for i in range(len(candidates))
    )
    ((*values,),) = engine.rows(
        f"select {shares} from (select {counts} from {quoted(table.relation)} "
        f"where {quoted(unit.name)} is not null group by {quoted(unit.name)})"
    )
    return {c.name: float(value or 0) for c, value in zip(candidates, values, strict=True)}


def _spelled_once(column: Column) -> str:
    """Write SQL of a column; text is in lower case, without spaces around it."""
    name = quoted(column.name)
    return f"lower(trim(cast({name} as varchar)))" if column.kind == "text" else name
