"""Interleaved lists: what the papers' algorithms give, and that random clicks favour nobody."""

from hashlib import md5
from itertools import permutations

import numpy as np
import pytest

import abeval
from abeval.assignment.interleaving import Method, interleave
from abeval.errors import ExperimentError, LogError

OLD, NEW = ["a", "b", "c", "d"], ["b", "e", "a", "f"]
LISTS = {"old": OLD, "new": NEW}

HAND = {
    # Who drafts first in the two rounds → the list and its teams, by hand.
    ("new", "new"): [("b", "new"), ("a", "old"), ("e", "new"), ("c", "old")],
    ("new", "old"): [("b", "new"), ("a", "old"), ("c", "old"), ("e", "new")],
    ("old", "new"): [("a", "old"), ("b", "new"), ("e", "new"), ("c", "old")],
    ("old", "old"): [("a", "old"), ("b", "new"), ("c", "old"), ("e", "new")],
}


def first(request: str, number: int) -> str:
    """Return who drafts first in a round, by md5 as another program would compute it."""
    texts = {ranker: f"s-1:{request}:{number}:{ranker}" for ranker in LISTS}
    return min(LISTS, key=lambda ranker: md5(texts[ranker].encode()).hexdigest())  # noqa: S324


def test_team_draft_gives_the_lists_that_were_drafted_by_hand():
    seen = set()
    for number in range(40):
        request = f"r{number}"
        draws = first(request, 1), first(request, 2)
        shown = interleave(LISTS, salt="s-1", request_id=request, length=4)
        assert [(one.item, one.team) for one in shown] == HAND[draws]
        assert [one.position for one in shown] == [1, 2, 3, 4]
        seen.add(draws)
    assert seen == set(HAND)


def test_a_list_ends_where_a_ranker_has_nothing_left():
    lists = {"one": ["a"], "other": ["b", "c", "d"]}
    shown = interleave(lists, salt="s", request_id=7)
    assert {one.item for one in shown} <= {"a", "b"}
    assert len(shown) == (1 if shown[0].team == "one" else 2)


def test_balanced_takes_turns_and_credits_who_ranks_higher():
    by_first = {
        "old": [("a", "old"), ("b", "new"), ("e", "new"), ("c", "old")],
        "new": [("b", "new"), ("a", "old"), ("e", "new"), ("c", "old")],
    }
    seen = set()
    for number in range(20):
        shown = interleave(LISTS, "balanced", salt="s-1", request_id=f"r{number}", length=4)
        seen.add(first(f"r{number}", 1))
        assert [(one.item, one.team) for one in shown] == by_first[first(f"r{number}", 1)]
    assert len(seen) == 2
    same = interleave({"x": ["a", "b"], "y": ["a", "c"]}, "balanced", salt="s", request_id=1)
    assert same[0].team is None


def test_probabilistic_credit_is_how_much_likelier_the_team_was():
    shown = interleave(LISTS, "probabilistic", salt="s-1", request_id="r1", length=4)
    # By hand: softmax of rank to the power -3 over what is left of each list.
    left = {ranker: {x: (i + 1) ** -3 for i, x in enumerate(own)} for ranker, own in LISTS.items()}
    for one in shown:
        p = {r: w.get(one.item, 0) / sum(w.values()) for r, w in left.items()}
        other = next(ranker for ranker in LISTS if ranker != one.team)
        assert p[one.team] > p[other]
        assert one.credit == pytest.approx((p[one.team] - p[other]) / sum(p.values()))
        for weights in left.values():
            weights.pop(one.item, None)


@pytest.mark.parametrize("method", ["team_draft", "probabilistic", "optimized"])
@pytest.mark.parametrize("new", [NEW, ["b", "c", "d", "a"], ["a", "b", "d", "c"]])
def test_clicks_at_random_favour_nobody(method: Method, new: list[str]):
    runs = 400 if method == "optimized" else 2_000
    net = np.zeros((runs, 4))
    for request in range(runs):
        shown = interleave({"old": OLD, "new": new}, method, salt="s", request_id=request, length=4)
        for one in shown:
            sign = {"new": 1, "old": -1, None: 0}[one.team]
            net[request, one.position - 1] = sign * one.credit
    clicked = np.cumsum(net, axis=1)
    error = clicked.std(axis=0) / runs**0.5
    assert np.all(np.abs(clicked.mean(axis=0)) <= 4.5 * error + 1e-9)


def test_balanced_favours_the_list_that_is_the_other_shifted():
    # Radlinski, Kurup and Joachims (2008): the reason for team draft.
    lists = {"old": ["a", "b", "c", "d"], "new": ["b", "c", "d", "a"]}
    for request in range(20):
        shown = interleave(lists, "balanced", salt="s", request_id=request, length=4)
        teams = [one.team for one in shown]
        assert teams.count("new") == 3


def test_three_rankers_draft_in_every_order():
    lists = {"x": ["a", "b", "c"], "y": ["d", "e", "f"], "z": ["g", "h", "i"]}
    orders = {
        tuple(one.team for one in interleave(lists, salt="s", request_id=i, length=3))
        for i in range(100)
    }
    assert orders == set(permutations("xyz"))


def test_the_order_of_the_rankers_does_not_matter():
    other_way = dict(reversed(LISTS.items()))
    for method in ("team_draft", "balanced", "probabilistic", "optimized"):
        one, other = (
            interleave(lists, method, salt="s", request_id="q", length=4)
            for lists in (LISTS, other_way)
        )
        assert one == other


@pytest.mark.parametrize(
    ("lists", "options", "says"),
    [
        (LISTS, {"method": "magic"}, "no method"),
        ({"x": [1], "y": [2], "z": [3]}, {"method": "balanced"}, "two rankers, not 3"),
        ({"x": [1]}, {}, "not 1"),
        ({"x": [1, 1], "y": [2]}, {}, "has an item twice"),
        ({"x": [], "y": [2]}, {}, "is empty"),
        (LISTS, {"length": 0}, "length is 0"),
        (LISTS, {"method": "optimized", "length": 11}, "length is 11"),
        (LISTS, {"salt": "a:b"}, "cannot be used"),
    ],
)
def test_a_refusal_says_why(lists, options, says):
    with pytest.raises(ExperimentError, match=says):
        abeval.interleave(lists, **{"salt": "s", "request_id": 1} | options)


def test_an_item_of_a_list_is_an_id():
    with pytest.raises(LogError, match="the list of 'x' has an item that is no id"):
        abeval.interleave({"x": [[1]], "y": [2]}, salt="s", request_id=1)
