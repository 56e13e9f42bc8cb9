"""Simulate an experiment with a known lift and randomised stores.

Stores are of uneven size (lognormal, 20 to 400 users) and differ in their click rate. Each user has
some impressions, and clicks each with the store's click rate.
"""

from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from abeval.simulate import world
from abeval.simulate.run import Small, convert_to_timestamps
from abeval.simulate.visits import Bools
from abeval.simulate.world import Ints

RATE, _DAYS = 0.2, 14
_LIFT, _STORES, _ICC = 0.2, 60, 0.01

Drawn = Literal["", "strata", "pairs"]
"""How stores were drawn: at random, in four strata, or in matched pairs."""


class Users(NamedTuple):
    """Clicks, impressions and store of each user; each store's assignment."""

    y: Ints
    x: Ints
    store: Ints
    treated: Bools
    stratum: Ints


def draw_users(
    rng: np.random.Generator, stores: int, icc: float, lift: float, drawn: Drawn = ""
) -> Users:
    """Draw users whose clicks correlate within stores.

    >>> draw_users(np.random.default_rng(7), 8, 0.1, 0.0, "pairs").stratum.tolist()
    [0, 0, 1, 1, 2, 2, 3, 3]
    """
    sizes = np.clip(rng.lognormal(np.log(80), 0.6, stores), 20, 400).astype(int)
    stratum = np.arange(stores) * {"": 0, "strata": 4, "pairs": stores // 2}[drawn] // stores
    spread = np.sqrt(icc * RATE * (1 - RATE))
    shared = rng.normal(0, spread, stratum.max() + 1)[stratum]
    store_effect = rng.normal(0, spread, stores)
    part = 0.8 if drawn else 0.0
    # Stores of a stratum share most of their variance, so that pairing helps.
    rates = np.clip(RATE + np.sqrt(part) * shared + np.sqrt(1 - part) * store_effect, 0.001, 0.8)
    treated = np.zeros(stores, dtype=bool)
    for number in np.unique(stratum):
        members = np.flatnonzero(stratum == number)
        # Half of each stratum, so that matched pairs have one store on either side.
        treated[rng.choice(members, len(members) // 2, replace=False)] = True
    store = np.repeat(np.arange(stores), sizes)
    x = 1 + rng.poisson(3, len(store))
    y = rng.binomial(x, np.minimum(rates * np.where(treated, 1 + lift, 1), 1)[store])
    return Users(y, x, store, treated, stratum)


def simulate_stores(seed: int) -> Small:
    """Simulate stores in matched pairs."""
    rng = np.random.default_rng(seed)
    drawn = draw_users(rng, _STORES, _ICC, _LIFT, "pairs")
    user = np.repeat(np.arange(len(drawn.x)), drawn.x)
    number, store = np.arange(len(user)) - (np.cumsum(drawn.x) - drawn.x)[user], drawn.store[user]
    rows = {
        "store": store,
        "pair": drawn.stratum[store],
        "user_id": user,
        "ts": convert_to_timestamps(rng.integers(0, _DAYS * world.DAY_MS, len(user)), world.START),
        "variant": np.array(world.VARIANTS)[drawn.treated[store].astype(int)],
        "click": (number < drawn.y[user]).astype(int),
    }
    return Small("stores", pd.DataFrame(rows), {"ctr": _LIFT})
