"""Lay out statements for people: only what is read, in readable lines."""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache, reduce
from itertools import groupby

from sqlglot import exp
from sqlglot.optimizer.scope import traverse_scope

from abeval.engines.duckdb_connection import open_database
from abeval.packaged import load_toml_next_to

WIDTH = 120
"""Largest width of a line that can be broken."""


def find_tables(tree: exp.Query) -> set[str]:
    """Find the relations that a query reads, besides its own."""
    sources = (source for scope in traverse_scope(tree) for source in scope.sources.values())
    return {source.name for source in sources if isinstance(source, exp.Table)}


def find_repeated_relation(
    query: exp.Query, kinds: tuple[type[exp.Expr], ...] = (exp.Star,)
) -> str | None:
    """Find the relation that a query repeats, as all or some of its columns."""
    clauses = {key for key, value in query.args.items() if value} - {"with_"}
    if clauses != {"expressions", "from_"} or {type(item) for item in query.selects} - {*kinds}:
        return None
    table = query.args["from_"].this
    return table.name if isinstance(table, exp.Table) and not table.alias else None


def simplify(tree: exp.Query, dialect: str = "duckdb") -> exp.Query:
    """Drop queries that repeat another, redundant names, and quotes.

    Example:
        >>> import sqlglot
        >>> sql = 'with a as (select "x" as x from t), b as (select * from a) select x + 1 from b'
        >>> simplify(sqlglot.parse_one(sql)).sql()
        'WITH a AS (SELECT x FROM t) SELECT x + 1 FROM a'
    """
    for query in [*tree.find_all(exp.Query)]:
        for cte in [*query.ctes]:
            if (original := find_repeated_relation(cte.this)) is not None:
                for table in [*query.find_all(exp.Table)]:
                    if table.name == cte.alias:
                        table.set("this", exp.to_identifier(original))
                cte.pop()
    _hoist(tree)
    # In Snowflake a name with quotes is another than the same without, whatever its case.
    plain = {"duckdb": r"[a-z_][a-z0-9_]*", "snowflake": r"[A-Za-z_][A-Za-z0-9_]*"}.get(dialect, "")
    for name in tree.find_all(exp.Identifier) if plain else ():
        is_plain = re.fullmatch(plain, name.this) is not None
        if is_plain and name.this.lower() not in _find_reserved_words(dialect):
            name.set("quoted", False)
    for alias in [*tree.find_all(exp.Alias)]:
        # ClickHouse may call a column `a.x` without.
        is_redundant = isinstance(alias.this, exp.Column) and alias.this.name == alias.alias
        if is_redundant and (dialect != "clickhouse" or not alias.this.table):
            alias.replace(alias.this)
    return tree


def _hoist(tree: exp.Query) -> None:
    """Replace a query that only selects columns of its last CTE by that CTE."""
    ctes = [*tree.ctes]
    if not ctes or not isinstance(ctes[-1].this, exp.Select):
        return
    last = ctes[-1]
    # A CTE with CTEs of its own cannot stand there.
    if find_repeated_relation(tree, (exp.Star, exp.Column)) == last.alias and not last.this.ctes:
        last.pop()
        remaining = tree.args["with_"] if len(ctes) > 1 else None
        for key in ("expressions", "from_", "with_"):
            tree.set(key, None)
        for key, value in last.this.args.items():
            tree.set(key, value)
        tree.set("with_", remaining)


@cache
def _find_reserved_words(dialect: str) -> frozenset[str]:
    """Find the words that need quotes as names of columns, in DuckDB or Snowflake."""
    if dialect == "snowflake":
        return frozenset(load_toml_next_to(__file__, "snowflake.toml")["reserved"])
    sql = "select keyword_name from duckdb_keywords() where keyword_category in ($1, $2)"
    kinds = ["reserved", "type_function"]
    with open_database() as connection:
        return frozenset(name for (name,) in connection.execute(sql, kinds).fetchall())


Needs = dict[str, set[str]]
"""Relation → the names of its columns that are read."""


_ALL = "*"
"""Mark of a query that compares whole rows, and so needs all columns."""


def prune(tree: exp.Query, name: str, needs: Needs, looked_up: Collection[str] = ()) -> None:
    """Remove columns that nobody needs, and note what a relation needs itself.

    A name without a relation is taken for one of each that the query reads. Joins to relations
    `looked_up`, which have a row at most for each, go where nothing is read of them.
    """
    read, passed, branches = {*needs.setdefault(name, set())}, set[str](), set[int]()
    # Who reads comes before what is read.
    for scope in reversed(traverse_scope(tree)):
        node = scope.expression
        if isinstance(node, exp.SetOperation) and id(node) not in branches:
            selects = [*_list_selects(node)]
            branches |= {id(branch) for branch in (*selects, *node.find_all(exp.SetOperation))}
            _prune_branches(node, selects, read)
        if isinstance(node, exp.Select):
            if id(node) not in branches:
                _prune_select(node, read)
            _drop_joins(node, looked_up)
            # Without a column, fewer rows would differ.
            if node.args.get("distinct") and node.is_star:
                read.add(_ALL)
            passed |= read if node.is_star else set()
            for part in _own_nodes(node):
                source = scope.sources.get(part.table) if isinstance(part, exp.Column) else None
                if isinstance(source, exp.Table):
                    needs.setdefault(source.name, set()).update(_list_column_names(part))
                else:
                    passed.update(_list_column_names(part))
            read |= passed
    for table in find_tables(tree):
        needs.setdefault(table, set()).update(passed)


def _list_selects(node: exp.Query) -> Iterator[exp.Query]:
    if not isinstance(node, exp.SetOperation):
        yield node
        return
    for side in (node.this, node.expression):
        yield from _list_selects(side.unnest())


