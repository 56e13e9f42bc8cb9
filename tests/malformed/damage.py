"""Damaged files of every format: what `abeval analyze` says of each, where none can tell.

    python -m tests.malformed damage [DRAWS] [FORMAT...]

Each file is a whole table that was cut, flipped in a bit, had a page zeroed or two exchanged, was
given the name of another format, or was saved by a text editor. The end is fine where the answer is
that of the whole file, or a refusal that names the file; and of `CANNOT_TELL` other numbers too.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import sqlite3
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

from tests.workbooks import write_xlsb, write_xlsx

UNITS = 3_000
PAGE = 4096
NAMED = ("--unit", "user_id", "--variant", "variant", "--metric", "revenue", "--metric", "clicks")

_TEXT: Mapping[str, str] = {
    "cut": "it may end behind a whole value: lines that are not there are not missed",
    "bit": "a changed digit is a digit, a changed letter a letter",
    "exchanged pages": "where both ends of a page fall on ends of values, rows are whole rows",
}
CANNOT_TELL: Mapping[str, Mapping[str, str]] = {
    "csv": _TEXT,
    "jsonl": _TEXT,
    "csv.zst": {"bit": "frames without a check sum, as DuckDB writes them"},
    "parquet": {"bit": "DuckDB compares no check sums of pages, and few writers write them"},
    "delta": {"bit": "its files are Parquet"},
    "duckdb": {"exchanged pages": "a block's check sum is that of its words in any order"},
    "sqlite": {"bit": "pages have no check sums"},
}
"""Format → damage → why the file that it leaves is a whole file, of other numbers."""


ENDS = ("refused", "right", "other numbers", "fault")


@dataclass(frozen=True)
class Record:
    """How the analysis of a damaged file ended: `refused`, `right`, `other numbers` or `fault`."""

    format: str
    damage: str
    draw: int
    end: str
    said: str

    @property
    def is_fine(self) -> bool:
        return self.end in ("refused", "right") or (
            self.end == "other numbers" and self.damage in CANNOT_TELL.get(self.format, {})
        )


# --- Whole files ----------------------------------------------------------------------------------

COLUMNS = ("user_id", "variant", "country", "revenue", "clicks", "note")


def table_rows() -> list[tuple[Any, ...]]:
    """One row a unit; notes with letters that encodings write differently."""
    drawn = random.Random(7)  # noqa: S311
    notes = ("", "café", "naïve, über", "plain")
    return [
        (
            f"u{i:06d}",
            "ab"[drawn.random() < 0.5],
            drawn.choice(("DE", "FR", "GR")),
            round(drawn.gammavariate(2.0, 9.0), 2),
            drawn.randrange(12),
            drawn.choice(notes),
        )
        for i in range(UNITS)
    ]


def _csv_text() -> str:
    lines = [",".join(COLUMNS)]
    lines += [f'{",".join(map(str, row[:-1]))},"{row[-1]}"' for row in table_rows()]
    return "\n".join([*lines, ""])


def _write_csv(file: Path) -> None:
    file.write_text(_csv_text(), encoding="utf-8")


def _write_gzip(file: Path) -> None:
    file.write_bytes(gzip.compress(_csv_text().encode(), mtime=0))


def _write_jsonl(file: Path) -> None:
    rows = (dict(zip(COLUMNS, row, strict=True)) for row in table_rows())
    file.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), "utf-8")


def _with_duckdb(file: Path, sql: str, database: str = ":memory:") -> None:
    import duckdb

    plain = file.with_name(f"{file.name}.plain")
    _write_csv(plain)
    with duckdb.connect(database) as connection:
        connection.execute("set threads = 1")
        connection.execute(sql.format(rows=f"read_csv('{plain}')", file=file))
    plain.unlink()


def _write_zstd(file: Path) -> None:
    _with_duckdb(file, "copy (from {rows}) to '{file}' (format csv, compression zstd)")


def _write_parquet(file: Path) -> None:
    _with_duckdb(file, "copy (from {rows}) to '{file}' (format parquet, row_group_size 1000)")


def _write_duckdb(file: Path) -> None:
    _with_duckdb(file, "create table people as from {rows}", str(file))


def _write_sqlite(file: Path) -> None:
    database = sqlite3.connect(file)
    database.execute(f"create table people ({', '.join(COLUMNS)})")
    database.executemany(f"insert into people values ({', '.join('?' * 6)})", table_rows())
    database.commit()
    database.close()


def _cells() -> list[list[Any]]:
    return [[*COLUMNS], *([*row[:-1], row[-1] or None] for row in table_rows())]


def _write_delta(folder: Path) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    columns = dict(zip(COLUMNS, zip(*table_rows(), strict=True), strict=True))
    write_deltalake(folder, pa.table({name: [*values] for name, values in columns.items()}))


WRITERS: Mapping[str, Callable[[Path], None]] = {
    "csv": _write_csv,
    "csv.gz": _write_gzip,
    "csv.zst": _write_zstd,
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
    "duckdb": _write_duckdb,
    "sqlite": _write_sqlite,
    "xlsx": lambda file: write_xlsx(file, {"Data": _cells()}),
    "xlsb": lambda file: write_xlsb(file, _cells()),
    "delta": _write_delta,
}
"""Ending of a name → what writes the whole file."""

TEXT = ("csv", "jsonl")


# --- Damage ---------------------------------------------------------------------------------------


def _cut(data: bytes, drawn: random.Random) -> bytes:
    return data[: drawn.randrange(1, len(data))]


def _flip(data: bytes, drawn: random.Random) -> bytes:
    changed, bit = bytearray(data), drawn.randrange(8 * len(data))
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def _page_starts(data: bytes, drawn: random.Random, count: int) -> tuple[int, list[int]]:
    """Draw pages with something in them: their size, smaller of small files, and their starts."""
    size = min(PAGE, max(16, len(data) // 8))
    starts = [at for at in range(0, len(data) - size + 1, size) if any(data[at : at + size])]
    return size, sorted(drawn.sample(starts, count))


def _zero(data: bytes, drawn: random.Random) -> bytes:
    size, (start,) = _page_starts(data, drawn, 1)
    return data[:start] + bytes(size) + data[start + size :]


def _exchange(data: bytes, drawn: random.Random) -> bytes:
    size, (first, second) = _page_starts(data, drawn, 2)
    pages = data[first : first + size], data[second : second + size]
    between = data[first + size : second]
    return data[:first] + pages[1] + between + pages[0] + data[second + size :]


def _save_as_text(data: bytes, drawn: random.Random) -> bytes:
    """Save as an editor does that takes the bytes for text."""
    how = drawn.randrange(4)
    if how == 0:
        return data.decode("utf-8", "replace").encode()
    if how == 1:
        return data.decode("latin-1").encode("utf-8")
    if how == 2:
        return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    return data.decode("cp1252", "replace").encode("utf-16")


def _save_text(data: bytes, drawn: random.Random) -> bytes:
    """Save a text in another form, in which every letter is kept."""
    text = data.decode()
    forms = (
        lambda: b"\xef\xbb\xbf" + data,
        lambda: text.encode("utf-16"),
        lambda: text.encode("cp1252"),
        lambda: text.replace("\n", "\r\n").encode(),
        lambda: text.replace("\n", "\r").encode(),
        lambda: text.rstrip("\n").encode(),
    )
    return forms[drawn.randrange(len(forms))]()


DAMAGES = ("cut", "bit", "zeroed page", "exchanged pages", "misnamed", "saved as text")


def damaged(name: str, damage: str, draw: int, whole: Mapping[str, bytes]) -> bytes:
    """Return the bytes of a file of a format after a damage; the same for the same draw."""
    data = whole[name]
    drawn = random.Random(f"{name} {damage} {draw}")  # noqa: S311
    match damage:
        case "cut":
            return _cut(data, drawn)
        case "bit":
            return _flip(data, drawn)
        case "zeroed page":
            return _zero(data, drawn)
        case "exchanged pages":
            return _exchange(data, drawn)
        case "misnamed":
            others = [other for other in whole if other != name]
            return whole[others[draw % len(others)]]
    return (_save_text if name in TEXT else _save_as_text)(data, drawn)


# --- Analyses -------------------------------------------------------------------------------------


def _analyze(path: Path, into: Path) -> tuple[int, str]:
    """Run the command in this process; return its exit code and what it printed."""
    from abeval.cli.main import main

    said, code, before = StringIO(), 0, sys.argv
    sys.argv = ["abeval", "analyze", str(path), *NAMED, "--json", str(into), "--time-limit", "60"]
    with redirect_stdout(said), redirect_stderr(said):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:
            code = 1
            traceback.print_exc()
        finally:
            sys.argv = before
    return code, said.getvalue()


def _analyze_apart(path: Path, into: Path) -> tuple[int, str]:
    """Run the command in a process of its own, so that nothing that it does ends this one."""
    kept = into.with_suffix(".said")
    child = os.fork()
    if child == 0:
        code, said = _analyze(path, into)
        kept.write_text(f"{' '.join(sys.modules)}\n{said}")
        os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    modules, _, said = (kept.read_text() if kept.exists() else "").partition("\n")
    kept.unlink(missing_ok=True)
    # What a run imports, the next one has before it begins. No thread is started by it.
    for module in modules.split() if said else ():
        with suppress(ImportError):
            import_module(module)
    return status, said


def _numbers(file: Path) -> dict[str, Any]:
    result = json.loads(file.read_text(encoding="utf-8"))
    return {name: result[name] for name in ("scorecard", "trust", "accounting", "verdicts")}


def run(
    formats: Sequence[str] = tuple(WRITERS),
    draws: int = 4,
    damages: Sequence[str] = DAMAGES,
    *,
    is_apart: bool = False,
) -> Iterator[Record]:
    """Analyse damaged files, `draws` of each format and damage."""
    analyze = _analyze_apart if is_apart else _analyze
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        whole, right = dict[str, bytes](), dict[str, dict[str, Any]]()
        for name in dict.fromkeys((*formats, *(n for n in WRITERS if n not in ("delta", "xlsb")))):
            path = _path(folder, name)
            _write_apart(WRITERS[name], path) if is_apart else WRITERS[name](path)
            whole[name] = _target(path).read_bytes()
        for name in formats:
            path, into = _path(folder, name), folder / "out.json"
            code, said = analyze(path, into)
            assert code == 0, (name, said)
            right[name] = _numbers(into)
            into.unlink()
            for damage in damages:
                for draw in range(draws):
                    data = damaged(name, damage, draw, whole)
                    _target(path).write_bytes(data)
                    code, said = analyze(path, into)
                    end = _judge(code, said, into, right[name])
                    into.unlink(missing_ok=True)
                    yield Record(name, damage, draw, end, said.strip())
            _target(path).write_bytes(whole[name])


def _path(folder: Path, name: str) -> Path:
    return folder / (name if name == "delta" else f"people.{name}")


def _target(path: Path) -> Path:
    """The file that is damaged: itself, or of a table of a data lake its largest."""
    if path.is_dir():
        return max(path.glob("*.parquet"), key=lambda file: file.stat().st_size)
    return path


def _write_apart(write: Callable[[Path], None], path: Path) -> None:
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            write(path)
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def _judge(code: int, said: str, into: Path, right: Mapping[str, Any]) -> str:
    if code == 0 and into.exists():
        return "right" if _numbers(into) == right else "other numbers"
    is_clean = "Traceback" not in said and "error: " in said and not into.exists()
    return "refused" if code == 2 and is_clean else f"fault: exit code {code}"


def write_table(records: Sequence[Record]) -> str:
    """Write ends by format and damage, and what is not fine, as Markdown."""
    ends = Counter((r.format, r.damage, r.end.partition(":")[0]) for r in records)
    lines = [f"| format | damage | {' | '.join(ENDS)} |", "|---|---|--:|--:|--:|--:|"]
    for name, damage in dict.fromkeys((r.format, r.damage) for r in records):
        counts = " | ".join(str(ends[name, damage, end]) for end in ENDS)
        lines.append(f"| {name} | {damage} | {counts} |")
    bad = [record for record in records if not record.is_fine]
    lines += ["", f"{len(records)} files, {len(bad)} not fine"]
    lines += [f"- {r.format}, {r.damage} {r.draw}: {r.end}: {r.said[-300:]}" for r in bad]
    return "\n".join([*lines, ""])


def main(arguments: Sequence[str]) -> int:
    """Print how the analyses of damaged files ended: 0 if each is fine."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    draws = [int(word) for word in arguments if word.isdigit()]
    formats = [word for word in arguments if not word.isdigit()] or [*WRITERS]
    records = [*run(formats, *draws, is_apart=True)]
    sys.stdout.write(write_table(records))
    return int(any(not record.is_fine for record in records))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
