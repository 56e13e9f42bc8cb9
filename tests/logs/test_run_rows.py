"""Every row of the files is used, or set aside for a reason; nothing is read in part."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import abeval
from abeval.errors import LogError
from abeval.logs import run
from abeval.logs.files import FileFacts
from abeval.results.analysis import Result
from tests.logs.small import PERIOD, aside, small_log

GOOD = small_log(rows=40, units=8)


def experiment(folder: Path, source: Mapping[str, object], **entries: Any) -> Any:
    base = {
        "name": "rows",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "metrics": [{"name": "ctr"}],
        "trust": {"aa_runs": 0},
        "period": PERIOD,
        "engine": {"threads": 1},
    }
    return abeval.define(folder, **{**base, "logs": {"impressions": source}, **entries})


# The ways by which a log comes: each writes it, and returns its entry and the rows of the files,
# counted by something else than abeval.


def parquet(log: pd.DataFrame, file: Path) -> int:
    with duckdb.connect() as con:
        con.execute(f"copy log to '{file}' (format parquet, row_group_size 2048)")
        ((rows,),) = con.execute(
            f"select sum(num_rows) from parquet_file_metadata('{file}')"
        ).fetchall()
    return int(rows)


def csv(log: pd.DataFrame, file: Path) -> int:
    log.to_csv(file, index=False)
    return len(file.read_text().splitlines()) - 1


def lines(log: pd.DataFrame, file: Path) -> int:
    log.to_json(file, orient="records", lines=True, date_format="iso")
    return len(file.read_text().splitlines())


def array(log: pd.DataFrame, file: Path) -> int:
    log.to_json(file, orient="records", date_format="iso")
    return len(json.loads(file.read_text()))


def one(write: Callable[[pd.DataFrame, Path], int], name: str) -> Callable[..., tuple[Any, int]]:
    return lambda log, folder: ({"path": name}, write(log, folder / name))


def several(
    write: Callable[[pd.DataFrame, Path], int], suffix: str, path: str
) -> Callable[..., tuple[Any, int]]:
    def lay_out(log: pd.DataFrame, folder: Path) -> tuple[Any, int]:
        (folder / "logs").mkdir()
        third = len(log) // 3
        # In turns, so that each part has rows of every kind, and the types of its columns.
        parts = [log.iloc[i::3] for i in range(3 if third else 1)]
        counts = [write(part, folder / "logs" / f"{i}{suffix}") for i, part in enumerate(parts)]
        return {"path": path}, sum(counts)

    return lay_out


def table(log: pd.DataFrame, folder: Path) -> tuple[Any, int]:
    with duckdb.connect(folder / "logs.duckdb") as con:
        con.execute("create table shown as from log")
        ((rows,),) = con.execute("select count(*) from shown").fetchall()
    return {"table": "shown", "path": "logs.duckdb"}, int(rows)


WAYS: dict[str, Callable[[pd.DataFrame, Path], tuple[Any, int]]] = {
    "parquet": one(parquet, "log.parquet"),
    "csv": one(csv, "log.csv"),
    "json lines": one(lines, "log.jsonl"),
    "json": one(array, "log.json"),
    "folder": several(parquet, ".parquet", "logs"),
    "glob": several(csv, ".csv", "logs/*.csv"),
    "glob of lines": several(lines, ".jsonl", "logs/?.jsonl"),
    "table": table,
}

OF_ROW = st.tuples(
    st.sampled_from(["u1", "u2", "u3", "u4", None]),
    st.sampled_from(["a", "b", "holdout", None]),
    st.sampled_from([-9.0, -1.0, 0.5, 1.5, 2.999, 3.0, 40.0, None]),
    st.sampled_from([0, 1, None]),
    st.integers(0, 6),
)
"""Unit, variant, day, click, impression: with what is wrong in logs."""

CLEANING = st.fixed_dictionaries(
    {
        "duplicates": st.sampled_from(["drop", "keep", "unchecked"]),
        "crossover": st.sampled_from(["exclude", "first"]),
    }
)


def dirty(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    """A good log, and these rows in it; each column has one type in every format."""
    start = pd.Timestamp(PERIOD["start"])
    bad = pd.DataFrame(
        {
            "user_id": [user for user, *_ in rows],
            "variant": [row[1] for row in rows],
            "ts": [None if row[2] is None else start + pd.Timedelta(days=row[2]) for row in rows],
            "click": pd.array([row[3] for row in rows], dtype="Int64"),
            "impression_id": [f"i{row[4]}" for row in rows],
        }
    )
    good = GOOD[["user_id", "variant", "ts", "click"]].assign(
        user_id="u" + GOOD.user_id.astype(str),
        impression_id=[f"g{i}" for i in range(len(GOOD))],
        click=GOOD.click.astype("Int64"),
    )
    log = pd.concat([good, bad.astype({"ts": "datetime64[ms]"})], ignore_index=True)
    return log.sample(frac=1, random_state=1, ignore_index=True)


def both(result: Result) -> tuple[int, dict[str, int]]:
    """The rows that were read, and what became of them."""
    account = next(a for a in result.accounting if a.log == "impressions")
    assert account.read == account.used + sum(rows for _, rows in account.set_aside)
    return account.read, aside(result)


@pytest.mark.whole
@settings(max_examples=14, deadline=None)
@given(
    st.lists(OF_ROW, min_size=1, max_size=25),
    st.sampled_from(sorted(WAYS)),
    CLEANING,
    st.booleans(),
)
def test_rows_of_the_files_are_used_or_set_aside_whatever_they_come_by(
    rows: list[tuple[Any, ...]], way: str, cleaning: dict[str, str], before: bool
) -> None:
    log = dirty(rows)
    earlier = {"pre_period": {"start": "2024-02-20", "end": "2024-03-01"}} if before else {}
    entries = {"cleaning": cleaning, **earlier}
    with TemporaryDirectory() as name:
        source, in_files = WAYS[way](log, Path(name))
        by_files = both(experiment(Path(name), source, **entries).analyze())
    by_frame = both(experiment(Path(), {}, **entries).analyze(logs={"impressions": log}))
    assert in_files == len(log)
    assert by_files == by_frame
    assert by_files[0] == in_files


def test_a_filter_counts_what_it_keeps_of_the_rows_of_the_file(tmp_path: Path) -> None:
    log = dirty([("u1", "a", 1.0, 1, 1), (None, "a", 1.0, 1, 2), ("u2", "holdout", 9.0, 0, 3)])
    kept = parquet(log, tmp_path / "log.parquet") - int((log.click != 1).sum())
    found = experiment(tmp_path, {"path": "log.parquet", "where": "click = 1"}).analyze()
    assert both(found)[0] == kept
    assert f"{kept} of {len(log)} rows" in " ".join(found.notes)


# What readers leave out.


def text(folder: Path, *parts: str) -> Any:
    (folder / "log.csv").write_text("".join(parts))
    return experiment(folder, {"path": "log.csv"})


def body(log: pd.DataFrame, *columns: str) -> str:
    return log[["user_id", "variant", "ts", "click", *columns]].to_csv(index=False)


def test_a_second_header_does_not_begin_the_log_anew(tmp_path: Path) -> None:
    # DuckDB takes the last lines of equal width for the table, and leaves out those before.
    joined = text(tmp_path, body(GOOD[:20]), body(GOOD[20:], "item_id"))
    with pytest.raises(LogError, match=r"log\.csv, line 22: 5 fields, but the header has 4"):
        joined.analyze()


def test_ids_that_begin_with_a_number_sign_are_no_comments(tmp_path: Path) -> None:
    log = GOOD.assign(user_id=np.where(GOOD.user_id == 1, "#1", "u" + GOOD.user_id.astype(str)))
    assert both(text(tmp_path, body(log)).analyze())[0] == len(log)


@pytest.mark.parametrize(
    ("first", "says"),
    [("# exported today", "# exported today"), ("Report, of today", r"line 2: 4 fields")],
)
def test_lines_above_the_header_are_named(first: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(LogError, match=says):
        text(tmp_path, f"{first}\n", body(GOOD)).analyze()


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl", "log.parquet"])
def test_a_reader_that_leaves_rows_out_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = {"csv": csv, "jsonl": lines, "parquet": parquet}[name.partition(".")[2]]
    write(GOOD, tmp_path / name)
    real = run.read_file_facts

    def with_one_more(*arguments: Any) -> FileFacts:
        facts = real(*arguments)
        assert facts.rows == 40
        return FileFacts(facts.files, rows=41, are_lines=facts.are_lines)

    monkeypatch.setattr(run, "read_file_facts", with_one_more)
    with pytest.raises(LogError, match="40 rows were read, but the files have 41"):
        experiment(tmp_path, {"path": name}).analyze()


@pytest.mark.parametrize("command", ["analyze", "windows"])
def test_rows_that_are_lost_on_the_way_are_refused(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet(GOOD, tmp_path / "log.parquet")
    loaded = experiment(tmp_path, {"path": "log.parquet"}, cleaning={"duplicates": "unchecked"})
    real = run.open_log

    def with_one_more(*arguments: Any) -> tuple[int, int, list[str]]:
        read, left, notes = real(*arguments)
        return read, left + 1, notes

    monkeypatch.setattr(run, "open_log", with_one_more)
    calls = {"analyze": loaded.analyze, "windows": loaded.windows}
    with pytest.raises(LogError, match="40 rows were used or set aside, but 41 were read"):
        calls[command]()


BLANK = pd.DataFrame(index=range(2), columns=GOOD.columns)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "frame"])
def test_blank_rows_are_no_rows_and_are_counted(kind: str, tmp_path: Path) -> None:
    # One row has no value in what is read, and a remark in another column: it is a row.
    log = pd.concat([GOOD.astype(object), BLANK, BLANK.iloc[:1]], ignore_index=True)
    log["remark"] = [None] * 42 + ["exported"]
    source: dict[str, Any] = {} if kind == "frame" else {"path": f"log.{kind}"}
    if kind == "csv":
        log.to_csv(tmp_path / "log.csv", index=False)
    elif kind == "jsonl":
        log.to_json(tmp_path / "log.jsonl", orient="records", lines=True, date_format="iso")
    log["user_id"] = log["user_id"].astype("Int64")
    log["ts"] = pd.to_datetime(log["ts"])
    frames = {"impressions": log} if kind == "frame" else {}
    result = experiment(tmp_path, source).analyze(logs=frames)
    good = experiment(tmp_path, {}).analyze(logs={"impressions": GOOD})
    assert result["ctr"] == good["ctr"]
    assert "are not read: 2." in " ".join(result.notes)
    (account,) = (one for one in result.accounting if one.log == "impressions")
    (of_good,) = (one for one in good.accounting if one.log == "impressions")
    assert account.read == of_good.read + 1
    assert sum(rows for _, rows in account.set_aside) == 1 + sum(r for _, r in of_good.set_aside)


def test_a_row_of_totals_has_no_variant(tmp_path: Path) -> None:
    rows = [f"{i},{'ab'[i % 2]},{i % 7}" for i in range(80)]
    text = "\n".join(["user,grp,clicks", *rows, "Total,,237", ""])
    (tmp_path / "table.csv").write_text(text)
    result = abeval.analyze(tmp_path / "table.csv", variant="grp", unit="user", metrics=["clicks"])
    clicks = pd.Series(np.arange(80) % 7)
    row = result["clicks"]
    assert [row.control, row.treatment] == [clicks[::2].mean(), clicks[1::2].mean()]
    assert result.accounting[0].set_aside == (("null_variant", 1),)
