"""`evaluate` and `evaluate_log`: frames whose ids or grades do not fit are told, with the cast."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pytest

import abeval
from abeval.errors import ExperimentError, LogError

RUN = pd.DataFrame({"request_id": [1, 1, 2], "item_id": [7, 8, 7], "score": [0.9, 0.8, 0.7]})
TRUTH = pd.DataFrame({"request_id": [1, 2], "item_id": [8, 7]})


@pytest.mark.parametrize("column", ["request_id", "item_id"])
@pytest.mark.parametrize("is_run", [True, False])
def test_ids_of_two_types_name_column_frame_and_cast(column: str, is_run: bool) -> None:
    run, truth = RUN, TRUTH
    if is_run:
        run = run.astype({column: "str"})
    else:
        truth = truth.astype({column: "str"})
    with pytest.raises(LogError) as caught:
        abeval.evaluate({"new": run}, truth, metrics=["mrr@2"])
    assert f"new: `{column}` is " in caught.value.what
    hint = str(caught.value.hint)
    assert ("give truth" if is_run else "give new") in hint
    assert f'frame.astype({{"{column}": "str"}})' in hint
    both = (frame.astype({column: "str"}) for frame in (RUN, TRUTH))
    assert abeval.evaluate(*both, metrics=["mrr@2"]).values() == {"mrr@2": 0.75}


def test_letters_for_grades_name_them_to_map() -> None:
    letters = pd.Series(["E", "S"])
    with pytest.raises(LogError, match="truth: `grade` has 'E', which is no number") as caught:
        abeval.evaluate(RUN, TRUTH.assign(grade=letters), metrics=["mrr@2"])
    assert "frame[\"grade\"].map({'E': …, 'S': …})" in str(caught.value.hint)
    mapped = TRUTH.assign(grade=letters.map({"E": 1, "S": 1}))
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
