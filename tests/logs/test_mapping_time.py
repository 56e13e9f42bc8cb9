"""Days of a time zone, and every way a log may write a time."""

from __future__ import annotations

import datetime as dt
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import AbevalError
from tests.logs.small import PERIOD, START, analyze, aside, small_log, values

METRICS = ["active_days_per_user", "sessions_per_user", "session_length", "ctr"]


def milliseconds(log: pd.DataFrame) -> pd.Series:
    return log["ts"].astype("datetime64[ms]").astype("int64")


def timed(log: pd.DataFrame, ts: pd.Series, unit: str | None = None) -> Any:
    logs = {"impressions": {"time_unit": unit}} if unit else {}
    found = analyze(log.assign(ts=ts), metrics=METRICS, period=PERIOD, logs=logs)
    return values(found), [(r.metric, r.cell, r.control, r.treatment) for r in found.daily]


@pytest.mark.whole
def test_every_way_to_write_a_time_is_the_same_time() -> None:
    log = small_log()
    ms = milliseconds(log)
    expected = timed(log, log["ts"])
    assert timed(log, ms, "ms") == expected
    assert timed(log, ms // 1000, "s") == expected
    assert timed(log, (ms // 1000).astype("int32"), "s") == expected
    assert timed(log, ms * 1000 + 999, "us") == expected
    assert timed(log, ms * 1_000_000 + 999_999, "ns") == expected
    assert timed(log, log["ts"].astype("datetime64[s]")) == expected
    assert timed(log, log["ts"].astype("datetime64[ns]")) == expected
    assert timed(log, log["ts"].dt.tz_localize("UTC")) == expected
    assert timed(log, log["ts"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")) == expected


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_dates_are_days_of_the_experiment_wherever_it_is(zone: str) -> None:
    log = small_log()
    found = analyze(
        log.assign(ts=log.ts.dt.date), metrics=METRICS[:1], period=PERIOD, timezone=zone
    )
    assert not any(r.partial for r in found.daily)
    assert {r.cell for r in found.daily} == {"2024-03-01", "2024-03-02", "2024-03-03"}
    days = log.assign(day=log.ts.dt.date).groupby(["variant", "user_id"]).day.nunique()
    assert found["active_days_per_user"].control == pytest.approx(days["a"].mean(), rel=1e-12)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kathmandu"])
def test_days_are_local_over_a_change_of_clocks(zone: str) -> None:
    """Europe goes to summer time on 31 March 2024, America on 10 March."""
    day = {"America/New_York": 10}.get(zone, 31)
    start = dt.datetime(2024, 3, day, tzinfo=ZoneInfo(zone)) - dt.timedelta(hours=30)
    moments = [start.astimezone(dt.UTC) + dt.timedelta(minutes=7 * n) for n in range(600)]
    local = [m.astimezone(ZoneInfo(zone)).replace(tzinfo=None) for m in moments]
    log = pd.DataFrame(
        {
            "user_id": [n % 10 for n in range(600)],
            "variant": ["a", "b"] * 300,
            "ts": pd.Series([m.replace(tzinfo=None) for m in moments]).astype("datetime64[ms]"),
            "click": [int(n % 3 == 0) for n in range(600)],
        }
    )
    first, last = dt.datetime(2024, 3, day), dt.datetime(2024, 3, day) + dt.timedelta(days=1)
    found = analyze(log, timezone=zone, period={"start": first, "end": last})
    inside = [first <= moment < last for moment in local]
    # A day of 23 hours has fewer impressions than one of 24.
    hours = 24 if zone == "Asia/Kathmandu" else 23
    assert sum(inside) == pytest.approx(hours * 60 / 7, abs=1)
    assert aside(found) == {"used": sum(inside), "outside_period": 600 - sum(inside)}
    whole = analyze(
        log,
        timezone=zone,
        period={"start": first - dt.timedelta(days=2), "end": last + dt.timedelta(days=3)},
    )
    per_day = {r.cell: r for r in whole.daily if r.metric == "impressions_per_user"}
    for cell, row in per_day.items():
        own = [n for n, moment in enumerate(local) if moment.date().isoformat() == cell]
        assert row.control * row.units_control == pytest.approx(sum(n % 2 == 0 for n in own))
        assert row.treatment * row.units == pytest.approx(sum(n % 2 for n in own))
    assert set(per_day) == {moment.date().isoformat() for moment in local}


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_the_last_microsecond_of_a_day_is_of_that_day(zone: str) -> None:
    midnight = pd.Timestamp("2024-03-02", tz=zone).tz_convert("UTC").tz_localize(None)
    log = small_log().assign(ts=midnight - pd.Timedelta(microseconds=1))
    found = analyze(log, timezone=zone, period={"start": "2024-03-01", "end": "2024-03-04"})
    assert {row.cell for row in found.daily} == {"2024-03-01"}


def test_the_start_is_in_and_the_end_is_not() -> None:
    log = small_log()
    bounds = {"start": "2024-03-01T06:00:00", "end": "2024-03-02T18:30:00"}
    edges = [
        "2024-03-01 05:59:59.999",
        "2024-03-01 06:00",
        "2024-03-02 18:29:59.999",
        "2024-03-02 18:30",
    ]
    moments = log["ts"].astype("datetime64[ms]")
    moments[:4] = pd.to_datetime(edges, format="ISO8601").astype("datetime64[ms]")
    inside = (moments >= pd.Timestamp(bounds["start"])) & (moments < pd.Timestamp(bounds["end"]))
    assert inside[:4].tolist() == [False, True, True, False]
    found = analyze(log.assign(ts=moments), period=bounds)
    assert aside(found) == {"used": inside.sum(), "outside_period": (~inside).sum()}


def test_a_time_that_is_missing() -> None:
    log = small_log()
    log["ts"] = log["ts"].where(log.index % 3 != 0)
    assert aside(analyze(log, period=PERIOD)) == {"used": 160, "null_time": 80}
    found = analyze(log, metrics=[*METRICS, "impressions_per_user"])
    assert aside(found) == {"used": 240}
    days = log.assign(day=log.ts.dt.date).groupby(["variant", "user_id"]).day.nunique()
    assert found["active_days_per_user"].control == pytest.approx(days["a"].mean(), rel=1e-12)
    known = analyze(log.dropna(subset="ts"), metrics=METRICS[1:3])
    assert values(found)["sessions_per_user"] == values(known)["sessions_per_user"]
    assert values(found)["session_length"] == values(known)["session_length"]


def test_a_time_in_a_year_that_no_calendar_has_is_outside_the_period() -> None:
    log = small_log()
    ts = log["ts"].astype("datetime64[us]").to_numpy().copy()
    ts[0] = np.datetime64(9 * 10**18, "us")
    log["ts"] = ts
    assert aside(analyze(log, period=PERIOD)) == {"used": 239, "outside_period": 1}


def visits(*minutes: float) -> pd.DataFrame:
    """One unit a variant, seen at these minutes of a day."""
    base = pd.Timestamp("2024-03-01 23:00")
    rows = [
        {"user_id": u, "variant": "ab"[u], "ts": base + pd.Timedelta(minutes=m), "click": 0}
        for u in (0, 1)
        for m in minutes
    ]
    return pd.DataFrame(rows).astype({"ts": "datetime64[ms]"})


@pytest.mark.parametrize(
    ("minutes", "sessions", "length"),
    [
        ((0,), 1, 0),
        ((0, 30), 1, 30),
        ((0, 30.001), 2, 0),
        ((0, 29, 58, 87, 116), 1, 116),
        ((5, 40, 45, 90), 3, 5 / 3),
        ((-1400, -1380, 50, 70), 2, 20),
    ],
)
def test_sessions(minutes: tuple[float, ...], sessions: int, length: float) -> None:
    found = analyze(visits(*minutes), metrics=["sessions_per_user", "session_length"])
    assert found["sessions_per_user"].control == sessions
    assert found["session_length"].control == pytest.approx(length * 60, rel=1e-12)


def test_the_gap_is_settable() -> None:
    found = analyze(visits(0, 10, 21), sessions={"gap_minutes": 10}, metrics=["sessions_per_user"])
    assert found["sessions_per_user"].control == 2


def test_a_session_over_midnight_is_of_the_day_it_began_on() -> None:
    metrics = ["sessions_per_user", "session_length", "impressions_per_user"]
    found = analyze(visits(40, 59, 65, 80, 300, 310), metrics=metrics, period=PERIOD)
    cells = {(r.metric, r.cell): r.control for r in found.daily}
    assert cells["sessions_per_user", "2024-03-01"] == 1
    assert cells["sessions_per_user", "2024-03-02"] == 1
    assert cells["session_length", "2024-03-01"] == 40 * 60
    assert cells["session_length", "2024-03-02"] == 10 * 60


def test_days_divide_by_the_units_that_were_active() -> None:
    """A unit whose impressions name no request has zero page views, and is still there."""
    log = small_log().astype({"request_id": "Int64"})
    log.loc[log.user_id == 0, "request_id"] = None
    found = analyze(log, metrics=["page_views_per_user", "impressions_per_user"], period=PERIOD)
    units = {(r.metric, r.cell): (r.units_control, r.units) for r in found.daily}
    for day in ("2024-03-01", "2024-03-02", "2024-03-03"):
        own = log[log.ts.dt.date.astype(str) == day].groupby("variant").user_id.nunique()
        assert units["page_views_per_user", day] == (own["a"], own["b"])
        assert units["impressions_per_user", day] == (own["a"], own["b"])


def test_a_day_lasts_to_its_last_impression() -> None:
    """Every unit comes early and late: the first of a day is its first, the last its last."""
    units = pd.DataFrame({"user_id": range(24)})
    hours = pd.DataFrame({"hour": [0.2, 23.8, 24.3, 47.9, 48.1, 71.9]})
    log = units.merge(hours, how="cross")
    log["ts"] = START + pd.to_timedelta((log["hour"] * 3600).round(), unit="s")
    log["variant"] = log["user_id"].map(lambda unit: "ab"[unit % 2])
    log["click"] = range(len(log))
    log["click"] %= 2
    loaded = abeval.define(
        name="t",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        metrics=[{"name": "ctr"}],
        logs={"impressions": {}},
    )
    assert loaded.windows(logs={"impressions": log}).partial == ()
    without_end = log[log["hour"] < 60]
    assert loaded.windows(logs={"impressions": without_end}).partial == ("2024-03-03",)
    without_start = log[log["hour"] > 12]
    assert loaded.windows(logs={"impressions": without_start}).partial == ("2024-03-01",)


@pytest.mark.parametrize(
    ("write", "said", "mended"),
    [
        (
            lambda ts: (ts.astype("datetime64[s]").astype("int64")).astype(str),
            'and time_unit = "s"',
            {
                "query": 'select * replace (cast("ts" as bigint) as "ts") from log',
                "time_unit": "s",
            },
        ),
        (
            lambda ts: ts.dt.strftime("%d %b %Y %H:%M:%S"),
            '"%d %b %Y %H:%M:%S" reads \'01 Mar 2024',
            {"ts_format": "%d %b %Y %H:%M:%S"},
        ),
        (
            lambda ts: ts.dt.strftime("%Y%m%d").astype(int),
            'of dates such as 20260914, ts_format = "%Y%m%d"',
            {"ts_format": "%Y%m%d"},
        ),
        (
            lambda ts: ts.astype(str).where(ts.index % 3 > 0, "unknown"),
            "80 of 240, such as 'unknown'\n  hint: make such values empty",
            None,
        ),
        (
            lambda ts: ts.astype("datetime64[ms]").astype("int64").astype(float),
            "where every value is whole, write in [logs.impressions]: query = ",
            {
                "query": 'select * replace (cast("ts" as bigint) as "ts") from log',
                "time_unit": "ms",
            },
        ),
    ],
)
def test_a_time_that_cannot_be_read_says_how_it_can(
    write: Any, said: str, mended: dict[str, str] | None
) -> None:
    log = small_log()
    odd = log.assign(ts=write(log["ts"]))
    with pytest.raises(AbevalError) as error:
        analyze(odd, period=PERIOD)
    assert said in str(error.value)
    if mended is not None:
        found = analyze(odd, period=PERIOD, logs={"impressions": mended})
        assert aside(found) == {"used": len(log)}


def test_milliseconds_that_are_read_as_seconds_ask_for_the_unit() -> None:
    log = small_log()
    with pytest.raises(AbevalError, match='with time_unit = "s": is it another unit'):
        timed(log, milliseconds(log), "s")
