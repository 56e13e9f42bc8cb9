"""The replay of an experiment on its own log: the sample, and small logs with known answers."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

import abeval
from abeval.cli.main import app
from abeval.errors import ExperimentError, LogError
from tests import sample as sample_results

pytestmark = pytest.mark.whole


ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "sample_logs" / "experiment.toml"


@pytest.fixture(scope="module")
def sample():
    return abeval.load(SAMPLE).replay(k=(1, 5, 10, 20))


def test_the_candidate_beats_the_baseline_offline(sample):
    for metric in ("ndcg@10[exp]", "map@10[min]", "mrr@10", "auc", "gauc[impressions]"):
        pair = sample.pair(metric, "pooled")
        assert (pair.control, pair.model) == ("baseline", "candidate")
        assert pair.low > 0, metric
        assert pair.p_value < 1e-6


def test_every_model_is_shown_on_every_traffic(sample):
    traffic = {(row.model, row.traffic) for row in sample.rows}
    assert traffic == {
        (model, of)
        for model in ("baseline", "candidate")
        for of in ("control", "treatment", "pooled")
    }
    # Clicks favour the model that chose what stood on top, on its own traffic.
    assert sample.pair("ndcg@10[exp]", "control").high < 0
    assert sample.pair("ndcg@10[exp]", "treatment").low > 0


def test_gauc_and_auc_of_a_served_model_are_the_online_ones(sample):
    online = sample_results.analysis()
    for metric, offline in (("gauc", "gauc[impressions]"), ("auc", "auc"), ("q_ctr", "q_ctr")):
        served = online[metric]
        assert sample.row(offline, "baseline", "control").value == pytest.approx(served.control)
        assert sample.row(offline, "candidate", "treatment").value == pytest.approx(
            served.treatment
        )


def test_a_cut_off_as_long_as_the_list_is_refused_where_order_cannot_matter(sample):
    for name in ("precision@20", "recall@20", "f1@20", "hit@20", "recall@20[cap]", "mar@20[R]"):
        row = sample.row(name)
        assert (row.value, row.reason) == (None, "k_covers_list")
        assert sample.pair(name).reason == "k_covers_list"
    assert sample.row("ndcg@20[exp]").value is not None
    assert sample.row("precision@10").reason is None


def test_missing_scores_are_counted(sample):
    truth = json.loads((ROOT / "sample_logs" / "truth.json").read_text())
    assert (
        2 * truth["dirt"]["null_score_impressions"]
        >= sum(c.unscored_rows for c in sample.coverage)
        > 0
    )


def test_json_and_frames_hold_every_row(sample):
    read = json.loads(sample.to_json())
    assert len(read["rows"]) == len(sample.to_frame()) == len(sample.rows)
    assert len(read["pairs"]) == len(sample.pairs_frame())
    assert dict(map(tuple, read["definitions"]))["ndcg@10[exp]"].startswith("mean over requests")


def test_the_command_writes_what_python_finds(tmp_path):
    file = tmp_path / "replay.json"
    wanted = ["--metric", "ndcg@5[exp]", "--metric", "gauc[clicks]"]
    done = CliRunner().invoke(app, ["replay", str(SAMPLE), "--json", str(file), *wanted])
    assert done.exit_code == 0, done.output
    found = abeval.load(SAMPLE).replay(metrics=["ndcg@5[exp]", "gauc[clicks]"])
    assert file.read_text() == found.to_json()
    assert "ndcg@5[exp]" in done.output


def small(rows, **entries):
    """An experiment over frames: a and b score every impression."""
    frame = pd.DataFrame(
        rows, columns=["user", "variant", "request_id", "item_id", "click", "a", "b"]
    )
    given = {
        "name": "small",
        "unit": "user",
        "control": "x",
        "variants": {"x": {"model": "a"}, "y": {"model": "b"}},
        "models": {"a": {"score": "a"}, "b": {"score": "b"}},
        "logs": {"impressions": {}},
    }
    return abeval.define(**{**given, **entries}), {"impressions": frame}


def random_rows(users=80, seed=1):
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(users):
        for request in range(2):
            for item in range(5):
                a, b = rng.random(2)
                click = int(rng.random() < 0.1 + 0.5 * b)
                rows.append((user, "xy"[user % 2], f"{user}-{request}", item, click, a, b))
    return rows


def test_a_model_without_scores_for_some_requests_is_compared_on_the_common_ones():
    rows = random_rows()
    holes = [(*row[:6], None if row[2].endswith("-1") else row[6]) for row in rows]
    loaded, logs = small(holes)
    found = loaded.replay(metrics=["mrr@5"], logs=logs)
    loaded, logs = small([row for row in rows if row[2].endswith("-0")])
    common = loaded.replay(metrics=["mrr@5"], logs=logs)
    for model in "ab":
        assert found.row("mrr@5", model).value == common.row("mrr@5", model).value
    covered = {c.model: (c.scored_requests, c.requests, c.unscored_rows) for c in found.coverage}
    assert covered == {"a": (160, 160, 0), "b": (80, 160, 400)}
    assert dict(found.accounting)["requests_only_some_models_score"] == 80


def test_a_model_without_any_score_is_refused_and_does_not_hold_the_other_back():
    rows = [(*row[:6], float("nan")) for row in random_rows()]
    loaded, logs = small(rows)
    found = loaded.replay(metrics=["mrr@5", "auc"], logs=logs)
    assert {row.reason for row in found.rows if row.model == "b"} == {"no_scores"}
    assert found.row("auc", "a", "pooled").value is not None
    assert found.pairs == ()


def test_nan_null_and_infinite_scores_rank_last_and_are_counted():
    rows = [
        (1, "x", "q", 1, 1, np.inf, 0.9),
        (1, "x", "q", 2, 0, 0.5, 0.8),
        (1, "x", "q", 3, 1, 0.4, 0.1),
        (2, "y", "r", 1, 0, np.nan, 0.3),
        (2, "y", "r", 2, 1, 0.1, 0.2),
    ]
    loaded, logs = small(rows)
    found = loaded.replay(metrics=["mrr", "recall@2"], logs=logs)
    assert found.coverage[0].unscored_rows == 2
    # Item 1 of q has no score: the first hit is item 3 behind item 2.
    assert found.row("mrr", "a", "x").value == 0.5
    assert found.row("mrr", "a", "y").value == 1.0


def test_an_item_twice_in_a_request_is_once_and_counted():
    rows = random_rows()
    loaded, logs = small([*rows, *((*row[:4], 0, 0.0, 0.0) for row in rows[:7])])
    found = loaded.replay(metrics=["ndcg@3[exp]", "auc"], logs=logs)
    every = logs["impressions"]
    loaded, logs = small(rows)
    once = loaded.replay(metrics=["ndcg@3[exp]"], logs=logs)
    assert [r.value for r in found.rows if r.metric != "auc"] == [r.value for r in once.rows]
    assert dict(found.accounting)["items_repeated_in_a_request"] == 7
    assert found.row("auc", "a", "pooled").value == pytest.approx(auc_of(every), abs=1e-9)


def auc_of(frame, score="a"):
    """The area by Mann and Whitney's U."""
    clicked, others = (frame.loc[frame["click"] == c, score] for c in (1, 0))
    return stats.mannwhitneyu(clicked, others).statistic / (len(clicked) * len(others))


