"""Every example of the seed documents: the value that its own formula yields."""

import pandas as pd
import pytest

from abeval.offline.evaluate import evaluate
from tests.offline.frames import close, one_list, seeds


def values(relevance, ids):
    return evaluate(*one_list(relevance), metrics=ids).values()


def test_000_ndcg_is_0_687_and_not_0_68():
    case = seeds()["000_ndcg_example"]
    ids = ["cg@5", "dcg@5[lin]", "dcg@5[exp]", "ndcg@5[lin]", "ndcg@5[exp]"]
    found = values(case["input"]["relevance_in_rank_order"], ids)
    correct = case["correct"]
    names = ["CG", "DCG_linear", "DCG_exp", "nDCG_linear", "nDCG_exp"]
    assert all(close(found[i], correct[n]) for i, n in zip(ids, names, strict=True))
    ideal = found["dcg@5[lin]"] / found["ndcg@5[lin]"]
    assert close(ideal, correct["IDCG_linear"], 1e-7)
    printed = case["doc_prints"]
    assert round(ideal, 4) != printed["IDCG"]
    assert round(found["ndcg@5[lin]"], 2) != printed["nDCG"]


def test_000_ndcg_at_every_cut_off():
    case = seeds()["000_ndcg_example"]
    for gain, name in (("lin", "linear"), ("exp", "exp")):
        at = case["correct"][f"nDCG_{name}_at"]
        ids = [f"ndcg@{k}[{gain}]" for k in at]
        found = values(case["input"]["relevance_in_rank_order"], ids)
        assert all(close(found[i], value) for i, value in zip(ids, at.values(), strict=True))


def test_000_the_second_formula_of_ap_is_one_and_the_first_is_none():
    case = seeds()["000_ap_ar_formulas"]
    rel = case["input"]["rel"]
    wanted = {
        "map@{}[min]": case["as_second_formula AP@k = 1/min(m,k) * sum P(i)*rel(i)"],
        "mar@{}[min]": case["AR@k rel-weighted = 1/min(R,k) * sum R@i*rel(i)"],
        "mar@{}[R]": case["AR@k evidently = 1/R * sum R@i*rel(i)"],
        "mar@{}[mean]": {
            k: {"value": v}
            for k, v in case[
                "AR@k standardised = 1/k * sum_i R@i (mean of the sliding window; in [0,1])"
            ].items()
        },
    }
    found = values(rel, [name.format(k) for name, at in wanted.items() for k in at])
    for name, at in wanted.items():
        for k, exact in at.items():
            assert close(found[name.format(k)], exact["value"]), (name, k)
    first = case["as_first_formula_written (sum of P@i for ALL i)/(TP+FN)"]["8"]
    assert first > 1 >= found["map@8[min]"]


def test_000_fcp_skips_ties_or_counts_them_half():
    case = seeds()["000_fcp_worked"]
    assert close(fcp(case["input"])["fcp"], case["FCP"])
    ties = seeds()["000_fcp_ties"]
    found = fcp(ties["input"])
    assert close(found["fcp"], ties["FCP_doc"])
    assert close(found["fcp[half]"], ties["FCP_half_credit"])


def fcp(given):
    items = range(len(given["rel"]))
    run = pd.DataFrame({"request_id": 1, "item_id": items, "score": given["score"]})
    truth = pd.DataFrame({"request_id": 1, "item_id": items, "grade": given["rel"]})
    return evaluate(run, truth, metrics=["fcp", "fcp[half]"]).values()


def test_001_precision_recall_f1_ap_and_ndcg():
    case = seeds()["001_binary_ranking"]
    correct = case["correct"]
    lists = {
        "precision@{}": correct["precision_at_k"],
        "recall@{}": correct["recall_at_k"],
        "f1@{}": correct["F1_at_k"],
        "recall@{}[cap]": correct["recall_capped_min(k,R)"],
        "dcg@{}[lin]": correct["DCG_at_k"],
        "ndcg@{}[lin]": correct["NDCG_at_k"],
    }
    for name, key in (("R", "AP_at_k_R"), ("min", "AP_at_k_min(R,k)"), ("hits", "AP_at_k_hits")):
        lists[f"map@{{}}[{name}]"] = [exact["value"] for exact in correct[key].values()]
    ids = [name.format(k) for name in lists for k in range(1, 9)]
    found = values(case["input"]["labels"], [*ids, "mrr", "arhr"])
    for name, at in lists.items():
        for k, value in enumerate(at, start=1):
            assert close(found[name.format(k)], value), (name, k)
    assert close(found["mrr"], correct["RR"])
    assert close(found["arhr"], correct["ARHR"]["value"])
    assert close(found["map@8[R]"], 37 / 48)
    assert found["map@8[R]"] < case["doc_prints"]["AP"]


