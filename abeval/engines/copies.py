"""Copy files that DuckDB does not read itself, as CSV in UTF-8.

These are workbooks, SQLite, and texts in other encodings. DuckDB's own readers of them are
extensions, which a run neither downloads nor loads. Of a text file that is not UTF-8, its words
tell which encoding it has.
"""

import csv
import gzip
import re
import shlex
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial, reduce
from math import inf
from pathlib import Path
from shutil import copyfile, copyfileobj
from typing import IO, TextIO
from zipfile import BadZipFile, ZipFile, is_zipfile

from abeval.engines.duckdb_connection import OPEN
from abeval.engines.sources import Files, choose, write_entry
from abeval.engines.sql import quote
from abeval.errors import LogError
from abeval.experiment.sources import LogSource
from abeval.files import resolve_path
from abeval.scratch import Scratch


def _write_pair_pattern(encoding: str, *leads: int) -> str:
    """Write the pattern of words of two-byte characters with these first bytes."""
    pairs = (bytes((lead, second)) for lead in leads for second in range(0x40, 0x100))
    decoded = {pair.decode(encoding, "ignore") for pair in pairs}
    return f"[A-Za-z{''.join(sorted(c for c in decoded if len(c) == 1 and c.isalpha()))}]+"


_CYRILLIC = "(?=..)[А-ЯЁЄІЇҐ]?[а-яёєіїґ]+|[А-ЯЁЄІЇҐ]+"
_WESTERN = "(?=.*[A-Za-z])([A-ZÀ-ÖØ-ÞŠŽ]?[a-zß-öø-ÿœšž]+|[A-ZÀ-ÖØ-ÞŒŠŽ]+)"
_WORDS: Mapping[str, Callable[[], str]] = {
    "cp1251": lambda: _CYRILLIC,
    "cp1252": lambda: _WESTERN,
    # Kana and the commoner half of the characters, which come first in both.
    "shift_jis": partial(_write_pair_pattern, "shift_jis", 0x82, 0x83, *range(0x88, 0x98)),
    "gb18030": partial(_write_pair_pattern, "gb2312", *range(0xB0, 0xD8)),
}
"""Encoding → pattern of words in it with letters beyond a to z."""

_LIKELY, _POSSIBLE = 0.8, 0.3
"""Share of matching words from which an encoding is likely, or possible."""

_LOOKED_AT = 1_000_000
"""Bytes of lines to look at for words."""


def guess_encodings(file: str) -> dict[str, str]:
    r"""Find encodings that fit a text file, each with a word of the file in it.

    There is one where one alone is likely; none of a file of UTF-8, or without such words.

    Example:
        >>> from tempfile import NamedTemporaryFile
        >>> with NamedTemporaryFile() as log:
        ...     written = log.write("user;группа\n1;контрольная\n2;новая\n".encode("cp1251"))
        ...     log.flush()
        ...     guess_encodings(log.name)
        {'cp1251': 'контрольная'}
    """
    text = _read_non_ascii_lines(file)
    shares, examples = dict[str, float](), dict[str, str]()
    for encoding, pattern in _WORDS.items():
        try:
            words = [w for w in re.findall(r"[^\W\d_]+", text.decode(encoding)) if not w.isascii()]
        except UnicodeError:
            continue
        is_like = re.compile(pattern()).fullmatch
        like = [word for word in words if is_like(word)]
        if like:
            shares[encoding], examples[encoding] = len(like) / len(words), max(like, key=len)
    likely = [encoding for encoding, share in shares.items() if share >= _LIKELY]
    possible = [encoding for encoding, share in shares.items() if share >= _POSSIBLE]
    return {encoding: examples[encoding] for encoding in likely or possible}


