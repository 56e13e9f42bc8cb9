"""Calibration of verdicts where the split changes, or only seems to.

Logs of users who come for two weeks, active ones sooner, through the whole analysis, each with
what its file may say of the split: nothing, a schedule, or a log of exposures.
"""

import math
from collections import Counter
from typing import NamedTuple, get_args

import numpy as np

from benchmarks.runner import Record, Table
from tests.worlds.splits import METRICS, WORLDS, Says, World, analysed, users_of


class Plan(NamedTuple):
    """A world, what its file says, the true lift of the click rate, and the adjustment."""

    world: World
    says: Says
    lift: float = 0.0
    adjust: str = "none"


def measure_plan(plan: Plan, repetitions: int, seed: int) -> Record:
    """Count verdicts, and how often the intervals that may be read cover the lift."""
    verdicts = Counter[str]()
    covers: dict[str, list[bool]] = {name: [] for name in METRICS}
    for i in range(seed, seed + repetitions):
        users = users_of(plan.world, i, plan.lift)
        result = analysed(plan.world, users, plan.says, plan.adjust)
        verdicts[result.verdicts[0].decision] += 1
        for row in result.scorecard:
            if row.status != "untrusted" and row.lift_low is not None and row.lift_high is not None:
                covers[row.metric].append(row.lift_low <= plan.lift <= row.lift_high)
    names = ("ship", "do_not_ship", "keep_running", "do_not_trust")
    return {
        "world": plan.world.name,
        "the file says": plan.says,
        **{f"{name.replace('_', ' ')}, %": verdicts[name] / repetitions for name in names},
        **{f"{m} covered, %": float(np.mean(c)) if c else math.nan for m, c in covers.items()},
    }


def list_plans(lift: float, adjust: str) -> list[Plan]:
    """List the worlds, each with what its file may say.

    Where only the first impression moves, exposures would be those of a plain log.
    """
    pairs = [(w, s) for w in WORLDS for s in get_args(Says) if s != "exposures" or not w.moved]
    return [Plan(world, says, lift, adjust) for world, says in pairs]


TABLES = {
    "no effect": Table(measure_plan, list_plans(0.0, "none"), repetitions=200),
    "lift": Table(measure_plan, list_plans(0.17, "none"), repetitions=200),
    "lift, CUPED": Table(measure_plan, list_plans(0.17, "cuped"), repetitions=200),
}
