"""Translate DuckDB SQL to other dialects, and relations to one statement.

On the syntax tree `columns('regex')`, `group by all`, time and hash are written out. Rules keep the
meaning for Spark (`spark/rules.py`), which Databricks runs, and warehouses (`warehouse_rules.py`).
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.transforms import eliminate_window_clause

from abeval.engines import builders, sources, text_files, warehouse_rules
from abeval.engines.builders import expand_calls
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.layout import (
    Needs,
    find_repeated_relation,
    find_tables,
    lay_out,
    prune,
    simplify,
)
from abeval.engines.spark import rules as spark_rules
from abeval.engines.sql import Engine, is_query, literal, query, quote
from abeval.errors import ExperimentError, QueryError
from abeval.experiment.sections import EngineOptions
from abeval.files import resolve_path

if TYPE_CHECKING:
    from abeval.experiment.sources import LogSource

_ColumnsOf = Callable[[str], Sequence[str]]

_ANALYSES = ("duckdb", "spark")
"""Dialects in which whole analyses run."""

_DIALECTS = (*_ANALYSES, "postgres", "clickhouse", "bigquery", "snowflake", "databricks")
"""Dialects in which sums are computed; tests run all of them, some on emulators."""


def parse_query(sql: str) -> exp.Query:
    """Parse a DuckDB query."""
    try:
        trees = [tree for tree in sqlglot.parse(sql, dialect="duckdb") if tree is not None]
    except SqlglotError as error:
        raise QueryError(f"a query cannot be parsed: {error}") from error
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise QueryError("a query must be one SELECT")
    return trees[0]


def transpile(
    tree: exp.Query,
    dialect: str,
    columns_of: _ColumnsOf,
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
        >>> tree = parse_query("select sum(columns('^c_')) from t")
        >>> transpile(tree, "spark", lambda _: ["c_1", "d"])
        'SELECT SUM(c_1) AS c_1 FROM t'
    """
    return _write(_translate(tree, dialect, columns_of, names, trusted), dialect, pretty)


def _translate(
    tree: exp.Query,
    dialect: str,
    columns_of: _ColumnsOf,
    names: Mapping[str, str] | None,
    trusted: bool,
) -> exp.Query:
    """Rewrite a query so that it means in another dialect what it means in DuckDB's."""
    check_dialect(dialect)
    query = _expand_groups(expand_columns(tree, columns_of))
    for select in query.find_all(exp.Select) if dialect != "duckdb" else ():
        # SQLGlot drops named windows in some dialects.
        eliminate_window_clause(select)
    engine = "spark" if dialect == "databricks" else dialect
    if engine == "spark":
        query = spark_rules.rewrite_for_spark(query, trusted)
    # Calls are expanded last: rules know calls, not what they become.
    query = warehouse_rules.rewrite_arithmetic(expand_calls(query, engine), engine)
    return _rename_relations(query, names or {})


def _write(query: exp.Query, dialect: str, pretty: bool) -> str:
    try:
        return query.sql(dialect, pretty=pretty, comments=False, unsupported_level=ErrorLevel.RAISE)
    except (SqlglotError, AttributeError) as error:
        # SQLGlot raises AttributeError for some SQL that it does not support.
        raise QueryError(f"SQLGlot cannot translate this query to {dialect}: {error}") from error


def _expand_groups(tree: exp.Query) -> exp.Query:
    """Expand each `group by all`, which some dialects do not have."""
    for group in list(tree.find_all(exp.Group)):
        if group.args.get("all") and isinstance(group.parent, exp.Select):
            plain = [item.unalias() for item in group.parent.expressions]
            keys = [item.copy() for item in plain if item.find(exp.AggFunc) is None]
            group.replace(exp.Group(expressions=keys))
    return tree


def _rename_relations(tree: exp.Query, names: Mapping[str, str]) -> exp.Query:
    """Rename relations, but not a CTE of the same name."""
    for scope in traverse_scope(tree) if names else ():
        for alias, source in scope.sources.items():
            if isinstance(source, exp.Table) and source.name.lower() in names:
                source.set("this", exp.to_identifier(names[source.name.lower()], quoted=True))
                source.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    return tree


def check_dialect(dialect: str, dialects: Sequence[str] = _DIALECTS) -> None:
    """Raise if no test runs a dialect."""
    if dialect not in dialects:
        what = f"nothing is written in a SQL dialect that is called {dialect!r}"
        raise QueryError(what, f"known: {', '.join(dialects)}")


