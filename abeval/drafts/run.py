"""Draft an experiment file for files or a frame, with questions for a person."""

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from abeval.drafts import counts, guess, values, words
from abeval.drafts.columns import Origin, Period, Table
from abeval.drafts.counts import CallerNames, CountTable, parse_number
from abeval.drafts.guess import Guess, describe_nameless_variant, guess_variant
from abeval.drafts.kinds import Kind, Log, choose_main_log
from abeval.drafts.origins import make_tables, split_types
from abeval.drafts.reshape import reshape_table
from abeval.drafts.values import guess_models
from abeval.drafts.variants import VariantUnits, make_variant_units
from abeval.drafts.write import Findings, write_experiment_file
from abeval.engines.duckdb import DuckDBEngine
from abeval.errors import LogError, QueryError
from abeval.experiment.load import check_read_options, make_source
from abeval.experiment.problems import suggest_near_name
from abeval.experiment.sources import IDS, ROW_UNIT
from abeval.logs.run import extract_reason


@dataclass(frozen=True)
class Draft:
    """A drafted experiment file, its guesses, and questions for a person."""

    text: str
    guesses: tuple[Guess, ...]
    questions: tuple[str, ...]

    def list_logs(self) -> list[str]:
        """List the logs of the file, as `impressions` or `events.orders`."""
        logs = tomllib.loads(self.text)["logs"]
        events = [f"events.{name}" for name in logs.get("events", ())]
        return [*(log for log in logs if log != "events"), *events]


def draft_files(
    files: Sequence[Path],
    folder: Path,
    name: str = "experiment",
    read: Mapping[str, str] | None = None,
) -> Draft:
    """Draft a file for one table, or for an impression log and its other logs.

    `read` says how the files are read, as entries of a log do.
    """
    entries = read or {}
    form = check_read_options(entries).get("format", "auto")
    with _open_engine(files, form) as engine:
        try:
            tables = make_tables(engine, files, folder, entries, Origin())
            return _draft_tables(engine, tables, name)
        except QueryError as error:
            if (reason := extract_reason(error)) == error.what:
                raise
            what = f"{' and '.join(map(str, files))} cannot be read: {reason}"
            raise LogError(
                what, "if it has a view that fails, name a table: --read table=…"
            ) from error


@contextmanager
def _open_engine(files: Sequence[Path], format: str = "auto") -> Iterator[DuckDBEngine]:
    """Open an engine that reads these files, and copies of them."""
    with closing(DuckDBEngine(folder=Path())) as engine:
        sources = [make_source({"path": str(file), "format": format}) for file in files]
        # The files of a folder may be of several kinds.
        engine.confine(sources, [str(file) for file in files if file.is_dir()], with_copies=True)
        yield engine


def draft_frames(logs: Mapping[str, object], named: Mapping[str, str], name: str) -> Draft:
    """Draft a file for logs by name: frames, or paths of files.

    Args:
        logs: `impressions` or a table first, then `clicks`, `items`, `exposures`.
        named: `unit` and `variant` → their columns, where the caller says them.
        name: The experiment's.

    Raises:
        LogError: A log is not what its name says.
    """
    tables = list[Table]()
    paths = {key: Path(log) for key, log in logs.items() if isinstance(log, str | Path)}
    with _open_engine([*paths.values()]) as engine:
        for key, log in logs.items():
            origin = Origin(name=key, named=named)
            if key in paths:
                tables += make_tables(engine, [paths[key]], Path(), {}, origin)
            else:
                engine.add_frame(f"raw_{key}", log)
                table = guess.inspect_table(engine, reshape_table(engine, f"raw_{key}", origin))
                tables += split_types(engine, table, is_alone=len(logs) == 1)
        _check_named(tables, named)
        draft = _draft_tables(engine, tables, name)
    for key in [*logs][1:]:
        if key not in draft.list_logs():
            why = [q for q in draft.questions if f"{key}:" in q or f"{key} is not used" in q]
            hint = "; ".join(why) or "no column has values of the impressions"
            raise LogError(f"the {key} do not fit the impressions", hint)
    return draft


def _check_named(tables: Sequence[Table], named: Mapping[str, str]) -> None:
    """Raise if a column that the caller names is not there (`LogError`)."""
    names = [column.name for column in tables[0].columns]
    for entry, name in named.items():
        # Exposures may say the variant.
        logs = tables if entry == "variant" else tables[:1]
        if name != ROW_UNIT and all(log.find_named(entry) is None for log in logs):
            near = suggest_near_name(name, names)
            hint = f"it has: {', '.join(names)}"
            raise LogError(f"{entry}: the log has no column {name!r}{near}", hint)