def test_without_requests_metrics_of_scores_use_every_row():
    """A unit sees an item many times; only lists need each item once."""
    rng = np.random.default_rng(3)
    rows = 4000
    frame = pd.DataFrame(
        {"user_id": rng.integers(0, 90, rows), "item_id": rng.integers(0, 12, rows)}
    )
    frame["a"] = rng.random(rows)
    frame["b"] = rng.random(rows).round(1)
    frame["click"] = (rng.random(rows) < 0.1 + 0.3 * frame["a"]).astype(int)
    frame["variant"] = np.where(frame["user_id"] % 2 == 0, "x", "y")
    frame["ts"] = pd.Timestamp("2026-03-01") + pd.to_timedelta(np.arange(rows), unit="s")
    frame["item_id"] = frame["item_id"].astype("Int64").mask(frame.index < 20)
    loaded, _ = small(random_rows(users=2), unit="user_id")
    names = ["auc", "log_loss", "gauc[impressions]", "ece[width]", "brier", "mrr@5"]
    found = loaded.replay(metrics=names, logs={"impressions": frame})
    for model in "ab":
        area = found.row("auc", model, "pooled").value
        assert area == pytest.approx(auc_of(frame, model), abs=1e-9)
        p = frame[model].clip(2.220446049250313e-16, 1 - 2.220446049250313e-16)
        loss = -np.log(np.where(frame["click"] == 1, p, 1 - p)).mean()
        assert found.row("log_loss", model, "pooled").value == pytest.approx(loss, rel=1e-8)
    brier = ((frame["a"] - frame["click"]) ** 2).mean()
    assert found.row("brier", "a", "pooled").value == pytest.approx(brier, rel=1e-8)
    logs = {"impressions": frame}
    served = loaded.replace(metrics=[{"name": "auc"}, {"name": "gauc"}]).analyze(logs=logs)
    for metric, offline in (("auc", "auc"), ("gauc", "gauc[impressions]")):
        online, own = served[metric].control, found.row(offline, "a", "x").value
        # Online, what each unit adds to AUC is rounded to 1e-9, offline to 1e-12.
        assert own == pytest.approx(online, rel=1e-9 if metric == "auc" else 1e-12)
    areas = abeval.evaluate_log(
        frame.assign(grade=frame.click, unit_id=frame.user_id),
        ["a"],
        metrics=["auc"],
        columns=abeval.JudgedColumns(request=None),
    )
    assert areas.values()["auc"] == pytest.approx(auc_of(frame), abs=1e-9)


