"""Who has a value at all, compared between variants where those without do not count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import abeval
from abeval.errors import AbevalError, LogError
from abeval.results.analysis import Result
from abeval.results.trust import Check

CHECK = "missing_values:spent:b"


def table(rng: np.random.Generator, control: float, treatment: float, units: int) -> pd.DataFrame:
    """Units of which a share of each variant has no value."""
    group = np.repeat(["a", "b"], units)
    spent = rng.gamma(2.0, 5.0, 2 * units).round(2)
    lacks = rng.random(2 * units) < np.where(group == "a", control, treatment)
    visits = rng.poisson(3.0, 2 * units)
    return pd.DataFrame({"grp": group, "spent": np.where(lacks, np.nan, spent), "visits": visits})


def analyzed(rows: pd.DataFrame, metrics: Sequence[str] = ("spent",)) -> Result:
    asked = {"variant": "grp", "metrics": [*metrics], "trust": {"aa_runs": 0}}
    return abeval.analyze(rows, missing="drop", **asked)


def check_of(result: Result) -> Check:
    return next(check for check in result.trust if check.name == CHECK)


def test_a_selection_makes_its_metric_untrusted_and_no_other() -> None:
    rows = table(np.random.default_rng(1), 0.02, 0.045, 5000)
    result = analyzed(rows, ["spent", "visits"])
    check = check_of(result)
    shares = rows.spent.notna().groupby(rows.grp).mean()
    assert (check.status, check.metrics) == ("fail", ("spent",))
    assert f"a {shares.a:.2%}, b {shares.b:.2%}" in check.message
    assert (result["spent"].status, result["visits"].status) == ("untrusted", "unclear")
    assert result.verdicts[0].decision == "do_not_trust"


def test_equal_shares_pass_and_none_missing_are_no_selection() -> None:
    rows = table(np.random.default_rng(2), 0.1, 0.1, 5000)
    assert check_of(analyzed(rows)).status == "pass"
    whole = rows.assign(spent=rows.spent.fillna(0))
    assert check_of(analyzed(whole)).value == 1
    zero = abeval.analyze(rows, variant="grp", metrics=["spent"], missing="zero")
    assert not [check for check in zero.trust if check.name == CHECK]


def test_few_values_that_are_missing_are_judged_by_the_exact_test() -> None:
    rng = np.random.default_rng(3)
    p_values = np.array(
        [check_of(analyzed(table(rng, 0.002, 0.002, 400))).value for _ in range(10)], dtype=float
    )
    assert p_values.min() > 0.003


def statuses(seed: int, control: float, treatment: float, runs: int) -> Counter[str]:
    rng = np.random.default_rng(seed)
    tables = (table(rng, control, treatment, 5000) for _ in range(runs))
    return Counter(check_of(analyzed(rows)).status for rows in tables)


@pytest.mark.slow
def test_it_keeps_its_level() -> None:
    alike = statuses(4, 0.1, 0.1, 300)
    # The only family beside the split: warns at .03, fails at .003.
    assert alike["warn"] + alike["fail"] <= 19
    assert alike["fail"] <= 4


@pytest.mark.slow
def test_it_finds_two_points_of_difference() -> None:
    assert statuses(5, 0.02, 0.04, 20)["fail"] >= 19
    moved = statuses(6, 0.05, 0.07, 20)
    assert moved["fail"] + moved["warn"] >= 18


@pytest.mark.parametrize("column", ["spent", "deep.spent"])
def test_nan_of_a_parquet_file_is_no_value(column: str, tmp_path: Path) -> None:
    """Arrow's footers hold the least and the largest value, between which NaN is not."""
    spent = [float("nan") if i % 10 == 0 else i * 1.5 for i in range(200)]
    rows = {"grp": ["a", "b"] * 100, "spent": spent, "deep": [{"spent": value} for value in spent]}
    pq.write_table(pa.table(rows), tmp_path / "t.parquet")
    named = {"variant": "grp", "metrics": [f'm = "{column}"']}
    with pytest.raises(AbevalError, match="null, NaN or infinite, 20 in a, 0 in b"):
        abeval.analyze(tmp_path / "t.parquet", **named)
    result = abeval.analyze(tmp_path / "t.parquet", **named, missing="zero")
    kept = [value for value in spent[::2] if value == value]
    assert result["m"].control == pytest.approx(sum(kept) / 100)


def test_nan_is_no_id_of_a_parquet_file(tmp_path: Path) -> None:
    ids = [float("nan"), *map(float, range(99))]
    rows = {"user_id": ids, "grp": ["a", "b"] * 50, "spent": [*range(100)]}
    pq.write_table(pa.table(rows), tmp_path / "t.parquet")
    with pytest.raises(LogError, match="1 values that are no ids, such as nan"):
        abeval.analyze(tmp_path / "t.parquet", variant="grp", unit="user_id", metrics=["spent"])
