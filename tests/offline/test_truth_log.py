"""A ground truth given apart from the log, in an experiment: against `evaluate` and the clicks."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import abeval
from abeval.cli.main import app
from abeval.errors import LogError
from tests.offline.frames import close
from tests.offline.test_replay import random_rows, small

METRICS = ["recall@2", "map@3[R]", "ndcg@3[lin]", "mrr@5", "gauc[impressions]"]
LOGS = {"impressions": {}, "truth": {}}


def graded(frame, seed=0):
    """Some shown items and one that was never shown are relevant to each request."""
    rng = np.random.default_rng(seed)
    shown = frame[rng.random(len(frame)) < 0.3][["request_id", "item_id"]]
    shown = shown.assign(grade=rng.integers(1, 4, len(shown)))
    requests = frame["request_id"].unique()
    unseen = pd.DataFrame({"request_id": requests, "item_id": 99, "grade": 2})
    return pd.concat([shown, unseen], ignore_index=True)


def replayed(rows, truth, **options):
    loaded, logs = small(rows, logs=LOGS)
    given = {**logs, "truth": truth}
    return loaded.replay(**{"metrics": METRICS, "relevance": "truth", "logs": given, **options})


def test_it_is_what_evaluate_finds_of_the_same_lists():
    rows = random_rows(60)
    frame = small(rows)[1]["impressions"]
    truth = graded(frame)
    found = replayed(rows, truth)
    lists = frame[["request_id", "item_id"]].assign(score=frame["b"])
    apart = abeval.evaluate(lists, truth, metrics=METRICS[:4]).values()
    for metric, value in apart.items():
        assert close(found.row(metric, "b", "pooled").value, value, 1e-12), metric
    assert dict(found.accounting)["relevant_items_never_shown"] == 120


def test_the_clicks_as_a_truth_are_the_clicks():
    rows = random_rows()
    frame = small(rows)[1]["impressions"]
    clicked = frame[frame["click"] == 1][["request_id", "item_id"]]
    loaded, logs = small(rows)
    plain = loaded.replay(metrics=METRICS, logs=logs)
    found = replayed(rows, clicked)
    for one, other in zip(plain.rows, found.rows, strict=True):
        assert close(one.value, other.value, 1e-12), one.metric


def test_a_truth_by_unit_holds_for_all_its_requests():
    rows = random_rows(40)
    frame = small(rows)[1]["impressions"]
    held_out = pd.DataFrame({"user": range(40), "item_id": [u % 5 for u in range(40)]})
    by_request = frame[["user", "request_id"]].drop_duplicates().merge(held_out, on="user")
    first = replayed(rows, held_out)
    second = replayed(rows, by_request[["request_id", "item_id"]])
    assert [r.value for r in first.rows] == pytest.approx([r.value for r in second.rows])
    mapped, logs = small(rows, logs={**LOGS, "truth": {"columns": {"unit_id": "who"}}})
    renamed = held_out.rename(columns={"user": "who"})
    third = mapped.replay(metrics=METRICS, relevance="truth", logs={**logs, "truth": renamed})
    assert [r.value for r in first.rows] == [r.value for r in third.rows]


def test_a_cut_off_as_long_as_the_shown_list_is_refused():
    rows = random_rows(40)
    frame = small(rows)[1]["impressions"]
    found = replayed(rows, graded(frame), metrics=["precision@4", "precision@5", "recall@5"])
    assert found.row("precision@4", "a", "x").value is not None
    for metric in ("precision@5", "recall@5"):
        assert found.row(metric, "a", "x").reason == "k_covers_list"


def test_a_model_of_the_scores_log_may_list_what_was_never_shown():
    rows = random_rows(60)
    loaded, logs = small(rows, logs={**LOGS, "scores": {}})
    frame = logs["impressions"]
    first = pd.DataFrame({"request_id": frame["request_id"].unique(), "item_id": 99, "score": 2.0})
    listed = frame[["request_id", "item_id"]].assign(score=frame["b"])
    scores = pd.concat([first, listed]).assign(model="finds it")
    given = {**logs, "scores": scores, "truth": graded(frame)}
    found = loaded.replay(metrics=["mrr@5"], relevance="truth", logs=given)
    assert found.row("mrr@5", "finds it", "pooled").value == 1.0
    assert found.row("mrr@5", "b", "pooled").value < 1.0


def test_what_the_truth_has_too_much_of_is_counted():
    rows = random_rows(20)
    frame = small(rows)[1]["impressions"]
    truth = graded(frame)
    odd = pd.DataFrame(
        {
            "request_id": ["?", "0-0", "0-0", None],
            "item_id": pd.array([1, 1, None, 2], dtype="Int64"),
            "grade": [1, np.nan, 1, 1],
        }
    )
    found = replayed(rows, pd.concat([truth, truth.head(3), odd]))
    counts = dict(found.accounting)
    assert counts["truth_rows_without_usable_item_or_grade"] == 2
    assert counts["truth_rows_repeated"] == 3
    assert counts["truth_rows_of_unknown_requests_or_units"] == 2
    values = [r.value for r in replayed(rows, truth).rows]
    assert [r.value for r in found.rows] == values


@pytest.mark.parametrize(
    ("truth", "error"),
    [
        (pd.DataFrame({"request_id": ["0-0"]}), "no column item_id"),
        (pd.DataFrame({"item_id": [1]}), "neither a column request_id"),
        (pd.DataFrame({"request_id": ["0-0"], "item_id": [1], "grade": ["good"]}), "number"),
    ],
)
def test_a_truth_that_is_none_is_refused(truth, error):
    with pytest.raises(LogError, match=error):
        replayed(random_rows(4), truth)


def test_without_a_truth_log_it_is_asked_for():
    loaded, logs = small(random_rows(4))
    with pytest.raises(LogError, match=r"logs\.truth"):
        loaded.replay(relevance="truth", logs=logs)


def test_the_command_line_reads_it(tmp_path):
    rows = random_rows(60)
    frame = small(rows)[1]["impressions"]
    frame.to_parquet(tmp_path / "log.parquet")
    graded(frame).to_parquet(tmp_path / "truth.parquet")
    (tmp_path / "e.toml").write_text(
        """name = "e"
unit = "user"
control = "x"
variants.x.model = "a"
variants.y.model = "b"
models.a.score = "a"
models.b.score = "b"
logs.impressions.path = "log.parquet"
logs.truth.path = "truth.parquet"
"""
    )
    args = ["replay", str(tmp_path / "e.toml"), "--relevance", "truth", "--metric", "mrr@5"]
    run = CliRunner().invoke(app, args)
    assert run.exit_code == 0, run.output
    expected = replayed(rows, graded(frame)).row("mrr@5", "b", "x").value
    assert f"{expected:.3f}" in run.output
    assert "relevant items never shown: 120" in run.output
