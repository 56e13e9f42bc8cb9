"""Find the files of logs, their kind, and the names of their relations."""

import csv
import glob
import os
import shlex
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from abeval import bounds
from abeval.engines import lakes
from abeval.engines.sql import literal
from abeval.engines.text_bytes import ENDS, check_compressed
from abeval.errors import LogError
from abeval.experiment.sources import OUTCOME, LogSource, Span
from abeval.files import check_readable, resolve_path

if TYPE_CHECKING:
    from abeval.experiment.model import Experiment

_ENDS = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".tsv", ".txt", ".dat", ".inter", ".tab"),
    "json": (".json", ".jsonl", ".ndjson"),
    "xlsx": (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"),
    "sqlite": (".sqlite", ".sqlite3"),
    "duckdb": (".duckdb", ".ddb"),
}
"""Format → how names of its files end; `.db` is SQLite or DuckDB, as the file itself says."""

_KINDS = {end: kind for kind, ends in _ENDS.items() for end in ends}
_DELIMITERS = ",;\t|"
_SQLITE = b"SQLite format 3\0"
_FOR = {
    **dict.fromkeys(("delimiter", "decimal", "encoding", "header"), ("csv",)),
    "sheet": ("xlsx",),
    "table": ("sqlite", "duckdb"),
}
"""Entry of a log → the formats that it applies to."""


@dataclass(frozen=True)
class Files:
    """Hold the files of a log, of one format, in the order of paths, then names.

    URLs count too. A table of a data lake is the one file of its log: its folder.

    Attributes:
        empty: Text files without a byte, which hold no row.
        variants: File → the variant of its rows, where paths say it.
        dialect: Options by which DuckDB reads CSV, as SQL.
        encoding: Of CSV that is not UTF-8.
    """

    kind: str
    read: Sequence[str]
    empty: Sequence[str] = ()
    variants: Mapping[str, str] = field(default_factory=dict)
    dialect: str = ""
    encoding: str | None = None

    @property
    def are_local(self) -> bool:
        """Tell whether all of them are files of this machine."""
        return not any("://" in file for file in self.read)

    def takes(self, key: str) -> bool:
        """Tell whether an entry of a log has a meaning for the files."""
        return key not in _FOR or self.kind in _FOR[key]

    @property
    def are_copied(self) -> bool:
        """Tell whether DuckDB reads copies, for want of a reader of its own."""
        return self.kind in ("xlsx", "sqlite", *lakes.NAMES) or self.encoding is not None


def find_span(source: LogSource, files: Files, types: Mapping[str, str]) -> tuple[str, Span] | None:
    """Find the time column of a log, and the span of the rows that are read.

    Rows outside of the span are left out. None if every row is read: without a span, without such a
    time, or if the files are of this machine and without partitions. Partitions and tables of a
    data lake may hold years.
    """
    is_remote = files.kind == "parquet" and not files.are_local
    is_partitioned = files.kind == "parquet" and bool(find_partition_columns(files.read))
    if source.span is None or not (is_remote or is_partitioned or files.kind in lakes.NAMES):
        return None
    name = source.columns.get("ts", "ts").lower()
    times = (c for c, kind in types.items() if kind.startswith(("TIMESTAMP", "DATE")))
    return next(((column, source.span) for column in times if column.lower() == name), None)


