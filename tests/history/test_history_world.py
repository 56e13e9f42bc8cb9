"""Two dozen experiments from their logs to the verdict of their history, by the commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.test_cli import call

USERS, SHOWN = 1_600, 8
SPREAD = 0.08
"""Of true lifts; their standard error is about .035."""

EXPERIMENT = """\
name = "{name}"
unit = "user_id"
control = "control"
metrics = [{{name = "ctr"}}]
cleaning.duplicates = "unchecked"
variants.control.model = "old"
variants.treatment.model = "new"
models.old.score = "score_old"
models.new.score = "score_new"
logs.impressions.path = "log.parquet"
"""


def log(random: np.random.Generator, better: float, lift: float) -> pd.DataFrame:
    """Impressions in random order: the new score sees `better` more of what the user likes."""
    rows = USERS * SHOWN
    users = np.repeat(np.arange(USERS), SHOWN)
    treated = users % 2 == 1
    liked = random.standard_normal(rows)
    rate = np.clip(0.2 * np.exp(0.5 * liked - 0.125), 0, 0.9) * np.where(treated, 1 + lift, 1.0)
    scores = {
        "score_old": liked + random.standard_normal(rows),
        "score_new": (1 + better) * liked + random.standard_normal(rows),
    }
    return pd.DataFrame(
        {
            "user_id": users.astype(str),
            "item_id": random.integers(0, 500, rows),
            "variant": np.where(treated, "treatment", "control"),
            "click": random.random(rows) < rate,
            **scores,
        }
    )


@pytest.mark.slow
def test_from_logs_to_the_verdict_of_a_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(11)
    true, shipped = [], []
    for i in range(24):
        folder = tmp_path / f"e{i}"
        folder.mkdir()
        monkeypatch.chdir(folder)
        one, other = random.standard_normal(2)
        true.append(SPREAD * (0.8 * one + 0.6 * other))
        log(random, 0.4 * one, true[-1]).to_parquet("log.parquet")
        Path("e.toml").write_text(EXPERIMENT.format(name=f"e{i}"))
        assert call(monkeypatch, "analyze", "e.toml", "--json", "a.json") == 0
        assert call(monkeypatch, "replay", "e.toml", "--metric", "auc", "--json", "r.json") == 0
        history = ("--history", "../h.parquet")
        assert call(monkeypatch, "history", "add", "a.json", "r.json", *history) == 0
        verdict = json.loads(Path("a.json").read_text())["verdicts"][0]["decision"]
        shipped.append(verdict == "ship")
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    files = ("--json", "h.json", "--report", "h.html")
    assert call(monkeypatch, "history", "report", "--history", "h.parquet", *files) == 0
    assert "auc predicts ctr best" in capsys.readouterr().out
    report = json.loads(Path("h.json").read_text())
    auc = next(row for row in report["predictions"] if row["predictor"] == "auc")
    assert auc["low"] < 0.8 < auc["high"]
    assert auc["low"] > 0
    assert auc["correlation"] > auc["naive"]
    assert report["choices"][0]["best"] == "auc"
    (gained,) = report["gained"]
    really = sum(lift for lift, was in zip(true, shipped, strict=True) if was)
    assert gained["shipped"] == sum(shipped) > 2
    assert gained["naive"] > gained["gained"]
    assert gained["low"] < really < gained["high"]
