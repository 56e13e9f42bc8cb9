"""Totals after a change: the previous ones, less the changed units before, plus after."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.buckets import BucketSums
from abeval.aggregates.moment_rows import MOMENT_COLUMNS
from abeval.logs.checks import USED
from abeval.logs.stretches import ENTERED
from abeval.store.change import with_change

SUMS = len(MOMENT_COLUMNS) - 6
DAYS = ("day", "units", "new_units", "impressions", "first_ms", "last_ms")


def aggregates(**changes: Any) -> Aggregates:
    """Aggregates of no units, but for what is given."""
    base: dict[str, Any] = {
        "moments": moments(),
        "reach": pd.DataFrame(),
        "group_units": pd.DataFrame(),
        "catalogue_size": None,
        "units": units(),
        "accounts": accounts(),
        "days": days(),
        "refused": {},
        "facts": {},
        "caps": {},
        "entered": entered(),
    }
    return Aggregates(**{**base, **changes})


def moments(*rows: tuple[str, str, int, int]) -> pd.DataFrame:
    """Rows of a metric and a variant: its units, and what every sum of them is."""
    filled = [(m, "whole", "", v, 0, n, *[str(total)] * SUMS) for m, v, n, total in rows]
    return pd.DataFrame(filled, columns=list(MOMENT_COLUMNS))


def units(*rows: tuple[str, int, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["variant", "units", "crossovers"])


def accounts(*rows: tuple[str, str, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["log", "reason", "rows"])


def days(*rows: tuple[str, int, int, int, int, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(DAYS))


def entered(*rows: tuple[int, str, int, str, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(ENTERED))


def changed(name: str, total: Any, before: Any, after: Any) -> Any:
    """One aggregate after the change."""
    parts = (aggregates(**{name: part}) for part in (total, before, after))
    return getattr(with_change(*parts), name)


def same(table: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Whether two tables are the same, with rows numbered from 0."""
    pd.testing.assert_frame_equal(table, expected, check_dtype=False)


def test_sums_of_units_are_taken_out_and_added() -> None:
    table = changed(
        "moments",
        moments(("ctr", "b", 9, 100), ("ctr", "a", 5, 40), ("own", "a", 5, 7)),
        moments(("ctr", "b", 2, 30), ("own", "a", 5, 7)),
        moments(("ctr", "b", 3, 36), ("ctr", "c", 1, 4)),
    )
    same(table, moments(("ctr", "b", 10, 106), ("ctr", "a", 5, 40), ("ctr", "c", 1, 4)))


def test_a_variant_with_one_unit_stays_and_one_with_none_goes() -> None:
    table = changed(
        "units",
        units(("b", 9, 3), ("c", 4, 1), ("a", 5, 0)),
        units(("c", 4, 1), ("a", 4, 0)),
        units(("b", 2, 1)),
    )
    same(table, units(("b", 11, 4), ("a", 1, 0)))


def test_reasons_without_a_row_go_and_used_rows_stay_though_there_are_none() -> None:
    table = changed(
        "accounts",
        accounts(("impressions", "late", 8), ("impressions", USED, 5), ("impressions", "bot", 1)),
        accounts(("impressions", "late", 8), ("impressions", USED, 5)),
        accounts(("impressions", "null_unit", 2), ("impressions", "bot", 0)),
    )
    expected = (
        ("impressions", USED, 0),
        ("impressions", "bot", 1),
        ("impressions", "null_unit", 2),
    )
    same(table, accounts(*expected))


def test_days_are_in_order_and_keep_their_first_and_last_time() -> None:
    table = changed(
        "days",
        days(("2024-03-02", 9, 4, 90, 200, 290), ("2024-03-01", 5, 5, 50, 100, 190)),
        days(("2024-03-02", 2, 1, 20, 210, 220)),
        days(("2024-03-02", 3, 1, 25, 150, 280), ("2024-02-29", 1, 1, 3, 10, 20)),
    )
    expected = (
        ("2024-02-29", 1, 1, 3, 10, 20),
        ("2024-03-01", 5, 5, 50, 100, 190),
        ("2024-03-02", 10, 4, 95, 150, 290),
    )
    same(table, days(*expected))


def test_facts_that_one_side_lacks_count_as_nothing() -> None:
    total = {"units": 9, "clicks": 4, "crossovers": 5}
    facts = changed("facts", total, {"units": 2, "crossovers": 1}, {"units": 3, "late": 2})
    assert facts == {"units": 10, "clicks": 4, "crossovers": 4, "late": 2}


def test_counts_are_exact_beyond_what_doubles_hold() -> None:
    large = 2**53 + 1
    table = changed("units", units(("a", large, large)), units(("a", 2, 0)), units(("a", 2, 0)))
    same(table, units(("a", large, large)))
    table = changed("units", units(("a", large + 1, 0)), units(("a", large, 0)), units())
    same(table, units(("a", 1, 0)))


def test_sums_of_sub_buckets_are_taken_out_and_added() -> None:
    def buckets(count: float, total: float) -> dict[str, BucketSums]:
        return {"ctr": BucketSums(np.array([count, 1.0]), np.full((2, 5), total))}

    table = changed("buckets", buckets(9, 100), buckets(2, 30), buckets(3, 36))["ctr"]
    assert table.units.tolist() == [10, 1]
    assert table.sums.tolist() == [[106] * 5] * 2


def test_entries_without_a_unit_go() -> None:
    table = changed(
        "entered",
        entered((0, "2024-03-02", 5, "b", 4), (0, "2024-03-01", 7, "a", 3)),
        entered((0, "2024-03-02", 5, "b", 4), (0, "2024-03-01", 7, "a", 2)),
        entered((1, "2024-03-01", 7, "a", 2)),
    )
    same(table, entered((0, "2024-03-01", 7, "a", 1), (1, "2024-03-01", 7, "a", 2)))


@pytest.mark.parametrize("name", ["notes", "refused"])
def test_notes_and_refusals_are_those_of_now(name: str) -> None:
    parts = [("then",), ("before",), ("now",)] if name == "notes" else [{"m": ()}, {}, {"n": ()}]
    assert changed(name, *parts) == parts[2]
