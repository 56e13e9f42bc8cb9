"""Closed days beside open ones: their rows, with every unit in its variant of now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.moment_rows import MOMENT_COLUMNS
from abeval.engines.duckdb import DuckDBEngine
from abeval.experiment.metrics import named_metrics
from abeval.logs.mapping import LogColumns
from abeval.logs.shape import LogShape
from abeval.store.closing import Closing
from abeval.store.definition import Definition
from abeval.store.parts import Parts
from abeval.store.refresh import Refresh
from tests.store.test_change import aggregates, days, same
from tests.store.test_refresh import experiment
from tests.store.test_state import STATE

SHAPE = LogShape(LogColumns("impressions", {}, {}), None, None, None, (), {})
CLOSED_DAYS = (
    ("2024-03-02", 9, 9, 90, 100, 190),
    ("2024-03-03", 8, 0, 80, 200, 290),
    ("2024-03-04", 7, 2, 70, 300, 390),
)
OPEN_DAY = ("2024-03-05", 5, 1, 50, 400, 490)


def by_day(*rows: tuple[str, str, int]) -> pd.DataFrame:
    """Moments of active days: a day, a variant, and its units, each of which is active once."""
    # Sums of values before the period, and of newness, are 0.
    ones = [not {"y0", "x0", "z"} & set(name.split("_")) for name in MOMENT_COLUMNS[6:]]
    filled = [
        ("active_days_per_user", "day", day, variant, 0, n, *(str(n * one) for one in ones))
        for day, variant, n in rows
    ]
    return pd.DataFrame(filled, columns=list(MOMENT_COLUMNS))


OPEN = aggregates(moments=by_day(("2024-03-05", "a", 5)), days=days(OPEN_DAY))
COUNTED = by_day(("2024-03-02", "a", 6), ("2024-03-02", "b", 3), ("2024-03-04", "a", 1))


@pytest.fixture
def engine() -> Iterator[DuckDBEngine]:
    started = DuckDBEngine()
    yield started
    started.close()


def completed(engine: DuckDBEngine, placed: str, now: str) -> Aggregates:
    """The aggregates of an open day with those of the closed ones.

    Args:
        engine: Where the units are.
        placed: The variant that the one unit was counted for, as SQL.
        now: The variant that it is analysed in.
    """
    engine.table(
        "closed_cells",
        f"select 'u1' as unit_id, true as in_period, {placed} as placed, "
        "cast(null as varchar) as set_aside",
    )
    engine.table("unit_names", "select 'u1' as logged_id, 1 as unit_id")
    engine.table("units", f"select 1 as unit_id, {now} as variant where {now} is not null")
    engine.table("seen_units", "select 1 as unit_id, date '2024-03-02' as first_day")
    plan = experiment(Path(), metrics=["active_days_per_user"]).experiment
    state = replace(
        STATE,
        moments=tuple(COUNTED.itertuples(index=False, name=None)),
        days=CLOSED_DAYS,
    )
    refreshed = Refresh({}, (), (), (), None, {}, state, (), None, False)
    closing = Closing(
        Parts(Path(), Definition("rows", ()), SHAPE, engine, "analysis"), plan, [], refreshed
    )
    return closing.with_closed_days(OPEN, named_metrics(plan))


@pytest.fixture
def moved_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """The closed days of the unit, as its parts have them: it was not there on the third."""
    sql = (
        "select m.unit_id, d.day, m.placed, m.variant, 1 as c_days, d.c_1 from moved_units m "
        "cross join (values (date '2024-03-02', 4), (date '2024-03-04', 6)) as d(day, c_1)"
    )
    monkeypatch.setattr(
        Closing, "_load_moved", lambda self, _: self.parts.engine.table("moved_day", sql)
    )


def rows(table: pd.DataFrame) -> set[tuple[Any, ...]]:
    return set(table.itertuples(index=False, name=None))


def test_rows_of_closed_days_are_carried_on_as_they_are(engine: DuckDBEngine) -> None:
    both = completed(engine, "'a'", "'a'")
    same(both.moments, pd.concat([OPEN.moments, COUNTED], ignore_index=True))
    same(both.days, days(*CLOSED_DAYS, OPEN_DAY))


@pytest.mark.usefixtures("moved_day")
@pytest.mark.parametrize(
    ("placed", "now", "counted", "counts"),
    [
        ("'a'", "'b'", (("02", "a", 5), ("02", "b", 4), ("04", "b", 1)), (0, 0)),
        ("'a'", "null", (("02", "a", 5), ("02", "b", 3)), (-1, -1)),
        ("null", "'b'", (("02", "a", 6), ("02", "b", 4), ("04", "a", 1), ("04", "b", 1)), (1, 1)),
    ],
)
def test_a_unit_that_moved_takes_its_closed_days_with_it(
    engine: DuckDBEngine,
    placed: str,
    now: str,
    counted: tuple[tuple[str, str, int], ...],
    counts: tuple[int, int],
) -> None:
    both = completed(engine, placed, now)
    expected = by_day(*((f"2024-03-{day}", variant, n) for day, variant, n in counted))
    assert rows(both.moments) == rows(pd.concat([OPEN.moments, expected]))
    more, new = counts
    first, second, third = CLOSED_DAYS
    changed = (
        (first[0], 9 + more, 9 + new, 90 + 4 * more, *first[4:]),
        second,
        (third[0], 7 + more, 2, 70 + 6 * more, *third[4:]),
    )
    same(both.days, days(*changed, OPEN_DAY))
