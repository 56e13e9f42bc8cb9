"""Rows of a frame, read as arrays, say what the file of the same rows says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import AbevalError

METRICS: list[Any] = ["orders", "spent", "bought", "rate = orders / views"]


def users(rows: int = 1500) -> pd.DataFrame:
    random = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "user": random.permutation(rows) * 3,
            "group": random.choice(["control", "new"], rows),
            "orders": random.poisson(1.2, rows).astype("int16"),
            "views": random.poisson(9, rows) + 1,
            "spent": random.gamma(2, 10, rows).round(2),
            "bought": random.random(rows) < 0.3,
        }
    )
    return frame.assign(before=frame.spent.round(1))


def some(column: str, value: object) -> dict[str, Any]:
    """Every ninth row with another value."""
    values = users()[column].astype(object)
    values[::9] = value
    return {column: values.infer_objects()}


CHANGES: dict[str, dict[str, Any]] = {
    "clean": {},
    "null": some("spent", np.nan),
    "infinite": some("spent", np.inf),
    "a_null_before": some("before", np.nan),
    "no_variant": some("group", None),
    "another_variant": {**some("group", "old"), "spent": 7.5},
    "empty_variant": some("group", ""),
    "numbers_as_variants": {"group": (users().group == "new").astype(int)},
    "texts_as_ids": {"user": "u" + users().user.astype(str)},
    "a_repeated_id": some("user", 3),
    "large": {"spent": users().spent * 1e13},
    "out_of_range": {"spent": users().spent * 1e280},
    "small": {"spent": users().spent.astype("float32") * 1e-3},
}


def judge(table: object, **options: Any) -> object:
    try:
        result = abeval.analyze(table, variant="group", metrics=METRICS, **options)
    except AbevalError as error:
        return str(error)
    return result.scorecard, result.trust, result.accounting, result.aa, result.questions


@pytest.mark.first_cases(4)
@pytest.mark.parametrize("unit", [None, "user"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_frame_is_the_file_of_its_rows(tmp_path: Path, change: str, unit: str | None) -> None:
    frame = users().assign(**CHANGES[change])
    # The name of the file is that of a frame's experiment, which draws sub-buckets.
    frame.to_parquet(file := tmp_path / "table.parquet", index=False)
    for missing in ("refuse", "drop"):
        options = {"unit": unit, "missing": missing, "covariates": ["before"]}
        assert judge(frame, **options) == judge(file, **options)


def test_plain_columns_need_no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of a shorter table it is first asked whether it is one of counts.
    frame = users(4000)
    expected = judge(frame)
    monkeypatch.setattr(
        "abeval.engines.duckdb_connection.connect", lambda *_: pytest.fail("was opened")
    )
    assert judge(frame) == expected
