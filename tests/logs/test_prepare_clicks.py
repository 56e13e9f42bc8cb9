"""Clicks of a table of their own, each with its impression; and clicks as a column, 0 or 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import LogError
from abeval.results.analysis import Result
from tests.logs.small import analyze, aside, close, small_log, values

KEY = ["request_id", "item_id", "position"]
METRICS = ["ctr", "clicks_per_user", "dwell_per_click", "dwell_per_user", "long_click_rate"]


def shown() -> pd.DataFrame:
    return small_log().drop(columns=["click", "dwell"]).assign(impression_id=lambda f: f.index)


def click(impression: int, **changes: object) -> dict[str, Any]:
    row = shown().loc[impression, [*KEY, "ts", "impression_id"]].to_dict()
    return {**row, "dwell": 10.0, **changes}


def as_frame(clicks: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(clicks).astype({"impression_id": "Int64", "dwell": float})


def test_a_table_says_what_a_column_says() -> None:
    log = small_log()
    clicks = log[log.click == 1][[*KEY, "ts", "dwell"]]
    joined = analyze(log.drop(columns=["click", "dwell"]), clicks=clicks, metrics=METRICS)
    assert close(joined, analyze(log, metrics=METRICS))
    assert aside(joined, "clicks") == {"used": len(clicks)}


@pytest.mark.parametrize("join", [None, ["impression_id"], KEY])
def test_every_fate(join: list[str] | None) -> None:
    hour = pd.Timedelta(hours=1)
    late = click(5)["ts"] + 24 * hour
    clicks = [
        click(0),
        click(1, dwell=20.0),
        click(1, dwell=45.0),
        click(2),
        click(2),
        click(3, ts=click(3)["ts"] + 24 * hour),
        click(4, dwell=None),
        click(5, ts=late + pd.Timedelta(milliseconds=1)),
        click(6, impression_id=10_000, item_id=10_000),
        click(7, impression_id=None, request_id=None),
    ]
    frame = as_frame(clicks).astype({"request_id": "Int64"})
    found = analyze(
        shown(), clicks=frame, metrics=METRICS, logs={"clicks": {"join": join} if join else {}}
    )
    expected = {"used": 6, "duplicate": 1, "late": 1, "no_impression": 1, "null_key": 1}
    assert aside(found, "clicks") == expected
    clicked = sum(v * row_units for v, row_units in _totals(found, "clicks_per_user"))
    assert clicked == pytest.approx(5)
    # 10 + (20 + 45) + 10 + 10; the click without dwell is left out.
    assert sum(v * n for v, n in _totals(found, "dwell_per_user")) == pytest.approx(95)
    untimed = [r.count for r in found.left_out if r.metric == "dwell_per_click"]
    assert sum(untimed) == 1


def _totals(found: Result, metric: str) -> list[tuple[float, int]]:
    row = found[metric]
    return [(row.control, row.units_control), (row.treatment, row.units)]


def test_a_key_that_several_impressions_bear_is_ambiguous() -> None:
    log = shown().drop(columns="impression_id")
    twice = pd.concat([log, log.head(1).assign(ts=log.ts.iloc[0] + pd.Timedelta(seconds=1))])
    found = analyze(twice, clicks=log.head(3)[[*KEY, "ts"]])
    assert aside(found, "clicks") == {"used": 2, "ambiguous_impression": 1}


def test_a_click_on_an_impression_that_is_set_aside() -> None:
    log = shown()
    log["user_id"] = log["user_id"].astype("Int64").where(log.index != 3)
    found = analyze(log, clicks=as_frame([click(3), click(4)]))
    assert aside(found, "clicks") == {"used": 1, "impression_set_aside": 1}
    assert aside(found) == {"used": 239, "null_unit": 1}


def test_the_attribution_window_is_settable() -> None:
    clicks = as_frame([click(0, ts=click(0)["ts"] + pd.Timedelta(minutes=31))])
    one_more = pd.concat([clicks, as_frame([click(1)])])
    found = analyze(shown(), clicks=one_more, logs={"clicks": {"attribution_hours": 0.5}})
    assert aside(found, "clicks") == {"used": 1, "late": 1}


def test_a_click_counts_on_the_day_of_its_impression() -> None:
    log = shown()
    log.loc[0, "ts"] = pd.Timestamp("2024-03-01 23:59:59")
    variant = log.loc[0, "variant"]
    clicks = as_frame([click(0, ts=pd.Timestamp("2024-03-02 00:30"))])
    found = analyze(
        log,
        clicks=clicks,
        metrics=["clicks_per_user"],
        period={"start": "2024-03-01", "end": "2024-03-04"},
    )
    days = {r.cell: (r.control, r.treatment)[variant == "b"] for r in found.daily}
    assert [day for day, value in days.items() if value] == ["2024-03-01"]


@pytest.mark.parametrize("name", ["copies", "Copies"])
def test_a_column_may_be_named_like_the_count_of_copies(name: str) -> None:
    clicks = as_frame([click(0), click(0), click(1)]).assign(**{name: 7})
    assert aside(analyze(shown(), clicks=clicks), "clicks") == {"used": 2, "duplicate": 1}


def test_dwell_may_stand_on_the_impression() -> None:
    log = small_log()
    clicks = log[log.click == 1][KEY]
    metrics = ["dwell_per_click", "dwell_per_user"]
    found = analyze(log.drop(columns="click"), clicks=clicks, metrics=metrics)
    assert close(found, analyze(log, metrics=metrics))


def test_a_table_of_clicks_outranks_a_column() -> None:
    found = analyze(
        small_log().assign(impression_id=lambda f: f.index), clicks=as_frame([click(0)])
    )
    row = found["clicks_per_user"]
    assert row.control * row.units_control + row.treatment * row.units == pytest.approx(1)


@pytest.mark.parametrize("value", [float("nan"), None, 0])
def test_what_is_no_click(value: float | None) -> None:
    pl = pytest.importorskip("polars")
    log = pl.from_pandas(small_log()).with_columns(pl.col("click").cast(pl.Float64))
    none = log.with_columns(pl.when(pl.col("click") == 1).then(1.0).otherwise(value).alias("click"))
    assert values(analyze(none)) == values(analyze(log))


def test_dwell_of_what_was_not_clicked_is_zero_unless_kept() -> None:
    log = small_log()
    clicked = log.assign(dwell=log.dwell * log.click)
    metrics = ["dwell_per_impression", "dwell_per_click"]
    found = analyze(log, metrics=metrics)
    zero = values(found)
    assert close(found, analyze(clicked, metrics=metrics))
    kept = values(
        analyze(log, metrics=metrics, logs={"impressions": {"dwell_without_click": "keep"}})
    )
    assert kept["dwell_per_impression"][0] == pytest.approx(
        log[log.variant == "a"].dwell.mean(), rel=1e-12
    )
    assert kept["dwell_per_click"] == zero["dwell_per_click"]


def test_clicks_that_share_no_key_with_impressions_are_refused() -> None:
    with pytest.raises(LogError, match="impression_id nor"):
        analyze(small_log(), clicks=pd.DataFrame({"user_id": [1], "ts": [pd.Timestamp(0)]}))


def test_a_frame_needs_its_log_in_the_experiment() -> None:
    experiment = abeval.define(
        name="x", unit="user_id", control="a", variants={"a": {}, "b": {}}, logs={"impressions": {}}
    )
    with pytest.raises(LogError, match=r"no \[logs\.clicks\]"):
        experiment.analyze(logs={"impressions": shown(), "clicks": as_frame([click(0)])})


COUNTED = small_log().assign(views=9).rename(columns={"click": "clicks"})
COUNTED["clicks"] = np.arange(len(COUNTED)) % 4


@pytest.mark.parametrize("kind", ["int64", "float64", "Int8", "uint16"])
def test_a_count_is_no_click(kind: str) -> None:
    log = COUNTED.astype({"clicks": kind})
    mapped = {"impressions": {"columns": {"click": "clicks"}}}
    with pytest.raises(LogError) as error:
        analyze(log, logs=mapped)
    assert "a click is 0 or 1, but 120 values of column 'clicks' are neither" in str(error.value)
    assert "remove it from `columns`" in str(error.value)
    ratio = {"name": "rate", "numerator": "clicks", "denominator": "views"}
    found = analyze(log, metrics=[ratio])
    own = log[log.variant == "a"]
    assert values(found)["rate"][0] == pytest.approx(own.clicks.sum() / own.views.sum())


@pytest.mark.parametrize("odd", [-1, 2, 0.5])
def test_a_click_of_another_value_is_refused(odd: float) -> None:
    log = small_log().astype({"click": float})
    log.loc[7, "click"] = odd
    with pytest.raises(LogError, match=r"1 values of column 'click' .*\n.*rename it"):
        analyze(log)


@pytest.mark.whole
@pytest.mark.parametrize("kind", ["bool", "boolean", "int8", "float64", "Int64"])
def test_a_click_of_any_type_is_0_or_1(kind: str) -> None:
    log = small_log()
    assert values(analyze(log.astype({"click": kind}))) == values(analyze(log))


@pytest.mark.whole
@pytest.mark.parametrize(
    "words", [("true", "false"), ("True", "False"), ("1", "0"), ("1.0", "0.0")]
)
def test_a_click_of_a_csv_is_a_word_or_a_number(words: tuple[str, str], tmp_path: Path) -> None:
    log = small_log()
    written = log.assign(click=np.where(log.click == 1, *words))
    written.to_csv(tmp_path / "log.csv", index=False)
    found = analyze(None, folder=tmp_path, logs={"impressions": {"path": "log.csv"}})
    assert values(found) == values(analyze(log))


@pytest.mark.parametrize("odd", [np.nan, np.inf, None])
def test_no_number_is_no_click(odd: float | None) -> None:
    log = small_log().astype({"click": float})
    log.loc[7, "click"] = odd
    assert values(analyze(log)) == values(
        analyze(log.assign(click=log.click.where(log.index != 7, 0)))
    )
