"""A plugin of pytest: the lines and queries of abeval that each test reaches, and its seconds.

    REACH=FOLDER python -m pytest -p benchmarks.mutants.reach tests/stats

Each process writes one file of the folder. Lines need Python 3.12 (`sys.monitoring`).
"""

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]


class Reach(NamedTuple):
    """What one test reaches.

    Attributes:
        test: Its name for pytest.
        seconds: How long it takes.
        places: Files, each with a line (``abeval/sums.py:12``), and files of queries.
    """

    test: str
    seconds: float
    places: set[str]


reached: list[Reach] = []


def add(place: str) -> None:
    """Note a place for the test that runs."""
    if reached:
        reached[-1].places.add(place)


def add_line(code: CodeType, line: int) -> object:
    """Note a line, once a test."""
    file = Path(code.co_filename)
    if "abeval" in file.parts and file.is_relative_to(ROOT):
        add(f"{file.relative_to(ROOT)}:{line}")
    return sys.monitoring.DISABLE


def pytest_configure() -> None:
    """Listen to lines, and to functions: one that stands on one line tells of no line."""
    watch = sys.monitoring
    watch.use_tool_id(watch.PROFILER_ID, "reach")
    watch.register_callback(watch.PROFILER_ID, watch.events.LINE, add_line)
    watch.register_callback(
        watch.PROFILER_ID,
        watch.events.PY_START,
        lambda code, _: add_line(code, code.co_firstlineno),
    )
    watch.set_events(watch.PROFILER_ID, watch.events.LINE | watch.events.PY_START)


def pytest_collection_finish() -> None:
    """Listen to queries that are asked for."""
    from abeval.engines import sql

    text = sql._text

    def noted(name: str, units: str) -> str:
        add(f"queries/{name}.sql")
        return text(name, units)

    sql._text = noted  # type: ignore[assignment]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """One test."""
    reached.append(Reach(item.nodeid, 0, set()))
    sys.monitoring.restart_events()
    start = time.perf_counter()
    result = yield
    reached[-1] = reached[-1]._replace(seconds=time.perf_counter() - start)
    return result


def pytest_sessionfinish() -> None:
    """Write what was reached."""
    sys.monitoring.set_events(sys.monitoring.PROFILER_ID, 0)
    rows = [(one.test, one.seconds, sorted(one.places)) for one in reached]
    file = Path(os.environ["REACH"]) / f"{os.getpid()}.json"
    file.write_text(json.dumps(rows))


def read(folder: Path) -> list[Reach]:
    """What the processes wrote."""
    texts = [file.read_text() for file in sorted(folder.glob("*.json"))]
    return [Reach(test, s, set(places)) for text in texts for test, s, places in json.loads(text)]


def tests_that_reach(place: str, tests: Sequence[Reach]) -> list[str]:
    """Names of the tests that reach a place, the fastest first."""
    return [one.test for one in sorted(tests, key=lambda one: one.seconds) if place in one.places]
