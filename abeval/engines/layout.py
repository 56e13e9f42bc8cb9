"""Statements for people: nothing in them that is not read, in lines that can be read."""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from abeval.engines.duckdb_connection import open_database

WIDTH = 120
"""Characters of a line, where a statement has a place to break it."""


def tables_of(tree: exp.Query) -> set[str]:
    """Find the relations that a query reads, besides its own."""
    sources = (source for scope in traverse_scope(tree) for source in scope.sources.values())
    return {source.name for source in sources if isinstance(source, exp.Table)}


def repeated(query: exp.Query, kinds: tuple[type[exp.Expr], ...] = (exp.Star,)) -> str | None:
    """Return the relation of which a query is all columns, or some of them, as they are."""
    own = {key for key, value in query.args.items() if value} - {"with_"}
    if own != {"expressions", "from_"} or {type(one) for one in query.selects} - {*kinds}:
        return None
    table = query.args["from_"].this
    return table.name if isinstance(table, exp.Table) and not table.alias else None


def simplify(tree: exp.Query, dialect: str = "duckdb") -> exp.Query:
    """Drop queries in a query that only repeat another, names that say nothing, and quotes.

    Example:
        >>> sql = 'with a as (select "x" as x from t), b as (select * from a) select x + 1 from b'
        >>> simplify(sqlglot.parse_one(sql)).sql()
        'WITH a AS (SELECT x FROM t) SELECT x + 1 FROM a'
    """
    for query in [*tree.find_all(exp.Query)]:
        for cte in [*query.ctes]:
            if (other := repeated(cte.this)) is not None:
                for table in [*query.find_all(exp.Table)]:
                    if table.name == cte.alias:
                        table.set("this", exp.to_identifier(other))
                cte.pop()
    _hoist(tree)
    for name in tree.find_all(exp.Identifier) if dialect == "duckdb" else ():
        if re.fullmatch(r"[a-z_][a-z0-9_]*", name.this) and name.this not in _reserved():
            name.set("quoted", False)
    for alias in [*tree.find_all(exp.Alias)]:
        # ClickHouse may call a column `a.x` without.
        named = isinstance(alias.this, exp.Column) and alias.this.name == alias.alias
        if named and (dialect != "clickhouse" or not alias.this.table):
            alias.replace(alias.this)
    return tree


def _hoist(tree: exp.Query) -> None:
    """Let the last query of `with` stand where only some of its columns are chosen."""
    ctes = [*tree.ctes]
    if not ctes or not isinstance(ctes[-1].this, exp.Select):
        return
    last = ctes[-1]
    if repeated(tree, (exp.Star, exp.Column)) == last.alias and not last.this.ctes:
        last.pop()
        rest = tree.args["with_"] if len(ctes) > 1 else None
        for key in ("expressions", "from_", "with_"):
            tree.set(key, None)
        for key, value in last.this.args.items():
            tree.set(key, value)
        tree.set("with_", rest)


@cache
def _reserved() -> frozenset[str]:
    """Find the words that no name of a column may be without quotes, in DuckDB."""
    sql = "select keyword_name from duckdb_keywords() where keyword_category in ($1, $2)"
    kinds = ["reserved", "type_function"]
    with open_database() as connection:
        return frozenset(name for (name,) in connection.execute(sql, kinds).fetchall())


Needs = dict[object, set[str]]
"""Relation, by its name or as a query of a tree → the names of its columns that are read."""


_ALL = "*"
"""Needs of a query that compares whole rows."""


def prune(tree: exp.Query, name: str, needs: Needs, looked_up: Collection[str] = ()) -> None:
    """Remove the columns of a relation that nobody needs, and add those that it needs to `needs`.

    Joins to relations `looked_up`, which have a row at most for each, go where nothing is read of
    them.
    """
    needs[id(tree)], branches = needs.setdefault(name, set()), set[int]()
    for scope in reversed(traverse_scope(tree)):
        node = scope.expression
        if isinstance(node, exp.SetOperation) and id(node) not in branches:
            selects, wanted = [*_selects(node)], needs.setdefault(id(node), set())
            inner = [*selects, *node.find_all(exp.SetOperation)]
            branches |= {id(one) for one in inner}
            needs |= {id(one): wanted for one in inner}
            _prune_branches(node, selects, wanted)
        if isinstance(node, exp.Select):
            wanted = needs.setdefault(id(node), set())
            if id(node) not in branches:
                _prune_select(node, wanted)
            _drop_joins(node, looked_up)
            _add_needs(scope, wanted, needs)


