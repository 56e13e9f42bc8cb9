"""`where`: parts of a log beside the whole, with the same metrics and intervals."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import abeval
from abeval.cli.main import app
from abeval.errors import AbevalError
from abeval.results.replay import ReplayResult
from tests.offline.test_expressions_scores import experiment, log
from tests.sample import FILE

pytestmark = pytest.mark.whole


METRICS = ["ndcg@3[lin]", "recall@3", "auc", "gauc[units]", "log_loss", "ece[mass]", "coverage@2"]


PARTS = {
    "feed": ("scene = 'feed'", lambda f: f.scene == "feed"),
    "some users": ("user >= 10 and position <= 4", lambda f: (f.user >= 10) & (f.position <= 4)),
    "high": ("base > 0.5", lambda f: f.base > 0.5),
}
WHERE = {name: where for name, (where, _) in PARTS.items()}
COLUMNS = abeval.JudgedColumns(unit="user", relevance="click")
SCORES = {"old": "base", "blend": "new"}


@cache
def replayed() -> tuple[ReplayResult, ReplayResult, ReplayResult]:
    """The log replayed with its parts, judged with them as a table, and replayed without."""
    logs = {"impressions": log()}
    found = experiment("new").replay(logs=logs, metrics=METRICS, where=WHERE)
    beside = abeval.evaluate_log(
        log(), SCORES, columns=COLUMNS, metrics=METRICS, where=WHERE
    ).result
    return found, beside, experiment("new").replay(logs=logs, metrics=METRICS)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("name", PARTS)
def test_a_part_has_the_numbers_of_a_log_of_its_rows_alone(name: str) -> None:
    where, kept = PARTS[name]
    found, beside, whole = replayed()
    part = log()[kept(log())]
    alone = abeval.evaluate_log(part, SCORES, columns=COLUMNS, metrics=METRICS).result
    for metric in METRICS:
        for model in SCORES:
            row = found.row(metric, model, name)
            own = alone.row(metric, model)
            assert row.value == pytest.approx(own.value, abs=1e-12), metric
            assert (row.units, row.reason) == (own.units, own.reason)
            assert row.counted == own.counted
            # Jackknife groups are drawn otherwise in an experiment.
            if metric not in ("ece[mass]", "coverage@2"):
                assert (row.low, row.high) == pytest.approx((own.low, own.high), abs=1e-12)
            assert beside.row(metric, model, name).value == own.value
        pair, paired = found.pair(metric, name), alone.pair(metric)
        assert pair.difference == pytest.approx(paired.difference, abs=1e-12)
        if metric not in ("ece[mass]", "coverage@2"):
            assert pair.p_value == pytest.approx(paired.p_value, abs=1e-9)
    (of,) = (one for one in found.parts if one.name == name)
    assert (of.where, of.of, of.units) == (where, "log", part.user.nunique())
    assert found.rows[: len(whole.rows)] == whole.rows
    assert found.pairs[: len(whole.pairs)] == whole.pairs


def lists() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Ten requests of ten items: splits of requests, and the stages that an item came through."""
    rng = np.random.default_rng(3)
    n = 400
    run = pd.DataFrame({"request_id": np.arange(n) // 10, "item_id": np.arange(n) % 10})
    run["score"], run["stage"] = rng.random(n), np.where(rng.random(n) < 0.5, "cheap", "ranked")
    truth = run[rng.random(n) < 0.3][["request_id", "item_id"]].assign(grade=1)
    truth["split"] = np.where(truth.request_id % 4 == 0, "test", "train")
    return run, truth


def test_lists_are_split_by_columns_of_the_truth_or_of_every_run() -> None:
    run, truth = lists()
    where = {"test": "split = 'test'", "train": "split <> 'test'", "ranked": "stage = 'ranked'"}
    metrics = ["ndcg@5[lin]", "recall@5", "mrr"]
    runs = {"one": run, "two": run.assign(score=-run.score)}
    found = abeval.evaluate(runs, truth, metrics=metrics, where=where).result
    alone = {
        "test": abeval.evaluate(runs, truth[truth.split == "test"], metrics=metrics),
        "train": abeval.evaluate(runs, truth[truth.split == "train"], metrics=metrics),
        "ranked": abeval.evaluate(
            {name: f[f.stage == "ranked"] for name, f in runs.items()}, truth, metrics=metrics
        ),
    }
    for name, own in alone.items():
        for metric in metrics:
            for model in runs:
                row = found.row(metric, model, name)
                assert row.value == own.result.row(metric, model).value
            assert found.pair(metric, name).difference == own.result.pair(metric).difference
    assert [part.of for part in found.parts] == ["truth", "truth", "run"]


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ({"part": "scnee = 'feed'"}, "reads 'scnee', .*; did you mean `scene`"),
        ({"part": "scene = 'none'"}, "where 'part': no row of a unit that is evaluated meets"),
        ({"part": "scene > 3"}, "where 'part': 'scene > 3' cannot be computed"),
        ({"part": "sum(base) > 3"}, "where 'part': expression .* holds an aggregate"),
        ({"y": "base > 0.5"}, "'y' is the name of a variant"),
        ({"pooled": "base > 0.5"}, "'pooled' means something else"),
        ({" ": "base > 0.5"}, "where: ' ' is no name"),
        ("base > 0.5", "has no names"),
    ],
)
def test_a_part_that_cannot_be_is_refused(where: Any, says: str) -> None:
    with pytest.raises(AbevalError, match=says):
        experiment("new").replay(logs={"impressions": log()}, metrics=["auc"], where=where)


def test_a_part_of_no_list_is_refused() -> None:
    run, truth = lists()
    for where, says in (
        ("stage = 'x'", "no row of a unit that is evaluated meets"),
        ("split = 'x'", "no row of a unit that is evaluated meets"),
        ("split = stage", "columns that truth and the runs have in part"),
        ("spilt = 'x'", r"no column 'spilt'; did you mean `split`"),
    ):
        with pytest.raises(AbevalError, match=says):
            abeval.evaluate(run, truth, metrics=["mrr"], where={"part": where})


def test_the_command_shows_each_part_beside_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")  # A narrower terminal writes a row on two lines.
    command = ["replay", str(FILE), "--metric", "auc", "--where", "phone: device = 'phone'"]
    done = CliRunner().invoke(app, [*command, "--where", "top: position <= 10"])
    assert done.exit_code == 0, done.output
    table = done.output[done.output.index("Parts beside the whole") :]
    assert "phone: device = 'phone' (1,707 units)" in " ".join(table.split())
    head, _, row = table.split("\n\n")[0].splitlines()[-3:]
    assert head.split() == ["metric", "all", "phone", "top"]
    assert row.split()[:2] == ["auc", "+0.0411"]
    wrong = CliRunner().invoke(app, [*command, "--where", "device = 'phone'"])
    assert wrong.exit_code != 0
