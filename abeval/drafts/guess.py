"""Guess the columns of a table: unit, variant, time, and those of a log."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Literal

from abeval.drafts import words
from abeval.drafts.columns import ALWAYS, FEW, LOG_COLUMNS, Column, Period, Table, measure_table
from abeval.drafts.variants import (
    VariantUnits,
    list_likely_controls,
    make_variant_units,
    names_control,
    refutes_equal_split,
)
from abeval.engines.sql import Engine, literal, quote, read_int
from abeval.errors import LogError
from abeval.experiment.sources import ROW_UNIT

_Certainty = Literal["sure", "likely", "not sure"]

_MOST_WEAK = 6
"""Most columns without a usual name that are tried as the variant."""

_ONE_VARIANT = 0.9
"""Least share of units with one value for a column to be their variant."""

MOST_VARIANTS = 12
_LONGEST_VARIANT = 200

_RARE = 0.05
"""Share of the rows below which a value is hardly a variant."""

_REPEATS = 10
"""Repeated rows above which it is no chance that each unit has one variant."""

ROW_COLUMNS = {"click", "item_id", "request_id", "impression_id"}
"""Columns of rows: without any, a score or category belongs to the unit."""

_OFTEN = 0.5
"""Share of people with one variant above which lost ids may explain the rest."""

_NO_VARIANT_ROLES = ("outcome", "cost", "before", "description")
"""Roles of columns that are never the variant."""


@dataclass(frozen=True)
class Guess:
    """A guess about a column, or about an entry such as `unit`, `ts` or `outcome`.

    Attributes:
        question: What a person must say of it.
        over: The denominator, of a ratio.
        decreases: Whether less of it is better.
        is_share: Whether its metric is one, whatever the column holds.
        name: The name of its metric; by the column where it is empty.
    """

    entry: str
    column: Column | None
    certainty: _Certainty
    reason: str
    question: str = ""
    over: Column | None = None
    decreases: bool = False
    is_share: bool = False
    name: str = ""


def inspect_table(engine: Engine, table: Table) -> Table:
    """Find the period of a table, and the ids whose values have one variant each.

    Only rows in the period count.
    """
    table = replace(table, period=guess_period(engine, table, table))
    named = list_variant_candidates(table)[:1]
    tried = named or list_variant_candidates(table, weakly=True)[:_MOST_WEAK]
    measured = (_measure_ids(engine, table, variant) for variant in tried)
    first = next(measured, {})
    telling = (shares for shares in chain([first], measured) if _has_clusters(shares))
    return replace(table, constancy=next(telling, first))


def _has_clusters(constancy: Mapping[str, float]) -> bool:
    """Tell whether the values of an id have one variant each."""
    return any(share > ALWAYS for share in constancy.values())


def _measure_ids(engine: Engine, table: Table, variant: Column) -> dict[str, float]:
    """Measure the share of repeated values with one variant, by id."""
    constancy = dict[str, float]()
    units = [c for c in table.columns if c.may_be_id and c.has_role_name("unit")]
    has_units = any(c.distinct == table.rows > FEW for c in units)
    # Names are many: where none is known, values of which each has one variant say it.
    for named in (True, False):
        if named or not (has_units or _has_clusters(constancy)):
            ids = _list_ids(table, variant, named)
            constancy |= {c.name: _measure_constancy(engine, table, c, variant, 2) for c in ids}
    return constancy


def _list_ids(table: Table, variant: Column, named: bool) -> list[Column]:
    """List the columns whose values may have one variant each: ids that come again.

    They are named like ids, or are called something else and have many values.
    """

    def fits(column: Column) -> bool:
        is_named = column.names_id or column.has_role_name("request_id")
        if named or is_named:
            return named and is_named
        others = ("item_id", "position", "score", "dwell", *_NO_VARIANT_ROLES)
        is_other = column.mentions_role(*others) or column.has_role_name("time")
        return column.distinct > FEW and column.kind != "real" and not (column.is_time or is_other)

    again = [
        c
        for c in table.columns
        if c.may_be_id and c != variant and variant.distinct < c.distinct <= c.rows - _REPEATS
    ]
    return sorted(filter(fits, again), key=lambda c: c.distinct)[:FEW]


def guess_period(engine: Engine, main: Table, placing: Table) -> Period | None:
    """Guess the period: it starts when the first unit has its variant.

    `placing` has the variants, often the same table. None where the log begins with it.
    """
    time, main_time = guess_time(placing).column, guess_time(main).column
    candidates = [c for c in list_variant_candidates(placing) if c.has_role_name("variant")]
    if time is None or main_time is None or not candidates:
        return None
    variant, log = quote(candidates[0].name), quote(main.relation)
    at = main_time.moment
    ((first, last),) = engine.rows(f"select min({at}), max({at}) from {log}")
    values = engine.rows(
        f"select cast({variant} as varchar) as v, min({time.moment}) as t, count(*) as n "
        f"from {quote(placing.relation)} where {variant} is not null group by v order by t"
    )
    times = [begin for _, begin, _ in values if isinstance(begin, datetime)]
    if not isinstance(first, datetime) or not isinstance(last, datetime) or len(times) < 2:
        return None
    start, reason, share = times[0], "no earlier row has a variant", 1.0
    if start.date() == first.date() and names_control(str(values[0][0])) and main is placing:
        start, reason = times[1], f"all earlier rows are of {values[0][0]!r}"
        share = 1 - read_int(values[0][2]) / sum(read_int(rows) for *_, rows in values)
    ((rows, early),) = engine.rows(
        f"select count(*), count_if({at} >= '{start.date()}') from {log} where {at} < '{start}'"
    )
    # Of few rows, all may be of control by chance.
    if start.date() <= first.date() or read_int(rows) * share < FEW:
        return None
    begins = start.replace(minute=0, second=0, microsecond=0) if early else start.date()
    end, since = last.date() + timedelta(days=1), f"{at} >= '{begins.isoformat()}'"
    return Period(candidates[0].name, since, first.date(), begins, end, reason)


def filter_rows(engine: Engine, table: Table, relation: str, where: str) -> Table:
    """Make a table of some rows of another table."""
    engine.view(relation, f"select * from {quote(table.relation)} where {where}")
    origin = table.origin
    both = f"({origin.where}) and {where}" if origin.where else where
    # A log is filtered before its query: a filter of what this makes stands in it.
    query = f"select *\nfrom (\n{origin.query}\n)\nwhere {where}" if origin.query else ""
    origin = replace(origin, query=query) if query else replace(origin, where=both)
    return inspect_table(engine, replace(measure_table(engine, relation), origin=origin))


def guess_unit(table: Table) -> Guess:
    """Guess the randomisation unit: the coarsest ids with one variant each.

    Without such ids it is the best named ids; without any ids, each row.
    """
    named = table.find_named("unit")
    if named or table.origin.named.get("unit") == ROW_UNIT:
        return Guess("unit", named, "sure", "you name it")
    ids = [c for c in table.columns if c.may_be_id and c.distinct > FEW and c.has_role_name("unit")]
    ids = ids or [c for c in table.columns if c.name == table.shared_unit]
    id_column = min(ids, key=lambda c: (_rank_name(c, "unit"), c.name), default=None)
    share = 1.0 if id_column is None else table.constancy.get(id_column.name, 1.0)
    # Had finer ids been assigned, a coarser one would have several variants.
    column = next(iter(table.clusters), id_column)
    if id_column and column and column.distinct >= id_column.distinct and share >= _ONE_VARIANT:
        # What few of them have several of are crossovers.
        column = id_column
    if column is None:
        return _guess_rows(table)
    missing = table.rows - column.rows
    reason = f"{column.distinct:,} units in {table.rows:,} rows"
    reason += f", of which {missing:,} have none" if missing else ""
    rivals = list[str]()
    if id_column is not None and column.distinct > id_column.distinct:
        reason += f"; only {share:.0%} of {id_column.name} have one variant"
        rivals = [id_column.name] if share >= _OFTEN else []
    elif column not in ids:
        reason += ", and each has one variant"
        finer = [c.name for c in (*table.clusters, *ids) if c.distinct > column.distinct]
        rivals = [] if column.mentions_role("place") else [*dict.fromkeys(finer)]
    is_shared = column.name == table.shared_unit
    reason += "; two files share its values, and one of them has one row each" * is_shared
    if rivals:
        others = " or ".join(rivals)
        question = f"unit: was {column.name} randomised, or {others}? There are {reason}"
        return Guess("unit", column, "not sure", reason, question)
    is_own = column in ids and not is_shared and column.kind != "real"
    is_sure = is_own and not missing and share >= _ONE_VARIANT
    return Guess("unit", column, "sure" if is_sure else "likely", reason)


def _guess_rows(table: Table) -> Guess:
    """Guess that each row is a unit, and ask where it may be something else.

    A row may be one of a unit's several rows, or a total over several units.
    """
    other_ids = [c.name for c in table.columns if c.names_id and 1 < c.distinct < table.rows]
    seen_counts = [c.name for c in table.columns if c.is_count and c.mentions_role("seen")]
    days = [c.distinct for c in table.columns if c.has_role_name("time")]
    variants = [c.distinct for c in list_variant_candidates(table)[:1]]
    # As many rows as days times variants are totals, not units.
    is_by_day = any(abs(d * v - table.rows) < 0.1 * table.rows for d in days for v in variants)
    if other_ids:
        reason = f"each row counts as a unit; or is the unit {' or '.join(other_ids)}?"
    elif seen_counts or is_by_day:
        what = f"many people ({seen_counts[0]})" if seen_counts else "a day of a variant"
        reason = f"each row seems to be {what}, not a unit that was randomised. What was "
        reason += "randomised? Until you say so, rows are the units"
    else:
        return Guess("unit", None, "likely", "no column names a unit, so each row is one")
    return Guess("unit", None, "not sure", reason, f"unit: {reason}")


def drop_earlier_stage(engine: Engine, table: Table) -> Table:
    """Drop the rows that a column marks as from before the experiment, and ask."""
    for column in table.columns:
        first = words.LISTS["stage_before"]
        kept_values = [v for v in column.values if not {*words.split(v)[:1]} & first.keys()]
        if not column.has_role_name("stage") or not 0 < len(kept_values) < len(column.values):
            continue
        where = f"cast({quote(column.name)} as varchar) in ({', '.join(map(literal, kept_values))})"
        left = table.rows - sum(column.values[value] for value in kept_values)
        question = (
            f"rows: are only those of the experiment that have {column.name} "
            f"{' or '.join(kept_values)}? `where` leaves out the other {left:,} of {table.rows:,}"
        )
        return add_question(filter_rows(engine, table, f"{table.relation}_own", where), question)
    return table


def add_question(table: Table, question: str) -> Table:
    """Add a question about the rows of a table."""
    questions = (*table.origin.questions, question)
    return replace(table, origin=replace(table.origin, questions=questions))


def holds_units(table: Table, unit: Guess, time: Guess) -> bool:
    """Tell whether rows are units, and not impressions of units."""
    taken = {g.column.name for g in (unit, time) if g.column is not None}
    entries = {guess.entry for guess in guess_log_columns(table, taken)}
    is_one = time.column is None if unit.column is None else has_one_row(unit)
    # A row that names an item or a list is what a unit saw.
    of_rows = {"item_id", "request_id", "impression_id", "propensity"}
    return is_one and not entries & of_rows and not {"click", "position"} <= entries


def has_one_row(unit: Guess) -> bool:
    """Tell whether each unit has one row."""
    return unit.column is None or unit.column.distinct == unit.column.rows


def _rank_name(column: Column, role: str) -> int:
    """Return the rank of a name in the list of a role; other names come last."""
    ranks = words.LISTS[role]
    return ranks.get(words.join_words(column.name), len(ranks))


def list_variant_candidates(table: Table, weakly: bool = False) -> list[Column]:
    """List the columns that may be the variant, the most likely first.

    `weakly` lists columns that only their values speak for, such as 0 and 1.
    """
    few = [c for c in table.columns if 2 <= _count_names(c) <= MOST_VARIANTS]
    few = [c for c in few if len(c.values) == c.distinct and (c.may_be_id or c.kind == "boolean")]
    plain = [c for c in few if not c.mentions_role(*_NO_VARIANT_ROLES)]
    if weakly:
        # What hardly anybody has is something that units do, such as to follow.
        often = [c for c in plain if min(c.values.values()) >= _RARE * c.rows]
        likely = [c for c in often if c.is_share or list_likely_controls(c.values)]
        # Of two, the variant is the one that splits the rows evenly.
        others = [c for c in often if c not in likely and not c.has_role_name("category")]
        return [*likely, *sorted(others, key=lambda c: (c.distinct > 2, _measure_unevenness(c)))]
    texts = [c for c in plain if c.kind == "text" and list_likely_controls(c.values)]
    candidates = [
        c for c in few if c.has_role_name("variant") or c in texts or (c in plain and _is_tested(c))
    ]
    return sorted(candidates, key=lambda c: (not _rate_likeness(c)[0], _rank_name(c, "variant")))


def _count_names(column: Column) -> int:
    """Count the values of a column that are no empty text."""
    return column.distinct - sum(not value.strip() for value in column.values)


def describe_nameless_variant(table: Table) -> str:
    """Describe a variant column that names one variant and is empty elsewhere.

    The text is empty without such a column.
    """
    for column in table.columns:
        if not column.has_role_name("variant_sure") or _count_names(column) != 1:
            continue
        name = next((value for value in column.values if value.strip()), "")
        share = column.values.get(name, table.rows) / table.rows
        if share < 1:
            named = f"coalesce(nullif({column.name}, ''), 'control') as {column.name}"
            return (
                f"{column.name} is {name!r} in {share:.0%} of the rows, and empty in the others: "
                f'if these are of control, query = "select * replace ({named}) from log" says so.'
            )
    return ""


def _measure_unevenness(column: Column) -> float:
    """Compute how far the most frequent value is from an equal share."""
    return max(column.values.values()) * column.distinct / column.rows


def _is_tested(column: Column) -> bool:
    """Tell whether a column is named like a test, with about as many of both values."""
    parts, rows = words.split(column.name), column.values.values()
    is_named = any(words.is_role_name(part, "tested") for part in {*parts[:1], *parts[-1:]})
    return is_named and min(rows) > 0.9 * max(rows)


def _rate_likeness(column: Column) -> tuple[bool, bool]:
    """Tell whether a column's values, and whether its name, are those of a variant."""
    letters = sorted(value.strip().lower() for value in column.values)
    is_ab = letters == list("abcdefghijkl")[: len(letters)]
    is_sure = is_ab or any(names_control(value, surely=True) for value in column.values)
    return is_sure, column.has_role_name("variant")


