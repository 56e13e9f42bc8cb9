"""Open a run: an experiment on an engine, and its logs as relations."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypedDict

from abeval.engines.sources import list_logs, name_relation
from abeval.engines.sql import Engine, count_rows, quote
from abeval.errors import ExperimentError, LogError, QueryError
from abeval.experiment.model import Experiment
from abeval.experiment.problems import suggest_name
from abeval.experiment.sections import EngineOptions
from abeval.experiment.sources import OUTCOME, OWN_TABLE, ROW_UNIT, LogSource, Span
from abeval.logs import checks
from abeval.logs.files import FileFacts, read_file_facts, write_file_notes
from abeval.logs.mapping import LogColumns, map_columns
from abeval.progress import Step, ignore_step

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import SparkSession

    EngineChoice: TypeAlias = "str | SparkSession | None"

_ENGINES = ("duckdb", "spark")


def open_engine(
    options: EngineOptions,
    folder: Path,
    connection: "duckdb.DuckDBPyConnection | None" = None,
    choice: "EngineChoice" = None,
) -> Engine:
    """Open the engine that the caller chooses, else the experiment.

    `choice` is `duckdb`, `spark` or the caller's Spark session; `folder` is where paths start.

    Raises:
        ExperimentError: The choice is none of them, or there is a connection but no DuckDB engine.
        QueryError: The engine does not start.
    """
    session = None if isinstance(choice, str) else choice
    name = choice if isinstance(choice, str) else options.name if session is None else "spark"
    if name not in _ENGINES or (session is not None and not hasattr(session, "sql")):
        raise ExperimentError(
            f"unknown engine {choice!r}",
            "use 'duckdb', 'spark' or a SparkSession; pass a DuckDB connection as `connection`",
        )
    if name == "duckdb":
        # Imported here: an engine that is not used costs no import.
        from abeval.engines.duckdb import DuckDBEngine

        return DuckDBEngine(options, folder, connection)
    if connection is not None:
        raise ExperimentError("a DuckDB connection cannot be used with the Spark engine")
    from abeval.engines.spark.engine import SparkEngine

    return SparkEngine(options, folder, session)


class Inputs(TypedDict, total=False):
    """Keywords of every method of an experiment that reads logs.

    Attributes:
        logs: Frames (pandas, Polars, Arrow, DuckDB relations) by log name: `impressions`,
            `clicks`, `items`, `exposures`, outcome logs by their names, for a
            replay also `scores`; the others are read from where the file says.
        connection: The caller's DuckDB, whose tables `logs.*.table` names.
        engine: `duckdb`, `spark` or the caller's `SparkSession`, whose tables `logs.*.table` names
            and whose frames `logs` may be; without, what the experiment says.
        step: Called with the name of each step as it begins.
    """

    logs: Mapping[str, object] | None
    connection: "duckdb.DuckDBPyConnection | None"
    engine: "EngineChoice"
    step: Step | None


@dataclass(frozen=True)
class Run:
    """Hold an experiment on an open engine.

    `frames` are logs from Python, by name. `step` is called with each step's name as it begins.
    """

    experiment: Experiment
    engine: Engine
    frames: Mapping[str, object] = field(default_factory=dict)
    step: Step = ignore_step


@contextmanager
def open_run(
    experiment: Experiment, inputs: Inputs, reads: Sequence[str] = (), engine: Engine | None = None
) -> Iterator[Run]:
    """Open a run, and close its engine at the end.

    The engine is the caller's choice, else the experiment's. It may open only the files of the logs
    and of `reads`.
    """
    for name in inputs:
        if name not in Inputs.__annotations__:
            hint = suggest_name(name, Inputs.__annotations__)
            raise TypeError(f"unexpected keyword argument {name!r}{hint}")
    if experiment.logs.sums is not None:
        raise ExperimentError(
            "the experiment has sums or counts alone ([logs.sums]), and this needs the rows",
            "`analyze`, `check`, `compare` and `report` judge sums (docs/data.md); for more bring "
            "the log, as [logs.impressions] or [logs.units]",
        )
    if experiment.interleaving is not None:
        raise ExperimentError(
            "the experiment has interleaved lists ([interleaving]), and this compares variants",
            "`abeval analyze`, in Python `preferences()`, says which ranker users prefer",
        )
    step, folder = inputs.get("step"), experiment.folder
    if engine is None:
        connection, choice = inputs.get("connection"), inputs.get("engine")
        engine = open_engine(experiment.engine, folder, connection, choice)
    with closing(engine):
        extra_sources = (LogSource.model_construct(path=path) for path in reads)
        frames = inputs.get("logs") or {}
        # A frame stands for the files of its log, which are not read.
        sources = [
            source.model_copy(update={"path": None}) if name in frames else source
            for name, source in list_logs(experiment).items()
        ]
        # SQL of the user runs later; it must not reach other files.
        engine.confine([*sources, *extra_sources])
        yield Run(experiment, engine, frames, step or ignore_step)


_LOGS = ("impressions", "units", "clicks", "items", "exposures")


class LogViews(NamedTuple):
    """Hold the logs of an experiment, readable as `raw_NAME`.

    `rows` counts them after filter and query; of those that `limited` names, rows of days outside
    of all periods were not read.
    """

    columns: Mapping[str, LogColumns]
    files: Mapping[str, FileFacts]
    rows: Mapping[str, int]
    limited: frozenset[str]
    notes: Sequence[str]


def open_logs(run: Run, outcomes: Sequence[str], reads: str | None = None) -> LogViews:
    """Make every log readable as `raw_NAME`, map its columns, count its rows.

    `reads` is text that names every column of the impressions that is read; None reads all.
    """
    experiment = run.experiment
    checks.check_frames(experiment, run.frames)
    columns, files = dict[str, LogColumns](), dict[str, FileFacts]()
    rows, limited, notes = dict[str, int](), set[str](), list[str]()
    for log, source in experiment.logs.logs_by_name.items():
        if log not in (*_LOGS, *outcomes):
            continue
        of_rows = reads if log == experiment.logs.rows_name else None
        read, rows[log], of_log = open_log(run, log, of_rows)
        types = run.engine.columns(name_relation("raw", log))
        # In a text file without rows every column is text, and its time a day.
        is_untyped = {*types.values()} <= {"VARCHAR", "DATE"}
        if not rows[log] and (is_untyped or log in ("impressions", "units")):
            of_days = "" if read is not None else " and [period]: rows of other days are not read"
            raise LogError(
                f"the {_name_frame(log)} have no rows", f"check logs.{log}.path{of_days}"
            )
        # Items have no unit, and clicks need not have one.
        unit_column = source.columns.get("unit_id", experiment.unit).lower()
        lacks = log == "clicks" and unit_column not in {column.lower() for column in types}
        lacks |= log == "items" or experiment.unit == ROW_UNIT
        framed = _name_frame(log) in run.frames
        files[log] = FileFacts() if framed else read_file_facts(log, source, experiment.folder)
        mapped = map_columns(log, source, types, None if lacks else experiment.unit, files[log])
        mapped = _find_seconds(run.engine, mapped)
        if mapped.may_have_days and not mapped.has_seconds and _has_only_days(run.engine, mapped):
            mapped = replace(mapped, types={**types, mapped.mapped["ts"]: "DATE"})
            notes.append(f"All times of the {_name_frame(log)} are midnights: they are days.")
        columns[log] = mapped
        check_all_read(log, read, files[log])
        notes += of_log
        if read is None:
            limited.add(log)
    return LogViews(columns, files, rows, frozenset(limited), notes)


def _find_seconds(engine: Engine, log: LogColumns) -> LogColumns:
    """Find whether a log writes its time, or else another time, to the second."""
    column = log.mapped.get("ts", "")
    if column and not _has_times(engine, log, "minute", column):
        log = replace(log, has_seconds=False)
    elif log.find_type("ts").startswith("TIMESTAMP"):
        return log
    # Events that nothing else tells apart may have another time; units and items are no events.
    if log.other_times and log.log not in ("units", "items"):
        engine.complete(log.raw)
        times = (_has_times(engine, log, "minute", other) for other in log.other_times)
        log = replace(log, has_other_seconds=any(times))
    return log


def _has_only_days(engine: Engine, log: LogColumns) -> bool:
    """Tell whether there are times, and all are midnights.

    pandas keeps dates as midnights. As a time, a midnight would be before the exposure of its own
    day.
    """
    column = log.mapped["ts"]
    some = f"select 1 from {log.raw} where {quote(column)} is not null limit 1"
    return not _has_times(engine, log, "day", column) and bool(engine.rows(some))


def _has_times(
    engine: Engine, log: LogColumns, part: Literal["minute", "day"], column: str
) -> bool:
    """Tell whether some times of a column are finer than minutes or days."""
    if not log.types[column].startswith("TIMESTAMP"):
        return True
    time = quote(column)
    is_finer = f"date_trunc('{part}', {time}) <> {time}"
    return bool(engine.rows(f"select 1 from {log.raw} where {is_finer} limit 1"))


def check_all_read(log: str, rows: int | None, facts: FileFacts) -> None:
    """Raise if the row count differs from the files' metadata (`LogError`)."""
    if facts.rows is None or rows is None:
        return
    # Blank lines were not counted, though some of them may be rows.
    if rows >= facts.rows if facts.are_lines else rows == facts.rows:
        return
    kind = "lines with data" if facts.are_lines else "rows"
    raise LogError(
        f"{log}: {rows:,} rows were read, but the files have {facts.rows:,} {kind}",
        "were files written during the run? Run it again; if it stays so, convert them to Parquet",
    )


