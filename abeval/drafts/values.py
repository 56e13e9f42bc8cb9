"""Guess outcomes, covariates and the models of an experiment."""

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from math import sqrt
from statistics import NormalDist

from abeval.drafts import words
from abeval.drafts.columns import Column, Table
from abeval.drafts.guess import Guess
from abeval.drafts.variants import VariantUnits, names_control
from abeval.engines.sql import Engine, cast_query, quote

_MOST_VALUES = 20
"""Most columns that are listed as outcomes; more are only counted."""

_FEW_EMPTY = 0.001
"""Share of empty values up to which their meaning does not matter."""

DOUBT = "an outcome, or known before?"
_EITHER = "an outcome; is more of it better, or less?"


def guess_values(table: Table, taken: Set[str]) -> Iterator[Guess]:
    """Guess outcomes and covariates, and numbers that may be either."""
    free_columns = [column for column in table.columns if column.name not in taken]
    values = [c for c in free_columns if c.distinct > 1 and (c.is_number or c.answers)]
    counts = [c for c in values if c.is_count]
    clicks = next((c for c in counts if c.mentions_role("counted")), None)
    seen = next((c for c in counts if c.mentions_role("seen")), None)
    if clicks is not None and seen is not None:
        name = f"{words.slugify_name(clicks.name)}_per_{words.slugify_name(seen.name)}"
        reason = f"{clicks.name} / {seen.name}"
        question = next(filter(None, (_ask_missing(c, table) for c in (clicks, seen))), "")
        yield Guess("ratio", clicks, "likely", reason, question, over=seen, name=name)
        # The two columns are used up: their ratio is the metric.
        values = [c for c in values if c not in (clicks, seen)]
    names = {"".join(words.split(column.name)) for column in free_columns}
    guesses = [g for column in values if (g := _guess_value(column, table, names)) is not None]
    for entry, is_sure in (("outcome", True), ("outcome", False), ("covariate", True)):
        kind = [g for g in guesses if g.entry == entry and (g.certainty != "not sure") == is_sure]
        yield from kind[:_MOST_VALUES]
        if len(kind) > _MOST_VALUES:
            reason = f"{len(kind) - _MOST_VALUES:,} more columns of numbers are not listed"
            question = f"{entry}s: which of {len(kind):,} columns are they? {reason}"
            yield Guess("others", None, "not sure", reason, question)
    for column in free_columns:
        is_time = column.has_role_name("time") or "date" in words.split(column.name)
        if column.looks == "number" and (
            column.mentions_role("outcome", "cost") or not (is_time or column.names_id)
        ):
            odd = f", but has {column.odd!r}" if column.odd else ""
            what = f"{column.name} is text that looks like numbers{odd}"
            query = cast_query({column.name: "double"}, "try_cast")
            hint = f'make numbers of it: in its log write query = """{query}"""'
            if "," in column.odd:
                hint = "write them with a point, or name the `decimal` of the log"
            question = f"numbers: {what}: {hint}"
            yield Guess("text", column, "not sure", what, question)


def _guess_value(column: Column, table: Table, names: Set[str]) -> Guess | None:
    """Guess the role of a column of numbers; None for ids and descriptions."""
    parts = words.split(column.name)
    if parts[-1:] == ("id",):
        return None
    if says_before(column.name, names):
        return Guess("covariate", column, "likely", "its name says that it was measured before")
    if column.is_whole and 1900 <= (column.low or 0) <= (column.high or 0) <= 2100:
        is_named = "year" in parts
        doubt = Guess("outcome", column, "not sure", DOUBT)
        return Guess("covariate", column, "likely", "years were before") if is_named else doubt
    is_cost = column.mentions_role("cost") or ("time", "to") in pairwise(parts)
    is_after = _is_one_of_two(column.name, "post", names)
    is_value = is_cost or is_after or column.mentions_role("outcome")
    # A different whole number in each row is an index.
    is_index = column.kind == "integer" and column.distinct == table.rows
    is_known = is_index or column.mentions_role("description") or column.has_role_name("event_type")
    if is_known and not is_value:
        return None
    if _is_either(column, is_cost, table):
        ask = f"is more {column.name} better, or less? Give it a `role` and a `direction`"
        question = f"direction: {ask}"
        return Guess("outcome", column, "not sure", _EITHER, question, decreases=is_cost)
    if not is_value:
        return Guess("outcome", column, "not sure", DOUBT)
    kind = "a count from" if column.is_count else "from"
    kind = "0 or 1" if column.is_share else f"{kind} {column.low:g} to {column.high:g}"
    return Guess("outcome", column, "likely", kind, _ask_missing(column, table), decreases=is_cost)


def says_before(column: str, names: Set[str]) -> bool:
    """Tell whether a column's name means a value from before the experiment.

    >>> says_before("spent_before", set()), says_before("pre_visits", {"previsits", "postvisits"})
    (True, True)
    """
    pairs = map("_".join, pairwise(words.split(column)))
    is_other = any(words.is_role_name(pair, "not_before") for pair in pairs)
    is_before = words.mentions_role(column, "before") and not is_other
    return is_before or _is_one_of_two(column, "pre", names)


