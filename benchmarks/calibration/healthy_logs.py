"""What the whole analysis says of healthy logs, and of faulty ones.

Of each kind of `healthy_worlds` so many logs are drawn, in turn of each size and each effect on
clicks, and of each fault of `faulty_worlds`. At most .4 % of healthy logs may fail a check, and 4 %
warn; every fault should be found, and not decided on.
"""

import zlib
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from abeval.api import LoadedExperiment
from abeval.results.analysis import Result
from benchmarks.runner import Record, Table, write_counts
from tests.worlds.experiments import define_experiment
from tests.worlds.faulty import FAULTS
from tests.worlds.healthy import DAYS, KINDS, START, World

SIZES = (1_000, 3_000, 20_000)
LIFTS = (0.0, 0.1, 0.2)
METRICS = ("clicks_per_user", "impressions_per_user", "sessions_per_user", "gauc")


class Run(NamedTuple):
    """What the analysis said of a log: its users and effect on clicks, decisions and checks."""

    users: int
    lift: float
    decisions: list[str]
    fails: list[str]
    warns: list[str]
    is_found: bool


def define_world(world: World) -> LoadedExperiment:
    """Define the experiment of a world as anybody would: with every check, of one goal."""
    end = START + np.timedelta64(DAYS, "D")
    entries: dict[str, Any] = {
        "control": "control",
        "variants": {"control": {}, "treatment": {}},
        "period": {"start": START.astype("M8[D]").item(), "end": end.astype("M8[D]").item()},
        "logs": {name: {} for name in world.logs},
        "segments": {"device": "device"},
        "metrics": [{"name": "ctr", "role": "goal"}, *({"name": name} for name in METRICS)],
    }
    return define_experiment(**(entries | dict(world.entries)))


def analyze_world(world: World) -> Result:
    """Analyse a world, with the replays."""
    return define_world(world).analyze(logs=dict(world.logs))


def judge(kind: str, number: int, seed: int) -> Run:
    """Draw and analyse a log of a kind or with a fault; sizes and effects take turns."""
    users, lift = SIZES[number % len(SIZES)], LIFTS[number // len(SIZES) % len(LIFTS)]
    random = np.random.default_rng([seed, zlib.crc32(kind.encode()), number])
    fault = FAULTS.get(kind)
    result = analyze_world(fault.draw(random) if fault else KINDS[kind](random, users, lift))
    fails, warns = (
        [check.name for check in result.trust if check.status == status]
        for status in ("fail", "warn")
    )
    decisions = [str(one.decision) for one in result.verdicts if one.variant != "third"]
    return Run(users, lift, decisions, fails, warns, bool(fault and fault.is_found(result)))


def measure_kind(kind: str, repetitions: int, seed: int) -> Record:
    """Count the healthy logs of a kind that fail, warn, and are decided wrongly or not at all."""
    runs = [judge(kind, number, seed) for number in range(repetitions)]
    still = [run for run in runs if not run.lift]
    moved = [run for run in runs if run.lift == max(LIFTS)]
    missed = Counter(f"{run.users:,}:" for run in moved if "ship" not in run.decisions)
    return {
        "kind": kind,
        "logs": repetitions,
        "not trusted": sum("do_not_trust" in run.decisions for run in runs),
        "a check fails, %": sum(bool(run.fails) for run in runs) / repetitions,
        "which fails": write_counts(Counter(name for run in runs for name in run.fails)),
        "warns, %": sum(bool(run.warns) and not run.fails for run in runs) / repetitions,
        "which warns": write_counts(Counter(name for run in runs for name in run.warns)),
        "no effect: ship": sum("ship" in run.decisions for run in still),
        "no effect: stop": sum("do_not_ship" in run.decisions for run in still),
        "no effect: logs": len(still),
        f"+20 %: not shipped, by users, of {len(moved) // len(SIZES)}": write_counts(missed),
    }


def measure_fault(name: str, repetitions: int, seed: int) -> Record:
    """Count the logs with a fault in which it is found, and those that are still decided on."""
    runs = [judge(name, number, seed) for number in range(repetitions)]
    return {
        "fault": name,
        "checks": ", ".join(f"`{check}`" for check in FAULTS[name].checks),
        "found": sum(run.is_found for run in runs),
        "of": repetitions,
        **{
            decision.replace("_", " "): sum(decision in run.decisions for run in runs)
            for decision in ("do_not_trust", "ship", "do_not_ship")
        },
    }


TABLES = {
    "healthy": Table(measure_kind, tuple(KINDS)),
    "faulty": Table(measure_fault, tuple(FAULTS), repetitions=40),
}
