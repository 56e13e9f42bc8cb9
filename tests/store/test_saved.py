"""Saved aggregates: judged elsewhere, the result is the same to the last digit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import abeval
from abeval.engines.duckdb import DuckDBEngine
from abeval.errors import ExperimentError
from tests.cli.test_cli import call
from tests.logs.small import small_log

SAMPLE = Path("sample_logs/experiment.toml")
METRICS: list[dict[str, Any]] = [
    {"name": "ctr", "cap": 0.9},
    {"name": "clicks_per_user", "covariates": ["impressions_per_user"]},
    {"name": "gauc"},
    {"name": "p90", "value": "dwell", "quantile": 0.9},
    {"name": "large", "value": "1e7 * item_id"},
    {"name": "both", "function": "ctr * clicks_per_user", "role": "diagnostic"},
]


def experiment(folder: Path, **entries: Any) -> abeval.LoadedExperiment:
    """An experiment whose log is a file of the folder."""
    small_log(2_400).to_parquet(folder / "log.parquet")
    base: dict[str, Any] = {
        "name": "small",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "logs": {"impressions": {"path": "log.parquet"}},
        "period": {"start": "2024-03-02", "end": "2024-03-04"},
        "pre_period": {"start": "2024-03-01", "end": "2024-03-02"},
        "segments": {"category": "category"},
        "metrics": METRICS,
        "inference": {"adjust": "cuped"},
        "engine": {"threads": 1},
    }
    return abeval.define(folder, **{**base, **entries})


def test_the_sample_is_judged_without_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = abeval.load(SAMPLE)
    result = loaded.analyze(save_aggregates=tmp_path / "kept")

    def started(*_: object, **__: object) -> None:
        raise AssertionError("an engine was started")

    monkeypatch.setattr(DuckDBEngine, "__init__", started)
    assert loaded.from_aggregates(tmp_path / "kept").to_json() == result.to_json()


@pytest.mark.parametrize(
    "entries", [{}, {"inference": {"resample": "bootstrap"}, "metrics": METRICS[2:]}]
)
def test_every_kind_of_sum_comes_back(tmp_path: Path, entries: dict[str, Any]) -> None:
    loaded = experiment(tmp_path, **entries)
    result = loaded.analyze(save_aggregates=tmp_path)
    (tmp_path / "log.parquet").unlink()
    assert loaded.from_aggregates(tmp_path).to_json() == result.to_json()


def test_what_only_judges_may_change(tmp_path: Path) -> None:
    experiment(tmp_path).analyze(save_aggregates=tmp_path / "kept")
    roles = [{**METRICS[0], "role": "guardrail", "margin": 0.02}, *METRICS[1:]]
    other = experiment(tmp_path, alpha=0.01, metrics=roles, events=[])
    assert other.from_aggregates(tmp_path / "kept").to_json() == other.analyze().to_json()


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"name": "other"}, "the aggregates of 'small', not of 'other'"),
        ({"metrics": METRICS[:2]}, "different settings: metrics"),
        ({"period": {"start": "2024-03-02", "end": "2024-03-03"}}, "different settings: period"),
        ({"segments": {}, "timezone": "Asia/Tokyo"}, "different settings: timezone, segments"),
        ({"inference": {"resample": "bootstrap"}, "metrics": METRICS[2:]}, r"inference\.resample"),
    ],
)
def test_other_definitions_are_refused(tmp_path: Path, entries: dict[str, Any], said: str) -> None:
    experiment(tmp_path).analyze(save_aggregates=tmp_path / "kept")
    with pytest.raises(ExperimentError, match=said):
        experiment(tmp_path, **entries).from_aggregates(tmp_path / "kept")


def test_what_is_missing_or_damaged_is_said(tmp_path: Path) -> None:
    loaded, kept = experiment(tmp_path), tmp_path / "kept"
    with pytest.raises(ExperimentError, match="has no aggregates"):
        loaded.from_aggregates(kept)
    loaded.analyze(save_aggregates=kept)
    moments, told = kept / "moments.parquet", kept / "aggregates.json"
    data = moments.read_bytes()
    moments.write_bytes(data[:-1])
    with pytest.raises(ExperimentError, match="is not the file that was written"):
        loaded.from_aggregates(kept)
    moments.unlink()
    with pytest.raises(ExperimentError, match="cannot be read: No such file"):
        loaded.from_aggregates(kept)
    told.write_text(json.dumps({**json.loads(told.read_text()), "format": 0}))
    with pytest.raises(ExperimentError, match="has format 0"):
        loaded.from_aggregates(kept)
    told.write_text("{")
    with pytest.raises(ExperimentError, match=r"aggregates\.json cannot be read"):
        loaded.from_aggregates(kept)


def test_the_command_saves_and_judges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    assert call(monkeypatch, "analyze", SAMPLE, "--save-aggregates", kept) == 0
    first = capsys.readouterr().out
    assert call(monkeypatch, "analyze", SAMPLE, "--aggregates", kept) == 0
    assert capsys.readouterr().out == first
    assert call(monkeypatch, "analyze", SAMPLE, "--aggregates", kept, "--store", kept) == 2
