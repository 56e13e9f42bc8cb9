"""Drafts of files whose names are in no list: what is not known is asked, and never lost."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.drafts.run import Draft, draft_files
from abeval.errors import ExperimentError

START = pd.Timestamp("2026-06-01")
UNITS = 1_500


def draft_of(folder: Path, **frames: pd.DataFrame) -> tuple[Draft, dict[str, Any]]:
    """Write each frame as a CSV file, and draft them in their order."""
    for name, frame in frames.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    drafted = draft_files([folder / f"{name}.csv" for name in frames], folder)
    (folder / "e.toml").write_text(drafted.text)
    return drafted, tomllib.loads(drafted.text)


def seconds(rng: np.random.Generator, number: int, days: int) -> pd.Series:
    return START + pd.to_timedelta(pd.Series(rng.integers(0, days * 86_400, number)), unit="s")


def members(rng: np.random.Generator, unit: str = "member") -> pd.DataFrame:
    """Units of two groups with the time at which they joined."""
    ids = [f"m{number}" for number in range(UNITS)]
    groups = np.where(rng.random(UNITS) < 0.5, "exp", "ctl")
    return pd.DataFrame({unit: ids, "grp": groups, "joined_test": seconds(rng, UNITS, 7)})


def test_files_without_a_metric_ask_for_one_and_the_analysis_says_it(tmp_path: Path) -> None:
    frame = members(np.random.default_rng(1)).drop(columns="member")
    drafted, entries = draft_of(tmp_path, seen=frame)
    assert "metrics" not in entries
    assert any("no metric yet" in question for question in drafted.questions)
    with pytest.raises(ExperimentError, match=r"no metric yet: name one in \[\[metrics\]\]"):
        abeval.load(tmp_path / "e.toml").analyze()
