"""Opens one log: from Python, from files or a table, through its filter and its query.

`prepare.py` opens the logs of an analysis by it, `offline/candidates/` those of a replay.
"""

from collections.abc import Mapping

from abeval.engines.names import relation_of
from abeval.engines.protocol import Engine, whole_number
from abeval.errors import ExperimentError, QueryError
from abeval.experiment.model import OUTCOME, OWN_TABLE, Experiment, LogSource


def open_log(
    engine: Engine, experiment: Experiment, frames: Mapping[str, object], log: str
) -> list[str]:
    """Make a log of the experiment readable as `raw_NAME` (an outcome log as `raw_events_NAME`).

    Returns:
        Sentences on its filter and its query, for the reader of the result.

    Raises:
        LogError: It cannot be read.
        ExperimentError: Its filter or its query cannot be computed.
    """
    source = experiment.logs.named[log]
    is_plain = source.where is None and source.query is None
    raw = relation_of("raw", log)
    rows = raw if is_plain else relation_of("log", log)
    # A query may read [tables] only.
    if _frame_of(log) in frames or source.table is not None or source.paths or source.query is None:
        _add(engine, experiment, frames, log, rows, source)
    else:
        rows = ""
    notes = []
    if source.where is not None:
        kept = raw if source.query is None else relation_of("kept", log)
        notes.append(_filter(engine, log, source.where, rows, kept))
        rows = kept
    if source.query is not None:
        notes.append(_answer(engine, experiment, frames, log, source.query, rows))
    return notes


def _add(
    engine: Engine,
    experiment: Experiment,
    frames: Mapping[str, object],
    name: str,
    relation: str,
    source: LogSource,
) -> None:
    frame = frames.get(_frame_of(name))
    if frame is None:
        engine.add_log(relation, source.with_unit(experiment.unit))
    else:
        engine.add_frame(relation, frame, source)


def _frame_of(log: str) -> str:
    """What the frame of a log is called; that of an outcome log by its own name."""
    return log.removeprefix(OUTCOME)


def _filter(engine: Engine, log: str, where: str, rows: str, kept: str) -> str:
    """Show the rows for which an expression is true."""
    try:
        engine.view(kept, f"select * from {rows} where coalesce(({where}), false)")
        counts = [whole_number(engine, f"select count(*) from {name}") for name in (kept, rows)]
    except QueryError as error:
        columns = ", ".join(engine.columns(rows))
        what = f"logs.{log}.where: {where!r} cannot be computed: {_reason(error)}"
        raise ExperimentError(
            what, f"it is true or false by row; the log has: {columns}"
        ) from error
    rows_of = f"{counts[0]:,} of {counts[1]:,} rows of the log"
    return f"The {_frame_of(log)} are {rows_of}, where {_line(where)}."


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
        engine.table(relation_of("raw", log), f"with {named} select * from (\n{text}\n) as answer")
    except QueryError as error:
        known = "; ".join(f"{n}: {', '.join(engine.columns(r))}" for n, r in relations.items())
        what = f"logs.{log}.query cannot be run: {_reason(error)}"
        raise ExperimentError(what, f"it may read {known}") from error
    return f"The {_frame_of(log)} are the answer of a query: {_line(text)}."


def _reason(error: QueryError) -> str:
    return error.what.partition(" could not run a query: ")[2] or error.what


def _line(sql: str) -> str:
    return " ".join(sql.split())
