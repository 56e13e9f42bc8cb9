"""Rewrite DuckDB SQL so that Spark gives the same result, or refuse it.

Spark runs in its ANSI mode, where an overflow or a text that is no number is an error. The rules
are for what would silently differ: division of decimals, `floor` through a 64-bit number, the
logarithm of zero, a null in a concatenation.

Where a cast depends on the type of the value, the SQL tests `typeof`, which Spark evaluates before
the query runs. A text that engines read in different ways (`1_000`, `inf`) raises an error.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sqlglot import exp

from abeval.engines import builders
from abeval.engines.builders import CALLS
from abeval.errors import QueryError

_DOUBLE, _TEXT = exp.DataType.Type.DOUBLE, exp.DataType.Type.TEXT
_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_TEXTS = frozenset({"TEXT", "VARCHAR"})
_CLOSED = (exp.Column, exp.Literal, exp.Paren, exp.Func, exp.Null)


def _make_refusal(node: exp.Expr, why: str) -> QueryError:
    """Make the error of a query that Spark might answer differently."""
    text = node.sql(dialect="duckdb")
    excerpt = text if len(text) < 200 else f"{text[:200]}…"
    return QueryError(f"`{excerpt}` {why}", "write it differently, or run it on DuckDB")


def _string(text: str) -> exp.Literal:
    return exp.Literal.string(text)


def _fill_template(template: str, **parts: exp.Expr) -> exp.Expr:
    """Fill the columns `x`, `y`, … of a template of Spark SQL."""
    closed = {
        name: part if isinstance(part, _CLOSED) else exp.Paren(this=part.copy())
        for name, part in parts.items()
    }
    return exp.Paren(this=builders.fill_template(template, "spark", closed))


def _as_double(node: exp.Expr) -> exp.Expr:
    inner = node.unnest()
    is_cast = isinstance(inner, exp.Cast) and inner.to.this == _DOUBLE
    is_literal = isinstance(inner, exp.Literal) and not inner.is_string
    if is_cast or (is_literal and "e" in inner.this.lower()):
        return node
    return exp.cast(inner.copy(), _DOUBLE)


def _is_plain_cast(node: exp.Expr) -> bool:
    """Tell whether this is a cast that may stay as it is in a trusted query."""
    return type(node) is exp.Cast and node.to.this.name in {*_READINGS, *_TEXTS}


class _Reading(NamedTuple):
    """Hold patterns of texts that all engines read alike, and of odd ones.

    DuckDB reads odd texts differently.
    """

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
_SAYS = _string(" is text that engines read in different ways, or not at all")
_TO_INTEGER = """
case when typeof(x) in ('double', 'float') then of_rounded
  when typeof(x) like 'decimal%' then of_decimal else of_whole end