def _add_needs(scope: Scope, wanted: set[str], needs: Needs) -> None:
    """Add what a select reads to the needs of its sources; of unqualified names to all of them."""
    sources = _sources(scope)
    if scope.expression.args.get("distinct"):
        wanted = {_ALL}
    if scope.is_subquery and scope.parent is not None:
        sources = {**_sources(scope.parent), **sources}
    everywhere = [*sources.values()]
    for node in _own_nodes(scope.expression.assert_is(exp.Select)):
        if isinstance(node, exp.Star) and isinstance(node.parent, exp.Count):
            continue
        if isinstance(node, exp.Star):
            read: Collection[str] = wanted
        else:
            read = wanted if isinstance(node, exp.Column) and node.is_star else {*_names(node)}
        table = node.table if isinstance(node, exp.Column) else ""
        for key in [sources[table]] if table in sources else everywhere:
            needs.setdefault(key, set()).update(read)


def _sources(scope: Scope) -> dict[str, object]:
    """Find what a select reads, by alias; SQLGlot leaves out what is joined to be absent."""
    aliases = {*scope.selected_sources}
    aliases |= {join.this.alias_or_name for join in scope.expression.args.get("joins") or ()}
    return {alias: _key(scope.sources[alias]) for alias in aliases if alias in scope.sources}


def _key(source: exp.Expr | Scope) -> object:
    return source.name if isinstance(source, exp.Table) else id(source.expression)


def _selects(node: exp.Query) -> Iterator[exp.Query]:
    if not isinstance(node, exp.SetOperation):
        yield node
        return
    for side in (node.this, node.expression):
        yield from _selects(side.unnest())


def _prune_branches(
    union: exp.SetOperation, selects: Sequence[exp.Query], needed: Collection[str]
) -> None:
    lists = [select.selects for select in selects]
    whole = any(item.is_star for items in lists for item in items)
    if whole or any(one.args.get("distinct") for one in union.find_all(exp.SetOperation)):
        return
    names = [item.alias_or_name.lower() for item in lists[0]]
    kept = [n for n, name in enumerate(names) if name in needed or _ALL in needed] or [0]
    for select, items in zip(selects, lists, strict=True):
        select.set("expressions", [items[place] for place in kept])


def _prune_select(select: exp.Select, needed: Collection[str]) -> None:
    group = select.args.get("group")
    by_place = group is not None and any(isinstance(key, exp.Literal) for key in group.expressions)
    if select.args.get("distinct") or by_place or isinstance(select.parent, exp.In):
        return
    items, wanted = select.expressions, {*needed}
    select.set("expressions", [])
    # What clauses call by the name of an item, and items by that of another.
    wanted |= {name for node in _own_nodes(select) for name in _names(node)}
    kept: list[exp.Expr] = []
    for item in reversed(items):
        if item.is_star or _ALL in needed or item.alias_or_name.lower() in wanted:
            kept.insert(0, item)
            if isinstance(item, exp.Alias):
                wanted |= {name for node in item.walk() for name in _names(node)}
    select.set("expressions", kept or items[:1])


def _drop_joins(select: exp.Select, looked_up: Collection[str]) -> None:
    for join in [*(select.args.get("joins") or ())]:
        if isinstance(join.this, exp.Table) and join.this.name in looked_up:
            inside = {id(node) for node in join.walk()}
            others = (node for node in _own_nodes(select) if id(node) not in inside)
            aliases = {node.table for node in others if isinstance(node, exp.Column)}
            if join.this.alias_or_name not in aliases:
                join.pop()


def _own_nodes(select: exp.Select) -> Iterator[exp.Expr]:
    """List the nodes of a select but for those of selects in it."""
    for node in select.walk(prune=lambda one: one is not select and _is_apart(one)):
        if node is select or not _is_apart(node):
            yield node


def _is_apart(node: exp.Expr) -> bool:
    return isinstance(node, exp.With | exp.Query) and not isinstance(node, exp.Table)


