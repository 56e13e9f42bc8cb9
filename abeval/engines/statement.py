"""One query of an experiment's analysis as a statement of its own, for the user's warehouse."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from sqlglot import exp

from abeval.engines import builders
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.protocol import Cell
from abeval.engines.queries import is_query, query
from abeval.engines.transpile import RAN, known_dialect, parsed, transpiled
from abeval.errors import QueryError
from abeval.experiment.model import EngineOptions, Experiment, LogSource


def plain_statement(name: str, dialect: str) -> str:
    """A query as it stands, in a dialect.

    Raises:
        QueryError: It is not known, or its columns depend on the experiment.
    """
    text = query(name)
    known_dialect(dialect)
    if dialect == "duckdb":
        return text
    tree = parsed(text)
    if tree.find(exp.Columns) is not None:
        raise QueryError(
            f"the columns of {name} depend on the experiment", "name it: --experiment FILE"
        )
    said = transpiled(tree, dialect, _nothing, trusted=True, pretty=True)
    return "\n".join([*_header(name, dialect), said, ""])


def _nothing(relation: str) -> Sequence[str]:
    raise QueryError(f"the columns of {relation} are not known")


def _header(name: str, dialect: str) -> list[str]:
    ran = dialect in RAN
    note = "the tests run it" if ran else f"NOT RUN: nobody has tried it on {dialect}"
    return [f"-- {name}, in the {dialect} dialect; {note}"]


class _Found(Exception):  # noqa: N818 (it says that the work is done)
    """Stops an analysis at the statement that was wanted."""

    def __init__(self, made: "Made") -> None:
        self.made = made


@dataclass(frozen=True, eq=False)
class Made:
    """A relation at one time of the analysis; some are made anew for each metric or model.

    Attributes:
        name: Its name.
        sql: What it is, None where it is a log.
        columns: Its columns.
        reads: What its SQL reads, as it was then.
    """

    name: str
    sql: str | None
    columns: Sequence[str]
    reads: Mapping[str, "Made"]


class _Recorder(DuckDBEngine):
    """Runs an analysis until it comes to one query, and remembers what that reads."""

    # None is how a method of a protocol is not there: kernels over arrays would pass queries by.
    arrays = None  # type: ignore[assignment]

    def __init__(self, experiment: Experiment, wanted: str) -> None:
        super().__init__(EngineOptions(), experiment.folder)
        self._made: dict[str, Made] = {}
        self._wanted = query(wanted).strip()
        for macro in builders.duckdb_macros():
            self.rows(macro)

    def add_log(self, name: str, source: LogSource) -> None:
        super().add_log(name, source)
        self._make(name, None)

    def view(self, name: str, sql: str) -> None:
        self._look(sql)
        super().view(name, sql)
        self._make(name, sql)

    def table(self, name: str, sql: str) -> None:
        self._look(sql)
        super().table(name, sql)
        self._make(name, sql)

    def rows(self, sql: str) -> Sequence[tuple[Cell, ...]]:
        self._look(sql)
        return super().rows(sql)

    def frame(self, sql: str) -> pd.DataFrame:
        self._look(sql)
        return super().frame(sql)

    def epoch_ms(self, timestamp: str) -> str:
        return builders.epoch_ms(timestamp)

    def local_time(self, milliseconds: str, timezone: str) -> str:
        return builders.local_time(milliseconds, timezone)

    def hash60(self, salt: str, unit: str) -> str:
        return builders.hash60(salt, unit)

    def _look(self, sql: str) -> None:
        if self._wanted in sql:
            raise _Found(Made("answer", sql, [], self._reads(sql)))

    def _make(self, name: str, sql: str | None) -> None:
        reads = {} if sql is None else self._reads(sql)
        self._made[name] = Made(name, sql, list(self.columns(name)), reads)

    def _reads(self, sql: str) -> dict[str, Made]:
        named = {table.name for table in parsed(sql).find_all(exp.Table)}
        return {name: self._made[name] for name in sorted(named) if name in self._made}


Run = Callable[[DuckDBEngine], object]


def statement(experiment: Experiment, name: str, dialect: str, run: Run) -> str:
    """A query with every view that it reads, down to the logs, as one statement.

    The views are written for the logs at hand: their columns, types and duplicates are looked at.

    Args:
        experiment: Whose views they are.
        name: The query.
        dialect: Of the statement.
        run: Runs an analysis that comes to the query, on the engine it is given.

    Raises:
        QueryError: The analysis does not come to it, or the dialect cannot say it.
    """
    known_dialect(dialect)
    return written(experiment, name, dialect, made_of(experiment, name, run))


def made_of(experiment: Experiment, name: str, run: Run) -> Made:
    """What an analysis asks when it comes to a query, with all that is read: for any dialect.

    Raises:
        QueryError: The analysis does not come to it.
    """
    recorder = _Recorder(experiment, name)
    try:
        run(recorder)
    except _Found as found:
        return found.made
    finally:
        recorder.close()
    raise QueryError(
        f"the analysis of {experiment.name!r} does not come to {name}: none of its logs, metrics "
        "and settings needs it",
        "for the query over the canonical views, leave --experiment out",
    )


def written(experiment: Experiment, name: str, dialect: str, answer: Made) -> str:
    """The statement in a dialect, after lines of comment that say what it is.

    Raises:
        QueryError: The dialect cannot say it.
    """
    called = _called(answer)
    logs = [made for made in called if made.sql is None]
    parts = [
        f"{word} as (\n{_said(made, dialect, called)}\n)"
        for made, word in called.items()
        if made.sql is not None
    ]
    text = "with " + ",\n".join(parts) + "\nselect * from answer\n"
    notes = [*_header(name, dialect), f"-- of the experiment {experiment.name!r}"]
    notes += [f"-- {log.name}: {_where(experiment, log.name)}" for log in logs]
    notes += [f"-- to be defined: {word}" for word in _BUILDERS if f"{word}(" in text.lower()]
    notes.append("-- written for these logs: other columns or new duplicates need it anew")
    return "\n".join([*(" ".join(note.split()) for note in notes), text])


_BUILDERS = (builders.EPOCH_MS, builders.LOCAL_TIME, builders.HASH60)


def _called(answer: Made) -> dict[Made, str]:
    """Everything that an answer is made of, each after what it reads, and a name for each."""
    called: dict[Made, str] = {}

    def visit(made: Made) -> None:
        for read in made.reads.values():
            if read not in called:
                visit(read)
        again = sum(other.name == made.name for other in called)
        called[made] = f"{made.name}_as_{again + 1}" if again else made.name

    visit(answer)
    return called


def _said(made: Made, dialect: str, called: Mapping[Made, str]) -> str:
    names = {name: called[read] for name, read in made.reads.items() if called[read] != name}
    text = str(made.sql)

    def columns(name: str) -> Sequence[str]:
        return made.reads[name].columns

    trusted = is_query(text)
    return transpiled(parsed(text), dialect, columns, names, trusted=trusted, pretty=True)


def _where(experiment: Experiment, relation: str) -> str:
    source = getattr(experiment.logs, relation.removeprefix("raw_"), None)
    if source is None:
        return "given apart"
    return f"table {source.table}" if source.table is not None else ", ".join(source.paths)
