"""What a stopped or killed run leaves: nothing, or what the next run removes."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from abeval import locks
from abeval.locks import take
from abeval.scratch import Scratch
from tests.logs.small import small_log

EXPERIMENT = """\
name = "t"
unit = "user_id"
control = "a"
variants = {a = {}, b = {}}
logs.impressions.path = "log.parquet"
engine = {memory_limit = "1GB", threads = 1, temp_directory = "TEMPORARY"}
"""
RUN = """
import sys, time
from abeval.cli import main
from abeval.engines.duckdb import DuckDBEngine
def slow(engine, name, source, reads=None):
    # The first statement opens the database.
    engine.rows("select 1")
    print("begun", flush=True)
    engine.rows("select sum(hash(i) % 7) from range(5000000000) t(i)")
DuckDBEngine.add_log = slow
sys.argv = ["abeval", "analyze", "e.toml"]
main.main()
"""


def started(folder: Path, ignored: bool = False) -> subprocess.Popen[str]:
    """An analysis that has opened its database and is in the middle of a long query."""
    temporary = folder / "temporary"
    small_log().to_parquet(folder / "log.parquet")
    (folder / "e.toml").write_text(EXPERIMENT.replace("TEMPORARY", str(temporary)))
    # A run inherits from these tests whether a hangup is ignored.
    hangup = "SIG_IGN" if ignored else "SIG_DFL"
    begin = f"import signal; signal.signal(signal.SIGHUP, signal.{hangup})\n"
    run = subprocess.Popen(  # noqa: S603 (our own command)
        [sys.executable, "-c", begin + RUN], stdout=subprocess.PIPE, text=True, cwd=folder
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "begun\n"
    assert list(temporary.glob("abeval-run-*/run.duckdb"))
    return run


@pytest.mark.whole
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_of_a_scheduler_cleans_up(tmp_path: Path, number: int, code: int) -> None:
    with started(tmp_path) as run:
        run.send_signal(number)
        assert run.wait(60) == code
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.whole
def test_a_hangup_that_is_ignored_stays_so(tmp_path: Path) -> None:
    with started(tmp_path, ignored=True) as run:
        run.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        assert run.poll() is None
        run.terminate()
        assert run.wait(60) == 143


@pytest.mark.whole
def test_the_next_run_removes_the_database_of_a_killed_one(tmp_path: Path) -> None:
    with started(tmp_path) as run:
        run.kill()
    assert list((tmp_path / "temporary").iterdir())
    with started(tmp_path) as run:
        assert len(list((tmp_path / "temporary").iterdir())) == 1
        run.terminate()
        assert run.wait(60) == 143
    assert not list((tmp_path / "temporary").iterdir())


def test_the_folder_of_a_live_run_is_left_alone(tmp_path: Path) -> None:
    first = Scratch(tmp_path, "x-")
    (tmp_path / f"x-{'0' * 16}").mkdir()
    linked, mine = f"x-{'1' * 16}", "x-of_mine"
    (tmp_path / linked).symlink_to(tmp_path)
    (tmp_path / mine).mkdir()
    (tmp_path / mine / "lock").touch()
    second = Scratch(tmp_path, "x-")
    kept = {first.path.name, second.path.name, linked, mine}
    assert {path.name for path in tmp_path.iterdir()} == kept
    first.close()
    second.close()
    assert {path.name for path in tmp_path.iterdir()} == {linked, mine}


def test_a_folder_that_is_swept_away_before_its_lock_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, calls = os.open, 0

    def late(path: Path, *arguments: int, **keywords: int) -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            path.parent.rmdir()
        return opened(path, *arguments, **keywords)

    monkeypatch.setattr("os.open", late)
    scratch = Scratch(tmp_path, "x-")
    assert calls == 2
    assert (scratch.path / "lock").exists()
    scratch.close()


def test_a_lock_is_of_one_opening(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    with path.open() as first, path.open() as second:
        assert take(first.fileno())
        assert not take(second.fileno())


def test_windows_locks_by_filelock_and_removes_no_open_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, bool]] = []

    def lock_descriptor(descriptor: int, *, blocking: bool) -> bool:
        asked.append((descriptor, blocking))
        return False

    with monkeypatch.context() as on_windows:
        on_windows.setattr("sys.platform", "win32")
        on_windows.setitem(
            sys.modules, "filelock", SimpleNamespace(lock_descriptor=lock_descriptor)
        )
        there = runpy.run_path(str(locks.__file__))
        assert not there["take"](7)
        path = tmp_path / "lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)

        def remove() -> None:
            with pytest.raises(OSError, match="descriptor"):
                os.fstat(descriptor)
            path.unlink()

        there["release"](descriptor, remove)
        assert not path.exists()
    assert asked == [(7, False)]