def _draft_tables(engine: DuckDBEngine, tables: Sequence[Table], name: str) -> Draft:
    is_one = len(tables) == 1
    count_table = counts.read_counts(engine, tables[0], CallerNames()) if is_one else None
    findings = (
        _describe_logs(engine, tables)
        if count_table is None
        else _describe_counts(tables[0], count_table)
    )
    file = write_experiment_file(name, findings)
    used = [log for log in findings.other_logs if log.kind is not None]
    extra_guesses = [Guess(f"{log.kind}: {log.name}", None, "likely", log.reason) for log in used]
    if findings.period is not None:
        reason = f"from {findings.period.start} on: {findings.period.reason}"
        extra_guesses.append(Guess("period", None, "likely", reason))
    return Draft(file.text, (*findings.guesses, *extra_guesses), tuple(file.questions))


def _describe_counts(table: Table, count_table: CountTable) -> Findings:
    """Describe the columns of a table of counts as findings."""
    columns = {column.name: column for column in table.columns}
    variant, n = columns[count_table.variant], count_table.outcomes[0].n
    units = Counter[str]()
    for row in count_table.rows:
        units[row[count_table.variant]] += int(parse_number(row[n]) or 0)
    day_note = "; 'day': days are the units" if count_table.day else ""
    reason = f"'row': each of the {n} was assigned by itself{day_note}"
    guesses = [Guess("unit", None, "likely", reason)]
    guesses.append(Guess("variant", variant, "likely", f"{len(units)} values"))
    for outcome in count_table.outcomes:
        is_mean = outcome.spread is not None
        reason = f"a mean, with {outcome.spread}" if is_mean else f"of {outcome.n}"
        question = f"direction: is more {outcome.metric} better, or less? Say its `direction`"
        is_asked = is_mean and not words.mentions_role(outcome.metric, "outcome", "cost")
        question = question if is_asked else ""
        counted = Guess("outcome", columns[outcome.column], "likely", reason, question)
        counted = replace(counted, over=columns[outcome.n], name=outcome.metric)
        is_cost = words.mentions_role(outcome.column, "cost")
        guesses.append(replace(counted, is_share=not is_mean, decreases=is_cost))
    segments = count_table.segments if count_table.day is None else ()
    guesses += [Guess("segment", columns[part], "likely", "text") for part in segments]
    # The draft names no unit: whatever the counts leave open is asked.
    for question in counts.list_questions(count_table, ""):
        table = guess.add_question(table, question)
    main = Log(table, {"variant": variant}, variant, "sums")
    return Findings(main, (), guesses, make_variant_units(units), counts.name_unit(n), one_row=True)


def _describe_logs(engine: DuckDBEngine, tables: Sequence[Table]) -> Findings:
    """Guess the kinds of the tables, and the columns of the main one."""
    first, others = choose_main_log(engine, tables)
    if first.table.rows == 0:
        raise LogError("the table has no rows", "give files with data")
    table = guess.drop_earlier_stage(engine, first.table)
    unit, time = guess.guess_unit(table), guess.guess_time(table)
    by_unit = guess.holds_units(table, unit, time) and not any(log.kind for log in others)
    table = replace(table, period=None if by_unit else table.period)
    variant, arms, period, others = _guess_assignment(engine, table, others)
    guesses = [unit, variant, _judge_time(time, unit, by_unit)]
    models = None
    if not by_unit:
        guesses = _add_log_columns(guesses, table, first, others)
        models = guess_models(table, arms, _list_names(guesses)) if arms else None
    named = {g.entry: g.column for g in guesses if g.column is not None}
    columns = {"unit_id" if entry == "unit" else entry: c for entry, c in named.items()}
    taken = _list_names(guesses) | {c.name for c in (models.scores.values() if models else ())}
    guesses += values.guess_values(table, taken)
    guesses += guess.guess_segments(table, taken | _list_names(guesses))
    kind: Kind = "units" if by_unit else "impressions"
    main = Log(table, columns, variant.column, kind)
    name = unit.column.name if unit.column else ROW_UNIT
    one_row = guess.has_one_row(unit)
    findings = Findings(main, others, guesses, arms, name, one_row, period, models)
    final_guesses = values.settle_doubts(engine, table, guesses, arms, findings.has_ctr)
    return replace(findings, guesses=tuple(final_guesses))


