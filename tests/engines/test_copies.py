"""Kinds of files through the whole command, with the numbers of pandas; and what they refuse."""

import json
import sqlite3
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from contextlib import closing
from datetime import date, datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
import tomlkit

import abeval
from abeval.drafts.run import draft_files
from abeval.engines.duckdb import DuckDBEngine
from abeval.errors import AbevalError, ExperimentError, LogError, QueryError
from abeval.experiment.sections import EngineOptions
from abeval.experiment.sources import LogSource
from tests.cli.test_cli import call
from tests.workbooks import write_ods, write_xlsb, write_xlsx

UNITS = 400


@pytest.fixture
def users() -> pd.DataFrame:
    return table_of_users()


def table_of_users() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    group = rng.choice(["control", "new"], UNITS)
    return pd.DataFrame(
        {
            "user_id": np.arange(1000, 1000 + UNITS),
            "group": group,
            "amount": np.round(rng.gamma(2.0, 800.0, UNITS) + 300 * (group == "new"), 2),
            "clicks": rng.poisson(3.0, UNITS),
            "signup": [datetime(2026, 7, 1) + timedelta(hours=i) for i in range(UNITS)],
        }
    )


def cells(users: pd.DataFrame) -> list[list[object]]:
    rows = [[int(u), g, float(a), int(c)] for u, g, a, c, _ in users.itertuples(index=False)]
    return [["user_id", "group", "amount", "clicks"], *rows]


def sqlite_of(file: Path, **tables: pd.DataFrame) -> None:
    database = sqlite3.connect(file)
    for name, rows in tables.items():
        rows.to_sql(name, database, index=False)
    database.close()


def duckdb_of(file: Path, **tables: pd.DataFrame) -> None:
    with duckdb.connect(str(file)) as database:
        for name, rows in tables.items():
            database.register("rows", rows)
            database.execute(f"create table {name} as from rows")


def named(users: pd.DataFrame, control: str, new: str) -> pd.DataFrame:
    return users.assign(group=users["group"].map({"control": control, "new": new}))


def nested(file: Path, users: pd.DataFrame) -> None:
    rows = (
        {"user": {"id": int(u)}, "seen": {"ab": {"variant": g}}, "amount": a, "of": {"clicks": c}}
        for u, g, a, c, _ in users.itertuples(index=False)
    )
    file.write_text("\n".join(map(json.dumps, rows)))


def csv(**options: object) -> Callable[[Path, pd.DataFrame], None]:
    return lambda file, users: users.to_csv(file, index=False, **options)


def notes(users: pd.DataFrame) -> dict[str, list[list[object]]]:
    return {"Notes": [["to do"], ["ask"]], "Data": cells(users)}


CYRILLIC, KANJI, HANZI = ("контроль", "тест"), ("対照群", "テスト群"), ("对照组", "实验组")
WORLDS: dict[
    str, tuple[Callable[[Path, pd.DataFrame], object], tuple[str, str], dict[str, str]]
] = {
    "one.xlsx": (lambda f, u: write_xlsx(f, {"Data": cells(u), "Empty": []}), ("", ""), {}),
    "two.xlsx": (lambda f, u: write_xlsx(f, notes(u)), ("", ""), {"sheet": "Data"}),
    "one.ods": (lambda f, u: write_ods(f, cells(u)), ("", ""), {}),
    "one.sqlite": (lambda f, u: sqlite_of(f, users=u), ("", ""), {}),
    "two.db": (lambda f, u: sqlite_of(f, users=u, x=u.head(3)), ("", ""), {"table": "users"}),
    "one.duckdb": (lambda f, u: duckdb_of(f, users=u), ("", ""), {}),
    "other.db": (lambda f, u: duckdb_of(f, users=u, x=u.head(3)), ("", ""), {"table": "USERS"}),
    "semicolons.csv": (csv(sep=";", decimal=","), ("", ""), {"decimal": ","}),
    "cp1251.csv": (
        csv(sep=";", decimal=",", encoding="cp1251"),
        CYRILLIC,
        {"encoding": "cp1251", "decimal": ",", "delimiter": ";"},
    ),
    "packed.csv.gz": (csv(encoding="cp1251"), CYRILLIC, {"encoding": "windows-1251"}),
    "tabs.log": (csv(sep="\t", encoding="utf-16"), CYRILLIC, {"format": "csv"}),
    "jis.csv": (csv(encoding="shift_jis"), KANJI, {"encoding": "shift_jis"}),
    "gb.csv": (csv(encoding="gb18030"), HANZI, {"encoding": "gb18030"}),
    "nested.jsonl": (nested, ("", ""), {}),
}
NESTED = {"user_id": "user.id", "group": "seen.ab.variant", "clicks": "of.clicks"}