def guess_variant(
    engine: Engine, table: Table, weakly: bool = False, by_name: bool = False
) -> Guess:
    """Guess the column of the variant: the first candidate constant within units.

    `by_name` accepts a usual name even if units have several values; a person is asked.
    """
    if named := table.find_named("variant"):
        return Guess("variant", named, "sure", "you name it")
    unit = guess_unit(table)
    candidates = [c for c in list_variant_candidates(table, weakly) if c != unit.column][:FEW]
    shares = {c.name: _measure_constancy(engine, table, unit.column, c) for c in candidates}
    fitting = [c for c in candidates if shares[c.name] >= _ONE_VARIANT]
    fitting = fitting or [c for c in candidates if by_name and c.has_role_name("variant_sure")]
    if not fitting:
        lone = describe_nameless_variant(table)
        reason = lone or "no column names the variant of a unit: which one is it?"
        return Guess("variant", None, "not sure", reason)
    best, share, by_row = fitting[0], shares[fitting[0].name], has_one_row(unit)
    rivals = [c.name for c in fitting[1:] if _rate_likeness(c) == _rate_likeness(best)]
    reason = f"its values are {', '.join(map(repr, best.values))}"
    if not by_row:
        reason = "each unit has one" if share == 1 else f"{share:.1%} of the units have one"
    if rivals:
        reason += f"; or is it {' or '.join(rivals[:3])}?"
    is_even = len(list_likely_controls(best.values)) == 1 and not refutes_equal_split(best.values)
    is_plain = not rivals and (any(_rate_likeness(best)) or _is_tested(best) or is_even)
    if share >= _ONE_VARIANT and (best.has_role_name("variant_sure") or is_plain):
        is_sure = best.has_role_name("variant") and not rivals and not by_row and share > 0.99
        return Guess("variant", best, "sure" if is_sure else "likely", reason)
    return Guess("variant", best, "not sure", reason, f"variant: is it {best.name}? {reason}")


