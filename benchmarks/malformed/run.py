"""Runs one input through the command line, in this process, and says how it ended."""

from __future__ import annotations

import io
import json
import re
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from abeval.cli.main import main as abeval
from benchmarks.malformed.world import FILE, Case, log_of

SECONDS = 120
"""After which an input counts as one without end."""

OLD = '{"old": "whole"}'
"""What the output file has before each run."""


@dataclass(frozen=True)
class End:
    """How a run ended.

    Attributes:
        word: `result`, `refused` (exit code 2), or what is wrong.
        said: What was printed on stderr.
        seconds: How long it took.
    """

    word: str
    said: str
    seconds: float

    @property
    def is_fine(self) -> bool:
        """Whether it ended as an input may."""
        return self.word in ("result", "refused")


def lay_out(case: Case, folder: Path) -> None:
    """Write the files of a run."""
    written: dict[str, bytes] = {"e.toml": FILE.encode(), "log.parquet": log_of(), **case.files}
    for name, data in written.items():
        # A log may be given by its query.
        is_query = name == "log.parquet" and data.startswith(b"select")
        (folder / name).write_bytes(log_of(data.decode()) if is_query else data)
    for name, target in case.links.items():
        path = Path(target)
        (folder / name).symlink_to(path if path.is_absolute() else folder / path)
    (folder / "o.json").write_text(OLD)


class TooLateError(BaseException):
    """Raised in a run without end; no `except Exception` keeps it."""


def _too_late(*_: object) -> None:
    raise TooLateError


def run(case: Case) -> End:
    """Run the command in this process, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="corpus-") as name:
        folder = Path(name)
        lay_out(case, folder)
        before = {path: path.read_bytes() for path in sorted(folder.glob("*")) if path.is_file()}
        start, out, err = time.perf_counter(), io.StringIO(), io.StringIO()
        arguments = [argument.replace("{}", name) for argument in case.arguments]
        code = _call(arguments, out, err)
        seconds = time.perf_counter() - start
        word = _word(code, out.getvalue(), err.getvalue()) or _left(folder, before, code)
        said = err.getvalue().replace(name, "")
        return End(word or ("refused" if code == 2 else "result"), said, seconds)


def _call(arguments: list[str], out: io.StringIO, err: io.StringIO) -> int | None:
    """The exit code; None for a run without end."""
    argv, sys.argv = sys.argv, ["abeval", *arguments]
    signal.signal(signal.SIGALRM, _too_late)
    signal.alarm(SECONDS)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            abeval()
    except SystemExit as stop:
        return int(stop.code or 0)
    except TooLateError:
        return None
    finally:
        signal.alarm(0)
        sys.argv = argv
    return 0


def _word(code: int | None, out: str, err: str) -> str | None:
    """What is wrong with the exit code and the messages."""
    if code is None:
        return "without end"
    if code == 1 and "No space left" in err:
        # A full disk is no fault of the input.
        return None
    if "Traceback" in err or code not in (0, 2):
        return "traceback" if "Traceback" in err else f"exit code {code}"
    if code == 2 and out:
        return "stdout though refused"
    if code == 2 and not re.match(r"error: |Usage: ", err):
        return "no message"
    return None


def _left(folder: Path, before: Mapping[Path, bytes], code: int | None) -> str | None:
    """What is wrong with the files."""
    if list(folder.rglob(".abeval-*")):
        return "a draft is left"
    output = folder / "o.json"
    for path, data in before.items():
        if path != output and path.read_bytes() != data:
            return f"{path.name} was replaced"
    text = output.read_text()
    if code == 0 and text != OLD:
        json.loads(text, parse_constant=_no_number)
    elif text != OLD:
        return "the output was replaced though refused"
    return None


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} in JSON")
