"""Exact duplicates: on all columns, on a key, kept, unchecked, and found by a cheaper path."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import AbevalError
from tests.logs.small import analyze, aside, small_log, values
from tests.relations import answer, relation


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


def test_rows_that_differ_in_any_column_are_not_duplicates() -> None:
    log = small_log()
    other = log.head(20).assign(note=None)
    found = analyze(pd.concat([log.assign(note=None), other.assign(note="seen twice")]))
    assert aside(found) == {"used": 260}


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
    "only a unit": lambda log: log.drop(columns=["request_id", "item_id", "ts"]),
}


@pytest.mark.whole
@pytest.mark.parametrize("how", GENERAL)
def test_every_way_to_find_duplicates_finds_the_same(how: str) -> None:
    log = small_log()
    if how == "a request missing":
        log["request_id"] = log["request_id"].astype("Int64")
    log = GENERAL[how](log)
    if how == "a position missing":
        log["position"] = log["position"].astype("Int64")
    # Without the columns that tell rows apart, some rows are honestly alike.
    distinct = log.drop_duplicates()
    found = analyze(repeated(log))
    assert aside(found) == {"used": len(distinct), "duplicate": 270 - len(distinct)}
    assert values(found) == values(analyze(distinct))


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
    rows = answer("log/repeated_keys", keyed_impressions=keys).as_set()
    assert rows == {(2, 10), (None, 10)}
    places = [("whole", 0), ("whole", 1), ("whole", 62), ("twice", 0), ("twice", 0), ("last", 62)]
    positions = relation("request_id, position", *places)
    assert answer("log/repeated_positions", positioned_impressions=positions) == [("twice",)]


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
