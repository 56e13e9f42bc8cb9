"""Every file of stores and of saved aggregates, damaged: the right result, or a refusal.

`python -m benchmarks.reliability.damage [--times 20]` prints a row of the table in
`docs/reliability.md`, and fails on a wrong result or an error that is no refusal.
"""

import argparse
import json
import shutil
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import abeval
from abeval.errors import AbevalError
from abeval.results.analysis import Result
from abeval.store import scheme
from benchmarks.reliability.world import World

KINDS = ("bit", "digit", "cut", "gone", "another's")


@dataclass(frozen=True)
class Kept:
    """A folder that is damaged.

    Attributes:
        name: What it is.
        folder: Whole.
        other: The same of other logs.
        read: A result by such a folder.
        right: The result by the folder while it is whole, with the scorecard of a run without it.
    """

    name: str
    folder: Path
    other: Path
    read: Callable[[Path], Result]
    right: str


def text_of(result: Result) -> str:
    """A result without its notes, which say how it was computed."""
    return json.dumps({**result.to_dict(), "notes": []})


def loaded(world: World, replays: int) -> abeval.LoadedExperiment:
    """The experiment of a world, in memory."""
    return world.load().replace(engine={"threads": 1}, trust={"aa_runs": replays})


def kept_folders(root: Path) -> list[Kept]:
    """A store of closed days, one of totals, and saved aggregates; whole."""
    dense, sparse = (
        [World(root / name / who, *size) for who in ("mine", "other")]
        for name, size in (("dense", ()), ("sparse", (300, 3_000)))
    )
    for seed in (0, 1):
        for day in range(4):
            for world in (dense[seed], sparse[seed]):
                world.make(0)
                world.add_day(day, seed)
            loaded(dense[seed], 200).analyze(store=dense[seed].out / "closed")
            with few_units_are_enough():
                loaded(sparse[seed], 0).analyze(store=sparse[seed].out / "totals")
        loaded(dense[seed], 200).analyze(save_aggregates=dense[seed].out / "aggregates")
    closed, totals = loaded(dense[0], 200), loaded(sparse[0], 0)

    def with_totals(folder: Path) -> Result:
        with few_units_are_enough():
            return totals.analyze(store=folder)

    reads = (
        ("closed", dense, lambda folder: closed.analyze(store=folder), closed),
        ("totals", sparse, with_totals, totals),
        ("aggregates", dense, closed.from_aggregates, closed),
    )
    return [
        Kept(
            name, mine.out / name, other.out / name, read, _right(read, mine.out / name, experiment)
        )
        for name, (mine, other), read, experiment in reads
    ]


def _right(
    read: Callable[[Path], Result], folder: Path, experiment: abeval.LoadedExperiment
) -> str:
    """The result by a whole folder. Only its audits may differ from a run without it."""
    result = read(folder)
    if result.scorecard != experiment.analyze().scorecard:
        raise RuntimeError(f"{folder} has another scorecard than its log")
    return text_of(result)


@contextmanager
def few_units_are_enough() -> Iterator[None]:
    """Let a store carry totals although there are few units."""
    floor = scheme.FEWEST_UNITS
    scheme.FEWEST_UNITS = 0
    try:
        yield
    finally:
        scheme.FEWEST_UNITS = floor


def damage(file: Path, kind: str, other: Path, random: np.random.Generator) -> None:
    """Damage a file."""
    data = bytearray(file.read_bytes())
    place = int(random.integers(len(data)))
    match kind:
        case "bit":
            data[place] ^= 1 << int(random.integers(8))
        case "digit":
            digits = [i for i, byte in enumerate(data) if chr(byte).isdigit() and byte < 128]
            place = int(random.choice(digits))
            data[place] = ord("0") + (data[place] - ord("0") + int(random.integers(1, 10))) % 10
        case "cut":
            data = data[:place]
        case "gone":
            file.unlink()
            return
        case _:
            data = bytearray(other.read_bytes())
    file.write_bytes(data)


def twin_of(name: str, other: Path, random: np.random.Generator) -> Path:
    """A file of the same kind in a folder of other logs."""
    start, suffix = Path(name).stem.split("-")[0], Path(name).suffix
    same = [f for f in sorted(other.rglob(f"{start}*{suffix}")) if f.is_file()]
    return same[int(random.integers(len(same)))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Damage each file: 0 if there is no wrong result and no other error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--only", choices=("closed", "totals", "aggregates"))
    options = parser.parse_args(arguments)
    faults: list[str] = []
    with TemporaryDirectory(prefix="abeval-damage-") as folder:
        for kept in kept_folders(Path(folder)):
            if options.only in (None, kept.name):
                faults += _damaged(kept, Path(folder) / "now", options.times, options.seed)
    print("\n".join(faults))
    return int(bool(faults))


def _damaged(kept: Kept, now: Path, times: int, seed: int) -> list[str]:
    """Damage each file of a folder, print how each ended, and return what was wrong."""
    random = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    faults = []
    files = sorted(f for f in kept.folder.rglob("*") if f.is_file())
    for file in files:
        for time in range(times):
            kind = KINDS[time % len(KINDS)]
            outcome = _tried(kept, file, kind, now, random)
            counts[outcome.split(":")[0]] += 1
            if outcome.startswith("FAULT"):
                faults.append(f"{kept.name}/{file.name}, {kind}: {outcome}")
    ended = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    print(f"{kept.name}: {len(files)} files, {sum(counts.values())} damages: {ended}", flush=True)
    return faults


def _tried(kept: Kept, file: Path, kind: str, now: Path, random: np.random.Generator) -> str:
    with suppress(FileNotFoundError):
        shutil.rmtree(now)
    shutil.copytree(kept.folder, now)
    name = str(file.relative_to(kept.folder))
    damage(now / name, kind, twin_of(name, kept.other, random), random)
    try:
        result = kept.read(now)
    except AbevalError:
        return "refused"
    except Exception:
        return f"FAULT: {traceback.format_exc().splitlines()[-1]}"
    return "right result" if text_of(result) == kept.right else "FAULT: another result"


if __name__ == "__main__":
    sys.exit(main())
