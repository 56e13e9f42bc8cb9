"""Bots in whole analyses: sound where both variants have them alike, a fault where one has."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.results.analysis import Result
from abeval.results.trust import Check

START, DAYS = pd.Timestamp("2026-01-05"), 7
EXPERIMENT = abeval.define(
    name="bots",
    unit="user_id",
    control="control",
    period={"start": "2026-01-05", "end": "2026-01-12"},
    variants={"control": {}, "treatment": {}},
    logs={"impressions": {}},
    metrics=[{"name": "ctr"}, {"name": "clicks_per_user"}],
    trust={"aa_runs": 0},
)


def world(
    users: int, bots: int, effect: float, seed: int, one_armed: bool = False, clicks: bool = False
) -> Result:
    """An analysis of people who come by day, a few of them very often, and of bots.

    `effect` is on how often people of the treatment come, and on how often they click. A bot comes
    at one distance, a few of them very often; it clicks all or nothing.
    """
    random = np.random.default_rng(seed)
    treated = random.integers(0, 2, users + bots) == 1
    treated[users:] |= one_armed
    more = np.where(treated, 1 + effect, 1.0)
    visits = np.minimum(random.pareto(1.2, users) * 4 * more[:users], 1_000)
    person = np.repeat(np.arange(users), 1 + random.poisson(visits))
    day = random.integers(0, DAYS, person.size)
    rate = random.beta(2, 14, users)[person] * more[person]
    of_people = pd.DataFrame(
        {
            "user_id": person,
            "day": day + 0.3 + 0.65 * random.beta(3, 2, person.size),
            "click": (random.random(person.size) < rate).astype(int),
        }
    )
    lists = 60 + np.minimum(random.pareto(1.2, bots) * 60, 2_000).astype(int)
    bot = np.repeat(np.arange(bots), lists)
    number = np.arange(bot.size) - np.repeat(np.cumsum(lists) - lists, lists)
    of_bots = pd.DataFrame(
        {
            "user_id": users + bot,
            "day": random.random(bots)[bot] * 5 + number * 40 / 86_400,
            "click": int(clicks),
        }
    )
    log = pd.concat([of_people, of_bots], ignore_index=True)
    log["variant"] = np.where(treated[log["user_id"]], "treatment", "control")
    log["ts"] = START + pd.to_timedelta((log.pop("day") * 86_400_000).astype("int64"), unit="ms")
    log["item_id"], log["request_id"] = random.integers(0, 300, len(log)), np.arange(len(log))
    return EXPERIMENT.analyze(logs={"impressions": log})


def check_of(result: Result) -> Check:
    return next(one for one in result.trust if one.name == "bots")


def statuses(runs: int, **entries: object) -> Counter[str]:
    worlds = (world(seed=seed, **entries) for seed in range(runs))  # type: ignore[arg-type]
    return Counter(check_of(result).status for result in worlds)


@pytest.mark.slow
@pytest.mark.parametrize("effect", [0.0, 0.2])
def test_bots_that_both_variants_have_pass(effect: float) -> None:
    assert statuses(4, users=1_000, bots=10, effect=effect, clicks=True) == {"pass": 4}


@pytest.mark.slow
def test_bots_of_one_variant_alone_fail() -> None:
    found = check_of(world(3_000, 30, 0.1, seed=1, one_armed=True))
    assert (found.status, "treatment 30 of 1,5" in found.message) == ("fail", True)
    assert "a list about every 40 seconds" in found.message
    assert found.value is not None
    assert found.value > 0.005


@pytest.mark.slow
@pytest.mark.parametrize("effect", [0.0, 0.1, 0.2])
@pytest.mark.parametrize("clicks", [False, True])
@pytest.mark.parametrize("users", [1_000, 3_000])
def test_of_many_worlds_with_bots_none_is_stopped_and_one_armed_bots_are_always_seen(
    users: int, clicks: bool, effect: float
) -> None:
    sound = statuses(100, users=users, bots=users // 100, effect=effect, clicks=clicks)
    assert sound == {"pass": 100}
    of_one = statuses(20, users=users, bots=30, effect=effect, clicks=clicks, one_armed=True)
    assert of_one == {"fail": 20}
