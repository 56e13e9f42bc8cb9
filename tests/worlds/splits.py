"""Users whose split changes, or only seems to, and the whole analysis of their logs."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from abeval.results.analysis import Result
from abeval.stats.records import Integers
from tests.worlds.experiments import define_experiment

DAYS = 14
START = pd.Timestamp("2026-01-05")
METRICS = ("clicks_per_user", "ctr")
USERS = 5_050

Says = Literal["nothing", "schedule", "exposures"]
"""What the experiment file says of when units were assigned."""


@dataclass(frozen=True)
class World:
    """When users are assigned, and when they come.

    Attributes:
        name: In the table.
        shares: Share of treatment among the users who are assigned on each day.
        moved: Share of treatment that comes on the first two days instead; its totals stay.
        waits: Share that is assigned before it comes, two days on average, and is
            less active.
        drift: How much the click rate rises from the first day to the last.
    """

    name: str
    shares: tuple[float, ...] = (0.5,) * DAYS
    moved: float = 0.0
    waits: float = 0.0
    drift: float = 0.0


def ramp(low: float) -> tuple[float, ...]:
    """Shares of five days, and then half."""
    return (low,) * 5 + (0.5,) * (DAYS - 5)


WORLDS = (
    World("always 50 %"),
    World("always 50 %, 15 % of treatment moved to days 0 and 1", moved=0.15),
    World("always 50 %, 30 % of treatment moved to days 0 and 1", moved=0.30),
    World("5 %, then 50 %", ramp(0.05)),
    World("10 %, then 50 %", ramp(0.10)),
    World("5 %, then 50 %; half are assigned before they come", ramp(0.05), waits=0.5),
    World("… and the click rate rises by half", ramp(0.05), waits=0.5, drift=0.5),
)


class Users(NamedTuple):
    """Users of one experiment: days of assignment and of coming, and what they do.

    Attributes:
        assigned: Day of assignment.
        came: Day of the first impression.
        treated: Whether in the treatment.
        shown: Impressions in the period.
        clicks: Clicks on them.
        shown_before: Impressions before the period.
        clicks_before: Clicks on them.
    """

    assigned: Integers
    came: Integers
    treated: Integers
    shown: Integers
    clicks: Integers
    shown_before: Integers
    clicks_before: Integers


def users_of(world: World, seed: int, lift: float = 0.0, users: int = USERS) -> Users:
    """Users of one experiment, whose treatment has this lift of the click rate."""
    rng = np.random.default_rng([seed, 29])
    waits = rng.random(users) < world.waits
    active = rng.gamma(2.0, 0.5, users) * np.where(waits, 0.4, 1.0)
    # Active users come sooner; where some wait, about as many are assigned on each day.
    pace = np.full(users, 1e3) if world.waits else 6 / (0.1 + active)
    # Exponential, given that they come within the period.
    came_by = rng.random(users) * -np.expm1(-DAYS / pace)
    assigned = (-pace * np.log1p(-came_by)).astype(np.int64)
    treated = rng.random(users) < np.array(world.shares)[assigned]
    came = assigned + np.where(waits, rng.geometric(1 / 2, users), 0)
    moved = treated & (rng.random(users) < world.moved)
    level = 1 + world.drift * came / (DAYS - 1)
    came = np.where(moved, rng.integers(0, 2, users), came)
    shown = 1 + rng.poisson(4 * active)
    rate = 0.1 * (0.5 + 0.5 * np.minimum(active, 3)) * level
    before = rng.poisson(4 * active)
    users_there = came < DAYS
    columns = (
        *(assigned, came, treated.astype(np.int64), shown),
        rng.binomial(shown, rate * np.where(treated, 1 + lift, 1)),
        *(before, rng.binomial(before, rate)),
    )
    return Users(*(column[users_there] for column in columns))


def log_of(users: Users, rng: np.random.Generator) -> pd.DataFrame:
    """One row an impression: the first in the first half of a user's first day, others later."""
    first = START + pd.to_timedelta(users.came, unit="D")
    left = (DAYS - users.came) * 86_400.0
    now = _rows(users.shown, users.clicks, users.treated)
    is_first = now["place"].to_numpy() == 0
    noon = 43_200.0
    later = noon + rng.random(len(now)) * (left[now["user_id"]] - noon)
    seconds = np.where(is_first, rng.random(len(now)) * noon, later)
    now["ts"] = first[now["user_id"]] + pd.to_timedelta(np.floor(seconds), unit="s")
    return now.drop(columns="place")


def earlier_log(users: Users) -> pd.DataFrame:
    """The impressions before the period."""
    rows = _rows(users.shown_before, users.clicks_before, users.treated).drop(columns="place")
    return rows.assign(ts=START - pd.Timedelta(days=2))


def _rows(shown: Integers, clicks: Integers, treated: Integers) -> pd.DataFrame:
    user = np.repeat(np.arange(len(shown)), shown)
    place = np.arange(len(user)) - np.repeat(np.cumsum(shown) - shown, shown)
    variant = np.where(treated == 1, "b", "a")[user]
    click = (place < clicks[user]).astype(int)
    return pd.DataFrame({"user_id": user, "variant": variant, "click": click, "place": place})


def analysed(world: World, users: Users, says: Says, adjust: str = "none") -> Result:
    """What the whole analysis says of a log."""
    shares = world.shares
    logs = {"impressions": log_of(users, np.random.default_rng(int(users.shown.sum())))}
    if says == "exposures":
        at = START + pd.to_timedelta(users.assigned, unit="D")
        variant = np.where(users.treated == 1, "b", "a")
        logs["exposures"] = pd.DataFrame(
            {"user_id": np.arange(len(at)), "variant": variant, "ts": at}
        )
    entries: dict[str, Any] = {
        "variants": {"a": {"weight": 1 - shares[-1]}, "b": {"weight": shares[-1]}},
        "period": {"start": START.date(), "end": (START + pd.Timedelta(days=DAYS)).date()},
        "logs": {name: {} for name in logs},
        "cleaning": {"duplicates": "unchecked"},
        "trust": {"aa_runs": 0},
        "inference": {"adjust": adjust},
        "metrics": [{"name": name, "role": "goal"} for name in METRICS],
    }
    if adjust != "none":
        before = START - pd.Timedelta(days=4)
        logs["impressions"] = pd.concat([logs["impressions"], earlier_log(users)])
        entries["pre_period"] = {"start": before.date(), "end": START.date()}
    if says == "schedule":
        changes = [day for day in range(DAYS) if day == 0 or shares[day] != shares[day - 1]]
        entries["assignment"] = {"splits": [_split(day, shares[day]) for day in changes]}
    return define_experiment(**entries).analyze(logs=logs)


def _split(day: int, share: float) -> dict[str, Any]:
    start = (START + pd.Timedelta(days=day)).date()
    return {"from": start, "weights": {"a": 1 - share, "b": share}}