def _read_non_ascii_lines(file: str) -> bytes:
    """Read the lines that are not ASCII; none of UTF-8, or of no text."""
    lines, size, all_are_utf8 = list[bytes](), 0, True
    if file.lower().endswith(".zst"):
        return b""
    opened = gzip.open if file.lower().endswith(".gz") else open
    with opened(file, "rb") as content:
        for line in content:
            if line.isascii():
                continue
            all_are_utf8 = all_are_utf8 and _is_utf8(line)
            if size < _LOOKED_AT:
                lines.append(line)
                size += len(line)
            elif not all_are_utf8:
                break
    text = b"".join(lines)
    return b"" if all_are_utf8 or b"\0" in text else text


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeError:
        return False
    return True


def check_utf8(log: str, files: Iterable[str]) -> None:
    """Raise if a text file is not UTF-8, with what it probably is."""
    for file in files:
        if "://" not in file and _read_non_ascii_lines(file):
            raise make_encoding_error(log, file)


def make_encoding_error(log: str, file: str, read_as: str = "UTF-8") -> LogError:
    """Make the error of a file that is not in the encoding it is read in."""
    lines = _read_non_ascii_lines(file).splitlines()
    broken = [line for line in lines if not _is_utf8(line)]
    # Most lines are UTF-8, so it is damage and no other encoding.
    if read_as == "UTF-8" and 2 * len(broken) < len(lines):
        text = broken[0][:80].decode("utf-8", "replace") if broken else ""
        what = f"{log}: {file} is UTF-8, but not all of it: {text!r}"
        return LogError(what, "it is damaged: restore it, or write it again")
    likely = guess_encodings(file)
    text = " or ".join(f"{encoding}, with words such as {w!r}" for encoding, w in likely.items())
    setting = write_entry(log, "encoding", next(iter(likely), "cp1252"))
    choices = (
        "cp1252 is of Western Europe, cp1251 of Cyrillic, shift_jis of Japan, gb18030 of China"
    )
    hint = f"it is {'likely ' if len(likely) == 1 else ''}{text}" if text else choices
    return LogError(f"{file} is not {read_as}", f"{hint}: say {setting}")


Rows = tuple[Sequence[object], Iterable[Sequence[object]]]
"""The names of columns, and rows."""

_DIALECT = "header = true, delim = ',', quote = '\"', escape = '\"'"
_EXACT = 2**53
"""Limit of whole numbers that are exact as doubles, which is all workbooks have."""


class Copies:
    """Copy files that DuckDB cannot read, such as workbooks, each once in a run.

    `copy_files` makes the copies of a log. They lie in a temporary folder below `parent`, by
    default the system's, until the run closes.
    """

    def __init__(self, parent: str | None) -> None:
        self._parent = parent
        self._scratch: Scratch | None = None
        self._made: dict[tuple[object, ...], tuple[str, str]] = {}

    @property
    def folder(self) -> Path:
        """Return the folder, and make it if it is not there."""
        if self._scratch is None:
            self._scratch = Scratch(self._parent, "abeval-run-")
        return self._scratch.path

    def copy_files(self, log: str, files: Files, source: LogSource) -> Files:
        """Copy the files of a log that DuckDB cannot read, and return what it reads.

        Raises:
            LogError: One cannot be read, or they differ in columns.
        """
        if not files.are_copied:
            return files
        copies, headers = [], dict[str, str]()
        for file in files.read:
            key = (file, files.encoding, source.table, source.sheet)
            if key not in self._made:
                self._made[key] = self._copy(log, file, files, source)
            copy, header = self._made[key]
            copies.append(copy)
            headers.setdefault(header, file)
        if len(headers) > 1:
            (first_header, first), (second_header, second) = [*headers.items()][:2]
            what = (
                f"{log}: the headers of {first} and {second} differ: {first_header!r}, "
                f"{second_header!r}"
            )
            raise LogError(what, "give files of the same columns, or write them as CSV in UTF-8")
        dialect = files.dialect if files.kind == "csv" else _DIALECT
        copy_by_file = dict(zip(files.read, copies, strict=True))
        variants = {copy_by_file[file]: variant for file, variant in files.variants.items()}
        return replace(
            files, kind="csv", read=copies, variants=variants, dialect=dialect, encoding=None
        )

    def _copy(self, log: str, file: str, files: Files, source: LogSource) -> tuple[str, str]:
        """Write the copy of a file; return its path and its header."""
        if "://" in file:
            raise LogError(f"{file} is at an address", "copy it to this machine, and name the copy")
        partitions = [part for part in Path(file).parts[:-1] if "=" in part]
        copy = self.folder.joinpath(str(len(self._made)), *partitions, f"{Path(file).name}.csv")
        # An attempt before this one may have failed.
        copy.parent.mkdir(parents=True, exist_ok=True)
        if files.encoding is not None:
            _write_text(log, file, files.encoding, copy)
        else:
            read = _read_workbook if files.kind == "xlsx" else _read_sqlite
            part_name = source.sheet if files.kind == "xlsx" else source.table
            with read(log, file, part_name) as (names, rows), _open(copy) as lines:
                writer = csv.writer(lines)
                writer.writerow(names)
                writer.writerows(rows)
        with copy.open(encoding="utf-8") as lines:
            return str(copy), lines.readline().rstrip("\r\n")

    @contextmanager
    def name_originals(self) -> Iterator[None]:
        """Name the files themselves in errors of a block that reads copies."""
        try:
            yield
        except LogError as error:
            what = error.what
            for (file, *_), (copy, _) in self._made.items():
                what = what.replace(copy, str(file))
            raise LogError(what, error.hint) from error

    def close(self) -> None:
        """Remove the copies."""
        if self._scratch is not None:
            self._scratch.close()


