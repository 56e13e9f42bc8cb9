"""The ranking metrics against the numbers of pytrec_eval, ir_measures, ranx, RecTools, others."""

import math
from pathlib import Path

import pandas as pd
import pytest

from abeval.errors import ExperimentError
from abeval.offline.evaluate import evaluate
from abeval.offline.metrics import PRESETS, list_default_metrics, parse_metric
from tests.offline.frames import close, our_id, ranking, run_frame, truth_frame

SUITES = [
    "ir_measures_suite_graded",
    "pytrec_eval_suite",
    "ranx_suite_dict",
    "ranx_suite_graded",
    "wikipedia_ndcg",
    "seed002",
    "seed001_map",
    "seed000_ndcg",
]


def suite(name):
    case = ranking()[name]
    ids = {theirs: our_id(theirs) for theirs in case["per_query"]}
    found = evaluate(
        run_frame(case["run"]),
        truth_frame(case["qrels"]),
        metrics=list(ids.values()),
        no_relevant="zero",
        ties="text",
    )
    return case, ids, found


@pytest.mark.whole
@pytest.mark.parametrize("name", SUITES)
def test_every_value_of_every_query_and_the_means(name):
    case, ids, found = suite(name)
    assert len(ids) >= 73
    frame = found.per_unit["model"]
    for theirs, ours in ids.items():
        for query, value in case["per_query"][theirs].items():
            assert close(frame.loc[query, ours], value), (theirs, query)
        assert close(found.values()[ours], case["mean_over_qrels_queries"][theirs]), theirs


def test_the_trec_preset_breaks_ties_by_the_larger_name():
    case = ranking()["ties"]
    found = evaluate(
        run_frame(case["run"]), truth_frame(case["qrels"]), k=[1, 2, 3], compat="trec"
    ).values()
    for theirs, libraries in case["libs"].items():
        assert close(found[our_id(theirs)], libraries["pytrec_eval"]["q"]), theirs
    tied = ranking()["ties"]["ranx_insertion_order"]
    items = [f"d{n:02}" for n in range(20)]
    run = pd.DataFrame({"request_id": "q", "item_id": items, "score": 1.0})
    truth = pd.DataFrame({"request_id": ["q"], "item_id": [tied["relevant"]]})
    assert close(evaluate(run, truth, compat="trec").values()["mrr"], tied["pytrec_eval"])


def test_ties_by_position_follow_the_order_of_the_list():
    items = [f"d{n:02}" for n in range(20)]
    run = pd.DataFrame({"request_id": "q", "item_id": items, "score": 1.0})
    truth = pd.DataFrame({"request_id": ["q"], "item_id": ["d07"]})
    assert close(evaluate(run, truth, compat="ranx").values()["mrr"], 1 / 8)
    assert close(evaluate(run[::-1], truth, compat="ranx").values()["mrr"], 1 / 13)


def test_the_sklearn_preset_averages_over_ties():
    case = ranking()["ties"]
    found = evaluate(run_frame(case["run"]), truth_frame(case["qrels"]), k=[3], compat="sklearn")
    assert close(found.values()["ndcg@3[lin,ties]"], case["sklearn_ndcg@3_tie_averaged"])
    assert close(found.values()["auc"], case["auc_half_credit"])


def test_queries_that_are_missing_or_have_nothing_relevant():
    case = ranking()["degenerate_queries"]
    run = pd.concat(
        [run_frame(case["run"]), pd.DataFrame([("q5", "x", 1.0)], columns=_RUN)], ignore_index=True
    )
    truth = truth_frame(case["qrels"])
    trec = evaluate(run, truth, k=[1], compat="trec")
    per_query = case["pytrec_eval"]["per_query"]
    for query in ("q1", "q2"):
        for theirs, ours in (("map", "map[R]"), ("recip_rank", "mrr"), ("P_1", "precision@1")):
            assert close(trec.per_unit["model"].loc[query, ours], per_query[query][theirs])
    # q3 has an empty list and q4 none: neither is in the frame of the run.
    assert trec.per_unit["model"].loc[["q3", "q4"], "map[R]"].isna().all()
    ranx = evaluate(run, truth, k=[1], compat="ranx").values()
    assert close(ranx["map[R]"], case["ranx_make_comparable"]["map"])
    assert close(ranx["ndcg[lin]"], case["ranx_make_comparable"]["ndcg"])
    assert dict(trec.result.accounting)["model: requests_not_in_truth"] == 1
    left_out = dict(evaluate(run, truth, metrics=["mrr"]).result.rows[0].left_out)
    assert left_out == {"requests_without_relevant": 1, "requests_without_scores": 2}


_RUN = ["request_id", "item_id", "score"]


def grouped():
    """The three groups of the learning-to-rank vector, as a run and a truth."""
    case = ranking()["ltr_conventions"]
    groups = [g for g, size in enumerate(case["group_sizes"]) for _ in range(size)]
    items = range(len(groups))
    run = pd.DataFrame({"request_id": groups, "item_id": items, "score": case["score"]})
    truth = pd.DataFrame({"request_id": groups, "item_id": items, "grade": case["rel"]})
    return case, run, truth