def made(name: str, folder: Path, users: pd.DataFrame) -> tuple[Path, tuple[str, str]]:
    """Write a file of a kind; return it, and its control and treatment."""
    write, (control, new), _ = WORLDS[name]
    write(folder / name, named(users, control, new) if control else users)
    return folder / name, (control or "control", new or "new")


@pytest.mark.first_cases(5)
@pytest.mark.parametrize("name", WORLDS)
def test_each_kind_of_file_has_the_numbers_of_pandas(
    name: str, tmp_path: Path, users: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, (control, new) = made(name, tmp_path, users)
    own = NESTED if name == "nested.jsonl" else {}
    unit, variant, clicks = (own.get(c, c) for c in ("user_id", "group", "clicks"))
    read = [part for k, v in WORLDS[name][2].items() for part in ("--read", f"{k}={v}")]
    options = ["--unit", unit, "--variant", variant, "--metric", "amount", "--metric", clicks]
    output = tmp_path / "result.json"
    arguments = ["analyze", file, *options, "--control", control, *read, "--json", output]
    assert call(monkeypatch, *arguments) == 0
    of_table = json.loads(output.read_text())
    means = users.groupby("group")[["amount", "clicks"]].mean()
    for metric, column in (("amount", "amount"), (clicks.replace(".", "_"), "clicks")):
        (row,) = (row for row in of_table["scorecard"] if row["metric"] == metric)
        assert row["variant"] == new
        assert row["control"] == pytest.approx(means.loc["control", column], rel=1e-12)
        assert row["treatment"] == pytest.approx(means.loc["new", column], rel=1e-12)

    entries = {"path": name, **WORLDS[name][2], "columns": {"variant": variant}}
    experiment = abeval.define(
        folder=tmp_path,
        name="e",
        unit=unit,
        control=control,
        variants={control: {}, new: {}},
        logs={"units": entries},
        metrics=[{"name": "amount"}, {"name": "c", "value": clicks}],
    )
    of_file = experiment.analyze()
    assert of_file["amount"].treatment == pytest.approx(means.loc["new", "amount"], rel=1e-12)
    assert of_file["c"].control == pytest.approx(means.loc["control", "clicks"], rel=1e-12)


@pytest.mark.first_cases(4)
@pytest.mark.parametrize("name", [name for name in WORLDS if name not in ("two.xlsx", "tabs.log")])
def test_init_finds_how_a_file_is_read(name: str, tmp_path: Path, users: pd.DataFrame) -> None:
    file, _ = made(name, tmp_path, users)
    own = draft_files([file], tmp_path)
    assert not [q for q in own.questions if "decimal" in q or "encoding" in q]
    (tmp_path / "e.toml").write_text(own.text)
    result = abeval.load(tmp_path / "e.toml").analyze()
    mean = users.loc[users["group"] == "new", "amount"].mean()
    assert result["amount"].treatment == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "what", "hint"),
    [
        ("two.xlsx", "has 2 sheets with columns: 'Notes', 'Data'", "--read sheet=Notes"),
        ("two.db", "has 2 tables with columns: 'users', 'x'", "--read table=users"),
        ("other.db", "has 2 tables with columns: 'users', 'x'", "--read table=users"),
        ("semicolons.csv", "column 'amount' is text, such as ", "--read decimal=,"),
        ("cp1251.csv", "is not UTF-8", "likely cp1251, with words such as 'контроль'"),
        ("jis.csv", "is not UTF-8", "likely shift_jis, with words such as 'テスト群'"),
        ("tabs.log", "unknown or mixed formats", "--read format=csv"),
    ],
)
def test_what_a_file_needs_is_said(
    name: str, what: str, hint: str, tmp_path: Path, users: pd.DataFrame
) -> None:
    file, _ = made(name, tmp_path, users)
    with pytest.raises(LogError) as refused:
        abeval.analyze(file, unit="user_id", variant="group")
    assert what in str(refused.value)
    assert hint in str(refused.value)


