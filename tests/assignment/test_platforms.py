"""Numbers that the platforms published for their own SDKs, and their rules in SQL."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abeval.assignment.draws import Draw, Rule, split_into_ranges
from abeval.assignment.platforms import (
    Eppo,
    Firebase,
    Flagsmith,
    GrowthBook,
    LaunchDarkly,
    Optimizely,
    PlanOut,
    PostHog,
    Split,
    Statsig,
    Unleash,
    list_growthbook_ranges,
)
from abeval.errors import ExperimentError
from tests.assignment.schemes import SETTINGS, WEIGHTS, draw_of, in_duckdb, odd_ids, scheme

VECTORS = json.loads((Path(__file__).parent / "vectors/platforms.json").read_text())
Case = dict[str, Any]


def unleash_id(case: Case) -> str | None:
    """The id that the strategy's stickiness picks from the context."""
    strategy, context = case["strategies"][0], case["context"]
    sticky = {"gradualRolloutUserId": "userId", "gradualRolloutSessionId": "sessionId"}.get(
        strategy["name"], strategy["parameters"].get("stickiness", "default")
    )
    if sticky == "default":
        return context.get("userId") or context.get("sessionId")
    return context.get(sticky) or context.get("properties", {}).get(sticky)


def unleash_rollout(case: Case) -> bool:
    parameters = case["strategies"][0]["parameters"]
    rollout = parameters.get("percentage", parameters.get("rollout"))
    settings = Unleash(platform="unleash", group=parameters["groupId"], rollout=rollout)
    return settings.rule({"on": 1}).variant(unleash_id(case)) is not None


def launchdarkly(case: Case) -> float:
    key, _, salt = case["prefix"].partition(".")
    seed = None if salt else int(key)
    settings = LaunchDarkly(platform="launchdarkly", key=key, salt=salt, seed=seed)
    return draw_of(settings).number(case["unit"])


def planout(case: Case) -> object:
    salt, parameter = case["salt"].rsplit(".", 1)
    weights = {str(choice): 1.0 for choice in case["choices"]}
    rule = PlanOut(platform="planout", salt=salt, parameter=parameter).rule(weights)
    variant = rule.variant(case["unit"])
    return next(choice for choice in case["choices"] if str(choice) == variant)


def posthog(case: Case) -> Rule:
    settings = PostHog(platform="posthog", key=case["key"], rollout=100 * case["rollout"])
    return settings.rule(dict(case.get("variants", [("on", 1)])))


def eppo_old(case: Case) -> str | None:
    weights = {name: stop - start for name, start, stop in case["ranges"]}
    settings = Eppo(platform="eppo", flag=case["flag"], traffic=case["percentExposure"])
    return settings.rule(weights).variant(case["subject"])


def firebase(case: Case) -> bool:
    rule = Firebase(platform="firebase", seed=case["seed"]).rule({"on": 1, "off": 1})
    return rule.variant(case["randomization_id"]) == "on"


def growthbook(case: Case) -> float | None:
    if case["version"] not in (1, 2):
        return None
    return draw_of(
        GrowthBook(platform="growthbook", seed=case["seed"], version=case["version"])
    ).number(case["value"])


def in_namespace(case: Case) -> bool:
    settings = GrowthBook(platform="growthbook", seed="x", namespace=case["namespace"])
    return settings.rule({"a": 1, "b": 1}).variant(case["user"]) is not None


ANSWERS: dict[str, Callable[[Case], object]] = {
    "growthbook_hash": growthbook,
    "growthbook_namespace": in_namespace,
    "unleash_rollout": unleash_rollout,
    "unleash_variant": lambda case: (
        Unleash(platform="unleash", group=case["groupId"])
        .rule(dict(case["variants"]))
        .variant(case["stickinessValue"])
    ),
    "optimizely": lambda case: draw_of(
        Optimizely(platform="optimizely", experiment=str(case["parent_id"]))
    ).number(case["bucketing_id"]),
    "launchdarkly": launchdarkly,
    "statsig": lambda case: (
        Statsig(platform="statsig", salt=case["salt"])
        .rule({"control": 1, "test": 1})
        .variant(case["unit"])
    ),
    "split_murmur3": lambda case: (
        draw_of(Split(platform="split", seed=case["seed"])).number(case["key"]) + 1
    ),
    "split_legacy": lambda case: (
        draw_of(Split(platform="split", seed=case["seed"], algorithm="legacy")).number(case["key"])
        + 1
    ),
    "eppo_shard": lambda case: Draw("md5_32", modulus=case["total_shards"]).number(case["input"]),
    "eppo_legacy_rac": eppo_old,
    "flagsmith": lambda case: (
        100
        / 9998
        * draw_of(Flagsmith(platform="flagsmith", feature=str(case["object_ids"][0]))).number(
            case["object_ids"][1]
        )
    ),
    "firebase_remote_config": firebase,
    "planout": planout,
    "posthog_rollout": lambda case: posthog(case).variant(case["unit"]) is not None,
    "posthog_variant": lambda case: posthog(case).variant(case["unit"]) or False,
}

SEVERAL = {
    "unleash_rollout": lambda case: len(case["strategies"]) > 1 or unleash_id(case) is None,
    "planout": lambda case: "op" not in case,
}
"""Cases of several strategies or operations, or without an id: no assignment by hash."""


