"""`evaluate` and `evaluate_log`: frames whose ids or grades do not fit are told, with the cast."""

from __future__ import annotations

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