def test_a_workbook_at_an_address_is_to_be_copied_first(tmp_path: Path) -> None:
    log = LogSource(path="https://example.org/users.xlsx")
    engine = DuckDBEngine(EngineOptions(remote_files=True), tmp_path)
    with closing(engine), pytest.raises(LogError, match="is at an address") as refused:
        engine.add_log("raw_units", log)
    assert refused.value.hint == "copy it to this machine, and name the copy"


def test_an_experiment_file_is_told_its_own_words(tmp_path: Path, users: pd.DataFrame) -> None:
    made("two.xlsx", tmp_path, users)
    variants = {"control": {}, "new": {}}
    logs = {"units": {"path": "two.xlsx", "columns": {"variant": "group"}}}
    named = {"name": "e", "unit": "user_id", "control": "control", "variants": variants}
    text = tomlkit.dumps({**named, "logs": logs, "metrics": [{"name": "amount"}]})
    (tmp_path / "e.toml").write_text(text)
    with pytest.raises(LogError, match=r'sheet = "Notes" in \[logs.units\]'):
        abeval.load(tmp_path / "e.toml").analyze()


@pytest.mark.parametrize(
    ("read", "words"),
    [
        ({"sheets": "Data"}, "unknown key 'sheets'; did you mean `sheet`"),
        ({"encoding": "runes"}, "read.encoding: is no encoding of text"),
        ({"decimal": ";"}, "read.decimal: should be '.' or ','"),
        ({"sheet": "Data"}, "`sheet` is for xlsx"),
        ({"table": "users"}, "`table` is for sqlite and duckdb"),
    ],
)
def test_a_wrong_way_to_read_is_refused(
    read: dict[str, str], words: str, tmp_path: Path, users: pd.DataFrame
) -> None:
    file, _ = made("semicolons.csv", tmp_path, users)
    with pytest.raises(AbevalError, match="(?s).*".join(words.split("*"))):
        abeval.analyze(file, unit="user_id", variant="group", read=read)
    with pytest.raises(ExperimentError, match="there is a frame"):
        abeval.analyze(users, unit="user_id", variant="group", read={"decimal": ","})


SHEETS: dict[str, tuple[list[list[object]], str]] = {
    "blank rows above": ([[None], [None], ["id"], [1.0]], "row 1 is blank.* is 3"),
    "a title above": ([["Report"], ["id", "x"], [1.0, 2.0]], "row 2 has 'x' in a column without"),
    "two of a name": ([["id", "id"], [1.0, 2.0]], "two columns are called 'id'"),
    "nothing": ([], "has 0 sheets with columns"),
}


@pytest.mark.parametrize("sheet", SHEETS)
def test_a_sheet_without_a_header_is_refused_by_its_row(sheet: str, tmp_path: Path) -> None:
    rows, words = SHEETS[sheet]
    write_xlsx(tmp_path / "a.xlsx", {"Data": rows})
    with pytest.raises(LogError, match=words):
        abeval.analyze(tmp_path / "a.xlsx", variant="x")


def rows_of(folder: Path, **source: object) -> tuple[dict[str, str], list[tuple[object, ...]]]:
    """Types and rows of a log as the engine reads it, confined to it."""
    log = LogSource.model_validate({"columns": {"unit_id": "id"}, **source})
    engine = DuckDBEngine(folder=folder)
    try:
        engine.confine([log])
        engine.add_log("raw_units", log)
        return dict(engine.columns("raw_units")), list(engine.rows("from raw_units order by all"))
    finally:
        engine.close()


def test_cells_are_read_as_what_they_are(tmp_path: Path) -> None:
    day, moment = date(2026, 7, 1), datetime(2026, 7, 1, 9, 30)
    write_xlsx(
        tmp_path / "a.xlsx",
        {
            "S": [
                ["id", "day", "at", "value", "ok", "code", "mixed"],
                [7.0, day, moment, 1.5, True, "007", 1.0],
                [None] * 7,
                [8.0, day, moment, "#DIV/0!", False, "100", "n/a"],
            ]
        },
    )
    types, rows = rows_of(tmp_path, path="a.xlsx")
    assert types["id"] == "BIGINT"
    assert (types["day"], types["at"], types["value"]) == ("DATE", "TIMESTAMP", "DOUBLE")
    assert rows == [
        (7, day, moment, 1.5, True, rows[0][5], "1"),
        (8, day, moment, None, False, rows[1][5], "n/a"),
    ]