def _is_one_of_two(column: str, prefix: str, names: Set[str]) -> bool:
    """Tell whether a column has the prefix of a `pre` and `post` pair."""
    # `pre_visits` and `post visits` are a pair, however they are written.
    word = "".join(words.split(column))
    stem = word.removeprefix(prefix)
    return stem not in ("", word) and {f"pre{stem}", f"post{stem}"} <= names


def _ask_missing(column: Column, table: Table) -> str:
    """Ask what an empty value means; no question if there are hardly any."""
    empty = table.rows - column.rows
    if empty <= _FEW_EMPTY * table.rows:
        return ""
    return (
        f"missing: {column.name} is empty in {empty:,} of {table.rows:,} rows: does an empty one "
        'count as 0 (missing = "zero"), or not at all ("drop")?'
    )


def _is_either(column: Column, is_cost: bool, table: Table) -> bool:
    """Tell whether both more and less of an outcome may be better."""
    if is_cost:
        # A long time to a loss, such as churn, is good; a long time to a purchase is not.
        return column.mentions_role("cost") and ("time", "to") in pairwise(words.split(column.name))
    if column.mentions_role("spend") and "time" not in words.split(column.name):
        # Of customers it is revenue, of campaigns a cost.
        buys = any(other.mentions_role("buying") for other in table.columns)
        return not buys or any(other.mentions_role("seen", "click") for other in table.columns)
    return column.mentions_role("either")


def settle_doubts(
    engine: Engine, table: Table, guesses: Sequence[Guess], arms: VariantUnits | None, has_ctr: bool
) -> Iterator[Guess]:
    """Keep the doubts that matter; others become diagnostics.

    Beside a sure outcome, a doubtful one that does not differ between variants decides nothing.
    """
    variant = next(g.column for g in guesses if g.entry == "variant")
    outcomes = [g for g in guesses if g.entry in ("outcome", "ratio")]
    doubtful = [g.column for g in outcomes if g.certainty == "not sure" and g.column is not None]
    moved = [] if has_ctr else doubtful
    if moved and len(doubtful) < len(outcomes) and variant is not None and arms is not None:
        moved = _find_differing_columns(engine, table, doubtful, variant, arms)
    for guess in guesses:
        is_outcome = guess.column is None or guess.column.mentions_role("outcome", "cost")
        if guess.entry == "text" and has_ctr and not is_outcome:
            continue
        is_alike = guess in outcomes and guess.column in doubtful and guess.column not in moved
        yield replace(guess, entry="diagnostic", question="") if is_alike else guess


def _find_differing_columns(
    engine: Engine, table: Table, columns: Sequence[Column], variant: Column, arms: VariantUnits
) -> list[Column]:
    """Find the columns whose means differ between variants by more than chance."""
    name, numbers = quote(variant.name), [f"x_{index}" for index in range(len(columns))]
    values = ", ".join(f"{c.number} as {x}" for c, x in zip(columns, numbers, strict=True))
    means = ", ".join(f"coalesce(avg({x}), 0)" for x in numbers)
    errors = ", ".join(f"coalesce(var_samp({x}) / count({x}), 0)" for x in numbers)
    rows = engine.rows(
        f"with rows as (select cast({name} as varchar) as v, {values} "
        f"from {quote(table.relation)} where {name} is not null) "
        f"select v, {means}, {errors} from rows group by v"
    )
    measures = {v: [float(x or 0) for x in row] for v, *row in rows}
    control, number = measures[arms.control], len(columns)
    # Bonferroni over columns and variants: two sides at 5 % in all.
    limit = NormalDist().inv_cdf(1 - 0.025 / (number * max(len(measures) - 1, 1)))

    def is_far(row: Sequence[float], i: int) -> bool:
        return abs(row[i] - control[i]) > limit * sqrt(row[number + i] + control[number + i])

    return [c for i, c in enumerate(columns) if any(is_far(row, i) for row in measures.values())]


@dataclass(frozen=True)
class Models:
    """Columns with the scores of models, and the model of each variant if known."""

    scores: Mapping[str, Column]
    served: Mapping[str, str]


def guess_models(table: Table, arms: VariantUnits, taken: Collection[str]) -> Models | None:
    """Guess the scores of models: columns whose names differ only in the model."""
    scores: dict[str, Column] = {}
    for column in table.columns:
        parts = words.split(column.name)
        model = "_".join(w for w in parts if not words.is_role_name(w, "model", "no_model"))
        is_score = model and any(words.is_role_name(word, "model") for word in parts)
        is_share = column.is_number and (column.low or 0) >= 0 and (column.high or 0) <= 1
        if is_score and is_share and column.distinct > 2 and column.name not in taken:
            scores[model] = column
    if len(scores) < 2:
        return None
    # A model may have the name of its variant; a single one left belongs to the rest.
    served = {variant: variant for variant in arms.units if variant in scores}
    served.setdefault(arms.control, next((m for m in scores if names_control(m)), ""))
    left = [model for model in scores if model not in served.values()]
    for variant in arms.units:
        served.setdefault(variant, left[0] if len(left) == 1 else "")
    return Models(scores, served if {*served.values()} <= scores.keys() else {})