def _judge_time(time: Guess, unit: Guess, by_unit: bool) -> Guess:
    """Ask about the time of rows where it is missing or may be another moment."""
    if by_unit:
        unread = f"; {time.column.name} is not read" if time.column else ""
        return Guess("ts", None, "likely", f"each unit has one row{unread}")
    if time.column is None:
        if unit.column is not None and unit.column.mentions_role("place"):
            return time
        question = "time: no column has times: what says when a row happened? Name it in `columns`"
        return replace(time, certainty="not sure", question=question)
    if not guess.has_one_row(unit) or not time.column.mentions_role("account_made"):
        return time
    question = (
        f"time: was each unit exposed at its {time.column.name}? The exposure decides which rows "
        "of other logs count; if it was another time, name that one in `columns`"
    )
    return replace(time, certainty="not sure", question=question)


def _add_log_columns(
    guesses: Sequence[Guess], table: Table, main: Log, others: Sequence[Log]
) -> list[Guess]:
    """Add the columns of a log to unit, variant and time.

    Columns of clicks are found by their values.
    """
    unit, variant, time = guesses
    log_guesses = list[Guess]()
    if any(log.kind == "clicks" for log in others):
        columns = {e: c for e, c in main.columns.items() if e in IDS and e != "unit_id"}
        reason = "the clicks have its values"
        log_guesses = [Guess(entry, column, "likely", reason) for entry, column in columns.items()]
        if "ts" in main.columns and main.columns["ts"] != time.column:
            time = Guess("ts", main.columns["ts"], "likely", "the clicks follow it")
    log_guesses = [unit, variant, time, *log_guesses]
    entries = {g.entry for g in log_guesses}
    canonical = [
        g
        for g in guess.guess_log_columns(table, _list_names(log_guesses))
        if g.entry not in entries
    ]
    # Without a column of rows, a score is a property of the unit.
    if not guess.ROW_COLUMNS & {g.entry for g in canonical}:
        canonical = []
    clicks = [] if others else [*guess.guess_clicks(table, log_guesses)]
    return [*log_guesses, *canonical, *clicks]


def _list_names(guesses: Sequence[Guess]) -> set[str]:
    """Return the names of the columns that have a guess."""
    return {candidate.column.name for candidate in guesses if candidate.column is not None}


def _guess_assignment(
    engine: DuckDBEngine, main: Table, others: list[Log]
) -> tuple[Guess, VariantUnits | None, Period | None, list[Log]]:
    """Guess the variant and the period, from the main table or from the exposures.

    Returns the other logs, too: if nothing else has variants, one becomes the exposures.
    """
    variant = guess_variant(engine, main)
    if main.period and (variant.column is None or variant.column.name != main.period.variant):
        main = replace(main, period=None)
        variant = guess_variant(engine, main)
    if not any(log.kind == "exposures" for log in others):
        variant = _guess_weakly(engine, main, variant)
        others = others if variant.column is not None else _choose_exposures(engine, others)
    exposures = next((log.table for log in others if log.kind == "exposures"), None)
    if variant.column is not None or exposures is None:
        return variant, guess.read_variant_units(engine, main, variant), main.period, others
    told = guess_variant(engine, exposures)
    variant = _guess_weakly(engine, exposures, told)
    arms = guess.read_variant_units(engine, exposures, variant)
    reason = f"the exposures say it; {variant.reason}"
    if variant is not told and variant.column is not None:
        where = f"{variant.column.name} of {exposures.origin.name}"
        question = f"variant: is it {where}? {variant.reason}"
        variant = replace(variant, certainty="not sure", question=question)
    variant = replace(variant, column=None, reason=reason)
    return variant, arms, guess.guess_period(engine, main, exposures), others


def _guess_weakly(engine: DuckDBEngine, table: Table, variant: Guess) -> Guess:
    """Guess a variant that is not found yet, by values alone, then by its name alone."""
    for way in ("weakly", "by_name"):
        # Another column would be a worse guess than the one that says who is treated.
        if variant.column is None and not describe_nameless_variant(table):
            variant = guess_variant(engine, table, **{way: True})
    return variant


def _choose_exposures(engine: DuckDBEngine, logs: list[Log]) -> list[Log]:
    """Read a file whose units have what may be a variant as exposures."""
    for log in (log for log in logs if log.kind in ("events", "units")):
        variant = guess_variant(engine, log.table, weakly=True).column
        if variant is not None:
            columns = {e: c for e, c in log.columns.items() if e in ("unit_id", "ts")}
            columns["variant"], why = variant, "units with what may be their variant"
            chosen = replace(log, kind="exposures", columns=columns, alias="", reason=why)
            return [chosen if other is log else other for other in logs]
    return logs
