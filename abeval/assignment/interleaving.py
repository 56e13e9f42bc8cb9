"""Interleave the lists of rankers into one, by a reproducible hash."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.assignment.draws import format_unit_id, md5_60
from abeval.assignment.plan import check_salt
from abeval.calls import explain_types
from abeval.errors import ExperimentError, LogError

Method = Literal["team_draft", "balanced", "probabilistic", "optimized"]

_STEEPNESS = 3
"""Probabilistic interleaving draws an item at rank r with weight r ^ -3."""

_MAX_OPTIMIZED = 10
"""Longest optimised list: the linear program has up to 2 ^ length variables."""

# Cost of credit with a mean other than 0, far above that of its variance.
_BIASED = 1e5


class Drafted(NamedTuple):
    """An item of an interleaved list.

    Attributes:
        position: From 1 on.
        team: The ranker that is credited with what users do on the item. In a team draft, the one
            that drafted it. In other methods, the one that ranks it higher; None if both rank it
            alike.
        credit: Credit of one click for `team`. In general 1. For `optimized`, the difference of the
            ranks. For `probabilistic`, the difference of the two rankers' chances to draw the item
            there, divided by their sum.
    """

    position: int
    item: Hashable
    team: str | None
    credit: float = 1.0


@explain_types
def interleave(
    lists: Mapping[str, Sequence[Hashable]],
    method: Method = "team_draft",
    *,
    salt: str,
    request_id: object,
    length: int | None = None,
) -> tuple[Drafted, ...]:
    """Mix the lists of rankers into one, and credit each item to a ranker.

    All draws are hashes of salt and request, so the same request always gives the same list,
    whatever the order of the rankers.

    Args:
        lists: Ranker → its items, best first, each once.
        method: `team_draft`, also for more than two rankers; `balanced`, which is biased if one
            list is the other one shifted; `probabilistic`; `optimized`, for at most 10 items.
        salt: Salt of this experiment, as in an assignment.
        request_id: A text or a whole number.
        length: Largest number of items. A list ends earlier if a ranker has nothing left to show,
            because all further items would be the others'.

    Raises:
        ExperimentError: The method does not exist, or not for this number of rankers; a list is
            empty or has an item twice.
        LogError: The request is null, or not a plain id.

    Source:
        Radlinski, Kurup & Joachims (CIKM 2008); Joachims (2003) for `balanced`; Hofmann, Whiteson &
        de Rijke (CIKM 2011), credit as expected given the list; Radlinski & Craswell (WSDM 2013)
        with their linear rank difference as credit and, as in Schuth et al. (CIKM 2014), the least
        variance of random clicks as the objective; for more rankers, Schuth's team-draft
        multileaving.

    Example:
        >>> lists = {"old": ["a", "b", "c"], "new": ["b", "d", "a"]}
        >>> [(one.item, one.team) for one in interleave(lists, salt="s", request_id="r1", length=3)]
        [('a', 'old'), ('b', 'new'), ('c', 'old')]
    """
    check_salt(salt)
    wrong = ""
    if method not in _METHODS:
        wrong = f"no method {method!r}: choose from {', '.join(_METHODS)}"
    elif len(lists) < 2 or (len(lists) > 2 and method != "team_draft"):
        wrong = f"{method} interleaves two rankers, not {len(lists)}; team_draft also more"
    elif length is not None and (length < 1 or (method == "optimized" and length > _MAX_OPTIMIZED)):
        wrong = f"length is {length}: show at least 1 item, of optimized at most {_MAX_OPTIMIZED}"
    for ranker, items in lists.items():
        try:
            is_wrong = not items or len({*items}) < len(items)
        except TypeError:
            raise LogError(f"the list of {ranker!r} has an item that is no id") from None
        if is_wrong:
            wrong = f"the list of {ranker!r} {'has an item twice' if items else 'is empty'}"
    if wrong:
        raise ExperimentError(wrong, "give the list of each ranker, its items best first")
    most = length or (_MAX_OPTIMIZED if method == "optimized" else sum(map(len, lists.values())))
    request = format_unit_id(request_id)
    # Sorted, so that the order of the rankers cannot change the list.
    ordered = {ranker: lists[ranker] for ranker in sorted(lists)}
    return _METHODS[method](ordered, most, lambda what: md5_60(salt, f"{request}:{what}"))


_Lists = Mapping[str, Sequence[Hashable]]
# Hashes the request and a key of what is drawn.
_Draw = Callable[[str], int]


def _order_rankers(rankers: Sequence[str], position: int, draw: _Draw) -> list[str]:
    """Return the order in which rankers draft in the round of a position.

    The ranker with the smallest md5 of `salt:request:1:ranker` comes first, here and in SQL.
    """
    number = (position - 1) // len(rankers) + 1
    return sorted(rankers, key=lambda ranker: draw(f"{number}:{ranker}"))


def _draft_by_teams(lists: _Lists, length: int, draw: _Draw) -> tuple[Drafted, ...]:
    drafted, order = dict[Hashable, Drafted](), list[str]()
    next_of = dict.fromkeys(lists, 0)
    while len(drafted) < length:
        for ranker, items in lists.items():
            while next_of[ranker] < len(items) and items[next_of[ranker]] in drafted:
                next_of[ranker] += 1
        # From here on all items would come from the other rankers.
        if any(next_of[ranker] == len(items) for ranker, items in lists.items()):
            break
        order = order or _order_rankers([*lists], len(drafted) + 1, draw)
        team = order.pop(0)
        item = lists[team][next_of[team]]
        drafted[item] = Drafted(len(drafted) + 1, item, team)
    return tuple(drafted.values())


def _draft_balanced(lists: _Lists, length: int, draw: _Draw) -> tuple[Drafted, ...]:
    first, second = (lists[ranker] for ranker in _order_rankers([*lists], 1, draw))
    pairs = zip(first, second, strict=False)
    drafted = list[Drafted]()
    for item in islice(dict.fromkeys(item for pair in pairs for item in pair), length):
        ranks = {ranker: _rank(items, item) for ranker, items in lists.items()}
        higher = min(ranks, key=ranks.__getitem__)
        is_tied = len({*ranks.values()}) == 1
        drafted.append(Drafted(len(drafted) + 1, item, None if is_tied else higher))
    return tuple(drafted)


def _draft_probabilistic(lists: _Lists, length: int, draw: _Draw) -> tuple[Drafted, ...]:
    drafted = list[Drafted]()
    weights = {
        ranker: {item: float(rank) ** -_STEEPNESS for rank, item in enumerate(items, start=1)}
        for ranker, items in lists.items()
    }
    while len(drafted) < length and all(weights.values()):
        position = len(drafted) + 1
        team, other = _order_rankers([*lists], 2 * position - 1, draw)
        # A point on the cumulative weights of the team's remaining items.
        number = draw(f"{position}:item") / 2.0**60 * sum(weights[team].values())
        chosen = None
        for item, weight in weights[team].items():
            chosen, number = item, number - weight
            if number < 0:
                break
        chance, rival = (
            weights[r].get(chosen, 0.0) / sum(weights[r].values()) for r in (team, other)
        )
        likelier = None if chance == rival else team if chance > rival else other
        credit = abs(chance - rival) / (chance + rival)
        drafted.append(Drafted(position, chosen, likelier, credit))
        for of_ranker in weights.values():
            of_ranker.pop(chosen, None)
    return tuple(drafted)


def _draft_optimized(lists: _Lists, length: int, draw: _Draw) -> tuple[Drafted, ...]:
    (first, first_items), (second, second_items) = lists.items()
    allowed, ends = _optimize_lists(tuple(first_items), tuple(second_items), length)
    index = int(np.searchsorted(ends, draw("list") / 2.0**60 * ends[-1], side="right"))
    chosen = allowed[min(index, len(allowed) - 1)]
    credits = [float(_rank(second_items, item) - _rank(first_items, item)) for item in chosen]
    return tuple(
        Drafted(i, item, None if not credit else first if credit > 0 else second, abs(credit))
        for i, (item, credit) in enumerate(zip(chosen, credits, strict=True), start=1)
    )


@lru_cache(maxsize=1024)
def _optimize_lists(
    first: tuple[Hashable, ...], second: tuple[Hashable, ...], length: int
) -> tuple[list[tuple[Hashable, ...]], NDArray[np.float64]]:
    """Return the lists that may be shown, and their cumulative chances."""
    from scipy import optimize

    allowed: list[tuple[Hashable, ...]] = [()]
    for _ in range(length):
        longer = [
            (*drafted, item)
            for drafted in allowed
            for item in (
                next((x for x in items if x not in drafted), None) for items in (first, second)
            )
        ]
        if any(drafted[-1] is None for drafted in longer):
            break
        allowed = list(dict.fromkeys(longer))
    credit = {item: _rank(second, item) - _rank(first, item) for item in (*first, *second)}
    credits = np.array([[credit[item] for item in drafted] for drafted in allowed])
    # Clicks at random: a user who reads the first k items and clicks any favours nobody.
    sums = np.cumsum(credits, axis=1).T
    variance = (credits @ (1 / np.arange(1, credits.shape[1] + 1))) ** 2
    slack = np.eye(len(sums))
    bounded = np.block([[sums, -slack], [-sums, -slack]])
    cost = [*variance, *np.full(len(sums), _BIASED)]
    total = [[1.0] * len(allowed) + [0.0] * len(sums)]
    answer = optimize.linprog(cost, bounded, np.zeros(len(bounded)), total, [1.0])
    chances = np.array(answer.x, dtype=np.float64).clip(0, None)
    return allowed, np.cumsum(chances[: len(allowed)])


def _rank(items: Sequence[Hashable], item: Hashable) -> int:
    """Return an item's rank; after the last one if the list lacks it."""
    return items.index(item) + 1 if item in items else len(items) + 1


_METHODS: Mapping[str, Callable[[_Lists, int, _Draw], tuple[Drafted, ...]]] = {
    "team_draft": _draft_by_teams,
    "balanced": _draft_balanced,
    "probabilistic": _draft_probabilistic,
    "optimized": _draft_optimized,
}
