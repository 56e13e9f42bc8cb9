"""Draws: seeds, ends of ranges, and Flagsmith's second draw."""

from __future__ import annotations

from abeval.assignment.draws import Draw, md5, split_into_ranges
from abeval.assignment.platforms import Flagsmith
from tests.assignment.schemes import draw_of


def test_a_draw_has_the_seed_0_unless_it_is_given() -> None:
    for unit in ("1", "alice", "漢"):
        assert Draw("murmur3", seed=0).number(unit) == Draw("murmur3").number(unit)
        assert Draw("murmur3", seed=1).number(unit) != Draw("murmur3").number(unit)


def test_ends_of_ranges_are_rounded_to_the_millionth_of_a_number() -> None:
    thirds = split_into_ranges({"a": 1, "b": 1, "c": 1}, 100)
    assert [one.start for one in thirds] == [0, 33.333333, 66.666667]
    assert [one.stop for one in thirds] == [33.333333, 66.666667, 100]


def flagsmith_share(identity: int) -> float:
    """The published `get_hashed_percentage_for_object_ids`, as a share."""
    ids: list[str] = []
    while True:
        ids += ["12", str(identity)]
        share = int(md5(",".join(ids)), 16) % 9999 / 9998
        if share < 1:
            return share


def test_flagsmith_draws_again_where_a_share_would_be_1() -> None:
    identities = range(40_000)
    redrawn = [i for i in identities if int(md5(f"12,{i}"), 16) % 9999 == 9998]
    assert redrawn
    draw = draw_of(Flagsmith(platform="flagsmith", feature="12"))
    assert [draw.number(i) / 9998 for i in redrawn] == [flagsmith_share(i) for i in redrawn]


def test_the_last_share_of_flagsmith_is_in_the_last_variant() -> None:
    rule = Flagsmith(platform="flagsmith", feature="12").rule({"a": 1, "b": 1})
    drawn = {i: flagsmith_share(i) for i in range(40_000)}
    assert max(drawn.values()) == 9997 / 9998
    assert {4998 / 9998, 4999 / 9998} <= {*drawn.values()}
    assert rule.variants(drawn) == ["a" if share < 0.5 else "b" for share in drawn.values()]
