"""Where the real logs are, and experiments over them; they are never part of the project."""

import os
from pathlib import Path
from typing import Any

import pytest

import abeval
from abeval.api import LoadedExperiment

FOLDER = Path(os.environ.get("ABEVAL_REAL_LOGS", Path(__file__).parents[2] / "shared" / "data"))


def need(relative: str) -> Path:
    """The path of a real log; the test is skipped where it is absent."""
    path = FOLDER / relative
    if not path.exists():
        pytest.skip(f"the real log {relative} is not here; set ABEVAL_REAL_LOGS to its folder")
    return path


def kuairand(salt: str = "aa", **entries: Any) -> LoadedExperiment:
    """A hash-assigned A/A over a week of short-video impressions; dwell is the play time."""
    log = {
        "path": str(need("kuairand/log.parquet")),
        "time_unit": "ms",
        "dwell_unit": "ms",
        "dwell_without_click": "keep",
        "columns": {
            "ts": "time_ms",
            "item_id": "video_id",
            "click": "is_click",
            "dwell": "play_time_ms",
            "category": "tag",
        },
    }
    return abeval.define(
        name="kuairand",
        unit="user_id",
        control="a",
        timezone="UTC",
        period={"start": "2022-04-24", "end": "2022-05-01"},
        variants={"a": {"weight": 0.5}, "b": {"weight": 0.5}},
        assignment={"salt": salt},
        logs={"impressions": log},
        **entries,
    )


def open_bandit() -> LoadedExperiment:
    """Two policies in a real A/B test; the log has no user, so a row is the unit."""
    log = {"path": str(need("open_bandit/men_bts.parquet").parent / "men_*.parquet")}
    return abeval.define(
        name="open_bandit",
        unit="row",
        control="random",
        variants={"random": {"weight": 0.5}, "bts": {"weight": 0.5}},
        logs={"impressions": log | {"columns": {"variant": "policy"}}},
        metrics=[{"name": "ctr", "role": "goal"}],
    )


def cookie_cats() -> LoadedExperiment:
    """A log that is already one row a user, without a time."""
    log = {
        "path": str(need("cookie_cats/cookie_cats.csv")),
        "columns": {"variant": "version"},
    }
    return abeval.define(
        name="cookie_cats",
        unit="userid",
        control="gate_30",
        variants={"gate_30": {"weight": 0.5}, "gate_40": {"weight": 0.5}},
        logs={"impressions": log},
        metrics=[
            {"name": "retention_7", "value": "retention_7"},
            {"name": "retention_1", "value": "retention_1", "role": "diagnostic"},
        ],
    )
