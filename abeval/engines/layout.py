"""Statements for people: nothing in them that is not read, in lines that can be read."""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.optimizer.scope import traverse_scope
from sqlglot.tokens import Token, TokenType

WIDTH = 116
"""Characters of a line, where a statement has a place to break it."""


def prune(tree: exp.Query, needed: set[str], looked_up: Collection[str] = ()) -> None:
    """Remove the columns of a query that nobody needs, and add those that it needs to `needed`.

    Names count wherever they stand, so that too many stay rather than too few. Joins to relations
    `looked_up`, which have a row at most for each, go where nothing is read of them.
    """
    branches = set[int]()
    for scope in reversed(traverse_scope(tree)):
        node = scope.expression
        if isinstance(node, exp.SetOperation) and id(node) not in branches:
            selects = [*_selects(node)]
            branches |= {id(one) for one in (*selects, *node.find_all(exp.SetOperation))}
            _prune_branches(node, selects, needed)
        if isinstance(node, exp.Select):
            if id(node) not in branches:
                _prune_select(node, needed)
            _drop_joins(node, looked_up)
            needed |= {name for one in _own_nodes(node) for name in _names(one)}


def simplify(tree: exp.Query) -> exp.Query:
    """Drop queries in a query that only repeat another, names that say nothing, and quotes.

    Example:
        >>> sql = 'with a as (select "x" as x from t), b as (select * from a) select x from b'
        >>> simplify(sqlglot.parse_one(sql)).sql()
        'WITH a AS (SELECT x FROM t) SELECT x FROM a'
    """
    for cte in [*tree.find_all(exp.CTE)]:
        other = _only_source(cte.this)
        if other is not None:
            for table in [*cte.parent.parent.find_all(exp.Table)]:
                if table.name == cte.alias:
                    table.set("this", exp.to_identifier(other))
            cte.pop()
    for name in tree.find_all(exp.Identifier):
        if re.fullmatch(r"[a-z_][a-z0-9_]*", name.this) and name.this not in _reserved():
            name.set("quoted", False)
    for alias in [*tree.find_all(exp.Alias)]:
        if isinstance(alias.this, exp.Column) and alias.this.name == alias.alias:
            alias.replace(alias.this)
    return tree


def _only_source(query: exp.Query) -> str | None:
    """Return the relation that a query repeats as it is."""
    own = {key for key, value in query.args.items() if value}
    if own != {"expressions", "from_"} or [type(item) for item in query.selects] != [exp.Star]:
        return None
    table = query.args["from_"].this
    return table.name if isinstance(table, exp.Table) and not table.alias else None


@cache
def _reserved() -> frozenset[str]:
    """Find the words that DuckDB has for itself."""
    sql = "select keyword_name from duckdb_keywords() where keyword_category = 'reserved'"
    with duckdb.connect() as connection:
        return frozenset(name for (name,) in connection.execute(sql).fetchall())


def _selects(node: exp.Query) -> Iterator[exp.Query]:
    if not isinstance(node, exp.SetOperation):
        yield node
        return
    for side in (node.this, node.expression):
        yield from _selects(side.unnest())


def _prune_branches(
    union: exp.SetOperation, selects: Sequence[exp.Query], needed: set[str]
) -> None:
    lists = [select.selects for select in selects]
    whole = any(item.is_star for items in lists for item in items)
    if whole or any(one.args.get("distinct") for one in union.find_all(exp.SetOperation)):
        return
    names = [item.alias_or_name.lower() for item in lists[0]]
    kept = [place for place, name in enumerate(names) if name in needed] or [0]
    for select, items in zip(selects, lists, strict=True):
        select.set("expressions", [items[place] for place in kept])


def _prune_select(select: exp.Select, needed: set[str]) -> None:
    group = select.args.get("group")
    by_place = group is not None and any(
        isinstance(key, exp.Literal) for key in group.expressions
    )
    if select.args.get("distinct") or by_place or isinstance(select.parent, exp.In):
        return
    items, wanted = select.expressions, set(needed)
    select.set("expressions", [])
    wanted |= {name for node in _own_nodes(select) for name in _names(node)}
    kept: list[exp.Expr] = []
    for item in reversed(items):
        if item.is_star or item.alias_or_name.lower() in wanted:
            kept.insert(0, item)
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
    kind: TokenType | None
    depth: int = 0
    block: _Block | None = None


_JOINS = {TokenType.LEFT, TokenType.CROSS, TokenType.INNER, TokenType.ANTI, TokenType.JOIN}
_CLAUSES = {
    *(TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING),
    *(TokenType.WINDOW, TokenType.ORDER_BY, TokenType.UNION, TokenType.WITH, *_JOINS),
}
_AFTER_SELECT = _CLAUSES - {TokenType.SELECT, TokenType.WITH, TokenType.UNION}
_BREAKS = {TokenType.AND, TokenType.OR, TokenType.WHEN, TokenType.ELSE}
_AS_THEY_ARE = (TokenType.STRING, TokenType.IDENTIFIER)


