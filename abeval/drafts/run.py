"""Draft an experiment file for files or a frame."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from abeval.drafts import guess, values, words
from abeval.drafts.columns import Origin, Table
from abeval.drafts.counts import CountTable, Named, counts_of, number, questions_of, unit_of
from abeval.drafts.design import Period, models_guess, period_guess
from abeval.drafts.guess import Arms, Guess, arms, arms_of, asked, variant_of
from abeval.drafts.origins import tables_of
from abeval.drafts.others import Kind, Log, main_and_others
from abeval.drafts.write import Findings, experiment_file
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.sql import quoted
from abeval.errors import LogError
from abeval.experiment.sources import ROW_UNIT


@dataclass(frozen=True)
class Draft:
    """An experiment file with a comment on every guess, and questions that a person must answer."""

    text: str
    guesses: tuple[Guess, ...]
    questions: tuple[str, ...]


def draft_files(
    files: Sequence[Path],
    folder: Path,
    name: str = "experiment",
    read: Mapping[str, str] | None = None,
) -> Draft:
    """Draft a file for one table, or for an impression log and the logs beside it.

    `read` says how the files are read, as entries of a log do.
    """
    with closing(DuckDBEngine(folder=Path())) as engine:
        return _drafted(engine, tables_of(engine, files, folder, read or {}), name)


def draft(frame: object, name: str = "experiment") -> Draft:
    """Draft a file for a frame: pandas, Polars, Arrow or a DuckDB relation.

    Example:
        >>> import pandas as pd
        >>> users = pd.DataFrame({"user_id": range(100), "group": ["control", "new"] * 50})
        >>> [g.column.name for g in draft(users).guesses if g.entry in ("unit", "variant")]
        ['user_id', 'group']
    """
    with closing(DuckDBEngine()) as engine:
        engine.add_frame("raw_impressions", frame)
        return _drafted(engine, [guess.looked(engine, "raw_impressions", Origin())], name)


def _drafted(engine: DuckDBEngine, tables: Sequence[Table], name: str) -> Draft:
    counts = counts_of(engine, tables[0], Named()) if len(tables) == 1 else None
    findings = _findings(engine, tables) if counts is None else _of_counts(tables[0], counts)
    file = experiment_file(name, findings)
    used = [log for log in findings.others if log.kind is not None]
    beside = [Guess(f"{log.kind}: {log.name}", None, "likely", log.reason) for log in used]
    if findings.period is not None:
        reason = f"from {findings.period.start} on: {findings.period.reason}"
        beside.append(Guess("period", None, "likely", reason))
    return Draft(file.text, (*findings.guesses, *beside), tuple(file.questions))


def _of_counts(table: Table, counts: CountTable) -> Findings:
    """Say what the columns of a table of counts are."""
    columns = {column.name: column for column in table.columns}
    variant, n = columns[counts.variant], counts.outcomes[0].n
    units = Counter[str]()
    for row in counts.rows:
        units[row[counts.variant]] += int(number(row[n]) or 0)
    by_day = "; 'day': days are the units" if counts.day else ""
    reason = f"'row': each of the {n} was assigned by itself{by_day}"
    guesses = [Guess("unit", None, "likely", reason)]
    guesses.append(Guess("variant", variant, "likely", f"{len(units)} values"))
    for one in counts.outcomes:
        is_mean = one.spread is not None
        reason = f"a mean, with {one.spread}" if is_mean else f"of {one.n}"
        question = f"direction: is more {one.metric} better, or less? Say its `direction`"
        is_asked = is_mean and not words.says(one.metric, "outcome", "cost")
        own = Guess("outcome", columns[one.column], "likely", reason, question if is_asked else "")
        own = replace(own, over=columns[one.n], name=one.metric, is_share=not is_mean)
        guesses.append(replace(own, decreases=one.is_worse))
    segments = counts.segments if counts.day is None else ()
    guesses += [Guess("segment", columns[part], "likely", "text") for part in segments]
    for question in questions_of(counts, ""):
        table = asked(table, question)
    main = Log(table, {"variant": variant}, variant, "sums")
    return Findings(main, (), guesses, arms(units), unit_of(n), one_row=True)


def _findings(engine: DuckDBEngine, tables: Sequence[Table]) -> Findings:
    """Guess what the tables are, and what the columns of the main one are."""
    first, others = main_and_others(engine, tables)
    if first.table.rows == 0:
        raise LogError("the table has no rows", "give files with data")
    table = guess.staged(engine, first.table)
    unit, time = guess.unit_guess(table), guess.time_guess(table)
    of_units = guess.is_of_units(table, unit, time) and not any(log.kind for log in others)
    if of_units:
        unread = f"; {time.column.name} is not read" if time.column else ""
        time = Guess("ts", None, "likely", f"each unit has one row{unread}")
    variant, own_arms, period = _assigned(engine, table, others, is_timed=not of_units)
    own = [unit, variant, time]
    key = first.columns.get("impression_id")
    if key is not None and not key.named("impression_id"):
        own.append(Guess("impression_id", key, "likely", "another log names it"))
    if not of_units:
        canonical = list(guess.canonical_guesses(table, _names(own)))
        own += canonical if guess.OF_ROWS & {g.entry for g in canonical} else []
    columns = {g.entry: g.column for g in own if g.column is not None}
    columns = {"unit_id" if entry == "unit" else entry: c for entry, c in columns.items()}
    models = models_guess(table, own_arms, _names(own)) if own_arms and not of_units else None
    scores = {column.name for column in models.scores.values()} if models else set()
    own += values.value_guesses(table, _names(own) | scores)
    own += guess.segment_guesses(table, _names(own) | scores)
    kind: Kind = "units" if of_units else "impressions"
    main = Log(table, columns, variant.column, kind)
    name = unit.column.name if unit.column else ROW_UNIT
    one_row = guess.has_one_row(unit)
    findings = Findings(main, others, own, own_arms, name, one_row, period, models)
    settled = values.settled(engine, table, own, own_arms, findings.has_ctr)
    return replace(findings, guesses=tuple(settled))


def _names(guesses: Sequence[Guess]) -> set[str]:
    """Return the names of columns that are taken for something."""
    return {guess.column.name for guess in guesses if guess.column is not None}


def _assigned(
    engine: DuckDBEngine, main: Table, others: Sequence[Log], is_timed: bool
) -> tuple[Guess, Arms | None, Period | None]:
    """Guess the variant and the period by the main table, else by the exposures beside it."""
    period, inside = period_guess(engine, main, main) if is_timed else None, main
    if period is not None:
        engine.view("raw_since", f"select * from {quoted(main.relation)} where {period.rows}")
        inside = replace(main, relation="raw_since")
    variant = variant_of(engine, inside)
    if period and (variant.column is None or variant.column.name != period.variant):
        period, inside, variant = None, main, variant_of(engine, main)
    if variant.column is None and not any(log.kind for log in others):
        variant = variant_of(engine, inside, weakly=True)
    exposures = next((log.table for log in others if log.kind == "exposures"), None)
    if variant.column is not None or exposures is None:
        return variant, arms_of(engine, inside, variant), period
    variant = variant_of(engine, exposures)
    reason = f"the exposures say it; {variant.reason}"
    period = period_guess(engine, main, exposures)
    return replace(variant, column=None, reason=reason), arms_of(engine, exposures, variant), period
