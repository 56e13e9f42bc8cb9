"""A command timed as a whole process, start and imports included."""

import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from typing import IO, NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Cost(NamedTuple):
    """What one process took.

    Attributes:
        seconds: On the clock.
        cores: Seconds of processors, in it and its children.
        megabytes: Its largest resident set.
        printed: Its standard output.
        errors: Its standard error.
    """

    seconds: float
    cores: float
    megabytes: float
    printed: str
    errors: str


def run(command: Sequence[str], folder: Path | None = None) -> Cost:
    """Run a command with this abeval.

    Args:
        command: The file to run, and its arguments.
        folder: Where to run it.
    """
    # Compiled once, as every installed package is, whatever the caller's environment says.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as errors:
        files = [
            (os.POSIX_SPAWN_DUP2, file.fileno(), number)
            for number, file in ((1, printed), (2, errors))
        ]
        with chdir(folder or Path.cwd()):
            began = time.perf_counter()
            child = os.posix_spawn(command[0], command, environment, file_actions=files)
            _, status, usage = os.wait4(child, 0)
            seconds = time.perf_counter() - began
        said = [_text(file) for file in (printed, errors)]
    if status != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{said[1]}")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, *said)


def in_turns(
    commands: Mapping[str, Sequence[str]], rounds: int, folder: Path | None = None
) -> dict[str, list[Cost]]:
    """What each command took in every round; the load of the machine is printed."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            costs[name].append(run(command, folder))
    print(f"{rounds} runs (medians), {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    return costs


def medians(costs: Mapping[str, Sequence[Cost]]) -> dict[str, float]:
    """Seconds of each command."""
    return {name: statistics.median(c.seconds for c in found) for name, found in costs.items()}


def _text(file: IO[str]) -> str:
    file.seek(0)
    return file.read()
