"""One run at a time on one store."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from abeval.errors import ExperimentError
from abeval.store.lock import held
from tests.store.test_refresh import counts, day_log, experiment, same, write


def test_a_second_run_is_refused_and_the_first_one_goes_on(tmp_path: Path) -> None:
    write(tmp_path, "day", day_log(1))
    same(tmp_path)
    with held(tmp_path / "store"):
        with pytest.raises(ExperimentError, match=f"in use by process {os.getpid()} on"):
            experiment(tmp_path).analyze(store=tmp_path / "store")
        assert (tmp_path / "store" / "lock").exists()
    assert counts(same(tmp_path)) == (0, 1)
    assert not (tmp_path / "store" / "lock").exists()


HOLDER = """
import sys, time
from pathlib import Path
from abeval.store.lock import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_system_drops_the_lock_of_a_killed_run(tmp_path: Path) -> None:
    with subprocess.Popen(  # noqa: S603 (our own command)
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        refused = f"in use by process {child.pid} on {socket.gethostname()}"
        with pytest.raises(ExperimentError, match=refused), held(tmp_path):
            pass
        child.kill()
    assert (tmp_path / "lock").exists()
    with held(tmp_path):
        assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"pid": 1, "host": "elsewhere"}', f'{{"pid": {os.getpid()}, "host": "x"}}'],
    ids=["empty", "list", "elsewhere", "this process"],
)
def test_what_a_file_says_does_not_refuse(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock").write_text(text)
    with held(tmp_path):
        assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_a_lock_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with held(tmp_path), pytest.raises(ExperimentError, match="in use by another run"):
            held(tmp_path).__enter__()
    with held(tmp_path):
        pass


def test_a_disk_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", without)
    with pytest.raises(ExperimentError, match="cannot be locked: No locks available"):
        held(tmp_path).__enter__()


def test_a_run_that_fails_gives_the_store_back(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stop"), held(tmp_path):
        raise ValueError("stop")
    with held(tmp_path):
        pass
