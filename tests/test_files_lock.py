"""One run at a time writes to a folder, and its lock touches no file of anybody else."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from abeval import files
from abeval.errors import ExperimentError


def held(folder: Path, seconds: float = 0.0) -> AbstractContextManager[None]:
    return files.hold_lock(folder / "lock", str(folder), seconds)


HOLDER = """
import sys, time
from pathlib import Path
from abeval.files import hold_lock
with hold_lock(Path(sys.argv[1]) / "lock", "it"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_system_drops_the_lock_of_a_killed_run(tmp_path: Path) -> None:
    with subprocess.Popen(  # noqa: S603 (our own command)
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        with pytest.raises(ExperimentError, match="in use by another run"), held(tmp_path):
            pass
        child.kill()
    assert (tmp_path / "lock").exists()
    with held(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["[]", "my own notes"])
def test_a_file_with_content_is_somebodys_and_stays(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock").write_text(text)
    with held(tmp_path), pytest.raises(ExperimentError, match="in use by another run"):
        held(tmp_path).__enter__()
    assert (tmp_path / "lock").read_text() == text


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    notes, folder = tmp_path / "notes.txt", tmp_path / "kept"
    notes.write_text("my own notes")
    folder.mkdir()
    (folder / "lock").symlink_to(notes)
    with pytest.raises(ExperimentError, match=r"cannot be locked: .*links.*kept/lock"):
        held(folder).__enter__()
    assert notes.read_text() == "my own notes"


def test_a_hard_link_keeps_what_it_leads_to(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("my own notes")
    (tmp_path / "lock").hardlink_to(notes)
    with held(tmp_path):
        pass
    assert [p.read_text() for p in tmp_path.iterdir()] == ["my own notes"] * 2


def test_who_waits_gets_the_lock_when_it_is_free(tmp_path: Path) -> None:
    first = held(tmp_path)
    first.__enter__()
    threading.Timer(0.3, lambda: first.__exit__(None, None, None)).start()
    start = time.monotonic()
    with held(tmp_path, 20):
        assert 0.2 < time.monotonic() - start < 10
    with held(tmp_path), pytest.raises(ExperimentError, match="in use"):
        held(tmp_path, 0.2).__enter__()


def test_a_disk_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(*_: object) -> None:
        raise OSError(37, os.strerror(37))

    monkeypatch.setattr("fcntl.flock", without)
    with pytest.raises(ExperimentError, match="cannot be locked: No locks available"):
        held(tmp_path).__enter__()


def test_a_run_that_fails_gives_the_folder_back(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stop"), held(tmp_path):
        raise ValueError("stop")
    with held(tmp_path):
        pass
