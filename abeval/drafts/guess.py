"""Guess what a table's columns are, and what other tables hold of the same units."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from abeval.drafts import words
from abeval.drafts.columns import FEW, Column, Table, look
from abeval.engines.protocol import Engine, whole
from abeval.engines.sql import literal, quoted
from abeval.experiment.problems import spelled_alike

Certainty = Literal["sure", "likely", "not sure"]

ONE_VARIANT = 0.9
"""Share of units with one value, from which on a column can be their variant."""

MOST_VARIANTS = 12

RARE = 0.05
"""Share of the rows below which a value is hardly a variant, where no name says so."""

REPEATS = 10
"""Rows beyond one a unit from which on it is no chance that each unit has one variant."""


@dataclass(frozen=True)
class Guess:
    """What one column, or one entry such as `unit`, `ts` or `outcome`, is taken for.

    Attributes:
        questions: What a person must say of it.
        over: The denominator, of a ratio.
        decreases: Whether less of it is better.
    """

    entry: str
    column: Column | None
    certainty: Certainty
    reason: str
    questions: tuple[str, ...] = ()
    over: Column | None = None
    decreases: bool = False


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


def looked(engine: Engine, relation: str) -> Table:
    """Measure a table, and find the columns of which each value has one variant."""
    table = look(engine, relation)
    variants = variant_candidates(table)[:1]
    clusters = [
        column
        for column in table.columns
        if variants
        and (names_id(column) or (column.kind == "text" and not _is_known(column)))
        and column.may_be_id
        and column not in variants
        and variants[0].distinct < column.distinct <= column.rows - REPEATS
    ]
    names = frozenset(
        column.name
        for column in clusters[:FEW]
        if _constant(engine, table, column, variants)[variants[0].name] > 0.99
    )
    return replace(table, clusters=names)


def names_id(column: Column) -> bool:
    """Say whether a name is that of an id of people or places."""
    is_id = words.words(column.name)[-1:] == ("id",) or words.has_word(column.name, words.PLACE)
    is_item = any(words.named(column.name, names) is not None for names in words.COLUMNS.values())
    return (is_id or words.named(column.name, words.UNIT) is not None) and not is_item


def _is_known(column: Column) -> bool:
    names = (words.VARIANT, words.TIME)
    return any(words.named(column.name, own) is not None for own in names) or column.looks != ""


def unit_guess(table: Table) -> Guess:
    """Guess the randomisation unit: a column by its name, or whose ids repeat, else each row."""
    ids = [c for c in table.columns if c.may_be_id]
    named = [c for c in ids if c.distinct > FEW and words.named(c.name, words.UNIT) is not None]
    named.sort(key=lambda c: (_rank(c, words.UNIT), c.name))
    clusters = sorted((c for c in ids if c.name in table.clusters), key=lambda c: c.distinct)
    clusters = [c for c in clusters if not named or names_id(c)]
    if named and (named[0] in clusters[:1] or not clusters or clusters[0] in named):
        return _named_unit(named[0], table)
    if clusters:
        return _cluster(clusters, named, table)
    other = [c.name for c in ids if names_id(c) and 1 < c.distinct < table.rows]
    if other:
        reason = f"each row is taken for a unit; or is it {' or '.join(other)}?"
        return Guess("unit", None, "not sure", reason, (f"unit: {reason}",))
    shown = next(
        (c for c in table.columns if c.is_count and words.has_word(c.name, words.SEEN)), None
    )
    variants = variant_candidates(table)[:1]
    days = [c for c in table.columns if named_in(c, words.TIME) and variants]
    if shown is not None or any(
        abs(c.distinct * variants[0].distinct - table.rows) < 0.1 * table.rows for c in days
    ):
        what = "a day of a variant" if shown is None else f"many people ({shown.name})"
        reason = f"each row seems to be {what}, not a unit that was randomised"
        question = f"unit: {reason}: what was randomised? Rows are compared as if they were"
        return Guess("unit", None, "not sure", reason, (question,))
    return Guess("unit", None, "likely", "no column names a unit, so each row is one")


def _named_unit(column: Column, table: Table) -> Guess:
    missing = table.rows - column.rows
    units = f"{column.distinct:,} units in {table.rows:,} rows"
    if column.kind == "real":
        units = f"{units}; its whole numbers are stored as {column.type}"
        return Guess("unit", column, "likely", units)
    if missing:
        reason = f"{missing:,} of {table.rows:,} rows have none"
        return Guess("unit", column, "likely", reason)
    return Guess("unit", column, "sure", units)


def _cluster(clusters: Sequence[Column], named: Sequence[Column], table: Table) -> Guess:
    """Guess that the coarsest column is the unit of which each value has one variant.

    Variants that were not assigned by place would not be the same all over each place.
    """
    best = clusters[0]
    units = f"{best.distinct:,} in {table.rows:,} rows, and each has one variant"
    finer = [c.name for c in (*clusters, *named) if c.distinct > best.distinct]
    if words.has_word(best.name, words.PLACE) or (names_id(best) and not finer):
        return Guess("unit", best, "likely", units)
    or_is = " or ".join(dict.fromkeys(finer)) or "each row"
    question = f"unit: was {best.name} randomised, or {or_is}? There are {units}"
    return Guess("unit", best, "not sure", units, (question,))


def named_in(column: Column, names: Sequence[str]) -> bool:
    """Say whether a column has one of these names, however it is written."""
    return words.named(column.name, names) is not None


def staged(engine: Engine, table: Table) -> tuple[Table, str, str]:
    """Leave out rows from before the experiment, where a column says which they are.

    Returns:
        The rows left, the SQL that chooses them and the question; empty where all are.
    """
    for column in table.columns:
        values = [value for value, _ in column.values]
        first = {value: {*words.words(value)[:1]} for value in values}
        before = [v for v in values if first[v] & {*words.STAGE_BEFORE}]
        during = [v for v in values if first[v] & {*words.STAGE_DURING}]
        if column.is_share and named_in(column, words.AFTER):
            before = [v for v in values if v.strip().lower() in words.NO]
        elif not (named_in(column, words.STAGE) or {"pre"} in first.values()):
            continue
        own = during or [value for value in values if value not in before]
        if not before or not own or named_in(column, words.VARIANT):
            continue
        where = f"cast({quoted(column.name)} as varchar) in ({', '.join(map(literal, own))})"
        relation = f"{table.relation}_own"
        engine.view(relation, f"select * from {quoted(table.relation)} where {where}")
        left = table.rows - sum(rows for value, rows in column.values if value in own)
        question = (
            f"rows: are those of the experiment the ones with {column.name} {' or '.join(own)}? "
            f"`where` leaves out the other {left:,} of {table.rows:,}"
        )
        return looked(engine, relation), where, question
    return table, "", ""


def is_of_units(table: Table, unit: Guess, time: Guess) -> bool:
    """Say whether rows are units, and not what units saw: no row names an item or a list."""
    taken = {g.column.name for g in (unit, time) if g.column is not None}
    entries = {one.entry for one in canonical_guesses(table, taken)}
    is_one = time.column is None if unit.column is None else has_one_row(unit)
    of_rows = {"item_id", "request_id", "impression_id", "propensity"}
    return is_one and not entries & of_rows and not {"click", "position"} <= entries


OF_ROWS = {"click", "item_id", "request_id", "impression_id"}
"""Entries without one of which a score or a category is a property of the unit."""


def has_one_row(unit: Guess) -> bool:
    """Say whether no unit has a second row."""
    return unit.column is None or unit.column.distinct == unit.column.rows


def variant_candidates(table: Table, weakly: bool = False) -> list[Column]:
    """List columns of few values: with the surest control first, then by their names.

    `weakly` lists what only its values speak for, such as 0 and 1.
    """
    kinds = ("text", "boolean", "integer", "real")
    few = [c for c in table.columns if 2 <= c.distinct <= MOST_VARIANTS and c.kind in kinds]
    few = [c for c in few if len(c.values) == c.distinct and (c.kind != "real" or c.is_whole)]
    known = (*words.OUTCOME, *words.COST, *words.BEFORE, *words.DESCRIPTION)
    named = [c for c in few if _rank(c, words.VARIANT) < len(words.VARIANT)]
    others = [c for c in few if c not in named and not words.has_word(c.name, known)]
    if weakly:
        fitting = [c for c in others if c.is_share or any(names_control(v) for v, _ in c.values)]
        # What hardly anybody has is something that units do, such as to follow.
        return [c for c in fitting if min(rows for _, rows in c.values) >= RARE * c.rows]
    texts = [c for c in others if c.kind == "text" and any(names_control(v) for v, _ in c.values)]
    own = [*named, *texts, *(c for c in others if c not in texts and _is_tested(c))]
    return sorted(own, key=lambda c: (not _has_sure_control(c), _rank(c, words.VARIANT)))


def _is_tested(column: Column) -> bool:
    """Say whether a column of 0 and 1 is called like a test, with as many of both."""
    rows = [count for _, count in column.values]
    parts = words.words(column.name)
    return {*parts[:1], *parts[-1:]} & {*words.IN_VARIANT} != set() and min(rows) > 0.9 * max(rows)


def _has_sure_control(column: Column) -> bool:
    values = [value for value, _ in column.values]
    is_ab = sorted(value.strip().lower() for value in values) == list("abcdefghijkl")[: len(values)]
    return is_ab or any(names_control(value, surely=True) for value in values)


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
    is_sure = _has_sure_control(best)
    rivals = [c.name for c in fitting[1:4] if _has_sure_control(c) or not is_sure]
    if words.named(best.name, words.VARIANT) is None:
        is_likely = (is_sure or _is_tested(best)) and not rivals
        values = ", ".join(repr(value) for value, _ in best.values)
        reason = f"its values are {values}" + (
            f"; or is it {' or '.join(rivals)}?" if rivals else ""
        )
        return Guess("variant", best, "likely" if is_likely else "not sure", reason)
    others = [c.name for c in fitting[1:] if words.named(c.name, words.VARIANT) is not None]
    if others:
        doubt = _rank(best, words.VARIANT) > SURE_NAMES and bool({*rivals} & {*others})
        reason = f"{one}; or is it {' or '.join(others)}?"
        return Guess("variant", best, "not sure" if doubt else "likely", reason)
    certain = share > 0.99 and not rows_are_units
    return Guess("variant", best, "sure" if certain else "likely", one)


SURE_NAMES = words.VARIANT.index("con_treat")
"""Place of the last name of a variant that means little else."""


def arms(units: Mapping[str, int], joined: Mapping[str, tuple[str, ...]]) -> Arms:
    """Return the variants with their units and spellings, and guess the control."""
    sure = [value for value in units if names_control(value, surely=True)]
    likely = sure or [value for value in units if names_control(value)]
    if len(likely) == 1:
        return Arms(units, likely[0], "likely", "by its name", joined)
    first = min(likely or units)
    reason = "no name says it: the first by name is taken"
    return Arms(units, first, "not sure", reason, joined)


NEAR = 0.1
"""Shares of units that differ less than this from equal ones are meant to be equal."""


def are_near_equal(units: Mapping[str, int]) -> bool:
    """Say whether all variants have about as many units."""
    equal = sum(units.values()) / len(units)
    return all(abs(count - equal) <= NEAR * equal for count in units.values())


def names_control(value: str, surely: bool = False) -> bool:
    """Say whether a value is the name of a control, and maybe of something else unless `surely`."""
    parts = words.words(value.removesuffix(".0"))
    ends = {"".join(parts), *parts[:1], *parts[-1:]}
    return bool(ends & {*words.SURE_CONTROL}) or (
        not surely
        and (
            words.named(value.removesuffix(".0"), words.CONTROL) is not None
            or (len(parts) > 1 and parts[0] in words.NEGATIVE)
        )
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
        if column.looks == "time":
            return Guess("ts", column, "likely", "text as ISO 8601 writes times")
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
    reason = f"each unit has one row; {name} is not read" if name else "each unit has one row"
    return Guess("ts", None, "likely", reason)


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
            if column.is_share:
                yield Guess("click", column, "sure", "0 or 1")
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


def segment_guesses(table: Table, taken: set[str]) -> Iterator[Guess]:
    """Guess segments: properties of few values."""
    for column in (c for c in table.columns if c.name not in taken and c.kind == "text"):
        if 2 <= column.distinct <= MOST_VARIANTS:
            yield Guess("segment", column, "likely", f"{column.distinct} values")


def _rank(column: Column, names: Sequence[str]) -> int:
    place = words.named(column.name, names)
    return len(names) if place is None else place


def variant_of(engine: Engine, table: Table, one_row: bool, weakly: bool = False) -> Guess:
    """Guess the column of the variant; `one_row` where no unit has a second row."""
    unit = unit_guess(table).column
    candidates = [c for c in variant_candidates(table, weakly) if c != unit]
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
