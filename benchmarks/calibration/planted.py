"""How often `abeval agree` names a planted cause first, and how often one that is not there.

    python -m benchmarks.calibration.planted --seeds 20 --clean 100
    python -m benchmarks.calibration.planted --seeds 3 --clean 0 --causes stale_model,timeouts

Each log of `benchmarks.plants` has one cause of a gap between offline and online, or none.
The table counts which cause is named first; in a clean log, nothing should be.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import abeval
from benchmarks.plants import simulate_plant
from benchmarks.plants.causes import PLANTS

CLEAN = "none"
IMPRESSIONS = 80_000


class Verdict(NamedTuple):
    """What was said of one log.

    Attributes:
        plant: What was planted.
        cause: What should be named first; empty for nothing.
        seed: Of the log.
        standing: Of offline against online.
        named: The causes found, most likely first.
    """

    plant: str
    cause: str
    seed: int
    standing: str
    named: tuple[str, ...]

    @property
    def first(self) -> str:
        """The cause named first, empty if none was found."""
        return self.named[0] if self.named else ""


def verdict(plant: str, seed: int, impressions: int = IMPRESSIONS) -> Verdict:
    """Simulate a log, and ask why its offline and online results differ."""
    with tempfile.TemporaryDirectory() as folder:
        truth = simulate_plant(folder, plant, impressions, seed)
        agreement = abeval.load(Path(folder) / "experiment.toml").agree()
    named = tuple(cause.name for cause in agreement.confirmed_causes)
    return Verdict(plant, truth.cause, seed, agreement.explanations[0].standing, named)


def rows(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """One line per planted cause: how often it was first, and what was named instead."""
    width = max(len(one.plant) for one in verdicts)
    for plant in dict.fromkeys(one.plant for one in verdicts):
        own = [one for one in verdicts if one.plant == plant]
        first = Counter(one.first or "nothing" for one in own)
        right = first.pop(own[0].cause or "nothing", 0)
        others = ", ".join(f"{name} {count}" for name, count in first.most_common())
        beside = Counter(name for one in own for name in one.named[1:])
        also = ", ".join(f"{name} {count}" for name, count in beside.most_common())
        stands = Counter(one.standing for one in own).most_common()
        standing = ", ".join(f"{name} {count}" for name, count in stands)
        expected = own[0].cause or "nothing"
        yield (
            f"{plant:{width}}  {expected:14}  {right:>3} of {len(own):<3}  {standing}"
            + (f"; first instead: {others}" if others else "")
            + (f"; also found: {also}" if also else "")
        )


def main() -> None:
    """Print the table."""
    names = [plant.name for plant in PLANTS if plant.name != CLEAN]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="The first seed.")
    parser.add_argument("--clean", type=int, default=100)
    parser.add_argument("--impressions", type=int, default=IMPRESSIONS)
    parser.add_argument("--causes", default=",".join(names))
    options = parser.parse_args()
    wanted = [(name, options.seeds) for name in options.causes.split(",") if name]
    verdicts = []
    began = time.perf_counter()
    for name, seeds in [*wanted, (CLEAN, options.clean)]:
        own = [
            verdict(name, seed, options.impressions)
            for seed in range(options.first, options.first + seeds)
        ]
        verdicts += own
        for line in rows(own) if own else ():
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    took = time.perf_counter() - began
    sys.stdout.write(f"{len(verdicts)} logs in {took:,.0f} s\n")


if __name__ == "__main__":
    main()