def test_001_scores_of_the_same_list():
    case = seeds()["001_binary_ranking"]
    given, correct = case["input"], case["correct"]
    frame = {"request_id": 1, "item_id": given["ids_ranked"]}
    run = pd.DataFrame({**frame, "score": given["scores"]})
    truth = pd.DataFrame({**frame, "grade": given["labels"]})
    wanted = {"auc": "AUC", "log_loss": "log_loss", "q_ctr": "Q_ctr", "fcp": "FCP"}
    found = evaluate(run, truth, metrics=list(wanted)).values()
    assert all(close(found[ours], correct[theirs]) for ours, theirs in wanted.items())


def test_001_map_is_599_of_840():
    case = seeds()["001_map_example"]
    lists = [one_list(case["input"][name], name) for name in ("phone", "watch")]
    run, truth = (pd.concat(frames) for frames in zip(*lists, strict=True))
    wanted = {"map@{}[R]": "MAP@k_R", "map@{}[min]": "MAP@k_min(R,k)", "map@{}[hits]": "MAP@k_hits"}
    ids = [name.format(k) for name, key in wanted.items() for k in case["correct"][key]]
    found = evaluate(run, truth, metrics=[*ids, "map[R]", "mrr"])
    for name, key in wanted.items():
        for k, exact in case["correct"][key].items():
            assert close(found.values()[name.format(k)], exact["value"])
    assert close(found.values()["map[R]"], 599 / 840)
    assert close(found.values()["mrr"], 3 / 4)
    assert close(found.per_unit["model"].loc["phone", "map[R]"], 13 / 15)
    assert close(found.per_unit["model"].loc["watch", "map[R]"], 47 / 84)


_002 = {
    "recall@{}[cap]": "recall_capped_min(k,R)",
    "recall@{}": "recall_standard_R",
    "mrr@{}": "MRR",
    "precision@{}": "precision_k",
    "map@{}[hits]": "MAP_hits",
    "map@{}[R]": "MAP_R",
    "map@{}[min]": "MAP_min(R,k)",
    "map@{}[k]": "MAP_k",
    "mar@{}[mean]": "MAR_mean_R@i (1/k sum R@i)",
    "mar@{}[R]": "MAR_relweighted_R",
    "mar@{}[min]": "MAR_relweighted_min(R,k)",
    "ndcg@{}[bin]": "nDCG_ideal_all_relevant (IDCG over min(k,R) ones)",
    "ndcg@{}[bin,list]": "nDCG_ideal_retrieved_only (sklearn with y_score=-rank)",
    "ndcg@{}[lin,ties]": "nDCG_ideal_retrieved_only (sklearn with y_score=-rank)",
    "ndcg@{}[bin,k]": "nDCG_full_k_ones (RecTools default IDCG over k ones)",
    "hit@{}": "hit_rate",
    "arhr@{}": "ARHR",
    "f1@{}": "F1_mean_of_user_f1",
}


def retrieval():
    given = seeds()["002_retrieval"]["input"]
    rows = [(q, i, rank) for q, row in enumerate(given["results"]) for rank, i in enumerate(row, 1)]
    run = pd.DataFrame(rows, columns=["request_id", "item_id", "rank"])
    pairs = [(q, i) for q, row in enumerate(given["ground_truth"]) for i in row]
    return run, pd.DataFrame(pairs, columns=["request_id", "item_id"])