def laid_out(sql: str, dialect: str, indent: int = 0) -> str:
    """Write a statement of one line in several; DuckDB's in lower case.

    Example:
        >>> laid_out("SELECT A, 'B' AS c FROM t WHERE x", "duckdb")
        "select a, 'B' as c from t where x"
    """
    words = _words(sql, sqlglot.tokenize(sql, dialect=dialect), dialect in ("duckdb", "spark"))
    return "\n".join(_lines(words, indent))


def _words(sql: str, tokens: Sequence[Token], lowers: bool) -> list[_Word]:
    stack: list[list[_Word]] = [[]]
    depths, openings, end = [0], list[bool](), 0
    for place, token in enumerate(tokens):
        gap, text = sql[end : token.start], sql[token.start : token.end + 1]
        end = token.end + 1
        if lowers and token.token_type not in _AS_THEY_ARE:
            text = text.lower()
        if token.token_type == TokenType.L_PAREN:
            following = tokens[place + 1].token_type if place + 1 < len(tokens) else None
            openings.append(following in (TokenType.SELECT, TokenType.WITH))
            if openings[-1]:
                stack[-1].append(_Word(gap, None, depths[-1]))
                stack.append([])
                depths.append(0)
                continue
            depths[-1] += 1
        elif token.token_type == TokenType.R_PAREN:
            if openings.pop():
                depths.pop()
                block = _Block(stack.pop())
                before = stack[-1].pop()
                stack[-1].append(_Word(before.text + block.text, None, depths[-1], block))
                continue
            depths[-1] -= 1
        stack[-1].append(_Word(gap + text, token.token_type, depths[-1]))
    return stack[0]


def _lines(words: Sequence[_Word], indent: int) -> list[str]:
    flat = "".join(word.text for word in words).strip()
    if len(flat) + indent <= WIDTH:
        return [" " * indent + flat]
    lines, is_open = list[str](), False
    for clause in _clauses(words):
        flat = "".join(word.text for word in clause).rstrip()
        can_follow = is_open and clause[0].kind not in (TokenType.SELECT, TokenType.UNION)
        if can_follow and len(lines[-1]) + len(flat) <= WIDTH:
            lines[-1] += flat
            continue
        filled = [*_filled(clause, indent)]
        lines += filled
        is_short = clause[0].kind == TokenType.SELECT and len(filled) == 1
        is_open = is_short or clause[0].kind in _AFTER_SELECT
    return lines


def _clauses(words: Sequence[_Word]) -> Iterator[list[_Word]]:
    """Cut the words of a select into its clauses, and those of `with` into queries."""
    clause, is_with = list[_Word](), False
    for place, word in enumerate(words):
        before = words[place - 1].kind if place else None
        starts = word.kind in _CLAUSES and not word.depth and before not in _JOINS
        # `is distinct from` is no clause.
        starts = starts and before != TokenType.DISTINCT
        if clause and (starts or (is_with and before == TokenType.COMMA)):
            yield clause
            clause = []
        if starts:
            is_with = word.kind == TokenType.WITH
        clause.append(word)
    yield clause


def _filled(words: Sequence[_Word], indent: int) -> Iterator[str]:
    """Fill lines with the parts of a clause; a select that is too long has lines of its own."""
    line = " " * indent
    for part in _parts(words, lambda word: word.kind == TokenType.COMMA and not word.depth):
        text = "".join(word.text for word in part)
        if len(line) + len(text) > WIDTH and line.strip() and len(text) + indent < WIDTH:
            yield line
            line = " " * (indent + 2)
        if len(line) + len(text.rstrip()) <= WIDTH:
            line += text if line.strip() else text.lstrip()
            continue
        for word in part:
            if word.block is not None and len(line) + len(word.text) > WIDTH:
                yield line + " ("
                yield from _lines(word.block.words, indent + 2)
                line = " " * indent + ")"
                continue
            if word.kind in _BREAKS and len(line) + len(_until_break(part, word)) > WIDTH:
                yield line
                line = " " * (indent + 4)
            line += word.text if line.strip() else word.text.lstrip()
            if word.kind == TokenType.COMMA and len(line) > WIDTH - 24:
                yield line
                line = " " * (indent + 4)
    if line.strip():
        yield line


def _parts(words: Sequence[_Word], ends: object) -> Iterator[list[_Word]]:
    part = list[_Word]()
    for word in words:
        part.append(word)
        if ends(word):  # type: ignore[operator]
            yield part
            part = []
    if part:
        yield part


def _until_break(part: Sequence[_Word], word: _Word) -> str:
    """Return the text from a word to the next one at which a line may be broken."""
    start = next(place for place, one in enumerate(part) if one is word)
    end = next(
        (place for place in range(start + 1, len(part)) if part[place].kind in _BREAKS), len(part)
    )
    return "".join(one.text for one in part[start:end])
