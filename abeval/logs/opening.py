"""Opens logs: from Python, from files or a table, through filter and query; counts their rows.

`prepare.py` opens the logs of an analysis by it, `offline/candidates/` those of a replay.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from abeval.engines.protocol import row_count
from abeval.engines.sources import relation_of
from abeval.errors import ExperimentError, LogError, QueryError
from abeval.experiment.sources import OUTCOME, OWN_TABLE, ROW_UNIT, LogSource
from abeval.logs import checks
from abeval.logs.files import FileFacts, file_facts, notes_of
from abeval.logs.mapping import LogColumns, map_columns
from abeval.logs.run import Run

_LOGS = ("impressions", "units", "clicks", "items", "exposures")


class OpenLogs(NamedTuple):
    """The logs of an experiment, readable as `raw_NAME`.

    Attributes:
        columns: The columns of each log.
        files: What is to be known of the files of each.
        rows: Number of rows of each, after its filter and its query.
        notes: Sentences on filters and queries, for the reader of the result.
    """

    columns: Mapping[str, LogColumns]
    files: Mapping[str, FileFacts]
    rows: Mapping[str, int]
    notes: Sequence[str]


def open_logs(run: Run, outcomes: Sequence[str], reads: str | None = None) -> OpenLogs:
    """Make every log readable as `raw_NAME`, map its columns, and count its rows.

    Args:
        run: The experiment and its engine.
        outcomes: The outcome logs that are read.
        reads: Text that names every column of the impressions that is read, in which others may be
            left out; None where all are to be readable.

    Raises:
        LogError: A log cannot be read, or only in part.
        ExperimentError: A filter or a query cannot be computed.
    """
    experiment = run.experiment
    checks.check_frames(experiment, run.frames)
    columns, files, rows, notes = dict[str, LogColumns](), dict[str, FileFacts](), {}, list[str]()
    for log, source in experiment.logs.named.items():
        if log not in (*_LOGS, *outcomes):
            continue
        opened = open_log(run, log, reads if log == experiment.logs.rows_name else None)
        types = run.engine.columns(relation_of("raw", log))
        # In a text file without rows every column is text, and its time a day.
        is_untyped = {*types.values()} <= {"VARCHAR", "DATE"}
        if not opened.rows and (is_untyped or log in ("impressions", "units")):
            raise LogError(f"the {_frame_of(log)} have no rows", f"check logs.{log}.path")
        # Items have no unit, and clicks need not have one.
        named = source.columns.get("unit_id", experiment.unit).lower()
        lacks = log == "clicks" and named not in {column.lower() for column in types}
        has_unit = experiment.unit != ROW_UNIT and log != "items" and not lacks
        framed = _frame_of(log) in run.frames
        files[log] = FileFacts() if framed else file_facts(log, source, experiment.folder)
        unit = experiment.unit if has_unit else None
        columns[log] = map_columns(log, source, types, unit, files[log])
        check_all_read(log, opened.read, files[log])
        rows[log] = opened.rows
        notes += opened.notes
    return OpenLogs(columns, files, rows, notes)


def check_all_read(log: str, rows: int, facts: FileFacts) -> None:
    """Refuse a log of which fewer or more rows were read than its files have.

    Raises:
        LogError: With both numbers.
    """
    if facts.rows is None:
        return
    if rows >= facts.rows if facts.are_lines else rows == facts.rows:
        return
    kind = "lines with data" if facts.are_lines else "rows"
    raise LogError(
        f"{log}: {rows:,} rows were read, but the files have {facts.rows:,} {kind}",
        "were files written during the run? Run it again; if it stays so, convert them to Parquet",
    )


def file_notes(opened: OpenLogs, lacking: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Sentences on empty files, and on those that lack columns that are read.

    Of the logs in `lacking` these are known; of others, the mapped columns are read.
    """
    for log, facts in opened.files.items():
        mapped = [*opened.columns[log].mapped.values()]
        yield from notes_of(_frame_of(log), facts, lacking.get(log, mapped), mapped)


