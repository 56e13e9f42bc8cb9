"""Rules that rewrite DuckDB SQL so that Spark gives the same result, or refuse it.

Spark runs in its ANSI mode, where an overflow or a text that is no number is an error. The rules
are for what would silently differ: division of decimals, `floor` through a 64-bit number, the
logarithm of zero, a null in a concatenation. The rules for casts are in `casts`.

`engines/transpile.py` hands it each query that is to run on Spark.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from abeval.engines.builders import CALLS
from abeval.engines.spark.rules import (
    as_double,
    as_text,
    is_cast_to_integer,
    is_plain_cast,
    mark_text,
    refused,
    string,
)
from abeval.inference.segments import filled
from abeval.logs.views import cast

Rule = Callable[[Any], exp.Expr]


def same_meaning(tree: exp.Query, trusted: bool = False) -> exp.Query:
    """The query rewritten so that its result on Spark is that of DuckDB.

    Args:
        tree: The query for DuckDB.
        trusted: Whether it is one of `queries/`. Tests check that those cast only whole numbers to
            integers, and only numbers to numbers. Other casts check the type of the value first.

    Raises:
        QueryError: A part of it means something else on Spark, or may do so.
    """
    query = tree.copy()
    # From the inside out, so that no rule is applied to the output of another.
    for node in reversed(list(query.dfs())):
        rule = _rule(node)
        if rule is not None and not (trusted and is_plain_cast(node)):
            node.replace(rule(node))
    return query


def _rule(node: exp.Expr) -> Rule | None:
    rule = _RULES.get(type(node))
    if rule is not None or type(node) in _SAME or not isinstance(node, (exp.Func, exp.Escape)):
        return rule
    if isinstance(node, exp.Anonymous) and node.name.lower() in _NAMED:
        return None
    raise refused(node, _UNKNOWN)


_UNKNOWN = "is not known to mean the same on Spark"

_NAMED = (*CALLS, "bit_count", "xxhash64")
"""Functions that SQLGlot knows only by name, and that mean the same."""


def _filling(template: str) -> Rule:
    return lambda node: filled(template, x=node.this)


def _div(node: exp.Div) -> exp.Expr:
    """Division of doubles; by zero it is infinite or NaN, as in IEEE 754."""
    above, below = as_double(node.this), as_double(node.expression)
    divisor = node.expression.unnest()
    nonzero = isinstance(divisor, exp.Literal) and float(divisor.this) != 0
    if nonzero or isinstance(divisor, exp.Nullif):
        return exp.Div(this=above, expression=below)
    return filled(
        "case when y = 0 then x * cast(case when cast(y as string) = '-0.0' then '-Infinity' "
        "else 'Infinity' end as double) else x / y end",
        x=above,
        y=below,
    )


def _date_diff(node: exp.DateDiff) -> exp.Expr:
    """Days between two dates; of other units and types nothing is known."""
    if node.text("unit").lower() != "day":
        raise refused(node, _UNKNOWN)
    return node


def _int_div(node: exp.IntDiv) -> exp.Expr:
    """Division of whole numbers; decimals are refused when the query runs."""
    return filled(
        "case when typeof(x) like 'decimal%' or typeof(y) like 'decimal%' "
        "then raise_error('// of decimals: divide with / and take the floor') else x div y end",
        x=node.this,
        y=node.expression,
    )


def _round(node: exp.Round) -> exp.Expr:
    """Rounding to whole numbers, half away from zero; -0.0 keeps its sign."""
    if node.args.get("decimals") is not None:
        raise refused(node, "may round the last digit differently on Spark")
    if is_cast_to_integer(node.parent):
        return node
    return filled(
        "case when x < 0 then -round(-x) when x = 0 then x else round(x) end", x=node.this
    )


def _of_double(template: str) -> Rule:
    """Spark's own rounding converts to a 64-bit integer, which turns NaN into 0."""

    def rounded(node: exp.Floor | exp.Ceil | exp.Trunc) -> exp.Expr:
        if node.args.get("decimals") is not None:
            raise refused(node, _UNKNOWN)
        return filled(template, x=as_double(node.this))

    return rounded


_FLOOR = "case when rint(x) > x then rint(x) - 1 else rint(x) end"
_CEIL = "case when rint(x) < x then rint(x) + 1 else rint(x) end"


def _log(node: exp.Log) -> exp.Expr:
    """The base is 10 by default; logarithms of base 2 are exact for powers of two."""
    if node.expression is None:
        return filled(_OF_POSITIVE.format("log10(x)"), x=as_double(node.this))
    if node.this.sql() == "10":
        return filled(_OF_POSITIVE.format("log10(x)"), x=as_double(node.expression))
    if node.this.sql() != "2":
        raise refused(node, f"{_UNKNOWN}: write ln(x) / ln(base)")
    return filled(_OF_POSITIVE.format(_LOG2), x=as_double(node.expression))


_OF_POSITIVE = """
case when x = 0 then cast('-Infinity' as double) when x < 0 then cast('NaN' as double)
  else {} end
"""
_LOG2 = "case when pow(2, rint(log2(x))) = x then rint(log2(x)) else log2(x) end"


def _concat(node: exp.Concat) -> exp.Expr:
    parts = (filled("coalesce(x, '')", x=as_text(part)) for part in node.expressions)
    return exp.Concat(expressions=list(parts), safe=False, coalesce=False)


def _pipes(node: exp.DPipe) -> exp.Expr:
    return exp.DPipe(this=as_text(node.this), expression=as_text(node.expression), safe=True)


def _trim(node: exp.Trim) -> exp.Expr:
    """DuckDB removes all Unicode spaces, Spark only the plain one."""
    if node.expression is not None:
        return node
    return exp.Trim(
        this=node.this, expression=string(_SPACES), position=node.args.get("position") or "BOTH"
    )


