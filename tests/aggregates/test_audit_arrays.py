"""What the audits count of arrays of units, hours and lists."""

from __future__ import annotations

import numpy as np

from abeval.aggregates.aggregates import GroupRows, UnitShares
from abeval.aggregates.audit_arrays import (
    CLUSTERS,
    AuditedUnits,
    HourlyRows,
    find_machines,
    list_shares,
    sum_hours,
    sum_machine_shares,
)
from abeval.logs.unit_arrays import NONE, Labels

SECOND, HOUR = 1_000, 3_600_000
DAY_0 = 24 * 20_000
"""Hours from 1970 to a midnight, 2024-10-04."""


DAY_MS, HOUR_MS = 86_400_000, 3_600_000
NO_LISTS = np.zeros((2, 0), np.int64)


def units(*groups: int, variants: tuple[int, ...] = (), **segments: list[int]) -> AuditedUnits:
    """Units of `a`, or of other variants, each in a group."""
    size = len(groups)
    variant = np.array(variants or (0,) * size)
    return AuditedUnits(
        np.arange(size),
        variant,
        variant * CLUSTERS + np.array(groups),
        np.zeros(size, np.int64),
        {name: Labels(np.array(code, np.int32), ["x", "y"]) for name, code in segments.items()},
        ["a", "b"],
    )


