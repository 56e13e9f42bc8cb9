"""Novelty, serendipity, coverage and the like against the numbers of recommenders and RecTools."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import ExperimentError, LogError
from abeval.offline.evaluate import evaluate
from tests.offline.frames import close, ranking
from tests.offline.test_replay import SAMPLE, random_rows, small


def rectools(k):
    case = ranking()["rectools_beyond_accuracy"]
    given = case["input"]
    run = pd.DataFrame(given["reco"]).rename(columns={"user_id": "request_id"})
    truth = pd.DataFrame(given["interactions"]).rename(columns={"user_id": "request_id"})
    history = pd.DataFrame(given["prev_interactions"]).rename(columns={"user_id": "unit_id"})
    found = evaluate(
        run,
        truth,
        metrics=[f"{m}@{k}" for m in ("serendipity", "popularity", "coverage")]
        + [f"novelty@{k}[miuf]"],
        history=history,
        catalogue=pd.DataFrame({"item_id": given["catalog"]}),
    )
    return case["values"], found.values()


@pytest.mark.parametrize("k", [1, 2])
def test_rectools_novelty_serendipity_popularity_and_coverage(k):
    expected, found = rectools(k)
    assert close(found[f"novelty@{k}[miuf]"], expected[f"MIUF@{k}_mean"])
    assert close(found[f"serendipity@{k}"], expected[f"Serendipity@{k}_mean"])
    assert close(found[f"popularity@{k}"], expected[f"ARP@{k}"])
    assert close(found[f"coverage@{k}"], expected[f"CatalogCoverage@{k}"])


def test_recommenders_novelty_coverage_gini_and_personalisation():
    case = ranking()["recommenders_diversity_suite"]
    reco = pd.DataFrame(case["input"]["reco"])
    train = pd.DataFrame(case["input"]["train"])
    reco = reco.set_axis(["request_id", "item_id", "grade"], axis=1)
    run = reco[["request_id", "item_id"]].assign(rank=[1, 2] * 3)
    wanted = {
        "novelty@2[self_information]": "novelty",
        "novelty@2[miuf]": "ours_MIUF_novelty (-log2(users_i/n_users), user-mean)",
        "coverage@2": "catalog_coverage",
        "entropy@2": "distributional_coverage",
        "gini@2[listed]": "gini_over_recommended_items (n)",
        "gini@2[catalogue]": "gini_over_full_catalog (n)",
        "personalisation@2": "personalization (1-mean cosine of user lists; recmetrics)",
    }
    history = train.set_axis(["unit_id", "item_id"], axis=1)
    found = evaluate(run, reco, metrics=list(wanted), history=history).values()
    for ours, theirs in wanted.items():
        assert close(found[ours], case[theirs]), ours


def test_an_item_of_the_only_model_is_one_item_of_the_catalogue():
    lists = [(user, item) for user in range(20) for item in (user % 5, (user + 1) % 5)]
    run = pd.DataFrame(lists, columns=["request_id", "item_id"]).assign(rank=[1, 2] * 20)
    truth = run[["request_id", "item_id"]].assign(grade=1)
    alone = evaluate({"a": run}, truth, metrics=["coverage@2"]).values()
    # The four items of the first list are 4 of 5 items at the first place.
    assert alone == {"coverage@2": 1.0}
    beside = evaluate({"a": run, "b": run}, truth, metrics=["coverage@2"])
    assert {row.value for row in beside.result.rows} == {1.0}


def test_novelty_without_a_history_is_refused():
    run = pd.DataFrame({"request_id": [1], "item_id": [1], "score": [0.5]})
    found = evaluate(run, run[["request_id", "item_id"]], metrics=["novelty@1[miuf]"])
    assert found.result.rows[0].reason == "no_history"


@pytest.mark.whole
def test_category_diversity_of_served_lists_is_the_online_metric():
    loaded = abeval.load(SAMPLE)
    found = loaded.replay(metrics=["ild@20[category]", "novelty@5[miuf]", "coverage@5"])
    online = loaded.analyze()["category_diversity"]
    for traffic, value in (("control", online.control), ("treatment", online.treatment)):
        # At twenty places every item of a list counts, whoever orders it.
        row = found.row("ild@20[category]", "candidate", traffic)
        assert row.value == pytest.approx(value, rel=1e-3)
        assert row.low < row.value < row.high
    assert found.row("novelty@5[miuf]").value > 0
    assert 0 < found.row("coverage@5").value <= 1
    assert found.row("coverage@5", traffic="pooled").reason == "not_pooled"


def test_vector_diversity_is_one_minus_the_mean_cosine():
    loaded, logs = small(random_rows(), logs={"impressions": {}, "items": {}})
    vectors = np.random.default_rng(2).normal(size=(5, 3))
    items = pd.DataFrame({"item_id": range(5), "embedding": list(vectors)})
    found = loaded.replay(metrics=["ild@3[vectors]"], logs={**logs, "items": items})
    rows, unit = logs["impressions"], vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    means = [
        1 - np.mean([unit[i] @ unit[j] for i, j in combinations(some["item_id"], 2)])
        for _, some in rows.sort_values("b", ascending=False)
        .groupby("request_id")
        .head(3)
        .groupby("request_id")
    ]
    assert close(found.row("ild@3[vectors]", "b", "pooled").value, np.mean(means), 1e-8)


def test_vectors_that_are_not_there_are_asked_for():
    loaded, logs = small(random_rows())
    with pytest.raises(LogError, match="embedding"):
        loaded.replay(metrics=["ild@3[vectors]"], logs=logs)


def test_vectors_are_of_an_experiments_item_log():
    log = pd.DataFrame({"unit_id": [1], "request_id": 1, "item_id": 1, "grade": 1, "score": 0.5})
    with pytest.raises(ExperimentError, match="item log"):
        abeval.evaluate_log(log, ["score"], metrics=["ild@3[vectors]"])