def test_the_xgboost_preset_is_xgboost_and_lightgbm():
    case, run, truth = grouped()
    found = evaluate(run, truth, k=[3, 5], compat="xgboost").values()
    printed = {name: float(text.rpartition(":")[2]) for name, text in case["xgboost"].items()}
    assert close(found["ndcg@3[exp]"], printed["ndcg@3"])
    assert close(found["map@3[min]"], printed["map@3"])
    assert close(found["precision@3"], printed["pre@3"])
    assert close(found["ndcg[exp]"], printed["ndcg"])
    assert close(found["ndcg@5[exp]"], case["lightgbm_ndcg"]["ndcg@5"])
    assert close(found["map@5[min]"], case["lightgbm_map"]["map@5"])
    minus = evaluate(run, truth, k=[3], compat="xgboost", no_relevant="zero").values()
    assert close(minus["ndcg@3[exp]"], printed["ndcg@3-"])
    assert close(minus["map@3[min]"], printed["map@3-"])


def test_groups_without_a_click_are_left_out_unless_told():
    case, run, truth = grouped()
    found = evaluate(run, truth, metrics=["ndcg@3[exp]", "map@3[R]", "gauc[units]"])
    per_unit = found.per_unit["model"]
    expected = case["ours_per_group"]
    for ours, theirs in (
        ("ndcg@3[exp]", expected["ndcg@3_exp_groups"]),
        ("map@3[R]", expected["ap@3_groups"]["R"]),
        ("gauc[units]", expected["auc_groups"]),
    ):
        # The middle group has nothing relevant; AUC of the first is of any relevance.
        assert math.isnan(per_unit.loc[1, ours])
        assert close(per_unit.loc[2, ours], theirs[2]), ours
    assert close(per_unit.loc[0, "ndcg@3[exp]"], expected["ndcg@3_exp_groups"][0])


def test_true_auc_where_xgboost_counts_pairs_of_equal_labels():
    for case in ranking()["ltr_conventions"]["xgboost_3.2.0_auc_single_groups"]:
        items = range(len(case["labels"]))
        run = pd.DataFrame({"request_id": 1, "item_id": items, "score": case["scores"]})
        truth = pd.DataFrame({"request_id": 1, "item_id": items, "grade": case["labels"]})
        found = evaluate(run, truth, metrics=["gauc[units]"])
        if case["true_auc"] is None:
            assert found.values()["gauc[units]"] is None
            assert found.result.rows[0].reason == "empty_denominator"
        else:
            assert close(found.values()["gauc[units]"], case["true_auc"])


_RECTOOLS = {
    "Precision@{}": "precision@{}",
    "RPrecision@{}(min(k,R))": "recall@{}[cap]",
    "Recall@{}": "recall@{}",
    "F1@{}": "f1@{}",
    "HitRate@{}": "hit@{}",
    "MAP@{}[R]": "map@{}[R]",
    "MAP@{}[k]": "map@{}[k]",
    "NDCG@{}[full_k_ideal,default]": "ndcg@{}[bin,k]",
    "NDCG@{}[achievable]": "ndcg@{}[bin]",
    "MRR@{}": "mrr@{}",
}


def rectools(case):
    names = {"user_id": "request_id"}
    run = pd.DataFrame({k: case["reco"][k] for k in ("user_id", "item_id", "rank")})
    truth = pd.DataFrame({k: case["interactions"][k] for k in ("user_id", "item_id")})
    return run.rename(columns=names), truth.rename(columns=names)


def test_the_rectools_preset_is_rectools():
    case = ranking()["rectools_docstring"]
    found = evaluate(*rectools(case["input"]), k=[1, 3, 4], compat="rectools")
    for k in (1, 3, 4):
        for theirs, ours in _RECTOOLS.items():
            expected = case["values"][theirs.format(k)]
            assert close(found.values()[ours.format(k)], expected["mean"]), (theirs, k)
            for user, value in expected["per_user"].items():
                assert close(found.per_unit["model"].loc[int(user), ours.format(k)], value)


def test_a_duplicate_in_the_truth_is_merged_and_counted():
    case = ranking()["rectools_docstring"]["duplicate_interactions_defect"]
    found = evaluate(*rectools(case), k=[3], compat="rectools")
    assert found.per_unit["model"]["map@3[R]"].tolist() == [1.0, 1.0]
    assert dict(found.result.accounting)["truth_duplicates"] == 1


_RECOMMENDERS = {
    "precision": "precision@{}",
    "recall": "recall@{}",
    "map[R]": "map@{}[R]",
    "map_at_k[min(R,k)]": "map@{}[min]",
    "ndcg_binary": "ndcg@{}[bin]",
    "ndcg_raw_linear": "ndcg@{}[lin]",
    "ndcg_exp": "ndcg@{}[exp]",
}


