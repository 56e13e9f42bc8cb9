"""Units that come back seldom: those with new rows alone are added up, to the same result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abeval.assignment import SUB_BUCKETS
from abeval.errors import LogError
from abeval.store import scheme
from tests.examples import drawn
from tests.logs.small import small_log
from tests.store import test_refresh
from tests.store.test_closing import ASSIGNED, CROSSOVER, refreshed
from tests.store.test_refresh import counts, experiment, write


@pytest.fixture(autouse=True)
def few_units_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheme, "FEWEST_UNITS", 0)


def seldom_log(day: int, rows: int = 60, units: int = 150, seed: int = 0) -> pd.DataFrame:
    """Rows of one day of March, of a few of many units, some on another variant than before."""
    frame = small_log(rows, units, seed=seed * 100 + day)
    seconds = np.random.default_rng(seed + day).integers(0, 86_400, rows)
    times = pd.Timestamp("2024-03-01") + pd.to_timedelta(seconds + 86_400 * day, unit="s")
    moves = (frame["user_id"] + day) % 5 == 0
    return frame.assign(
        ts=times.as_unit("ms"),
        device=np.array(["phone", "tv", "web"])[(frame["user_id"] + day) % 3],
        variant=np.where(moves, "b", frame["variant"]),
    )


def same(folder: Path, **entries: Any) -> tuple[str, ...]:
    """As of `test_refresh`, without replays, which deal out so few units one by one."""
    return test_refresh.same(folder, **{"trust": {"aa_runs": 0}, **entries})


def stored(folder: Path, **entries: Any) -> None:
    test_refresh.stored(folder, **{"trust": {"aa_runs": 0}, **entries})


def added_up(notes: tuple[str, ...]) -> int | None:
    """How many units were added up; None where all were."""
    said = [note for note in notes if note.startswith("Sums of units")]
    return int(said[0].split()[3].replace(",", "")) if said else None


def some_days(folder: Path, days: int) -> None:
    for day in range(days):
        write(folder, f"day-{day}", seldom_log(day))


@pytest.mark.parametrize("policy", CROSSOVER)
def test_only_units_with_new_rows_are_added_up(tmp_path: Path, policy: str) -> None:
    some_days(tmp_path, 4)
    assert added_up(same(tmp_path, **CROSSOVER[policy])) is None
    for day in range(4, 6):
        frame = seldom_log(day)
        write(tmp_path, f"day-{day}", frame)
        assert added_up(same(tmp_path, **CROSSOVER[policy])) == frame["user_id"].nunique()
    assert added_up(same(tmp_path, **CROSSOVER[policy])) == 0


def test_sums_are_those_of_one_pass_to_the_last_digit(tmp_path: Path) -> None:
    """Those of cubes too, of values so large that they need more than 128 bits."""
    large = {"name": "basket", "value": "4e6 + 1000 * dwell"}
    entries = {"metrics": ["ctr", large], "trust": {"aa_runs": 0}, "inference": {"adjust": "cuped"}}
    loaded = experiment(tmp_path, **entries)
    some_days(tmp_path, 4)
    loaded.analyze(store=tmp_path / "store")
    write(tmp_path, "day-4", seldom_log(4))
    kept, plain = tmp_path / "kept", tmp_path / "plain"
    said = loaded.analyze(store=tmp_path / "store", save_aggregates=kept)
    assert added_up(said.notes) is not None
    loaded.analyze(save_aggregates=plain)
    labels = ["metric", "slice", "cell", "variant"]
    of_store, of_log = (
        pd.read_parquet(next(folder.glob("moments*.parquet"))).sort_values(
            labels, ignore_index=True
        )
        for folder in (kept, plain)
    )
    pd.testing.assert_frame_equal(of_store, of_log)
    whole = of_log[(of_log.metric == "basket") & (of_log.slice == "whole")]
    assert all(abs(int(value)) > 2**127 for value in whole["y_y_y"])


def test_a_late_file_and_rows_of_nobody_are_added(tmp_path: Path) -> None:
    some_days(tmp_path, 4)
    stored(tmp_path)
    late = seldom_log(2, 20, seed=3).astype({"user_id": "Int64"})
    late.loc[:4, "user_id"] = None
    late.loc[5:9, "variant"] = "other"
    late.loc[10:14, "ts"] = pd.Timestamp("2024-05-01")
    write(tmp_path, "late", late)
    notes = same(tmp_path)
    assert counts(notes) == (1, 4)
    assert added_up(notes) == late["user_id"].nunique()


def test_a_log_without_times_is_added_up_by_units(tmp_path: Path) -> None:
    entries: dict[str, Any] = {"period": None, "pre_period": None}
    for day in range(6):
        frame = seldom_log(day).drop(columns="ts")
        write(tmp_path, f"part-{day}", frame)
        if day > 3:
            notes = same(tmp_path, **entries)
    assert added_up(notes) == frame["user_id"].nunique()


def test_units_that_leave_take_their_earlier_days_with_them(tmp_path: Path) -> None:
    some_days(tmp_path, 4)
    excluded = CROSSOVER["exclude"]
    stored(tmp_path, **excluded)
    moving = seldom_log(3)
    moving["variant"] = np.where(moving["variant"] == "a", "b", "a")
    moving["ts"] = (moving["ts"] + pd.Timedelta(days=1)).astype(moving["ts"].dtype)
    write(tmp_path, "day-4", moving)
    assert added_up(same(tmp_path, **excluded)) is not None


@pytest.mark.parametrize(
    "entries",
    [
        {"trust": {"aa_runs": 200}},
        {"inference": {"resample": "bootstrap"}},
        {
            "inference": {"adjust": "cuped"},
            "metrics": [
                {"name": "ctr", "covariates": ["impressions_per_user"]},
                "clicks_per_user",
                "impressions_per_user",
                {"name": "rate", "function": "clicks_per_user / impressions_per_user"},
            ],
        },
    ],
    ids=["replays", "resampled", "covariates and functions"],
)
def test_every_sum_over_units_is_carried_on(
    tmp_path: Path, entries: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("abeval.aggregates.buckets.UNITS_PER_BUCKET", 0)
    some_days(tmp_path, 4)
    stored(tmp_path, **entries)
    write(tmp_path, "day-4", seldom_log(4))
    assert added_up(same(tmp_path, **entries)) is not None


@pytest.mark.parametrize(
    "entries",
    [
        {"metrics": [{"name": "clicks_per_user", "cap": 0.9}]},
        {"metrics": ["ctr", "gauc"]},
        {"trust": {"aa_runs": 200}},
    ],
    ids=["a cap of all units", "rows", "replays of units"],
)
def test_what_is_no_sum_over_units_is_added_up_from_all(
    tmp_path: Path, entries: dict[str, Any]
) -> None:
    some_days(tmp_path, 4)
    stored(tmp_path, **entries)
    write(tmp_path, "day-4", seldom_log(4))
    assert added_up(same(tmp_path, **entries)) is None


def test_units_that_come_back_every_day_are_all_added_up(tmp_path: Path) -> None:
    for day in range(5):
        write(tmp_path, f"day-{day}", seldom_log(day, units=10))
        assert day == 0 or added_up(same(tmp_path)) is None


@pytest.mark.parametrize("damage", ["moments", "aggregates", "made_of", "part", "half"])
def test_totals_that_are_not_whole_are_not_believed(tmp_path: Path, damage: str) -> None:
    some_days(tmp_path, 4)
    stored(tmp_path)
    store = tmp_path / "store"
    match damage:
        case "moments":
            (table,) = (store / "totals").glob("moments*.parquet")
            table.write_bytes(b"PAR1")
        case "aggregates":
            file = store / "totals" / "aggregates.json"
            file.write_text(file.read_text().replace('"clicks": ', '"clicks": 1'))
        case "made_of":
            (store / "totals" / "made_of.json").write_text("[]")
        case "part":
            next(store.glob("part-*")).unlink()
        case "half":
            (store / "totals" / "aggregates.json").unlink()
    write(tmp_path, "day-4", seldom_log(4))
    notes = same(tmp_path)
    # A part that is made anew is, byte for byte, the one that was lost.
    assert added_up(notes) is None or damage == "part"
    write(tmp_path, "day-5", seldom_log(5))
    assert added_up(same(tmp_path)) is not None


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "late", "rewrite", "vanish", "alpha", "metric"]),
        st.integers(0, 9),
    ),
    min_size=2,
    max_size=6,
)


@drawn(2)
@given(events=EVENTS, policy=st.sampled_from(sorted(CROSSOVER)), seed=st.integers(0, 50))
def test_any_sequence_of_refreshes(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[tuple[str, int]],
    policy: str,
    seed: int,
) -> None:
    def log(day: int, rows: int = 60, extra: int = 0) -> pd.DataFrame:
        return seldom_log(day, rows, seed=seed + extra)

    refreshed(tmp_path_factory.mktemp("log"), events, policy, log, same)


def few_rows(day: int, users: range, variants: str = "ab") -> pd.DataFrame:
    """One row a unit, on one day of March."""
    frame = small_log(len(users), seed=day)
    return frame.assign(
        user_id=list(users),
        variant=[variants[user % len(variants)] for user in users],
        ts=pd.Timestamp("2024-03-01") + pd.Timedelta(days=day),
        device="tv",
    )


def test_nothing_is_left_once_every_unit_leaves(tmp_path: Path) -> None:
    for day in range(1, 7):
        write(tmp_path, f"day-{day}", few_rows(day, range(10 * day, 10 * day + 10)))
    stored(tmp_path, **CROSSOVER["exclude"])
    write(tmp_path, "day-8", few_rows(8, range(10, 70), "ba"))
    loaded = experiment(tmp_path, **{"trust": {"aa_runs": 0}, **CROSSOVER["exclude"]})
    for store in (None, tmp_path / "store"):
        with pytest.raises(LogError, match="all 120 impressions are set aside"):
            loaded.analyze(store=store)


@pytest.mark.parametrize("case", ["never analysed", "leaving"])
def test_replays_of_few_analysed_units_are_those_of_units(
    tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("abeval.aggregates.buckets.UNITS_PER_BUCKET", 60 / SUB_BUCKETS)
    entries: dict[str, Any] = {"trust": {"aa_runs": 100}}
    entries |= ASSIGNED if case == "never analysed" else CROSSOVER["exclude"]
    variants = "abccccccc" if case == "never analysed" else "ab"
    for day in range(1, 7):
        write(tmp_path, f"day-{day}", few_rows(day, range(30 * day, 30 * day + 30), variants))
    stored(tmp_path, **entries)
    left = range(30, 60) if case == "never analysed" else range(30, 180)
    write(tmp_path, "day-7", few_rows(7, left, variants[::-1]))
    assert added_up(same(tmp_path, **entries)) is None
