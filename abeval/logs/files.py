"""What the files of a log are: their rows, which are empty, lack a column or have another type.

`opening.py` asks it of each log that is read from files. The notes go to the result;
`aggregates/collect.py` counts the rows of the files that lack a column.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from abeval.engines import sources
from abeval.experiment.sources import LogSource

_SHOWN = 5


@dataclass(frozen=True)
class FileFacts:
    """What is to be known of the files of a log.

    Attributes:
        files: All that are read; empty if the log is no files of this machine.
        empty: Those without a byte, which hold no row.
        lacking: Column in lower case → the files that lack it, if others have it.
        rows: Number of rows that they have by themselves; None if that is not cheap to know.
        are_lines: Whether the rows were counted as lines, of which one row may have several.
        drift: Column in lower case → type → the files that have it so, if files differ.
        has_types: Whether a file says the types of its columns, which one of CSV does not.
    """

    files: Sequence[str] = ()
    empty: Sequence[str] = ()
    lacking: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rows: int | None = None
    are_lines: bool = False
    drift: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    has_types: bool = True


def file_facts(log: str, source: LogSource, folder: Path) -> FileFacts:
    """Look at the files of a log: of Parquet at the footers, of short text files at all lines.

    Raises:
        LogError: A file cannot be read.
    """
    if source.table is not None or not source.paths:
        return FileFacts()
    files = sources.files_of(log, source.paths, folder, source.format)
    if not files.are_local:
        return FileFacts(empty=files.empty)
    columns = columns_of_files(log, files) if len({*files.read}) > 1 else {}
    lacking, drift = dict[str, list[str]](), dict[str, dict[str, list[str]]]()
    for name in sorted(frozenset().union(*columns.values())):
        by_type: dict[str, list[str]] = {}
        for file, types in columns.items():
            by_type.setdefault(types.get(name, ""), []).append(file)
        by_type.pop("", None)
        lacks = [file for file in files.read if name not in columns[file]]
        lacking |= {name: lacks} if lacks else {}
        drift |= {name: by_type} if len(by_type) > 1 else {}
    is_lines, has_types = files.kind != "parquet", files.kind != "csv"
    rows = rows_of_files(log, files)
    return FileFacts(files.read, files.empty, lacking, rows, is_lines, drift, has_types)


def mixed_id(facts: FileFacts, column: str) -> str | None:
    """Which files have an id as text and which as a number; None where all have it alike.

    Read as one type, 12 and `0012` would be two ids. Ids of CSV are text anyhow.
    """
    by_type = facts.drift.get(column.lower(), {})
    texts = [file for kind in _TEXTS for file in by_type.get(kind, ())]
    numbers = [file for kind in _NUMBERS for file in by_type.get(kind, ())]
    if not (texts and numbers and facts.has_types):
        return None
    return f"text in {_names(texts)}, but a number in {_names(numbers)}"


_TEXTS = ("text", "UUIDType", "UUID")
_NUMBERS = ("number", "whole number", "DOUBLE", "FLOAT", "DecimalType")


def with_type(facts: FileFacts, column: str, kind: str) -> str:
    """` in FILE, …`: the files that have a column of this type, if others have another."""
    files = facts.drift.get(column.lower(), {}).get(kind, ())
    return f" in {_names(files)}" if files else ""


def lacking_columns(facts: FileFacts, read: Sequence[str]) -> list[str]:
    """The columns that are read, but that some files lack."""
    return [column for column in read if column.lower() in facts.lacking]


def notes_of(
    log: str, facts: FileFacts, read: Sequence[str], mapped: Sequence[str]
) -> Iterator[str]:
    """Sentences on files without a byte, and on columns that some files lack or type otherwise.

    Args:
        log: What the log is called.
        facts: Of its files.
        read: The columns that are read.
        mapped: Those with canonical names.
    """
    if facts.empty:
        count = "1 file" if len(facts.empty) == 1 else f"{len(facts.empty):,} files"
        yield f"The {log} have {count} without a byte: {_names(facts.empty)}."
    for column in lacking_columns(facts, read):
        lack = facts.lacking[column.lower()]
        yield (
            f"{len(lack):,} of {len(facts.files):,} files of the {log} lack the column {column!r}, "
            f"which is null in their rows: {_names(lack)}."
        )
    for column in mapped:
        by_type = facts.drift.get(column.lower(), {})
        if by_type:
            (most, usual), *others = sorted(by_type.items(), key=lambda one: -len(one[1]))
            listed = "; ".join(f"{kind} in {_names(files)}" for kind, files in others)
            yield (
                f"The column {column!r} of the {log} is {most} in {len(usual):,} of "
                f"{len(facts.files):,} files, but {listed}: its values are read as one type that "
                "holds them all."
            )


def _names(files: Sequence[str]) -> str:
    shown = ", ".join(Path(file).name for file in files[:_SHOWN])
    return shown if len(files) <= _SHOWN else f"{shown} and {len(files) - _SHOWN} more"
