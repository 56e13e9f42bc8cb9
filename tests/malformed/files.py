"""Tables and logs with odd headers, cells, types, rows, encodings, formats and names."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb

from tests.malformed import data
from tests.malformed.experiments import COMMANDS, damaged, toml, with_entry
from tests.malformed.harness import Act, Case, Record, command, drawn, weighted
from tests.malformed.world import LOG
from tests.workbooks import write_xlsx

COLUMNS = ("user_id", "variant", "click", "views", "price", "ts", "country")
KIND_OF = {"user_id": "id", "variant": "id", "ts": "time", "country": "nested"}


def run(seed: int, count: int, first: int = 0) -> Iterator[Record]:
    """Run files that are drawn."""
    return drawn("files", _draw, seed, count, first)


def _draw(rng: random.Random) -> Case:
    return _drawn_log(rng) if rng.random() < 0.35 else _drawn_table(rng)


def _drawn_log(rng: random.Random) -> Case:
    """Draw a log of impressions whose columns have odd values in all rows, in some, or in one."""
    sql, said = LOG, []
    names = ["user_id", "variant", "ts", "item_id", "request_id", "position", "click", "dwell"]
    for name in rng.sample([*names, "score", "price", "impression_id"], rng.choice((1, 1, 2, 3))):
        cell, places = rng.choice(data.lines("sql_cells.txt")), rng.choice((1, 2, 7, 400))
        kind = rng.choice(("typed", "typed", "alone", "text", "none"))
        plain = f"try_cast(({cell}) as {'timestamp' if name == 'ts' else 'double'})"
        value = {
            "typed": f"if(impression_id % {places} = 0, {plain}, {name})",
            "alone": cell,
            "text": f"if(impression_id % {places} = 0, ({cell})::varchar, {name}::varchar)",
        }
        change = f"replace ({value.get(kind)} as {name})" if kind != "none" else f"exclude ({name})"
        with duckdb.connect() as con, suppress(duckdb.Error):
            # Two odd values may not fit each other.
            con.execute(f"describe select * {change} from ({sql})")
            sql = f"select * {change} from ({sql})"
            said.append(f"{name} {kind} {cell} in 1/{places}")
    if rng.random() < 0.2:
        sql = f"select * from ({sql}) limit {rng.choice((0, 1, 2, 5, 12, 60))}"
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as con:
        con.execute("set threads = 1")
        try:
            con.execute(f"copy ({sql}) to '{folder}/x.parquet'")
        except duckdb.Error:
            con.execute(f"copy ({LOG}) to '{folder}/x.parquet'")
        content = (Path(folder) / "x.parquet").read_bytes()
    text = data.table("world.toml")["e.toml"]
    if rng.random() < 0.5:
        text = text.replace("[period]\nstart = 2024-01-01\nend = 2024-01-04\n", "")
    text += "\n".join(rng.sample(data.listed("sections.json"), rng.randint(0, 3))) + "\n"
    line = rng.choice(COMMANDS) if rng.random() < 0.8 else "init log.parquet --output out/d.toml"
    act = command(*line.split())
    return Case(
        f"log, {line.split()[0]}: {'; '.join(said)}",
        act,
        {"e.toml": text.encode(), "log.parquet": content},
    )


def _drawn_table(rng: random.Random) -> Case:
    header, rows = good_table(rng.choice((40, 40, 40, 200)))
    said = [
        rng.choice((_cells, _cells, _headers, _shape))(rng, header, rows)
        for _ in range(rng.choice((1, 1, 2, 3)))
    ]
    suffix = rng.choice(data.listed("suffixes.json"))
    name = weighted(rng, ["x"], data.listed("names.json"), 0.15) + suffix
    content = _written(rng, header, rows, suffix)
    if rng.random() < 0.05:
        said.append("damaged")
        content = damaged(rng, content)[1]
    if rng.random() < 0.03:
        said, content = ["empty"], b""
    act, more, verb = _asked(rng, name)
    case = f"{verb} {name[:30]}: {'; '.join(said)}"
    if len(name.encode()) > 255 or "/" in name:
        name = "x.csv"
    return Case(repr(case)[1:-1], act, {name: content, **more})


def good_table(rows: int) -> tuple[list[str], list[list[Any]]]:
    """Return the header and rows of a good table of one row a user."""
    return [*COLUMNS], [
        [
            *(str(1000 + i), "ab"[i % 2], str(i % 3), str(i % 4 + 3), str(i * 37 % 101 / 4)),
            *(f"2024-01-{i % 28 + 1:02} {i % 24:02}:00:00", ("de", "fr")[i % 3 % 2]),
        ]
        for i in range(rows)
    ]


def _atoms(rng: random.Random, column: str) -> list[Any]:
    kinds = data.listed("cells.json")
    kind = KIND_OF.get(column, "number") if rng.random() < 0.5 else rng.choice([*kinds, "text"])
    return list(data.listed("texts.json") if kind == "text" else kinds[kind])


def _cells(rng: random.Random, header: list[str], rows: list[list[Any]]) -> str:
    """Put odd values into a column: in one row, some, or all; one value, or several."""
    at = rng.randrange(len(header))
    atoms = rng.sample(_atoms(rng, header[at]), rng.choice((1, 1, 2, 5)))
    share = rng.choice((0.0, 0.1, 0.5, 1.0))
    places = [i for i in range(len(rows)) if rng.random() < share] or [
        rng.randrange(len(rows) or 1)
    ]
    for i in places:
        if i < len(rows) and at < len(rows[i]):
            rows[i][at] = rng.choice(atoms)
    return f"{header[at][:20]} has {str(atoms)[:50]} in {len(places)}"


def _headers(rng: random.Random, header: list[str], rows: list[list[Any]]) -> str:
    """Rename, double, empty, drop or move columns, or write the header again below."""
    at, texts = rng.randrange(len(header)), data.listed("texts.json")
    match rng.randrange(6):
        case 0 | 1:
            header[at] = rng.choice(texts)
        case 2:
            header[at] = header[rng.randrange(len(header))]
        case 3:
            header[:] = rng.choice(
                (
                    rng.sample(texts, len(header)),
                    [""] * len(header),
                    [*map(str, range(len(header)))],
                )
            )
        case 4:
            rows.insert(rng.randrange(len(rows) + 1), [*header])
        case _:
            for cells in (header, *rows):
                del cells[at : at + 1]
    return f"header {str(header)[:60]}"


def _shape(rng: random.Random, header: list[str], rows: list[list[Any]]) -> str:
    """Leave few rows or none, make some shorter or longer, many variants or one, many columns."""
    kind = rng.randrange(8)
    match kind:
        case 0:
            del rows[rng.choice((0, 1, 2, 3)) :]
        case 1:
            for i in range(rng.randrange(len(rows) + 1)):
                rows[i] = rows[i][: rng.randrange(len(header))]
        case 2:
            for i in range(0, len(rows), rng.choice((1, 7, 30))):
                rows[i] = [*rows[i], *rng.choice((["9"], ["", ""], ["x"] * 50))]
        case 3:
            for i, cells in enumerate(rows):
                cells[1:2] = [rng.choice((f"v{i}", "a"))]
        case 4:
            header += [f"c{i}" for i in range(300)]
            for cells in rows:
                cells += ["1"] * 300
        case 5:
            rows += [[*rows[0]] for _ in range(20)] if rows else []
        case 6:
            rows[:] = [[None if rng.random() < 0.5 else cell for cell in cells] for cells in rows]
        case _:
            rows[len(rows) // 2 : len(rows) // 2] = [[]] * rng.choice((1, 20))
    return f"shape {kind}"


def _written(rng: random.Random, header: list[str], rows: list[list[Any]], suffix: str) -> bytes:
    """Write a table as the suffix says, or sometimes as another does."""
    if rng.random() < 0.1:
        suffix = rng.choice(data.listed("suffixes.json"))
    if suffix in (".json", ".jsonl", ".ndjson"):
        return _as_json(rng, header, rows, suffix)
    if suffix in (".parquet", ".duckdb", ".sqlite", ".db", ".xlsx"):
        return _as_table(rng, header, rows, suffix)
    text = io.StringIO()
    quoting = rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    delimiter = rng.choice((",", ",", ",", ";", "\t", "|", " "))
    end = rng.choice(("\n", "\n", "\r\n", "\r"))
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator=end)
    writer.writerows([header, *rows])
    if rng.random() < 0.1:
        # Without any quotes.
        text = io.StringIO(end.join(delimiter.join(map(str, cells)) for cells in [header, *rows]))
    content = text.getvalue().encode(rng.choice(data.listed("encodings.json")), "replace")
    return gzip.compress(content) if suffix.endswith(".gz") else content


def _as_json(rng: random.Random, header: list[str], rows: list[list[Any]], suffix: str) -> bytes:
    def value(text: Any) -> Any:
        if rng.random() < 0.03:
            return rng.choice(data.listed("json_values.json"))
        try:
            return json.loads(text) if rng.random() < 0.9 else text
        except (TypeError, ValueError):
            return text

    records = [
        {name: value(cell) for name, cell in zip(header, cells, strict=False)} for cells in rows
    ]
    if suffix != ".json" or rng.random() < 0.3:
        return "\n".join(map(json.dumps, records)).encode()
    whole: Any = rng.choice(
        (records, records, records, {"data": records}, records[:1] and records[0])
    )
    return json.dumps(whole, ensure_ascii=rng.random() < 0.5).encode("utf-8", "replace")


TYPES = (
    *(
        "varchar",
        "varchar",
        "bigint",
        "double",
        "ubigint",
        "hugeint",
        "decimal(38, 10)",
        "timestamp",
    ),
    *("timestamptz", "date", "time", "interval", "boolean", "blob", "uuid", "varchar[]", "json"),
    *(
        "struct(a varchar)",
        "map(varchar, int)",
        "enum('a', 'b')",
        "bit",
        "timestamp_ns",
        "utinyint",
    ),
)


def _as_table(rng: random.Random, header: list[str], rows: list[list[Any]], suffix: str) -> bytes:
    """Write a typed table: columns of a fitting type, or of another where values can be cast."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"x{suffix}"
        if suffix == ".xlsx":
            cells = [[_cell(rng, cell) for cell in row] for row in [header, *rows]]
            write_xlsx(file, {rng.choice(("t", "a'b", "Sheet 1")): cells})
            return file.read_bytes()
        if suffix in (".sqlite", ".db"):
            return _as_sqlite(rng, file, header, rows)
        with duckdb.connect(str(file) if suffix == ".duckdb" else ":memory:") as con:
            con.execute("set threads = 1")
            names = [f"{name or 'c'}" for name in dict.fromkeys(name.lower() for name in header)]
            parts = []
            for i, name in enumerate(names):
                fits = {"click": "int", "views": "int", "price": "double", "ts": "timestamp"}
                kind = weighted(rng, [fits.get(name, "varchar")], TYPES, 0.15)
                quoted = '"' + name.replace('"', '""').replace("\0", "") + '"'
                parts.append(f"try_cast(r[{i + 1}] as {kind}) as {quoted}")
            padded = [([*row, *[None] * len(names)])[: len(names)] for row in rows]
            told = [
                [None if c is None else str(c).replace("\0", "") for c in row] for row in padded
            ]
            source = "(select unnest($1::varchar[][]) as r)"
            made = f"create table t as select {', '.join(parts)} from {source}"
            con.execute(made, [told])
            if suffix == ".parquet":
                con.execute(f"copy t to '{file}'")
            elif rng.random() < 0.3:
                con.execute(f'create {rng.choice(("view", "table"))} "a\'b" as from t')
        return file.read_bytes()