def list_file_notes(opened: LogViews, lacking: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Write notes on empty files, and on files that lack columns.

    `lacking` has, for some logs, the columns that are read; of other logs the mapped ones are.
    """
    for log, facts in opened.files.items():
        mapped = [*opened.columns[log].mapped.values()]
        yield from write_file_notes(_name_frame(log), facts, lacking.get(log, mapped), mapped)


def open_log(run: Run, log: str, reads: str | None = None) -> tuple[int | None, int, list[str]]:
    """Make a log readable as `raw_NAME` (an outcome log as `raw_events_NAME`).

    Returns the rows that were read (0 where a query reads tables only, None where rows of other
    days were left out), blank ones too, those that are left, and notes.

    Raises:
        LogError: It cannot be read.
        ExperimentError: Its filter or its query cannot be computed.
    """
    engine, source = run.engine, run.experiment.logs.logs_by_name[log]
    is_plain = source.where is None and source.query is None
    raw = name_relation("raw", log)
    rows = raw if is_plain else name_relation("log", log)
    # A query may read [tables] only.
    if _name_frame(log) in run.frames or source.table or source.paths or source.query is None:
        _add_log(run, log, rows, source, reads if is_plain else None)
    else:
        rows = ""
    read = left = engine.count(rows) if rows else 0
    blank, the = engine.blank_rows(rows), f"The {_name_frame(log)} are"
    span = engine.read_span(rows)
    notes = [*_describe_span(_name_frame(log), span)]
    notes += _describe_blank_rows(_name_frame(log), blank)
    if source.where is not None:
        kept = raw if source.query is None else name_relation("kept", log)
        left = _filter(run, log, source.where, rows, kept)
        notes.append(
            f"{the} {left:,} of {read:,} rows of the log, where {_join_lines(source.where)}."
        )
        rows = kept
    if source.query is not None:
        text = source.query.strip().rstrip(";")
        _store_answer(run, log, text, rows)
        notes.append(f"{the} the answer of a query: {_join_lines(text)}.")
        for name in run.experiment.tables:
            notes += _describe_blank_rows(name, engine.blank_rows(f"table_{name}"))
        left = engine.count(raw)
    return None if span is not None else read + blank, left, notes


def _find_span(experiment: Experiment, log: str) -> Span | None:
    """Find the days of a log that an analysis reads; None for all.

    Two days around both periods are for time zones and clocks, more for clicks that come late.
    """
    bounds = [
        bound
        for period in (experiment.period, experiment.pre_period)
        if period is not None
        for bound in period.bounds
    ]
    if experiment.period is None or log not in ("impressions", "clicks"):
        return None
    # A query may make the time of a row, or look back at rows before it.
    if experiment.logs.logs_by_name[log].query is not None:
        return None
    clicks = experiment.logs.clicks
    late = timedelta(hours=0 if clicks is None else clicks.attribution_hours)
    day = timedelta(days=1)
    return Span(min(bounds).date() - 2 * day, (max(bounds) + late).date() + 2 * day)


def _describe_span(name: str, span: Span | None) -> Iterator[str]:
    """Say which rows of a log were read, if not all."""
    if span is not None:
        yield (
            f"Of the {name} only rows from {span.since} to before {span.until}, or without a time, "
            "are read: no other is of a period."
        )


def _describe_blank_rows(name: str, rows: int) -> list[str]:
    """Say how many blank rows a log or a table has."""
    text = f"Blank rows of the {name}, without a value in any column, are not read: {rows:,}."
    return [text] if rows else []


def _add_log(
    run: Run, log: str, relation: str, source: LogSource, reads: str | None = None
) -> None:
    frame = run.frames.get(_name_frame(log))
    if frame is None:
        limited = source.map_unit(run.experiment.unit).limit_to(_find_span(run.experiment, log))
        run.engine.add_log(relation, limited, reads)
    else:
        run.engine.add_frame(relation, frame, source, reads)


def _name_frame(log: str) -> str:
    """Return the name of a log's frame; of an outcome log, its own name."""
    return log.removeprefix(OUTCOME)


def _filter(run: Run, log: str, where: str, rows: str, kept: str) -> int:
    """Show the rows for which an expression is true; return their number."""
    try:
        # A null condition drops the row, as in SQL.
        run.engine.view(kept, f"select * from {rows} where coalesce(({where}), false)")
        return count_rows(run.engine, kept)
    except QueryError as error:
        raise ExperimentError(
            f"logs.{log}.where: {where!r} cannot be computed: {extract_reason(error)}",
            f"it is true or false by row; the log has: {', '.join(run.engine.columns(rows))}",
        ) from error


def _store_answer(run: Run, log: str, query: str, rows: str) -> None:
    """Store the answer of a query over the log and the tables of the file."""
    relations = {OWN_TABLE: rows} if rows else {}
    for name, source in run.experiment.tables.items():
        relations[name] = f"table_{name}"
        _add_log(run, name, relations[name], source)
    tables_sql = ", ".join(f"{name} as (select * from {rel})" for name, rel in relations.items())
    sql = f"with {tables_sql} select * from (\n{query}\n) as answer"
    try:
        # A table, because a query may be dear, or have another answer each time.
        run.engine.table(name_relation("raw", log), sql)
    except QueryError as error:
        columns = {name: ", ".join(run.engine.columns(rel)) for name, rel in relations.items()}
        raise ExperimentError(
            f"logs.{log}.query cannot be run: {extract_reason(error)}",
            f"it may read {'; '.join(f'{name}: {has}' for name, has in columns.items())}",
        ) from error


def extract_reason(error: QueryError) -> str:
    """Extract what the engine said of a query that could not be run."""
    return error.what.partition(" could not run a query: ")[2] or error.what


def _join_lines(sql: str) -> str:
    return " ".join(sql.split())
