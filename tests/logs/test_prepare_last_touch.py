"""Clicks without an id of their impression: the unit's last impression of the item before them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import AbevalError
from tests.logs.small import aside, close

PERIOD = {"start": "2024-03-01", "end": "2024-03-04"}
METRICS = [{"name": n} for n in ("ctr", "clicks_per_user", "dwell_per_click")]


def shown(seed: int = 0, rows: int = 3_000) -> pd.DataFrame:
    """Impressions of few items, so that units see the same one again; no two at one time."""
    random = np.random.default_rng(seed)
    unit = random.integers(0, 60, rows)
    seconds = np.sort(random.choice(3 * 86_400, rows, replace=False))
    return pd.DataFrame(
        {
            "user_id": unit,
            "variant": np.where(unit % 2 == 0, "a", "b"),
            "item_id": random.integers(0, 8, rows),
            "ts": (pd.Timestamp("2024-03-01") + pd.to_timedelta(seconds, unit="s")).as_unit("ms"),
        }
    )


def clicked(log: pd.DataFrame, seed: int = 1) -> pd.DataFrame:
    """Clicks minutes to a day after an impression; some on what the unit was never shown."""
    random = np.random.default_rng(seed)
    some = log.sample(500, random_state=3)
    delay = np.round(random.exponential(3 * 3_600, len(some)))
    times = some["ts"] + pd.to_timedelta(delay, unit="s")
    clicks = some[["user_id", "item_id"]].assign(ts=times, dwell=random.integers(1, 90, len(some)))
    never = clicks.head(20).assign(item_id=99)
    early = clicks.head(5).assign(ts=pd.Timestamp("2024-02-28"))
    every = pd.concat([clicks, never, early]).reset_index(drop=True)
    return every.assign(ts=every["ts"].dt.as_unit("ms"))


def by_hand(log: pd.DataFrame, clicks: pd.DataFrame, hours: float) -> pd.DataFrame:
    """The same log with a click of its own on every impression, by pandas' merge_asof."""
    keys = ["user_id", "item_id"]
    touched = pd.merge_asof(
        clicks.sort_values("ts"),
        log.assign(place=log.index, seen=log["ts"])[[*keys, "ts", "place", "seen"]],
        on="ts",
        by=keys,
    )
    in_time = touched["ts"] - touched["seen"] <= pd.Timedelta(hours=hours)
    per_place = touched[in_time].groupby("place")["dwell"].sum()
    return log.assign(
        click=log.index.isin(per_place.index).astype(int),
        dwell=per_place.reindex(log.index, fill_value=0),
    )


def analyze(
    log: pd.DataFrame, clicks: pd.DataFrame | None = None, **source: object
) -> abeval.Result:
    logs: dict[str, Any] = {"impressions": log}
    entries: dict[str, Any] = {"impressions": {}}
    if clicks is not None:
        logs["clicks"], entries["clicks"] = clicks, source
    experiment = abeval.define(
        name="t",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        period=PERIOD,
        logs=entries,
        metrics=METRICS,
        cleaning={"duplicates": "unchecked"},
        engine={"threads": 1},
    )
    return experiment.analyze(logs=logs)


@pytest.mark.parametrize("hours", [24.0, 0.5])
def test_a_click_belongs_to_the_last_impression_before_it(hours: float) -> None:
    log = shown()
    clicks = clicked(log)
    found = analyze(log, clicks, attribution_hours=hours)
    assert close(found, analyze(by_hand(log, clicks, hours)))
    fates = aside(found, "clicks")
    assert fates["no_impression"] == 25
    assert fates["late"] == (1 if hours == 24 else 397)
    assert f"last impression with the same item_id before it, at most {hours:g} hours" in " ".join(
        found.notes
    )


def test_by_the_unit_alone_and_by_another_name_of_it() -> None:
    """The last impression of the unit, whatever was on it."""
    log = shown()
    clicks = clicked(log)
    of_unit = clicks.assign(item_id=0)
    found = analyze(log, clicks.rename(columns={"user_id": "who"}), **BY_UNIT)
    assert close(found, analyze(by_hand(log.assign(item_id=0), of_unit, 24.0)))


BY_UNIT: dict[str, Any] = {"join": ["unit_id"], "columns": {"unit_id": "who"}}


def test_two_impressions_at_the_moment_of_the_touch_are_ambiguous() -> None:
    log = shown(rows=50)
    twice = pd.concat([log, log.head(1)])
    clicks = log.head(2)[["user_id", "item_id", "ts"]].assign(dwell=1)
    found = analyze(twice, clicks)
    assert aside(found, "clicks") == {"used": 1, "ambiguous_impression": 1}


def test_a_click_on_an_impression_outside_the_period_does_not_count() -> None:
    log = shown(rows=50)
    before = log.head(1).assign(ts=pd.Timestamp("2024-02-29 23:00"), item_id=77)
    clicks = before[["user_id", "item_id", "ts"]].assign(ts=pd.Timestamp("2024-03-01 01:00"))
    found = analyze(pd.concat([before, log]), clicks.assign(dwell=1))
    assert aside(found, "clicks") == {"used": 0, "impression_set_aside": 1}


def test_a_click_without_a_time_has_no_impression() -> None:
    log = shown(rows=50)
    clicks = log.head(2)[["user_id", "item_id", "ts"]].assign(dwell=1)
    clicks.loc[0, "ts"] = pd.NaT
    assert aside(analyze(log, clicks), "clicks") == {"used": 1, "null_key": 1}


@pytest.mark.parametrize(
    ("clicks", "source", "says"),
    [
        (["user_id", "item_id"], {}, "and by time, but logs.clicks has no ts"),
        (["item_id", "ts"], {}, "share neither impression_id nor"),
        (["user_id", "item_id", "ts"], {"join": ["unit_id", "position"]}, "names 'position'"),
        (
            ["user_id", "item_id", "ts"],
            {"join": ["unit_id", "item_id", "position"]},
            "with unit_id, at most 2 columns",
        ),
    ],
)
def test_what_cannot_be_tied_is_refused(
    clicks: list[str], source: dict[str, Any], says: str
) -> None:
    log = shown(rows=50)
    with pytest.raises(AbevalError, match=says):
        analyze(log, log[clicks], **source)


def test_one_table_of_events_with_a_type(tmp_path: Path) -> None:
    """One file is both logs, by `where`; the answer is that of two tables."""
    log = shown()
    clicks = clicked(log)
    events = pd.concat([log.assign(kind="view"), clicks.assign(kind="click", variant=None)])
    other = log.head(40).assign(kind="scroll")
    pd.concat([events, other]).sample(frac=1, random_state=0).to_csv(
        tmp_path / "e.csv", index=False
    )
    (tmp_path / "t.toml").write_text(
        'name = "t"\nunit = "user_id"\ncontrol = "a"\nvariants = {a = {}, b = {}}\n'
        f"period = {{start = {PERIOD['start']}, end = {PERIOD['end']}}}\n"
        '[logs.impressions]\npath = "e.csv"\nwhere = "kind = \'view\'"\n'
        '[logs.clicks]\npath = "e.csv"\nwhere = "kind = \'click\'"\n'
        '[cleaning]\nduplicates = "unchecked"\n'
        + "".join(f'[[metrics]]\nname = "{one["name"]}"\n' for one in METRICS)
    )
    found = abeval.load(tmp_path / "t.toml").analyze()
    assert close(found, analyze(log, clicks))
    assert aside(found, "clicks") == aside(analyze(log, clicks), "clicks")
