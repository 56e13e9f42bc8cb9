"""Inputs of `benchmarks/malformed`, listed and random: each ends in a result, or in one message."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.malformed.corpus import some
from benchmarks.malformed.fuzz import inputs
from benchmarks.malformed.run import run
from benchmarks.malformed.world import Case

SHARES = {
    "entry": 80,
    "experiment file": 65,
    "ids": 40,
    "option": 35,
    "expression": 35,
    "file of a log": 20,
    "name": 13,
    "log": 12,
}
"""Of 300: most of those that are soon refused."""

TENTHS = 10


@pytest.mark.whole
@pytest.mark.parametrize("tenth", range(TENTHS))
def test_a_malformed_input_ends_in_a_result_or_one_message(tenth: int) -> None:
    cases = some(SHARES)
    assert len(cases) == 300
    ends = [(case, run(case)) for case in cases[tenth::TENTHS]]
    assert [f"{case.kind}, {case.name}: {end}" for case, end in ends if not end.is_fine] == []


@pytest.mark.whole
@pytest.mark.parametrize("first", range(0, 24, 12))
def test_a_random_input_ends_in_a_result_or_one_message(first: int) -> None:
    ends = [(number, run(case)) for number, case in inputs(1, first, count=12, minutes=9)]
    assert len(ends) == 12
    assert [f"{number}: {end}" for number, end in ends if not end.is_fine] == []


def _stopped(code: int, said: str) -> Callable[[], None]:
    def stop() -> None:
        sys.stderr.write(said)
        raise SystemExit(code)

    return stop


def _replaces() -> None:
    Path(sys.argv[-1]).write_text("{")
    _stopped(2, "error: too late")()


@pytest.mark.parametrize(
    ("command", "word"),
    [
        (_stopped(2, "error: so"), "refused"),
        (_stopped(2, ""), "no message"),
        (_stopped(1, "error: abeval failed"), "exit code 1"),
        (_stopped(1, "Traceback"), "traceback"),
        (_replaces, "the output was replaced though refused"),
    ],
)
def test_an_end_that_is_not_fine_is_seen(
    command: Callable[[], None], word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.malformed.run.abeval", command)
    assert run(Case("name", "any")).word == word
