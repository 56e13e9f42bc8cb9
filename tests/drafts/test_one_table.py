"""`abeval init` of one table, then the analysis of the file as it stands: right, or asked."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import abeval
from abeval.drafts.run import Draft, draft_files
from abeval.results.analysis import Result
from tests.drafts.worlds import WORLDS, World


def analysed(own: Draft, folder: Path) -> Result:
    (folder / "e.toml").write_text(own.text)
    return abeval.load(folder / "e.toml").replace(trust={"aa_runs": 0}).analyze()


@pytest.mark.parametrize("name", WORLDS)
def test_the_verdict_is_right_or_a_draft(name: str, tmp_path: Path) -> None:
    world: World = WORLDS[name]()
    is_csv = name not in ("text_times", "nulls")
    file = tmp_path / f"table.{'csv' if is_csv else 'parquet'}"
    world.frame.to_csv(file, index=False) if is_csv else world.frame.to_parquet(file)
    own = draft_files([file], tmp_path)
    entries = tomllib.loads(own.text)
    assert entries["unit"] == world.unit
    assert list(entries["logs"]) == [world.kind]
    assert len(own.questions) == len(world.asks), own.questions
    for asked in world.asks:
        assert any(question.startswith(asked) for question in own.questions), own.questions
    result = analysed(own, tmp_path)
    (verdict,) = result.verdicts
    assert verdict.decision == (world.decision or "draft")
    for metric, (control, treatment, p_value) in world.truth.items():
        row = result[metric]
        assert (row.control, row.treatment) == pytest.approx((control, treatment), rel=1e-6)
        assert row.p_value == pytest.approx(p_value, rel=0.05, abs=1e-4)
