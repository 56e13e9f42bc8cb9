"""Closed days beside open ones: their rows, with every unit in its variant of now."""

from __future__ import annotations

import hashlib
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
from abeval.store.manifest import Entry
from abeval.store.parts import Parts
from abeval.store.refresh import Refresh
from abeval.store.state import State, read_state
from tests.store.test_change import aggregates, days, same
from tests.store.test_refresh import experiment
from tests.store.test_state import STATE, part

SHAPE = LogShape(LogColumns("impressions", {}, {}), None, None, None, (), {})
CLOSED_DAYS = (
    ("2024-03-02", 9, 9, 90, 100, 190),
    ("2024-03-03", 8, 0, 80, 200, 290),
    ("2024-03-04", 7, 2, 70, 300, 390),
)
NO_ENGINE: Any = None
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


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of closed cells is written as far as its name."""
    cells = hashlib.sha256(b"cells").hexdigest()

    def write(closing: Closing, last_day: str) -> tuple[str, str]:
        file = f"closed-{last_day}.parquet"
        (closing.parts.folder / file).write_bytes(b"cells")
        return file, cells

    monkeypatch.setattr(Closing, "_write_cells", write)


def close(
    folder: Path, *entries: Entry, previous: tuple[str, ...] = (), state: State | None = None
) -> State | None:
    """The state after a run that was over these parts."""
    plan = experiment(Path(), metrics=["active_days_per_user"]).experiment
    refreshed = Refresh({}, (), (), (), None, {}, state, previous, None, False)
    store = Parts(folder, Definition("rows", ()), SHAPE, NO_ENGINE, "analysis")
    whole = COUNTED.assign(slice="whole", cell="")
    moments = pd.concat([COUNTED, whole, OPEN.moments], ignore_index=True)
    both = aggregates(moments=moments, days=days(*CLOSED_DAYS, OPEN_DAY))
    Closing(store, plan, entries, refreshed).close(both)
    return read_state(folder)


@pytest.mark.usefixtures("written")
def test_the_state_has_the_days_up_to_the_last_closed_one(tmp_path: Path) -> None:
    entries = (
        part("2", 2),
        part("4", 4, 5),
        part("5", 5),
        part("6", 5, has_others=True),
        part("7", has_others=True),
        part("8"),
    )
    state = close(tmp_path, *entries, previous=("part-2", "part-4", "part-7", "part-8"))
    assert state is not None
    assert state.last_day == "2024-03-04"
    assert state.parts == tuple(entry.file for entry in entries)
    assert state.closed_parts == ("part-2", "part-4", "part-6", "part-7", "part-8")
    assert rows(pd.DataFrame(state.moments)) == rows(COUNTED)
    assert state.days == CLOSED_DAYS
    # One day less is closed where the newest file reaches back.
    state = close(tmp_path, *entries, part("9", 4), previous=state.parts)
    assert state is not None
    assert state.last_day == "2024-03-03"
    assert state.closed_parts == ("part-2", "part-6", "part-7", "part-8")
    assert {row[2] for row in state.moments} == {"2024-03-02"}
    assert state.days == CLOSED_DAYS[:2]


@pytest.mark.usefixtures("written")
def test_no_state_is_written_without_a_day_to_close_or_a_new_part(tmp_path: Path) -> None:
    assert close(tmp_path, part("7", has_others=True)) is None
    first = close(tmp_path, part("2", 2))
    assert first is not None
    (tmp_path / "state.json").unlink()
    assert close(tmp_path, part("2", 2), state=first) is None
    later = close(tmp_path, part("2", 2), part("3", 3), state=first)
    assert later is not None
    assert later.last_day == "2024-03-03"


@pytest.mark.usefixtures("written")
def test_the_closed_cells_of_earlier_runs_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = Path.glob
    # One of them is removed meanwhile.
    monkeypatch.setattr(Path, "glob", lambda path, name: [*listed(path, name), path / "closed-9"])
    for name in (f"closed-{'0' * 32}.parquet", "closed-notes.parquet", "part-2"):
        (tmp_path / name).touch()
    close(tmp_path, part("2", 2))
    names = {path.name for path in tmp_path.iterdir()}
    kept = {"closed-notes.parquet", "part-2"}
    assert names == {"closed-2024-03-02.parquet", "state.json", *kept}