def recommenders():
    given = ranking()["recommenders_suite"]["input"]
    truth = pd.DataFrame(given["true"]).set_axis(["request_id", "item_id", "grade"], axis=1)
    return pd.DataFrame(given["pred"]).set_axis(_RUN, axis=1), truth


def test_the_recommenders_preset_is_recommenders():
    found = evaluate(*recommenders(), k=[3, 5, 10], compat="recommenders").values()
    for key, values in ranking()["recommenders_suite"]["values"].items():
        for theirs, ours in _RECOMMENDERS.items():
            expected = values["recommenders"][theirs]
            assert close(found[ours.format(key.removeprefix("k="))], expected), (key, theirs)


def test_a_user_without_predictions_is_zero_in_recommenders_ndcg_alone():
    run, truth = recommenders()
    missing = pd.DataFrame({"request_id": [9], "item_id": [1], "grade": [5]})
    found = evaluate(run, pd.concat([truth, missing]), k=[10], compat="recommenders").values()
    expected = ranking()["recommenders_suite"]["user_missing_from_predictions"]
    assert close(found["precision@10"], expected["precision_at_k"])
    assert close(found["map@10[R]"], expected["map_at_k"])
    assert close(found["ndcg@10[bin]"], expected["ndcg_at_k"])


def test_recmetrics_recall_is_our_map():
    case = ranking()["recmetrics_mark"]
    rows = [
        (q, item, rank)
        for q, items in enumerate(case["input"]["predicted"])
        for rank, item in enumerate(items, 1)
    ]
    run = pd.DataFrame(rows, columns=["request_id", "item_id", "rank"])
    pairs = [(q, item) for q, items in enumerate(case["input"]["actual"]) for item in items]
    truth = pd.DataFrame(pairs, columns=["request_id", "item_id"])
    found = evaluate(run, truth, metrics=[f"map@{k}[R]" for k in (1, 3, 5, 10)]).values()
    for k in (1, 3, 5, 10):
        assert close(found[f"map@{k}[R]"], case["ours_MAP@k[R]"][str(k)])
        assert close(found[f"map@{k}[R]"], case[f"mark@{k}"])


def test_evidently_map_and_mar_of_an_untied_list():
    case = ranking()["evidently_0.7.23"]["untied (seed 001 list)"]
    items = range(len(case["rel"]))
    run = pd.DataFrame({"request_id": 1, "item_id": items, "rank": items})
    truth = pd.DataFrame({"request_id": 1, "item_id": items, "grade": case["rel"]})
    ids = [f"{name}@{k + 1}[R]" for name in ("map", "mar") for k in items]
    found = evaluate(run, truth, metrics=ids).values()
    expected = case["MAP@k[R]"] + case["MAR@k[R]=1/R*sum R@i*rel_i"]
    assert all(close(found[i], value) for i, value in zip(ids, expected, strict=True))


def test_no_metric_exceeds_one_where_evidently_does():
    case = ranking()["evidently_0.7.23"]["tie_defect"]
    items = [1, 2, 3, 4, 5, 6]
    frame = {"request_id": case["user"], "item_id": items}
    run = pd.DataFrame({**frame, "score": case["score"]})
    truth = pd.DataFrame({**frame, "grade": case["target"]})
    found = evaluate(run, truth, metrics=["precision@1", "map@3[R]"]).per_unit["model"]
    assert found["precision@1"].tolist() == case["correct_expected_over_ties"]["P@1"]
    assert found.loc[1, "map@3[R]"] == 1.0
    assert close(found.loc[2, "map@3[R]"], 7 / 12)


def test_an_id_says_its_definition_or_is_refused():
    for metric in list_default_metrics([1, 10]):
        assert parse_metric(metric.id) == metric
    for text in ("map@10", "ndcg@10[cubic]", "precision", "rprec@3", "gauc@5[clicks]", "map@0[R]"):
        with pytest.raises(ExperimentError):
            parse_metric(text)


def test_the_page_lists_every_metric_of_every_preset():
    page = (Path(__file__).parents[2] / "docs" / "methods.md").read_text()
    for name, preset in PRESETS.items():
        (line,) = (text for text in page.splitlines() if text.startswith(f"| `{name}`"))
        listed = " ".join(line.split("`"))
        if "these, and" in line:
            listed += " ".join(next(t for t in page.splitlines() if "| `trec`" in t).split("`"))
        for metric in (*preset.at_k.split(), *preset.uncut.split()):
            assert metric.format("k") in listed.split(), (name, metric)


def test_a_metric_is_the_weighted_mean_of_its_units():
    _, run, truth = grouped()
    truth = truth.assign(unit_id=truth["request_id"] % 2)
    metrics = ["ndcg@3[exp]", "map@3[R]", "gauc[impressions]", "gauc[clicks]"]
    found = evaluate(run, truth, metrics=metrics)
    values, weights = found.per_unit["model"], found.weights["model"]
    assert list(values.index) == [0, 1]
    for metric in metrics:
        mean = (values[metric] * weights[metric]).sum() / weights[metric].sum()
        assert close(found.values()[metric], mean, 1e-12), metric
