"""Every file of saved aggregates, damaged: the right result, or a refusal.

`python -m benchmarks.reliability.damage [--times 20]` prints a row of the table in
`docs/reliability.md`, and fails on a wrong result or an error that is no refusal.
"""

import argparse
import shutil
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import abeval
from abeval.errors import AbevalError
from benchmarks.reliability.world import World

KINDS = ("bit", "digit", "cut", "gone", "another's")


def saved(root: Path) -> tuple[abeval.LoadedExperiment, Path, Path]:
    """An experiment, its saved aggregates, and those of other logs."""
    loaded, folders = [], []
    for seed, who in enumerate(("mine", "other")):
        world = World(root / who)
        world.make(4, seed)
        loaded.append(world.load().replace(engine={"threads": 1}))
        folders.append(world.out / "aggregates")
        loaded[-1].analyze(save_aggregates=folders[-1])
    return loaded[0], folders[0], folders[1]


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
    same = sorted(other.glob(f"{start}*{suffix}"))
    return same[int(random.integers(len(same)))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Damage each file: 0 if there is no wrong result and no other error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=18)
    options = parser.parse_args(arguments)
    random = np.random.default_rng(options.seed)
    counts: Counter[str] = Counter()
    with TemporaryDirectory(prefix="abeval-damage-") as parent:
        loaded, folder, other = saved(Path(parent))
        right, now = loaded.analyze().to_json(), Path(parent) / "now"
        files = sorted(folder.iterdir())
        for file in files:
            for time in range(options.times):
                kind = KINDS[time % len(KINDS)]
                shutil.rmtree(now, ignore_errors=True)
                shutil.copytree(folder, now)
                damage(now / file.name, kind, twin_of(file.name, other, random), random)
                outcome = _tried(loaded, now, right)
                counts[outcome.split(":")[0]] += 1
                if outcome.startswith("FAULT"):
                    print(f"{file.name}, {kind}: {outcome}")
    ended = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    print(f"{len(files)} files, {sum(counts.values())} damages: {ended}")
    return int("FAULT" in counts)


def _tried(loaded: abeval.LoadedExperiment, folder: Path, right: str) -> str:
    try:
        result = loaded.from_aggregates(folder).to_json()
    except AbevalError:
        return "refused"
    except Exception:
        return f"FAULT: {traceback.format_exc().splitlines()[-1]}"
    return "right result" if result == right else "FAULT: another result"


if __name__ == "__main__":
    sys.exit(main())
