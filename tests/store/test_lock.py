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


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    told = {"pid": child.pid, "host": socket.gethostname()}
    (tmp_path / "lock").write_text(json.dumps(told))
    with held(tmp_path):
        assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()


@pytest.mark.parametrize("text", ['{"pid": 1, "host": "elsewhere"}', "", "[]"])
def test_a_lock_that_may_be_alive_is_respected(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock").write_text(text)
    with pytest.raises(ExperimentError, match="in use") as refused, held(tmp_path):
        pass
    assert "remove the lock file" in str(refused.value.hint)
    assert (tmp_path / "lock").read_text() == text


def test_a_run_that_fails_gives_the_store_back(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stop"), held(tmp_path):
        raise ValueError("stop")
    with held(tmp_path):
        pass