def test_ids_of_a_workbook_that_a_double_cannot_hold_are_refused(tmp_path: Path) -> None:
    long = [["user", "group", "x"], *([1e18 + i * 1e6 + 0.0, "ab"[i % 2], 1.0] for i in range(50))]
    write_xlsx(tmp_path / "a.xlsx", {"S": long})
    with pytest.raises(LogError, match="row 2 has 1000000000000000000, of which"):
        abeval.analyze(tmp_path / "a.xlsx", unit="user", variant="group")


def test_the_index_that_pandas_writes_into_a_workbook_is_a_column_as_in_csv(tmp_path: Path) -> None:
    frame = pd.DataFrame({"user": [7, 8], "group": ["a", "b"]})
    write_xlsx(tmp_path / "a.xlsx", {"S": [["", "user", "group"], [0, 7, "a"], [1, 8, "b"]]})
    frame.to_csv(tmp_path / "a.csv")
    assert rows_of(tmp_path, path="a.xlsx") == rows_of(tmp_path, path="a.csv")


def test_values_of_sqlite_keep_their_digits(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as database, database:
        database.execute('create table t (id text, "a ""b""" integer, x real, raw blob, note text)')
        values = [
            ("007", 2**62, 0.1 + 0.2, b"\x00\xff", 'a "quoted",\nline'),
            ("100", None, None, None, ""),
        ]
        database.executemany("insert into t values (?, ?, ?, ?, ?)", values)
    database.close()
    types, rows = rows_of(tmp_path, path="a.sqlite")
    assert types["id"] == "VARCHAR"
    assert rows == [
        ("007", 2**62, 0.1 + 0.2, "00FF", 'a "quoted",\nline'),
        ("100", None, None, None, None),
    ]


def test_several_files_are_one_log_if_their_columns_are_the_same(tmp_path: Path) -> None:
    for day in ("1", "2"):
        folder = tmp_path / "log" / f"day=2026-07-0{day}"
        folder.mkdir(parents=True)
        (folder / "a.csv").write_bytes(f"id;город\n{day};Казань\n".encode("cp1251"))
    types, rows = rows_of(tmp_path, path="log", encoding="cp1251")
    assert [*types] == ["id", "город", "day"]
    assert [row[:2] for row in rows] == [(1, "Казань"), (2, "Казань")]
    (folder / "b.csv").write_bytes("id;другой\n3;x\n".encode("cp1251"))
    with pytest.raises(LogError, match=r"the headers of .*a\.csv and .*b\.csv differ"):
        rows_of(tmp_path, path="log", encoding="cp1251")


def test_files_of_another_encoding_are_not_read_as_the_wrong_one(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("id,город\n1,Казань\n".encode("cp1251"))
    with pytest.raises(LogError, match="is not shift_jis"):
        rows_of(tmp_path, path="a.csv", encoding="shift_jis")
    (tmp_path / "b.csv").write_bytes("id,город\n1,Казань\n".encode("utf-8-sig"))
    assert rows_of(tmp_path, path="b.csv", encoding="utf-8") == (
        {"id": "BIGINT", "город": "VARCHAR"},
        [(1, "Казань")],
    )


def test_a_point_between_thousands_is_refused(tmp_path: Path) -> None:
    rows = "".join(f"{i};{'ab'[i % 2]};1.234,5\n" for i in range(20))
    (tmp_path / "a.csv").write_text(f"user;group;amount\n{rows}")
    with pytest.raises(LogError, match="without points between thousands"):
        abeval.analyze(tmp_path / "a.csv", unit="user", variant="group", read={"decimal": ","})


def test_init_asks_where_commas_may_be_between_thousands(tmp_path: Path) -> None:
    rows = "".join(f"{i};{'ab'[i % 2]};{i % 7 + 1},{500 + i}\n" for i in range(200))
    (tmp_path / "a.csv").write_text(f"user_id;variant;amount\n{rows}")
    own = draft_files([tmp_path / "a.csv"], tmp_path)
    assert [q for q in own.questions if q.startswith("decimal: is it ','? amount has values")]
    sure = draft_files([tmp_path / "a.csv"], tmp_path, read={"decimal": ","})
    assert not [q for q in sure.questions if "decimal" in q]


def test_no_copy_is_left(
    tmp_path: Path, users: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, _ = made("one.xlsx", tmp_path, users)
    places = tmp_path / "temporary"
    places.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(places))
    abeval.analyze(file, unit="user_id", variant="group")
    assert list(places.iterdir()) == []


@pytest.mark.parametrize("name", ["a.xlsx", "a.sqlite", "a.duckdb"])
def test_a_file_of_something_else_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"x" * 5000)
    with pytest.raises(LogError, match=f"{name} cannot be (read as a|opened)"):
        abeval.analyze(tmp_path / name, variant="group")


FAR = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
UNNAMED = f'<row r="1048576">{"<c><v>1</v></c>" * 16_384}</row></sheetData>'


def changed(file: Path, old: str, new: str) -> None:
    """Change the XML of the sheet of a workbook."""
    with zipfile.ZipFile(file) as parts:
        texts = {name: parts.read(name).decode() for name in parts.namelist()}
    assert old in texts["xl/s1.xml"]
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as parts:
        for name, text in texts.items():
            parts.writestr(name, text.replace(old, new) if name == "xl/s1.xml" else text)


@pytest.mark.parametrize("cells_far_away", [FAR, UNNAMED, FAR.replace("<row r", "<x:row  r")])
def test_a_value_far_from_the_table_is_refused_before_it_is_read(
    users: pd.DataFrame, tmp_path: Path, cells_far_away: str
) -> None:
    write_xlsx(tmp_path / "a.xlsx", {"S": cells(users)})
    changed(tmp_path / "a.xlsx", "</sheetData>", cells_far_away)
    begun = time.process_time()
    with pytest.raises(LogError, match="reach to row 1,048,576 and column 16,384") as refused:
        abeval.analyze(tmp_path / "a.xlsx", unit="user_id", variant="group")
    assert "a.xlsx: in xl/s1.xml" in str(refused.value)
    assert "remove what stands apart" in str(refused.value)
    assert time.process_time() - begun < 1


def test_the_extent_of_a_binary_workbook_is_measured_too(tmp_path: Path) -> None:
    rows = [["user", "group", "x"], *([f"u{i}", "ab"[i % 2], i % 7] for i in range(90))]
    write_xlsb(tmp_path / "a.xlsb", rows)
    result = abeval.analyze(tmp_path / "a.xlsb", unit="user", variant="group", metrics=["x"])
    assert [variant.units for variant in result.experiment.variants] == [45, 45]
    write_xlsb(tmp_path / "a.xlsb", rows, {(99_999, 701): 1})
    with pytest.raises(LogError, match=r"sheet1\.bin, values reach to row 100,000 and column 702"):
        abeval.analyze(tmp_path / "a.xlsb", unit="user", variant="group", metrics=["x"])


def test_a_format_far_from_the_table_is_no_value(users: pd.DataFrame, tmp_path: Path) -> None:
    write_xlsx(tmp_path / "a.xlsx", {"S": cells(users)})
    right = rows_of(tmp_path, path="a.xlsx")
    blank = '<row r="1048576"><c r="XFD1048576" s="1"/></row></sheetData>'
    changed(tmp_path / "a.xlsx", "</sheetData>", blank)
    assert rows_of(tmp_path, path="a.xlsx") == right


def test_a_note_beside_a_long_table_is_refused(tmp_path: Path) -> None:
    """702 columns of 100,000 rows."""
    write_xlsx(tmp_path / "a.xlsx", {"S": [["user", "group"], [1, "a"], [2, "b"]]})
    note = '<row r="100000"><c r="ZZ100000" t="str"><v>note</v></c></row></sheetData>'
    changed(tmp_path / "a.xlsx", "</sheetData>", note)
    with pytest.raises(LogError, match="row 100,000 and column 702"):
        abeval.analyze(tmp_path / "a.xlsx", unit="user", variant="group")


_WRITES = """
import os, sqlite3
database = sqlite3.connect("a.sqlite")
database.execute("pragma journal_mode = wal")
database.execute("create table t (user, variant, click)")
rows = [(i, "ab"[i % 2], i % 3) for i in range(300)]
database.executemany("insert into t values (?, ?, ?)", rows)
database.commit()
LEAVE
"""


@pytest.mark.parametrize("leave", ["os._exit(0)", "database.close()"])
def test_nothing_is_written_beside_a_sqlite_database_with_a_log(tmp_path: Path, leave: str) -> None:
    """Killed, which leaves its log, or closed, where reading it would make a new one."""
    code = _WRITES.replace("LEAVE", leave)
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)  # noqa: S603
    assert (tmp_path / "a.sqlite-wal").exists() == ("exit" in leave)
    # Readers note in the shared memory that they are there: it is compared too.
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    tmp_path.chmod(0o500)
    for _ in range(3):
        assert len(rows_of(tmp_path, path="a.sqlite")[1]) == 300
    tmp_path.chmod(0o700)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_half_written_sqlite_database_is_read_as_it_was(tmp_path: Path) -> None:
    code = _WRITES.replace("wal", "delete").replace(
        "LEAVE",
        'database.execute("pragma cache_size = 1"); '
        'database.execute("update t set click = randomblob(900)"); os._exit(0)',
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)  # noqa: S603
    assert (tmp_path / "a.sqlite-journal").exists()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert {str(row[2]) for row in rows_of(tmp_path, path="a.sqlite")[1]} == {"0", "1", "2"}
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_number_of_many_digits_is_refused_at_once(tmp_path: Path) -> None:
    rows = "".join(f"{i},{'ab'[i % 2]},{i % 3}\n" for i in range(50))
    (tmp_path / "a.csv").write_text(f"user,variant,click\n{rows}{'7' * 1_000_000},a,1\n")
    begun = time.process_time()
    with pytest.raises(LogError, match=r"a\.csv has a number of more than 10,000 digits"):
        abeval.analyze(tmp_path / "a.csv", unit="user", variant="variant")
    assert time.process_time() - begun < 1