def list_sqlite_tables(file: str) -> list[str]:
    """List the tables of a SQLite database."""
    with _open_sqlite(file) as database:
        return _list_tables(database)


@contextmanager
def _translate_workbook_errors(file: str) -> Iterator[None]:
    from python_calamine import CalamineError

    damage = (BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError)
    try:
        yield
    except (CalamineError, *damage) as error:
        what = f"{file} cannot be read as a workbook: it is none, or is damaged or locked"
        raise LogError(
            what, "restore it, or save it again: as .xlsx without a password, or as CSV"
        ) from error


_MOST_CELLS = 50_000_000
"""Largest number of cells of a sheet, blank ones too: the reader takes 32 bytes each."""

_ROW = re.compile(rb"<(?:\w+:)?row\b")
_NUMBER = re.compile(rb"""[^<>]*?\sr\s*=\s*["']([0-9]{1,8})""")
_CELL = re.compile(
    rb"""<(?:\w+:)?c\b(?:[^<>]*?\sr\s*=\s*["']([A-Za-z]{1,4})([0-9]{1,8}))?[^<>]*?(/?)>"""
)
"""A cell of the XML of a sheet: column and row if they are named, and what ends a blank one."""


_SHEET = b"\x81\x01"
"""First bytes of a sheet of .xlsb (MS-XLSB 2.4.21, BrtBeginSheet)."""


def _check_extent(file: str) -> None:
    """Raise if a workbook's values reach so far that reading takes all memory.

    Of .xlsx, .xlsm and .xlsb the sheets tell; for .ods and .xls the reader has a bound. All parts
    are read to their end, which compares check sums; the reader does not.
    """
    if not is_zipfile(file):
        return
    with _translate_workbook_errors(file), ZipFile(file) as parts:
        for name in (n for n in parts.namelist() if n.lower().endswith((".xml", ".rels", ".bin"))):
            with parts.open(name) as part:
                is_binary = name.lower().endswith(".bin")
                rows, columns = (_measure_binary_extent if is_binary else _measure_extent)(part)
            if rows * columns > _MOST_CELLS:
                what = f"{file}: in {name}, values reach to row {rows:,} and column {columns:,}"
                hint = "remove what stands apart from the table, or save the sheet as CSV"
                raise LogError(f"{what}: more than {_MOST_CELLS:,} cells", hint)


