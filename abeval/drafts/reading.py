"""Find how files are read: which table, in which encoding, with which decimal sign."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.encodings import likely_encodings
from abeval.engines.sources import Files, files_of
from abeval.engines.text_files import decimal_commas
from abeval.errors import LogError
from abeval.experiment.load import reading
from abeval.experiment.sources import LogSource


@dataclass(frozen=True)
class Reading:
    """How a file, or a table of it, is read.

    Attributes:
        entries: As a log has them in the experiment file.
        reasons: Entry that nobody named → how sure it is, and why.
        columns: The names of its columns.
    """

    entries: Mapping[str, str]
    reasons: Mapping[str, str]
    columns: tuple[str, ...]

    @property
    def questions(self) -> list[str]:
        """Ask about entries that are not sure."""
        return [
            f"{key}: is it {self.entries[key]!r}? {reason.removeprefix('not sure: ')}"
            for key, reason in self.reasons.items()
            if reason.startswith("not sure")
        ]


PLAIN = Reading({}, {}, ())
"""How frames are read, and files that need no entries."""


def readings_of(engine: DuckDBEngine, file: Path, named: Mapping[str, str]) -> list[Reading]:
    """Find how a file or a folder is read; of a database each of several tables is one."""
    plain = LogSource(path=str(file), format=reading(named).get("format", "auto"))
    files = files_of("file", plain, Path())
    own = {key: value for key, value in named.items() if files.takes(key)}
    tables = [] if "table" in own else engine.tables_in(files)
    if len(tables) > 1:
        return [_reading(engine, files, file, {**own, "table": table}) for table in tables]
    return [_reading(engine, files, file, own)]


def _reading(engine: DuckDBEngine, files: Files, file: Path, entries: dict[str, str]) -> Reading:
    """Read a file into the relation `raw_file`, and change what does not fit it."""
    relation, reasons = f"raw_file {file} {entries.get('table', '')}", dict[str, str]()

    def add() -> None:
        engine.add_log(relation, LogSource.model_validate({"path": str(file), **entries}))
        engine.spare(relation)

    try:
        add()
    except LogError:
        guesses = {} if "encoding" in entries or files.kind != "csv" else _encodings(files)
        if not guesses:
            raise
        entries["encoding"], *others = guesses
        words = ", ".join(f"{word!r} in {encoding}" for encoding, word in guesses.items())
        certainty = "not sure" if others else "likely"
        reasons["encoding"] = f"{certainty}: it is not UTF-8, and has words such as {words}"
        add()
    if files.takes("decimal") and "decimal" not in entries:
        texts = [name for name, kind in engine.columns(relation).items() if kind == "VARCHAR"]
        commas = decimal_commas(relation, texts, engine.rows)
        if commas:
            entries["decimal"] = ","
            column, example = min(commas.items(), key=lambda one: _is_of_thousands(one[1]))
            certainty = "not sure" if _is_of_thousands(example) else "likely"
            reasons["decimal"] = f"{certainty}: {column} has values such as {example}"
            add()
    return Reading(entries, reasons, tuple(engine.columns(relation)))


def _encodings(files: Files) -> dict[str, str]:
    """Return likely encodings of the first file that is not UTF-8, each with a word of it."""
    return next(filter(None, map(likely_encodings, files.read)), {})


def _is_of_thousands(number: str) -> bool:
    """Tell whether a comma may as well stand between thousands."""
    return re.fullmatch(r"[+-]?\d{1,3},\d{3}", number.strip()) is not None
