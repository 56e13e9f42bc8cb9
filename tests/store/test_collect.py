"""What a run over a store reads, what it carries on and keeps, and the folder that it makes."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from abeval.errors import ExperimentError
from abeval.experiment.metrics import named_metrics
from abeval.store import collect, scheme
from abeval.store.collect import Stored
from abeval.store.manifest import read_manifest, write_manifest
from abeval.store.totals import Totals, write_totals
from tests.logs import test_stretches as ramps
from tests.store.test_change import aggregates, units
from tests.store.test_parts import parts
from tests.store.test_refresh import counts, day_log, experiment, same, stored, write
from tests.store.test_scheme import parts as entries_of

ALL = frozenset({"unit", "ts", "click", "request_id", "item_id", "position", "score"})


def read_again(folder: Path, has: frozenset[str] = ALL, **entries: Any) -> str:
    """What every file is read again for."""
    files = [folder / f"{name}.parquet" for name in "ab"]
    for file, size in zip(files, (1_450_000, 800_000), strict=True):
        file.write_bytes(bytes(size))
    plan = experiment(folder, **entries).experiment
    shape: Any = SimpleNamespace(needs_met=lambda unit: has)
    notes = collect._read_again(plan, named_metrics(plan), shape, [str(file) for file in files])
    if not notes:
        return ""
    (note,) = notes
    start = "All 2 files (2.2 MB) were still read for: "
    assert note.startswith(start)
    return note.removeprefix(start).partition(". They need the rows")[0]


POSITIONS = "the check that positions count from 1"


@pytest.mark.parametrize(
    ("entries", "has", "said"),
    [
        ({}, ALL, ""),
        ({"metrics": ["ctr", "gauc", "sessions_per_user"]}, ALL, "gauc, sessions_per_user"),
        # What the log lacks is refused, and not read.
        ({"metrics": ["ctr", "gauc"]}, ALL - {"score"}, ""),
        ({"metrics": ["gauc"]}, frozenset({"unit", "score", "click"}), "gauc"),
        ({"metrics": ["ctr", "mrr"]}, ALL, f"mrr, {POSITIONS}"),
        ({"metrics": ["mrr"]}, frozenset({"request_id", "position", "click"}), f"mrr, {POSITIONS}"),
        ({"metrics": ["ctr", "mrr"]}, ALL - {"request_id"}, ""),
        ({"cleaning": {"duplicates": "keep"}}, ALL, "counting duplicates"),
        ({"cuts": {"scene": "tab", "land": "country"}}, ALL, "the cut scene, the cut land"),
    ],
)
def test_what_needs_rows_is_named(
    tmp_path: Path, entries: dict[str, Any], has: frozenset[str], said: str
) -> None:
    assert read_again(tmp_path, has, **entries) == said


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("writes", [False, True])
def test_a_run_that_writes_nothing_leaves_no_folder_of_its_own(
    tmp_path: Path, is_there: bool, writes: bool
) -> None:
    folder = tmp_path / "of" / "the day" / "store"
    if is_there:
        folder.mkdir(parents=True)

    def run() -> None:
        with collect._made(folder):
            assert folder.is_dir()
            if writes:
                (folder / "part-0.parquet").touch()
            raise KeyError

    with pytest.raises(KeyError):
        run()
    assert folder.exists() == (is_there or writes)
    assert folder.parent.exists()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = collect._made(tmp_path / "file" / "store")
    with pytest.raises(ExperimentError, match="store cannot be created: Not a directory"), store:
        pass


@pytest.mark.parametrize("path", ["log/*.csv", "https://example.org/day.parquet"])
def test_files_are_local_and_parquet(tmp_path: Path, path: str) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "day.csv").write_text("user_id\n1\n")
    plan = experiment(tmp_path, logs={"impressions": {"path": path}}).experiment
    with pytest.raises(ExperimentError, match="the impressions are not local Parquet files"):
        collect._files(plan)


def kept(folder: Path, count: int, may_total: bool = True) -> bool:
    """Whether totals of so many units are kept, of four parts with 100 rows each."""
    plan = experiment(folder, trust={"aa_runs": 0}).experiment
    entries = entries_of(100, 100, 100, 100)
    stored = Stored(parts=parts(folder), entries=entries, may_total=may_total)
    collect._keep(stored, plan, aggregates(facts={"units": count}, units=units(("a", count, 0))))
    return (folder / "totals").exists()


def test_totals_are_kept_if_the_units_of_one_more_file_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheme, "FEWEST_UNITS", 0)
    assert not kept(tmp_path, 200)
    assert not kept(tmp_path, 201, may_total=False)
    assert kept(tmp_path, 201)


def test_totals_are_carried_on_by_how_many_files_are_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheme, "FEWEST_UNITS", 0)
    plan = experiment(tmp_path, trust={"aa_runs": 0}).experiment
    entries = entries_of(100, 100, 100, 100)
    write_manifest(tmp_path, plan.name, {entry.file: entry for entry in entries})
    totals = Totals(
        frozenset(entry.file for entry in entries),
        aggregates(facts={"units": 201}, units=units(("a", 201, 0))),
    )
    assert collect._previous_totals(parts(tmp_path), plan, 5) is None
    write_totals(parts(tmp_path), plan, totals)
    for files, is_carried in ((4, True), (5, True), (6, False)):
        previous = collect._previous_totals(parts(tmp_path), plan, files)
        assert (previous is not None) == is_carried


def test_a_vanished_file_is_named_once(tmp_path: Path) -> None:
    for day in range(3):
        write(tmp_path, f"day-{day}", day_log(day))
    steps: list[str] = []
    loaded, store = experiment(tmp_path, trust={"aa_runs": 0}), tmp_path / "store"
    loaded.analyze(store=store, step=steps.append)
    read = [step for step in steps if step.startswith("reading new files")]
    assert read == [f"reading new files: {number} of 3" for number in (1, 2, 3)]
    for part in store.glob("part-*"):
        sums = [name for name in pd.read_parquet(part).columns if name.startswith("sum_")]
        # So are the sums named of every store that there is.
        assert sums
        assert all(re.fullmatch("sum_[0-9a-f]{32}", name) for name in sums)
    (tmp_path / "log" / "day-1.parquet").unlink()
    notes = loaded.analyze(store=store).notes
    assert any(note.endswith("were dropped: day-1.parquet.") for note in notes)
    notes = loaded.analyze(store=store).notes
    assert not any("dropped" in note for note in notes)


def test_what_is_carried_on_is_added_up_anew_where_the_split_changes(tmp_path: Path) -> None:
    log = ramps.world(per_day=150)
    log = log[log["ts"] >= "2026-01-05"]
    source = {"impressions": {"path": str(tmp_path / "log" / "*.parquet")}}
    loaded = ramps.scheduled(logs=source, pre_period=None, metrics=[{"name": "ctr"}])
    store, carried = tmp_path / "store", []
    for day in (5, 6, 7, 8):
        write(tmp_path, f"day-{day}", log[log["ts"].dt.day == day])
        result = loaded.analyze(store=store)
        carried.append(any("days were reused" in note for note in result.notes))
    assert carried == [False, True, False, False]
    whole = loaded.analyze()
    assert len(whole.ramps) == 2
    assert (result.ramps, result.scorecard) == (whole.ramps, whole.scorecard)


def test_a_file_that_two_paths_match_is_there_twice_and_nothing_is_carried_on(
    tmp_path: Path,
) -> None:
    logs = {"impressions": {"path": ["log/day-1.parquet", "log/*.parquet"]}}
    entries: dict[str, Any] = {"logs": logs, "trust": {"aa_runs": 0}}
    for day in (1, 2):
        write(tmp_path, f"day-{day}", day_log(day))
    stored(tmp_path, **entries)
    write(tmp_path, "day-3", day_log(3))
    notes = same(tmp_path, **entries)
    assert counts(notes) == (1, 2)
    assert len(notes) == 1


def test_a_part_says_its_days_and_whether_it_has_other_rows(tmp_path: Path) -> None:
    late = day_log(4)
    late.loc[:9, "ts"] = pd.NaT
    early = pd.concat([day_log(3), day_log(1)])
    for name, frame in (("early", early), ("late", late), ("none", late.iloc[:5])):
        write(tmp_path, name, frame)
    stored(tmp_path, trust={"aa_runs": 0})
    entries = read_manifest(tmp_path / "store", "daily").parts
    kinds = {Path(name).stem: (part.days, part.has_others) for name, part in entries.items()}
    assert kinds == {
        "early": (("2024-03-02", "2024-03-04"), False),
        "late": (("2024-03-05",), True),
        "none": ((), True),
    }


def test_a_file_is_read_with_the_types_of_all_files(tmp_path: Path) -> None:
    """Weights of one byte, whose square has two, beside larger ones."""
    for day, kind in ((2, "int8"), (3, "int64")):
        write(tmp_path, f"day-{day}", day_log(day).assign(weight=np.array(100, kind)))
    own = {"name": "heavy", "value": "weight * weight"}
    same(tmp_path, metrics=["ctr", own], trust={"aa_runs": 0})
