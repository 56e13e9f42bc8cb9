"""Rewrite abeval's SQL so that warehouses count as DuckDB does.

Expressions of users, which may hold more, are for these only where `find_strange_part` finds
nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from abeval.engines import builders

_Rule = Callable[[Any], exp.Expr]

_KNOWN: tuple[type[exp.Expr], ...] = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.And, exp.Or, exp.Not, exp.Is),
    *(exp.Between, exp.In, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE),
    *(exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Abs, exp.DataType),
)
"""Expressions with one meaning everywhere, or an error where not."""


def find_strange_part(tree: exp.Expr) -> str | None:
    """Find the first part of an expression that warehouses may compute otherwise.

    Example:
        >>> from sqlglot import parse_one
        >>> find_strange_part(parse_one("case when price > 1 then coalesce(price, 0) end"))
        >>> find_strange_part(parse_one("1 + round(price, 2)"))
        'ROUND(price, 2)'
    """
    unknown = next((node for node in tree.walk() if not _is_portable(node)), None)
    return None if unknown is None else unknown.sql(dialect="duckdb")


def _is_portable(node: exp.Expr) -> bool:
    """Tell whether a part of an expression means the same in every dialect."""
    if type(node) is exp.Cast:
        return bool(node.to.this == exp.DataType.Type.DOUBLE)
    # A subclass may do more than its parent, so only the class itself is known.
    return type(node) in _KNOWN


def rewrite_arithmetic(tree: exp.Query, dialect: str) -> exp.Query:
    """Rewrite what rounds or overflows otherwise in a dialect with rules."""
    rules = _RULES.get(dialect, {})
    # From the inside out, so that no rule is applied to the output of another.
    for node in reversed(list(tree.dfs())):
        rule = rules.get(type(node))
        if rule is not None and (replacement := rule(node)) is not node:
            node.replace(replacement)
    return tree


def _round(dialect: str) -> _Rule:
    """Round halves away from zero, as DuckDB does."""
    # Both round a half to the nearest even number.
    away = "trunc(x) + case when abs(x - trunc(x)) >= 0.5 then sign(x) else 0 end"
    return lambda node: exp.Paren(this=builders.fill_template(away, dialect, {"x": node.this}))


def _cast_wide_to(kind: str) -> _Rule:
    """Sum whole numbers of any size, or of 38 digits with an error beyond."""
    return lambda node: exp.cast(node.this, kind) if _is_wide(node) else node


def _is_wide(node: exp.Cast) -> bool:
    return node.to.this in (exp.DataType.Type.DECIMAL, exp.DataType.Type.INT128)


def _as_double(node: exp.Literal) -> exp.Expr:
    """Read a number with a fraction as a double, not as a decimal."""
    return node if node.is_string or node.this.isdigit() else exp.cast(node, "double")


def _call(name: str, *arguments: exp.Expr | str) -> exp.Expr:
    expressions = [
        exp.Literal.string(argument) if isinstance(argument, str) else argument
        for argument in arguments
    ]
    return exp.Anonymous(this=name, expressions=expressions)


def _cast(node: exp.Cast) -> exp.Expr:
    """Cast so that overflows raise an error, and times are in UTC."""
    if _is_wide(node):
        return _call("toInt256", node.this)
    match node.to.this:
        case exp.DataType.Type.BIGINT:
            return _call("accurateCast", node.this, "Nullable(Int64)")
        case exp.DataType.Type.TIMESTAMP | exp.DataType.Type.TIMESTAMPNTZ:
            return _call("toDateTime64", node.this, exp.Literal.number(6), "UTC")
    return node


def _widen_sum(node: exp.Sum) -> exp.Expr:
    """Sum whole numbers without wrapping around."""
    return exp.Sum(this=_call("toInt256", node.this))


def _name_columns(node: exp.Select) -> exp.Expr:
    """Name each column of a select."""
    for item in list(node.expressions):
        # ClickHouse calls a column `a.x` where `b` has an `x` too.
        if isinstance(item, exp.Column) and item.table and not item.is_star:
            item.replace(exp.alias_(item.copy(), item.this.copy()))
    return node


def _divide_doubles(node: exp.Div) -> exp.Expr:
    """Divide as doubles.

    A quotient of whole numbers would be rounded to six decimals.
    """
    return exp.Div(this=exp.cast(node.this, "double"), expression=node.expression)


def _divide_exactly(node: exp.IntDiv) -> exp.Expr:
    """Divide whole numbers without their remainder."""
    parts = {"x": node.this, "y": node.expression}
    return builders.fill_template("cast((x - mod(x, y)) / y as bigint)", "snowflake", parts)


def _truncate_time(node: exp.TimestampTrunc) -> exp.Expr:
    """Keep a time without a zone."""
    return exp.DatetimeTrunc(this=node.this, unit=node.args["unit"])


def _order_as_is(node: exp.Ordered) -> exp.Expr:
    """Leave the place of nulls to BigQuery.

    What abeval's windows order by is never null.
    """
    node.set("nulls_first", not node.args.get("desc"))
    return node


_RULES: Mapping[str, Mapping[type[exp.Expr], _Rule]] = {
    # An unknown dialect has no rules: its SQL stays as it is.
    "postgres": {
        exp.Round: _round("postgres"),
        exp.Cast: _cast_wide_to("decimal"),
        exp.Literal: _as_double,
    },
    "clickhouse": {
        exp.Round: _round("clickhouse"),
        exp.Cast: _cast,
        exp.Sum: _widen_sum,
        exp.Select: _name_columns,
    },
    "bigquery": {
        exp.Cast: _cast_wide_to("bigdecimal"),
        exp.TimestampTrunc: _truncate_time,
        exp.Ordered: _order_as_is,
    },
    "snowflake": {
        exp.Cast: _cast_wide_to("decimal(38, 0)"),
        exp.Div: _divide_doubles,
        exp.IntDiv: _divide_exactly,
        exp.Literal: _as_double,
    },
}
