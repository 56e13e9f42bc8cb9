"""Casts rewritten for Spark so that they give DuckDB's results.

Where the result depends on the type of the value, the SQL tests `typeof`, which Spark evaluates
before the query runs. A double becomes an integer by rounding, where Spark would truncate. A number
becomes text with the digits that DuckDB writes. A text that engines read in different ways (such as
`1_000`, `inf` or `2024/1/5`) raises an error that says so.

`rules.py` hands it each cast of a query.
"""

from collections.abc import Mapping
from typing import NamedTuple

from sqlglot import exp

from abeval.engines import builders
from abeval.errors import QueryError

_DOUBLE, _TEXT = exp.DataType.Type.DOUBLE, exp.DataType.Type.TEXT
_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_TEXTS = frozenset({"TEXT", "VARCHAR"})
_CLOSED = (exp.Column, exp.Literal, exp.Paren, exp.Func, exp.Null)


def refused(node: exp.Expr, why: str) -> QueryError:
    """The error of a query that Spark might answer differently."""
    text = node.sql(dialect="duckdb")
    shown = text if len(text) < 200 else f"{text[:200]}…"
    return QueryError(f"`{shown}` {why}", "write it differently, or run it on DuckDB")


def string(text: str) -> exp.Literal:
    """A text literal."""
    return exp.Literal.string(text)


def filled(template: str, **parts: exp.Expr) -> exp.Expr:
    """A template of Spark SQL with its columns `x`, `y`, … replaced by expressions."""
    closed = {
        name: part if isinstance(part, _CLOSED) else exp.Paren(this=part.copy())
        for name, part in parts.items()
    }
    return exp.Paren(this=builders.filled(template, "spark", closed))


def as_double(node: exp.Expr) -> exp.Expr:
    """A number as a double."""
    inner = node.unnest()
    if _is_double(inner):
        return node
    return exp.cast(inner.copy(), _DOUBLE)


def _is_double(node: exp.Expr) -> bool:
    if isinstance(node, exp.Literal):
        return not node.is_string and "e" in node.this.lower()
    return isinstance(node, exp.Cast) and node.to.this == _DOUBLE


def is_cast_to_integer(node: exp.Expr | None) -> bool:
    """Whether this is a cast to an integer."""
    return isinstance(node, exp.Cast) and node.to.this.name in _INTEGERS


def is_plain_cast(node: exp.Expr) -> bool:
    """Whether this is a cast that may stay as it is in a trusted query."""
    if type(node) is not exp.Cast:
        return False
    name = node.to.this.name
    return name in _READINGS or name in _TEXTS


class _Reading(NamedTuple):
    """Patterns of texts that all engines read alike, and of those that DuckDB reads differently."""

    good: str
    odd: str


_SPACE = r"[ \t\n\r]*"
_NUMBER = r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"
_ODD_NUMBER = r"[+-]?((?i:inf|infinity|nan|0[xb].*)|[0-9.eE+-]*_[0-9_.eE+-]*)"
_DAY, _CLOCK = "[0-9]{4}-[0-9]{2}-[0-9]{2}", "[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?"
_MOMENT = _Reading(f"^{_DAY}( {_CLOCK})?$", "[0-9]")
_READINGS: Mapping[str, _Reading] = {
    **dict.fromkeys(
        _INTEGERS,
        _Reading(f"^{_SPACE}[+-]?[0-9]+{_SPACE}$", f"^{_SPACE}({_NUMBER}|{_ODD_NUMBER}){_SPACE}$"),
    ),
    "DOUBLE": _Reading(f"^{_SPACE}{_NUMBER}{_SPACE}$", f"^{_SPACE}{_ODD_NUMBER}{_SPACE}$"),
    "DATE": _Reading(f"^{_DAY}$", "[0-9]"),
    "TIMESTAMP": _MOMENT,
    "TIMESTAMPNTZ": _MOMENT,
    "BOOLEAN": _Reading("^(true|false)$", "."),
}
_OF_TEXT = """
case when typeof(x) like 'string%' then
  case when s is null then null when s rlike good then of_text
    when s rlike odd then raise_error(concat(s, says)) else otherwise end
else of_number end
"""
_SAYS = string(" is text that engines read in different ways, or not at all")
_TO_INTEGER = """
case when typeof(x) in ('double', 'float') then of_rounded
  when typeof(x) like 'decimal%' then of_decimal else of_whole end
"""