@pytest.mark.parametrize("platform", ANSWERS)
def test_numbers_that_the_platform_published(platform: str) -> None:
    answer, several = ANSWERS[platform], SEVERAL.get(platform, lambda case: False)
    cases = [case for case in VECTORS[platform]["cases"] if not several(case["inputs"])]
    assert cases
    for case in cases:
        expected = case["expected"]
        if isinstance(expected, dict):
            expected = expected["bucket"]
        if isinstance(expected, float):
            expected = pytest.approx(expected, abs=case.get("tolerance", 1e-9))
        assert answer(case["inputs"]) == expected, case


def test_buckets_behind_the_published_answers() -> None:
    for case in VECTORS["firebase_remote_config"]["cases"]:
        inputs = case["inputs"]
        number = draw_of(Firebase(platform="firebase", seed=inputs["seed"])).number(
            inputs["randomization_id"]
        )
        assert number == case["micro_percentile"]
    for case in VECTORS["statsig"]["cases"]:
        draw = draw_of(Statsig(platform="statsig", salt=case["inputs"]["salt"]))
        assert draw.number(case["inputs"]["unit"]) == case["bucket"]


def test_planout_in_its_interpreter() -> None:
    """Published: user 123454 of salt foo, whose ratings goal is 320 = 10 × 32."""
    chosen = PlanOut(platform="planout", salt="foo", parameter="ratings_per_user_goal")
    assert chosen.rule({"8": 1, "16": 1, "32": 1, "64": 1}).variant("123454") == "32"
    cohort = PlanOut(platform="planout", salt="foo", parameter="group_size")
    assert cohort.rule({"1": 1, "10": 1}).variant("123454") == "10"


@pytest.mark.parametrize(
    "case", VECTORS["growthbook_bucket_ranges"]["cases"], ids=lambda c: c["inputs"]["name"]
)
def test_ranges_of_growthbook(case: Case) -> None:
    inputs = case["inputs"]
    ranges = list_growthbook_ranges(inputs["n"], inputs["coverage"], inputs["weights"] or [])
    for own, expected in zip(ranges, case["expected"], strict=True):
        assert own == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", SETTINGS)
def test_rules_in_sql_are_those_in_python(name: str) -> None:
    rule, units = scheme(name).rule(WEIGHTS), odd_ids(3_000)
    in_python = rule.variants(units)
    assert {*WEIGHTS} <= {*in_python}
    in_sql = in_duckdb(rule, units)
    if in_sql is None:
        assert rule.stages[-1].draw.hash in (
            "fnv1a32",
            "fnv1a32_twice",
            "murmur3",
            "murmur3_optimizely",
            "java",
            "flagsmith",
        )
    else:
        assert in_sql == in_python


def test_ends_of_ranges_are_those_of_the_weights() -> None:
    ranges = split_into_ranges({"a": 0.1, "b": 0.2, "c": 0.7}, 1000)
    assert [r.stop for r in ranges] == [100, 300, 1000]


def test_who_is_past_the_end_is_in_launchdarklys_last_variation() -> None:
    rule = LaunchDarkly(platform="launchdarkly", key="k", salt="s").rule({"a": 1, "b": 1})
    assert rule.stages[0].ranges[-1].stop > 1


def test_optimizely_with_ends_written_out_leaves_the_rest_outside() -> None:
    settings = Optimizely(
        platform="optimizely", experiment="1886780721", ends={"a": 4299, "b": 5300}
    )
    variants = settings.rule({"a": 1, "b": 1}).variants(["ppid1", "ppid2", "ppid3"])
    assert variants == ["b", "b", None]  # buckets 5254, 4299, 5439


def test_traffic_of_split_has_its_own_seed() -> None:
    units = odd_ids(4_000)
    wide = Split(platform="split", seed=1).rule({"a": 1, "b": 1}).variants(units)
    half = (
        Split(platform="split", seed=1, traffic=50, traffic_seed=2)
        .rule({"a": 1, "b": 1})
        .variants(units)
    )
    assert all(one in (None, other) for one, other in zip(half, wide, strict=True))
    assert half.count(None) / len(units) == pytest.approx(0.5, abs=0.03)
    assert half.count("a") / (half.count("a") + half.count("b")) == pytest.approx(0.5, abs=0.03)


def test_weights_of_unleash_are_whole() -> None:
    with pytest.raises(ExperimentError, match="whole numbers"):
        Unleash(platform="unleash", group="g").rule({"a": 0.5, "b": 0.4})


@pytest.mark.parametrize(("traffic", "end"), [(1.0, 5_000), (0.5, 2_500)])
def test_optimizelys_last_bucket_of_a_variant_is_one_below_its_share(
    traffic: float, end: int
) -> None:
    draw = draw_of(Optimizely(platform="optimizely", experiment="exp"))
    by_bucket = {draw.number(f"ppid{i}"): f"ppid{i}" for i in range(80_000)}
    rule = Optimizely(platform="optimizely", experiment="exp", traffic=traffic)
    units = [by_bucket[bucket] for bucket in (end - 1, end, 2 * end - 1)]
    variants = ["a", "b", "b"]
    if traffic < 1:
        units.append(by_bucket[2 * end])
        variants.append(None)
    assert rule.rule({"a": 1, "b": 1}).variants(units) == variants


def test_traffic_of_split_without_a_seed_of_its_own_is_drawn_with_0() -> None:
    units = odd_ids(500)
    drawn, named = (
        Split(platform="split", seed=1, traffic=50, **seeds).rule({"a": 1, "b": 1}).variants(units)
        for seeds in ({}, {"traffic_seed": 0})
    )
    assert drawn == named