def expand_columns(tree: exp.Query, columns_of: _ColumnsOf) -> exp.Query:
    """Expand every `columns(...)` of a query."""
    query = tree.copy()
    if query.find(exp.Columns) is None:
        return query
    for scope in traverse_scope(query):
        if isinstance(scope.expression, exp.Select):
            every = [
                name for names in _list_source_columns(scope, columns_of).values() for name in names
            ]
            items = [
                new for item in scope.expression.expressions for new in _expand_item(item, every)
            ]
            scope.expression.set("expressions", items)
    return query


def _list_source_columns(scope: Scope, columns_of: _ColumnsOf) -> dict[str, list[str]]:
    """Find the columns of everything that a select reads, by alias, in order."""
    return {
        alias: list(columns_of(source.name))
        if isinstance(source, exp.Table)
        else _list_output_columns(source, columns_of)
        for alias, (_, source) in scope.selected_sources.items()
    }


def _list_output_columns(scope: Scope, columns_of: _ColumnsOf) -> list[str]:
    """List the columns of a CTE or subquery."""
    # Its own `columns(...)` are expanded already: scopes come from the inside out.
    if scope.set_operation_scopes:
        return _list_output_columns(scope.set_operation_scopes[0], columns_of)
    sources = _list_source_columns(scope, columns_of)
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
"""Pattern of columns of segments, which an experiment may lack."""


def _expand_item(item: exp.Expr, every: Sequence[str]) -> list[exp.Expr]:
    """Repeat an item of a select for each column that `columns(...)` matches."""
    columns = item.find(exp.Columns)
    if columns is None:
        return [item]
    pattern = "" if isinstance(columns.this, exp.Star) else columns.this.name
    matches = [(name, match) for name in every if (match := re.search(pattern, name))]
    if not matches and pattern != _SEGMENTS:
        raise QueryError(f"columns({pattern!r}) matches none of {', '.join(every)}")
    return [_replace_columns_call(item, name, match) for name, match in matches]


def _replace_columns_call(item: exp.Expr, name: str, match: re.Match[str]) -> exp.Expr:
    column = exp.column(exp.to_identifier(name, quoted=not re.fullmatch(r"[a-z_]\w*", name)))
    body = item.unalias().transform(lambda n: column.copy() if isinstance(n, exp.Columns) else n)
    alias = name
    if isinstance(item, exp.Alias):
        # In DuckDB, \0 is the name of the column and \1 what the first group matches.
        alias = name.join(match.expand(part) for part in item.alias.split(r"\0"))
    return exp.alias_(body, exp.to_identifier(alias, quoted=column.this.quoted))


def write_plain_statement(name: str, dialect: str) -> str:
    """Write a query over the canonical views in a dialect.

    Raises:
        QueryError: It is not known, or its columns depend on the experiment.
    """
    check_dialect(dialect, _ANALYSES)
    text = query(name)
    if dialect == "duckdb":
        return text

    def columns(relation: str) -> Sequence[str]:
        what = f"the columns of {name} depend on the experiment"
        raise QueryError(what, "abeval tools sql --sums FILE writes the statement of its sums")

    translation = transpile(parse_query(text), dialect, columns, trusted=True, pretty=True)
    return "\n".join([f"-- {name}, in the {dialect} dialect; the tests run it", translation, ""])


def write_rule_statement(sql: str, dialect: str) -> str:
    """Write a query of abeval's own in a dialect, hashes included."""
    check_dialect(dialect, _ANALYSES)
    tree = parse_query(sql)
    if dialect == "duckdb":
        return builders.expand_calls(tree, dialect).sql(dialect, pretty=True)
    return transpile(tree, dialect, lambda _: (), trusted=True, pretty=True)


@dataclass(eq=False)
class Relation:
    """Describe a relation at one point of an analysis.

    `sql` is None for a log; `reads` are the relations that it reads, by name.
    """

    name: str
    sql: str | None
    columns: Sequence[str]
    reads: Mapping[str, "Relation"]


