"""Simulate a switchback of cities with a known lift.

Traffic and click rate have a daily rhythm. The click rate of a city also changes at random from
hour to hour (an autoregressive process with coefficient .9). After a switch the previous variant
may act for some minutes more.
"""

from datetime import datetime, time, timedelta
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit

from abeval.assignment.switchbacks import Schedule, build_schedule
from abeval.simulate import world
from abeval.simulate.run import Small
from abeval.simulate.visits import Bools
from abeval.simulate.world import Ints

ARMS = world.VARIANTS
LIFT, CITIES, DAYS, HOURS = 0.1, 4, 14, 2
MINUTES, SLOT = DAYS * 1440, HOURS * 60
SLOTS = MINUTES // SLOT
START = datetime.combine(world.START, time())


class Minutes(NamedTuple):
    """Clicks and impressions by city and minute, and who is treated in each slot."""

    y: Ints
    x: Ints
    treated: Bools


def draw_minutes(schedule: Schedule, carry: int, seed: int, lift: float) -> Minutes:
    """Draw about two impressions per city and minute; shape (cities, minutes).

    The previous variant acts for the first `carry` minutes of a slot.

    >>> draw_minutes("balanced", 0, 7, 0.1).x.shape
    (4, 20160)
    """
    rng = np.random.default_rng([seed, 33])
    names, period = [str(city) for city in range(CITIES)], (START, START + timedelta(DAYS))
    drawn = build_schedule(names, ARMS, period, timedelta(hours=HOURS), f"s{seed}", schedule)
    treated = np.array([turn.variant == ARMS[1] for turn in drawn]).reshape(CITIES, SLOTS)
    minute = np.arange(MINUTES)
    slot, since = np.divmod(minute, SLOT)
    before = np.hstack([np.zeros((CITIES, 1), bool), treated[:, :-1]])
    # Carry-over: the previous variant acts in the first minutes of a slot.
    acts = np.where(since < carry, before[:, slot], treated[:, slot])
    size = 2 * rng.uniform(0.5, 1.5, (CITIES, 1))
    x = rng.poisson(size * (1 + 0.8 * np.sin(minute / 1440 * 2 * np.pi)))
    wander = np.zeros((CITIES, DAYS * 24))
    for hour in range(1, DAYS * 24):
        # Autoregressive, so that the slots of a city are not independent.
        wander[:, hour] = 0.9 * wander[:, hour - 1] + rng.normal(0, 0.15, CITIES)
    logit = -1.4 + rng.normal(0, 0.2, (CITIES, 1)) + np.repeat(wander, 60, axis=1)
    rate = expit(logit + 0.4 * np.sin(minute / 1440 * 2 * np.pi + 1)) * (1 + lift * acts)
    return Minutes(rng.binomial(x, np.minimum(rate, 1)), x, treated)


def build_log(drawn: Minutes, seed: int) -> pd.DataFrame:
    """Build a log of impressions from clicks and impressions by minute."""
    rng = np.random.default_rng(seed)
    city, minute = np.divmod(np.repeat(np.arange(drawn.x.size), drawn.x.ravel()), MINUTES)
    number = np.arange(len(city)) - np.repeat(np.cumsum(drawn.x) - drawn.x.ravel(), drawn.x.ravel())
    at = pd.to_timedelta(minute * 60 + rng.integers(0, 60, len(city)), unit="s")
    return pd.DataFrame(
        {
            "city": city,
            # In the same second no user comes twice, as a duplicate would.
            "user_id": np.arange(len(city)) % 3_000,
            "ts": pd.Timestamp(START) + at,
            "variant": np.where(drawn.treated[city, minute // SLOT], ARMS[1], ARMS[0]),
            "click": (number < drawn.y[city, minute]).astype(int),
        }
    )


def simulate_switchback(seed: int) -> Small:
    """Simulate a switchback of cities."""
    return Small("cities", build_log(draw_minutes("balanced", 0, seed, LIFT), seed), {"ctr": LIFT})