def test_request_ids_that_start_anew_for_each_unit_are_told_apart():
    rows = random_rows()
    loaded, logs = small([(*row[:2], row[2].split("-")[1], *row[3:]) for row in rows])
    found = loaded.replay(metrics=["ndcg@3[exp]"], logs=logs)
    loaded, logs = small(rows)
    assert [r.value for r in found.rows] == [
        r.value for r in loaded.replay(metrics=["ndcg@3[exp]"], logs=logs).rows
    ]
    assert dict(found.accounting)["requests_shared_by_units"] == 2


def test_constant_scores_and_no_clicks_give_a_half_or_a_reason():
    rows = [(*row[:5], 0.5, row[6]) for row in random_rows()]
    loaded, logs = small(rows)
    found = loaded.replay(metrics=["auc", "gauc[impressions]"], logs=logs)
    assert found.row("auc", "a", "pooled").value == pytest.approx(0.5)
    assert found.row("gauc[impressions]", "a", "pooled").value == pytest.approx(0.5)
    loaded, logs = small([(*row[:4], 0, *row[5:]) for row in rows])
    found = loaded.replay(k=(1, 3), logs=logs)
    undefined = ("ndcg@3[exp]", "auc", "gauc[impressions]", "ne", "q_ctr", "fcp")
    for metric in undefined:
        row = found.row(metric, "b", "pooled")
        assert row.value is None, metric
        assert row.reason in ("empty_denominator", "one_class"), metric
    assert json.loads(found.to_json())


def test_scores_that_are_no_probabilities_rank_but_have_no_log_loss():
    loaded, logs = small([(*row[:6], 40 * row[6] - 3) for row in random_rows()])
    found = loaded.replay(k=(1,), logs=logs)
    for metric in ("log_loss", "ne", "q_ctr", "ece[mass]", "brier"):
        assert found.row(metric, "b").reason == "not_probabilities"
        assert found.pair(metric).reason == "not_probabilities"
    assert found.row("auc", "b").value > 0.5


