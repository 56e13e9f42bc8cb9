"""What the audits count, against pandas on a log with every kind of fault."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from abeval.aggregates import audits
from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.audit_arrays import PLACE
from abeval.aggregates.collect import collect
from abeval.engines.duckdb import DuckDBEngine
from abeval.experiment.load import parse_experiment
from abeval.experiment.metrics import list_scorecard_metrics
from abeval.logs.run import Run
from tests.logs.small import PERIOD, small_log


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    random = np.random.default_rng(9)
    log = small_log(rows=6_000, units=150, seed=9)
    log["position"] += np.where(log["request_id"] % 7 == 0, 3, 0)
    log["impression_id"] = np.arange(len(log))
    log["device"] = np.where(log["user_id"] % 3 == 0, "phone", "desk")
    log["score"] = log["score"].mask(random.random(len(log)) < 0.1)
    return log[random.random(len(log)) > 0.15]


@pytest.fixture(scope="module")
def clicks(log: pd.DataFrame) -> pd.DataFrame:
    own = log[log["click"] == 1]
    delay = np.random.default_rng(2).integers(-2_000, 5_000, len(own)) // 1_000 * 1_000
    late = np.where(own["impression_id"] % 11 == 0, 2 * 86_400_000, 0)
    ts = own["ts"] + pd.to_timedelta(delay + late, unit="ms")
    return pd.DataFrame({"impression_id": own["impression_id"], "ts": ts})


@pytest.fixture(scope="module")
def aggregates(log: pd.DataFrame, clicks: pd.DataFrame) -> Aggregates:
    return aggregated(log, clicks)


def aggregated(
    log: pd.DataFrame, clicks: pd.DataFrame | None = None, **others: pd.DataFrame
) -> Aggregates:
    timed, clicked = "ts" in log, {} if clicks is None else {"clicks": clicks}
    experiment = parse_experiment(
        {
            "name": "audited",
            "unit": "user_id",
            "control": "a",
            "variants": {"a": {}, "b": {}},
            **({"period": PERIOD} if timed else {}),
            "logs": {name: {} for name in ("impressions", *clicked, *others)},
            "segments": {"device": "device"},
            "metrics": [{"name": "ctr"}, {"name": "clicks_per_user"}],
        }
    )
    frames = {"impressions": log, **clicked, **others}
    if clicks is not None:
        frames["impressions"] = log.drop(columns=["click", "dwell"])
    engine = DuckDBEngine()
    found = collect(Run(experiment, engine, frames), list_scorecard_metrics(experiment))
    engine.close()
    return found


def counted(aggregates: Aggregates, audit: str) -> dict[tuple[str, str], tuple[int, int]]:
    shares = aggregates.shares.get(audit, ())
    return {(row.cell, row.variant): (row.y, row.x) for row in shares}


def counted_times(aggregates: Aggregates, audit: str) -> dict[tuple[int, str], int]:
    (part,) = aggregates.audits[audit]
    return {
        (time, variant): rows
        for time, by_variant in zip(part.times.tolist(), part.rows.sum(axis=2), strict=True)
        for variant, rows in zip("ab", by_variant.tolist(), strict=True)
    }


def test_nulls_and_hours(log: pd.DataFrame, aggregates: Aggregates) -> None:
    for variant, own in log.groupby("variant"):
        assert counted(aggregates, "null")["score", variant] == (
            own["score"].isna().sum(),
            len(own),
        )
        hours = own["ts"].astype("datetime64[ms]").astype("int64") // 3_600_000
        for hour, rows in hours.value_counts().items():
            assert counted_times(aggregates, "hour")[hour, variant] == rows
        assert counted_times(aggregates, "clock:")[5, variant] == (hours % 24 == 5).sum()


def holes_of(own: pd.DataFrame) -> tuple[int, int, dict[int, tuple[int, int]]]:
    """Positions that lists lack inside, places of lists, and both by position."""
    holes, places, at = 0, 0, dict[int, tuple[int, int]]()
    for _, rows in own.groupby("request_id"):
        has, first, last = set(rows["position"]), rows["position"].min(), rows["position"].max()
        places += last - first + 1
        for place in range(first + 1, last):
            missing = place not in has
            holes += missing
            lacking, of = at.get(place, (0, 0))
            at[place] = lacking + missing, of + 1
    return holes, places, at


def test_holes_of_lists_in_all_by_position_and_by_segment(
    log: pd.DataFrame, aggregates: Aggregates
) -> None:
    for variant, own in log.groupby("variant"):
        holes, places, at = holes_of(own)
        assert counted(aggregates, "holes")["", variant] == (holes, places)
        for place, both in at.items():
            assert counted(aggregates, f"holes:{PLACE}")[str(place), variant] == both
        for device, rows in own.groupby("device"):
            assert counted(aggregates, "holes:device")[device, variant] == holes_of(rows)[:2]


def test_delays_of_clicks(log: pd.DataFrame, clicks: pd.DataFrame, aggregates: Aggregates) -> None:
    joined = clicks.merge(log, on="impression_id", suffixes=("_click", ""))
    delay = (joined["ts_click"] - joined["ts"]).dt.total_seconds()
    for variant in "ab":
        own = delay[joined["variant"] == variant]
        assert counted(aggregates, "click_delay")["early", variant] == ((own < 0).sum(), len(own))
        assert counted(aggregates, "click_delay")["same", variant][0] == (own == 0).sum()
        assert counted(aggregates, "click_delay")["late", variant][0] == (own > 86_400).sum()


def test_rows_without_a_time_are_counted_by_variant(
    log: pd.DataFrame, clicks: pd.DataFrame
) -> None:
    untimed = (log["impression_id"] % 13 == 0) & (log["variant"] == "b")
    aggregates = aggregated(log.assign(ts=log["ts"].mask(untimed)), clicks)
    rows = log["variant"].value_counts()
    assert counted(aggregates, "set_aside") == {
        ("null_time", "a"): (0, rows["a"]),
        ("null_time", "b"): (untimed.sum(), rows["b"]),
    }


def test_exposed_units_without_an_impression_are_counted_by_variant(
    log: pd.DataFrame, clicks: pd.DataFrame
) -> None:
    exposures = log.groupby(["user_id", "variant"], as_index=False)["ts"].min()
    shown = log[log["user_id"] % 10 != 3]
    assert counted(aggregated(shown, clicks, exposures=exposures), "silent") == {
        ("0", variant): ((own["user_id"] % 10 == 3).sum(), len(own))
        for variant, own in exposures.groupby("variant")
    }


def test_the_clusters_of_a_variant_are_its_units_by_hash(aggregates: Aggregates) -> None:
    (clock,) = aggregates.audits["clock:"]
    clusters = np.count_nonzero(clock.rows.any(axis=0), axis=1)
    assert len(clusters) == 2
    assert all(30 < count <= 64 for count in clusters)


def test_the_extremes_are_the_units_that_deviate_most(
    log: pd.DataFrame, aggregates: Aggregates
) -> None:
    joined = log.groupby(["variant", "user_id"]).size()
    for variant in "ab":
        ctr = aggregates.extremes["ctr", variant]
        assert len(ctr) == 20
        assert {x for _, x in ctr} <= set(joined[variant])


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs are long from 1,000 impressions on."""
    monkeypatch.setattr(audits, "MOST_ROWS", 1_000)
    monkeypatch.setattr(audits, "FEWEST_ROWS", 500)