class Recorder(DuckDBEngine):
    """Record every relation that is made, with those that it reads."""

    # Offsets of a zone, by which DuckDB computes local times, are no statement to be read.
    local_time = Engine.local_time
    # A statement names each step.
    write_steps = Engine.write_steps

    def __init__(
        self,
        options: EngineOptions | None = None,
        folder: Path = Path(),
        is_absolute: bool = False,
    ) -> None:
        self._is_absolute = is_absolute
        self.relations: dict[str, Relation] = {}
        self._loads: dict[str, tuple[str, dict[str, str]]] = {}
        super().__init__(options, folder)

    def _run(self, sql: str) -> Sequence[tuple[object, ...]]:
        rows = super()._run(sql)
        if creation := _MADE.fullmatch(sql):
            self._loads[creation["name"]] = creation["sql"], {}
        elif changed := _CHANGED.fullmatch(sql):
            self._loads[changed["name"]][1][changed["column"]] = changed["sql"]
        return rows

    def add_log(self, name: str, source: "LogSource", reads: str | None = None) -> None:
        """Make a log readable, with all its columns, and record what reads its files."""
        super().add_log(name, source)
        self.record(name, self._write_reader(name, source))

    def _write_reader(self, name: str, source: "LogSource") -> str:
        """Write what reads a log from the experiment's folder, times in UTC."""
        log = sources.log_name(name)
        files = sources.find_readable_files(log, source, self._folder)
        sql, changes = self._loads.get(name, ("", {}))
        read = "" if files is None else text_files.write_file_list(files.read)
        if files is None or read not in sql:
            what = f"no statement can read the {log} as they are"
            raise ExperimentError(what, "write them to Parquet, CSV or JSON files in UTF-8")
        globs = [
            path for path in source.paths if "://" not in path and not Path(path).is_absolute()
        ]
        glob_files = [str(file) for path in globs for file in sorted(self._folder.glob(path))]
        # The glob of the file is shorter than a list of its files, if it finds the same.
        of_globs = globs and sorted(glob_files) == sorted(files.read)
        paths = (
            globs
            if of_globs
            else [sources.escape_file_name(os.path.relpath(f, self._folder)) for f in files.read]
        )
        if self._is_absolute:
            paths = [str(resolve_path(self._folder) / path) for path in paths]
        text = ", ".join(map(literal, paths))
        sql = sql.replace(read, text if len(paths) == 1 else f"[{text}]")
        for column, kind in self.columns(name).items():
            if kind.startswith(("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE")):
                value = changes.get(column, quote(column))
                stamp = f"cast({value} as timestamp with time zone)"
                changes[column] = f"timezone('UTC', {stamp})"
        if changes:
            replacements = ", ".join(f"{value} as {quote(text)}" for text, value in changes.items())
            sql = f"select * replace ({replacements}) from ({sql})"
        if not self.blank_rows(name):
            return sql
        columns = " and ".join(f"{quote(column)} is null" for column in self.columns(name))
        return f"select * from ({sql}) where not ({columns})"

    def _create(self, kind: str, name: str, sql: str) -> None:
        super()._create(kind, name, sql)
        self.record(name, sql)

    def record(self, name: str, sql: str | None) -> None:
        """Note what a relation that is there is made of; None for a log."""
        self.note(name, sql, list(self.columns(name)))

    def note(self, name: str, sql: str | None, columns: Sequence[str] = ()) -> None:
        """Note what a relation would be made of.

        `columns` are its columns, where `columns(…)` of other queries asks for them.
        """
        previous = self.relations.get(name)
        reads = {} if sql is None else self.reads(sql)
        if previous is None or previous.sql != sql or previous.reads != reads:
            before = () if previous is None else previous.columns
            self.relations[name] = Relation(name, sql, columns or before, reads)

    def restate(self, name: str, sql: str) -> None:
        """Change what a relation is made of, for all that read it already."""
        relation = self.relations[name]
        relation.sql, relation.reads = sql, self.reads(sql)

    def reads(self, sql: str) -> dict[str, Relation]:
        """Find the relations that a query reads."""
        names = find_tables(parse_query(sql))
        return {name: relation for name, relation in self.relations.items() if name in names}


_NAME = '"(?P<name>[^"]+)"'
_MADE = re.compile(f"create or replace (?:view|table) {_NAME} as (?P<sql>(?:from|select) .*)", re.S)
_CHANGED = re.compile(
    f'alter table {_NAME} alter "(?P<column>[^"]+)" set data type .*? using (?P<sql>.*)', re.S
)

_LOOKED_UP = ("items", "attributed")
"""Relations that have at most one row for each row joined to them."""


