"""Do the tests notice a change that changes an answer? Draws changes, and runs the tests of each.

    python -m benchmarks.mutants [--count 40] [--seed 1]
    python -m benchmarks.mutants --named

A change is one operator, number, bound or aggregate of `abeval/stats/`, `abeval/logs/`,
`abeval/assignment/`, the status, the verdict, or of a query. It is made in a
copy of the tree, and judged by the tests that reach its line, the fastest first, then by every
test of its room. To know what a test reaches, all rooms run once before (Python 3.12; on 3.11
only the rooms judge). `--named` makes the eight changes that no test noticed once, each judged by
one file of tests. A change that no test notices survives; look at it, and write the test, or see
that it changes nothing.
"""

import argparse
import importlib
import os
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

import pytest

from benchmarks.mutants import reach
from benchmarks.mutants.changes import AREAS, ROOT, Mutant, draw, named

PARTS = ("abeval", "queries", "tests", "benchmarks", "sample_logs", "docs")

ROOMS = {
    "abeval/stats/": ("tests/stats", "tests/inference"),
    "abeval/logs/": ("tests/logs", "tests/aggregates", "tests/cli", "tests/inference"),
    "abeval/assignment/": ("tests/assignment", "tests/cli"),
    "abeval/inference/": ("tests/inference",),
    "queries/time/": ("tests/time",),
    "queries/agreement/": ("tests/agreement",),
    "queries/offline/": ("tests/offline",),
    "queries/offline_policy/": ("tests/off_policy",),
    "queries/": ("tests/aggregates", "tests/logs", "tests/inference", "tests/time", "tests/audit"),
}
"""Tests by the beginning of a path: the first that fits."""

GOLDEN = "tests/test_sample_logs.py"
"""Asked of every change: the whole result of the sample."""

PYTEST = ("-o", "addopts=", "-m", "not slow and not spark", "-p", "no:cacheprovider", "-q")
PRELOADED = ("duckdb", "pandas", "plotly", "pydantic", "scipy.stats", "sqlglot")
"""Imported once for all changes. abeval is imported after each change."""

LIMIT = 900
"""Seconds after which a change counts as noticed: the tests do not end."""


def rooms_of(file: str) -> list[str]:
    """The tests of a file: its examples, those of its room, the sample."""
    rooms = next(tests for start, tests in ROOMS.items() if file.startswith(start))
    return [*([file] if file.endswith(".py") else []), *rooms, GOLDEN]


def record(tree: Path, rooms: Sequence[str]) -> list[reach.Reach]:
    """Run the rooms once, and see what their tests reach."""
    if not hasattr(sys, "monitoring"):
        return []
    with TemporaryDirectory(prefix="reach-") as folder:
        plugins = ("-p", "benchmarks.mutants.reach", "--doctest-modules", "-n", "auto")
        subprocess.run(  # noqa: S603 (our own command)
            [sys.executable, "-m", "pytest", *PYTEST, *plugins, *rooms],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree), "REACH": folder},
            check=True,
        )
        return reach.read(Path(folder))


class FirstFailure:
    """A plugin of pytest that writes the name of the first test that fails."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails."""
        if report.failed:
            self._file.write_text(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file of tests that cannot be imported."""
        if report.failed:
            self._file.write_text(report.nodeid)


def first_failing(tree: Path, tests: Sequence[str]) -> str | None:
    """The test that fails, or None where all pass, in a process of its own."""
    file = tree / "failing"
    file.unlink(missing_ok=True)
    with warnings.catch_warnings():
        # Threads of libraries that are loaded already wait, and hold no lock.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        run(tree, tests, file)
    if wait(child) == 0:
        return None
    return file.read_text() if file.exists() else "the tests do not end"


def run(tree: Path, tests: Sequence[str], file: Path) -> NoReturn:
    """Run tests of a tree, and end the process."""
    try:
        os.setsid()
        quiet = os.open(os.devnull, os.O_RDWR)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        os.chdir(tree)
        sys.path.insert(0, str(tree))
        options = [*PYTEST, "--doctest-modules", "-x", "-n", "0"]
        code = pytest.main([*options, *tests], plugins=[FirstFailure(file)])
        # 5: the file has no example to run.
        os._exit(code not in (0, 5))
    finally:
        os._exit(1)


def wait(child: int) -> int:
    """The exit code of a process, which is ended after `LIMIT`."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        number, status = os.waitpid(child, os.WNOHANG)
        if number:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, 9)
    os.waitpid(child, 0)
    return 1


def noticing(tree: Path, mutant: Mutant, steps: Sequence[Sequence[str]]) -> str | None:
    """The test of one of the steps that notices a change."""
    file = tree / mutant.file
    before = file.read_text()
    file.write_text(mutant.text)
    try:
        failing = (first_failing(tree, tests) for tests in steps if tests)
        return next((test for test in failing if test is not None), None)
    finally:
        file.write_text(before)


def steps_of(mutant: Mutant, tests: Sequence[reach.Reach]) -> list[list[str]]:
    """The tests that reach the change, then its rooms."""
    is_query = mutant.file.endswith(".sql")
    place = mutant.file if is_query else f"{mutant.file}:{mutant.line}"
    return [reach.tests_that_reach(place, tests), rooms_of(mutant.file)]


def copy_of(root: Path, tree: Path) -> None:
    """The files that the tests need."""
    for part in PARTS:
        shutil.copytree(root / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file in root.glob("*.*"):
        if file.is_file():
            shutil.copy(file, tree / file.name)


def judge(tree: Path, mutant: Mutant, steps: Sequence[Sequence[str]]) -> bool:
    """Make a change, print what became of it; whether it survived.

    Raises:
        RuntimeError: The test that notices it fails without the change too.
    """
    start = time.perf_counter()
    test = noticing(tree, mutant, steps)
    if test is not None and "::" in test and first_failing(tree, [test]) is not None:
        raise RuntimeError(f"{test} fails without a change")
    word = "SURVIVED" if test is None else "noticed "
    seconds = time.perf_counter() - start
    print(f"{word} {seconds:4.0f} s  {mutant.file}:{mutant.line}  {mutant.what}", flush=True)
    if test is not None:
        print(f"            by {test}", flush=True)
    return test is None


def main() -> None:
    """Draw, test, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=40, help="changes to draw")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--named", action="store_true", help="the eight named changes")
    parser.add_argument("--files", action="append", help="a glob of files, instead of all areas")
    options = parser.parse_args()
    areas = [options.files] if options.files else AREAS
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    with TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder)
        copy_of(ROOT, tree)
        if options.named:
            drawn = [(mutant, [tests]) for mutant, tests in named()]
        else:
            mutants = draw(options.count, options.seed, areas)
            tests = record(tree, sorted({room for m in mutants for room in rooms_of(m.file)}))
            drawn = [(m, steps_of(m, tests)) for m in mutants]
        print(f"{len(drawn)} changes, seed {options.seed}", flush=True)
        for name in PRELOADED:
            importlib.import_module(name)
        survived = sum(judge(tree, mutant, steps) for mutant, steps in drawn)
    print(f"{len(drawn) - survived} of {len(drawn)} noticed, {survived} survived")


if __name__ == "__main__":
    main()