def find_files(log: str, source: LogSource, folder: Path) -> Files:
    """List the files of a log: each path is a file, a folder, or a glob.

    Of a folder, these are all files in it, at any depth, except those that engines hide: names that
    begin with `_` or `.`. A glob reads hidden folders only where it names them. The folder of a
    table of a data lake stands for the table.

    Raises:
        LogError: A path has no file, the formats are mixed or unknown, an entry is for another
            format, all files are empty, or one that cannot be empty, or is a part of such a table;
            a compressed file is cut, damaged, or none.
    """
    if not source.paths:
        raise LogError(
            f"no path or table for {log}",
            f"give logs.{log}.path or .table, or pass a frame from Python",
        )
    files, variants = list[str](), dict[str, str]()
    for variant, paths in source.paths_by_variant.items():
        for file in (file for path in paths for file in _match_files(log, path, folder)):
            files.append(file)
            if variant is not None and variants.setdefault(file, variant) != variant:
                what = f"{log}: {file} is of the variants {variants[file]!r} and {variant!r}"
                raise LogError(what, f"give each variant files of its own in logs.{log}.path")
    if len(files) > bounds.MAX_FILES:
        what = f"{log}: {len(files):,} files, but at most {bounds.MAX_FILES:,} are read"
        raise LogError(what, "narrow the path to the days that are needed, or write larger files")
    kind = _find_kind(log, files, source.format)
    for key, kinds in _FOR.items():
        if getattr(source, key) is not None and kind not in kinds:
            raise LogError(f"{files[0]}: `{key}` is for {' and '.join(kinds)}", "remove it")
    if kind in lakes.NAMES and (len(files) > 1 or variants):
        what = f"{log}: {files[0]} is {lakes.NAMES[kind]}, of which a log is only one"
        raise LogError(what, "write the rows of several into one table, with a column of variants")
    empty = [file for file in files if Path(file).is_file() and not Path(file).stat().st_size]
    broken = [f for f in empty if kind not in ("csv", "json") or f.lower().endswith(ENDS)]
    # A set, since a log may have thousands of files.
    without_byte = frozenset(empty)
    read = [file for file in files if file not in without_byte]
    if broken or not read:
        raise LogError(
            f"{log}: {[*broken, *empty][0]} is empty",
            "the file may be incomplete: write it again, or remove it",
        )
    for file in read:
        check_compressed(log, file)
    if kind != "csv":
        return Files(kind, read, empty, variants)
    given = (("delim", source.delimiter), ("decimal_separator", source.decimal))
    options = [f"{key} = {literal(value)}" for key, value in given if value is not None]
    dialect = ", ".join([f"header = {source.header is not False}", *options])
    return Files(
        kind, read, empty, variants, dialect, source.encoding or _find_encoding_mark(read[0])
    )


def _find_encoding_mark(file: str) -> str | None:
    """Find the encoding that a text file's byte order mark names, if not UTF-8."""
    if "://" in file or file.lower().endswith(ENDS):
        return None
    with Path(file).open("rb") as content:
        return "utf-16" if content.read(2) in (BOM_UTF16_LE, BOM_UTF16_BE) else None


def write_entry(log: str, key: str, value: str) -> str:
    """Write how to set an entry of a log: in the file, or by an option.

    Example:
        >>> write_entry("clicks", "sheet", "May"), write_entry("table", "sheet", "May")
        ('sheet = "May" in [logs.clicks]', '--read sheet=May (in Python: read={"sheet": "May"})')
    """
    if log in ("table", "raw_table") or log.startswith(("table_", "file")):
        return f'--read {key}={shlex.quote(value)} (in Python: read={{"{key}": "{value}"}})'
    return f'{key} = "{value}" in [logs.{log}]'


def choose(log: str, file: str, key: str, choice: str | None, names: Sequence[str]) -> str:
    """Choose the table or sheet of a file by name, or the only one.

    Raises:
        LogError: There are several, or none of that name.
    """
    # Not at the top: engines are opened without an experiment too.
    from abeval.experiment.problems import suggest_name

    if choice is None and len(names) == 1:
        return names[0]
    choices = ", ".join(map(repr, names[:20])) + (", …" if len(names) > 20 else "")
    if choice is None:
        what = f"{file} has {len(names)} {key}s with columns{': ' if names else ''}{choices}"
        raise LogError(what, f"name one: {write_entry(log, key, names[0])}" if names else None)
    by_lower = {name.lower(): name for name in reversed(names)}
    if choice not in names and choice.lower() not in by_lower:
        what = f"{file}: there is no {key} {choice!r}{suggest_name(choice, names)}"
        raise LogError(what, f"it has {choices or 'none'}" if len(names) > 12 else None)
    return choice if choice in names else by_lower[choice.lower()]


def _match_files(log: str, path: str, folder: Path) -> list[str]:
    fixed = next((i for i, part in enumerate(Path(path).parts) if glob.has_magic(part)), None)
    check_readable(path if "://" in path else folder.joinpath(*Path(path).parts[:fixed]), path)
    if "://" in path:
        return [path]
    full = folder / path
    try:
        if full.exists() and not (full.is_file() or full.is_dir()):
            what = f"{log}: {full} is a device or a pipe, but a log is read more than once"
            raise LogError(what, "write its rows to a file")
        matches = [str(full)] if full.is_file() else _expand_glob(path, folder)
        files = _list_folder(full) if full.is_dir() else matches
        lakes.check_outside(log, files)
    except OSError as error:
        raise LogError(f"{log}: {full} cannot be read: {error.strerror}") from error
    if not files:
        hint = "check the path; relative paths start at the experiment file, if there is one"
        raise LogError(f"no {'' if log == 'file' else 'file of '}{log} matches {full}", hint)
    for file in files:
        check_readable(file, path)
        if not file.encode(errors="replace").decode() == file:
            raise LogError(f"the name of {file!r} has bytes that are no UTF-8", "rename it")
    return sorted(files)


