"""Lists of which many items were never judged: judged@k, condensed lists, bpref, RBP, ERR.

`vectors/judged.json` is what ir_measures finds: `tests/offline/sample_vectors.py` makes it.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.results.replay import JudgedShare
from tests.offline.frames import VECTORS, one_list, run_frame, truth_frame

POLICY: dict[str, Any] = {"no_relevant": "zero", "ties": "text"}


@cache
def vectors() -> dict[str, Any]:
    return json.loads((VECTORS / "judged.json").read_text())


def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    return run_frame(vectors()["run"]), truth_frame(vectors()["qrels"])


@pytest.mark.parametrize("prefix", ["", "condensed "])
def test_every_request_has_the_values_of_ir_measures(prefix: str) -> None:
    theirs = {
        name.removeprefix(prefix): of
        for name, of in vectors()["per_query"].items()
        if name.startswith("condensed") == bool(prefix)
    }
    unjudged = "drop" if prefix else None
    found = abeval.evaluate(*frames(), metrics=[*theirs], unjudged=unjudged, **POLICY)
    for name, per_query in theirs.items():
        # The provider of ERR prints five decimals.
        tolerance = 5.1e-6 if name.startswith("err") else 1e-11
        ours = found.per_unit["model"][name] if not name.startswith("judged") else None
        mean = sum(per_query.values()) / len(per_query)
        assert found.values()[name] == pytest.approx(mean, abs=tolerance), name
        if ours is not None:
            assert ours.to_dict() == pytest.approx(per_query, abs=tolerance), name


def err(grades: list[int], k: int, largest: int) -> float:
    """Chapelle et al. (2009), line by line."""
    value, reach = 0.0, 1.0
    for place, grade in enumerate(grades[:k], start=1):
        stop = (2**grade - 1) / 2**largest
        value += reach * stop / place
        reach *= 1 - stop
    return value


def test_err_and_rbp_are_those_of_their_papers() -> None:
    grades = [0, 3, 1, 0, 2]
    run, truth = one_list(grades)
    names = ["err@3", "err", "rbp@2[0.8]", "rbp[0.5]", "rbp[0.95]"]
    found = abeval.evaluate(run, truth, metrics=names).values()
    expected = {
        "err@3": err(grades, 3, 3),
        "err": err(grades, 5, 3),
        "rbp@2[0.8]": 0.2 * 0.8,
        "rbp[0.5]": 0.5 * (0.5 + 0.25 + 0.0625),
        "rbp[0.95]": 0.05 * (0.95 + 0.95**2 + 0.95**4),
    }
    assert found == pytest.approx(expected, abs=1e-11)


def test_the_share_that_nobody_judged_is_always_said() -> None:
    run, truth = frames()
    listed = run.merge(truth, on=["request_id", "item_id"], how="left")
    unjudged = int(listed.grade.isna().sum())
    found = abeval.evaluate({"old": run, "new": run.iloc[::2]}, truth, metrics=["mrr"]).result
    assert JudgedShare("old", "", len(run), unjudged) in found.judged
    share = unjudged / len(run)
    (said,) = (note for note in found.notes if note.startswith("old"))
    assert f"old: nobody judged {share:.1%} of the {len(run)} listed items, " in said
    assert "count as not relevant" in said
    read = json.loads(found.to_json())["judged"]
    assert unjudged in [one["unjudged"] for one in read]
    condensed = abeval.evaluate(run, truth, metrics=["mrr"], unjudged="drop").result
    assert "which leave the lists" in condensed.notes[0]
    assert condensed.judged[0].unjudged == unjudged
    assert ("unjudged", "drop") in condensed.policy
    whole = abeval.evaluate(*one_list([1, 0]), metrics=["mrr"]).result
    assert whole.notes == ("model: all 2 listed items are judged",)
    # A judgement without a grade is none.
    blank = truth.assign(grade=truth.grade.where(truth.index % 2 == 0))
    own = run.merge(blank, on=["request_id", "item_id"], how="left").grade
    assert abeval.evaluate(run, blank).result.judged[0].unjudged == own.isna().sum()


def test_impressions_are_judged_by_whether_they_were_clicked() -> None:
    rows = {"unit_id": 1, "request_id": 1, "item_id": [1, 2, 3], "score": [0.3, 0.2, 0.1]}
    log = pd.DataFrame({**rows, "grade": [0, 1, 0]})
    found = abeval.evaluate_log(log, ["score"], metrics=["judged@2", "bpref"])
    assert found.values() == {"judged@2": 1.0, "bpref": 0.0}
    assert found.result.judged == ()


def test_judged_is_of_whole_lists_even_where_they_are_condensed() -> None:
    run, truth = frames()
    names = ["judged@5", "precision@5"]
    plain, condensed = (
        abeval.evaluate(run, truth, metrics=names, unjudged=choice, **POLICY).values()
        for choice in ("zero", "drop")
    )
    assert plain["judged@5"] == condensed["judged@5"]
    assert (plain["precision@5"] or 0) < (condensed["precision@5"] or 0)


def test_regression_is_that_of_scikit_learn() -> None:
    own = vectors()["regression"]
    log = pd.DataFrame({"grade": own["truth"], "score": own["scores"]})
    log["unit_id"] = log.index // 4
    log["request_id"], log["item_id"] = log.index // 2, log.index
    names = ["mse", "r2", "mape"]
    found = abeval.evaluate_log(log, ["score"], metrics=[*names, "mae", "rmse"])
    for name in names:
        row = found.result.row(name)
        assert row.value == pytest.approx(own["values"][name], abs=1e-11), name
        assert row.low < row.value < row.high
    for name in ("mae", "rmse"):
        assert found.values()[name] == pytest.approx(own["values"][name], abs=1e-9)


def test_ratings_below_zero_are_ratings_of_lists_too() -> None:
    """Errors are -.1, 1.8 and -1.3; of gains a rating below zero is none."""
    truth = pd.DataFrame({"request_id": 1, "item_id": [*"abc"], "grade": [1, -1, 2]})
    run = truth[["request_id", "item_id"]].assign(score=[0.9, 0.8, 0.7])
    names = ["mse", "mae", "rmse", "r2", "mape", "fcp", "dcg@3[lin]", "ndcg@3[lin,ties]"]
    evaluation = abeval.evaluate(run, truth, metrics=names)
    found = evaluation.values()
    assert "metrics of lists count relevance below 0 as none" in evaluation.result.notes[0]
    log = truth.merge(run).assign(unit_id=1)
    assert found == pytest.approx(abeval.evaluate_log(log, ["score"], metrics=names).values())
    squares = 0.01 + 3.24 + 1.69
    deviations = (1 + 1 + 4) - 2**2 / 3
    assert found["mse"] == pytest.approx(squares / 3)
    assert found["mae"] == pytest.approx((0.1 + 1.8 + 1.3) / 3)
    assert found["r2"] == pytest.approx(1 - squares / deviations)
    assert found["mape"] == pytest.approx((0.1 + 1.8 + 1.3 / 2) / 3)
    assert found["dcg@3[lin]"] == pytest.approx(1 + 2 / 2)
    assert found["ndcg@3[lin,ties]"] == pytest.approx((1 + 2 / 2) / (2 + 1 / np.log2(3)))


def test_the_interval_of_r2_is_that_of_resampled_units() -> None:
    rng = np.random.default_rng(4)
    units, each = 500, 4
    log = pd.DataFrame({"unit_id": np.repeat(np.arange(units), each)})
    log["request_id"], log["item_id"] = log.unit_id, np.arange(len(log))
    log["grade"] = rng.integers(1, 6, units)[log.unit_id] + rng.normal(size=len(log)) / 2
    log["score"] = log.grade * 0.8 + rng.normal(size=units)[log.unit_id]
    row = abeval.evaluate_log(log, ["score"], metrics=["r2"]).result.row("r2")
    sums = log.assign(e=(log.score - log.grade) ** 2, g=log.grade, gg=log.grade**2, n=1)
    of = sums.groupby("unit_id")[["e", "g", "gg", "n"]].sum().to_numpy()
    draws = [of[rng.integers(0, units, units)].sum(axis=0) for _ in range(2000)]
    values = [1 - e / (gg - g**2 / n) for e, g, gg, n in draws]
    assert (row.high - row.low) / 3.92 == pytest.approx(np.std(values), rel=0.06)


@pytest.mark.parametrize(
    ("grades", "metric", "reason"),
    [
        ([0, 2, 3], "mape", "zero_truth"),
        ([1e-300, 2, 3], "mape", "zero_truth"),
        ([2, 2, 2], "r2", "empty_denominator"),
        ([0, 2000, 3], "err", "gain_too_large"),
    ],
)
def test_what_cannot_be_computed_is_refused(grades: list[float], metric: str, reason: str) -> None:
    rows = {"unit_id": 1, "request_id": 1, "item_id": [1, 2, 3], "score": [0.3, 0.2, 0.1]}
    found = abeval.evaluate_log(
        pd.DataFrame({**rows, "grade": grades}), ["score"], metrics=[metric]
    )
    row = found.result.row(metric)
    assert (row.value, row.reason) == (None, reason)
