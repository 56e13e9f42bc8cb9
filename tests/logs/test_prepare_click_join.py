"""How clicks are tied to impressions, and the queries that do it over a few rows."""

from __future__ import annotations

import pandas as pd
import pytest

from abeval.errors import LogError
from tests.logs.small import analyze, aside, small_log
from tests.relations import answer, relation

CLICKS = "copies, time_ms, dwell_ms, key_1, key_2, key_3"
KEYS = "key_1, key_2, key_3, impressions, time_ms, unit_id, set_aside"
SEEN = "key_1, key_2, key_3, time_ms, unit_id, set_aside"


def test_a_key_of_clicks_has_the_impressions_that_are_alike_in_all_three_columns() -> None:
    clicks = [(1, 9, None, *key) for key in [(1, 1, 1), (1, 1, 1), (2, 1, 1), (3, 3, 3)]]
    seen = relation(
        SEEN,
        (1, 1, 1, 1_000, 11, None),
        (1, 1, 2, 1_000, 12, None),
        (1, 2, 1, 1_000, 13, None),
        (4, 1, 1, 1_000, 14, None),
        (2, 1, 1, 5_000, 16, None),
        (2, 1, 1, 3_000, 17, "null_unit"),
    )
    rows = answer("1_log/clicked_keys", click_log=relation(CLICKS, *clicks), seen=seen).as_set()
    assert rows == {(1, 1, 1, 1, 1_000, 11, 0), (2, 1, 1, 2, 3_000, 16, 1)}


FATES: list[tuple[tuple[int | None, ...], int | None, str | None]] = [
    ((1, 1, 1), 1_500, None),
    ((1, 1, 1), 1_501, "late"),
    ((1, 1, 1), 900, None),
    ((1, 1, 1), None, None),
    ((None, 1, 1), 1_000, "null_key"),
    ((1, None, 1), 1_000, "null_key"),
    ((1, 1, None), 1_000, "null_key"),
    ((9, 1, 1), 1_000, "no_impression"),
    ((1, 9, 1), 1_000, "no_impression"),
    ((1, 1, 9), 1_000, "no_impression"),
    ((2, 1, 1), 1_000, "impression_set_aside"),
    ((3, 1, 1), 1_000, "impression_set_aside"),
    ((4, 1, 1), 1_000, "ambiguous_impression"),
    ((4, 1, 1), 9_000, "ambiguous_impression"),
]


def test_a_click_is_late_from_the_millisecond_after_the_window_on() -> None:
    """Impressions are at 1,000 ms, and the window is of 500 ms; copies number the clicks."""
    clicks = [(n, clicked_ms, 70, *key) for n, (key, clicked_ms, _) in enumerate(FATES)]
    rows = answer(
        "1_log/click_fate",
        click_log=relation(CLICKS, *clicks),
        clicked_keys=relation(
            KEYS,
            (1, 1, 1, 1, 1_000, 11, 0),
            (2, 1, 1, 1, 1_000, 11, 1),
            (3, 1, 1, 2, 1_000, 11, 1),
            (4, 1, 1, 2, 1_000, 11, 0),
        ),
        experiment=relation("attribution_ms", (500,)),
    ).as_set()
    assert rows == {(n, *key, 70, fate) for n, (key, _, fate) in enumerate(FATES)}


FATED = "copies, key_1, key_2, key_3, dwell_ms, set_aside"


def test_an_impression_has_the_sum_of_the_dwells_of_its_clicks() -> None:
    fates = relation(
        FATED,
        (4, 1, 1, 1, 20, None),
        (1, 1, 1, 1, 50, None),
        (1, 1, 1, 1, 90, "late"),
        (1, 1, 1, 2, None, None),
        (1, 1, 2, 1, 30, "late"),
    )
    assert answer("1_log/attributed", click_fate=fates).as_set() == {
        (1, 1, 1, 2, 70),
        (1, 1, 2, 1, None),
    }


def test_copies_of_clicks_are_counted_apart_from_the_clicks() -> None:
    fates = relation(
        FATED,
        (4, 1, 1, 1, 20, None),
        (3, 1, 1, 1, 50, None),
        (1, 1, 1, 1, 90, "late"),
    )
    assert answer("audit/click_accounting", click_fate=fates).as_set() == {
        (None, 2, 5),
        ("late", 1, 0),
    }


def test_a_click_touches_the_last_impression_of_both_its_keys_up_to_its_moment() -> None:
    clicks = relation(
        "copies, time_ms, dwell_ms, key_1, key_2",
        (1, 25, 7, 1, 1),
        (2, 30, 8, 1, 1),
        (3, 5, 9, 1, 1),
        (4, None, 6, 1, 1),
        (5, 40, 5, 3, 3),
    )
    seen = relation(
        "key_1, key_2, time_ms",
        (1, 1, 10),
        (1, 1, 20),
        (1, 1, 30),
        (1, 1, None),
        (1, 2, 24),
        (2, 1, 24),
    )
    assert answer("1_log/last_touch", untied_clicks=clicks, seen=seen).as_set() == {
        (1, 25, 7, 1, 1, 20),
        (2, 30, 8, 1, 1, 30),
        # Nothing was seen before them: they keep their own time, which no impression has.
        (3, 5, 9, 1, 1, 5),
        (5, 40, 5, 3, 3, 40),
        (4, None, 6, 1, 1, None),
    }


def test_clicks_are_tied_by_the_request_and_the_item_alone() -> None:
    log = small_log().drop_duplicates(["request_id", "item_id"]).drop(columns="click")
    clicks = log.head(3)[["request_id", "item_id"]]
    found = analyze(log, clicks=clicks)
    assert aside(found, "clicks") == {"used": 3}
    assert not any("A click belongs to" in note for note in found.notes)


def test_an_id_that_the_clicks_lack_ties_nothing() -> None:
    log = small_log().drop(columns="click").assign(impression_id=range(240))
    clicks = log.head(3)[["request_id", "item_id", "position"]]
    assert aside(analyze(log, clicks=clicks), "clicks") == {"used": 3}


def test_clicks_of_a_log_without_units_have_an_id_of_the_impression() -> None:
    log = small_log().drop(columns=["click", "user_id"]).assign(impression_id=range(240))
    clicks = log.head(3)[["impression_id"]]
    found = analyze(log, clicks=clicks, unit="row", metrics=["ctr"])
    assert aside(found, "clicks") == {"used": 3}
    # A row is no unit that is seen again: nothing else can tie them.
    who = pd.DataFrame({"who": [1], "item_id": [1], "ts": [pd.Timestamp("2024-03-01")]})
    columns = {"unit_id": "who"}
    with pytest.raises(LogError, match="clicks cannot be joined"):
        analyze(
            log.drop(columns=["impression_id", "request_id"]).assign(who=1),
            clicks=who,
            unit="row",
            metrics=["ctr"],
            logs={"impressions": {"columns": columns}, "clicks": {"columns": columns}},
        )