class OpenLog(NamedTuple):
    """One log, readable as `raw_NAME`.

    Attributes:
        read: Number of rows that were read; 0 where a query reads tables only.
        rows: Number of those that are left after its filter and its query.
        notes: Sentences on these, for the reader of the result.
    """

    read: int
    rows: int
    notes: Sequence[str]


def open_log(run: Run, log: str, reads: str | None = None) -> OpenLog:
    """Make a log of the experiment readable as `raw_NAME` (an outcome log as `raw_events_NAME`).

    Args:
        run: The experiment, which says where the log is, its engine and frames.
        log: Its path in the file below `logs`.
        reads: As of `open_logs`; a filter or a query may read every column.

    Raises:
        LogError: It cannot be read.
        ExperimentError: Its filter or its query cannot be computed.
    """
    engine, source = run.engine, run.experiment.logs.named[log]
    is_plain = source.where is None and source.query is None
    raw = relation_of("raw", log)
    rows = raw if is_plain else relation_of("log", log)
    # A query may read [tables] only.
    if _frame_of(log) in run.frames or source.table or source.paths or source.query is None:
        _add(run, log, rows, source, reads if is_plain else None)
    else:
        rows = ""
    read = left = row_count(engine, rows) if rows else 0
    notes = []
    if source.where is not None:
        kept = raw if source.query is None else relation_of("kept", log)
        left = _filter(run, log, source.where, rows, kept)
        rows_of = f"{left:,} of {read:,} rows of the log"
        notes.append(f"The {_frame_of(log)} are {rows_of}, where {_line(source.where)}.")
        rows = kept
    if source.query is not None:
        text = source.query.strip().rstrip(";")
        _answer(run, log, text, rows)
        notes.append(f"The {_frame_of(log)} are the answer of a query: {_line(text)}.")
        left = row_count(engine, raw)
    return OpenLog(read, left, notes)


def _add(run: Run, log: str, relation: str, source: LogSource, reads: str | None = None) -> None:
    frame = run.frames.get(_frame_of(log))
    if frame is None:
        run.engine.add_log(relation, source.with_unit(run.experiment.unit), reads)
    else:
        run.engine.add_frame(relation, frame, source, reads)


def _frame_of(log: str) -> str:
    """What the frame of a log is called; that of an outcome log by its own name."""
    return log.removeprefix(OUTCOME)


def _filter(run: Run, log: str, where: str, rows: str, kept: str) -> int:
    """Show the rows for which an expression is true; return their number."""
    try:
        run.engine.view(kept, f"select * from {rows} where coalesce(({where}), false)")
        return row_count(run.engine, kept)
    except QueryError as error:
        raise ExperimentError(
            f"logs.{log}.where: {where!r} cannot be computed: {_reason(error)}",
            f"it is true or false by row; the log has: {', '.join(run.engine.columns(rows))}",
        ) from error


def _answer(run: Run, log: str, query: str, rows: str) -> None:
    """Keep the answer of a query over the log's own rows and the tables of the file."""
    relations = {OWN_TABLE: rows} if rows else {}
    for name, source in run.experiment.tables.items():
        relations[name] = f"table_{name}"
        _add(run, name, relations[name], source)
    named = ", ".join(f"{name} as (select * from {rel})" for name, rel in relations.items())
    sql = f"with {named} select * from (\n{query}\n) as answer"
    try:
        # A table, because a query may be dear, or have another answer each time.
        run.engine.table(relation_of("raw", log), sql)
    except QueryError as error:
        columns = {name: ", ".join(run.engine.columns(rel)) for name, rel in relations.items()}
        raise ExperimentError(
            f"logs.{log}.query cannot be run: {_reason(error)}",
            f"it may read {'; '.join(f'{name}: {has}' for name, has in columns.items())}",
        ) from error


def _reason(error: QueryError) -> str:
    return error.what.partition(" could not run a query: ")[2] or error.what


def _line(sql: str) -> str:
    return " ".join(sql.split())
