"""Runs that overwrite all their outputs, killed: each output is the old one or the new one, whole.

`python -m benchmarks.reliability.kills [--kills 50] [--terms 20]` prints a row of the table in
`results/reliability.md`, and fails if a run leaves anything else.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.reliability.world import World, begun, ended

FILES = ("result.json", "report.html", "scorecard.csv")
LEFT = (".abeval-*", "lock")
"""Names of what a run may leave, and the next one must remove."""


def command(world: World) -> list[object]:
    """An analysis that writes everything that it can."""
    result, report, csv = (world.out / name for name in FILES)
    return ["analyze", world.experiment, "--json", result, "--report", report, "--csv", csv]


def scorecard(file: Path) -> str:
    """A result without its notes, which say how it was computed."""
    return json.dumps({**json.loads(file.read_text()), "notes": []})


def outputs(world: World) -> dict[str, object]:
    """The bytes of what is there."""
    return {name: (world.out / name).read_bytes() for name in FILES}


def left(world: World) -> list[str]:
    """Drafts, locks and databases that are there."""
    files = [file for name in LEFT for file in world.out.rglob(name)]
    return sorted(str(file) for file in (*files, *world.temporary.iterdir()))


def fresh(world: World, old: Path) -> None:
    """The outputs of the old log again, and the new log."""
    shutil.rmtree(world.out)
    shutil.copytree(old, world.out)
    for path in world.temporary.iterdir():
        shutil.rmtree(path)


def stopped(world: World, number: int, after_change: bool, delay: float) -> int:
    """Run the command and send it a signal: its exit code.

    Args:
        world: Where.
        number: Of the signal.
        after_change: Whether the delay begins when the first output changes.
        delay: Seconds.
    """
    before = seen(world.out)
    child = begun(command(world))
    while after_change and seen(world.out) == before:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            break
        time.sleep(0.001)
    time.sleep(delay)
    os.kill(child, number)
    return ended(child)


def seen(folder: Path) -> Mapping[str, int]:
    """Every file, with the time of its change."""
    times = {}
    for file in folder.glob("*"):
        with suppress(FileNotFoundError):
            times[str(file)] = file.stat().st_mtime_ns
    return times


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all trials: 0 if none leaves anything but old or new."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--terms", type=int, default=20)
    parser.add_argument("--seed", type=int, default=18)
    options = parser.parse_args(arguments)
    with TemporaryDirectory(prefix="abeval-kills-") as folder:
        return _trials(Path(folder), options.kills, options.terms, options.seed)


def _trials(folder: Path, kills: int, terms: int, seed: int) -> int:
    world = World(folder / "world")
    world.make(days=3)
    if ended(begun(command(world))):
        raise RuntimeError("the first run failed")
    old = outputs(world)
    shutil.copytree(world.out, folder / "old")
    world.add_day(3)
    began = time.perf_counter()
    if ended(begun(command(world))):
        raise RuntimeError("the second run failed")
    seconds = time.perf_counter() - began
    new = outputs(world)
    clean = scorecard(world.out / "result.json")
    random = np.random.default_rng(seed)
    faults: list[str] = []
    counts: Counter[str] = Counter()
    for trial in range(kills + terms):
        number = signal.SIGKILL if trial < kills else signal.SIGTERM
        fresh(world, folder / "old")
        # Half of them while outputs are written, which is short.
        while_writing = trial % 2 == 1
        delay = float(random.uniform(0, 0.4 * seconds if while_writing else 1.05 * seconds))
        code = stopped(world, number, while_writing, delay)
        counts[f"{signal.Signals(number).name} ended with {code}"] += 1
        faults += _faults(world, trial, number, (old, new), clean, counts)
    print(f"{kills} SIGKILL, {terms} SIGTERM; {seconds:.1f} s a run; seed {seed}")
    for what, count in sorted(counts.items()):
        print(f"  {what}: {count}")
    print(f"{len(faults)} faults")
    print("\n".join(faults))
    return int(bool(faults))


def _faults(
    world: World,
    trial: int,
    number: int,
    known: tuple[Mapping[str, object], Mapping[str, object]],
    clean: str,
    counts: Counter[str],
) -> list[str]:
    """What is wrong after a run that was stopped, and after the next one."""
    faults = []
    if number == signal.SIGTERM and (remains := left(world)):
        faults.append(f"{trial}: SIGTERM left {remains}")
    counts["left something for the next run"] += bool(left(world))
    old, new = known
    for name, value in outputs(world).items():
        state = "old" if value == old[name] else "new" if value == new[name] else "NEITHER"
        counts[f"{name} {state}"] += 1
        if state == "NEITHER":
            faults.append(f"{trial}: {name} is neither the old nor the new one")
    if code := ended(begun(command(world))):
        faults.append(f"{trial}: the next run ended with {code}")
    elif scorecard(world.out / "result.json") != clean:
        faults.append(f"{trial}: the next run has another result")
    if remains := left(world):
        faults.append(f"{trial}: the next run left {remains}")
    return faults


if __name__ == "__main__":
    sys.exit(main())
