"""Draft an experiment file for files or a frame."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from abeval.drafts import guess
from abeval.drafts.columns import Table
from abeval.drafts.counts import counts_draft
from abeval.drafts.design import Period, models_guess, period_guess
from abeval.drafts.guess import Arms, Guess, arms_of, variant_of
from abeval.drafts.origins import Origin, tables_of
from abeval.drafts.others import Named, Other, main_table, moment, others_of, with_key
from abeval.drafts.write import Tables, experiment_text, has_ctr
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.sql import quoted
from abeval.errors import LogError
from abeval.metrics.builtin import builtin_metrics


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
        return _drafted(engine, *tables_of(engine, files, folder, read or {}), name)


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
        table = guess.looked(engine, "raw_impressions")
        return _drafted(engine, [table], {table.relation: Origin("")}, name)


def _drafted(
    engine: DuckDBEngine, tables: Sequence[Table], origins: Mapping[str, Origin], name: str
) -> Draft:
    if len(tables) == 1:
        path = next(iter(origins[tables[0].relation].files), None)
        counts = counts_draft(engine, tables[0], path, name)
        if counts is not None:
            return Draft(*counts)
    named = [Named(engine, table, origins[table.relation].name) for table in tables]
    first = main_table(named)
    rest = [one for one in named if one is not first]
    first = with_key(first, rest)
    if first.table.rows == 0:
        raise LogError("the table has no rows", "give files with data")
    main, where, asked = guess.staged(engine, first.table)
    if where:
        origin = origins[first.table.relation]
        both = f"({origin.where}) and {where}" if origin.where else where
        asked = f"{origin.question} {asked}".strip()
        origins = {**origins, main.relation: replace(origin, where=both, question=asked)}
    unit, time = guess.unit_guess(main), guess.time_guess(main)
    one_row = guess.has_one_row(unit)
    others = others_of(rest, first)
    of_units = guess.is_of_units(main, unit, time) and not any(other.kind for other in others)
    variant, arms, period = _assigned(engine, main, others, one_row, is_timed=not of_units)
    taken = {g.column.name for g in (unit, variant, time) if g.column is not None}
    own = [unit, variant, guess.no_time(time) if of_units else time]
    own += [Guess(key, c, "likely", "another log names it") for key, c in first.keys.items()]
    taken |= {column.name for column in first.keys.values()}
    canonical = [] if of_units else list(guess.canonical_guesses(main, taken))
    own += canonical if guess.OF_ROWS & {g.entry for g in canonical} else []
    taken |= {g.column.name for g in own if g.column is not None}
    models = None if arms is None or of_units else models_guess(main, arms, taken)
    taken |= {column.name for column in models.scores.values()} if models else set()
    own += guess.value_guesses(main, taken)
    taken |= {g.column.name for g in own if g.column is not None}
    own += guess.segment_guesses(main, taken)
    own = list(guess.settled(engine, main, own, arms, has_ctr(own, others)))
    parts = Tables(main, origins, others, one_row, of_units, period, models)
    text, questions = experiment_text(name, own, arms, parts, frozenset(builtin_metrics(30, 30)))
    own += [
        Guess(f"{other.kind}: {origins[other.table.relation].name}", None, "likely", other.reason)
        for other in others
        if other.kind is not None
    ]
    if period is not None:
        own.append(Guess("period", None, "likely", f"from {period.start} on: {period.reason}"))
    return Draft(text, tuple(own), questions)


def _assigned(
    engine: DuckDBEngine, main: Table, others: Sequence[Other], one_row: bool, is_timed: bool
) -> tuple[Guess, Arms | None, Period | None]:
    """Guess the variant and the period by the main table, else by the exposures beside it."""
    period = period_guess(engine, main, main) if is_timed else None
    inside = _since(engine, main, period)
    variant = variant_of(engine, inside, one_row)
    if period and (variant.column is None or variant.column.name != period.variant):
        period, inside, variant = None, main, variant_of(engine, main, one_row)
    if variant.column is None and not any(other.kind for other in others):
        variant = variant_of(engine, inside, one_row, weakly=True)
    exposures = next((other.table for other in others if other.kind == "exposures"), None)
    if variant.column is not None or exposures is None:
        return variant, arms_of(engine, inside, variant), period
    period = period_guess(engine, main, exposures)
    variant = variant_of(engine, exposures, False)
    reason = f"the exposures say it; {variant.reason}"
    arms = arms_of(engine, exposures, variant)
    return replace(variant, column=None, reason=reason), arms, period


def _since(engine: DuckDBEngine, table: Table, period: Period | None) -> Table:
    """Return the rows of a table since the period began."""
    time = guess.time_guess(table).column
    if period is None or time is None:
        return table
    rows = f"select * from {quoted(table.relation)} where {moment(time)} >= "
    engine.view("raw_since", f"{rows} timestamp '{period.start.isoformat()}'")
    return guess.looked(engine, "raw_since")
