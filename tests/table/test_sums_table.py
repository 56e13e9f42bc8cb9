"""A table of sums: what it must have, and what an experiment may ask of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import abeval
from abeval.errors import ExperimentError, LogError
from abeval.experiment.metrics import find_metrics_by_name
from abeval.experiment.model import Experiment
from abeval.table.sums import aggregate_sums, name_source, read_sums

SUMS = {"metric": "ctr", "n": 300, "sum_y": 60.0, "sum_yy": 90.0}
PER = {"sum_x": 600.0, "sum_xx": 2000.0, "sum_xy": 150.0}
BEFORE = {"sum_c": 50.0, "sum_cc": 80.0, "sum_cy": 70.0}


def plan(**entries: Any) -> Experiment:
    """An experiment whose logs nobody opens; metrics may be names."""
    names = entries.pop("metrics", ["ctr", "clicks_per_user", "impressions_per_user"])
    base: dict[str, Any] = {
        "name": "daily",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "period": {"start": "2024-03-02", "end": "2024-03-20"},
        "pre_period": {"start": "2024-03-01", "end": "2024-03-02"},
        "logs": {"impressions": {"path": "log/*.parquet"}},
        "segments": {"device": "device"},
        "metrics": [{"name": m} if isinstance(m, str) else m for m in names],
    }
    return abeval.define(Path(), **{**base, **entries}).experiment


def table(*variants: str, **changes: Any) -> pd.DataFrame:
    """A row of sums of each variant."""
    return pd.DataFrame([{**SUMS, "variant": name, **changes} for name in variants or "ab"])


def test_a_file_and_a_frame_have_the_same_sums(tmp_path: Path) -> None:
    frame = pd.concat([table("01", "2", day="2026-09-14"), table("01", "2", day=None)])
    frame.to_csv(tmp_path / "weekly.csv", index=False)
    rows = read_sums(frame).rows
    assert read_sums(tmp_path / "weekly.csv").rows == rows
    assert read_sums(str(tmp_path / "weekly.csv")).rows == rows
    # Names of variants are text, though they look like numbers.
    assert [(row.variant, row.day) for row in rows] == [
        ("01", "2026-09-14"),
        ("2", "2026-09-14"),
        ("01", None),
        ("2", None),
    ]
    assert {row.units for row in rows} == {300}
    assert {(row.sums["sum_y"], row.sums["sum_yy"]) for row in rows} == {(60, 90)}


def test_columns_are_known_in_any_case_and_order() -> None:
    frame = table().rename(columns={"n": "N", "sum_y": "Sum_Y"})
    assert read_sums(frame[sorted(frame.columns)]) == read_sums(table())


def test_a_table_is_named_by_its_file() -> None:
    assert name_source("folder/weekly.csv") == name_source(Path("weekly.csv")) == "weekly.csv"
    assert name_source(table()) == "the frame"


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (table().iloc[:0], "the frame has no rows"),
        (table().drop(columns="n"), "the frame has no column 'n'"),
        (table().drop(columns=["n", "sum_yy"]), "the frame has no column 'n'"),
        (table().rename(columns={"sum_yy": "sum_yyy"}), "no column 'sum_yy'.*`sum_yyy`"),
        (table(sum_xw=1.0), r"a column 'sum_xw' that sums do not have"),
        (table(p95=1.0, p99=1.0), "a column 'p95' that sums do not have"),
        (table(sum_x=1.0), "the frame has no column 'sum_xx'"),
        (table(sum_cc=1.0), "the frame has no column 'sum_c'"),
        (table(**BEFORE).drop(columns="sum_cy"), "the frame has no column 'sum_cy'"),
    ],
)
def test_a_table_without_its_columns_is_refused(frame: pd.DataFrame, said: str) -> None:
    with pytest.raises(LogError, match=said):
        read_sums(frame)


def judged(frame: pd.DataFrame, **entries: Any) -> tuple[str, ...]:
    """The notes of an experiment over a table of sums."""
    own = plan(**{"metrics": ["ctr"], "segments": {}, **entries})
    table = replace(read_sums(frame), name="weekly.csv")
    _, _, aggregates = aggregate_sums(own, find_metrics_by_name(own), table)
    return aggregates.notes


def test_segments_of_the_experiment_are_said_not_to_be_shown() -> None:
    notes = judged(table(**PER))
    assert not [note for note in notes if "segments" in note]
    with_segments = judged(table(**PER), segments={"device": "device", "land": "country"})
    assert with_segments[:-1] == notes
    assert with_segments[-1] == "Sums have no segments, so these are not shown: device, land."


def test_what_sums_do_not_say_is_in_the_notes() -> None:
    both = pd.concat([table(**PER), table(metric="clicks_per_user", n=200)])
    notes = judged(both, metrics=["ctr", "clicks_per_user"])
    assert "Metrics over a part of the units, as their n says: clicks_per_user." in notes
    logs = {"impressions": {"path": "x.parquet"}, "exposures": {"path": "e.parquet"}}
    assert judged(both, logs=logs)[-1].startswith("Sums do not show whether the split changed")


def test_sums_of_another_kind_are_no_sums_of_a_metric() -> None:
    own = plan(metrics=["ctr", "clicks_per_user"], segments={})
    both = pd.concat([table(), table(metric="clicks_per_user")])
    _, _, aggregates = aggregate_sums(own, find_metrics_by_name(own), read_sums(both))
    assert aggregates.refused == {
        "ctr": ("sums of ctr as it is defined: they have no denominator",)
    }


@pytest.mark.parametrize("adjust", ["cuped", "regression"])
def test_an_adjustment_needs_sums_before_of_some_row(adjust: str) -> None:
    inference = {"inference": {"adjust": adjust}}
    with pytest.raises(ExperimentError, match=f"adjust = '{adjust}' without sum_c, sum_cc, sum_cy"):
        judged(table(**PER), **inference)
    some = pd.concat([table(**PER, **BEFORE), table(**PER, metric="shown")])
    assert judged(some, **inference)
    assert judged(table(**PER), inference={"adjust": "none"})


@pytest.mark.parametrize(
    ("entries", "refused"),
    [
        ({"inference": {"resample": "bootstrap"}}, "inference.resample"),
        (
            {"inference": {"looks": "group_sequential", "planned_looks": [0.5]}},
            "inference.looks = 'group_sequential'",
        ),
        ({"metrics": [{"name": "ctr", "cap": 0.9}]}, "cap of ctr"),
        (
            {
                "inference": {"looks": "group_sequential", "planned_looks": [0.5]},
                "metrics": [{"name": "ctr"}, {"name": "clicks_per_user", "cap": 0.9}],
            },
            "inference.looks = 'group_sequential', cap of clicks_per_user",
        ),
    ],
)
def test_what_needs_values_of_units_is_refused_by_name(
    entries: dict[str, Any], refused: str
) -> None:
    with pytest.raises(ExperimentError, match=f"sums cannot give: {refused}\n"):
        judged(table(**PER), **entries)


def test_variants_are_those_of_the_experiment() -> None:
    with pytest.raises(LogError, match=r"weekly\.csv has no sums of variant 'b'"):
        judged(table("a", "B", **PER))
    with pytest.raises(LogError, match=r"weekly\.csv has sums of 'c', which the experiment"):
        judged(table("a", "d", "b", "c", **PER))