def _prune_branches(
    union: exp.SetOperation, selects: Sequence[exp.Query], needed: Collection[str]
) -> None:
    lists = [select.selects for select in selects]
    has_star = any(item.is_star for items in lists for item in items)
    if has_star or any(
        operation.args.get("distinct") for operation in union.find_all(exp.SetOperation)
    ):
        return
    names = [item.alias_or_name.lower() for item in lists[0]]
    kept = [n for n, name in enumerate(names) if name in needed or _ALL in needed] or [0]
    for select, items in zip(selects, lists, strict=True):
        select.set("expressions", [items[index] for index in kept])


def _prune_select(select: exp.Select, needed: Collection[str]) -> None:
    group = select.args.get("group")
    by_place = group is not None and any(isinstance(key, exp.Literal) for key in group.expressions)
    if select.args.get("distinct") or by_place or isinstance(select.parent, exp.In):
        return
    items, needed_names = select.expressions, {*needed}
    select.set("expressions", [])
    # What clauses call by the name of an item, and items by that of another.
    needed_names |= {name for node in _own_nodes(select) for name in _list_column_names(node)}
    kept: list[exp.Expr] = []
    for item in reversed(items):
        if item.is_star or _ALL in needed or item.alias_or_name.lower() in needed_names:
            kept.insert(0, item)
            if isinstance(item, exp.Alias):
                needed_names |= {name for node in item.walk() for name in _list_column_names(node)}
    select.set("expressions", kept or items[:1])


def _drop_joins(select: exp.Select, looked_up: Collection[str]) -> None:
    for join in [*(select.args.get("joins") or ())]:
        if isinstance(join.this, exp.Table) and join.this.name in looked_up:
            inside = {id(node) for node in join.walk()}
            other_nodes = (node for node in _own_nodes(select) if id(node) not in inside)
            aliases = {node.table for node in other_nodes if isinstance(node, exp.Column)}
            if join.this.alias_or_name not in aliases:
                join.pop()


def _own_nodes(select: exp.Select) -> Iterator[exp.Expr]:
    """List the nodes of a select, without those of selects in it."""
    for node in select.walk(prune=lambda inner: inner is not select and _is_apart(inner)):
        if node is select or not _is_apart(node):
            yield node


def _is_apart(node: exp.Expr) -> bool:
    return isinstance(node, exp.With | exp.Query) and not isinstance(node, exp.Table)


def _list_column_names(node: exp.Expr) -> Iterator[str]:
    if isinstance(node, exp.Column) and not node.is_star:
        yield node.name.lower()
    if isinstance(node, exp.Join):
        yield from (key.name.lower() for key in node.args.get("using") or ())


def lay_out(text: str, dialect: str, head: str = "", tail: str = "") -> str:
    r"""Lay out a statement that SQLGlot wrote in many lines.

    What is one line in `WIDTH` characters becomes one: items in brackets first, then clauses.
    DuckDB's and Spark's become lower case. The statement may stand between two more lines.

    Example:
        >>> lay_out("SELECT\n  A,\n  'B' AS c\nFROM t", "duckdb", "X AS (", ")")
        "x as (select a, 'B' as c from t)"
    """
    parts = re.split(r"""('(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`)""", text)
    if dialect in ("duckdb", "spark"):
        parts[::2], head = [part.lower() for part in parts[::2]], head.lower()
    # Lines within quotes stay as they are.
    parts[1::2] = [part.replace("\n", _BREAK) for part in parts[1::2]]
    lines = re.sub(r"(?m)^( *)\), (.*\()$", r"\1),\n\1\2", "".join(parts)).split("\n")
    if head:
        lines = [head, *(f"  {line}" for line in lines), *([tail] if tail else ())]
    return "\n".join(_join_lines(lines)).replace(_BREAK, "\n")


_BREAK = "\0"


def _join_lines(lines: Sequence[str], *before: str) -> list[str]:
    """Join the lines of a block as far as they fit."""
    # Each line is joined with deeper ones first, then with the one before it.
    joined, indent, is_open = [*before], _indent(lines[0]), bool(before)
    for group in _group_lines(lines, indent):
        text = reduce(_append, (line.strip() for line in group))
        was_open, is_open = is_open, indent + len(text) <= WIDTH
        opening = text if is_open else group[0].strip()
        # A CTE begins a line, and so does what is selected of them.
        follows = was_open and (is_open or not opening.lower().endswith(" as ("))
        follows &= opening.lower().partition(" ")[0] != "select"
        if follows and len(joined[-1]) + 1 + len(opening) <= WIDTH:
            joined[-1] += f" {opening}"
        else:
            joined.append(" " * indent + opening)
        if not is_open:
            for is_deeper, part in groupby(group[1:], lambda line: _indent(line) > indent):
                if is_deeper:
                    head = [] if joined[-1].endswith("(") else [joined.pop()]
                    joined += _join_lines([*part], *head)
                    continue
                for closing in part:
                    text = _append(joined[-1], closing.strip())
                    joined[-1:] = [text] if len(text) <= WIDTH else [joined[-1], closing]
    return joined


_CLOSING = re.compile(r" *(\)|end\b)", re.IGNORECASE)


def _append(text: str, line: str) -> str:
    gap = "" if text.endswith("(") or line.startswith(")") else " "
    return f"{text}{gap}{line}"


def _group_lines(lines: Sequence[str], indent: int) -> Iterator[list[str]]:
    """Group lines of this indentation with their deeper ones and what closes them."""
    group = [lines[0]]
    for line in lines[1:]:
        if _indent(line) == indent and not _CLOSING.match(line):
            yield group
            group = []
        group.append(line)
    yield group


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