def test_a_scores_log_is_the_same_model_as_a_column():
    rows = random_rows()
    loaded, logs = small(rows, logs={"impressions": {}, "scores": {}})
    frame = logs["impressions"]
    other = frame[["request_id", "item_id"]].assign(model="c", score=frame["b"])
    stray = pd.DataFrame(
        {"request_id": ["?", "0-0"], "item_id": [1, 99], "model": "c", "score": 0.5}
    )
    found = loaded.replay(
        metrics=["mrr@5", "gauc[clicks]"], logs={**logs, "scores": pd.concat([other, stray])}
    )
    for row in found.rows:
        if row.model == "c" and row.traffic == "y":
            assert row.value == found.row(row.metric, "b", "y").value
    counts = dict(found.accounting)
    assert counts["c: scores_of_unknown_requests"] == 1
    assert counts["c: scored_items_never_shown"] == 1


def test_scores_that_name_no_model_are_a_model_of_their_own():
    loaded, logs = small(random_rows(), logs={"impressions": {}, "scores": {}})
    frame = logs["impressions"]
    keys = frame[["request_id", "item_id"]]
    listed = [
        keys.assign(model="new", score=frame["b"]),
        keys.assign(model=None, score=frame["b"]),
    ]
    found = loaded.replay(metrics=["mrr@3"], logs={**logs, "scores": pd.concat(listed)})
    assert [model.name for model in found.models] == ["a", "b", "new", "scores"]
    for model in ("new", "scores"):
        assert found.row("mrr@3", model, "x").value == found.row("mrr@3", "b", "x").value


def test_a_ranked_list_ranks_as_its_scores_do():
    loaded, logs = small(random_rows(), logs={"impressions": {}, "scores": {}})
    frame = logs["impressions"]
    rank = frame.groupby("request_id")["b"].rank(ascending=False).astype(int)
    listed = frame[["request_id", "item_id"]].assign(rank=rank)
    found = loaded.replay(metrics=["ndcg@3[exp]"], logs={**logs, "scores": listed})
    for traffic in "xy":
        ours = found.row("ndcg@3[exp]", "scores", traffic).value
        assert ours == found.row("ndcg@3[exp]", "b", traffic).value


def test_sampled_negatives_are_undone():
    loaded, logs = small(random_rows())
    frame = logs["impressions"]
    undone = frame["a"] / (frame["a"] + (1 - frame["a"]) / 0.1)
    found = loaded.replay(metrics=["q_ctr"], kept_negatives=0.1, logs=logs)
    assert found.row("q_ctr", "a", "pooled").value == pytest.approx(
        undone.sum() / frame["click"].sum(), abs=1e-8
    )


def test_precision_and_recall_at_a_threshold():
    loaded, logs = small(random_rows())
    frame = logs["impressions"]
    found = loaded.replay(k=(1,), threshold=0.7, logs=logs)
    yes = frame["b"] >= 0.7
    hit = frame.loc[yes, "click"].sum()
    assert found.row("precision[threshold]", "b", "pooled").value == pytest.approx(hit / yes.sum())
    recall = found.row("recall[threshold]", "b", "pooled").value
    assert recall == pytest.approx(hit / frame["click"].sum())
    f1 = found.row("f1[threshold]", "b", "pooled").value
    assert f1 == pytest.approx(2 * hit / (frame["click"].sum() + yes.sum()))
    with pytest.raises(ExperimentError, match="threshold"):
        loaded.replay(metrics=["f1[threshold]"], logs=logs)


