"""One query of an experiment's analysis as a single SQL statement, for the user's warehouse."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from duckdb import DuckDBPyConnection
from sqlglot import exp

from abeval.engines import builders
from abeval.engines.builders import sub_bucket_sql
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.protocol import Engine, Result
from abeval.engines.sources import log_name, logs_of
from abeval.engines.sql import is_query, query
from abeval.engines.transpile import RAN, known_dialect, parsed, transpiled
from abeval.errors import QueryError, masked
from abeval.experiment.model import Experiment
from abeval.experiment.sections import EngineOptions
from abeval.experiment.sources import LogSource

Analysis = Callable[[DuckDBEngine], object]
"""Analyses an experiment on an engine."""


def plain_statement(name: str, dialect: str) -> str:
    """Write a query over the canonical views in a dialect.

    Raises:
        QueryError: It is not known, or its columns depend on the experiment.
    """
    text = query(name)
    if dialect == "duckdb":
        return text

    def columns(relation: str) -> Sequence[str]:
        what = f"the columns of {name} depend on the experiment"
        raise QueryError(what, "name the experiment: --experiment FILE")

    translation = transpiled(parsed(text), dialect, columns, trusted=True, pretty=True)
    return "\n".join([_header(name, dialect), translation, ""])


def rule_statement(sql: str, dialect: str) -> str:
    """Write a query of abeval's own text in a dialect, with hashes in the dialect's SQL."""
    tree = parsed(sql)
    if dialect == "duckdb":
        return builders.written_out(tree, dialect).sql(dialect, pretty=True)
    return transpiled(tree, dialect, lambda _: (), trusted=True, pretty=True)


def _header(name: str, dialect: str) -> str:
    note = "the tests run it" if dialect in RAN else f"NOT RUN: it has not been tried on {dialect}"
    return f"-- {name}, in the {dialect} dialect; {note}"


@dataclass(frozen=True, eq=False)
class Relation:
    """A relation at one point of an analysis, which may create others of the same name later.

    `sql` is None for a log; `reads` are the relations that it reads, by name.
    """

    name: str
    sql: str | None
    columns: Sequence[str]
    reads: Mapping[str, "Relation"]


class _Reached(Exception):  # noqa: N818 (it reports a result, not an error)
    """Stops an analysis at the query that was asked for."""

    def __init__(self, relation: Relation) -> None:
        self.relation = relation


OF_ARRAYS = {"unit_names": "units/unit_names", "units": "units/units"}
"""Relations that are made of arrays → the query that defines them."""


class _Recorder(DuckDBEngine):
    """Runs an analysis until it reaches one query, and records every relation on the way."""

    # Offsets of a zone, by which DuckDB computes local times, are no statement to be read.
    local_time = Engine.local_time

    def __init__(self, experiment: Experiment, name: str) -> None:
        super().__init__(
            EngineOptions(remote_files=experiment.engine.remote_files), experiment.folder
        )
        self.confine(logs_of(experiment).values())
        self._relations: dict[str, Relation] = {}
        self._target = query(name).strip()
        of_log = experiment.logs.exposures is None and not experiment.schedule
        self._salt = experiment.salt
        self._is_placed_by_log = of_log and not experiment.assigns

    def hash64(self, values: Sequence[str]) -> str:
        """Write a whole number that stands for values, nulls among them, by MD5 as in `hash60`."""
        whole = "''"
        for value in values:
            text = f"coalesce('=' || cast({value} as varchar), '')"
            whole = f"{builders.HASH60}(cast({whole} as varchar), {text})"
        return whole

    def add_log(self, name: str, source: LogSource, reads: str | None = None) -> None:
        super().add_log(name, source, reads)
        self._relations[name] = Relation(name, None, list(self.columns(name)), {})

    def _create(self, kind: str, name: str, sql: str) -> None:
        self._stop_at_target(sql)
        super()._create(kind, name, sql)
        self._record(name, sql)

    def _answer(self, sql: str, fetch: Callable[[DuckDBPyConnection], Result]) -> Result:
        self._stop_at_target(sql)
        return super()._answer(sql, fetch)

    def _stop_at_target(self, sql: str) -> None:
        if self._target in sql:
            raise _Reached(Relation("answer", sql, [], self._reads(sql)))

    def _record(self, name: str, sql: str) -> None:
        if name in OF_ARRAYS:
            if not self._is_placed_by_log:
                raise QueryError(
                    f"{name} cannot be written as SQL: the impressions alone do not place units",
                    "with exposures, a rule of assignment or a schedule, let abeval read the log",
                )
            sql = query(OF_ARRAYS[name])
            self._stop_at_target(sql)
            if name == "units":
                bucket = sub_bucket_sql(self, self._salt, "n.logged_id")
                sql = (
                    f"select p.*, {bucket} as sub_bucket "
                    f"from ({sql}) p join unit_names n on p.unit_id = n.unit_id"
                )
        columns, reads = list(self.columns(name)), self._reads(sql)
        self._relations[name] = Relation(name, sql, columns, reads)

    def _reads(self, sql: str) -> dict[str, Relation]:
        named = {table.name for table in parsed(sql).find_all(exp.Table)}
        return {name: self._relations[name] for name in sorted(named) if name in self._relations}


class _ReplayRecorder(_Recorder):
    """Hides a method of DuckDB, so that a replay runs queries instead of kernels over arrays."""

    chunks = None  # type: ignore[assignment]


def statement(experiment: Experiment, name: str, dialect: str, run: Analysis) -> str:
    """Write a query with every view that it reads, down to the logs, as one statement.

    The views depend on the logs: their columns, their types and whether they have duplicates.

    Raises:
        QueryError: The analysis `run` does not reach it, or it cannot be written in the dialect.
    """
    known_dialect(dialect)
    return statement_text(experiment, name, dialect, recorded(experiment, name, run))


def recorded(experiment: Experiment, name: str, run: Analysis) -> Relation:
    """Return the query as an analysis runs it, with every relation that it reads."""
    is_replayed = name.startswith("offline/")
    recorder = (_ReplayRecorder if is_replayed else _Recorder)(experiment, name)
    try:
        run(recorder)
    except _Reached as reached:
        return reached.relation
    finally:
        recorder.close()
    raise QueryError(
        f"the analysis of {experiment.name!r} does not run {name}: none of its logs, metrics and "
        "settings need it",
        "for the query over the canonical views, remove --experiment",
    )


def statement_text(experiment: Experiment, name: str, dialect: str, answer: Relation) -> str:
    """Write the statement in a dialect, after comments that say what it is."""
    names = _names(answer)
    parts = [
        f"{unique} as (\n{_translated(relation.sql, relation, dialect, names)}\n)"
        for relation, unique in names.items()
        if relation.sql is not None
    ]
    text = "with " + ",\n".join(parts) + "\nselect * from answer\n"
    logs = [relation.name for relation in names if relation.sql is None]
    notes = [_header(name, dialect), f"-- of the experiment {experiment.name!r}"]
    notes += [f"-- {log}: {_place(experiment, log)}" for log in logs]
    notes += [f"-- to be defined: {call}" for call in builders.CALLS if f"{call}(" in text.lower()]
    notes.append("-- written for these logs: write it again for other columns or new duplicates")
    return "\n".join([*(" ".join(note.split()) for note in notes), text])


def _names(answer: Relation) -> dict[Relation, str]:
    """Give every relation a unique name, each after those that it reads."""
    names: dict[Relation, str] = {}

    def visit(relation: Relation) -> None:
        for read in relation.reads.values():
            if read not in names:
                visit(read)
        same = sum(other.name == relation.name for other in names)
        names[relation] = f"{relation.name}_as_{same + 1}" if same else relation.name

    visit(answer)
    return names


def _translated(sql: str, relation: Relation, dialect: str, names: Mapping[Relation, str]) -> str:
    tree, reads, trusted = parsed(sql), relation.reads, is_query(sql)
    renamed = {name: names[read] for name, read in reads.items() if names[read] != name}
    return transpiled(tree, dialect, lambda name: reads[name].columns, renamed, trusted, True)


def _place(experiment: Experiment, relation: str) -> str:
    """Say where a log is read from."""
    source = experiment.logs.named.get(log_name(relation))
    if source is None:
        return "a separate input"
    return f"table {source.table}" if source.table is not None else masked(", ".join(source.paths))