def _measure_extent(part: IO[bytes]) -> tuple[int, int]:
    """Return the last row and column with a value."""
    row = rows = columns = 0
    for text in _read_row_texts(part):
        row_number, cells = _NUMBER.match(text), _CELL.findall(text)
        # Rows and cells need no names: they then follow each other.
        row = int(row_number[1]) if row_number else row + 1
        filled = [(column, number) for column, number, is_blank in cells if not is_blank]
        if filled:
            last = max((len(column), column.upper()) for column, _ in filled)[1]
            column = reduce(lambda number, letter: 26 * number + letter - 64, last, 0)
            rows = max(rows, row, *(int(number or 0) for number in {n for _, n in filled}))
            columns = max(columns, column, len(cells))
    return rows, columns


def _measure_binary_extent(part: IO[bytes]) -> tuple[int, int]:
    """Return the last row and column with a value, of a sheet of .xlsb.

    It has records of a kind, a length and data. Of other parts both are 0.
    """
    row = rows = columns = at = 0
    data = part.read(2)
    is_sheet = data == _SHEET
    while chunk := part.read(1 << 20):
        data, at = data[at:] + chunk, max(at - len(data), 0)
        # No row and no cell is shorter. Bytes above 127 go on in the next.
        while is_sheet and at + 10 <= len(data):
            kind = data[at]
            if kind > 127:
                at += 1
                # Kinds and lengths are written in groups of 7 bits; the eighth says that more
                # follow.
                kind += (data[at] << 7) - 128
            at += 1
            length = data[at] & 127
            for shift in (7, 14, 21):
                if data[at] < 128:
                    break
                at += 1
                length |= (data[at] & 127) << shift
            at += 1
            if kind < 12 or kind == 62:
                number = int.from_bytes(data[at : at + 4], "little") + 1
                if kind == 0:
                    row = number
                elif kind > 1:
                    rows, columns = max(rows, row), max(columns, number)
            at += length
    return rows, columns


def _read_row_texts(part: IO[bytes]) -> Iterator[bytes]:
    """Read the XML of a sheet row by row; a very long row in parts."""
    text = b""
    while chunk := part.read(1 << 20):
        *before, text = _ROW.split(text + chunk)
        yield from before
        if len(text) > 1 << 22:
            yield text[:-1000]
            # The end is kept, since a cell may be cut there.
            text = text[-1000:]
    yield text


@contextmanager
def _read_workbook(log: str, file: str, sheet: str | None) -> Iterator[Rows]:
    """Read a sheet, whose first row is the header; skip blank rows."""
    from python_calamine import CalamineWorkbook

    _check_extent(file)
    with _translate_workbook_errors(file), CalamineWorkbook.from_path(file) as workbook:
        # Sheets without a column hold no table.
        sheets = [n for n in workbook.sheet_names if workbook.get_sheet_by_name(n).width]
        sheet_name = choose(log, file, "sheet", sheet, sheets)
        rows = iter(workbook.get_sheet_by_name(sheet_name).to_python(skip_empty_area=False))
    header = next(rows, [])
    names = [str(_drop_zero_fraction(value)).strip() for value in header]
    where = f"{file}, sheet {sheet_name!r}"
    if not any(names):
        index = next((i for i, row in enumerate(rows, start=2) if any(v != "" for v in row)), 1)
        what = f"{where}: row 1 is blank, and the first row with values is {index}"
        raise LogError(what, "the header is the first row: remove what stands above it")
    if len(names) > 1 and all(names[1:]):
        # An index, as pandas writes it; DuckDB calls that of a text file so.
        names[0] = names[0] or "column0"
    repeated = next((name for name in names if name and names.count(name) > 1), None)
    if repeated is not None:
        raise LogError(f"{where}: two columns are called {repeated!r}", "rename one")
    kept = [index for index, name in enumerate(names) if name]
    lines = []
    for number, row in enumerate(rows, start=2):
        beyond = next((v for v, name in zip(row, names, strict=True) if not name and v != ""), None)
        if beyond is not None:
            what = f"{where}: row {number} has {beyond!r} in a column without a name"
            raise LogError(what, "the header is row 1: remove what stands above it, or name it")
        # Excel stores numbers as doubles, so two long ids may already be one.
        long = next((v for v in row if isinstance(v, float) and _EXACT <= abs(v) < inf), None)
        if long is not None:
            what = f"{where}: row {number} has {long:.0f}, of which a workbook keeps 15 digits"
            raise LogError(what, "different ids may have become one: write them as text")
        if any(value != "" for value in row):
            lines.append([_drop_zero_fraction(row[index]) for index in kept])
    yield [names[index] for index in kept], lines


