"""`logged_sums` from a warehouse: what adds up per unit and day equals the analysis of the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import abeval
from abeval.errors import AbevalError
from abeval.results.analysis import Result
from tests.cli.test_cli import call
from tests.logs.small import small_log

EXPERIMENT = """
name = "small"
unit = "user_id"
control = "a"
variants = { a = {}, b = {} }
segments = { category = "category" }
period = { start = 2024-03-02, end = 2024-03-04 }
pre_period = { start = 2024-03-01, end = 2024-03-02 }
logs.impressions.path = "impressions.parquet"
"""
METRICS = (
    '[[metrics]]\nname = "ctr"\n[[metrics]]\nname = "gauc"\n[[metrics]]\nname = "dwell_per_user"\n'
)


def folder_of(folder: Path, more: str = "", metrics: str = METRICS) -> abeval.LoadedExperiment:
    """An experiment file with its log."""
    log = small_log(2_400)
    # A unit in two variants, and rows twice.
    log.loc[(log["user_id"] == 3) & (log["request_id"] % 2 == 0), "variant"] = "a"
    pd.concat([log, log.iloc[:10]]).to_parquet(folder / "impressions.parquet")
    (folder / "experiment.toml").write_text(EXPERIMENT + more + "\n" + metrics)
    return abeval.load(folder / "experiment.toml")


def warehouse(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, file: str
) -> Path:
    """Run the printed statement where the logs are tables; keep what it returns as a file."""
    arguments = ("sql", "units/logged_sums", "--experiment", folder / "experiment.toml")
    capsys.readouterr()
    assert call(monkeypatch, *arguments) == 0
    statement = capsys.readouterr().out
    (folder / "sums").mkdir(exist_ok=True)
    with duckdb.connect() as connection:
        for log in folder.glob("*.parquet"):
            connection.execute(f"create view raw_{log.stem} as from '{log}'")
        connection.execute(f"copy (\n{statement}\n) to '{folder / 'sums' / file}'")
    return folder / "sums"


def numbers(result: Result) -> dict[str, Any]:
    """All but GAUC, notes and what duplicates are counted in."""
    told = result.to_dict()
    kept = {name: told[name] for name in ("daily", "segments", "scorecard")}
    return {n: [row for row in rows if row["metric"] != "gauc"] for n, rows in kept.items()}


@pytest.mark.parametrize("file", ["logged_sums.parquet", "logged_sums.csv"])
def test_sums_of_a_warehouse_are_judged(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    file: str,
) -> None:
    loaded = folder_of(tmp_path)
    expected = loaded.analyze()
    sums = warehouse(tmp_path, capsys, monkeypatch, file)
    # Of the log at hand the columns count, and no row.
    small_log(5, seed=5).to_parquet(tmp_path / "impressions.parquet")
    found = loaded.from_aggregates(sums)
    assert numbers(found) == numbers(expected)
    assert found["gauc"].reason is not None
    assert any(
        "gauc is refused" in note and "rows of the impressions" in note for note in found.notes
    )
    assert any(
        note.startswith(f"The sums per unit and day are from {file}") for note in found.notes
    )


def test_a_click_table_is_in_the_sums(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = ["request_id", "item_id", "position", "ts", "dwell"]
    clicked = small_log(2_400)[columns].iloc[::7]
    clicked.to_parquet(tmp_path / "clicks.parquet")
    loaded = folder_of(tmp_path, 'logs.clicks.path = "clicks.parquet"')
    expected = loaded.analyze()
    sums = warehouse(tmp_path, capsys, monkeypatch, "logged_sums.parquet")
    clicked.iloc[:1].to_parquet(tmp_path / "clicks.parquet")
    found = loaded.from_aggregates(sums)
    assert numbers(found) == numbers(expected)
    assert [account.log for account in found.accounting] == ["impressions"]


def test_sums_of_other_metrics_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_of(tmp_path)
    sums = warehouse(tmp_path, capsys, monkeypatch, "logged_sums.parquet")
    more = folder_of(tmp_path, metrics=METRICS + '[[metrics]]\nname = "own"\nvalue = "position"\n')
    with pytest.raises(AbevalError, match=r"logged_sums\.parquet has no column c_\d"):
        more.from_aggregates(sums)
    fewer = folder_of(tmp_path, metrics='[[metrics]]\nname = "ctr"\n')
    with pytest.raises(AbevalError, match=r"has columns of other metrics: c_\d"):
        fewer.from_aggregates(sums)


def test_exposures_are_refused(tmp_path: Path) -> None:
    small_log(20).to_parquet(tmp_path / "exposures.parquet")
    loaded = folder_of(tmp_path, 'logs.exposures.path = "exposures.parquet"')
    (tmp_path / "logged_sums.csv").write_text("unit_id\n")
    with pytest.raises(AbevalError, match="exposed units without an impression"):
        loaded.from_aggregates(tmp_path)
