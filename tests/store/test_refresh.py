"""The store: whatever happens to the log, the result is that of a run without one."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import abeval
from abeval.engines.duckdb import DuckDBEngine
from abeval.errors import AbevalError, ExperimentError
from abeval.results.analysis import Result
from tests.cli.test_cli import call
from tests.examples import drawn
from tests.logs.small import small_log

METRICS = ["ctr", "clicks_per_user", "impressions_per_user"]
SEGMENTS = {"device": "device"}
CARRIED = ("State of units", "Sums of units")


def day_log(day: int, rows: int = 60, seed: int = 0) -> pd.DataFrame:
    """Rows of one day of March, some units on other variants and devices than before."""
    frame = small_log(rows, seed=seed * 100 + day)
    random = np.random.default_rng(seed + day)
    seconds = random.integers(0, 86_400, rows)
    times = pd.Timestamp("2024-03-01") + pd.to_timedelta(seconds + 86_400 * day, unit="s")
    return frame.assign(
        ts=times.as_unit("ms"),
        device=random.choice(["phone", "tv", "web"], rows),
        variant=np.where(random.random(rows) < 0.05, "b", frame["variant"]),
    )


def write(folder: Path, name: str, frame: pd.DataFrame) -> Path:
    """A file of the log."""
    (folder / "log").mkdir(exist_ok=True)
    file = folder / "log" / f"{name}.parquet"
    frame.to_parquet(file)
    return file


def experiment(folder: Path, **entries: Any) -> abeval.LoadedExperiment:
    names = entries.pop("metrics", METRICS)
    base: dict[str, Any] = {
        "name": "daily",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "period": {"start": "2024-03-02", "end": "2024-03-20"},
        "pre_period": {"start": "2024-03-01", "end": "2024-03-02"},
        "logs": {"impressions": {"path": "log/*.parquet"}},
        "cleaning": {"duplicates": "unchecked"},
        "segments": SEGMENTS,
        "metrics": [{"name": m} if isinstance(m, str) else m for m in names],
        "engine": {"threads": 1},
    }
    return abeval.define(folder, **{**base, **entries})


def told(result: Result) -> tuple[str, ...]:
    """What a result says of its store."""
    plain = (
        "Aggregate store",
        "The store",
        "Files that",
        "Damaged",
        "All ",
        "State of units",
        "Sums of units",
    )
    return tuple(note for note in result.notes if note.startswith(plain))


def same(folder: Path, **entries: Any) -> tuple[str, ...]:
    """Analyse with and without a store; the results must be equal. Returns what the store said.

    But for the audits, which read rows: a store has none.
    """
    loaded = experiment(folder, **entries)
    stored, whole = loaded.analyze(store=folder / "store"), loaded.analyze()
    plain = replace(stored, notes=tuple(n for n in stored.notes if n not in told(stored)))
    assert without_audits(plain).to_json() == without_audits(whole).to_json()
    assert {c.status for c in stored.trust if c.name in AUDITS} == {"skipped"}
    return told(stored)


AUDITS = (
    *("audits", "clock", "missing_hours", "late_data", "list_holes", "nulls", "served"),
    *("duplicates_by_variant", "set_aside_by_variant", "clicks_before", "click_delay"),
    *("silent_units", "served:timeout", "served:fallback", "served:stale"),
    *("influence", "crossover_policies"),
)


def without_audits(result: Result) -> Result:
    """A result without what rows alone can say; verdicts list the checks that warn."""
    trust = tuple(c for c in result.trust if c.name not in AUDITS)
    return replace(result, trust=trust, influence=(), verdicts=())


def stored(folder: Path, **entries: Any) -> None:
    """Analyse with a store alone, for what comes after it."""
    experiment(folder, **entries).analyze(store=folder / "store")


def counts(notes: tuple[str, ...]) -> tuple[int, int]:
    """Files read and kept."""
    words = notes[0].split()
    return int(words[2]), int(words[-3])


def test_days_are_added_one_at_a_time(tmp_path: Path) -> None:
    for day in range(3):
        write(tmp_path, f"day-{day}", day_log(day))
    assert counts(same(tmp_path)) == (3, 0)
    for day in range(3, 6):
        write(tmp_path, f"day-{day}", day_log(day))
        notes = same(tmp_path)
        assert counts(notes) == (1, day)
        assert f"2024-03-0{day + 1}" in notes[0]
    assert counts(same(tmp_path)) == (0, 6)


EVENTS = st.lists(
    st.tuples(st.sampled_from(["add", "late", "change", "vanish"]), st.integers(0, 5)),
    min_size=1,
    max_size=4,
)


@drawn(2)
@given(events=EVENTS, seed=st.integers(0, 50))
def test_whatever_happens_to_the_files(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, int]], seed: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    for day in range(3):
        write(folder, f"day-{day}", day_log(day, seed=seed))
    same(folder)
    for step, (what, day) in enumerate(events):
        files = sorted((folder / "log").iterdir())
        file = files[day % len(files)]
        match what:
            case "add":
                write(folder, f"day-{3 + step}", day_log(3 + step, seed=seed))
            case "late":
                rows = [day_log(day, 10, seed + 1), day_log(4, 10, seed + 2)]
                write(folder, f"late-{step}", pd.concat(rows))
            case "change":
                pd.concat([pd.read_parquet(file), day_log(day, 5, seed + 3)]).to_parquet(file)
            case "vanish" if len(files) > 2:
                file.unlink()
        read, _ = counts(same(folder))
        assert read <= 1


def test_a_vanished_file_is_dropped_and_named(tmp_path: Path) -> None:
    for day in range(4):
        write(tmp_path, f"day-{day}", day_log(day))
    stored(tmp_path)
    (tmp_path / "log" / "day-2.parquet").unlink()
    notes = same(tmp_path)
    assert counts(notes) == (0, 3)
    assert "day-2.parquet" in notes[1]
    assert len(list((tmp_path / "store").glob("part-*"))) == 3


def test_a_file_written_anew_with_the_same_size_is_read(tmp_path: Path) -> None:
    for day in range(3):
        write(tmp_path, f"day-{day}", day_log(day))
    stored(tmp_path)
    file = tmp_path / "log" / "day-1.parquet"
    stat = file.stat()
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000))
    assert counts(same(tmp_path)) == (1, 2)


CHANGES: list[tuple[dict[str, Any], int]] = [
    ({"alpha": 0.01}, 0),
    ({"inference": {"family": "bh"}}, 0),
    ({"metrics": ["ctr"]}, 0),
    ({"metrics": ["impressions_per_user", "ctr", "clicks_per_user"]}, 0),
    ({"metrics": [{"name": "ctr", "role": "guardrail", "margin": 0.02}, *METRICS[1:]]}, 0),
    ({"cleaning": {"duplicates": "unchecked", "crossover": "exclude"}}, 0),
    ({"cleaning": {"duplicates": "keep"}}, 0),
    ({"metrics": [*METRICS, {"name": "own", "value": "score * position"}]}, 3),
    ({"metrics": [*METRICS, {"name": "p90", "value": "position", "quantile": 0.9}]}, 3),
    ({"segments": {}}, 3),
    ({"segments": {"device": "upper(device)"}}, 3),
    ({"period": {"start": "2024-03-02", "end": "2024-03-03"}}, 3),
    ({"timezone": "Asia/Tokyo"}, 3),
]


@pytest.mark.parametrize(("change", "read"), CHANGES)
def test_a_changed_definition_recomputes_what_it_must(
    tmp_path: Path, change: dict[str, Any], read: int
) -> None:
    for day in range(3):
        write(tmp_path, f"day-{day}", day_log(day))
    stored(tmp_path)
    assert counts(same(tmp_path, **change)) == (read, 3 - read)


@pytest.mark.parametrize("log", ["items", "exposures"])
def test_other_logs_enter_by_what_they_say(tmp_path: Path, log: str) -> None:
    for day in range(3):
        write(tmp_path, f"day-{day}", day_log(day).drop(columns="category"))
    units = pd.DataFrame({"user_id": range(24), "variant": ["a", "b"] * 12})
    frames = {
        "items": pd.DataFrame({"item_id": range(12), "category": ["x", "y", "z"] * 4}),
        "exposures": units.assign(ts=pd.Timestamp("2024-03-01")),
    }
    logs = {"impressions": {"path": "log/*.parquet"}, log: {"path": f"{log}.parquet"}}
    more = {"name": "own", "value": "case when category = 'x' then 1 else 0 end"}
    entries = {"logs": logs, "metrics": [*METRICS, *([more] if log == "items" else [])]}
    frames[log].to_parquet(tmp_path / f"{log}.parquet")
    stored(tmp_path, **entries)
    frames[log].sample(frac=1, random_state=1).to_parquet(tmp_path / f"{log}.parquet")
    assert counts(same(tmp_path, **entries)) == (0, 3)
    frames[log].iloc[2:].to_parquet(tmp_path / f"{log}.parquet")
    assert counts(same(tmp_path, **entries)) == (3, 0)


def test_items_that_no_sum_reads_recompute_nothing(tmp_path: Path) -> None:
    write(tmp_path, "day", pd.concat(day_log(day) for day in range(3)).drop(columns="category"))
    items = pd.DataFrame({"item_id": range(12), "category": ["x", "y", "z"] * 4})
    logs = {"impressions": {"path": "log/*.parquet"}, "items": {"path": "items.parquet"}}
    items.to_parquet(tmp_path / "items.parquet")
    stored(tmp_path, logs=logs)
    items.iloc[2:].to_parquet(tmp_path / "items.parquet")
    assert counts(same(tmp_path, logs=logs)) == (0, 1)


def test_columns_that_come_late_are_null_before(tmp_path: Path) -> None:
    write(tmp_path, "day-0", day_log(0).drop(columns="score"))
    write(tmp_path, "day-1", day_log(1).astype({"position": "float32"}))
    write(tmp_path, "day-2", day_log(2)[sorted(day_log(2).columns)])
    assert counts(same(tmp_path, metrics=[*METRICS, {"name": "s", "value": "score"}])) == (3, 0)


def test_columns_of_folders_are_read(tmp_path: Path) -> None:
    for day in range(3):
        folder = tmp_path / "log" / f"country={day:02}" / "of=x"
        folder.mkdir(parents=True)
        day_log(day).to_parquet(folder / "a.parquet")
    entries = {
        "logs": {"impressions": {"path": "log/*/*/*.parquet"}},
        "segments": {"country": "country", "of": "of"},
    }
    assert counts(same(tmp_path, **entries)) == (3, 0)
    assert counts(same(tmp_path, **entries)) == (0, 3)


def test_metrics_that_read_rows_are_named(tmp_path: Path) -> None:
    for day in range(3):
        write(tmp_path, f"day-{day}", day_log(day))
    metrics = [*METRICS, "gauc", "sessions_per_user"]
    stored(tmp_path, metrics=metrics)
    write(tmp_path, "day-3", day_log(3))
    notes = same(tmp_path, metrics=metrics)
    assert counts(notes) == (1, 3)
    assert "All 4 files" in notes[-1]
    assert "gauc, sessions_per_user" in notes[-1]


@pytest.mark.parametrize("done", range(3))
def test_a_killed_run_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    for day in range(3):
        write(tmp_path, f"day-{day}", day_log(day))
    copies = 0
    run = DuckDBEngine.rows

    def killed(engine: DuckDBEngine, sql: str) -> Any:
        nonlocal copies
        copies += sql.startswith("copy")
        if copies <= done or not sql.startswith("copy"):
            return run(engine, sql)
        # The last quoted text of a copy is the file it writes.
        Path(sql.split("'")[-2]).write_bytes(b"PAR1 half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(DuckDBEngine, "rows", killed)
        with pytest.raises(KeyboardInterrupt):
            experiment(tmp_path).analyze(store=tmp_path / "store")
    # A run that is stopped removes its own draft; one that is killed leaves it to the next.
    assert not list((tmp_path / "store").glob("draft-*"))
    (tmp_path / "store").mkdir(exist_ok=True)
    (tmp_path / "store" / "draft-0123456789abcdef").write_bytes(b"PAR1 half")
    assert counts(same(tmp_path)) == (3 - done, done)
    assert not list((tmp_path / "store").glob("draft-*"))


@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_part_is_computed_anew(tmp_path: Path, damage: str) -> None:
    for day in range(3):
        write(tmp_path, f"day-{day}", day_log(day))
    stored(tmp_path)
    part = min((tmp_path / "store").glob("part-*"))
    data = bytearray(part.read_bytes())
    match damage:
        case "cut":
            part.write_bytes(data[:-10])
        case "flip":
            data[len(data) // 3] ^= 1
            part.write_bytes(data)
        case "gone":
            part.unlink()
    # Parts of closed days are not read, nor looked at, while their state is carried on.
    (tmp_path / "store" / "state.json").unlink()
    notes = same(tmp_path)
    assert counts(notes) == (1, 2)
    assert notes[1].startswith("Damaged parts of the store were recomputed: day-")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 3, "experiment": "daily"}', "\x00"])
def test_a_damaged_manifest_is_computed_anew(tmp_path: Path, text: str) -> None:
    write(tmp_path, "day", pd.concat(day_log(day) for day in range(3)))
    stored(tmp_path)
    (tmp_path / "store" / "manifest.json").write_text(text)
    notes = same(tmp_path)
    assert counts(notes) == (1, 0)
    assert notes[1] == "The store was recomputed: manifest.json cannot be read."


def test_another_format_is_computed_anew(tmp_path: Path) -> None:
    write(tmp_path, "day", pd.concat(day_log(day) for day in range(3)))
    stored(tmp_path)
    file = tmp_path / "store" / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 0}))
    assert "format 0" in same(tmp_path)[1]


def test_a_run_that_cannot_read_the_log_leaves_no_folder(tmp_path: Path) -> None:
    write(tmp_path, "0", day_log(0).drop(columns="user_id"))
    with pytest.raises(AbevalError, match="user_id"):
        experiment(tmp_path).analyze(store=tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_foreign_folders_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "day", pd.concat(day_log(day) for day in range(3)))
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "day.parquet").touch()
    with pytest.raises(ExperimentError, match=r"is not a store: it contains day\.parquet"):
        experiment(tmp_path).analyze(store=foreign)
    with pytest.raises(ExperimentError, match="is a file"):
        experiment(tmp_path).analyze(store=foreign / "day.parquet")
    stored(tmp_path)
    with pytest.raises(ExperimentError, match="store of the experiment 'daily', not of 'other'"):
        experiment(tmp_path, name="other").analyze(store=tmp_path / "store")


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ({"cleaning": {}}, "a duplicate may be in another file"),
        ({"unit": "row"}, "every row is its own unit"),
        ({"engine": {"name": "spark"}}, "it needs the engine duckdb"),
        ({"logs": {"impressions": {"path": "log/*.csv"}}}, "not local Parquet files"),
        (
            {
                "logs": {
                    "impressions": {"path": "log/*.parquet"},
                    "clicks": {"path": "log/*.parquet"},
                }
            },
            "a click of a separate log",
        ),
    ],
)
def test_what_does_not_add_up_by_file_is_refused(
    tmp_path: Path, entries: dict[str, Any], reason: str
) -> None:
    log = pd.concat(day_log(day) for day in range(3))
    log.to_csv(write(tmp_path, "day", log).with_suffix(".csv"))
    with pytest.raises(AbevalError, match=reason):
        experiment(tmp_path, **entries).analyze(store=tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_frame_has_no_fingerprint(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="a frame or a table"):
        experiment(tmp_path).analyze(logs={"impressions": day_log(0)}, store=tmp_path / "store")


def test_the_command_says_what_it_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "day", pd.concat(day_log(day) for day in range(3)))
    file = tmp_path / "experiment.toml"
    file.write_text(
        'name = "daily"\nunit = "user_id"\ncontrol = "a"\nvariants = { a = {}, b = {} }\n'
        'logs.impressions.path = "log/*.parquet"\ncleaning.duplicates = "unchecked"\n'
        '[[metrics]]\nname = "ctr"\n'
    )
    call(monkeypatch, "analyze", file, "--store", tmp_path / "store")
    assert "1 of 1 files" in capsys.readouterr().out
    call(monkeypatch, "analyze", file, "--store", tmp_path / "store")
    assert "0 of 1 files" in capsys.readouterr().out


def test_a_count_in_a_new_file_is_no_click(tmp_path: Path) -> None:
    write(tmp_path, "day-0", day_log(0))
    write(tmp_path, "day-1", day_log(1))
    stored(tmp_path)
    write(tmp_path, "day-2", day_log(2).assign(click=3))
    with pytest.raises(AbevalError, match="a click is 0 or 1"):
        experiment(tmp_path).analyze(store=tmp_path / "store")
