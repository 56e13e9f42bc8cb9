"""Statements for people: nothing in them that is not read, in lines that can be read."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from typing import NamedTuple

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


class _Block(NamedTuple):
    """A select in brackets."""

    words: "Sequence[_Word]"

    @property
    def text(self) -> str:
        return f"({''.join(word.text for word in self.words).strip()})"


class _Word(NamedTuple):
    """A token with the space before it, or a block; `depth` counts brackets around it."""

    text: str
    kind: str
    depth: int = 0
    block: _Block | None = None


_JOINS = {"LEFT", "CROSS", "INNER", "ANTI", "JOIN"}
_CLAUSES = {
    *("SELECT", "FROM", "WHERE", "GROUP_BY", "HAVING"),
    *(
        "WINDOW",
        "QUALIFY",
        "ORDER_BY",
        "UNION",
        "WITH",
        *_JOINS,
    ),
}
_AFTER_SELECT = _CLAUSES - {"SELECT", "WITH", "UNION"}
_BREAKS = {
    *("AND", "OR", "WHEN", "ELSE", "SLASH"),
    *("OVER", "ORDER_BY", "CASE"),
}
_AS_THEY_ARE = ("STRING", "IDENTIFIER")


def laid_out(sql: str, dialect: str, indent: int = 0) -> str:
    """Write a statement of one line in several; DuckDB's in lower case.

    Example:
        >>> laid_out("SELECT A, 'B' AS c FROM t WHERE x", "duckdb")
        "select a, 'B' as c from t where x"
    """
    words = _words(sql, dialect)
    return "\n".join(_lines(words, indent))


def _words(sql: str, dialect: str) -> list[_Word]:
    tokens, lowers = sqlglot.tokenize(sql, dialect=dialect), dialect in ("duckdb", "spark")
    stack: list[list[_Word]] = [[]]
    depths, openings, end = [0], list[bool](), 0
    for place, token in enumerate(tokens):
        gap, text = sql[end : token.start], sql[token.start : token.end + 1]
        end = token.end + 1
        if lowers and token.token_type.name not in _AS_THEY_ARE:
            text = text.lower()
        if token.token_type.name == "L_PAREN":
            following = tokens[place + 1].token_type.name if place + 1 < len(tokens) else ""
            openings.append(following in ("SELECT", "WITH"))
            if openings[-1]:
                stack[-1].append(_Word(gap, "", depths[-1]))
                stack.append([])
                depths.append(0)
                continue
            depths[-1] += 1
        elif token.token_type.name == "R_PAREN":
            if openings.pop():
                depths.pop()
                block = _Block(stack.pop())
                before = stack[-1].pop()
                stack[-1].append(_Word(before.text + block.text, "", depths[-1], block))
                continue
            depths[-1] -= 1
        stack[-1].append(_Word(gap + text, token.token_type.name, depths[-1]))
    return stack[0]


def _lines(words: Sequence[_Word], indent: int) -> list[str]:
    flat = "".join(word.text for word in words).strip()
    if len(flat) + indent <= WIDTH:
        return [" " * indent + flat]
    lines, is_open = list[str](), False
    for clause in _clauses(words):
        flat = "".join(word.text for word in clause).rstrip()
        can_follow = is_open and clause[0].kind not in ("SELECT", "UNION")
        if can_follow and len(lines[-1]) + len(flat) <= WIDTH:
            lines[-1] += flat
            continue
        filled = [*_filled(clause, indent)]
        lines += filled
        is_short = clause[0].kind == "SELECT" and len(filled) == 1
        is_open = is_short or clause[0].kind in _AFTER_SELECT
    return lines


def _clauses(words: Sequence[_Word]) -> Iterator[list[_Word]]:
    """Cut the words of a select into its clauses, and those of `with` into queries."""
    clause, is_with = list[_Word](), False
    for place, word in enumerate(words):
        before = words[place - 1].kind if place else ""
        starts = word.kind in _CLAUSES and not word.depth and before not in _JOINS
        # `is distinct from` is no clause.
        starts = starts and before != "DISTINCT"
        if clause and (starts or (is_with and before == "COMMA")):
            yield clause
            clause = []
        if starts:
            is_with = word.kind == "WITH"
        clause.append(word)
    yield clause


def _filled(words: Sequence[_Word], indent: int) -> Iterator[str]:
    """Fill lines with the parts of a clause; a select that is too long has lines of its own."""
    line, first, inner = " " * indent, " " * (indent + 2), " " * (indent + 4)
    for item in _cut(words, lambda word, before: before == "COMMA" and not word.depth):
        text = "".join(word.text for word in item)
        has_block = any(word.block is not None for word in item)
        if len(line) + len(text) > WIDTH and line.strip() and not has_block:
            yield line
            line = first
        is_long = len(line) + len(text.strip()) > WIDTH
        for piece in _cut(item, _may_break) if is_long else [item]:
            text, block = "".join(word.text for word in piece), piece[0].block
            if block is not None and len(line) + len(text) > WIDTH:
                gap = piece[0].text.removesuffix(block.text)
                yield f"{line}{gap}("
                *inside, line = _lines(block.words, indent + 2)
                yield from inside
                line += ")" + "".join(word.text for word in piece[1:])
                continue
            if len(line) + len(text) > WIDTH and len(line) > len(inner):
                yield line
                line = inner
            line += text if line.strip() else text.lstrip()
    if line.strip():
        yield line


def _may_break(word: _Word, before: str) -> bool:
    """Tell whether a line may end before a word."""
    return word.kind in _BREAKS or before == "COMMA" or word.block is not None


def _cut(words: Sequence[_Word], starts: Callable[[_Word, str], bool]) -> Iterator[list[_Word]]:
    """Cut words into parts, each from a word that starts one."""
    part = list[_Word]()
    for word in words:
        if part and starts(word, part[-1].kind):
            yield part
            part = []
        part.append(word)
    yield part
