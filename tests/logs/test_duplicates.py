"""Exact duplicates: on all columns, on a key, kept, unchecked, and found by a cheaper path."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import AbevalError
from tests.logs.small import PERIOD, analyze, aside, small_log, values
from tests.relations import answer, relation

pytestmark = pytest.mark.whole


def repeated(log: pd.DataFrame, copies: int = 30) -> pd.DataFrame:
    again = log.sample(copies, random_state=1, replace=True)
    return pd.concat([log, again]).sample(frac=1, random_state=2).reset_index(drop=True)


def test_duplicates_are_set_aside_by_default() -> None:
    log = small_log()
    found = analyze(repeated(log))
    assert aside(found) == {"used": 240, "duplicate": 30}
    assert values(found) == values(analyze(log))


@pytest.mark.parametrize("choice", ["keep", "unchecked"])
def test_duplicates_that_stay_count(choice: str) -> None:
    log = repeated(small_log())
    found = analyze(log, cleaning={"duplicates": choice})
    assert aside(found) == {"used": 270}
    check = next(check for check in found.trust if check.name == "impressions_duplicate")
    assert check.status == {"keep": "pass", "unchecked": "skipped"}[choice]
    assert values(found)["impressions_per_user"][0] == pytest.approx(
        log[log.variant == "a"].groupby("user_id").size().mean(), rel=1e-12
    )


def test_rows_that_differ_in_what_they_tell_are_not_duplicates() -> None:
    log = small_log()
    other = log.head(20).assign(note=None)
    found = analyze(pd.concat([log.assign(note=None), other.assign(note="seen twice")]))
    assert aside(found) == {"used": 260}


DELIVERED = {
    "the time of receipt": lambda log: log.ts + pd.Timedelta(seconds=1),
    "received_at": lambda log: "2026-09-14T00:00:00 text",
    "retryCount": lambda log: 0,
    "kafka_offset": lambda log: range(len(log)),
    "id": lambda log: range(len(log)),
}
"""Columns of which a second delivery has another value."""


@pytest.mark.parametrize(
    ("column", "lists"),
    [
        *((column, True) for column in DELIVERED),
        ("id", False),
        *(pytest.param(c, False, marks=pytest.mark.slow) for c in DELIVERED if c != "id"),
    ],
)
def test_an_event_that_is_delivered_again_is_a_duplicate(column: str, lists: bool) -> None:
    log = small_log() if lists else small_log().drop(columns=["request_id", "position"])
    log = log.assign(**{column: DELIVERED[column]})
    again = log.head(20).copy()
    is_time = column.startswith("the")
    again[column] = again[column] + (
        pd.Timedelta(seconds=45) if is_time else type(log[column][0])(9)
    )
    found = analyze(pd.concat([log, again]))
    assert aside(found) == {"used": 240, "duplicate": 20}
    assert values(found) == values(analyze(log))


def event_log(column: str = "message_id") -> pd.DataFrame:
    """A log without items, in which several events of a unit are in the same second."""
    log = small_log().drop(columns=["request_id", "position", "item_id"])
    return log.assign(
        ts=log.ts.dt.floor("D"), dwell=None, **{column: [f"m{i}" for i in range(240)]}
    )


@pytest.mark.parametrize("column", ["message_id", "event_uuid", "impression_id", "insertId"])
def test_an_id_of_the_event_says_which_rows_are_one_whatever_else_differs(column: str) -> None:
    log = event_log(column)
    again = log.head(20).assign(ts=log.ts + pd.Timedelta(days=1), attempt=2)
    found = analyze(pd.concat([log, again]))
    assert aside(found) == {"used": 240, "duplicate": 20}
    # Events of other ids are others, though all else is equal.
    assert aside(analyze(log)) == {"used": 240}


def test_an_impression_that_is_sent_again_once_it_was_clicked_is_clicked() -> None:
    log = event_log().assign(click=0)
    found = analyze(pd.concat([log, log.head(60).assign(click=1)]))
    assert aside(found) == {"used": 240, "duplicate": 60}
    assert sum(values(found)["ctr"]) > 0.3


@pytest.mark.parametrize("column", ["impression_id", "uuid"])
def test_an_id_of_many_rows_is_that_of_a_list_and_drops_none(column: str) -> None:
    log = event_log(column)
    log[column] = np.arange(240) // 5
    log["note"] = [f"n{i}" for i in range(240)]
    assert aside(analyze(log)) == {"used": 240}
    items = small_log().assign(impression_id=np.arange(240) // 5).drop(columns="request_id")
    assert aside(analyze(items))["used"] >= 230


def test_without_an_item_rows_of_one_second_are_several_events() -> None:
    log = event_log().drop(columns="message_id")
    log["received_at"] = pd.Timestamp("2026-09-14") + pd.to_timedelta(range(240), unit="s")
    assert aside(analyze(log)) == {"used": 240}
    assert aside(analyze(pd.concat([log, log.head(20)]))) == {"used": 240, "duplicate": 20}


def test_an_item_that_is_shown_again_is_another_impression() -> None:
    log = small_log().drop(columns=["request_id"]).assign(received_at=small_log().ts)
    later = log.assign(ts=log.ts + pd.Timedelta(hours=1))
    elsewhere = log.assign(position=log.position + 5)
    assert aside(analyze(pd.concat([log, later, elsewhere]))) == {"used": 720}


@pytest.mark.parametrize("arms", [("b",), ("a", "b")])
def test_clicks_sent_again_stop_an_experiment_only_where_one_variant_has_them(
    arms: tuple[str, ...],
) -> None:
    rng = np.random.default_rng(8)
    rows = np.repeat(np.arange(6_000), 8)
    log = pd.DataFrame({"user_id": rows, "item_id": rng.integers(0, 500, len(rows))})
    log["variant"] = np.where(log.user_id % 2, "b", "a")
    log["ts"] = pd.Timestamp("2026-09-14") + pd.to_timedelta(np.arange(len(rows)) * 20, unit="s")
    log["click"] = (rng.random(len(rows)) < np.where(log.user_id % 2, 0.24, 0.2)).astype(int)
    log["received_at"] = log.ts + pd.Timedelta(seconds=1)
    again = log[(log.click == 1) & log.variant.isin(arms)].sample(frac=0.4, random_state=2)
    again = again.assign(received_at=again.received_at + pd.Timedelta(seconds=45))
    found = analyze(pd.concat([log, again]))
    checks = {check.name: check.status for check in found.trust}
    assert checks["duplicates_by_variant"] == ("pass" if len(arms) == 2 else "fail")
    assert values(found)["ctr"] == pytest.approx(log.groupby("variant").click.mean().tolist())


def test_nulls_are_equal_to_nulls() -> None:
    log = small_log().astype({"dwell": float})
    log.loc[:9, ["dwell", "category"]] = None
    assert aside(analyze(pd.concat([log, log.head(10)]))) == {"used": 240, "duplicate": 10}


def test_a_key_decides_where_the_user_names_one() -> None:
    log = small_log()
    later = log.head(20).assign(click=1, dwell=99.0)
    found = analyze(pd.concat([log, later]), cleaning={"duplicate_key": ["request_id", "position"]})
    assert aside(found) == {"used": 240, "duplicate": 20}


def test_of_rows_alike_in_the_key_the_same_stays_on_every_run() -> None:
    log = pd.concat([small_log(), small_log().assign(click=1)])
    cleaning = {"duplicate_key": ["request_id", "position"]}
    first = values(analyze(log, cleaning=cleaning))
    again = values(analyze(log.sample(frac=1, random_state=3), cleaning=cleaning))
    assert first == again


@pytest.mark.parametrize("name", ["copy", "COPY"])
def test_a_column_may_be_named_like_the_count_of_copies(name: str) -> None:
    log = small_log().assign(**{name: 11})
    found = analyze(pd.concat([log, log]), cleaning={"duplicate_key": ["request_id", "position"]})
    assert aside(found) == {"used": 240, "duplicate": 240}


def test_a_key_of_no_column_is_named() -> None:
    with pytest.raises(AbevalError, match="'request'"):
        analyze(small_log(), cleaning={"duplicate_key": ["request"]})


GENERAL = {
    "positions too high for a set of bits": lambda log: log.assign(position=log.position + 60),
    "positions below 0": lambda log: log.assign(position=log.position - 4),
    "a position missing": lambda log: log.assign(position=log.position.where(log.index > 0)),
    "a request missing": lambda log: log.assign(request_id=log.request_id.where(log.index > 0)),
    "an impression id": lambda log: log.assign(impression_id=log.index),
    "no request": lambda log: log.drop(columns="request_id"),
    "no position": lambda log: log.drop(columns="position"),
}


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("how", GENERAL)
def test_every_way_to_find_duplicates_finds_the_same(how: str) -> None:
    log = small_log()
    if how == "a request missing":
        log["request_id"] = log["request_id"].astype("Int64")
    log = GENERAL[how](log)
    if how == "a position missing":
        log["position"] = log["position"].astype("Int64")
    found = analyze(repeated(log))
    assert aside(found) == {"used": 240, "duplicate": 30}
    assert values(found) == values(analyze(log))


@pytest.mark.parametrize("last", [62, 63, 64])
def test_positions_up_to_62_fit_the_set_of_bits(last: int) -> None:
    log = small_log().assign(position=lambda f: f.position.map({1: 0, 2: 61, 3: last, 4: 1, 5: 31}))
    assert aside(analyze(repeated(log))) == {"used": 240, "duplicate": 30}


@pytest.mark.parametrize("requests", [1, 48])
def test_rows_of_a_request_without_positions_may_be_duplicates(requests: int) -> None:
    log = small_log().astype({"position": "Int64"})
    log["position"] = log["position"].where(log["request_id"] >= requests)
    found = analyze(pd.concat([log, log.head(3)]))
    assert aside(found) == {"used": 240, "duplicate": 3}


@pytest.mark.parametrize("columns", [["position"], ["request_id"], []])
def test_a_single_duplicate_is_found(columns: list[str]) -> None:
    log = small_log().drop(columns=columns)
    found = analyze(pd.concat([log, log.head(1)]))
    assert aside(found) == {"used": 240, "duplicate": 1}


def test_a_key_of_the_file_reaches_over_requests() -> None:
    log = small_log()
    again = log.head(20).assign(request_id=log.request_id.head(20) + 900)
    key = {"duplicate_key": ["user_id", "ts", "item_id", "position"]}
    assert aside(analyze(pd.concat([log, again]), cleaning=key)) == {"used": 240, "duplicate": 20}


def test_a_position_twice_in_a_request_is_no_duplicate_by_itself() -> None:
    log = small_log().assign(position=1)
    assert aside(analyze(repeated(log))) == {"used": 240, "duplicate": 30}


def test_only_keys_and_requests_that_come_twice_are_looked_at() -> None:
    keys = relation("unit_id, ts", (1, 10), (1, 11), (2, 10), (2, 10), (None, 10), (None, 10))
    rows = answer("1_log/repeated_keys", keyed_impressions=keys).as_set()
    assert rows == {(2, 10), (None, 10)}
    places = [("whole", 0), ("whole", 1), ("whole", 62), ("twice", 0), ("twice", 0), ("last", 62)]
    positions = relation("request_id, position", *places)
    assert answer("1_log/repeated_positions", positioned_impressions=positions) == [("twice",)]


def customers(rows: int = 64_000, seed: int = 4) -> pd.DataFrame:
    """A mailing: one row a customer without an id, of which many are alike in every column."""
    random = np.random.default_rng(seed)
    group = random.choice(["a", "b"], rows)
    visit = (random.random(rows) < np.where(group == "b", 0.13, 0.106)).astype(int)
    least = random.random(rows) < 0.25
    return pd.DataFrame(
        {
            "recency": random.integers(1, 13, rows),
            "history": np.where(least, 29.99, random.gamma(1.0, 240.0, rows).round(2)),
            "newbie": random.integers(0, 2, rows),
            "variant": group,
            "visit": visit,
        }
    )


@pytest.mark.parametrize("columns", [["recency", "history", "newbie"], []])
def test_rows_without_any_id_are_people_who_may_be_alike(columns: list[str]) -> None:
    log = customers()[["variant", "visit", *columns]]
    found = analyze(log, unit="row", metrics=[{"name": "visited", "value": "visit"}])
    assert aside(found) == {"used": len(log)}
    means = log.groupby("variant").visit.mean()
    assert values(found)["visited"] == pytest.approx((means["a"], means["b"]), rel=1e-12)
    check = next(check for check in found.trust if check.name == "impressions_duplicate")
    assert (check.status, "no id" in check.message) == ("skipped", True)


@pytest.mark.parametrize("is_loaded", [True, False])
@pytest.mark.parametrize("time", ["no time", "dates", "midnights", "texts of days", "minutes"])
def test_rows_of_a_day_or_minute_may_be_different_events(time: str, is_loaded: bool) -> None:
    """A healthy log was not to be trusted: what users saw twice on a day was set aside.

    The day on which a row was loaded tells no rows apart, though it is a timestamp.
    """
    log = small_log()[["user_id", "variant", "click", "ts"]]
    if is_loaded:
        log["loaded_on"] = log.ts.dt.normalize() + pd.Timedelta(days=1)
    day = log.ts.dt.normalize()
    days = {"dates": day.dt.date, "midnights": day, "texts of days": day.dt.strftime("%Y/%m/%d")}
    days["minutes"] = log.ts.dt.floor("h")
    log = log.assign(ts=days[time]) if time in days else log.drop(columns="ts")
    found = analyze(log, **({} if time == "no time" else {"period": PERIOD}))
    assert aside(found) == {"used": 240}
    means = log.groupby("variant").click.mean()
    assert values(found)["ctr"] == pytest.approx((means["a"], means["b"]), rel=1e-12)
    check = next(check for check in found.trust if check.name == "impressions_duplicate")
    assert (check.status, "no time to the second" in check.message) == ("skipped", True)


def test_what_arrives_at_another_second_of_one_minute_is_another_event() -> None:
    log = small_log()[["user_id", "variant", "item_id", "click", "ts"]].assign(item_id=1)
    log["received_at"], log["ts"] = log["ts"], log["ts"].dt.floor("h")
    apart = log.drop_duplicates(["user_id", "click", "received_at"])
    assert aside(analyze(apart)) == {"used": len(apart)}
    assert aside(analyze(pd.concat([apart, apart.head(9)])))["duplicate"] == 9


def test_rows_without_a_unit_are_duplicates_where_another_id_is_the_same() -> None:
    log = small_log().drop(columns="user_id")
    found = analyze(repeated(log), unit="row", metrics=["ctr"])
    assert aside(found) == {"used": 240, "duplicate": 30}
    key = {"duplicate_key": ["ts", "item_id"]}
    named = repeated(log.drop(columns="request_id").drop_duplicates(["ts", "item_id"]))
    found = analyze(named, unit="row", metrics=["ctr"], cleaning=key)
    assert aside(found)["duplicate"] == 30


def test_rows_without_an_id_are_not_duplicates_of_each_other() -> None:
    """Ids of an old client are null: 1,885 equal rows of other impressions were set aside."""
    log = small_log()[["user_id", "variant", "click"]].assign(impression_id=np.arange(240))
    log["impression_id"] = log.impression_id.astype("Int64").where(log.index % 3 > 0)
    found = analyze(log)
    assert aside(found) == {"used": 240}
    check = next(check for check in found.trust if check.name == "impressions_duplicate")
    assert check.status == "pass"
    assert "80 have no impression_id" in check.message
    twice = analyze(pd.concat([log, log[1:2]]))
    assert aside(twice) == {"used": 240, "duplicate": 1}


def test_people_without_an_id_are_rows_without_a_unit() -> None:
    people = pd.DataFrame({"grp": ["a", "b"] * 200, "bought": [0, 1, 1, 0] * 100})
    ids = [f"u{i}" if i % 4 else None for i in range(400)]
    found = abeval.analyze(people.assign(user=ids), unit="user", variant="grp")
    assert aside(found, "units") == {"used": 300, "null_unit": 100}
    check = next(check for check in found.trust if check.name == "units_set_aside")
    assert check.message.startswith("100 of 400 rows without a unit")