def _list_folder(folder: Path) -> list[str]:
    """List the files of a folder at any depth."""
    files, seen = list[str](), set[Path]()

    def fail(error: OSError) -> None:
        raise error

    for here, folders, names in os.walk(folder, onerror=fail, followlinks=True):
        real_folder = resolve_path(here)
        # A folder that is linked again is read once; a link to its parent would never end.
        folders[:] = (
            [] if real_folder in seen else [name for name in folders if not _is_hidden(name)]
        )
        if real_folder not in seen and lakes.detect_format(real_folder) is not None:
            files.append(here)
            folders[:] = []
        elif real_folder not in seen:
            seen.add(real_folder)
            paths = [Path(here) / name for name in names if name[0] not in "_."]
            for path in paths:
                if path.is_symlink() and not path.exists():
                    raise LogError(f"{path} is a link to nothing", "remove it, or restore the file")
            files += [str(path) for path in paths if path.is_file()]
    return files


def _expand_glob(path: str, folder: Path) -> list[str]:
    pattern = os.path.join(glob.escape(str(folder)), path)  # noqa: PTH118 (globs are not paths)
    hidden_parts = [part for part in Path(path).parts if _is_hidden(part)]
    start = len(Path(path).parents[-1].parts) if Path(path).is_absolute() else len(folder.parts)
    return [
        file
        for file in glob.glob(pattern, recursive=True)  # noqa: PTH207
        if Path(file).is_file()
        and all(
            any(fnmatchcase(part, name) for name in hidden_parts)
            for part in Path(file).parts[start:-1]
            if _is_hidden(part)
        )
    ]


def _is_hidden(folder: str) -> bool:
    """Tell whether engines hide a folder; `_day=2026-09-14` is a partition."""
    return folder.startswith(".") or (folder.startswith("_") and "=" not in folder)


def _find_kind(log: str, files: Sequence[str], format: str) -> str:
    """Find the format that is named, or of `auto` that of the files' names."""
    if format != "auto":
        return lakes.detect_format(Path(files[0])) or format
    by_kind: dict[str | None, str] = {}
    for file in files:
        by_kind.setdefault(_find_file_format(file), file)
    if len(by_kind) != 1 or None in by_kind:
        examples = ", ".join(Path(file).name for file in by_kind.values())
        raise LogError(
            f"the files of {log} are of unknown or mixed formats, such as {examples}",
            f"read are {', '.join([*_KINDS, '.db'])}, and text with .gz or .zst; else name the "
            f"format: {write_entry(log, 'format', 'csv')}; or narrow the path",
        )
    return str(by_kind.popitem()[0])


def _find_file_format(file: str) -> str | None:
    suffixes = [suffix.lower() for suffix in Path(file).suffixes]
    is_compressed = suffixes[-1:] and suffixes[-1] in ENDS
    kind = _KINDS.get((["", *suffixes[:-1]] if is_compressed else ["", *suffixes])[-1])
    if is_compressed:
        return kind if kind in ("csv", "json") else None
    return lakes.detect_format(Path(file)) or kind or _detect_database(file)


def _detect_database(file: str) -> str | None:
    """Find the kind of a database by its first bytes."""
    start = b""
    with suppress(OSError, ValueError):
        # Whoever opens a pipe waits for its writer.
        if Path(file).is_file():
            with Path(file).open("rb") as content:
                start = content.read(16)
    return "sqlite" if start == _SQLITE else "duckdb" if start[8:12] == b"DUCK" else None


def escape_file_name(file: str) -> str:
    """Escape a file's name for readers that take names for globs.

    Raises:
        LogError: It also has a backslash, which no glob of DuckDB can name.

    Example:
        >>> escape_file_name("part[1].parquet"), escape_file_name("logs/a.parquet")
        ('part[[]1].parquet', 'logs/a.parquet')
    """
    if "://" in file or not glob.has_magic(file):
        return file
    if "\\" in Path(file).as_posix():
        raise LogError(f"{file} has a backslash and one of *, ? and [ in its name", "rename it")
    return glob.escape(Path(file).as_posix())