"""


def _cast(node: exp.Cast) -> exp.Expr:
    """Rewrite a cast, or try_cast; refuse it where there is no rule for the type."""
    kind, value = node.to, node.this
    name = kind.this.name
    if name in _TEXTS:
        return _as_text(value)
    if name == "DECIMAL" and [part.name for part in kind.expressions] == ["38", "0"]:
        return node
    reading = _READINGS.get(name)
    if reading is None:
        raise _make_refusal(node, "is a cast that Spark does not know, or does differently")
    if _needs_no_rule(name, value.unnest()):
        return node
    tried = isinstance(node, exp.TryCast)
    text = exp.cast(exp.Paren(this=value.copy()), _TEXT)
    return _fill_template(
        _OF_TEXT,
        x=value,
        s=text,
        good=_string(reading.good),
        odd=_string(reading.odd),
        of_text=_write_cast(kind, text, tried),
        of_number=_cast_to_integer(kind, value, tried)
        if name in _INTEGERS
        else _write_cast(kind, value, tried),
        otherwise=exp.null()
        if tried
        else _fill_template("raise_error(concat(s, says))", s=text, says=_SAYS),
        says=_SAYS,
    )


def _needs_no_rule(name: str, value: exp.Expr) -> bool:
    """Tell whether the form of a value shows that Spark casts it as DuckDB does."""
    if isinstance(value, (exp.Null, exp.Boolean)):
        return True
    if isinstance(value, exp.Literal):
        return name not in _INTEGERS or (not value.is_string and value.this.isdigit())
    # Sums and rounded values are numbers, and queries cast only whole sums.
    return isinstance(value, (exp.Count, exp.RowNumber, exp.Sum, exp.Min, exp.Max, exp.Round))


def _write_cast(kind: exp.DataType, value: exp.Expr, tried: bool) -> exp.Expr:
    held = exp.Paren(this=value.copy())
    if not tried:
        return exp.Cast(this=held, to=kind.copy())
    return exp.TryCast(this=held, to=kind.copy(), safe=True)


def _cast_to_integer(kind: exp.DataType, value: exp.Expr, tried: bool) -> exp.Expr:
    """Round a double half to even, and a decimal half away from zero."""
    return _fill_template(
        _TO_INTEGER,
        x=value,
        of_rounded=_write_cast(kind, _fill_template("rint(x)", x=_as_double(value)), tried),
        of_decimal=_write_cast(
            kind, exp.cast(exp.Paren(this=value.copy()), "decimal(38, 0)"), tried
        ),
        of_whole=_write_cast(kind, value, tried),
    )


def _as_text(value: exp.Expr) -> exp.Expr:
    """Write a value as text, with the digits that DuckDB writes."""
    if _is_text(value):
        return value
    inner = value.unnest()
    text = exp.cast(
        exp.Paren(this=value.copy()) if isinstance(value, exp.Binary) else value.copy(), _TEXT
    )
    if isinstance(inner, (exp.Sum, exp.Count, exp.Null)):
        return text
    # To double by way of text, because Spark refuses a direct cast of a date to double.
    return _mark_text(
        _fill_template(_NUMBER_AS_TEXT, x=value, d=exp.cast(text.copy(), _DOUBLE), t=text)
    )


def _mark_text(node: exp.Expr) -> exp.Expr:
    """Mark a node as text already, so that no rule around it casts it again."""
    node.meta[_IS_TEXT] = True
    return node


def _is_text(value: exp.Expr) -> bool:
    """Tell whether a value is known to be text."""
    # Casting a text again and again would make a query very long.
    if value.meta.get(_IS_TEXT):
        return True
    inner = value.unnest()
    if isinstance(inner, exp.Cast):
        return inner.to.this.name in _TEXTS
    return bool(inner.is_string) or isinstance(inner, (exp.DPipe, exp.Trim))


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


_Rule = Callable[[Any], exp.Expr]


def rewrite_for_spark(tree: exp.Query, trusted: bool = False) -> exp.Query:
    """Rewrite a query so that its result on Spark is that of DuckDB.

    A `trusted` query is one of `queries/`: tests check that those cast only whole numbers to
    integers, and only numbers to numbers. Other casts check the type of the value first.

    Raises:
        QueryError: A part of it means something else on Spark, or may do so.
    """
    query = tree.copy()
    # From the inside out, so that no rule is applied to the output of another.
    for node in reversed(list(query.dfs())):
        rule = _find_rule(node)
        if rule is not None and not (trusted and _is_plain_cast(node)):
            node.replace(rule(node))
    return query


def _find_rule(node: exp.Expr) -> _Rule | None:
    rule = _RULES.get(type(node))
    if rule is not None or type(node) in _SAME or not isinstance(node, (exp.Func, exp.Escape)):
        return rule
    if isinstance(node, exp.Anonymous) and node.name.lower() in _NAMED:
        return None
    raise _make_refusal(node, _UNKNOWN)


_UNKNOWN = "is not known to mean the same on Spark"

_NAMED = (*CALLS, "bit_count", "xxhash64")
"""Functions unknown to SQLGlot that mean the same on both engines."""


def _divide_doubles(node: exp.Div) -> exp.Expr:
    """Divide doubles; by zero the result is infinite or NaN, as in IEEE 754."""
    above, below = _as_double(node.this), _as_double(node.expression)
    divisor = node.expression.unnest()
    nonzero = isinstance(divisor, exp.Literal) and float(divisor.this) != 0
    if nonzero or isinstance(divisor, exp.Nullif):
        return exp.Div(this=above, expression=below)
    return _fill_template(
        "case when y = 0 then x * cast(case when cast(y as string) = '-0.0' then '-Infinity' "
        "else 'Infinity' end as double) else x / y end",
        x=above,
        y=below,
    )


def _date_diff(node: exp.DateDiff) -> exp.Expr:
    """Allow days between two dates; refuse other units."""
    if node.text("unit").lower() != "day":
        raise _make_refusal(node, _UNKNOWN)
    return node


def _divide_integers(node: exp.IntDiv) -> exp.Expr:
    """Divide whole numbers; decimals are refused when the query runs."""
    return _fill_template(
        "case when typeof(x) like 'decimal%' or typeof(y) like 'decimal%' "
        "then raise_error('// of decimals: divide with / and take the floor') else x div y end",
        x=node.this,
        y=node.expression,
    )


def _round(node: exp.Round) -> exp.Expr:
    """Round to whole numbers, half away from zero; -0.0 keeps its sign."""
    if node.args.get("decimals") is not None:
        raise _make_refusal(node, "may round the last digit differently on Spark")
    if isinstance(node.parent, exp.Cast) and node.parent.to.this.name in _INTEGERS:
        return node
    return _fill_template(
        "case when x < 0 then -round(-x) when x = 0 then x else round(x) end", x=node.this
    )


def _make_double_rule(template: str) -> _Rule:
    """Make a rule that rounds doubles."""

    def round_double(node: exp.Floor | exp.Ceil) -> exp.Expr:
        if node.args.get("decimals") is not None:
            raise _make_refusal(node, _UNKNOWN)
        # Spark's own rounding makes 64-bit integers, and so 0 of NaN.
        return _fill_template(template, x=_as_double(node.this))

    return round_double


_FLOOR = "case when rint(x) > x then rint(x) - 1 else rint(x) end"
_CEIL = "case when rint(x) < x then rint(x) + 1 else rint(x) end"


_OF_POSITIVE = """
case when x = 0 then cast('-Infinity' as double) when x < 0 then cast('NaN' as double)
  else {} end
