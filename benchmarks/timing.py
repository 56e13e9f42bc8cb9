"""Time commands as whole processes, start and imports included.

What is timed is a module of `benchmarks/times/` with `SIZE`, `write_log(folder, size)` and
`list_commands(folder)`: each side is a process, and sides take turns. Its `list_summary(costs)`, if
it has one, stands in place of the table of medians.
"""

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from importlib import import_module
from pathlib import Path
from typing import IO, NamedTuple

from benchmarks.runner import Record, write_table

ROOT = Path(__file__).resolve().parents[1]
ABEVAL = (sys.executable, "-m", "abeval")


class Cost(NamedTuple):
    """What one process took.

    Attributes:
        seconds: On the clock.
        cores: Seconds of processors, in it and its children.
        megabytes: Its largest resident set.
        printed: Its standard output.
    """

    seconds: float
    cores: float
    megabytes: float
    printed: str


def run_command(command: Sequence[str], folder: Path) -> Cost:
    """Run a command with this abeval in a folder."""
    # Compiled once, as every installed package is, whatever the caller's environment says.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as errors:
        files = [
            (os.POSIX_SPAWN_DUP2, file.fileno(), number)
            for number, file in ((1, printed), (2, errors))
        ]
        with chdir(folder):
            began = time.perf_counter()
            child = os.posix_spawn(command[0], list(command), environment, file_actions=files)
            _, status, usage = os.wait4(child, 0)
            seconds = time.perf_counter() - began
        if status != 0:
            raise SystemExit(f"{' '.join(command)} failed:\n{_read(errors)}")
        cores, megabytes = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
        return Cost(seconds, cores, megabytes, _read(printed))


def _read(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def take_turns(
    commands: Mapping[str, Sequence[str]], folder: Path, rounds: int
) -> dict[str, list[Cost]]:
    """Run every command in every round."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            costs[name].append(run_command(command, folder))
    return costs


def list_records(costs: Mapping[str, Sequence[Cost]]) -> Iterator[Record]:
    """List the medians of each side, and its largest memory."""
    for name, found in costs.items():
        yield {
            "side": name,
            "seconds": f"{statistics.median(cost.seconds for cost in found):.2f}",
            "of processors": f"{statistics.median(cost.cores for cost in found):.2f}",
            "peak MB": round(max(cost.megabytes for cost in found)),
            "says": found[0].printed.strip() if len(found[0].printed) < 100 else "",
        }


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every comparison."""
    names = sorted(file.stem for file in (ROOT / "benchmarks" / "times").glob("[a-z]*.py"))
    parser.add_argument("name", choices=names)
    parser.add_argument("directory", type=Path, help="the log is made there, if there is none")
    parser.add_argument("--size", type=int, help="of the log")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="only sides with this text")


def time_sides(options: argparse.Namespace) -> None:
    """Time the sides of a comparison in turns, and print medians."""
    module = import_module(f"benchmarks.times.{options.name}")
    folder = options.directory.resolve()
    if not folder.exists():
        folder.mkdir(parents=True)
        # In a process of its own: a child's peak memory starts from what its parent holds.
        size = options.size or module.SIZE
        maker = multiprocessing.Process(target=module.write_log, args=(folder, size))
        maker.start()
        maker.join()
    commands: dict[str, Sequence[str]] = module.list_commands(folder)
    chosen = {name: command for name, command in commands.items() if options.only in name}
    costs = take_turns(chosen, folder, options.rounds)
    load = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    sys.stdout.write(f"medians of {options.rounds} rounds, {load}\n\n")
    # What compares its sides says so in a table of its own.
    records = getattr(module, "list_summary", list_records)(costs)
    sys.stdout.write("\n".join(write_table(records)) + "\n")
