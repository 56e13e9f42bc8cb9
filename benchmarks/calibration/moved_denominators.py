"""Verdicts on a click rate whose denominator moved, through the whole analysis.

4,000 uneven users. Impressions of the treatment are logged more or less often without any effect,
or more are shown, or clicks rise and fall. The click rate is the only goal, or the only guardrail
(margin 10 %) beside a goal that is plainly better.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.runner import Record, Table
from tests.worlds.experiments import define_experiment


class World(NamedTuple):
    """What the treatment does.

    Attributes:
        name: In words.
        logged: Share of impressions that are logged more or, without a click, less.
        shown: Lift of the impressions that users have, clicked as often as the others.
        clicked: Lift of the chance of a click.
        treated: Share of the users.
        shape: Of the gamma distribution of activity: below 1 a few users have most of it.
    """

    name: str
    logged: float = 0.0
    shown: float = 0.0
    clicked: float = 0.0
    treated: float = 0.5
    shape: float = 1.5


WORLDS = (
    World("no effect, impressions logged +40 %", logged=0.4),
    World("no effect, impressions logged +10 %", logged=0.1),
    World("no effect, impressions logged -20 %", logged=-0.2),
    World("the same at 90/10, skewed", logged=-0.2, treated=0.1, shape=0.5),
    World("shown +30 %, click rate -15 %", shown=0.3, clicked=-0.15),
    World("shown +15 %, click rate +20 %", shown=0.15, clicked=0.2),
    World("shown -15 %, click rate -20 %", shown=-0.15, clicked=-0.2),
    World("shown +2 %, click rate +20 %", shown=0.02, clicked=0.2),
    World("click rate +20 %", clicked=0.2),
    World("click rate -20 %", clicked=-0.2),
    World("no effect"),
)
GOAL: dict[str, object] = {"name": "ctr", "role": "goal"}
GUARDED: list[dict[str, object]] = [
    {"name": "bought", "value": "bought", "role": "goal"},
    {"name": "ctr", "role": "guardrail", "margin": 0.1},
]


def log_of(world: World, seed: int, users: int = 4_000) -> pd.DataFrame:
    """The impressions of an experiment; every user of the treatment buys one thing more."""
    rng = np.random.default_rng([seed, 27])
    treated = rng.random(users) < world.treated
    activity = rng.gamma(world.shape, 8 / world.shape, users)
    seen = rng.poisson(activity * np.where(treated, 1 + world.shown, 1)) + 1
    rate = rng.beta(2, 14, users) * np.where(treated, 1 + world.clicked, 1)
    clicks = rng.binomial(seen, np.minimum(rate, 1))
    more = rng.binomial(seen, max(world.logged, 0.0))
    less = rng.binomial(seen - clicks, min(1.0, max(-world.logged, 0.0) / (1 - rate.mean())))
    logged = np.maximum(seen + treated * (more - less), 1)
    row = np.repeat(np.arange(users), logged)
    place = np.arange(row.size) - np.repeat(np.cumsum(logged) - logged, logged)
    return pd.DataFrame(
        {
            "user_id": row,
            "variant": np.where(treated, "b", "a")[row],
            "item_id": place,
            "click": (place < clicks[row]).astype(int),
            "bought": ((place == 0) * (rng.poisson(1, users) + treated)[row]).astype(int),
        }
    )


def verdict_of(log: pd.DataFrame, metrics: list[dict[str, object]]) -> tuple[str, bool]:
    """The decision, and whether the check of denominators warns."""
    experiment = define_experiment(
        weights="observed", logs={"impressions": {}}, metrics=metrics, trust={"aa_runs": 0}
    )
    result = experiment.analyze(logs={"impressions": log})
    warns = (c.name == "denominators" and c.status == "warn" for c in result.trust)
    return result.verdicts[0].decision, any(warns)


def measure_world(world: World, repetitions: int, seed: int) -> Record:
    """Count the warnings and the verdicts, by the role of the click rate."""
    warned, verdicts = 0, Counter[tuple[str, str]]()
    for i in range(seed, seed + repetitions):
        log = log_of(world, i)
        decision, warns = verdict_of(log, [GOAL])
        verdicts["a goal", decision] += 1
        warned += warns
        verdicts["a guardrail", verdict_of(log, GUARDED)[0]] += 1
    counts = {
        f"ctr {role}: {decision}": verdicts[role, decision]
        for role in ("a goal", "a guardrail")
        for decision in ("ship", "keep_running", "do_not_ship")
    }
    return {"world": world.name, "warns": warned, **counts}


TABLES = {"verdicts": Table(measure_world, WORLDS, repetitions=40)}
