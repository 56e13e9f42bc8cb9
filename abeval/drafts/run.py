"""Draft an experiment file for files or a frame."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from abeval.drafts import guess, words
from abeval.drafts.columns import Table, look
from abeval.drafts.counts import counts_draft
from abeval.drafts.guess import Arms, Guess, Other, arms_of, variant_of
from abeval.drafts.write import Tables, experiment_text
from abeval.engines.duckdb import DuckDBEngine
from abeval.errors import LogError
from abeval.experiment.sources import LogSource
from abeval.files import real
from abeval.metrics.builtin import builtin_metrics


@dataclass(frozen=True)
class Draft:
    """An experiment file with a comment on every guess, and questions that a person must answer."""

    text: str
    guesses: tuple[Guess, ...]
    questions: tuple[str, ...]


def draft_files(files: Sequence[Path], folder: Path, name: str = "experiment") -> Draft:
    """Draft a file for one table, or for an impression log and the logs beside it."""
    with closing(DuckDBEngine(folder=Path())) as engine:
        groups = _grouped(engine, files)
        tables = [look(engine, relation) for relation in groups]
        paths = {
            relation: [_from(folder, file) for file in group] for relation, group in groups.items()
        }
        return _drafted(engine, tables, paths, name)


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
        table = look(engine, "raw_impressions")
        return _drafted(engine, [table], {}, name)


def _grouped(engine: DuckDBEngine, files: Sequence[Path]) -> dict[str, list[Path]]:
    """Group files of the same columns, each group as a relation."""
    by_columns: dict[tuple[str, ...], list[Path]] = {}
    for place, file in enumerate(files):
        engine.add_log(f"raw_file_{place}", LogSource(path=str(file)))
        by_columns.setdefault(tuple(engine.columns(f"raw_file_{place}")), []).append(file)
    groups: dict[str, list[Path]] = {}
    for place, group in enumerate(by_columns.values()):
        engine.add_log(f"raw_table_{place}", LogSource(path=[str(file) for file in group]))
        groups[f"raw_table_{place}"] = group
    return groups


def _from(folder: Path, file: Path) -> str:
    """Return the path of a file as the experiment file names it."""
    try:
        return real(file).relative_to(real(folder)).as_posix()
    except ValueError:
        return real(file).as_posix()


def _drafted(
    engine: DuckDBEngine, tables: Sequence[Table], paths: dict[str, list[str]], name: str
) -> Draft:
    if len(tables) == 1:
        path = next(iter(paths.get(tables[0].relation, ())), None)
        counts = counts_draft(engine, tables[0], path, name)
        if counts is not None:
            return Draft(*counts)
    main = _main_table(engine, tables)
    if main.rows == 0:
        raise LogError("the table has no rows", "give files with data")
    unit = guess.unit_guess(main)
    one_row = unit.column is None or unit.column.distinct == main.rows
    others = guess.others_of(engine, [t for t in tables if t is not main], main, unit.column)
    variant, arms = _assigned(engine, main, others, one_row)
    time = guess.time_guess(main)
    taken = {g.column.name for g in (unit, variant, time) if g.column is not None}
    own = [unit, variant, time, *guess.canonical_guesses(main, taken)]
    taken |= {g.column.name for g in own if g.column is not None}
    own += guess.value_guesses(main, taken)
    taken |= {g.column.name for g in own if g.column is not None}
    own += guess.segment_guesses(main, taken)
    of_units = unit.column is not None and one_row and guess.is_of_unit(time)
    of_units = of_units and not any(g.entry in _OF_ROWS for g in own)
    if of_units:
        own[own.index(time)] = guess.no_time(time)
    parts = Tables(main, paths, others, one_row, of_units)
    text, questions = experiment_text(name, own, arms, parts, frozenset(builtin_metrics(30, 30)))
    return Draft(text, tuple(own), questions)


_OF_ROWS = ("click", *words.COLUMNS)
"""Entries of what a unit sees or does: a table with one of them is no table of units."""


def _assigned(
    engine: DuckDBEngine, main: Table, others: Sequence[Other], one_row: bool
) -> tuple[Guess, Arms | None]:
    """Guess the variant by the main table, else by the exposures beside it."""
    variant = variant_of(engine, main, one_row)
    exposures = next((other.table for other in others if other.kind == "exposures"), None)
    if variant.column is not None or exposures is None:
        return variant, arms_of(engine, main, variant)
    variant = variant_of(engine, exposures, False)
    reason = f"the exposures say it; {variant.reason}"
    return replace(variant, column=None, reason=reason), arms_of(engine, exposures, variant)


def _main_table(engine: DuckDBEngine, tables: Sequence[Table]) -> Table:
    """Choose the table that has both unit and variant; of several, the longest.

    Exposures are not the main one where another table says what units saw or did.
    """
    longest = max(tables, key=lambda t: (variant_of(engine, t, False).column is not None, t.rows))
    if not guess.shows_exposures(engine, longest):
        return longest
    return max(filter(guess.shows_rows, tables), key=lambda table: table.rows, default=longest)