def _drop_zero_fraction(value: object) -> object:
    """Write 7.0 as 7: workbooks have no whole numbers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class _Database(sqlite3.Connection):
    """Subclass a connection, so that it can be referred to weakly."""


@contextmanager
def _open_sqlite(file: str) -> Iterator[sqlite3.Connection]:
    """Open a SQLite database, beside which nothing is written."""
    path = resolve_path(file)
    # Reading a database with its log would write files beside them, so both are copied.
    logs = [end for end in ("-wal", "-journal") if Path(f"{path}{end}").exists()]
    try:
        with ExitStack() as stack:
            if logs:
                folder = stack.enter_context(closing(Scratch(None, "abeval-run-"))).path
                for end in ("", *logs):
                    copyfile(f"{path}{end}", folder / f"copy{end}")
                path = folder / "copy"
            uri = f"{path.as_uri()}?{'mode=rw' if logs else 'mode=ro&immutable=1'}"
            database = sqlite3.connect(uri, uri=True, factory=_Database)
            stack.enter_context(closing(database))
            OPEN.add(database)
            # A view of the file must not call functions with side effects.
            database.execute("pragma trusted_schema = off")
            yield database
    except sqlite3.Error as error:
        what = f"{file} cannot be read as a SQLite database: {error}"
        raise LogError(
            what, "check that it is one, that it is whole, and that it is closed"
        ) from error


def _list_tables(database: sqlite3.Connection) -> list[str]:
    sql = "select name from sqlite_master where type in ('table', 'view') order by rowid"
    names = [str(name) for (name,) in database.execute(sql)]
    return [name for name in names if not name.startswith("sqlite_")]


_WHOLE_CHECK = 1 << 30
"""Size up to which a whole database is checked, in about a second; else its table."""


def _check_pages(file: str, database: sqlite3.Connection, table: str) -> None:
    """Raise if a database has damaged pages, whose rows SQLite would leave out."""
    part = "" if Path(file).stat().st_size <= _WHOLE_CHECK else f"({quote(table)})"
    ((fault, *_), *_) = database.execute(f"pragma quick_check{part}")
    if fault != "ok":
        what = f"{file} is a damaged SQLite database: {' '.join(fault.split())}"
        hint = f"restore it, or save what can be read: sqlite3 {shlex.quote(file)} .recover"
        raise LogError(what, f"{hint} | sqlite3 NEW.sqlite")


@contextmanager
def _read_sqlite(log: str, file: str, table_name: str | None) -> Iterator[Rows]:
    """Read a table, row by row."""
    with _open_sqlite(file) as database:
        table = choose(log, file, "table", table_name, _list_tables(database))
        _check_pages(file, database, table)
        described = database.execute(f"select * from {quote(table)} limit 0").description
        names = [str(column[0]) for column in described]
        # Bytes are no text; as hex digits ids of bytes stay different.
        values = ", ".join(
            f"case typeof({c}) when 'blob' then hex({c}) else {c} end" for c in map(quote, names)
        )
        yield names, database.execute(f"select {values} from {quote(table)}")


def _open(copy: Path) -> TextIO:
    return copy.open("w", encoding="utf-8", newline="")


def _write_text(log: str, file: str, encoding: str, copy: Path) -> None:
    """Write a text file in UTF-8."""
    if file.lower().endswith(".zst"):
        raise LogError(f"{file} is compressed, and not in UTF-8", "decompress it")
    opened = gzip.open if file.lower().endswith(".gz") else open
    try:
        with opened(file, "rt", encoding=encoding, newline="") as text, _open(copy) as lines:
            copyfileobj(text, lines, 1 << 20)
    except UnicodeError as error:
        raise make_encoding_error(log, file, encoding) from error
