"""What a store refuses, before anything is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from abeval.errors import ExperimentError
from abeval.store.storable import check_storable
from tests.store.test_refresh import experiment

LOG = "log/*.parquet"


def logs(**more: Any) -> dict[str, Any]:
    return {"impressions": {"path": LOG}, **more}


@pytest.mark.parametrize(
    "entries",
    [
        {},
        {"cleaning": {"duplicates": "keep"}},
        {"logs": logs(items={"path": "items.parquet"})},
        {"logs": logs(exposures={"path": "exposures.parquet"})},
    ],
)
def test_files_of_days_can_be_stored(tmp_path: Path, entries: dict[str, Any]) -> None:
    check_storable(experiment(tmp_path, **entries).experiment, {"items": object()})


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ({"logs": {"impressions": {"table": "seen"}}}, "are a frame or a table"),
        ({"logs": {"impressions": {"path": LOG, "where": "click"}}}, "through `query` or `where`"),
        (
            {"logs": {"impressions": {"path": LOG, "query": "select * from log"}}},
            "through `query` or `where`",
        ),
        ({"engine": {"name": "spark"}}, "needs the engine duckdb"),
        ({"cleaning": {}}, "a duplicate may be in another file"),
        ({"cleaning": {"duplicates": "drop"}}, "a duplicate may be in another file"),
        ({"logs": logs(clicks={"path": "clicks.parquet"})}, "a click of a separate log"),
        ({"unit": "row"}, "every row is its own unit"),
    ],
)
def test_what_does_not_add_up_file_by_file_is_refused(
    tmp_path: Path, entries: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ExperimentError, match=reason):
        check_storable(experiment(tmp_path, **entries).experiment, {})


def test_a_frame_of_impressions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="are a frame or a table"):
        check_storable(experiment(tmp_path).experiment, {"impressions": object()})
