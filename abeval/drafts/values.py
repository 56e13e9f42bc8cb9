"""Guess which numbers of a table are outcomes, and which way is better; keep doubts that matter."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from itertools import pairwise
from statistics import NormalDist

from abeval.drafts import words
from abeval.drafts.columns import Column, Table
from abeval.drafts.guess import Arms, Guess, named_in, names_id
from abeval.engines.protocol import Engine
from abeval.engines.sql import quoted

MOST_VALUES = 20
"""Columns that are listed as outcomes, or as doubtful; of a wider table the others are counted."""


def value_guesses(table: Table, taken: set[str]) -> Iterator[Guess]:
    """Guess outcomes, covariates, and numbers of which neither is sure."""
    own = [column for column in table.columns if column.name not in taken]
    values = [
        column for column in own if column.distinct > 1 and (column.is_number or column.answers)
    ]
    names = {"".join(words.words(column.name)) for column in values}
    guesses = [g for column in values if (g := _value_guess(column, table, names)) is not None]
    counts = [c for c in values if c.is_count and c.kind != "boolean"]
    clicks = next((c for c in counts if words.has_word(c.name, words.COUNTED)), None)
    shown = next((c for c in counts if words.has_word(c.name, words.SEEN)), None)
    if clicks is not None and shown is not None:
        yield Guess("ratio", clicks, "likely", f"{clicks.name} / {shown.name}", over=shown)
        guesses = [g for g in guesses if g.column not in (clicks, shown)]
    for entry, is_sure in (("outcome", True), ("outcome", False), ("covariate", True)):
        kind = [g for g in guesses if g.entry == entry and (g.certainty != "not sure") == is_sure]
        yield from kind[:MOST_VALUES]
        if len(kind) > MOST_VALUES:
            reason = f"{len(kind) - MOST_VALUES:,} more columns of numbers are not listed"
            question = f"{entry}s: which of {len(kind):,} columns are they? {reason}"
            yield Guess("others", None, "not sure", reason, (question,))
    for column in own:
        is_value = words.has_word(column.name, (*words.OUTCOME, *words.COST))
        is_time = named_in(column, words.TIME) or "date" in words.words(column.name)
        if column.looks == "number" and (is_value or not (is_time or names_id(column))):
            what = f"{column.name} is text that looks like numbers"
            question = f"numbers: {what}: write them with a point, or name the `decimal` of the log"
            yield Guess("text", column, "not sure", what, (question,))


def _value_guess(column: Column, table: Table, names: Set[str]) -> Guess | None:
    """Guess what numbers are; None where they describe a unit, or number the rows."""
    parts = words.words(column.name)
    if parts[-1:] == ("id",):
        return None
    low, high = column.low, column.high
    kind = "a count from" if column.is_count else "from"
    kind = "0 or 1" if column.is_share else f"{kind} {low:g} to {high:g}"
    pair = _pair(column, names)
    is_other = any(two in words.NOT_BEFORE for two in pairwise(parts))
    if pair == "pre" or (words.has_word(column.name, words.BEFORE) and not is_other):
        return Guess("covariate", column, "likely", "its name says that it was before")
    is_cost = words.has_word(column.name, words.COST) or _is_time_to(parts)
    either = _either(column, is_cost, table)
    asked = tuple(_missing(column, table))
    if pair != "post" and not is_cost and not words.has_word(column.name, words.OUTCOME):
        is_type = words.named(column.name, words.EVENT_TYPE) is not None
        is_known = is_type or words.has_word(column.name, words.DESCRIPTION)
        if is_known or _numbers_rows(column, table):
            return None
        return Guess("outcome", column, "not sure", either or DOUBT)
    if pair == "post":
        kind = f"its name says that it was after; {kind}"
    if either:
        return Guess("outcome", column, "not sure", either, decreases=is_cost)
    return Guess("outcome", column, "likely", kind, asked, decreases=is_cost)


def _is_time_to(parts: Sequence[str]) -> bool:
    return ("time", "to") in pairwise(parts)


def _missing(column: Column, table: Table) -> Iterator[str]:
    empty = table.rows - column.rows
    if empty > FEW_EMPTY * table.rows:
        yield (
            f"missing: {column.name} is empty in {empty:,} of {table.rows:,} rows: does an empty "
            'one count as 0 (missing = "zero"), or not at all ("drop")?'
        )


FEW_EMPTY = 0.001
"""Share of the rows up to which it does not matter what an empty one means."""


def _either(column: Column, is_cost: bool, table: Table) -> str:
    """Ask which direction is better, where both can be; empty where one is plain."""
    parts = words.words(column.name)
    both = is_cost and _is_time_to(parts) and words.has_word(column.name, words.COST)
    is_spend = words.has_word(column.name, ("spend", "spent", "spending")) and "time" not in parts
    either = words.has_word(column.name, words.EITHER) and not is_cost
    if is_spend and either:
        # Of customers it is revenue, of campaigns a cost.
        names = [c.name for c in table.columns]
        shown = (*words.SEEN, *words.CLICK)
        buys = any(words.has_word(name, words.BUYING) for name in names)
        either = not buys or any(words.has_word(name, shown) for name in names)
    if both or either:
        return EITHER
    return ""


DOUBT = "an outcome, or known before?"
EITHER = "an outcome, of which more is better, or less?"


def settled(
    engine: Engine, table: Table, guesses: Sequence[Guess], arms: Arms | None, has_ctr: bool
) -> Iterator[Guess]:
    """Keep doubts that matter: none where a sure outcome is there, and the doubtful is alike.

    What does not differ between variants decides nothing, whatever it is.
    """
    variant = next(g.column for g in guesses if g.entry == "variant")
    doubtful = [g for g in guesses if g.entry == "outcome" and g.certainty == "not sure"]
    is_sure = any(g.entry in ("outcome", "ratio") and g not in doubtful for g in guesses)
    columns = [g.column for g in doubtful if g.column is not None]
    moved = set() if has_ctr else {column.name for column in columns}
    if is_sure and variant is not None and arms is not None and columns:
        moved &= _moved(engine, table, columns, variant, arms)
    for one in guesses:
        if one in doubtful and one.column is not None and one.column.name not in moved:
            yield replace(one, entry="diagnostic", questions=())
        elif one in doubtful and one.column is not None and one.reason == EITHER:
            question = f"direction: is more {one.column.name} better, or less? Give it a `role`"
            yield replace(one, questions=(f"{question} and a `direction`",))
        else:
            yield one


def _moved(
    engine: Engine, table: Table, columns: Sequence[Column], variant: Column, arms: Arms
) -> set[str]:
    """Return the columns whose means differ between variants by more than chance."""
    each = ", ".join(
        f"avg({c.number}), var_samp({c.number}) / greatest(count({c.number}), 1)" for c in columns
    )
    name = quoted(variant.name)
    rows = engine.rows(
        f"select cast({name} as varchar) as v, {each} from {quoted(table.relation)} "
        f"where {name} is not null group by v"
    )
    values = {str(v): [float(x or 0) for x in own] for v, *own in rows}
    limit = NormalDist().inv_cdf(1 - 0.025 / (len(columns) * max(len(values) - 1, 1)))
    control = values.get(arms.control)
    moved = set[str]()
    for place, column in enumerate(columns):
        for own in values.values():
            mean, error = own[2 * place : 2 * place + 2]
            base, base_error = (control or own)[2 * place : 2 * place + 2]
            if control is None or abs(mean - base) > limit * (error + base_error) ** 0.5:
                moved.add(column.name)
    return moved


def _pair(column: Column, names: Set[str]) -> str | None:
    """Return the prefix, `pre` or `post`, of one of two columns that differ in it alone."""
    own = "".join(words.words(column.name))
    for own_prefix, other_prefix in (("pre", "post"), ("post", "pre")):
        rest = own.removeprefix(own_prefix)
        if rest != own and rest and other_prefix + rest in names:
            return own_prefix
    return None


def _numbers_rows(column: Column, table: Table) -> bool:
    return column.kind == "integer" and column.distinct == table.rows