def _as_sqlite(rng: random.Random, file: Path, header: list[str], rows: list[list[Any]]) -> bytes:
    import sqlite3

    names = [name.replace("\0", "") or f"c{i}" for i, name in enumerate(header)]
    names = [name for i, name in enumerate(names) if name.lower() not in map(str.lower, names[:i])]
    con = sqlite3.connect(file)
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    kinds = ("", " integer", " real", " text", " blob", " datetime", " boolean", " numeric(10, 2)")
    con.execute(f"create table t ({', '.join(n + rng.choice(kinds) for n in quoted)})")
    marks = ", ".join("?" * len(names))
    padded = [([*row, *[None] * len(names)])[: len(names)] for row in rows]
    told = [
        [c if c is None or rng.random() < 0.97 else str(c).encode() for c in row] for row in padded
    ]
    con.executemany(f"insert into t values ({marks})", told)
    con.commit()
    con.close()
    return file.read_bytes()


def _cell(rng: random.Random, cell: Any) -> Any:
    """Return a cell of a workbook: a number where it is one, most often."""
    text = "".join(c for c in str(cell or "") if c.isprintable())
    try:
        number = float(text)
    except ValueError:
        return text or None
    return number if abs(number) < 1e300 and rng.random() < 0.9 else text


def _asked(rng: random.Random, name: str) -> tuple[Act, dict[str, bytes], str]:
    """Draw what is done with a file: a command, or two."""
    out = ("--json", "out/o.json")
    named = ("--variant", "variant", "--unit", "user_id")
    path = f"./{name}"
    match rng.randrange(12):
        case 0 | 1 | 2:
            return command("analyze", path, *named, *out), {}, "analyze"
        case 3:
            goal = rng.choice(("price", "click", "r=click/views"))
            return (
                command("analyze", path, *named, "--metric", goal, "--segment", "country", *out),
                {},
                "analyze",
            )
        case 4:
            return command("analyze", path, *out), {}, "analyze bare"
        case 5 | 6:
            return command("init", path, "--output", "out/d.toml"), {}, "init"
        case 7 | 8:
            base = data.table("world.toml")[rng.choice(("e.toml", "units.toml"))]
            entry = rng.choice(("logs.impressions.path", "logs.units.path"))
            text = with_entry(base, entry, toml(path)).encode("utf-8", "replace")
            return command("analyze", "e.toml", *out), {"e.toml": text}, "experiment"
        case 9:
            return (
                command("tools", "assign", path, "--salt", "s", "--variants", "a=1,b=1", *out),
                {},
                "assign",
            )
        case 10:
            return command("analyze", "--sums", path, *out), {}, "sums"
        case _:
            return command("history", "report", "--history", path, *out), {}, "history"