def write_statement(
    answer: Relation,
    dialect: str,
    taken: Collection[str] = (),
    materializes: bool = False,
    comments: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Write one statement of a relation named `answer`, with all that it reads.

    Names that are `taken` are those of tables outside of it. With `materializes`, what is read
    several times is computed once. `comments` are of relations that no file of `queries/` makes.
    """
    names, readers = _name_relations(answer, taken), Counter[str]()
    needs: Needs = {names[answer]: {name.lower() for name in answer.columns}}
    parts = list[str]()
    # Readers come first, since they say which columns the others need.
    for relation, unique in reversed(names.items()):
        is_read = relation is answer or readers[unique]
        if relation.sql is None or _find_original(relation) is not None or not is_read:
            continue
        tree = _translate_sql(relation.sql, relation, dialect, names)
        prune(tree, unique, needs, _LOOKED_UP)
        readers.update(find_tables(tree))
        tree, ctes, head = simplify(tree, dialect), list[str](), ""
        if relation is answer:
            ctes = [
                lay_out(_write(cte.this, dialect, True), dialect, f"{cte.alias} AS (", ")")
                for cte in tree.ctes
            ]
            tree.set("with_", None)
        else:
            kept = " MATERIALIZED" if materializes and readers[unique] > 1 else ""
            head = f"{unique} AS{kept} ("
        text = _extract_comment(relation.sql) or comments.get(relation.name, "")
        noted = "".join(f"-- {line}\n" for line in text.splitlines())
        parts = [*ctes, noted + lay_out(_write(tree, dialect, True), dialect, head, ")"), *parts]
    *leading, last = parts
    return ("with\n" + ",\n".join(leading) + "\n" if leading else "") + last + "\n"


def view_statements(relations: Mapping[str, Relation]) -> list[str]:
    """Write statements in DuckDB's SQL that create relations as views, in order.

    Example:
        >>> view_statements({"ones": Relation("ones", "select 1 as n", ["n"], {})})
        ['create or replace view ones as select 1 as n;']
    """
    names = _name_relations(Relation("every", None, (), relations), merges=False)
    queries = {
        relation: simplify(_translate_sql(relation.sql, relation, "duckdb", names))
        for relation in names
        if relation.sql is not None
    }
    return [
        lay_out(
            f"{_write(query, 'duckdb', True)};",
            "duckdb",
            f"CREATE OR REPLACE VIEW {quote(unique) if unique != unique.lower() else unique} AS",
        )
        for relation, query in queries.items()
        for unique in (names[relation],)
    ]


def _find_original(relation: Relation) -> Relation | None:
    """Find the relation of which another is only some columns."""
    if relation.sql is None or len(relation.reads) != 1:
        return None
    tree, (read,) = parse_query(relation.sql), relation.reads.values()
    is_same = not tree.ctes and find_repeated_relation(tree, (exp.Star, exp.Column)) is not None
    return read if is_same else None


def _extract_comment(sql: str) -> str:
    """Read the comment at the top of a query file, without what it reads."""
    lines = takewhile(lambda line: line.startswith("--"), sql.splitlines())
    text = "\n".join(line.removeprefix("-- ") for line in lines)
    return re.sub(r"^reads: (?:[^()\n]|\([^()]*\))*.*\n?", "", text, flags=re.MULTILINE).strip()


def _name_relations(
    answer: Relation, taken: Collection[str] = (), merges: bool = True
) -> dict[Relation, str]:
    """Give every relation a unique name, beginning with what is read.

    Relations that repeat another share its name if they may merge.
    """
    names: dict[Relation, str] = {}

    def visit(relation: Relation) -> None:
        for read in relation.reads.values():
            if read not in names:
                visit(read)
        if merges and relation is not answer and (original := _find_original(relation)) is not None:
            names[relation] = names[original]
            return
        same = sum(
            name == relation.name for name in (*(original.name for original in names), *taken)
        )
        names[relation] = f"{relation.name}_as_{same + 1}" if same else relation.name

    visit(answer)
    return names


def _translate_sql(
    sql: str, relation: Relation, dialect: str, names: Mapping[Relation, str]
) -> exp.Query:
    tree, reads, trusted = parse_query(sql), relation.reads, is_query(sql)
    renamed = {name: names[read] for name, read in reads.items() if names[read] != name}
    return _translate(tree, dialect, lambda name: reads[name].columns, renamed, trusted)
