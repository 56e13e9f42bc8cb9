"""A signal of a scheduler ends a run, but not while a file is made or removed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = """
import os, signal
from pathlib import Path
from abeval import files, signals
from abeval.cli.main import exit_on_error
signals.exit_when_stopped()
stop = lambda: os.kill(os.getpid(), signal.SIGTERM)
"""


def ended(folder: Path, lines: str) -> tuple[int, str]:
    """The exit code of lines of Python in a process of its own, and what it printed."""
    run = subprocess.run(  # noqa: S603 (our own lines)
        [sys.executable, "-c", BEGIN + lines], cwd=folder, capture_output=True, text=True
    )
    return run.returncode, run.stdout


def test_a_signal_waits_until_a_file_is_whole(tmp_path: Path) -> None:
    lines = """
opened = os.open
def late(path, *arguments):
    stop()
    return opened(path, *arguments)
os.open = late
files.write_text(Path("result.json"), "whole")
print("not reached")
"""
    assert ended(tmp_path, lines) == (143, "")
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    assert (tmp_path / "result.json").read_text() == "whole"


def test_the_outermost_block_is_the_one_that_ends_first(tmp_path: Path) -> None:
    lines = """
with signals.defer_signals():
    with signals.defer_signals():
        stop()
    print("still here", flush=True)
print("not reached")
"""
    assert ended(tmp_path, lines) == (143, "still here\n")


def test_an_error_that_a_library_makes_of_the_exit_is_still_the_exit(tmp_path: Path) -> None:
    lines = """
def work():
    try:
        stop()
    except SystemExit:
        raise RuntimeError("Query interrupted")
exit_on_error(work)
"""
    assert ended(tmp_path, lines) == (143, "")


def test_nothing_stops_the_end(tmp_path: Path) -> None:
    assert ended(tmp_path, "signals.ignore_stops(); stop(); print('ended')") == (0, "ended\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_who_imports_abeval_keeps_their_signals(number: int) -> None:
    lines = f"import abeval.cli.main, os; os.kill(os.getpid(), {int(number)})"
    default = f"import signal; signal.signal({int(number)}, signal.SIG_DFL);"
    run = subprocess.run([sys.executable, "-c", default + lines], env=os.environ)  # noqa: S603 (our own lines)
    assert run.returncode == -number


def test_an_interrupt_within_a_query_of_duckdb_is_no_fault(tmp_path: Path) -> None:
    # What DuckDB raises for Ctrl-C; when it looks for signals depends on its threads.
    lines = """
def work():
    raise RuntimeError("Query interrupted")
exit_on_error(work)
"""
    assert ended(tmp_path, lines) == (130, "")
