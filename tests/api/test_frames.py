"""Frames and files are drafted and analysed in one call, as an experiment file of them would be."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import LogError
from tests.worlds.first_files import Rows, happened

ROWS = happened(3, users=300)


def log(rows: Rows) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Impressions and clicks that call their keys differently."""
    shown = rows.seen[["user", "item", "variant", "time"]]
    clicked = rows.clicks[["user", "item", "time"]]
    return shown, clicked.rename(columns={"user": "besucher", "item": "artikel", "time": "um"})


def assert_ctr(result: abeval.Result) -> None:
    assert result["ctr"].control == pytest.approx(ROWS.ctr["control"], rel=1e-12)
    assert result["ctr"].treatment == pytest.approx(ROWS.ctr["treatment"], rel=1e-12)


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow", "path"])
def test_a_log_of_frames_or_files_is_analysed(library: str, tmp_path: Path) -> None:
    shown, clicked = log(ROWS)
    if library == "path":
        shown.to_csv(tmp_path / "a.csv", index=False)
        clicked.to_parquet(tmp_path / "b.parquet")
        frames: tuple[object, object] = (tmp_path / "a.csv", tmp_path / "b.parquet")
    elif library == "polars":
        polars = pytest.importorskip("polars")
        frames = polars.from_pandas(shown), polars.from_pandas(clicked)
    elif library == "arrow":
        arrow = pytest.importorskip("pyarrow")
        frames = arrow.Table.from_pandas(shown), arrow.Table.from_pandas(clicked)
    else:
        frames = shown, clicked
    result = abeval.analyze_log(frames[0], clicks=frames[1], unit="user", variant="variant")
    assert_ctr(result)
    assert result.questions == ()


def test_the_draft_is_the_file_that_is_analysed(tmp_path: Path) -> None:
    shown, clicked = log(ROWS)
    draft = abeval.draft(shown, clicks=clicked)
    entries = tomllib.loads(draft.text)
    assert entries["logs"]["clicks"]["columns"]["item_id"] == "artikel"
    for name, frame in (("impressions", shown), ("clicks", clicked)):
        frame.to_parquet(tmp_path / f"{name}.parquet")
        entries["logs"][name]["path"] = f"{name}.parquet"
    of_file = abeval.define(entries, tmp_path).analyze()
    assert draft.analyze().scorecard == of_file.scorecard


def test_rows_of_types_in_one_frame_are_two_logs() -> None:
    shown, clicked = ROWS.seen.assign(kind="view"), ROWS.clicks.assign(kind="click")
    rows = pd.concat([shown, clicked])[["user", "item", "variant", "time", "kind"]]
    assert_ctr(abeval.draft(rows).analyze())


def test_what_the_draft_asks_is_answered_by_entries() -> None:
    shown, clicked = log(happened(3, users=300, names=("x", "y")))
    draft = abeval.draft(shown, clicks=clicked)
    assert [q.split(":")[0] for q in draft.questions] == ["control"]
    assert draft.analyze().questions != ()
    answered = draft.analyze(control="y")
    assert (answered.questions, answered.experiment.control) == ((), "y")


def test_clicks_of_other_ids_are_refused_with_the_reason() -> None:
    shown, clicked = log(ROWS)
    strange = clicked.assign(besucher=np.arange(len(clicked)) + 10**6)
    with pytest.raises(LogError, match="the clicks do not fit the impressions"):
        abeval.analyze_log(shown, clicks=strange)


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(LogError, match="no column 'usr'"):
        abeval.analyze_log(log(ROWS)[0], unit="usr")


def test_rows_may_be_the_units() -> None:
    rows = ROWS.seen[["user", "variant", "click"]]
    result = abeval.analyze_log(rows, unit="row", variant="variant")
    assert result.experiment.unit == "row"
    assert sum(variant.units for variant in result.experiment.variants) == len(rows)
