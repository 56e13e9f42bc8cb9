"""Calibration of the checks of a segment that the treatment moves, and of one that it cannot move.

    python -m benchmarks.calibration.moved_segment --seeds 1000

20,000 users, half in each variant. The treatment moves the share of one scene from .3 to .5; or the
scene is known before, and 10 % of the treatment's users of one scene are not logged.
"""

import argparse
import sys
from typing import NamedTuple

import numpy as np

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.sums import SUM_NAMES, Group, SumsRow
from abeval.experiment.load import parse_experiment
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis
from abeval.inference.trust.finding import RawCheck, apply_thresholds
from abeval.inference.trust.split import moved_segments, segments_check, srm_check
from abeval.stats.records import Integers

USERS = 20_000


class Shares(NamedTuple):
    """What the checks say, as shares of the seeds.

    Attributes:
        failed: Some check of the split fails.
        untrusted: The table of the segment is untrusted.
    """

    failed: float
    untrusted: float


def experiment_of(known: bool) -> Experiment:
    """The experiment, with the scene known before or not."""
    return parse_experiment(
        {
            "name": "scene",
            "unit": "user_id",
            "control": "a",
            "variants": {"a": {}, "b": {}},
            "period": {"start": "2026-01-08", "end": "2026-01-15"},
            "pre_period": {"start": "2026-01-01", "end": "2026-01-08"},
            "logs": {"impressions": {}},
            "segments": {"scene": {"value": "scene", "known": "before"} if known else "scene"},
        }
    )


def aggregates_of(counts: Integers) -> Aggregates:
    """Aggregates with nothing but units by scene and variant, shape (scenes, variants)."""
    rows = [
        SumsRow(
            "ctr", "segment:scene", f"s{scene}", Group(variant, 0), int(n), [0] * len(SUM_NAMES)
        )
        for scene, of_scene in enumerate(counts)
        for variant, n in zip("ab", of_scene, strict=True)
    ]
    totals = counts.sum(axis=0).tolist()
    units = dict(zip("ab", totals, strict=True))
    return Aggregates(rows, None, units, (), (), {}, {}, {})


class World(NamedTuple):
    """Shares of the scene in both variants, and what is lost of treatment in and outside it."""

    name: str
    known: bool
    control: float = 0.3
    treatment: float = 0.3
    drop: tuple[float, float] = (0.0, 0.0)
    users: int = USERS


def counts_of(seed: int, world: World) -> Integers:
    """Users by scene and variant; of treatment's, a share of each scene is lost."""
    rng = np.random.default_rng(seed)
    units = rng.multinomial(world.users, [0.5, 0.5])
    chances = world.control, world.treatment
    table = np.stack(
        [rng.multinomial(n, [p, 1 - p]) for n, p in zip(units, chances, strict=True)], axis=1
    )
    table[:, 1] -= rng.binomial(table[:, 1], world.drop)
    return table


def shares(seeds: int, world: World, families: int) -> Shares:
    """What the checks say over many seeds, among so many other families of tests."""
    experiment, said = experiment_of(world.known), []
    others = [RawCheck(1.0, "", name=f"other{i}") for i in range(families - 1)]
    for seed in range(seeds):
        analysis = Analysis(experiment, [], aggregates_of(counts_of(seed, world)))
        found = [*srm_check.findings(analysis), *segments_check.findings(analysis), *others]
        checks = apply_thresholds(found, experiment.trust)
        failed = any(check.status == "fail" for check in checks)
        said.append((failed, bool(moved_segments(experiment, checks))))
    failed_share, moved = np.mean(said, axis=0)
    return Shares(float(failed_share), float(moved))


WORLDS = (
    World("nothing moves", known=False),
    World("the treatment moves the scene, .3 to .5", known=False, treatment=0.5),
    World("known before; nothing lost", known=True),
    *(
        World(f"known before; 10 % lost of a scene of {share}", True, share, share, (0.1, 0.0), n)
        for share in (0.3, 0.5)
        for n in (20_000, 30_000, 35_000, 40_000, 50_000)
    ),
)


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.moved_segment")
    parser.add_argument("--seeds", type=int, default=1000)
    options = parser.parse_args()
    sys.stdout.write(
        "| truth | users | families of tests | a check fails | table untrusted |\n"
        "|---|--:|--:|--:|--:|\n"
    )
    for world in WORLDS:
        for families in (3, 12):
            of = shares(options.seeds, world, families)
            sys.stdout.write(
                f"| {world.name} | {world.users:,} | {families} | {of.failed:.1%} | "
                f"{of.untrusted:.1%} |\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
