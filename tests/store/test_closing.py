"""Closed days: carried on where they can be, and the result is that of a run without a store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abeval.errors import AbevalError
from abeval.logs import placing
from abeval.store.closing import Closing
from abeval.store.state import State
from tests.examples import drawn
from tests.store.test_refresh import METRICS, counts, day_log, experiment, same, stored, write

ASSIGNED = {"assignment": {"salt": "daily"}}
CROSSOVER: dict[str, dict[str, Any]] = {
    "first": {},
    "exclude": {"cleaning": {"duplicates": "unchecked", "crossover": "exclude"}},
    "as_assigned": {
        "cleaning": {"duplicates": "unchecked", "crossover": "as_assigned"},
        **ASSIGNED,
    },
    "assigned": ASSIGNED,
}


def carried(notes: tuple[str, ...]) -> tuple[int, int] | None:
    """Days that were carried on, and days that were added up; None where all were added up."""
    for note in notes:
        words = note.split()
        if "closed days were reused" in note:
            return int(words[3]), int(words[8])
    return None


def anew(notes: tuple[str, ...]) -> str:
    """Why days were not carried on."""
    said = [note for note in notes if "all days were added up again" in note]
    return said[0] if said else ""


def some_days(folder: Path, days: int) -> None:
    for day in range(days):
        write(folder, f"day-{day}", day_log(day))


@pytest.mark.parametrize("policy", CROSSOVER)
def test_a_new_day_is_added_to_those_that_are_carried_on(tmp_path: Path, policy: str) -> None:
    some_days(tmp_path, 2)
    assert carried(same(tmp_path, **CROSSOVER[policy])) is None
    for day in range(2, 5):
        write(tmp_path, f"day-{day}", day_log(day))
        assert carried(same(tmp_path, **CROSSOVER[policy])) == (day, 1)
    assert carried(same(tmp_path, **CROSSOVER[policy])) == (5, 0)


@pytest.mark.parametrize("policy", ["first", "exclude"])
def test_units_that_move_are_taken_out_of_closed_days(
    tmp_path: Path, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_days(tmp_path, 4)
    stored(tmp_path, **CROSSOVER[policy])
    moving = day_log(4)
    moving["variant"] = np.where(moving["variant"] == "a", "b", "a")
    write(tmp_path, "day-4", moving)
    corrected: list[str] = []
    load = Closing._load_moved

    def seen(closing: Closing, state: State) -> None:
        corrected.append(state.last_day)
        load(closing, state)

    monkeypatch.setattr(Closing, "_load_moved", seen)
    assert carried(same(tmp_path, **CROSSOVER[policy])) == (4, 1)
    assert corrected == (["2024-03-04"] if policy == "exclude" else [])
    write(tmp_path, "day-5", day_log(5))
    assert carried(same(tmp_path, **CROSSOVER[policy])) == (5, 1)


def test_files_that_overlap_keep_their_days_open(tmp_path: Path) -> None:
    for day in range(6):
        tail = day_log(day, 8, seed=7) if day else day_log(0, 8)
        write(tmp_path, f"day-{day}", pd.concat([day_log(day + 1), tail]))
        notes = same(tmp_path)
        if day > 2:
            # The file before this one reached back to a day that so stayed open.
            assert carried(notes) == (day - 1, 3)


def test_a_late_event_reopens_every_day_and_says_so(tmp_path: Path) -> None:
    some_days(tmp_path, 4)
    stored(tmp_path)
    write(tmp_path, "late", day_log(2, 10, seed=3))
    notes = same(tmp_path)
    assert counts(notes) == (1, 4)
    assert "new files have rows of 2024-03-03, a closed day" in anew(notes)
    write(tmp_path, "day-4", day_log(4))
    assert carried(same(tmp_path)) is not None


def test_a_changed_file_of_closed_days_is_noticed(tmp_path: Path) -> None:
    some_days(tmp_path, 4)
    stored(tmp_path)
    write(tmp_path, "day-1", day_log(1, seed=5))
    assert "files of closed days changed or are gone" in anew(same(tmp_path))
    (tmp_path / "log" / "day-1.parquet").unlink()
    same(tmp_path)


def test_two_files_of_the_same_rows_are_two(tmp_path: Path) -> None:
    some_days(tmp_path, 4)
    stored(tmp_path)
    write(tmp_path, "again", day_log(1))
    assert "two files have the same sums" in anew(same(tmp_path))
    write(tmp_path, "day-4", day_log(4))
    assert carried(same(tmp_path)) is None


def test_today_may_be_written_anew_all_day_long(tmp_path: Path) -> None:
    some_days(tmp_path, 4)
    stored(tmp_path)
    for hour in range(1, 4):
        write(tmp_path, "day-4", day_log(4, 20 * hour))
        notes = same(tmp_path)
        # Seen to change once, it stays open.
        assert carried(notes) == (None if hour == 2 else (4, 1))


@pytest.mark.parametrize(
    ("change", "goes_on"),
    [
        ({"alpha": 0.01}, True),
        ({"inference": {"family": "bh"}}, True),
        ({"metrics": [{"name": "ctr", "role": "guardrail", "margin": 0.02}, *METRICS[1:]]}, True),
        ({"metrics": ["ctr"]}, False),
        ({"cleaning": {"duplicates": "unchecked", "crossover": "exclude"}}, False),
        ({"segments": {}}, False),
        ({"metrics": [*METRICS, "gauc"]}, False),
    ],
)
def test_what_another_analysis_carries_on(
    tmp_path: Path, change: dict[str, Any], goes_on: bool
) -> None:
    some_days(tmp_path, 4)
    stored(tmp_path)
    write(tmp_path, "day-4", day_log(4))
    assert (carried(same(tmp_path, **change)) is not None) == goes_on
    write(tmp_path, "day-5", day_log(5))
    same(tmp_path)


def test_rows_of_no_day_are_carried_on(tmp_path: Path) -> None:
    for day in range(6):
        frame = day_log(day)
        frame.loc[:3, "ts"] = pd.NaT
        frame.loc[4:7, "ts"] = pd.Timestamp("1970-01-01")
        frame.loc[8:9, "variant"] = "none of ours"
        write(tmp_path, f"day-{day}", frame)
        assert day < 2 or carried(same(tmp_path)) == (None if day == 2 else (day, 1))


def test_a_log_without_a_period_is_carried_on(tmp_path: Path) -> None:
    for day in range(5):
        frame = day_log(day)
        frame.loc[:3, "ts"] = pd.NaT
        write(tmp_path, f"day-{day}", frame)
        notes = same(tmp_path, period=None, pre_period=None)
        assert day == 0 or carried(notes) == (day, 1)


def test_capped_covariates_and_resampled_metrics_are_carried_on(tmp_path: Path) -> None:
    metrics = [
        {"name": "ctr", "covariates": ["impressions_per_user"]},
        {"name": "clicks_per_user", "cap": 0.9},
        "active_days_per_user",
        "dwell_per_click",
    ]
    entries: dict[str, Any] = {
        "metrics": metrics,
        "inference": {"adjust": "cuped"},
        "pre_period": {"start": "2024-03-01", "end": "2024-03-03"},
        "period": {"start": "2024-03-03", "end": "2024-03-20"},
    }
    for day in range(6):
        write(tmp_path, f"day-{day}", day_log(day, 120))
        if day == 3:
            stored(tmp_path, **entries)
        if day > 3:
            notes = same(tmp_path, **entries)
    assert carried(notes) == (5, 1)


def test_exposures_are_carried_on(tmp_path: Path) -> None:
    units = pd.DataFrame({"user_id": range(24), "ts": pd.Timestamp("2024-03-03 12:00")})
    logs = {"impressions": {"path": "log/*.parquet"}, "exposures": {"path": "exposures.parquet"}}
    units.assign(variant=["a", "b"] * 12).to_parquet(tmp_path / "exposures.parquet")
    for day in range(5):
        write(tmp_path, f"day-{day}", day_log(day))
        assert day < 2 or carried(same(tmp_path, logs=logs)) == (None if day == 2 else (day, 1))


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "late", "rewrite", "vanish", "alpha", "metric", "timezone"]),
        st.integers(0, 9),
    ),
    min_size=2,
    max_size=6,
)


def refreshed(
    folder: Path,
    events: list[tuple[str, int]],
    policy: str,
    log: Callable[..., pd.DataFrame],
    check: Callable[..., object],
) -> None:
    """Let events happen to a log of three days, and check the store after each.

    Args:
        folder: Of the log.
        events: What happens, and where.
        policy: Of crossovers.
        log: Rows of a day, by `day`, `rows` and `extra` to other seeds.
        check: Analyses the folder with and without a store.
    """
    entries: dict[str, Any] = dict(CROSSOVER[policy])
    for day in range(3):
        write(folder, f"day-{day}", log(day))
    check(folder, **entries)
    for step, (what, place) in enumerate(events):
        files = sorted((folder / "log").iterdir())
        file = files[place % len(files)]
        match what:
            case "add":
                write(folder, f"day-{3 + step}", log(3 + step))
            case "late":
                write(folder, f"late-{step}", log(place % 4, rows=10, extra=1))
            case "rewrite":
                pd.read_parquet(file).head(40).to_parquet(file)
            case "vanish" if len(files) > 2:
                file.unlink()
            case "alpha":
                entries["alpha"] = 0.01 * (1 + place)
            case "metric":
                entries["metrics"] = [*METRICS, "active_days_per_user"][: 2 + place % 3]
            case "timezone":
                entries["timezone"] = ["UTC", "Asia/Tokyo"][place % 2]
        check(folder, **entries)


@drawn(2)
@given(events=EVENTS, policy=st.sampled_from(sorted(CROSSOVER)), seed=st.integers(0, 50))
def test_any_sequence_of_refreshes(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[tuple[str, int]],
    policy: str,
    seed: int,
) -> None:
    def log(day: int, rows: int = 60, extra: int = 0) -> pd.DataFrame:
        return day_log(day, rows, seed=seed + extra)

    refreshed(tmp_path_factory.mktemp("log"), events, policy, log, same)


@pytest.mark.parametrize(
    "damage", ["cut state", "flip state", "no state", "flip cells", "no cells", "old state", "[]"]
)
def test_a_state_that_is_not_whole_is_not_believed(tmp_path: Path, damage: str) -> None:
    some_days(tmp_path, 3)
    stored(tmp_path)
    store = tmp_path / "store"
    old = (store / "state.json").read_bytes()
    write(tmp_path, "day-3", day_log(3))
    stored(tmp_path)
    state, (cells,) = store / "state.json", store.glob("closed-*")
    match damage:
        case "cut state":
            state.write_bytes(state.read_bytes()[:-9])
        case "flip state":
            state.write_text(state.read_text().replace("2024-03-04", "2024-03-03"))
        case "no state":
            state.unlink()
        case "flip cells":
            data = bytearray(cells.read_bytes())
            data[len(data) // 3] ^= 1
            cells.write_bytes(data)
        case "no cells":
            cells.unlink()
        case "old state":
            state.write_bytes(old)
        case "[]":
            state.write_text("[]\n[]")
    write(tmp_path, "day-4", day_log(4))
    notes = same(tmp_path)
    assert counts(notes) == (1, 4)
    assert carried(notes) is None
    write(tmp_path, "day-5", day_log(5))
    assert carried(same(tmp_path)) == (5, 1)


def test_a_run_killed_before_its_state_is_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_days(tmp_path, 3)
    stored(tmp_path)
    write(tmp_path, "day-3", day_log(3))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(placing, "_write_units", killed)
        with pytest.raises(KeyboardInterrupt):
            experiment(tmp_path).analyze(store=tmp_path / "store")
    notes = same(tmp_path)
    assert counts(notes) == (0, 4)
    assert carried(notes) == (3, 1)


def test_damaged_parts_of_closed_days_stop_a_run_that_needs_them(tmp_path: Path) -> None:
    some_days(tmp_path, 4)
    entries = CROSSOVER["exclude"]
    stored(tmp_path, **entries)
    store = tmp_path / "store"
    parts = json.loads((store / "manifest.json").read_text())["parts"]
    (store / parts["log/day-1.parquet"]["file"]).write_bytes(b"PAR1")
    moving = day_log(4)
    moving["variant"] = np.where(moving["variant"] == "a", "b", "a")
    write(tmp_path, "day-4", moving)
    with pytest.raises(AbevalError, match="are damaged"):
        experiment(tmp_path, **entries).analyze(store=store)
    assert "Damaged parts" in " ".join(same(tmp_path, **entries))


def test_a_unit_that_is_seen_first_in_no_variant(tmp_path: Path) -> None:
    some_days(tmp_path, 2)
    start = pd.Timestamp("2024-03-02").as_unit("ms")
    seen: list[tuple[str, str | None, int]] = [
        ("day-2", None, 0),
        ("day-2", "b", 30),
        ("day-3", "a", 60),
        ("day-4", "b", 90),
    ]
    for name in ("day-2", "day-3", "day-4"):
        rows = [(variant, hours) for file, variant, hours in seen if file == name]
        own = day_log(2, len(rows)).assign(
            user_id=1000,
            variant=[variant for variant, _ in rows],
            ts=[start + pd.Timedelta(hours=hours) for _, hours in rows],
        )
        write(tmp_path, name, own)
        notes = same(tmp_path, **ASSIGNED)
    assert carried(notes) is not None
