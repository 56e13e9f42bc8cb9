"""DuckDB SQL → the SQL of another dialect, on the syntax tree.

`columns('regex')`, `group by all`, time and hash are written out. Rules keep the meaning for Spark
(`spark/rules.py`); the other dialects rely on SQLGlot.
"""

import re
from collections.abc import Callable, Mapping, Sequence

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.transforms import eliminate_window_clause

from abeval.engines import warehouse_rules
from abeval.engines.builders import written_out
from abeval.engines.spark import rules as spark_rules
from abeval.errors import QueryError

ColumnsOf = Callable[[str], Sequence[str]]

RAN = ("duckdb", "spark")
"""Dialects that the tests run; nobody has run the others."""

SPARKS = ("spark", "databricks")
"""Dialects of Spark, to which the rules for Spark apply."""


def parsed(sql: str) -> exp.Query:
    """Parse a DuckDB query."""
    try:
        trees = [tree for tree in sqlglot.parse(sql, dialect="duckdb") if tree is not None]
    except SqlglotError as error:
        raise QueryError(f"a query cannot be parsed: {error}") from error
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise QueryError("a query must be one SELECT")
    return trees[0]


def transpiled(
    tree: exp.Query,
    dialect: str,
    columns_of: ColumnsOf,
    names: Mapping[str, str] | None = None,
    trusted: bool = False,
    pretty: bool = False,
) -> str:
    """Write a query in another dialect of SQLGlot; the tree is not changed.

    `columns_of` returns the columns of a relation, to expand `columns(...)`; `names` are new names
    of relations, by their present names in lower case. `trusted` is as for `same_meaning`.

    Raises:
        QueryError: It cannot be written in the dialect, or might mean something else there.

    Example:
        >>> transpiled(parsed("select sum(columns('^c_')) from t"), "spark", lambda _: ["c_1", "d"])
        'SELECT SUM(c_1) AS c_1 FROM t'
    """
    known_dialect(dialect)
    query = _with_groups(with_columns(tree, columns_of))
    for select in query.find_all(exp.Select):
        # SQLGlot drops named windows in some dialects.
        eliminate_window_clause(select)
    if dialect in SPARKS:
        query = spark_rules.same_meaning(query, trusted)
    query = warehouse_rules.same_numbers(written_out(query, dialect), dialect)
    query = _renamed(query, names or {})
    return _generated(query, dialect, pretty)


def _generated(tree: exp.Query, dialect: str, pretty: bool) -> str:
    """Write the text; what a dialect that nobody runs does not support is noted above it."""
    strict = dialect in RAN
    level = ErrorLevel.RAISE if strict else ErrorLevel.IGNORE
    generator = Dialect.get_or_raise(dialect).generator(
        pretty=pretty, comments=False, unsupported_level=level
    )
    try:
        text = generator.generate(tree)
    except (SqlglotError, AttributeError) as error:
        # SQLGlot raises AttributeError for some SQL that it does not support.
        raise QueryError(f"SQLGlot cannot translate this query to {dialect}: {error}") from error
    notes = dict.fromkeys(f"-- SQLGlot: {note}" for note in generator.unsupported_messages)
    return "\n".join([*notes, text])


def _with_groups(tree: exp.Query) -> exp.Query:
    """Expand each `group by all`, which some dialects do not have."""
    for group in list(tree.find_all(exp.Group)):
        if group.args.get("all") and isinstance(group.parent, exp.Select):
            plain = [item.unalias() for item in group.parent.expressions]
            keys = [item.copy() for item in plain if item.find(exp.AggFunc) is None]
            group.replace(exp.Group(expressions=keys))
    return tree


def _renamed(tree: exp.Query, names: Mapping[str, str]) -> exp.Query:
    """Rename relations, but not a CTE of the same name."""
    for scope in traverse_scope(tree) if names else ():
        for alias, source in scope.sources.items():
            if isinstance(source, exp.Table) and source.name.lower() in names:
                source.set("this", exp.to_identifier(names[source.name.lower()], quoted=True))
                source.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    return tree


def known_dialect(dialect: str) -> None:
    """Refuse a dialect that SQLGlot does not have."""
    known = sorted(name for name in Dialect.classes if name)
    if dialect not in known:
        raise QueryError(f"no SQL dialect is called {dialect!r}", f"known: {', '.join(known)}")


def with_columns(tree: exp.Query, columns_of: ColumnsOf) -> exp.Query:
    """Expand every `columns(...)` of a query."""
    query = tree.copy()
    if query.find(exp.Columns) is None:
        return query
    for scope in traverse_scope(query):
        if isinstance(scope.expression, exp.Select):
            every = [name for names in _sources(scope, columns_of).values() for name in names]
            items = [new for item in scope.expression.expressions for new in _expanded(item, every)]
            scope.expression.set("expressions", items)
    return query


def _sources(scope: Scope, columns_of: ColumnsOf) -> dict[str, list[str]]:
    """Find the columns of everything that a select reads, by alias, in order."""
    return {
        alias: list(columns_of(source.name))
        if isinstance(source, exp.Table)
        else _outputs(source, columns_of)
        for alias, (_, source) in scope.selected_sources.items()
    }


def _outputs(scope: Scope, columns_of: ColumnsOf) -> list[str]:
    """List the columns of a CTE or subquery whose own `columns(...)` are expanded already."""
    if scope.set_operation_scopes:
        return _outputs(scope.set_operation_scopes[0], columns_of)
    sources = _sources(scope, columns_of)
    names: list[str] = []
    if not isinstance(scope.expression, exp.Query):
        raise QueryError(f"`{scope.expression.sql('duckdb')}` is not a query")
    for item in scope.expression.selects:
        if isinstance(item, exp.Star):
            names += [name for columns in sources.values() for name in columns]
        elif item.is_star:
            names += sources[item.text("table")]
        else:
            names.append(item.alias_or_name)
    return names


_SEGMENTS = "^s_"
"""Matches the columns of segments, of which an experiment may have none."""


def _expanded(item: exp.Expr, every: Sequence[str]) -> list[exp.Expr]:
    """Repeat an item of a select for each column that its `columns(...)` matches."""
    columns = item.find(exp.Columns)
    if columns is None:
        return [item]
    pattern = "" if isinstance(columns.this, exp.Star) else columns.this.name
    matches = [(name, match) for name in every if (match := re.search(pattern, name))]
    if not matches and pattern != _SEGMENTS:
        raise QueryError(f"columns({pattern!r}) matches none of {', '.join(every)}")
    return [_of_column(item, name, match) for name, match in matches]


def _of_column(item: exp.Expr, name: str, match: re.Match[str]) -> exp.Expr:
    column = exp.column(exp.to_identifier(name, quoted=not re.fullmatch(r"[a-z_]\w*", name)))
    body = item.this if isinstance(item, exp.Alias) else item
    # Wrapped, so that a columns(...) that is the whole item has a parent to be replaced in.
    held = exp.Paren(this=body.copy())
    for node in list(held.find_all(exp.Columns)):
        node.replace(column.copy())
    alias = name
    if isinstance(item, exp.Alias):
        # In DuckDB, \0 is the name of the column and \1 what the first group matches.
        alias = name.join(match.expand(part) for part in item.alias.split(r"\0"))
    return exp.alias_(held.this, exp.to_identifier(alias, quoted=column.this.quoted))