def hours_of(
    unit: list[int], hour: list[int], impressions: list[int], untimed: int = 0
) -> HourlyRows:
    """Impressions by hour; of the last rows without a time."""
    known = np.unique(hour[: len(hour) - untimed]).astype(np.int64)
    place = np.searchsorted(known, hour)
    place[len(hour) - untimed :] = NONE
    rows = np.array(impressions, np.int64)
    at = np.array(hour, np.int64) * HOUR_MS
    return HourlyRows(np.array(unit, np.int64), known, place, at, at, rows, rows // 2)


def columns(**values: list[int]) -> dict[str, np.ndarray]:
    return {name: np.array(column, np.int64) for name, column in values.items()}


def counted(rows: list[UnitShares], audit: str) -> dict[str, tuple[int, ...]]:
    """Cell → units, y and x of `a`."""
    return {
        row.cell: (row.sums.units, row.y, row.x)
        for row in rows
        if row.audit == audit and row.variant == "a"
    }


def summed(audit: list[GroupRows]) -> dict[tuple[int, str, int], tuple[int, int]]:
    """Split period, value and time → groups with rows, and rows, of `a`."""
    return {
        (part.split_period, part.value, time): (np.count_nonzero(groups), groups.sum())
        for part in audit
        for time, groups in zip(part.times.tolist(), part.rows[:, 0], strict=True)
        if groups.any()
    }


def test_hours_of_a_ramp_are_counted_by_the_stretch_in_which_units_entered() -> None:
    shown = hours_of([0, 0, 1], [DAY_0, DAY_0 + 6, DAY_0 + 6], [3, 2, 5])
    both = units(0, 1)._replace(split_period=np.array([0, 1]))
    audits = sum_hours(both, shown)
    assert summed(audits["hour"]) == {
        (0, "", DAY_0): (1, 3),
        (0, "", DAY_0 + 6): (1, 2),
        (1, "", DAY_0 + 6): (1, 5),
    }
    clock = summed(audits["clock:"])
    assert (clock[0, "", 6], clock[1, "", 6]) == ((1, 2), (1, 5))


def test_hours_of_the_day_are_counted_by_segment_and_rows_without_a_time_are_not() -> None:
    shown = hours_of([0, 0, 1, 1], [DAY_0, DAY_0 + 30, DAY_0 + 12, 0], [3, 2, 5, 9], untimed=1)
    audits = sum_hours(units(0, 1, device=[0, 1]), shown)
    assert summed(audits["clock:"]) == {(0, "", 0): (1, 3), (0, "", 6): (1, 2), (0, "", 12): (1, 5)}
    assert summed(audits["clock:device"]) == {
        (0, "x", 0): (1, 3),
        (0, "x", 6): (1, 2),
        (0, "y", 12): (1, 5),
    }
    assert all(part.rows.shape == (24, 2, CLUSTERS) for part in audits["clock:device"])


def shown(*lists: tuple[int, int, str], first: int = 1) -> dict[str, np.ndarray]:
    """Lists of three items: unit, second, and what was shown."""
    numbers = [[ord(item) for item in items] for _, _, items in lists]
    size = len(lists)
    return columns(
        unit=[unit for unit, _, _ in lists],
        time_ms=[at * SECOND for _, at, _ in lists],
        first_place=[first] * size,
        last_place=[first + 2] * size,
        places=[7 << first] * size,
        shown=[len(items) for _, _, items in lists],
        items=[sum(items) for items in numbers],
        items_placed=[sum(n * item for n, item in enumerate(items)) for items in numbers],
        items_twice_placed=[sum(n * n * item for n, item in enumerate(items)) for items in numbers],
    )


def test_lists_are_repeated_at_once_again_to_others_and_most() -> None:
    lists = shown(
        *((0, 0, "abc"), (0, 10, "abc"), (0, 21, "abc"), (0, 40, "acb"), (0, 50, "abc")),
        *((1, 0, "xyz"), (1, 5, "abc"), (2, 0, "uvw"), (2, 5, "ab")),
    )
    rows = list(list_shares(units(0, 1, 2), lists))
    assert counted(rows, "list_repeat") == {
        "at once": (2, 1, 5),
        "again": (2, 1, 5),
        "one": (3, 5, 8),
        "of others": (3, 5, 8),
    }
    nameless = {**lists, **{name: lists[name] * 0 for name in lists if name.startswith("items")}}
    assert counted(list(list_shares(units(0, 1, 2), nameless)), "list_repeat") == {}


def test_a_list_that_begins_at_0_or_behind_1_is_counted_as_such() -> None:
    for first, starts in ((0, (2, 0)), (1, (0, 0)), (2, (0, 2)), (5, (0, 2))):
        rows = list(list_shares(units(0, 1), shown((0, 0, "abc"), (1, 0, "b"), first=first)))
        found = counted(rows, "list_start")
        assert (found["0"][1], found["2"][1]) == starts
        assert counted(rows, "holes")[""] == (2, 0, 6)


def machines_of(gaps: list[float]) -> tuple[bool, bool, int]:
    """Whether a unit is looked at, and is regular, and the usual distance of its lists."""
    time = np.round(np.cumsum([0.0, *gaps]) * SECOND).astype(np.int64)
    found = find_machines(units(0, 1), hours_of([], [], []), np.ones_like(time), time, DAY_MS)
    assert not found.regular[0]
    return bool(found.looked_at[1]), bool(found.regular[1]), int(found.gap_ms[1])


def test_lists_at_one_distance_are_of_a_machine_and_those_of_people_are_not() -> None:
    random = np.random.default_rng(1)
    assert machines_of([10.0] * 50) == (True, True, 10_000)
    assert machines_of([10.0] * 49) == (False, False, 0)
    assert machines_of((10 * random.uniform(0.8, 1.2, 200)).tolist())[1]
    nights = [10.0] * 100 + [40_000.0] * 14 + [200_000.0] * 5
    assert machines_of(nights)[:2] == (True, True)
    people = [machines_of((60 * random.lognormal(0, 0.7, 60)).tolist()) for _ in range(300)]
    assert {(looked_at, regular) for looked_at, regular, _ in people} == {(True, False)}


def test_a_distance_longer_than_what_was_read_at_once_is_none() -> None:
    unit, time = np.zeros(60, np.int64), np.arange(60) * 2 * HOUR_MS
    of_hours = [
        find_machines(units(0), hours_of([], [], []), unit, time, h * HOUR_MS) for h in (1, 2)
    ]
    assert [bool(one.regular[0]) for one in of_hours] == [False, True]


def test_who_is_active_in_22_hours_of_a_day_is_no_person() -> None:
    hours = [*range(DAY_0, DAY_0 + 22), *range(DAY_0, DAY_0 + 42, 2), *[DAY_0] * 9, 0]
    shown = hours_of([0] * 22 + [1] * 31, hours, [1] * 53, untimed=1)
    found = find_machines(units(0, 1), shown, *NO_LISTS, DAY_MS)
    assert found.awake.tolist() == [True, False]


def test_machines_make_a_share_of_all_that_their_variant_has() -> None:
    everyone = units(0, 1, 0, 2, variants=(0, 0, 0, 1))
    by_day_and_night = [*range(DAY_0, DAY_0 + 22)]
    shown = hours_of([0, 1, 3, *[2] * 22], [DAY_0] * 3 + by_day_and_night, [10, 20, 7, *[6] * 22])
    found = find_machines(everyone, shown, *NO_LISTS, DAY_MS)
    rows = list(sum_machine_shares(everyone, found, shown, has_clicks=True))
    assert counted(rows, "machine") == {
        "impressions": (3, 132, 162),
        "clicks": (3, 66, 81),
        "gap": (0, 0, 1),
    }
    assert [row.sums for row in rows if row.cell == "clicks"] == [(3, 1, 1), (1, 0, 0)]
