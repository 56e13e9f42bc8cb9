"""Read plain row-level SQL without a parser, and functions of metrics."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from abeval.metrics.definition import Metric, list_event_terms, list_row_terms
from abeval.stats.records import Floats

if TYPE_CHECKING:
    from sqlglot import exp

# Keywords of plain texts.
_WORDS = "and|case|coalesce|else|end|is|not|null|then|when"

# Keywords that are no column names.
_RESERVED = re.compile(
    "alter|any|as|between|connect_by_root|create|cross|current_catalog|current_date|"
    "current_time|current_timestamp|current_user|distinct|drop|except|false|fetch|for|force|from|"
    "glob|grant|having|if|ilike|in|inner|insert|install|intersect|into|join|lateral|like|localtime|"
    "localtimestamp|map|notnull|on|only|or|outer|partitioned_by|positional|qualify|regexp|"
    "returning|revoke|rlike|rollback|select|session_user|summarize|tablesample|true|uncache|union|"
    "using|where|with|xor"
)

_NAME = rf"(?!(?:{_WORDS})\b)[a-z_][a-z0-9_]*"
_VALUE = rf"(?:{_NAME}|[0-9]+|coalesce\({_NAME}, [0-9]+\))"
_CONDITION = rf"{_NAME} (?:(?:=|>=) [0-9]+|is (?:not )?null)"
_PLAIN = re.compile(
    rf"{_VALUE}|"
    rf"case when {_CONDITION}(?: and {_CONDITION})* then {_VALUE}(?: else {_VALUE})? end"
)
_COLUMN = re.compile(rf"\b{_NAME}\b")

# Only what cannot fail: no casts, no arithmetic.
_CHOOSING = re.compile(
    r'(?:\s|"(?:click|dwell_ms|score_\w*)"|[=(),]|[<>](?!>)|'
    rf"\b(?:click|dwell_ms|score_\w*|or|\d+|{_WORDS})\b)*",
    re.IGNORECASE,
)


def is_plain(text: str) -> bool:
    """Tell whether a text is a name, an integer, or a plain `case` or `coalesce`.

    Example:
        >>> is_plain("case when click = 1 then dwell_ms end"), is_plain("sum(click)")
        (True, False)
    """
    is_whole = _PLAIN.fullmatch(text) is not None
    return is_whole and not any(map(_RESERVED.fullmatch, _COLUMN.findall(text)))


def replace_plain_columns(text: str, name: Callable[[str], str]) -> str:
    """Replace the columns of a plain text by other SQL."""
    return _COLUMN.sub(lambda column: name(column[0]), text)


def find_expression_problem(text: str) -> str | None:
    """Return why `text` is no row-level scalar expression; None if it is."""
    if len(text) <= _LONGEST and is_plain(text):
        return None
    from abeval.metrics import expressions

    return expressions.find_expression_problem(text)


def write_column_expression(name: object) -> object:
    """Return the expression for a column, quoted if necessary.

    Example:
        >>> write_column_expression("spent"), write_column_expression('a"b; drop')
        ('spent', '"a""b; drop"')
    """
    is_word = not isinstance(name, str) or re.fullmatch(r"(?a)[a-zA-Z]\w*", name)
    if not name or (is_word and find_expression_problem(str(name)) is None):
        return name
    # SQL doubles a quote within a quoted name.
    escaped = str(name).replace('"', '""')
    return f'"{escaped}"'


@lru_cache(maxsize=4096)
def list_columns(text: str) -> tuple[str, ...]:
    """List the distinct columns of an expression, in order and lower case.

    Example:
        >>> list_columns("price * Click")
        ('price', 'click')
    """
    if is_plain(text):
        return tuple(dict.fromkeys(_COLUMN.findall(text)))
    from abeval.metrics import expressions

    return tuple(expressions.list_columns(expressions.parse_expression(text)))


def write_over_columns(text: str, columns: Iterable[str]) -> str | None:
    """Write an expression over a log's own columns; None if it lacks one.

    Example:
        >>> write_over_columns("0.3 * new + 0.7 * Base", ["new", "base"])
        '0.3e0 * "new" + 0.7e0 * "base"'
        >>> write_over_columns("score A", ["score A"]), write_over_columns("new", ["base"])
        ('"score A"', None)
    """
    by_lower = {column.lower(): column for column in columns}
    if text.lower() in by_lower:
        return '"' + by_lower[text.lower()].replace('"', '""') + '"'
    if find_expression_problem(text) is not None or not {*list_columns(text)} <= by_lower.keys():
        return None
    from abeval.metrics.expressions import replace_columns

    return replace_columns(text, lambda column: by_lower[column.lower()])


def never_fails(text: str) -> bool:
    """Tell whether an expression over the views' columns surely never fails.

    This is certain if it only compares and chooses among clicks, dwell, scores and numbers.

    Example:
        >>> never_fails("case when click = 1 then coalesce(dwell_ms, 0) else 0 end")
        True
        >>> never_fails("cast(category as int)"), never_fails("dwell_ms * 1000000000")
        (False, False)
    """
    return _CHOOSING.fullmatch(text) is not None


_TWO: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Pow": np.power,
}
_ONE: Mapping[str, Callable[[Floats], Floats]] = {
    "Neg": np.negative,
    "Abs": np.abs,
    "Sqrt": np.sqrt,
    "Exp": np.exp,
    "Ln": np.log,
}
# Node kinds by class name, so that sqlglot need not be imported here.
_LEAVES = ("Paren", "Column", "Identifier", "Literal")

_MAY = "metrics by name, numbers, + - * / and parentheses, pow, abs, sqrt, exp, ln"
_LONGEST = 1000


def find_function_problem(text: str) -> str | None:
    """Return why `text` is no function of metrics; None if it is.

    Example:
        >>> find_function_problem("ctr * dwell_per_click"), find_function_problem("sum(ctr)")
        (None, "'sum(ctr)' contains `SUM(ctr)`; it may contain metrics by name, numbers, + - * / \
and parentheses, pow, abs, sqrt, exp, ln")
    """
    quoted = repr(text if len(text) <= 100 else f"{text[:100]}…")
    if len(text) > _LONGEST:
        return f"{quoted} has more than {_LONGEST:,} characters"
    from sqlglot.errors import SqlglotError

    from abeval.metrics.expressions import parse_tree

    try:
        tree = parse_tree(text)
        # An operator without an operand parses, but its written form does not.
        parse_tree(tree.sql(dialect="duckdb"))
        strange = next((node for node in tree.walk() if not _is_known(node)), None)
    except (SqlglotError, RecursionError):
        return f"{quoted} is not one expression"
    if strange is not None:
        return f"{quoted} contains `{strange.sql(dialect='duckdb')}`; it may contain {_MAY}"
    return None if list_metric_names(text) else f"{quoted} names no metric"


def list_metric_names(text: str) -> list[str]:
    """List the distinct metrics that a function names, in order."""
    from sqlglot import exp

    from abeval.metrics.expressions import parse_tree

    # Depth first, left to right, as a reader meets them.
    columns = parse_tree(text).find_all(exp.Column, bfs=False)
    return list(dict.fromkeys(column.name for column in columns))


def evaluate(text: str, values: Mapping[str, Floats]) -> Floats:
    """Compute a function of metrics, whose values all have one shape.

    Example:
        >>> evaluate("a / (b + 1)", {"a": np.array([3.0, 8.0]), "b": np.array([2.0, 3.0])})
        array([1., 2.])
    """
    # A name may be a word of SQL, such as `map`.
    if text in values:
        return values[text]
    from abeval.metrics.expressions import parse_tree

    return _evaluate_node(parse_tree(text), values)


def _evaluate_node(node: "exp.Expr", values: Mapping[str, Floats]) -> Floats:
    kind = type(node).__name__
    if kind == "Paren":
        return _evaluate_node(node.this, values)
    if kind == "Column":
        return values[node.name]
    if kind == "Literal":
        return np.asarray(float(node.name))
    if kind in _TWO:
        return _TWO[kind](
            _evaluate_node(node.this, values), _evaluate_node(node.expression, values)
        )
    return _ONE[kind](_evaluate_node(node.this, values))


def _is_known(node: "exp.Expr") -> bool:
    kind = type(node).__name__
    if kind == "Literal":
        return not node.is_string
    if kind == "Column":
        return not node.text("table")
    return kind in _LEAVES or kind in _TWO or kind in _ONE


def _list_metric_columns(metric: Metric) -> frozenset[str]:
    """List the columns that a metric depends on, in lower case.

    Example:
        >>> from abeval.metrics.builtin import load_builtin_metrics
        >>> builtin = load_builtin_metrics(30, 30)
        >>> sorted(_list_metric_columns(builtin["ctr"]))
        ['click']
        >>> sorted(_list_metric_columns(builtin["sessions_per_user"]))
        ['day', 'in_period', 'time_ms', 'ts', 'unit']
    """
    terms = (*list_row_terms(metric), *list_event_terms(metric))
    texts = {column.lower() for term in terms for column in list_columns(term.expression)}
    parts = (_list_metric_columns(part) for part in metric.parts)
    return frozenset(texts).union(metric.needs, metric.source.reads, *parts)


def list_dependent_metrics(metrics: Iterable[Metric], columns: Collection[str]) -> tuple[str, ...]:
    """List the metrics that read any of these columns."""
    return tuple(m.name for m in metrics if not _list_metric_columns(m).isdisjoint(columns))
