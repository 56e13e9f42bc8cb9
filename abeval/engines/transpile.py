"""DuckDB SQL → the SQL of another dialect, on the syntax tree.

`columns('regex')` is written out over the columns of the relations that a select reads, and the
expressions of time and hash that no portable SQL can say become those of the dialect. For Spark
the meaning is kept as well (`spark_rules`); the other dialects are SQLGlot's word for it.
"""

import re
from collections.abc import Callable, Mapping, Sequence

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.optimizer.scope import Scope, traverse_scope

from abeval.engines.builders import written_out
from abeval.engines.spark import rules as spark_rules
from abeval.errors import QueryError

ColumnsOf = Callable[[str], Sequence[str]]

RAN = ("duckdb", "spark")
"""Dialects that the tests run; of the others nobody has asked a database."""

SPARKS = ("spark", "databricks")
"""Dialects of Spark, which are told what keeps DuckDB's meaning there."""


def parsed(sql: str) -> exp.Query:
    """The tree of one DuckDB query.

    Raises:
        QueryError: It is not one.
    """
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
    """The text of a query in another dialect.

    Args:
        tree: The query as DuckDB has it; it is left as it is.
        dialect: A dialect of SQLGlot.
        columns_of: The columns of a relation, where `columns(...)` is to be written out.
        names: Relations that are called otherwise there, by their names in lower case.
        trusted: As for `spark_rules.same_meaning`.
        pretty: Over several lines.

    Raises:
        QueryError: The dialect cannot say it, or might mean something else by it.

    Example:
        >>> transpiled(parsed("select sum(columns('^c_')) from t"), "spark", lambda _: ["c_1", "d"])
        'SELECT SUM(c_1) AS c_1 FROM t'
    """
    known_dialect(dialect)
    made = _with_groups(_with_windows(with_columns(tree, columns_of)))
    if dialect in SPARKS:
        made = spark_rules.same_meaning(made, trusted)
    made = _renamed(written_out(made, dialect), names or {})
    return _generated(made, dialect, pretty)


def _generated(tree: exp.Query, dialect: str, pretty: bool) -> str:
    """The text; what a dialect that nobody runs has no words for is left out, and noted above."""
    strict = dialect in RAN
    level = ErrorLevel.RAISE if strict else ErrorLevel.IGNORE
    generator = Dialect.get_or_raise(dialect).generator(
        pretty=pretty, comments=False, unsupported_level=level
    )
    try:
        text = generator.generate(tree)
    except (SqlglotError, AttributeError) as error:
        # SQLGlot stumbles over some of what it does not support.
        raise QueryError(f"SQLGlot cannot say this query for {dialect}: {error}") from error
    notes = dict.fromkeys(f"-- SQLGlot: {said}" for said in generator.unsupported_messages)
    return "\n".join([*notes, text])


def _with_windows(tree: exp.Query) -> exp.Query:
    """The query with each `over name` written out: SQLGlot drops named windows of some dialects."""
    made = tree.copy()
    # Inner selects first: a name means the window of the nearest select.
    for select in reversed(list(made.find_all(exp.Select))):
        named = {window.name.lower(): window for window in select.args.get("windows") or ()}
        select.set("windows", None)
        for use in list(select.find_all(exp.Window)):
            window = named.get(use.alias.lower())
            if window is not None:
                whole = {**window.args, **{k: v for k, v in use.args.items() if v}, "alias": None}
                use.replace(exp.Window(**whole))
    return made


def _with_groups(tree: exp.Query) -> exp.Query:
    """The query with each `group by all` written out, which some dialects do not have."""
    for group in list(tree.find_all(exp.Group)):
        if group.args.get("all") and isinstance(group.parent, exp.Select):
            plain = [item.unalias() for item in group.parent.expressions]
            keys = [item.copy() for item in plain if item.find(exp.AggFunc) is None]
            group.replace(exp.Group(expressions=keys))
    return tree


def _renamed(tree: exp.Query, names: Mapping[str, str]) -> exp.Query:
    """The query over relations of other names; a CTE of the same name is none of them."""
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
    """The query with every `columns(...)` written out."""
    made = tree.copy()
    if made.find(exp.Columns) is None:
        return made
    for scope in traverse_scope(made):
        if isinstance(scope.expression, exp.Select):
            _expand(scope.expression, _sources(scope, columns_of))
    return made


def _sources(scope: Scope, columns_of: ColumnsOf) -> dict[str, list[str]]:
    """Alias → columns, of everything that a select reads, in its order."""
    return {
        alias: list(columns_of(source.name))
        if isinstance(source, exp.Table)
        else _outputs(source, columns_of)
        for alias, (_, source) in scope.selected_sources.items()
    }


def _outputs(scope: Scope, columns_of: ColumnsOf) -> list[str]:
    """The columns of a CTE or subquery whose own `columns(...)` are written out already."""
    if scope.set_operation_scopes:
        return _outputs(scope.set_operation_scopes[0], columns_of)
    sources = _sources(scope, columns_of)
    names: list[str] = []
    for item in _select(scope).selects:
        if isinstance(item, exp.Star):
            names += [name for columns in sources.values() for name in columns]
        elif item.is_star:
            names += sources[item.text("table")]
        else:
            names.append(item.alias_or_name)
    return names


def _select(scope: Scope) -> exp.Query:
    if not isinstance(scope.expression, exp.Query):
        raise QueryError(f"`{scope.expression.sql('duckdb')}` is no query")
    return scope.expression


def _expand(select: exp.Select, sources: Mapping[str, Sequence[str]]) -> None:
    every = [name for columns in sources.values() for name in columns]
    items = [made for item in select.expressions for made in _written_out(item, every)]
    select.set("expressions", items)


def _written_out(item: exp.Expr, every: Sequence[str]) -> list[exp.Expr]:
    """An item of a select once for each column that its `columns(...)` matches."""
    found = item.find(exp.Columns)
    if found is None:
        return [item]
    pattern = "" if isinstance(found.this, exp.Star) else found.this.name
    matches = [(name, match) for name in every if (match := re.search(pattern, name))]
    if not matches:
        raise QueryError(f"columns({pattern!r}) matches none of {', '.join(every)}")
    return [_of_column(item, name, match) for name, match in matches]


def _of_column(item: exp.Expr, name: str, match: re.Match[str]) -> exp.Expr:
    column = exp.column(exp.to_identifier(name, quoted=not re.fullmatch(r"[a-z_]\w*", name)))
    body = item.this if isinstance(item, exp.Alias) else item
    # A tree of its own, so that a lone columns(...) has a parent to be replaced in.
    held = exp.Paren(this=body.copy())
    for node in list(held.find_all(exp.Columns)):
        node.replace(column.copy())
    alias = name
    if isinstance(item, exp.Alias):
        # DuckDB writes the name of the column \0, what the first group matches \1.
        alias = name.join(match.expand(part) for part in item.alias.split(r"\0"))
    return exp.alias_(held.this, exp.to_identifier(alias, quoted=column.this.quoted))
