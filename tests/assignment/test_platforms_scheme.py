"""What the settings of a platform are when they are left out, and what they may be."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from abeval.assignment.platforms import AnyScheme, GrowthBook, Scheme
from tests.assignment.schemes import odd_ids

HALVES = {"a": 1.0, "b": 1.0}


def scheme(**settings: Any) -> Scheme:
    return TypeAdapter(AnyScheme).validate_python(settings)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("needed", "usual"),
    [
        ({"platform": "growthbook", "seed": "exp"}, {"version": 2, "coverage": 1}),
        (
            {"platform": "eppo", "salt": "s", "traffic_salt": "t"},
            {"traffic": 1, "shards": 10_000},
        ),
        ({"platform": "unleash", "group": "g"}, {"rollout": 100}),
        (
            {"platform": "optimizely", "experiment": "e", "group": "g"},
            {"traffic": 1, "group_range": (0, 10_000)},
        ),
        ({"platform": "split", "seed": 7}, {"traffic": 100, "traffic_seed": 0}),
        (
            {"platform": "planout", "salt": "s", "parameter": "p"},
            {"weighted": False, "segments": 10_000},
        ),
        ({"platform": "posthog", "key": "k"}, {"rollout": 100}),
        ({"platform": "statsig", "salt": "s", "gate": ("g", "r")}, {"gate_percent": 100}),
    ],
    ids=lambda settings: settings.get("platform", "usual"),
)
def test_what_is_left_out_is_what_the_platform_does(
    needed: dict[str, Any], usual: dict[str, Any]
) -> None:
    short, whole = scheme(**needed), scheme(**needed, **usual)
    assert short == whole
    variants = short.rule(HALVES).variants(odd_ids(200))
    assert variants == whole.rule(HALVES).variants(odd_ids(200))
    assert {*variants} == {"a", "b"}


def eppo(**settings: float) -> Scheme:
    return scheme(platform="eppo", traffic_salt="t", **settings)


def posthog(rollout: float) -> Scheme:
    return scheme(platform="posthog", key="k", rollout=rollout)


def test_a_share_is_from_0_to_1_and_a_per_cent_from_0_to_100() -> None:
    units = odd_ids(200)
    for nobody in (eppo(traffic=0), posthog(0)):
        assert {*nobody.rule(HALVES).variants(units)} == {None}
    for everybody in (eppo(traffic=1), posthog(100)):
        assert {*everybody.rule(HALVES).variants(units)} == {"a", "b"}
    for share in (-0.001, 1.001, float("nan"), float("inf")):
        with pytest.raises(ValidationError, match="traffic"):
            eppo(traffic=share)
    for rollout in (-0.1, 100.1, float("nan"), float("inf")):
        with pytest.raises(ValidationError, match="rollout"):
            posthog(rollout)


def test_one_shard_and_one_segment_are_enough_and_none_is_too_few() -> None:
    planout = {"platform": "planout", "salt": "s", "parameter": "p", "namespace": "n"}
    assert eppo(shards=1).rule({"a": 1}).variant("x") == "a"
    assert scheme(**planout, segments=1, owned=[0]).rule({"a": 1}).variant("x") == "a"
    with pytest.raises(ValidationError, match="shards"):
        eppo(shards=0)
    with pytest.raises(ValidationError, match="segments"):
        scheme(**planout, segments=0)


def test_a_scheme_does_not_change_and_has_no_unknown_setting() -> None:
    one = posthog(50)
    with pytest.raises(ValidationError, match="frozen"):
        one.rollout = 60  # type: ignore[attr-defined]
    assert len({one, posthog(50), posthog(60)}) == 2
    with pytest.raises(ValidationError, match="extra"):
        scheme(platform="posthog", key="k", percent=60)


@pytest.mark.parametrize(
    ("weights", "share"),
    [
        ({"a": 1, "b": 3}, 0.25),
        ({"a": 0.5, "b": 1.5}, 0.25),
        ({"a": 0.1, "b": 0.3}, 0.25),
        # They sum to nearly 1, so GrowthBook takes them as they are.
        ({"a": 0.25, "b": 0.745}, 0.25),
        ({"a": 0.25, "b": 0.755}, 0.25),
        ({"a": 0.25, "b": 0.735}, 0.25 / 0.985),
        ({"a": 0.25, "b": 0.765}, 0.25 / 1.015),
    ],
)
def test_growthbook_gives_shares_by_weight(weights: dict[str, float], share: float) -> None:
    (stage,) = GrowthBook(platform="growthbook", seed="exp").rule(weights).stages
    first, second = stage.ranges
    assert (first.start, first.stop, second.start) == pytest.approx((0, share, share))
    total = sum(weights.values())
    assert second.stop == pytest.approx(total if 0.99 <= total <= 1.01 else 1)
