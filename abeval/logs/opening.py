"""Opens logs: from Python, from files or a table, through filter and query; counts their rows.

`prepare.py` opens the logs of an analysis by it, `offline/candidates/` those of a replay.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from abeval.engines.protocol import Engine, whole_number
from abeval.errors import ExperimentError, LogError, QueryError
from abeval.experiment.model import OWN_TABLE, ROW_UNIT, Experiment, LogSource
from abeval.logs import checks
from abeval.logs.files import FileFacts, empty_note, file_facts, lacking_columns, lacking_note
from abeval.logs.mapping import LogColumns, map_columns
from abeval.logs.run import Run


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


_ROWS = "impressions"
"""A table of units is read as one impression of each."""


def open_logs(run: Run) -> OpenLogs:
    """Make every log readable as `raw_NAME`, map its columns, and count its rows.

    Raises:
        LogError: A log cannot be read, or only in part.
        ExperimentError: A filter or a query cannot be computed.
    """
    experiment, engine = run.experiment, run.engine
    checks.check_frames(experiment, run.frames)
    columns, files, rows, notes = dict[str, LogColumns](), dict[str, FileFacts](), {}, list[str]()
    for log in ("impressions", "units", "clicks", "items", "exposures"):
        source: LogSource | None = getattr(experiment.logs, log)
        if source is None:
            continue
        opened = open_log(engine, experiment, run.frames, log)
        unit = experiment.unit if log not in ("clicks", "items") else ROW_UNIT
        types = engine.columns(f"raw_{log}")
        columns[log] = map_columns(log, source, types, None if unit == ROW_UNIT else unit)
        framed = log in run.frames
        files[log] = FileFacts() if framed else file_facts(log, source, experiment.folder)
        check_all_read(log, opened.read, files[log])
        rows[log] = opened.rows
        notes += opened.notes
    if experiment.of_units:
        engine.view(f"raw_{_ROWS}", "select * from raw_units")
    return OpenLogs(columns, files, rows, notes)


def check_all_read(log: str, rows: int, facts: FileFacts) -> None:
    """Refuse a log of which fewer or more rows were read than its files have.

    Raises:
        LogError: With both numbers.
    """
    if facts.rows is None or rows == facts.rows or (facts.are_lines and rows > facts.rows):
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
        mapped = lacking_columns(facts, list(opened.columns[log].mapped.values()))
        yield from empty_note(log, facts)
        yield from lacking_note(log, facts, lacking.get(log, mapped))


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


def open_log(
    engine: Engine, experiment: Experiment, frames: Mapping[str, object], log: str
) -> OpenLog:
    """Make a log of the experiment readable as `raw_NAME`.

    Raises:
        LogError: It cannot be read.
        ExperimentError: Its filter or its query cannot be computed.
    """
    source: LogSource = getattr(experiment.logs, log)
    is_plain = source.where is None and source.query is None
    rows = f"raw_{log}" if is_plain else f"log_{log}"
    # A query may read [tables] only.
    if log in frames or source.table is not None or source.paths or source.query is None:
        _add(engine, experiment, frames, log, rows, source)
    else:
        rows = ""
    read = left = _count(engine, rows) if rows else 0
    notes = []
    if source.where is not None:
        kept = f"raw_{log}" if source.query is None else f"kept_{log}"
        left = _filter(engine, log, source.where, rows, kept)
        notes.append(
            f"The {log} are {left:,} of {read:,} rows of the log, where {_line(source.where)}."
        )
        rows = kept
    if source.query is not None:
        notes.append(_answer(engine, experiment, frames, log, source.query, rows))
        left = _count(engine, f"raw_{log}")
    return OpenLog(read, left, notes)


def _count(engine: Engine, relation: str) -> int:
    return whole_number(engine, f"select count(*) from {relation}")


def _add(
    engine: Engine,
    experiment: Experiment,
    frames: Mapping[str, object],
    name: str,
    relation: str,
    source: LogSource,
) -> None:
    if name in frames:
        engine.add_frame(relation, frames[name], source)
    else:
        engine.add_log(relation, source.with_unit(experiment.unit))


def _filter(engine: Engine, log: str, where: str, rows: str, kept: str) -> int:
    """Show the rows for which an expression is true; return their number."""
    try:
        engine.view(kept, f"select * from {rows} where coalesce(({where}), false)")
        return _count(engine, kept)
    except QueryError as error:
        columns = ", ".join(engine.columns(rows))
        what = f"logs.{log}.where: {where!r} cannot be computed: {_reason(error)}"
        raise ExperimentError(
            what, f"it is true or false by row; the log has: {columns}"
        ) from error


def _answer(
    engine: Engine,
    experiment: Experiment,
    frames: Mapping[str, object],
    log: str,
    query: str,
    rows: str,
) -> str:
    """Keep the answer of a query over the log's own rows and the tables of the file."""
    relations = {OWN_TABLE: rows} if rows else {}
    for name, source in experiment.tables.items():
        relations[name] = f"table_{name}"
        _add(engine, experiment, frames, name, relations[name], source)
    named = ", ".join(f"{name} as (select * from {rel})" for name, rel in relations.items())
    text = query.strip().rstrip(";")
    try:
        # A table, because a query may be dear, or have another answer each time.
        engine.table(f"raw_{log}", f"with {named} select * from (\n{text}\n) as answer")
    except QueryError as error:
        known = "; ".join(f"{n}: {', '.join(engine.columns(r))}" for n, r in relations.items())
        what = f"logs.{log}.query cannot be run: {_reason(error)}"
        raise ExperimentError(what, f"it may read {known}") from error
    return f"The {log} are the answer of a query: {_line(text)}."


def _reason(error: QueryError) -> str:
    return error.what.partition(" could not run a query: ")[2] or error.what


def _line(sql: str) -> str:
    return " ".join(sql.split())
