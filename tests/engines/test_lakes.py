"""Tables of data lakes: the current rows, with the numbers of a frame of them; or why not."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table

import abeval
from abeval.drafts.run import draft_files
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.lakes import find_version_file
from abeval.errors import LogError
from abeval.experiment.sources import LogSource

UNITS = 600
HOW = {"unit": "user_id", "variant": "group", "metrics": "amount"}


def rows_of(lift: float) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    group = rng.permutation(np.repeat(["control", "new"], UNITS // 2))
    return pd.DataFrame(
        {
            "user_id": np.arange(UNITS),
            "day": np.where(np.arange(UNITS) % 3 == 0, "01", "a/b c"),
            "group": group,
            "amount": rng.gamma(2.0, 8.0, UNITS) + lift * (group == "new"),
        }
    )


WRONG, RIGHT = rows_of(9.0), rows_of(0.0)


def arrow(rows: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(rows, preserve_index=False)


def delta(folder: Path, **options: object) -> Path:
    """Write a table whose first load was wrong and was overwritten."""
    write_deltalake(folder, arrow(WRONG), **options)
    write_deltalake(folder, arrow(RIGHT), mode="overwrite", **options)
    return folder


CATALOGS: list[InMemoryCatalog] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close the databases of catalogs, of which Python 3.13 warns."""
    yield
    while CATALOGS:
        CATALOGS.pop().engine.dispose()


def iceberg(folder: Path) -> Table:
    catalog = InMemoryCatalog("test", warehouse=folder.as_uri())
    CATALOGS.append(catalog)
    catalog.create_namespace("logs")
    table = catalog.create_table("logs.users", schema=arrow(WRONG).schema)
    table.append(arrow(WRONG))
    table.overwrite(arrow(RIGHT))
    return table


def lift_of(table: object) -> tuple[float, float, float]:
    row = abeval.analyze(table, **HOW)["amount"]
    return row.control, row.treatment, row.p_value


def refusal(table: object) -> str:
    with pytest.raises(LogError) as refused:
        abeval.analyze(table, **HOW)
    return f"{refused.value} {refused.value.hint}"


@pytest.mark.parametrize("options", [{}, {"partition_by": ["day"]}], ids=["flat", "partitioned"])
def test_a_delta_folder_is_its_current_rows(options: dict[str, object], tmp_path: Path) -> None:
    folder = delta(tmp_path / "a table", **options)
    assert lift_of(folder) == pytest.approx(lift_of(RIGHT), rel=1e-12)
    assert lift_of(folder)[2] > 0.05 > lift_of(WRONG)[2]
    engine = DuckDBEngine(folder=tmp_path)
    engine.add_log("raw_units", LogSource(path="a table", format="parquet"))
    assert list(engine.columns("raw_units")) == list(RIGHT.columns)
    rows = engine.frame("select * from raw_units order by user_id")
    engine.close()
    pd.testing.assert_frame_equal(rows, RIGHT, check_dtype=False)


def test_an_iceberg_folder_is_its_current_rows(tmp_path: Path) -> None:
    table = iceberg(tmp_path)
    folder = tmp_path / "logs" / "users"
    expected = lift_of(RIGHT)
    assert lift_of(folder) == pytest.approx(expected, rel=1e-12)
    with table.update_schema() as change:
        change.rename_column("amount", "paid")
    with table.update_schema() as change:
        change.rename_column("user_id", "user")
    how = {"unit": "user", "variant": "group", "metrics": "paid"}
    row = abeval.analyze(folder, **how)["paid"]
    assert (row.control, row.treatment, row.p_value) == pytest.approx(expected, rel=1e-12)


def test_tables_of_lakes_are_frames(tmp_path: Path) -> None:
    for table in (DeltaTable(delta(tmp_path / "delta")), iceberg(tmp_path)):
        assert lift_of(table) == pytest.approx(lift_of(RIGHT), rel=1e-12)


def test_a_table_that_changes_is_read_anew(tmp_path: Path) -> None:
    folder = delta(tmp_path / "users")
    before = lift_of(folder)
    write_deltalake(folder, arrow(WRONG), mode="overwrite")
    assert lift_of(folder) == pytest.approx(lift_of(WRONG), rel=1e-12)
    assert lift_of(folder) != before


@pytest.mark.parametrize("part", ["day=01", "day=01/*.parquet", "**/*.parquet", "_delta_log"])
def test_a_part_of_a_table_is_refused_with_the_table(part: str, tmp_path: Path) -> None:
    folder = delta(tmp_path / "users", partition_by=["day"])
    engine = DuckDBEngine(folder=folder)
    with pytest.raises(LogError, match="belongs to a Delta table") as refused:
        engine.add_log("raw_clicks", LogSource(path=part))
    engine.close()
    assert str(folder) in str(refused.value.hint)
    file = next(folder.glob("day=01/*.parquet"))
    assert f"name the table: {folder}" in refusal(file)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_without_the_library_a_table_is_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "delta":
        folder = delta(tmp_path / "users")
    else:
        iceberg(tmp_path)
        folder = tmp_path / "logs" / "users"
    monkeypatch.setitem(sys.modules, "deltalake", None)
    monkeypatch.setitem(sys.modules, "pyiceberg.table", None)
    said = refusal(folder)
    assert "also hold rows that are not current" in said
    assert f'pip install "abeval-logs[{kind}]"' in said
    assert "Parquet files elsewhere" in said


def test_hudi_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".hoodie").mkdir()
    RIGHT.to_parquet(tmp_path / "part.parquet")
    assert "is a Hudi table" in refusal(tmp_path)


def test_tables_side_by_side_are_no_log(tmp_path: Path) -> None:
    for region in ("region=eu", "region=us"):
        delta(tmp_path / region)
    assert "of which a log is only one" in refusal(tmp_path)


def test_a_folder_of_tables_is_drafted_as_each_of_them(tmp_path: Path) -> None:
    clicks = pd.DataFrame({"user_id": np.repeat(np.arange(UNITS), 2), "item_id": 7})
    clicks["ts"] = pd.Timestamp("2026-05-04") + pd.to_timedelta(np.arange(len(clicks)), unit="s")
    shown = clicks.assign(group=np.where(clicks["user_id"] % 2 == 0, "control", "new"))
    for name, rows in (("impressions", shown), ("clicks", clicks[::5])):
        write_deltalake(tmp_path / name, arrow(rows.assign(ts=rows["ts"] - pd.Timedelta("9D"))))
        write_deltalake(tmp_path / name, arrow(rows), mode="overwrite")
    text = draft_files([tmp_path], folder=tmp_path).text
    assert '[logs.impressions]\npath = "impressions"' in text
    assert '[logs.clicks]\npath = "clicks"' in text


def test_an_iceberg_table_that_was_moved_or_forked_is_refused(tmp_path: Path) -> None:
    iceberg(tmp_path)
    folder = tmp_path / "logs" / "users"
    shutil.copytree(folder, tmp_path / "copy")
    assert "with a file that is not in its folder" in refusal(tmp_path / "copy")
    newest = find_version_file(folder)
    number = newest.name.partition("-")[0]
    shutil.copy(newest, newest.with_name(f"{number}-fork.metadata.json"))
    assert "two newest versions" in refusal(folder)
