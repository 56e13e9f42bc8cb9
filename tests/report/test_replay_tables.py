"""An evaluation on one screen, as a frame and as a page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.offline.evaluate import Evaluation
from abeval.report.replay_tables import conclude_replay
from tests.history.past import replayed


def world(
    models: dict[str, float], requests: int = 150
) -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """Lists of models that see relevance more or less clearly; `a` is the baseline."""
    rng = np.random.default_rng(4)
    rows = pd.DataFrame(
        {
            "request_id": np.repeat(np.arange(requests), 20),
            "item_id": np.tile(np.arange(20), requests),
        }
    )
    rows["grade"] = (rng.random(len(rows)) < 0.2).astype(int)
    noise = rng.normal(size=len(rows))
    runs = {
        model: rows.assign(score=clear * rows.grade + noise + 0.1 * rng.normal(size=len(rows)))
        for model, clear in models.items()
    }
    return runs, rows[rows.grade > 0]


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    runs, truth = world({"a": 0.5, "b": 1.5, "c": 0.5})
    return abeval.evaluate(runs, truth)


def test_what_is_printed_is_one_screen_that_says_what_decides(evaluation: Evaluation) -> None:
    text = str(evaluation)
    assert repr(evaluation) == text.rstrip()
    lines = text.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 110
    requests = evaluation.result.coverage[0].requests
    assert lines[0].startswith(f"Judged: {requests} requests of {requests} units")
    table, differences = text.split("Differences")
    shown = {line.split()[0] for line in table.splitlines() if line.startswith("  ")}
    assert {"ndcg@10[lin]", "mrr@10", "auc"} < shown
    assert not any("@5" in name or "@1[" in name for name in shown)
    assert f"{evaluation.result.row('auc', 'b').value:.4g}" in table
    assert "auc " in differences


def test_marks_are_on_the_differences_that_exclude_zero() -> None:
    runs, truth = world({"a": 0.5, "b": 1.5, "c": 0.5})
    found = abeval.evaluate(runs, truth, metrics=["mrr", "ndcg@5[lin]"])
    table = str(found).split("Differences")[0]
    for metric in ("mrr", "ndcg@5[lin]"):
        (line,) = (line for line in table.splitlines() if line.split()[:1] == [metric])
        assert line.split()[1:] == [
            *f"{found.result.row(metric, 'a').value:.4g}".split(),
            "*",
            f"{found.result.row(metric, 'b').value:.4g}",
            f"{found.result.row(metric, 'c').value:.4g}",
        ]


def test_one_model_has_its_intervals_and_no_differences() -> None:
    runs, truth = world({"a": 0.5})
    text = str(abeval.evaluate(runs, truth, metrics=["mrr"]))
    assert "95% interval" in text
    assert "Differences" not in text


def test_one_model_without_an_interval_has_the_reason() -> None:
    text = str(abeval.evaluate({"q": {"a": 2.0, "b": 1.0}}, {"q": {"b": 1}}, metrics=["mrr"]))
    assert "0.5 (too few units)" in text
    assert "intervals by unit" not in text


def test_an_evaluation_names_no_variants_and_no_options() -> None:
    runs, truth = world({"a": 0.5, "b": 1.5})
    text = str(abeval.evaluate(runs, truth))
    assert "more metrics: to_frame(); a page of all: report(path)" in text
    assert "--all" not in text
    assert "traffic of all" not in text


def test_items_are_those_of_the_longest_lists() -> None:
    runs, truth = world({"a": 0.5, "b": 1.5})
    short = {"a": runs["a"][runs["a"].item_id < 7], "b": runs["b"]}
    text = str(abeval.evaluate(short, truth, metrics=["mrr"]))
    assert text.startswith("Judged: 149 requests of 149 units, 2,980 items in them")


def test_many_models_have_a_line_each() -> None:
    runs, truth = world({f"m{i}": 0.5 for i in range(9)})
    text = str(abeval.evaluate(runs, truth, metrics=["ndcg@5[lin]", "mrr", "auc"]))
    assert max(map(len, text.splitlines())) <= 110
    heads = [line.split()[0] for line in text.splitlines() if line.startswith("  m")]
    assert [head for head in heads if head in runs][:9] == [*runs]


def test_no_difference_is_said() -> None:
    runs, truth = world({"a": 0.5})
    alike = dict.fromkeys("abc", runs["a"])
    twice = abeval.evaluate(alike, truth, metrics=["mrr"])
    assert "No difference from a has an interval that excludes zero." in str(twice)


def test_the_frame_is_long_with_the_differences_beside_the_values(evaluation: Evaluation) -> None:
    frame = evaluation.to_frame()
    assert len(frame) == len(evaluation.result.rows)
    row = frame[(frame.metric == "auc") & (frame.model == "b")].iloc[0]
    pair = next(p for p in evaluation.result.pairs if (p.metric, p.model) == ("auc", "b"))
    assert row.value == evaluation.result.row("auc", "b").value
    said = (row.control, row.difference, row.difference_low, row.difference_high, row.p_value)
    assert said == ("a", pair.difference, pair.low, pair.high, pair.p_value)
    assert frame[frame.model == "a"].difference.isna().all()


def test_it_has_a_page(evaluation: Evaluation, tmp_path: Path) -> None:
    path = evaluation.report(tmp_path / "x.html")
    text = path.read_text(encoding="utf-8")
    assert text.lower().startswith("<!doctype html")
    assert "ndcg@10[lin]" in text


def test_notes_of_the_inputs_are_on_the_screen() -> None:
    runs, truth = world({"a": 0.5})
    text = str(abeval.evaluate(runs, truth.astype({"item_id": "str"}), metrics=["mrr"]))
    assert "item_id is text in truth and numbers in a: compared as text" in text


def test_parts_and_named_cutoffs_are_on_the_screen() -> None:
    runs, truth = world({"a": 0.5, "b": 1.5})
    half = truth.assign(device=np.where(truth.request_id % 2, "web", "phone"))
    k = [5, 10, "view: case when device = 'web' then 3 else 2 end"]
    found = abeval.evaluate(runs, half, k=k, where={"phone": "device = 'phone'"}, curve=3)
    text = str(found)
    assert "ndcg@view[lin]" in text
    assert "phone: device = 'phone' (75 units)" in text
    assert "Mean over every k: a " in text
    assert "traffic of phone" not in text
    assert max(map(len, text.splitlines())) <= 110
    assert found.values("b")["mrr@5"] == found.result.row("mrr@5", "b", "all").value
    frame = found.to_frame()
    row = frame[(frame.metric == "mrr@5") & (frame.model == "b") & (frame.traffic == "phone")]
    (pair,) = (p for p in found.result.pairs if (p.metric, p.traffic) == ("mrr@5", "phone"))
    assert [*row.difference] == [pair.difference]


def test_a_replay_counts_what_is_sure_and_decides_nothing() -> None:
    metrics = {"auc": (0.02, 0.005), "log_loss": (-0.02, 0.005), "ndcg@5[lin]": (0.0, 0.1)}
    (line,) = conclude_replay(replayed("new", metrics))
    assert line.word == "OFFLINE ONLY"
    assert (
        "ranker_v2 is better than ranker_v1 by 2 of 3 offline metrics, worse by 0" in line.sentence
    )
    worse = {"auc": (-0.02, 0.005), "log_loss": (-0.02, 0.005)}
    (mixed,) = conclude_replay(replayed("new", worse))
    assert "by 1 of 2 offline metrics, worse by 1" in mixed.sentence
    assert len(mixed.sentence.split()) <= 45


@pytest.mark.whole
def test_the_page_of_a_replay_begins_with_it(tmp_path: Path) -> None:
    replay = abeval.load("sample_logs/experiment.toml").replay(metrics=["auc"])
    page = replay.report(tmp_path / "r.html").read_text()
    assert '<p class="sentence">' in page
    assert "OFFLINE ONLY" in page