def read_variant_units(engine: Engine, table: Table, guessed: Guess) -> VariantUnits | None:
    """Read the values of the variant column; None without such a column."""
    unit, variant = guess_unit(table).column, guessed.column
    if variant is None:
        return None
    counted = "count(*)" if unit is None else f"count(distinct {quote(unit.name)})"
    rows = engine.rows(
        f"select cast({quote(variant.name)} as varchar) as v, {counted} as n "
        f"from {quote(table.relation)} where {quote(variant.name)} is not null "
        f"and {table.since} group by v order by n desc, v"
    )
    long = next((str(value) for value, _ in rows if len(str(value)) > _LONGEST_VARIANT), None)
    if long is not None:
        what = f"a variant in column {variant.name!r} is called {long[:80]!r}…"
        raise LogError(what, f"names of variants have at most {_LONGEST_VARIANT} characters")
    return make_variant_units({str(value): read_int(count) for value, count in rows})


def _measure_constancy(
    engine: Engine, table: Table, unit: Column | None, column: Column, rows: int = 1
) -> float:
    """Compute the share of units with one value of a column in the period.

    Upper and lower case count as the same. Only units with at least `rows` rows count.
    """
    if unit is None:
        return 1.0
    values = f"count(distinct lower(trim(cast({quote(column.name)} as varchar))))"
    ((share,),) = engine.rows(
        f"select avg(cast(n <= 1 as int)) from (select {values} as n from {quote(table.relation)} "
        f"where {quote(unit.name)} is not null and {table.since} group by {quote(unit.name)} "
        f"having count(*) >= {rows})"
    )
    return float(share or 0)