@pytest.mark.parametrize("k", [1, 5, 10])
def test_002_every_definition_of_the_notebook(k):
    correct = seeds()["002_retrieval"]["correct"]
    found = evaluate(*retrieval(), metrics=[name.format(k) for name in _002]).values()
    for ours, theirs in _002.items():
        assert close(found[ours.format(k)], correct[theirs][str(k)]), theirs


def test_002_document_ids_for_scores_give_the_printed_numbers():
    case = seeds()["002_retrieval"]
    run, truth = retrieval()
    wrong = run.assign(rank=-run["item_id"])
    found = evaluate(wrong, truth, metrics=[f"ndcg@{k}[bin,list]" for k in (1, 5, 10)]).values()
    for k, printed in case["doc_prints"]["nDCG@k"].items():
        assert close(found[f"ndcg@{k}[bin,list]"], printed)


def test_003_dcg_of_the_list_and_of_the_ideal():
    case = seeds()["003_cg_dcg"]
    correct = case["correct"]
    ids = ["cg@4", "dcg@4[lin]", "ndcg@4[lin]", "dcg@4[exp]", "ndcg@4[exp]"]
    found = values(case["input"]["list"], ids)
    names = ["CG", "DCG_list_linear", "NDCG_list_linear", "DCG_list_exp", "NDCG_list_exp"]
    assert all(close(found[i], correct[n]) for i, n in zip(ids, names, strict=True))
    ideal = values(case["input"]["ideal"], ids)
    assert close(ideal["dcg@4[lin]"], correct["DCG_ideal_linear"])
    assert close(ideal["dcg@4[exp]"], correct["DCG_ideal_exp"])
    assert ideal["ndcg@4[lin]"] == 1


_004 = {
    "auc": "AUC_global",
    "gauc[impressions]": "GAUC_impression_weighted (seed 004, DIN; single-class users dropped)",
    "gauc[clicks]": "GAUC_click_weighted",
    "gauc[units]": "GAUC_unweighted (avgAUC / uAUC)",
    "gauc[pairs]": "GAUC_pair_weighted (CatBoost QueryAUC style)",
    "gauc[impressions,half]": "GAUC_impression_weighted_single_class_as_0.5",
    "q_ctr": "Q_ctr=PCOC",
    "log_loss": "log_loss_nats",
    "log_likelihood": "log_likelihood_sum",
    "ne": "NE",
    "rig": "RIG",
    "brier": "brier",
    "ece[width]": "ECE_10_equal_width",
}


def impressions():
    given = seeds()["004_gauc_qctr"]["input"]
    frame = {"request_id": given["user"], "item_id": range(len(given["user"]))}
    run = pd.DataFrame({**frame, "score": given["pctr"]})
    return run, pd.DataFrame({**frame, "grade": given["label"]})


def test_004_gauc_and_calibration():
    correct = seeds()["004_gauc_qctr"]["correct"]
    found = evaluate(*impressions(), metrics=list(_004))
    for ours, theirs in _004.items():
        # Sums of rows are of multiples of 1e-9, so a total may be off by that a row.
        tolerance = 2e-8 if ours == "log_likelihood" else 1e-9
        assert close(found.values()[ours], correct[theirs], tolerance), ours
    left_out = dict(found.result.row("gauc[impressions]").left_out)
    assert left_out["single_class_units"] == correct["users_dropped"]
    used = 17 - left_out["single_class_impressions"]
    assert used == correct["impressions_used"] == found.result.row("gauc[impressions]").counted


def test_004_auc_of_each_user():
    per_unit = evaluate(*impressions(), metrics=["gauc[units]"]).per_unit["model"]["gauc[units]"]
    for user, expected in seeds()["004_gauc_qctr"]["per_user"].items():
        if expected["auc"] is None:
            assert per_unit.isna()[user]
        else:
            assert close(per_unit[user], expected["auc"])


@pytest.mark.parametrize(
    ("kind", "key"), [("width", "ECE_5_equal_width"), ("mass", "ECE_5_equal_mass")]
)
def test_004_calibration_error_in_five_bins(kind, key):
    found = evaluate(*impressions(), metrics=[f"ece[{kind}]"], bins=5).values()
    assert close(found[f"ece[{kind}]"], seeds()["004_gauc_qctr"]["correct"][key])