def test_damaged_pages_of_sqlite_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(file)) as database:
        for table in ("people", "others"):
            database.execute(f"create table {table} (user_id, variant, x)")
            rows = [(f"{table}{i}", "ab"[i % 2], i % 7) for i in range(900)]
            database.executemany(f"insert into {table} values (?, ?, ?)", rows)
        database.commit()
        where = "where name = 'others' and pagetype = 'leaf'"
        sql = f"select min(pageno), max(pageno) from dbstat {where}"
        first, last = database.execute(sql).fetchone()
    data = bytearray(file.read_bytes())
    one, other = (slice(4096 * (page - 1), 4096 * page) for page in (first, last))
    data[one], data[other] = data[other], data[one]
    file.write_bytes(data)

    def units(table: str) -> int:
        asked = {"unit": "user_id", "variant": "variant", "metrics": ["x"]}
        result = abeval.analyze(file, read={"table": table}, **asked)
        return sum(variant.units for variant in result.experiment.variants)

    for table in ("people", "others"):
        with pytest.raises(
            LogError, match=r"a\.sqlite is a damaged SQLite database: .*page"
        ) as said:
            units(table)
        assert f"sqlite3 {file} .recover | sqlite3" in str(said.value.hint)
    # Of a large file only the table that is read is checked.
    monkeypatch.setattr("abeval.engines.copies._WHOLE_CHECK", 1)
    assert units("people") == 900
    with pytest.raises(LogError, match="is a damaged SQLite database"):
        units("others")


def test_damage_that_a_query_meets_says_what_to_do(tmp_path: Path) -> None:
    """Blocks of a DuckDB file have check sums, which are compared as they are read."""
    file = tmp_path / "a.duckdb"
    with duckdb.connect(str(file)) as database:
        database.execute(
            "create table people as select i as user_id, case when i % 2 = 0 then 'a' else 'b' end "
            "as variant, random() as x from range(20_000) t(i)"
        )
    data = bytearray(file.read_bytes())
    data[3 * 4096 + len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(QueryError, match=r"Corrupt database file: computed checksum") as said:
        abeval.analyze(file, unit="user_id", variant="variant", metrics=["x"])
    assert said.value.hint == "a file of a log is damaged: restore it, or write it again"


def test_a_damaged_file_of_a_delta_table_is_named(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    rows = pd.DataFrame({"user_id": range(90), "variant": ["a", "b"] * 45, "x": range(90)})
    deltalake.write_deltalake(tmp_path / "t", rows)
    (file,) = (tmp_path / "t").glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(LogError, match=file.name) as said:
        abeval.analyze(tmp_path / "t", unit="user_id", variant="variant", metrics=["x"])
    assert said.value.hint == "a file of the table may be damaged: restore it"