def test_relevance_may_be_an_expression():
    loaded, logs = small(random_rows())
    plain = loaded.replay(metrics=["ndcg@3[lin]", "cg@3"], logs=logs)
    tripled = loaded.replay(metrics=["ndcg@3[lin]", "cg@3"], relevance="3 * click", logs=logs)
    assert tripled.row("ndcg@3[lin]").value == pytest.approx(plain.row("ndcg@3[lin]").value)
    assert tripled.row("cg@3").value == pytest.approx(3 * plain.row("cg@3").value)
    with pytest.raises(ExperimentError):
        loaded.replay(relevance="sum(click)", logs=logs)
    with pytest.raises(LogError, match="dwell"):
        loaded.replay(relevance="dwell", logs=logs)


def with_dwell(seed=4):
    """Model a predicts dwell in seconds, b does not; some items are liked."""
    loaded, logs = small(
        random_rows(seed=seed),
        logs={"impressions": {"dwell_unit": "s"}},
        clicks={"long_seconds": 20},
    )
    frame, rng = logs["impressions"], np.random.default_rng(seed)
    frame["dwell"] = np.where(frame["click"] == 1, rng.exponential(30, len(frame)).round(3), 0)
    frame["a"] = (frame["dwell"] + rng.normal(0, 5, len(frame))).clip(0)
    frame["liked"] = (frame["click"] == 1) & (rng.random(len(frame)) < 0.5)
    return loaded, logs, frame


def test_mae_and_rmse_of_a_prediction_of_dwell():
    loaded, logs, frame = with_dwell()
    found = loaded.replay(metrics=["mae", "rmse", "ndcg@3[lin]"], relevance="dwell", logs=logs)
    for model in "ab":
        error = frame[model] - frame["dwell"]
        mae, rmse = found.row("mae", model, "pooled"), found.row("rmse", model, "pooled")
        assert mae.value == pytest.approx(error.abs().mean())
        assert rmse.value == pytest.approx(np.sqrt((error**2).mean()))
        assert rmse.low < rmse.value < rmse.high
    # Scores that are seconds are no probabilities, and need not be.
    assert found.pair("mae", "pooled").low > 0


def test_errors_are_of_relevance_as_it_is_and_lists_count_none_below_zero():
    loaded, logs = small(random_rows())
    frame = logs["impressions"]
    metrics = ["rmse", "ndcg@3[lin]"]
    found = loaded.replay(metrics=metrics, relevance="3 * click - 2", logs=logs)
    clipped = loaded.replay(metrics=metrics, relevance="click", logs=logs)
    for model in "ab":
        error = frame[model] - (3 * frame["click"] - 2)
        rmse = found.row("rmse", model, "pooled").value
        assert rmse == pytest.approx(np.sqrt((error**2).mean()))
        ndcg = found.row("ndcg@3[lin]", model, "pooled").value
        assert ndcg == pytest.approx(clipped.row("ndcg@3[lin]", model, "pooled").value)
    assert any("relevance below 0" in note for note in found.notes)


def test_mae_and_rmse_of_ratings():
    ratings = pd.DataFrame({"request_id": [1, 1, 2], "item_id": [1, 2, 1], "grade": [5, 3, 1]})
    run = ratings.assign(score=[4.5, 3.0, 3.0])[["request_id", "item_id", "score"]]
    found = abeval.evaluate(run, ratings, metrics=["mae", "rmse"]).values()
    assert found["mae"] == pytest.approx(2.5 / 3)
    assert found["rmse"] == pytest.approx(np.sqrt((0.25 + 4) / 3))


def test_long_clicks_and_likes_are_relevance():
    loaded, logs, frame = with_dwell()
    top = frame.sort_values("b", ascending=False).groupby("request_id").head(2)
    cases = {
        "long_click": (frame["click"] == 1) & (frame["dwell"] >= 20),
        "liked": frame["liked"],
        "3 * cast(liked as integer) + click": 3 * frame["liked"] + frame["click"],
    }
    for relevance, worth in cases.items():
        found = loaded.replay(metrics=["cg@2"], relevance=relevance, logs=logs)
        row = found.row("cg@2", "b", "pooled")
        assert row.value * row.counted == pytest.approx(worth[top.index].sum()), relevance
        assert f"relevance: {relevance}" in found.notes