_SPACES = " \u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


def _cased(node: exp.Lower | exp.Upper) -> exp.Expr:
    """Refuses letters whose case the engines change in different ways."""
    name, odd = ("lower", _ODD_LOWER) if isinstance(node, exp.Lower) else ("upper", _ODD_UPPER)
    changed = filled(
        f"case when x rlike odd then raise_error(concat('{name} of ', x, ': letters whose case "
        f"engines change in different ways')) else {name}(x) end",
        x=node.this,
        odd=string(odd),
    )
    return mark_text(changed)


# Measured over all letters: 2 in `lower`, about 100 in `upper`, and letters so new that one engine
# may not know them.
_NEW = r"\ua7cb-\ua7dc\x{10d50}-\x{10d8f}"
_ODD_LOWER = rf"[\u0130\u03a3{_NEW}]"
_ODD_UPPER = (
    r"[\u00df\u0149\u019b\u01f0\u0264\u0390\u03b0\u0587\u1e96-\u1e9a\u1f50-\u1fff"
    rf"\ufb00-\ufb17{_NEW}]"
)


def _counted_from_one(node: exp.Left | exp.Right | exp.Substring | exp.SplitPart) -> exp.Expr:
    """Engines differ where a count or a position is below one."""
    numbers = [node.args[name] for name in ("start", "length", "part_index") if node.args.get(name)]
    if isinstance(node, (exp.Left, exp.Right)):
        numbers = [node.expression]
    if not all(isinstance(n, exp.Literal) and n.this.isdigit() and int(n.this) for n in numbers):
        raise refused(node, "means the same on Spark only with literal numbers of at least 1")
    if isinstance(node, exp.SplitPart) and not node.args["delimiter"].name:
        raise refused(node, "has an empty delimiter")
    return node


def _like(node: exp.Like | exp.ILike) -> exp.Expr:
    pattern = node.expression
    if not (isinstance(pattern, exp.Literal) and pattern.is_string) or "\\" in pattern.name:
        raise refused(node, "means the same on Spark only with a pattern in quotes, without \\")
    if isinstance(node, exp.Like):
        return node
    return exp.Like(
        this=_cased(exp.Lower(this=node.this)), expression=_cased(exp.Lower(this=pattern))
    )


def _matches(node: exp.RegexpLike) -> exp.Expr:
    """Regular expressions of letters, classes and repetitions; `$` is the end of the text."""
    pattern = node.expression
    if not isinstance(pattern, exp.Literal) or not _is_plain_pattern(pattern.name):
        raise refused(node, "is a regular expression that engines may read in different ways")
    portable = pattern.name.replace(".", "[^\\n]").replace("$", "\\z")
    return exp.RegexpLike(this=node.this, expression=string(portable))


def _is_plain_pattern(pattern: str) -> bool:
    inside = False
    for before, char in zip(" " + pattern, pattern, strict=False):
        if char == "\\" or (before == "(" and char == "?") or (inside and char in ".$&["):
            return False
        inside = char == "[" or (inside and char != "]")
    return pattern.isascii()


_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE")


def _extract(node: exp.Extract) -> exp.Expr:
    part = node.name.upper()
    if part in ("DOW", "DAYOFWEEK"):
        return filled("dayofweek(x) - 1", x=node.expression)
    if part == "ISODOW":
        return filled("weekday(x) + 1", x=node.expression)
    if part not in (*_UNITS, "DOY"):
        raise refused(node, _UNKNOWN)
    return node


def _truncated(node: exp.TimestampTrunc) -> exp.Expr:
    if node.text("unit").upper() not in _UNITS:
        raise refused(node, _UNKNOWN)
    return exp.cast(node, exp.DataType.Type.TIMESTAMPNTZ)


_RULES: Mapping[type[exp.Expr], Rule] = {
    exp.DateDiff: _date_diff,
    exp.Div: _div,
    exp.IntDiv: _int_div,
    exp.Round: _round,
    exp.Floor: _of_double(_FLOOR),
    exp.Ceil: _of_double(_CEIL),
    exp.Trunc: _of_double(f"case when x < 0 then {_CEIL} else {_FLOOR} end"),
    exp.Log: _log,
    exp.Ln: _filling(_OF_POSITIVE.format("ln(x)")),
    exp.Sign: _filling("case when x = cast('NaN' as double) then 0 else cast(sign(x) as int) end"),
    exp.IsNan: _filling("x = cast('NaN' as double)"),
    **dict.fromkeys((exp.Cast, exp.TryCast), cast),
    exp.Concat: _concat,
    exp.DPipe: _pipes,
    exp.Trim: _trim,
    **dict.fromkeys((exp.Lower, exp.Upper), _cased),
    **dict.fromkeys((exp.Left, exp.Right, exp.Substring, exp.SplitPart), _counted_from_one),
    **dict.fromkeys((exp.Like, exp.ILike), _like),
    exp.RegexpLike: _matches,
    exp.Extract: _extract,
    exp.TimestampTrunc: _truncated,
}

_SAME = frozenset(
    {
        *(exp.And, exp.Or, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least),
        *(exp.Sum, exp.Count, exp.CountIf, exp.Min, exp.Max, exp.BitwiseOrAgg),
        *(exp.RowNumber, exp.DenseRank, exp.Rank, exp.PercentRank),
        *(exp.Lag, exp.Lead),
        *(exp.Abs, exp.Sqrt, exp.Cbrt, exp.Pow, exp.Exp),
        *(exp.Length, exp.Replace, exp.StartsWith, exp.Contains),
        *(exp.Hour, exp.Day, exp.Month, exp.Year),
    }
)
"""Functions that mean the same on both; all others are refused."""