@pytest.mark.usefixtures("short")
def test_a_long_log_is_audited_on_whole_hours_of_all_units(
    log: pd.DataFrame, clicks: pd.DataFrame
) -> None:
    long = aggregated(log, clicks)
    read = [counted(long, "null")["score", variant][1] for variant in "ab"]
    assert 500 <= sum(read) < 800
    hours = log["ts"].dt.floor("h")
    of_hours = log.groupby([hours, "variant"]).size().unstack(fill_value=0)
    hours = counted_times(long, "hour")
    assert hours == counted_times(aggregated(log.iloc[::-1], clicks), "hour")
    assert sum(hours.values()) == of_hours.sum().sum()
    # The clicks are those on the impressions that were read.
    clicked = sum(counted(long, "click_delay")["early", variant][1] for variant in "ab")
    assert 0.3 < clicked / sum(read) < 0.7


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_a_long_log_with_a_time_zone_is_audited_on_the_same_hours(
    log: pd.DataFrame, clicks: pd.DataFrame, zone: str | None
) -> None:
    zoned = (
        log if zone is None else log.assign(ts=log["ts"].dt.tz_localize("UTC").dt.tz_convert(zone))
    )
    assert counted(aggregated(zoned, clicks), "null") == counted(aggregated(log, clicks), "null")


@pytest.mark.usefixtures("short")
def test_a_long_log_without_times_is_audited_on_some_units(log: pd.DataFrame) -> None:
    some = counted(aggregated(log.drop(columns="ts")), "null")
    assert 200 < sum(some["score", variant][1] for variant in "ab") < 3_000


@pytest.mark.usefixtures("short")
def test_machines_of_a_long_log_are_seen_in_hours_of_which_nothing_else_is_read(
    log: pd.DataFrame, clicks: pd.DataFrame
) -> None:
    """Machines that come in an hour each, spread over the log."""
    machines, lists = 15, 120
    number = np.arange(machines * lists)
    hour = number // lists
    start = log["ts"].min().floor("h") + pd.to_timedelta(4 * hour, unit="h")
    own = pd.DataFrame(
        {
            "user_id": 1_000 + hour,
            "variant": "b",
            "ts": start + pd.to_timedelta(10 * (number % lists), unit="s"),
            "request_id": 10**6 + number,
            "impression_id": 10**6 + number,
            "position": 1,
            "item_id": 7,
        }
    )
    long = aggregated(pd.concat([log, own]), clicks)
    gap = {
        one.variant: (one.sums.total, one.y) for one in long.shares["machine"] if one.cell == "gap"
    }
    assert gap == {"a": (0, 0), "b": (machines, 10_000)}


def test_the_hours_of_a_long_log_lie_on_every_day_and_at_all_times_of_a_day() -> None:
    days = 28
    hour = np.arange(24 * days)
    at = hour * 3_600_000
    shown = np.full(hour.size, 10_000)
    sample = audits._sample(audits.HourlyRows(hour, hour, hour, at, at + 9, shown, shown))
    chosen = [first // 3_600_000 for first, _ in sample.spans]
    assert sample.spans == [(one * 3_600_000, one * 3_600_000 + 9) for one in chosen]
    assert len(chosen) == 60
    assert {one // 24 for one in chosen} == {*range(days)}
    assert {one % 24 // 3 for one in chosen} == {*range(8)}


def test_a_list_that_the_end_of_an_hour_may_cut_is_left_out() -> None:
    minute = 60_000
    lists = {"time_ms": np.array([1, 4, 5, 55, 56, 59, 121, 130]) * minute, "unit": np.arange(8)}
    spans = [(0, 60 * minute), (120 * minute, 180 * minute)]
    kept = audits._keep_whole_lists(lists, audits.Sample(spans))
    assert kept["unit"].tolist() == [2, 3, 7]
    assert audits._keep_whole_lists(lists, audits.Sample()) is lists