def cast(node: exp.Cast) -> exp.Expr:
    """A cast, or try_cast.

    Raises:
        QueryError: To a type for which there is no rule.
    """
    kind, value = node.to, node.this
    name = kind.this.name
    if name in _TEXTS:
        return as_text(value)
    if name == "DECIMAL" and [part.name for part in kind.expressions] == ["38", "0"]:
        return node
    reading = _READINGS.get(name)
    if reading is None:
        raise refused(node, "is a cast that Spark does not know, or does differently")
    if _needs_no_rule(name, value.unnest()):
        return node
    tried = isinstance(node, exp.TryCast)
    text = exp.cast(exp.Paren(this=value.copy()), _TEXT)
    return filled(
        _OF_TEXT,
        x=value,
        s=text,
        good=string(reading.good),
        odd=string(reading.odd),
        of_text=_to(kind, text, tried),
        of_number=_to_integer(kind, value, tried) if name in _INTEGERS else _to(kind, value, tried),
        otherwise=exp.null()
        if tried
        else filled("raise_error(concat(s, says))", s=text, says=_SAYS),
        says=_SAYS,
    )


def _needs_no_rule(name: str, value: exp.Expr) -> bool:
    """Whether the form of a value shows that Spark casts it as DuckDB does."""
    if isinstance(value, (exp.Null, exp.Boolean)):
        return True
    if isinstance(value, exp.Literal):
        return name not in _INTEGERS or (not value.is_string and value.this.isdigit())
    # Sums and rounded values are numbers, and queries cast only whole sums.
    return isinstance(value, (exp.Count, exp.RowNumber, exp.Sum, exp.Min, exp.Max, exp.Round))


def _to(kind: exp.DataType, value: exp.Expr, tried: bool) -> exp.Expr:
    held = exp.Paren(this=value.copy())
    if not tried:
        return exp.Cast(this=held, to=kind.copy())
    return exp.TryCast(this=held, to=kind.copy(), safe=True)


def _to_integer(kind: exp.DataType, value: exp.Expr, tried: bool) -> exp.Expr:
    """A double is rounded half to even, a decimal half away from zero."""
    return filled(
        _TO_INTEGER,
        x=value,
        of_rounded=_to(kind, filled("rint(x)", x=as_double(value)), tried),
        of_decimal=_to(kind, exp.cast(exp.Paren(this=value.copy()), "decimal(38, 0)"), tried),
        of_whole=_to(kind, value, tried),
    )


def as_text(value: exp.Expr) -> exp.Expr:
    """A value as text, with the digits that DuckDB writes."""
    if _is_text(value):
        return value
    inner = value.unnest()
    text = exp.cast(
        exp.Paren(this=value.copy()) if isinstance(value, exp.Binary) else value.copy(), _TEXT
    )
    if isinstance(inner, (exp.Sum, exp.Count, exp.Null)):
        return text
    # To double by way of text, because Spark refuses a direct cast of a date to double.
    return mark_text(filled(_NUMBER_AS_TEXT, x=value, d=exp.cast(text.copy(), _DOUBLE), t=text))


def mark_text(node: exp.Expr) -> exp.Expr:
    """Mark a node as text already, so that no rule around it casts it again."""
    node.meta[_IS_TEXT] = True
    return node


def _is_text(value: exp.Expr) -> bool:
    """Whether a value is known to be text; casts at every level would make the query very long."""
    if value.meta.get(_IS_TEXT):
        return True
    inner = value.unnest()
    if isinstance(inner, exp.Literal):
        return bool(inner.is_string)
    return isinstance(inner, (exp.DPipe, exp.Concat, exp.Trim)) or (
        isinstance(inner, exp.Cast) and inner.to.this.name in _TEXTS
    )


_IS_TEXT = "is text"


_NUMBER_AS_TEXT = """
case when typeof(x) in ('double', 'float') then
  case when x is null then null
    when d = cast('NaN' as double) then 'nan'
    when d = cast('Infinity' as double) then 'inf'
    when d = cast('-Infinity' as double) then '-inf'
    when t = '-0.0' then t
    when d = rint(d) and abs(d) < 1e15 then concat(cast(cast(d as bigint) as string), '.0')
    when typeof(x) = 'double' and abs(d) >= 1e-3 and abs(d) < 1e7 and length(t) <= 16 then t
    else raise_error(concat(t, ' is a number that engines write in different ways: round it')) end
else t end
"""
