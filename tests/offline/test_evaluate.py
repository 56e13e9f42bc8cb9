"""`evaluate` and `evaluate_log`: frames whose ids or grades do not fit are told, with the cast."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import ExperimentError, LogError

RUN = pd.DataFrame({"request_id": [1, 1, 2], "item_id": [7, 8, 7], "score": [0.9, 0.8, 0.7]})
TRUTH = pd.DataFrame({"request_id": [1, 2], "item_id": [8, 7]})


def test_letters_for_grades_name_them_to_map() -> None:
    letters = pd.Series(["A", "B"])
    with pytest.raises(LogError, match="truth: `grade` has 'A', which is no number") as caught:
        abeval.evaluate(RUN, TRUTH.assign(grade=letters), metrics=["mrr@2"])
    assert "frame[\"grade\"].map({'A': …, 'B': …})" in str(caught.value.hint)
    mapped = TRUTH.assign(grade=letters.map({"A": 1, "B": 1}))
    assert abeval.evaluate(RUN, mapped, metrics=["mrr@2"]).values() == {"mrr@2": 0.75}


def test_text_for_scores_is_told() -> None:
    with pytest.raises(LogError, match="new: `score` has 'high', which is no number"):
        abeval.evaluate({"new": RUN.assign(score="high")}, TRUTH)
    log = RUN.assign(unit_id=1, grade="E")
    with pytest.raises(LogError, match="the log: `grade` has 'E', which is no number"):
        abeval.evaluate_log(log, ["score"])


def test_names_that_cannot_be_are_told() -> None:
    with pytest.raises(ExperimentError, match=r"path: .* has bytes that are no UTF-8: rename it"):
        abeval.evaluate_log("l\udce9.csv", ["score"])
    columns = abeval.JudgedColumns(unit=0)  # type: ignore[arg-type]
    with pytest.raises(ExperimentError, match=r"columns\.unit_id: should be"):
        abeval.evaluate_log("log.csv", ["score"], columns=columns)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"k": 5}, "k must be one or more whole numbers"),
        ({"k": ("x",)}, "k must be one or more whole numbers"),
        ({"metrics": [None]}, "no offline metric is called None"),
        ({"ties": "x"}, "ties: 'x' is none of item, text, position"),
        ({"no_relevant": 1}, "no_relevant: 1 is none of"),
        ({"bins": 0}, "bins 0: use a number from 1"),
        ({"alpha": "x"}, "alpha x: use a number"),
        ({"threshold": float("nan")}, "threshold nan: use a number"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ExperimentError, match=re.escape(says)):
        abeval.evaluate(RUN, TRUTH, **options)


@pytest.mark.parametrize("named", [{}, {"": None}, {1: None}])
def test_a_model_without_a_name_is_refused(named: dict[Any, Any]) -> None:
    with pytest.raises(ExperimentError, match="each model needs a name that is text"):
        abeval.evaluate(dict.fromkeys(named, RUN), TRUTH)


def test_a_truth_without_rows_is_refused() -> None:
    with pytest.raises(LogError, match="nothing is left to evaluate"):
        abeval.evaluate(RUN, TRUTH.iloc[:0])


@pytest.mark.parametrize("column", ["score", "grade"])
def test_times_for_numbers_are_refused(column: str) -> None:
    times = pd.to_datetime(["2024-01-01"] * 3)
    run, truth = RUN, TRUTH
    if column == "score":
        run = RUN.assign(score=times)
    else:
        truth = TRUTH.assign(grade=times[:2])
    with pytest.raises(LogError, match=f"`{column}` is TIMESTAMP.*, which is no number"):
        abeval.evaluate(run, truth, metrics=["mrr@2"])


def random_log(seed: int) -> pd.DataFrame:
    """Units with lists of unlike lengths; ties, missing scores, graded relevance."""
    rng = np.random.default_rng(seed)
    lists = []
    for request in range(24):
        n = int(rng.integers(1, 9)) if request % 9 else 40
        scores = rng.integers(0, 6, (2, n)) / 6
        scores[:, rng.random(n) < 0.1] = np.nan
        if request % 7 == 5:
            scores[request % 2] = np.nan
        columns = {
            "unit_id": request % 7,
            "request_id": request,
            "item_id": rng.permutation(99)[:n],
        }
        columns |= {
            "grade": rng.choice([0, 0, 0, 1, 2, 4.5], n),
            "m_0": scores[0],
            "m_1": scores[1],
        }
        lists.append(pd.DataFrame(columns))
    return pd.concat(lists, ignore_index=True)


NAMES = ["ndcg@3[lin]", "map@5[min]", "mrr", "gauc[units]", "fcp", "auc", "ece[mass]", "coverage@3"]


def test_one_table_of_judged_rows_gives_what_lists_and_a_truth_give(tmp_path: Path) -> None:
    log = random_log(9)
    log.rename(columns={"unit_id": "user", "grade": "click"}).to_parquet(tmp_path / "log.parquet")
    columns = abeval.JudgedColumns(unit="user", relevance="click")
    models = {"old": "m_0", "new": "m_1"}
    found = abeval.evaluate_log(tmp_path / "log.parquet", models, columns=columns, metrics=NAMES)
    runs = {name: log.rename(columns={score: "score"}) for name, score in models.items()}
    frames = abeval.evaluate(runs, log, metrics=NAMES)
    for model in models:
        assert found.values(model) == pytest.approx(frames.values(model), abs=1e-12)
    assert found.result.pair("auc") == frames.result.pair("auc")


@pytest.mark.parametrize("ties", ["item", "text", "position"])
def test_ids_that_are_text_are_ranked_as_numbers_are(ties: Literal["item", "text"]) -> None:
    log = random_log(3)
    text = log.assign(
        unit_id="u" + log["unit_id"].astype(str),
        request_id="r" + log["request_id"].astype(str),
        # As long as each other, so that texts are in the order of the numbers.
        item_id="i" + (100 + log["item_id"]).astype(str),
    )
    numbers = log.assign(item_id=100 + log["item_id"])
    one, other = (
        abeval.evaluate_log(rows, ["m_0", "m_1"], metrics=NAMES, ties=ties)
        for rows in (numbers, text)
    )
    # The order of requests, which only decides between equal scores of a bin, differs.
    rows = [{k: v for k, v in e.values().items() if k != "ece[mass]"} for e in (one, other)]
    assert rows[0] == pytest.approx(rows[1], abs=1e-12)
    assert one.result.accounting == other.result.accounting


def test_an_item_that_a_request_repeats_counts_once() -> None:
    log = random_log(9)
    metrics = ["ndcg@3[lin]", "gini@3[catalogue]"]
    once, twice = (
        abeval.evaluate_log(rows, ["m_0"], metrics=metrics) for rows in (log, pd.concat([log, log]))
    )
    assert once.values() == twice.values()
    assert dict(twice.result.accounting)["items_repeated_in_a_request"] == len(log)


@pytest.mark.parametrize("missing", [None, float("nan"), float("inf")])
def test_rows_without_a_unit_or_a_relevance_are_counted(missing: float | None) -> None:
    log = random_log(9)
    log.loc[0, "grade"] = missing
    log["unit_id"] = log["unit_id"].astype("Int64")
    whole = abeval.evaluate_log(log, ["m_0"], metrics=["mrr"])
    stray = log.iloc[[1]].assign(unit_id=pd.array([None], dtype="Int64"))
    found = abeval.evaluate_log(pd.concat([log, stray]), ["m_0"], metrics=["mrr"])
    assert dict(whole.result.accounting)["rows_without_unit"] == 0
    assert dict(found.result.accounting)["rows_without_unit"] == 1
    assert dict(found.result.accounting)["rows_without_relevance"] == 1
    assert found.values() == whole.values()


def test_a_judgement_without_a_unit_is_left_out() -> None:
    truth = TRUTH.assign(unit_id=pd.array([None, 4], dtype="Int64"))
    found = abeval.evaluate(RUN, truth, metrics=["mrr@2"])
    assert found.values() == {"mrr@2": 1.0}
    assert found.per_unit["model"]["mrr@2"].to_dict() == {4: 1.0}


def test_fcp_counts_pairs_of_every_two_levels_of_relevance() -> None:
    rows = {"unit_id": 1, "request_id": 1, "item_id": [1, 2, 3], "score": [0.3, 0.2, 0.1]}
    for grades, value in (([2, 1, 0], 1.0), ([1, 2, 2], 0.0), ([0, 1, 0], 0.5), ([0, -1, -1], 1.0)):
        log = pd.DataFrame({**rows, "grade": grades})
        assert abeval.evaluate_log(log, ["score"], metrics=["fcp"]).values() == {"fcp": value}


def test_judgements_without_an_id_are_counted_beside_those_that_repeat() -> None:
    rows = [("a", "x", 1, 1), ("a", "x", 1, 2), ("a", None, 1, 1), (None, "x", 1, 1)]
    rows.append(("b", "x", None, 1))
    truth = pd.DataFrame(rows, columns=["request_id", "item_id", "unit_id", "grade"])
    truth["unit_id"] = truth["unit_id"].astype("Int64")
    run = pd.DataFrame({"request_id": ["a"], "item_id": ["x"], "score": [0.5]})
    counts = dict(abeval.evaluate(run, truth, metrics=["mrr@2"]).result.accounting)
    assert counts["truth_duplicates"] == 1
    assert counts["rows_without_request_or_item"] == 2
    assert counts["rows_without_unit"] == 1


@pytest.mark.parametrize(("no_relevant", "hit"), [("zero", 1 / 3), ("one", 1 / 3), ("drop", 1.0)])
def test_a_request_whose_judgements_name_no_item_has_nothing_relevant(
    no_relevant: Literal["zero", "one", "drop"], hit: float
) -> None:
    rows = [(1, "a", 1), (2, None, 0), (3, None, 0)]
    truth = pd.DataFrame(rows, columns=["request_id", "item_id", "grade"])
    run = pd.DataFrame([(r, i) for r in (1, 2, 3) for i in "ab"], columns=["request_id", "item_id"])
    run["score"] = [2.0, 1.0] * 3
    found = abeval.evaluate(run, truth, metrics=["hit@2"], no_relevant=no_relevant)
    assert found.values() == {"hit@2": pytest.approx(hit)}
    assert found.result.rows[0].units == 3
    assert dict(found.result.accounting)["rows_without_request_or_item"] == 2


def test_a_request_that_units_share_belongs_to_the_first_of_them() -> None:
    columns = ["request_id", "item_id", "unit_id"]
    truth = pd.DataFrame([(1, "x", 8), (1, "y", 7), (2, "x", 7)], columns=columns)
    run = pd.DataFrame({"request_id": [1, 2], "item_id": ["y", "x"], "score": [0.5, 0.5]})
    found = abeval.evaluate(run, truth, metrics=["recall@2"])
    assert found.values() == {"recall@2": 0.75}
    assert found.per_unit["model"]["recall@2"].to_dict() == {7: 0.75}