def _names(node: exp.Expr) -> Iterator[str]:
    if isinstance(node, exp.Column):
        yield node.name.lower()
    if isinstance(node, exp.Join):
        yield from (one.name.lower() for one in node.args.get("using") or ())


_JOINS = {"LEFT", "CROSS", "INNER", "ANTI"}
_CLAUSES = {
    *("SELECT", "FROM", "WHERE", "GROUP_BY", "HAVING", "WINDOW", "QUALIFY", "ORDER_BY"),
    *("UNION", "WITH", "JOIN", *_JOINS),
}
_BREAKS = {"AND", "OR", "CASE", "WHEN", "ELSE", "OVER", "ORDER_BY"}


def laid_out(sql: str, dialect: str) -> str:
    """Write a statement of one line in several; DuckDB's and Spark's in lower case.

    Example:
        >>> laid_out("SELECT A, 'B' AS c FROM t WHERE x", "duckdb")
        "select a, 'B' as c from t where x"
    """
    if dialect in ("duckdb", "spark"):
        parts = re.split(r"""('(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`)""", sql)
        sql = "".join(text if n % 2 else text.lower() for n, text in enumerate(parts))
    return "\n".join(_fold(sql, dialect, 0))


def _fold(sql: str, dialect: str, indent: int) -> list[str]:
    """Put the clauses of a select into lines, short ones behind each other."""
    if indent + len(sql) <= WIDTH:
        return [" " * indent + sql]
    lines, is_open = list[str](), False
    for clause in _split(sql, dialect, _CLAUSES):
        follows = is_open and not clause.lower().startswith(("select", "union"))
        if follows and len(lines[-1]) + 1 + len(clause) <= WIDTH:
            lines[-1] += f" {clause}"
            continue
        filled = _fill(clause, dialect, indent)
        lines += filled
        is_open = len(filled) == 1
    return lines


def _fill(clause: str, dialect: str, indent: int) -> list[str]:
    """Fill lines with the items of a clause; what is long in brackets has lines of its own."""
    lines, inner = [" " * indent], " " * (indent + 2)
    is_with = clause.lower().startswith("with ")
    for item in _split(clause, dialect, ()):
        if is_with and lines[-1].strip():
            lines.append(inner)
        is_long = len(inner + item) > WIDTH
        for part in _split(item, dialect, _BREAKS) if is_long and not is_with else [item]:
            gap = " " if lines[-1].strip() else ""
            opening, end = _find_brackets(part, dialect)
            if len(lines[-1] + gap + part) <= WIDTH:
                lines[-1] += gap + part
            elif len(inner + part) <= WIDTH or opening == end:
                lines.append(inner + part)
            else:
                head = part[: opening + 1]
                if len(lines[-1] + gap + head) > WIDTH:
                    lines.append(inner + head)
                else:
                    lines[-1] += gap + head
                deeper = len(lines[-1]) - len(lines[-1].lstrip()) + 2
                lines += _fold(part[opening + 1 : end].strip(), dialect, deeper)
                lines[-1] += part[end:]
    return lines


def _split(sql: str, dialect: str, kinds: Collection[str]) -> Iterator[str]:
    """Cut SQL before tokens of these kinds, or else behind commas, that are in no brackets."""
    depth, start, before = 0, 0, ""
    for token in sqlglot.tokenize(sql, dialect=dialect):
        kind = token.token_type.name
        # `is distinct from` is no clause, and `left join` is one word.
        is_cut = kind in kinds and before not in {*_JOINS, "DISTINCT"}
        if not depth and (is_cut or (not kinds and before == "COMMA")):
            if part := sql[start : token.start].strip():
                yield part
            start = token.start
        depth += (kind == "L_PAREN") - (kind == "R_PAREN")
        before = kind
    yield sql[start:].strip()


def _find_brackets(sql: str, dialect: str) -> tuple[int, int]:
    """Find the widest outermost brackets: where they open and close; 0, 0 for none."""
    widest, opened = (0, 0), list[int]()
    for token in sqlglot.tokenize(sql, dialect=dialect):
        if token.token_type.name == "L_PAREN":
            opened.append(token.start)
        elif token.token_type.name == "R_PAREN":
            first = opened.pop()
            if not opened and token.start - first > widest[1] - widest[0]:
                widest = first, token.start
    return widest