"""
_LOG2 = "case when pow(2, rint(log2(x))) = x then rint(log2(x)) else log2(x) end"


def _log(node: exp.Log) -> exp.Expr:
    """Rewrite a logarithm of base 2, which is exact for powers of two."""
    if node.expression is None or node.this.sql() != "2":
        raise _make_refusal(node, f"{_UNKNOWN}: write ln(x) / ln(base)")
    return _fill_template(_OF_POSITIVE.format(_LOG2), x=_as_double(node.expression))


def _concatenate_texts(node: exp.DPipe) -> exp.Expr:
    return exp.DPipe(this=_as_text(node.this), expression=_as_text(node.expression), safe=True)


def _trim(node: exp.Trim) -> exp.Expr:
    """Trim all Unicode spaces, as DuckDB does; Spark removes the plain one."""
    if node.expression is not None:
        return node
    return exp.Trim(
        this=node.this, expression=_string(_SPACES), position=node.args.get("position") or "BOTH"
    )


_SPACES = " \u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


def _lower(node: exp.Lower) -> exp.Expr:
    """Refuse letters whose case the engines change in different ways."""
    changed = _fill_template(
        "case when x rlike odd then raise_error(concat('lower of ', x, ': letters whose case "
        "engines change in different ways')) else lower(x) end",
        x=node.this,
        odd=_string(_ODD_LOWER),
    )
    return _mark_text(changed)


_ODD_LOWER = r"[\u0130\u03a3\ua7cb-\ua7dc\x{10d50}-\x{10d8f}]"
"""Letters whose case engines change differently, measured over all letters."""


def _rewrite_like(node: exp.Like | exp.ILike) -> exp.Expr:
    pattern = node.expression
    if not (isinstance(pattern, exp.Literal) and pattern.is_string) or "\\" in pattern.name:
        raise _make_refusal(
            node, "means the same on Spark only with a pattern in quotes, without \\"
        )
    if isinstance(node, exp.Like):
        return node
    lowered = (_lower(exp.Lower(this=part)) for part in (node.this, pattern))
    return exp.Like(**dict(zip(("this", "expression"), lowered, strict=True)))


_WEEKDAYS = {**dict.fromkeys(("DOW", "DAYOFWEEK"), "dayofweek(x) - 1"), "ISODOW": "weekday(x) + 1"}
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE")


def _extract(node: exp.Extract) -> exp.Expr:
    part = node.name.upper()
    if part in _WEEKDAYS:
        return _fill_template(_WEEKDAYS[part], x=node.expression)
    if part not in (*_UNITS, "DOY"):
        raise _make_refusal(node, _UNKNOWN)
    return node


def _truncate_time(node: exp.TimestampTrunc) -> exp.Expr:
    if node.text("unit").upper() not in _UNITS:
        raise _make_refusal(node, _UNKNOWN)
    return exp.cast(node, exp.DataType.Type.TIMESTAMPNTZ)


_RULES: Mapping[type[exp.Expr], _Rule] = {
    exp.DateDiff: _date_diff,
    exp.Div: _divide_doubles,
    exp.IntDiv: _divide_integers,
    exp.Round: _round,
    exp.Floor: _make_double_rule(_FLOOR),
    exp.Ceil: _make_double_rule(_CEIL),
    exp.Log: _log,
    exp.Ln: lambda node: _fill_template(_OF_POSITIVE.format("ln(x)"), x=node.this),
    **dict.fromkeys((exp.Cast, exp.TryCast), _cast),
    exp.DPipe: _concatenate_texts,
    exp.Trim: _trim,
    exp.Lower: _lower,
    **dict.fromkeys((exp.Like, exp.ILike), _rewrite_like),
    exp.Extract: _extract,
    exp.TimestampTrunc: _truncate_time,
}

_SAME = frozenset(
    {
        *(exp.And, exp.Or, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least),
        *(exp.Sum, exp.Count, exp.CountIf, exp.Min, exp.Max, exp.BitwiseOrAgg),
        *(exp.RowNumber, exp.DenseRank, exp.Rank, exp.PercentRank, exp.CumeDist),
        *(exp.Lag, exp.Lead),
        *(exp.Abs, exp.Sqrt, exp.Cbrt, exp.Pow, exp.Exp),
        *(exp.Length, exp.Replace, exp.StartsWith, exp.Contains),
        *(exp.Hour, exp.Day, exp.Month, exp.Year),
    }
)
"""Functions that mean the same on both; all others are refused."""
