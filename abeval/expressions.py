"""The user's row-level SQL: parsed, checked to be one scalar expression, never pasted as text."""

from collections.abc import Collection

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from abeval.errors import ExperimentError

_FORBIDDEN: tuple[tuple[type[exp.Expression], str], ...] = (
    (exp.Query, "a query"),
    (exp.AggFunc, "an aggregate (abeval sums over the rows itself)"),
    (exp.Window, "a window"),
    (exp.Star, "a star"),
    (exp.Placeholder, "a parameter"),
    (exp.Parameter, "a parameter"),
    (exp.Command, "a command"),
    (exp.DDL, "a statement"),
    (exp.Anonymous, "an unknown function"),
    (exp.Rand, "a random number"),
)


def parse_expression(text: str) -> exp.Expression:
    """The syntax tree of one scalar expression.

    Raises:
        ExperimentError: It is not one, or holds what a row-level expression may not.

    Example:
        >>> parse_expression("price * click").sql()
        'price * click'
    """
    problem = expression_problem(text)
    if problem is not None:
        raise ExperimentError(f"expression {text!r}: {problem}")
    return sqlglot.parse_one(text, dialect="duckdb")


def expression_problem(text: str) -> str | None:
    """Why `text` is not a row-level scalar expression, or None where it is one.

    Example:
        >>> expression_problem("sum(click)")
        "'sum(click)' holds an aggregate (abeval sums over the rows itself)"
    """
    try:
        trees = sqlglot.parse(text, dialect="duckdb")
    except SqlglotError as error:
        return f"{text!r} is not SQL: {str(error).splitlines()[0]}"
    if len(trees) != 1 or trees[0] is None:
        return f"{text!r} is not one expression"
    tree = trees[0]
    for kind, what in _FORBIDDEN:
        found = tree.find(kind)
        if found is not None:
            name = f" `{found.name}`" if isinstance(found, exp.Anonymous) else ""
            return f"{text!r} holds {what}{name}"
    if not isinstance(tree, exp.Condition | exp.Literal | exp.Paren | exp.Cast | exp.Case):
        return f"{text!r} is not a scalar expression"
    if any(column.table for column in tree.find_all(exp.Column)):
        return f"{text!r} names a table; name columns alone"
    return None


def columns_of(tree: exp.Expression) -> list[str]:
    """The columns an expression reads, each once, in order."""
    return list(dict.fromkeys(column.name for column in tree.find_all(exp.Column)))


def missing_columns(tree: exp.Expression, known: Collection[str]) -> list[str]:
    """The columns an expression reads that the log does not have (case ignored, as in SQL)."""
    lower = {name.lower() for name in known}
    return [name for name in columns_of(tree) if name.lower() not in lower]
