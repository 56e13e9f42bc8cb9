"""Commands stopped at many moments, and two at once: each file is whole, and nothing is in the way.

    python -m tests.malformed kills [--moments 40] [--only COMMAND] [--seed 1]

Every command writes over what an earlier run wrote. It is stopped by SIGKILL, SIGTERM or SIGINT in
turn, half of the times within the last fifth of its run, in which it writes. Then each output is
the old one or the new one, SIGTERM and SIGINT leave no draft and no folder, and the next run gives
the right output and removes what SIGKILL left. It prints a row a command, and fails at a fault.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

import abeval
import abeval.report.page
from abeval.cli.main import main as command_line
from tests.malformed.harness import SECONDS, do_apart

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
EXPERIMENT = """\
name = "grows"
unit = "user_id"
control = "a"
variants = {a = {}, b = {}}
metrics = [{name = "ctr"}]
trust.aa_runs = 200
logs.impressions.path = "log.parquet"
"""
COMMANDS: Mapping[str, str] = {
    "analyze": "analyze e.toml --report out/page.html --json out/result.json",
    "history": "history add result.json --history out/history.parquet",
    "assign": "tools assign ids.csv --salt s --variants a=1,b=1 --json out/assigned.json",
    "simulate": "tools simulate out --impressions 5000",
}


@dataclass
class Tally:
    """How the runs of a command ended."""

    name: str
    ended: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def write_inputs(folder: Path, rows: int) -> None:
    """Write a log, ids and a result of the log, which more rows change."""
    do_apart(lambda: _write_inputs(folder, rows))


def _write_inputs(folder: Path, rows: int) -> None:
    random = np.random.default_rng(5)
    user = random.integers(0, 300, rows)
    log = pd.DataFrame(
        {
            "user_id": user,
            "variant": np.where(user % 2 == 0, "a", "b"),
            "ts": pd.Timestamp("2024-03-01") + pd.to_timedelta(np.arange(rows), unit="min"),
            "click": (random.random(rows) < 0.2).astype(int),
        }
    )
    log.to_parquet(folder / "log.parquet")
    (folder / "ids.csv").write_text("id\n" + "\n".join(map(str, range(10 * rows))) + "\n")
    (folder / "e.toml").write_text(EXPERIMENT)
    (folder / "result.json").write_text(abeval.load(folder / "e.toml").analyze().to_json())


def start(folder: Path, line: str) -> int:
    """Run a command in a copy of this process, which has imported what it needs: its number."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    signal.alarm(SECONDS)
    try:
        os.chdir(folder)
        tempfile.tempdir = os.environ["TMPDIR"] = str(folder / "temporary")
        printed = os.open(folder / "printed.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = ["abeval", *line.split()]
        command_line()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    except KeyboardInterrupt:
        # Before the command began.
        code = 130
    finally:
        os._exit(code)


def wait_for(child: int) -> int:
    """Wait for a run: its exit code, or less the number of the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def read_outputs(folder: Path) -> dict[str, bytes]:
    """Read every file that a run wrote; of a page that tells the time, only whether it is whole."""
    files = (file for file in sorted((folder / "out").rglob("*")) if file.is_file())
    files = (file for file in files if not _is_draft(file, folder))
    return {str(file.relative_to(folder / "out")): _content(file) for file in files}


def _content(file: Path) -> bytes:
    data = file.read_bytes()
    if file.suffix == ".html":
        return b"whole" if data.rstrip().endswith(b"</html>") else data
    return data


def list_remains(folder: Path) -> list[str]:
    """List drafts and locks in the folder of outputs, and all in the one of temporary files."""
    drafts = [file for file in (folder / "out").rglob("*") if _is_draft(file, folder)]
    return sorted(str(file) for file in (*drafts, *(folder / "temporary").iterdir()))


def _is_draft(file: Path, folder: Path) -> bool:
    parts = file.relative_to(folder / "out").parts
    return file.suffix == ".lock" or any(part.startswith(".") for part in parts)


def restore(folder: Path, old: Path) -> None:
    """Put back the outputs of the earlier run, and empty the temporary folder."""
    for name in ("out", "temporary"):
        shutil.rmtree(folder / name, ignore_errors=True)
    shutil.copytree(old, folder / "out")
    (folder / "temporary").mkdir()


def stop_often(name: str, moments: int, seed: int, folder: Path) -> Tally:
    """Stop a command at many moments of its run."""
    line, tally, old = COMMANDS[name], Tally(name), folder / "old"
    (folder / "out").mkdir(parents=True)
    (folder / "temporary").mkdir()
    write_inputs(folder, 2_000)
    if code := wait_for(start(folder, line)):
        raise RuntimeError(f"{name} ended with {code}: {(folder / 'printed.txt').read_text()}")
    shutil.copytree(folder / "out", old)
    before = read_outputs(folder)
    write_inputs(folder, 2_500)
    # A simulation is of its options only.
    line = line.replace("5000", "6000")
    began = time.perf_counter()
    wait_for(start(folder, line))
    seconds, after = time.perf_counter() - began, read_outputs(folder)
    random = np.random.default_rng(seed)
    for moment in range(moments):
        number = SIGNALS[moment % len(SIGNALS)]
        restore(folder, old)
        child = start(folder, line)
        time.sleep(float(random.uniform(0.8 if moment % 2 else 0.0, 1.02)) * seconds)
        os.kill(child, number)
        code = wait_for(child)
        tally.ended[f"{number.name}: {code}"] += 1
        where = f"{name}, moment {moment}, {number.name}, ended with {code}"
        _judge(tally, where, folder, line, (before, after), number, code)
    return tally


def _judge(
    tally: Tally,
    where: str,
    folder: Path,
    line: str,
    known: tuple[Mapping[str, bytes], Mapping[str, bytes]],
    number: signal.Signals,
    code: int,
) -> None:
    if code not in (0, 128 + number, -number):
        tally.faults.append(f"{where}: {(folder / 'printed.txt').read_text()}")
    before, after = known
    whole, remains = read_outputs(folder), list_remains(folder)
    for name, data in whole.items():
        if data not in (before.get(name), after.get(name)):
            tally.faults.append(f"{where}: {name} is neither the old nor the new one")
    if missing := [name for name in before if name in after and name not in whole]:
        tally.faults.append(f"{where}: {missing} are gone")
    if number != signal.SIGKILL and remains:
        tally.faults.append(f"{where}: left {remains}")
    tally.ended["left something for the next run"] += bool(remains)
    if code := wait_for(start(folder, line)):
        said = (folder / "printed.txt").read_text()
        tally.faults.append(f"{where}: the next run ended with {code}: {said}")
    elif read_outputs(folder) != after:
        tally.faults.append(f"{where}: the next run wrote something else")
    if remains := list_remains(folder):
        tally.faults.append(f"{where}: the next run left {remains}")


def write_at_once(times: int, folder: Path) -> Tally:
    """Run two processes that write one file: both whole, or one refused with a reason."""
    tally = Tally("two at once")
    (folder / "out").mkdir(parents=True)
    (folder / "temporary").mkdir()
    write_inputs(folder, 2_000)
    result = json.loads((folder / "result.json").read_text())
    # Without a digest, which would say that the name was edited.
    del result["digest"]
    for name in ("left", "right"):
        text = json.dumps(result).replace('"grows"', f'"{name}"')
        (folder / f"{name}.json").write_text(text)
    for number in range(times):
        history = folder / "out" / "history.parquet"
        history.unlink(missing_ok=True)
        lines = [f"history add {name}.json --history {history}" for name in ("left", "right")]
        codes = [wait_for(child) for child in [start(folder, line) for line in lines]]
        held = _experiments(history)
        tally.ended[f"history: {sorted(codes)}"] += 1
        if len(held) != codes.count(0):
            tally.faults.append(f"history, {number}: {codes}, and it holds {sorted(held)}")
        for name in ("analyze", "assign"):
            children = [start(folder, COMMANDS[name]) for _ in range(2)]
            codes = [wait_for(child) for child in children]
            tally.ended[f"{name}: {sorted(codes)}"] += 1
            first = read_outputs(folder)
            wait_for(start(folder, COMMANDS[name]))
            if any(codes) or first != read_outputs(folder):
                tally.faults.append(f"{name}, {number}: {codes}, or its files are not whole")
    if remains := list_remains(folder):
        tally.faults.append(f"left {remains}")
    return tally


def _experiments(history: Path) -> set[str]:
    """Read the names of the experiments of a history file."""
    file = history.with_suffix(".json")
    do_apart(lambda: pd.read_parquet(history)["experiment"].to_json(file, orient="values"))
    names = {*json.loads(file.read_text())}
    file.unlink()
    return names


def run(seed: int, count: int, names: Sequence[str] = (*COMMANDS, "at_once")) -> list[Tally]:
    """Stop each command at `count` moments, and run two at once a quarter as often."""
    tallies = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix="abeval-kills-") as parent:
            folder = Path(parent) / name
            at_once = name == "at_once"
            tallies.append(
                write_at_once(max(1, count // 4), folder)
                if at_once
                else stop_often(name, count, seed, folder)
            )
    return tallies


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how the runs of each command ended: 0 without a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=40)
    parser.add_argument("--only", choices=[*COMMANDS, "at_once"])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    names = [options.only] if options.only else [*COMMANDS, "at_once"]
    tallies = run(options.seed, options.moments, names)
    for tally in tallies:
        ended = "; ".join(f"{what} {count}" for what, count in sorted(tally.ended.items()) if count)
        faults = "".join(f"  {fault}\n" for fault in tally.faults)
        sys.stdout.write(f"{tally.name}: {len(tally.faults)} faults. {ended}\n{faults}")
    return int(any(tally.faults for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
