"""Parse users' row-level SQL; accept one scalar expression only."""

from collections.abc import Callable
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError

from abeval.errors import ExperimentError

# Frequent mistakes with messages of their own; the lists below decide on the rest.
_FORBIDDEN: tuple[tuple[type[exp.Expr], str], ...] = (
    (exp.Query, "a query"),
    (exp.AggFunc, "an aggregate (abeval sums over the rows itself)"),
    (exp.Window, "a window"),
    (exp.Star, "a star"),
    (exp.Placeholder, "a parameter"),
    (exp.Parameter, "a parameter"),
    (exp.Rand, "a random number"),
    (exp.Anonymous, "an unknown function"),
)

_SYNTAX: tuple[type[exp.Expr], ...] = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Var),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg),
    *(exp.And, exp.Or, exp.Not, exp.Xor, exp.Is, exp.Between, exp.In, exp.Like, exp.ILike),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Case, exp.If, exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam, exp.DPipe),
)
_FUNCTIONS: tuple[type[exp.Expr], ...] = (
    *(exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least),
    *(exp.Abs, exp.Sign, exp.Floor, exp.Ceil, exp.Round, exp.Trunc, exp.IsNan),
    *(exp.Sqrt, exp.Cbrt, exp.Pow, exp.Exp, exp.Ln, exp.Log),
    *(exp.Lower, exp.Upper, exp.Trim, exp.Length, exp.Left, exp.Right, exp.Substring),
    *(exp.Concat, exp.Replace, exp.SplitPart, exp.StartsWith, exp.Contains, exp.RegexpLike),
    *(exp.Extract, exp.Hour, exp.Day, exp.Month, exp.Year, exp.TimestampTrunc),
)
_TYPES = frozenset({*exp.DataType.NUMERIC_TYPES, *exp.DataType.TEXT_TYPES}).union(
    exp.DataType.Type[name] for name in ("BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMPNTZ")
)
_MAY = (
    "an expression of a row may use its columns, arithmetic, comparisons, and/or/not, in, between, "
    "like, case, cast, coalesce, nullif, greatest, least, abs, sign, floor, ceil, round, trunc, "
    "isnan, sqrt, cbrt, pow, exp, ln, log, lower, upper, trim, length, left, right, substring, "
    "concat, replace, split_part, starts_with, contains, regexp_matches, extract, hour, day, "
    "month, year, date_trunc"
)
_LONGEST, _DEEPEST = 10_000, 250


def parse_expression(text: str) -> exp.Expr:
    """Parse one scalar expression, with column names in lower case.

    Raises:
        ExperimentError: It is not one expression, or has a part that is not allowed.

    Example:
        >>> parse_expression("price * Click").sql()
        'price * click'
    """
    problem = find_expression_problem(text)
    if problem is not None:
        raise ExperimentError(f"expression {problem}")
    tree = parse_tree(text)
    for column in tree.find_all(exp.Column):
        if column.name.isascii():
            column.set("this", exp.to_identifier(column.name.lower(), quoted=column.this.quoted))
    return tree


@lru_cache(maxsize=4096)
def find_expression_problem(text: str) -> str | None:
    """Return why `text` is no row-level scalar expression; None if it is."""
    quoted = repr(text if len(text) <= 200 else f"{text[:200]}…")
    if not text.strip():
        return f"{quoted} is not one expression"
    if len(text) > _LONGEST:
        return f"{quoted} has {len(text):,} characters, more than {_LONGEST:,}"
    try:
        tree = parse_tree(text)
        # An operator without an operand parses, but its written form does not.
        parse_tree(tree.sql(dialect="duckdb", identify=True))
        wrong = (
            "is nested too deeply"
            if _measure_depth(tree) > _DEEPEST
            else _describe_wrong_part(tree)
        )
    except RecursionError:
        wrong = "is nested too deeply"
    except SqlglotError as error:
        return f"{quoted} is not one SQL expression{_place(error)}"
    return None if wrong is None else f"{quoted} {wrong}"


def parse_tree(text: str) -> exp.Expr:
    """Parse one expression and drop its comments; may raise SqlglotError."""
    # A copy, for callers change the tree and the cache must not.
    return _parse_once(text).copy()


@lru_cache(maxsize=4096)
def _parse_once(text: str) -> exp.Expr:
    # The grammar of expressions has no statements.
    trees = Dialect.get_or_raise("duckdb").parse_into(exp.Condition, text)
    if len(trees) != 1 or trees[0] is None or text.rstrip().endswith(";"):
        raise ParseError("not one expression")
    tree = trees[0]
    for node in tree.walk():
        node.comments = None
    for column in [*tree.find_all(exp.Column)]:
        if column.table:
            # No row-level SQL names tables: a dotted name is that of a field.
            name = ".".join(part.name for part in column.parts)
            for part in ("table", "db", "catalog"):
                column.set(part, None)
            column.set("this", exp.to_identifier(name, quoted=True))
    return tree


def parse_select(text: str) -> exp.Query:
    """Parse a text that is one SELECT.

    Raises:
        ExperimentError: It is not; the message says why.
    """
    try:
        trees = [tree for tree in sqlglot.parse(text, dialect="duckdb") if tree is not None]
    except (SqlglotError, RecursionError) as error:
        raise ExperimentError(f"is not SQL: {str(error).splitlines()[0]}") from error
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise ExperimentError("is not one SELECT")
    return trees[0]


def _measure_depth(tree: exp.Expr) -> int:
    # Level by level, for recursion would fail on the trees to be refused.
    depth, level = 0, [tree]
    while level:
        depth, level = depth + 1, [part for node in level for part in node.iter_expressions()]
    return depth


def _place(error: SqlglotError) -> str:
    first = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    return f": look at character {first['col']}, `{first['highlight']}`" if first else ""


def _describe_wrong_part(tree: exp.Expr) -> str | None:
    """Describe the first part of an expression that is not allowed."""
    for kind, what in _FORBIDDEN:
        node = tree.find(kind)
        if node is not None:
            name = f" `{node.name}`" if isinstance(node, exp.Anonymous) else ""
            return f"holds {what}{name}"
    strange = next((node for node in tree.walk() if not _is_known(node)), None)
    return None if strange is None else f"holds `{strange.sql(dialect='duckdb')}`; {_MAY}"


def _is_known(node: exp.Expr) -> bool:
    if isinstance(node, exp.DataType):
        return node.this in _TYPES
    # A subclass may do more than its parent, so only the class itself is allowed.
    return type(node) in _SYNTAX or type(node) in _FUNCTIONS


def list_columns(tree: exp.Expr) -> list[str]:
    """List the distinct columns of an expression, in order."""
    return list(dict.fromkeys(column.name for column in tree.find_all(exp.Column)))


def replace_columns(text: str, name: Callable[[str], str]) -> str:
    """Write an expression in DuckDB's SQL with its columns replaced.

    A column replaced by an empty name becomes null.

    Example:
        >>> replace_columns("price * 0.5", lambda column: f"raw_{column}")
        '"raw_price" * 0.5e0'
    """

    def replace_node(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Literal) and not node.is_string and "." in node.this:
            # Engines keep different numbers of digits of a decimal; a double is the same on all.
            number = repr(float(node.this))
            return exp.Literal.number(number if "e" in number else f"{number}e0")
        if not isinstance(node, exp.Column):
            return node
        column = name(node.name)
        return exp.column(column) if column else exp.null()

    return parse_expression(text).transform(replace_node).sql(dialect="duckdb", identify=True)