def find_partition_columns(files: Sequence[str]) -> set[str]:
    """Find the columns that names of folders hold, such as `day` of `day=2026-09-14`."""
    folders = {part for file in files for part in Path(file).parts[:-1] if "=" in part}
    return {folder.partition("=")[0] for folder in folders}


def is_table(file: Path) -> bool:
    """Tell whether a file is a table by its name, or a folder is one of a data lake."""
    return _find_file_format(str(file)) is not None


def check_delimiter(log: str, columns: Sequence[str], files: Sequence[str]) -> None:
    """Raise if a CSV log was read as one column, as its lines differ in fields."""
    delimiter = next((d for d in _DELIMITERS if len(columns) == 1 and d in columns[0]), None)
    if delimiter is None:
        return
    plain = (file for file in files if not file.lower().endswith(ENDS))
    ragged = (line for file in plain if (line := _describe_ragged_line(file, delimiter)))
    why = next(ragged, f"{files[0]} is read as one column")
    raise LogError(
        f"{log}: {why}, so the lines cannot be split into columns",
        "remove or correct the line, or quote fields that contain the delimiter",
    )


def _describe_ragged_line(file: str, delimiter: str) -> str | None:
    opened = suppress(OSError, csv.Error)
    with opened, Path(file).open(newline="", encoding="utf-8", errors="replace") as lines:
        rows = csv.reader(lines, delimiter=delimiter)
        header = next(rows)
        width = len(header)
        if "".join(header).lower() == "sep=":
            return f"{file}, line 1: it says which character is between columns, and is no header"
        for row in rows:
            if row and len(row) != width:
                where = f"{file}, line {rows.line_num}"
                return f"{where}: {len(row)} fields, but the header has {width}"
    return None


def list_logs(experiment: "Experiment") -> Mapping[str, LogSource]:
    """Return the logs and tables that an experiment has, by name."""
    return {**experiment.logs.logs_by_name, **experiment.tables}


def list_log_files(log: str, source: LogSource, folder: Path) -> list[str]:
    """List the files of a log that are there."""
    files = find_readable_files(log, source, folder)
    # The run itself says so if there are none.
    return [] if files is None else [*files.read, *files.empty]


def find_readable_files(log: str, source: LogSource, folder: Path) -> Files | None:
    """Find the files of a log; None if there are none, or they are unreadable."""
    with suppress(LogError, OSError, ValueError):
        return find_files(log, source, folder)
    return None


_FEW_BYTES = 4_000_000
"""About as much as some hundred thousand impressions take in Parquet."""
_PACKED = 10
"""How many bytes of text a byte of a compressed file stands for, about."""


def are_small(logs: Iterable[Files]) -> bool:
    """Tell whether logs are so small that threads cost more than they save."""
    files = [(log, file) for log in logs for file in log.read]
    # What a lake's folder holds is not known, nor what is elsewhere.
    if any(not log.are_local or log.kind in lakes.NAMES for log, _ in files):
        return False
    with suppress(OSError):
        sizes = (
            Path(file).stat().st_size * (_PACKED if file.lower().endswith(ENDS) else 1)
            for _, file in files
        )
        return sum(sizes) < _FEW_BYTES
    return False


def spell_paths(paths: Sequence[str]) -> list[str]:
    """List each path as it is, and escaped for readers that take globs."""
    return list(dict.fromkeys(name for path in paths for name in (path, glob.escape(path))))


def log_name(relation: str) -> str:
    """Return the log, or the table, that a relation is of.

    Example:
        >>> log_name("raw_clicks"), log_name("log_events_orders")
        ('clicks', 'events.orders')
    """
    if relation.startswith("table_"):
        return relation.removeprefix("table_")
    name = relation.removeprefix("raw_").removeprefix("log_")
    outcome = OUTCOME.replace(".", "_")
    return OUTCOME + name.removeprefix(outcome) if name.startswith(outcome) else name


def name_relation(prefix: str, log: str) -> str:
    """Name the relation of a log in some form."""
    return f"{prefix}_{log.replace('.', '_')}"
