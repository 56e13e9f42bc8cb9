"""A few inputs of each family, and that the harness sees what must not be."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.malformed.__main__ import FAMILIES
from tests.malformed.harness import Act, Case, run_cases

SHORT = 4
"""Inputs of each family: `python -m tests.malformed` runs more."""


WITH_SERVER = ("tools", "long")
"""Families that talk to `abeval mcp`, which needs an extra."""


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    "family",
    [pytest.param(f, marks=pytest.mark.whole) if f in WITH_SERVER else f for f in FAMILIES],
)
def test_a_bad_input_ends_in_a_result_or_one_message(family: str) -> None:
    if family in WITH_SERVER:
        pytest.importorskip("mcp")
    records = list(import_module(f"tests.malformed.{family}").run(1, SHORT))
    assert len(records) == SHORT
    assert [record for record in records if not record.ok] == []


def _ends(code: int, said: str = "") -> Act:
    def act() -> None:
        sys.stderr.write(said)
        sys.exit(code)

    return act


def _raises() -> None:
    raise KeyError("x")


def _writes(name: str, code: int) -> Act:
    def act() -> None:
        Path(name).write_text('{"x": NaN}')
        _ends(code, "error: so")()

    return act


FAULTS: dict[str, tuple[Act, str]] = {
    "traceback": (_raises, "[traceback]"),
    "exit code": (_ends(1, "error: so"), "[exit code 1]"),
    "no message": (_ends(2), "[no message]"),
    "raw text": (_ends(2, "error: Binder Error: so"), "[raw text: Binder Error]"),
    "pydantic": (_ends(2, "error: x: Input should be so"), "[raw text: Input should]"),
    "control": (_ends(2, "error: \x1b[31m"), "[control characters]"),
    "long": (_ends(2, "error: " + "x " * 20_000), "letters]"),
    "stdout": (lambda: (print("x"), _ends(2, "error: so")()), "[stdout though refused]"),  # noqa: T201
    "killed": (lambda: os.kill(os.getpid(), signal.SIGKILL), "[ended by SIGKILL]"),
    "replaced": (_writes("t.csv", 0), "['t.csv' was replaced]"),
    "written": (_writes("out/n.json", 2), "['out/n.json' was written though refused]"),
    "no number": (_writes("out/o.json", 0), "[out/o.json: NaN in JSON]"),
    "draft": (_writes("out/.abeval-1", 0), "[out/.abeval-1 is left]"),
    "outside": (_writes("../../x", 0), "[open "),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_must_not_be_is_seen(name: str) -> None:
    act, fault = FAULTS[name]
    (record,) = run_cases([Case(name, act)])
    assert not record.ok
    assert fault in record.message


def test_a_refusal_and_a_result_are_fine() -> None:
    refused, done = run_cases([Case("refused", _ends(2, "error: so")), Case("done", _ends(0))])
    assert (refused.ok, refused.code, refused.message) == (True, 2, "error: so")
    assert (done.ok, done.code) == (True, 0)
