"""Frames whose names, types or libraries fail: told as errors of abeval."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import polars as pl
import pytest

import abeval
from abeval.errors import LogError

FRAME = pd.DataFrame(
    {"user_id": range(400), "variant": ["a", "b"] * 200, "x": [1.0, 2.0, 3.0, 5.0] * 100}
)
NAMED: dict[str, Any] = {"unit": "user_id", "variant": "variant"}
NUMBERED = FRAME.set_axis([2, 1, 0], axis=1)
GROUPED = FRAME.groupby(["user_id", "variant"]).agg({"x": ["sum"]}).reset_index()


@pytest.mark.parametrize(
    ("frame", "options", "what"),
    [
        (NUMBERED, {"unit": 2, "variant": 1, "metrics": [0]}, "variant: 1 is no text"),
        (NUMBERED, {"unit": 2, "variant": "1", "metrics": ["0"]}, "unit: 2 is no text"),
        (GROUPED, NAMED, "the name of a column is \\('user_id', ''\\), and no text"),
        (GROUPED, {**NAMED, "metrics": [("x", "sum")]}, "metrics: \\('x', 'sum'\\) is no text"),
    ],
)
def test_names_that_are_no_text_say_how_to_rename(
    frame: pd.DataFrame, options: dict[str, Any], what: str
) -> None:
    with pytest.raises(LogError, match=what) as caught:
        abeval.analyze(frame, **options)
    frame = frame.copy()
    exec(str(caught.value.hint).partition("in pandas: ")[2])  # noqa: S102
    names = ["user_id", "variant", "x_sum"] if frame.shape == GROUPED.shape else []
    assert [*frame.columns] in (names, ["2", "1", "0"])


@pytest.mark.parametrize("key", ["variant", "unit"])
@pytest.mark.parametrize("given", [["variant"], ("variant",), {"variant": "x"}, b"variant"])
def test_a_list_is_not_the_name_of_one_column(key: str, given: Any) -> None:
    with pytest.raises(LogError, match=re.escape(f"{key}: {given!r} is no text")):
        abeval.analyze(FRAME, **{**NAMED, key: given})


@pytest.mark.parametrize("key", ["metrics", "covariates", "segments"])
def test_none_among_names_is_told(key: str) -> None:
    with pytest.raises(LogError, match=f"{key}: None is no text"):
        abeval.analyze(FRAME, **{**NAMED, key: [None]})


@pytest.mark.parametrize("is_lazy", [False, True])
def test_a_column_of_nulls_that_nobody_asked_for_is_left_out(is_lazy: bool) -> None:
    frame = pl.from_pandas(FRAME).with_columns(pl.lit(None).alias("nothing"))
    result = abeval.analyze(frame.lazy() if is_lazy else frame, **NAMED)
    assert [*result.to_frame().metric] == ["x"]
    with pytest.raises(LogError, match="'nothing' has no value in any row"):
        abeval.analyze(frame, **NAMED, metrics=["nothing"])


@pytest.mark.parametrize(
    "failing", [pl.col("nope"), pl.col("variant").cast(pl.Int64)], ids=["column", "cast"]
)
def test_a_lazy_frame_that_fails_is_told(failing: pl.Expr) -> None:
    frame = pl.from_pandas(FRAME).lazy().with_columns(failing.alias("x"))
    with pytest.raises(LogError, match="table: the frame cannot be read") as caught:
        abeval.analyze(frame, **NAMED, metrics=["x"])
    assert "compute it first" in str(caught.value.hint)


def test_numbers_as_text_in_a_frame_name_the_cast() -> None:
    frame = FRAME.assign(x=FRAME.x.astype(str))
    with pytest.raises(LogError, match="numbers are written as text") as caught:
        abeval.analyze(frame, **NAMED, metrics=["x"])
    metric = str(caught.value.hint).split('"')[1]
    assert abeval.analyze(frame, **NAMED, metrics=[metric])["x"].control == 2
