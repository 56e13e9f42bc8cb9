"""Slots of a switchback: the queries over a few rows, and which coin decided each slot."""

from __future__ import annotations

import numpy as np
import pytest

from abeval.assignment.switchbacks import Schedule, draw_slot_coins
from tests.relations import answer, relation

DATED = "cluster, slot, since_ms, variant, set_aside, in_period"
SETTINGS = relation("slot_ms, burn_in_ms", (100, 20))

ROWS = [
    # The burn-in of a slot may show both variants; slot 1 does so later, too.
    ("Rome", 0, 5, "a", None, True),
    ("Rome", 0, 19, "b", None, True),
    ("Rome", 0, 20, "a", None, True),
    ("Rome", 1, 30, "b", None, True),
    ("Rome", 1, 40, "a", None, True),
    ("Oslo", 0, 60, "b", None, True),
    # Rows that do not count, and a slot that has rows of the burn-in only.
    ("Oslo", 0, 70, "a", "not_compared", True),
    ("Oslo", 0, 70, "a", None, False),
    ("Oslo", 4, 10, "a", None, True),
    (None, 1, 70, "a", None, True),
]


def test_a_slot_is_mixed_where_it_shows_both_variants_after_the_burn_in() -> None:
    rows = answer("1_log/slots", dated=relation(DATED, *ROWS), experiment=SETTINGS).as_set()
    assert rows == {("Rome", 0, False), ("Rome", 1, True), ("Oslo", 0, False)}


def test_rows_of_a_slot_are_of_a_quarter_or_set_aside() -> None:
    slots = relation("of_cluster, of_slot, is_mixed", ("Rome", 0, False), ("Rome", 1, True))
    dated = relation(
        "cluster, slot, since_ms, set_aside",
        *[("Rome", 0, since, None) for since in (0, 19, 20, 39, 40, 79, 80)],
        ("Rome", 1, 19, None),
        ("Rome", 2, 70, None),
        ("Rome", 3, 0, None),
        (None, 1, 70, None),
        ("Rome", None, None, "null_time"),
    )
    answered = answer("1_log/switched", dated=dated, slots=slots, experiment=SETTINGS).as_set()
    # The last three columns are the part, the unit and the reason.
    assert {(row[1], row[2], *row[-3:]) for row in answered} == {
        (0, 0, "burn_in", "Rome|0|burn_in", "burn_in"),
        (0, 19, "burn_in", "Rome|0|burn_in", "burn_in"),
        (0, 20, "0", "Rome|0|0", None),
        (0, 39, "0", "Rome|0|0", None),
        (0, 40, "1", "Rome|0|1", None),
        (0, 79, "2", "Rome|0|2", None),
        (0, 80, "3", "Rome|0|3", None),
        (1, 19, "mixed_slot", "Rome|1|mixed_slot", "mixed_slot"),
        (2, 70, "2", "Rome|2|2", None),
        (3, 0, "burn_in", "Rome|3|burn_in", "burn_in"),
        (1, 70, "no_cluster", "|1|no_cluster", "no_cluster"),
        (None, None, "3", "Rome||3", "null_time"),
    }


@pytest.mark.parametrize("days", [1, 2, 6, 7, 8, 13, 14, 15, 21, 27, 28])
def test_each_coin_of_a_balanced_schedule_decides_two_days_at_one_time(days: int) -> None:
    slots = np.arange(days * 12)
    drawn = draw_slot_coins("balanced", slots, 12, days)
    for coin in np.unique(drawn.coin):
        own = slots[drawn.coin == coin]
        assert len({*(own % 12)}) == 1
        assert sorted(drawn.side[drawn.coin == coin]) in ([False, True], [False])
    alone = sum((drawn.coin == coin).sum() == 1 for coin in np.unique(drawn.coin))
    assert alone == 12 * (days % 2)
    if days % 14 == 0:
        assert all(np.ptp(slots[drawn.coin == coin] // 12) == 7 for coin in np.unique(drawn.coin))


@pytest.mark.parametrize(
    ("schedule", "coins", "sides"),
    [("coin", [0, 1, 2, 3], [0, 0, 0, 0]), ("alternating", [0, 0, 1, 1], [0, 1, 0, 1])],
)
def test_other_schedules_toss_a_coin_a_slot_or_a_day(
    schedule: Schedule, coins: list[int], sides: list[int]
) -> None:
    drawn = draw_slot_coins(schedule, [0, 1, 2, 3], 2, 2)
    assert (drawn.coin.tolist(), drawn.side.tolist()) == (coins, [bool(side) for side in sides])
