"""A metric as arithmetic over other metrics: parsed, checked, computed on arrays.

`experiment/` checks the text of the file with it and takes the names; `inference/other_kinds.py`
evaluates it on the values of the parts.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from abeval.stats.records import Floats

if TYPE_CHECKING:
    from sqlglot import exp

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
_LEAVES = ("Paren", "Column", "Identifier", "Literal")
"""Kinds of nodes, by the names of their classes: few files have functions that are parsed."""

_MAY = "metrics by name, numbers, + - * / and parentheses, pow, abs, sqrt, exp, ln"
_LONGEST = 1000


def function_problem(text: str) -> str | None:
    """Why `text` is not a function of metrics, or None where it is one.

    Example:
        >>> function_problem("ctr * dwell_per_click"), function_problem("sum(ctr)")
        (None, "'sum(ctr)' contains `SUM(ctr)`; it may contain metrics by name, numbers, + - * / \
and parentheses, pow, abs, sqrt, exp, ln")
    """
    shown = repr(text if len(text) <= 100 else f"{text[:100]}…")
    if len(text) > _LONGEST:
        return f"{shown} has more than {_LONGEST:,} characters"
    from sqlglot.errors import SqlglotError

    from abeval.metrics.expressions import parsed

    try:
        tree = parsed(text)
        # An operator without an operand parses, but its written form does not.
        parsed(tree.sql(dialect="duckdb"))
        strange = next((node for node in tree.walk() if not _is_known(node)), None)
    except (SqlglotError, RecursionError):
        return f"{shown} is not one expression"
    if strange is not None:
        return f"{shown} contains `{strange.sql(dialect='duckdb')}`; it may contain {_MAY}"
    return None if names_of(text) else f"{shown} names no metric"


def names_of(text: str) -> list[str]:
    """The metrics that a function names, each once, in order.

    Example:
        >>> names_of("(ctr - gauc) / ctr")
        ['ctr', 'gauc']
    """
    from sqlglot import exp

    from abeval.metrics.expressions import parsed

    # Depth first, left to right, as a reader meets them.
    columns = parsed(text).find_all(exp.Column, bfs=False)
    return list(dict.fromkeys(column.name for column in columns))


def evaluate(text: str, values: Mapping[str, Floats]) -> Floats:
    """The values of a function of metrics.

    Args:
        text: A function without a problem.
        values: Metric → its values, all of one shape.

    Example:
        >>> evaluate("a / (b + 1)", {"a": np.array([3.0, 8.0]), "b": np.array([2.0, 3.0])})
        array([1., 2.])
    """
    # A name may be a word of SQL, such as `map`.
    if text in values:
        return values[text]
    from abeval.metrics.expressions import parsed

    return _value(parsed(text), values)


def _value(node: "exp.Expr", values: Mapping[str, Floats]) -> Floats:
    kind = type(node).__name__
    if kind == "Paren":
        return _value(node.this, values)
    if kind == "Column":
        return values[node.name]
    if kind == "Literal":
        return np.asarray(float(node.name))
    if kind in _TWO:
        return _TWO[kind](_value(node.this, values), _value(node.expression, values))
    return _ONE[kind](_value(node.this, values))


def _is_known(node: "exp.Expr") -> bool:
    kind = type(node).__name__
    if kind == "Literal":
        return not node.is_string
    if kind == "Column":
        return not node.text("table")
    return kind in _LEAVES or kind in _TWO or kind in _ONE
