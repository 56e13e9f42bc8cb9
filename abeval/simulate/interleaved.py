"""Simulate interleaved lists of two rankers with a known difference.

A user looks at place k with chance k^-0.7. The chance of a click on an item that they look at is
its attractiveness times the user's readiness (Craswell, Zoeter, Taylor & Ramsey, WSDM 2008).
Rankers sort by attractiveness plus noise; the less noise, the better the ranker. Most users have
few lists, some up to 200.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from abeval.assignment.interleaving import Drafted, Method, interleave
from abeval.simulate import world
from abeval.simulate.run import Small, convert_to_timestamps
from abeval.simulate.visits import Bools
from abeval.simulate.world import Floats, Ints

_RANKERS = ("old", "new")
_LENGTH, _ITEMS, _MOST_LISTS = 6, 20, 200
_LOOKS = np.arange(1, _LENGTH + 1) ** -0.7
_USERS, _QUERIES, _NOISE = 200, 100, (1.0, 0.6)

Draft = Callable[[Mapping[str, Sequence[Hashable]], str], Sequence[Drafted]]
"""Mixes the lists of the rankers into the list shown, for a request."""


class Queries(NamedTuple):
    """Queries: the attractiveness of items, and each ranker's list.

    Shapes: (queries, ITEMS), (queries, rankers, LENGTH).
    """

    attraction: Floats
    lists: Ints

    def alone(self, side: int) -> Floats:
        """Return click chances by query and position if one ranker had all lists."""
        return np.take_along_axis(self.attraction, self.lists[:, side], axis=1) * _LOOKS

    @property
    def lift(self) -> float:
        """Return the true lift of clicks in an A/B test of the second ranker."""
        return float(self.alone(1).sum() / self.alone(0).sum() - 1)


def draw_queries(seed: int, noise: tuple[float, float], count: int) -> Queries:
    """Draw queries, and the lists of rankers that see noise.

    >>> draw_queries(0, (0.5, 0.5), 3).lists.shape
    (3, 2, 6)
    """
    rng = np.random.default_rng(seed)
    attraction = rng.beta(1.0, 4.0, (count, _ITEMS))
    spread = np.array(noise)[:, None] * rng.standard_normal((count, 2, _ITEMS))
    return Queries(attraction, np.argsort(-(np.log(attraction)[:, None] + spread))[:, :, :_LENGTH])


class Shown(NamedTuple):
    """Lists by user and query, shape (lists,), and their items, (lists, LENGTH).

    `item` is -1 at places that a list does not fill; `credit` is below 0 for the first ranker.
    """

    user: Ints
    query: Ints
    item: Ints
    credit: Floats
    click: Bools


def show(seed: int, queries: Queries, draft: Draft, users: int) -> Shown:
    """Show lists to users, who click."""
    rng = np.random.default_rng(seed)
    sizes, ready = draw_sizes(rng, users), rng.gamma(2.0, 0.5, users)
    user = np.repeat(np.arange(users), sizes)
    query = rng.integers(0, len(queries.lists), len(user))
    lists = [dict(zip(_RANKERS, pair, strict=True)) for pair in queries.lists.tolist()]
    item, credit = np.full((len(user), _LENGTH), -1), np.zeros((len(user), _LENGTH))
    for row, number in enumerate(query.tolist()):
        for index, pick in enumerate(draft(lists[number], f"{seed}-{row}")):
            item[row, index] = int(str(pick.item))
            credit[row, index] = pick.credit * {"old": -1, "new": 1, None: 0}[pick.team]
    # Position-based click model: looked at, and attractive.
    chance = ready[user, None] * _LOOKS * queries.attraction[query[:, None], item]
    return Shown(user, query, item, credit, (rng.random(item.shape) < chance) & (item >= 0))


def make_draft(method: Method, salt: str) -> Draft:
    """Build a function that drafts lists of this length by a method."""
    draw = partial(interleave, method=method, salt=salt, length=_LENGTH)
    return lambda lists, request: draw(lists, request_id=request)


def draw_sizes(rng: np.random.Generator, users: int) -> Ints:
    """Draw the lists of each user: 1 to 200, of most users few."""
    return np.exp(rng.uniform(0, np.log(_MOST_LISTS), users)).astype(np.int64)


def simulate_lists(seed: int) -> Small:
    """Simulate lists that two rankers share; the lift is what an A/B test would show."""
    queries = draw_queries(seed, _NOISE, _QUERIES)
    shown = show(seed, queries, make_draft("team_draft", "lists"), _USERS)
    return Small(
        "shared_lists", _build_impressions(seed, queries, shown), {"clicks_per_list": queries.lift}
    )


def _build_impressions(seed: int, queries: Queries, shown: Shown) -> pd.DataFrame:
    """Return one row per impression; a rank of 0 is none."""
    lists, index = np.nonzero(shown.item >= 0)
    item, query = shown.item[lists, index], shown.query[lists]
    same = queries.lists[query] == item[:, None, None]
    ranks = np.where(same.any(axis=2), same.argmax(axis=2) + 1, 0)
    at = np.random.default_rng(seed).integers(0, 14 * world.DAY_MS, len(shown.user))
    return pd.DataFrame(
        {
            "user": shown.user[lists],
            "request_id": [f"{seed}-{row}" for row in lists.tolist()],
            "item_id": query * _ITEMS + item,
            "position": index + 1,
            "time": convert_to_timestamps(at, world.START)[lists],
            "team": np.array(_RANKERS)[(shown.credit[lists, index] > 0).astype(int)],
            "rank_old": ranks[:, 0],
            "rank_new": ranks[:, 1],
            "click": shown.click[lists, index].astype(int),
        }
    )