def list_times(table: Table) -> list[Column]:
    """List the columns of times, those of usual names first."""
    times = [column for column in table.columns if column.is_time]
    return sorted(times, key=lambda c: (_rank_name(c, "time"), c.kind != "time"))


def guess_time(table: Table) -> Guess:
    """Guess the time of a row."""
    time = next(iter(list_times(table)), None)
    if time is None:
        return Guess("ts", None, "likely", "no column has times")
    if time.kind == "time":
        return Guess("ts", time, "sure", f"of type {time.type}")
    what = "days such as 20260701" if time.is_day_number else "text of times"
    what = f"whole numbers since 1970, in {time.time_unit}" if time.time_unit else what
    return Guess("ts", time, "likely", what)


def guess_log_columns(table: Table, taken: set[str]) -> Iterator[Guess]:
    """Guess the columns of a log, such as click and item, by name and content."""
    for column in (c for c in table.columns if c.name not in taken):
        role = next((role for role in LOG_COLUMNS if column.has_role_name(role)), "")
        if role and _fits_role(role, column):
            yield Guess(role, column, "likely", "by its name")


def guess_clicks(table: Table, guesses: Collection[Guess]) -> Iterator[Guess]:
    """Guess the clicks of a log by the values of its columns.

    The guess is the only column of 0 and 1 that has no other meaning.
    """
    taken = {g.column.name for g in guesses if g.column is not None}
    shares = [
        c
        for c in table.columns
        if c.is_share and c.name not in taken and not c.mentions_role(*_NO_VARIANT_ROLES)
    ]
    if len(shares) == 1 and not any(c.has_role_name("click") for c in table.columns):
        question = f"click: does {shares[0].name} say whether the row was clicked?"
        yield Guess("click", shares[0], "not sure", "its values are 0 and 1", question)


def _fits_role(role: str, column: Column) -> bool:
    if role in ("item_id", "request_id", "impression_id"):
        is_id = column.distinct > FEW or words.split(column.name)[-1] in ("id", "item")
        return column.kind in ("text", "integer") and is_id
    if role == "category":
        return column.kind == "text"
    is_above = column.is_number and (column.low or 0) >= 0
    tests = {"click": column.is_share, "position": column.is_whole}
    return is_above and tests.get(role, role != "propensity" or (column.high or 0) <= 1)


def guess_segments(table: Table, taken: set[str]) -> Iterator[Guess]:
    """Guess segments: text columns of few values."""
    for column in (c for c in table.columns if c.kind == "text" and c.name not in taken):
        if 2 <= column.distinct <= MOST_VARIANTS and not column.has_role_name("variant_sure"):
            yield Guess("segment", column, "likely", f"{column.distinct} values")