def test_what_is_odd_about_scores_is_said():
    rows = random_rows()
    loaded, logs = small([(*row[:5], 0.25, None) for row in rows])
    notes = loaded.replay(metrics=["auc"], logs=logs).notes
    assert "every score of a is 0.25: its items are ordered by the tie rule only" in notes
    assert "b has no usable score and is not compared" in notes
    loaded, logs = small([(*row[:6], None if row[2].endswith("-1") else row[6]) for row in rows])
    notes = loaded.replay(metrics=["auc"], logs=logs).notes
    assert any("80 that only some score are left out" in note for note in notes)


def test_an_empty_log_is_nothing_to_replay():
    loaded, logs = small(random_rows(4))
    empty = {"impressions": logs["impressions"].head(0)}
    with pytest.raises(LogError, match="the impressions have no rows"):
        loaded.replay(logs=empty)


def test_the_command_says_why_a_value_is_missing_and_takes_policies():
    wanted = ["--metric", "recall@20", "--metric", "mrr@5", "--k", "5"]
    run = CliRunner().invoke(app, ["replay", str(SAMPLE), *wanted, "--no-relevant", "zero"])
    assert run.exit_code == 0, run.output
    assert "k covers list" in run.output
    zero = abeval.load(SAMPLE).replay(metrics=["mrr@5"], no_relevant="zero")
    assert f"{zero.row('mrr@5').value:.4f}" in run.output


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"k": ()}, "k must be"),
        ({"k": (0,)}, "k must be"),
        ({"compat": "tresc"}, "trec"),
        ({"metrics": ["ndcg@10"]}, "has several definitions"),
        ({"kept_negatives": 0}, "kept_negatives"),
        ({"threshold": float("nan")}, "threshold nan: use a number"),
        ({"bins": 0}, "bins 0: use a number from 1"),
        ({"curve": 5, "metrics": ["auc"]}, "no curve"),
    ],
)
def test_mistakes_are_said(options, error):
    loaded, logs = small(random_rows(4))
    with pytest.raises(ExperimentError, match=error):
        loaded.replay(logs=logs, **options)


def test_without_a_model_there_is_nothing_to_replay():
    loaded, logs = small(random_rows(4), models={}, variants={"x": {}, "y": {}})
    with pytest.raises(LogError, match="no model"):
        loaded.replay(logs=logs)


def test_relevance_beyond_what_a_gain_can_hold_is_refused():
    loaded, logs = small(random_rows())
    found = loaded.replay(
        metrics=["ndcg@3[exp]", "ndcg@3[lin]"], relevance="300 * click", logs=logs
    )
    assert found.row("ndcg@3[exp]").reason == "gain_too_large"
    plain = loaded.replay(metrics=["ndcg@3[lin]"], logs=logs)
    assert found.row("ndcg@3[lin]").value == pytest.approx(plain.row("ndcg@3[lin]").value)
    with pytest.raises(LogError, match="largest relevance"):
        loaded.replay(relevance="1e6 * click", logs=logs)


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("requests", [1, 2, 3])
@pytest.mark.parametrize("users", [1, 3])
def test_a_few_requests_have_values_without_intervals(requests, users):
    lists = [
        {"request_id": i, "item_id": item, "score": 1 - item / 5}
        for i in range(requests)
        for item in range(3)
    ]
    truth = [{"request_id": i, "item_id": 1, "unit_id": i % users} for i in range(requests)]
    found = abeval.evaluate(pd.DataFrame(lists), pd.DataFrame(truth))
    values = found.values()
    assert (values["mrr@5"], values["precision@1"]) == (0.5, 0.0)
    assert {row.low for row in found.result.rows} == {None}
    log = pd.DataFrame(lists).assign(unit_id=1, grade=[0, 1, 0] * requests)
    assert abeval.evaluate_log(log, ["score"]).values()["mrr@5"] == 0.5
