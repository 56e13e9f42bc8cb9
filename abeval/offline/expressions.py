"""Read expressions of the user: parts of the rows, and cut-offs of a request."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import NamedTuple

from abeval.bounds import MAX_CUTOFF
from abeval.errors import ExperimentError, LogError, QueryError
from abeval.metrics.row_text import find_expression_problem, list_columns, write_over_columns
from abeval.results.replay import POOLED


class Expression(NamedTuple):
    """An expression over a row, and the name that results have for what it chooses."""

    name: str
    text: str


def _check(option: str, name: str, text: str, taken: Sequence[str]) -> Expression:
    """Check the name and the text of an expression that an option has."""
    if not isinstance(name, str) or not name.strip() or name != name.strip():
        raise ExperimentError(
            f"{option}: {name!r} is no name", "one word says most, such as random"
        )
    if name in taken:
        raise ExperimentError(f"{option}: {name!r} means something else", "choose another name")
    problem = find_expression_problem(text) if isinstance(text, str) else f"{text!r} is no text"
    if problem is not None:
        raise ExperimentError(f"{option} {name!r}: expression {problem}")
    return Expression(name, text)


def read_parts(expressions: Mapping[str, str] | None) -> tuple[Expression, ...]:
    """Return the parts that `where` names.

    Example:
        >>> read_parts({"pooled": "is_random = 1"})
        Traceback (most recent call last):
        abeval.errors.ExperimentError: where: 'pooled' means something else
          hint: choose another name
    """
    parts = {} if expressions is None else expressions
    if not isinstance(parts, Mapping):
        what = f"where: {parts!r} has no names"
        raise ExperimentError(what, 'such as where={"random": "is_random = 1"}')
    # Results have these names for the whole and for all variants together.
    return tuple(_check("where", *part, ("all", POOLED)) for part in parts.items())


def read_cutoffs(ks: Iterable[int | str]) -> tuple[list[int], tuple[Expression, ...]]:
    """Divide cut-offs into numbers, and expressions `NAME: EXPRESSION` of a request.

    Example:
        >>> read_cutoffs([5, "viewport: case when device = 'phone' then 5 else 10 end"])
        ([5], (Expression(name='viewport', text="case when device = 'phone' then 5 else 10 end"),))
    """
    is_list = isinstance(ks, Iterable) and not isinstance(ks, str)
    # None is no cut-off, so whatever is no list gets the message below.
    values: list[object] = [*ks] if is_list else [None]
    texts = [k for k in values if isinstance(k, str)]
    # Integral, because whole numbers of numpy are no int.
    wholes = [int(k) for k in values if isinstance(k, Integral)]
    numbers = [k for k in wholes if 1 <= k <= MAX_CUTOFF]
    if not values or len(texts) + len(numbers) < len(values):
        what = f"k must be one or more whole numbers from 1 to {MAX_CUTOFF:,}"
        raise ExperimentError(what, 'such as 1, 5, 10, or "viewport: EXPRESSION" of a request')
    expressions: list[Expression] = []
    for name, _, text in (text.partition(":") for text in texts):
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or not text.strip():
            what = f"k must be one or more whole numbers, or NAME: EXPRESSION; {name!r} is neither"
            raise ExperimentError(
                what, "such as \"viewport: case when device = 'phone' then 5 ...\""
            )
        expressions.append(
            _check("k", name, text.strip(), [expression.name for expression in expressions])
        )
    return list(dict.fromkeys(numbers)), tuple(expressions)


def check_part(part: Expression | None, rows: int) -> None:
    """Refuse a part without a row."""
    if part is not None and not rows:
        what = f"where {part.name!r}: no row of a unit that is evaluated meets {part.text!r}"
        raise LogError(what, "look at the values of its columns in the log, or leave it out")


@contextmanager
def explain_failures(where: Expression | None, cutoffs: Sequence[Expression]) -> Iterator[None]:
    """Name the expressions of which the engine cannot compute one."""
    try:
        yield
    except QueryError as error:
        texts = [f"k {cutoff.name!r}: {cutoff.text!r}" for cutoff in cutoffs]
        texts += [] if where is None else [f"where {where.name!r}: {where.text!r}"]
        # An error with a hint says already what to do.
        if not texts or error.hint is not None:
            raise
        # Imported here: only errors need it.
        from abeval.logs.run import extract_reason

        what = f"{' or '.join(texts)} cannot be computed: {extract_reason(error)}"
        raise ExperimentError(what, "compare values of one type") from error


def has_columns(columns: Iterable[str]) -> str:
    """List the columns of a frame, as the hint of an error."""
    return f"it has: {', '.join(columns)}"


def write_row_expression(what: str, text: str, columns: Mapping[str, str], called: str) -> str:
    """Write an expression over the columns of a frame; refuse one that reads others."""
    if (sql := write_over_columns(text, columns)) is not None:
        return sql
    # Imported here: only errors need it.
    from abeval.experiment.problems import suggest_near_name

    problem = find_expression_problem(text)
    if problem is not None:
        raise ExperimentError(f"{what}: expression {problem}", has_columns(columns))
    lower = {column.lower() for column in columns}
    name = next(column for column in list_columns(text) if column not in lower)
    lacks = f"{called} has no column {name!r}{suggest_near_name(name, columns)}"
    # A text that is only a column's name needs no expression quoted around it.
    raise LogError(lacks if name == text.lower() else f"{what}: {lacks}", has_columns(columns))
