"""Coverage of off-policy estimates, where weights and numbers of rows have heavy tails.

Twenty items are logged by a softmax of scores; the evaluated policy prefers what the log seldom
shows, more so in worlds of heavier weights. Users differ in their readiness to click and have rows
by a Pareto tail. Logs go through the estimators, one in fifty through the whole command. Refused
estimates are counted apart.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
import pandas as pd

import abeval
from abeval.stats.off_policy import (
    Policy,
    Rows,
    check_support,
    compute_importance_weights,
    cross_fit,
    diagnose,
    estimate,
)
from abeval.stats.records import Floats, Integers, Refusal
from benchmarks.runner import Record, Table

ITEMS = 20
NAMES = ("ips", "snips", "dr", "sndr")


class World(NamedTuple):
    """Users, the Pareto tail of their rows, and how far the policies lie apart."""

    users: int
    tail: float
    apart: float

    @property
    def policies(self) -> tuple[Floats, Floats]:
        """Return the chance of each item under the logging and the evaluated policy."""
        score = np.linspace(-1, 1, ITEMS)
        logged, evaluated = np.exp(-self.apart * score), np.exp(self.apart * score)
        return logged / logged.sum(), evaluated / evaluated.sum()

    @property
    def rates(self) -> Floats:
        """Return the click rate of each item."""
        return 0.05 + 0.1 * np.abs(np.sin(np.arange(ITEMS)))

    @property
    def truth(self) -> float:
        """Return the value of the evaluated policy."""
        return float(self.policies[1] @ self.rates)


WORLDS = (
    *(World(1_000, tail, apart) for tail in (1.5, 3.0) for apart in (0.5, 1.0, 1.5)),
    World(5_000, 3.0, 2.5),
)


class Drawn(NamedTuple):
    """User, item and click of each row."""

    user: Integers
    item: Integers
    click: Integers


def draw(world: World, seed: int) -> Drawn:
    """Draw a log."""
    rng = np.random.default_rng([seed, WORLDS.index(world), 46])
    rows = np.minimum(2 * (rng.pareto(world.tail, world.users) + 1), 1_000).astype(np.int64)
    user = np.repeat(np.arange(world.users), rows)
    item = rng.choice(ITEMS, len(user), p=world.policies[0])
    ready = rng.choice([0.5, 1.5], world.users)[user]
    return Drawn(user, item, (rng.random(len(user)) < ready * world.rates[item]).astype(np.int64))


def outcomes(world: World, seed: int) -> dict[str, str]:
    """Return estimator → whether its interval holds the truth, or why there is none."""
    drawn, (logged, evaluated) = draw(world, seed), world.policies
    items = np.arange(ITEMS)
    policy = Policy(np.zeros_like(items), items, evaluated)
    reward, fold = drawn.click.astype(np.float64), drawn.user % 2
    of_rows = reward, logged[drawn.item], evaluated[drawn.item], drawn.user
    found = dict[str, str]()
    try:
        weights = compute_importance_weights(*of_rows[1:3])
        check_support(diagnose(reward, weights, drawn.user, 0.0))
    except Refusal as refusal:
        return dict.fromkeys(NAMES, refusal.reason)
    fit = cross_fit(reward, drawn.item, np.zeros_like(fold), fold, policy)
    for name in NAMES:
        rows = Rows(*of_rows, fit.predicted, fit.expected, fit.influence)
        try:
            value = estimate(name, rows)
        except Refusal as refusal:
            found[name] = refusal.reason
            continue
        found[name] = _side(value.low, value.high, world.truth) or str(value.reason)
    return found


def _side(low: float | None, high: float | None, truth: float) -> str:
    """Say where the truth lies; empty without an interval."""
    if low is None or high is None:
        return ""
    return "above" if truth > high else "below" if truth < low else "inside"


def through_command(world: World, seed: int) -> dict[str, str]:
    """Evaluate the policy on a log, as `abeval off-policy` does."""
    drawn, (logged, evaluated) = draw(world, seed), world.policies
    loaded = abeval.define(
        name="policies",
        unit="user_id",
        control="logged",
        variants={"logged": {}, "other": {}},
        logs={"impressions": {"path": "log.csv"}},
        metrics=[{"name": "ctr", "role": "goal"}],
    )
    number = np.arange(len(drawn.user))
    frame = pd.DataFrame(
        {
            "user_id": drawn.user,
            "item_id": drawn.item,
            "position": 1,
            "impression_id": number,
            "ts": pd.Timestamp("2026-05-04") + pd.to_timedelta(number % 600_000, unit="s"),
            "variant": np.where(drawn.user % 50, "logged", "other"),
            "click": drawn.click,
            "propensity": logged[drawn.item],
        }
    )
    policy = pd.DataFrame({"item_id": np.arange(ITEMS), "probability": evaluated})
    result = loaded.off_policy("logged", policy=policy, logs={"impressions": frame})
    rows = {row.estimator: row for row in result.rows}
    return {
        name: _side(rows[name].low, rows[name].high, world.truth) or str(rows[name].reason)
        for name in NAMES
    }


def measure_world(world: World, repetitions: int, seed: int) -> Record:
    """Measure coverage by the estimators, and of one log in fifty through the whole command."""
    seeds = range(seed, seed + repetitions)
    record: dict[str, object] = {"users": world.users, "tail of rows": world.tail}
    record["apart"] = world.apart
    for suffix, found in (
        ("", [outcomes(world, one) for one in seeds]),
        (", command", [through_command(world, one) for one in seeds[: max(repetitions // 50, 1)]]),
    ):
        for name in NAMES:
            counts = Counter(one[name] for one in found)
            known = sum(counts[side] for side in ("inside", "above", "below"))
            share = f"{100 * counts['inside'] / known:.1f}" if known else "–"
            refused = f" ({100 * (1 - known / len(found)):.0f} % refused)"
            record[name.upper() + suffix] = share + refused * (0 < known < len(found))
    return record


TABLES = {"coverage": Table(measure_world, WORLDS)}
