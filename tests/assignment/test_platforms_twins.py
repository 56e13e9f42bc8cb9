"""Rules of platforms against what their SDKs do, written out unit by unit."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, NamedTuple

import mmh3
import pytest
from pydantic import TypeAdapter

from abeval.assignment.platforms import (
    AnyScheme,
    Firebase,
    Optimizely,
)
from tests.assignment.schemes import draw_of

WEIGHTS = {"a": 3, "b": 5, "c": 2}
LONG_SCALE = float(0xFFFFFFFFFFFFFFF)


def part(number: float, size: float) -> str:
    """Who owns a number from 0 up to a size: three tenths, five, two."""
    return "abc"[bisect_right([0.3 * size, 0.8 * size], number)]


def hexed(algorithm: str, text: str, digits: int) -> int:
    return int(hashlib.new(algorithm, text.encode()).hexdigest()[:digits], 16)


def eppo(unit: str) -> str | None:
    if hexed("md5", f"traffic-{unit}", 8) % 10_000 >= 2_500:
        return None
    return part(hexed("md5", f"split-{unit}", 8) % 10_000, 10_000)


def eppo_old(unit: str) -> str | None:
    if hexed("md5", f"exposure-{unit}-flag", 8) % 40 >= 10:
        return None
    return part(hexed("md5", f"assignment-{unit}-flag", 8) % 40, 40)


def statsig(unit: str) -> str | None:
    if hexed("sha256", f"gate.rule.{unit}", 16) % 10_000 >= 6_500:
        return None
    return part(hexed("sha256", f"salt.{unit}", 16) % 1_000, 1_000)


def posthog(unit: str) -> str | None:
    if hexed("sha1", f"flag.{unit}", 15) / LONG_SCALE > 0.6:
        return None
    return part(hexed("sha1", f"flag.{unit}variant", 15) / LONG_SCALE, 1)


def planout(unit: str) -> str | None:
    if hexed("sha1", f"ns.segment.{unit}", 15) % 10 not in (1, 3, 8):
        return None
    return "abc"[hexed("sha1", f"ns.exp.model.{unit}", 15) % 3]


def unleash(unit: str) -> str | None:
    if mmh3.hash(f"group:{unit}", 0, signed=False) % 100 + 1 > 70:
        return None
    drawn = mmh3.hash(f"group:{unit}", 86028157, signed=False) % 10 + 1
    return "a" if drawn <= 3 else "b" if drawn <= 8 else "c"


def split(unit: str) -> str | None:
    if mmh3.hash(unit, 5, signed=False) % 100 + 1 > 80:
        return None
    return part(mmh3.hash(unit, 7, signed=False) % 100, 100)


def split_old(unit: str) -> str | None:
    """Java's hash of the key, xor the seed, as an int; the size of the remainder by 100."""
    total = 0
    for letter in unit:
        total = (31 * total + ord(letter)) % 2**32
    total ^= 467569525
    signed = total - 2**32 if total >= 2**31 else total
    return part(abs(signed) % 100, 100)


def optimizely(unit: str) -> str | None:
    def bucket(parent: str) -> int:
        return int(mmh3.hash(unit + parent, 1, signed=False) / 2**32 * 10_000)

    return part(bucket("exp"), 10_000) if 2_000 <= bucket("group") < 7_000 else None


class Twin(NamedTuple):
    settings: dict[str, Any]
    variant: Callable[[str], str | None]
    units: int


TWINS = {
    "eppo": Twin(
        {"salt": "split", "traffic_salt": "traffic", "traffic": 0.25, "platform": "eppo"},
        eppo,
        20_000,
    ),
    "eppo_old": Twin(
        {"flag": "flag", "traffic": 0.25, "shards": 40, "platform": "eppo"}, eppo_old, 2_000
    ),
    "statsig": Twin(
        {"salt": "salt", "gate": ["gate", "rule"], "gate_percent": 65, "platform": "statsig"},
        statsig,
        20_000,
    ),
    "posthog": Twin({"key": "flag", "rollout": 60, "platform": "posthog"}, posthog, 2_000),
    "planout": Twin(
        {
            "salt": "ns.exp",
            "parameter": "model",
            "namespace": "ns",
            "segments": 10,
            "owned": [3, 1, 8],
            "platform": "planout",
        },
        planout,
        2_000,
    ),
    "unleash": Twin({"group": "group", "rollout": 70.9, "platform": "unleash"}, unleash, 2_000),
    "split": Twin({"seed": 7, "traffic": 80, "traffic_seed": 5, "platform": "split"}, split, 2_000),
    "split_old": Twin(
        {"seed": 467569525, "algorithm": "legacy", "platform": "split"}, split_old, 2_000
    ),
    "optimizely": Twin(
        {
            "experiment": "exp",
            "group": "group",
            "group_range": [2_000, 7_000],
            "platform": "optimizely",
        },
        optimizely,
        20_000,
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_every_unit_goes_where_the_sdk_puts_it(name: str) -> None:
    twin = TWINS[name]
    rule = TypeAdapter(AnyScheme).validate_python(twin.settings).rule(WEIGHTS)
    units = [str(i) for i in range(twin.units)]
    expected = [twin.variant(unit) for unit in units]
    assert {*expected} >= {"a", "b", "c"}
    assert rule.variants(units) == expected


def test_firebase_has_the_upper_end_of_a_condition_and_not_the_lower() -> None:
    number = int(draw_of(Firebase(platform="firebase", seed="1")).number("one"))
    firebase = Firebase(platform="firebase", seed="1")

    def variant(end: int) -> str | None:
        return firebase.rule({"a": end, "b": 100_000_000 - end}).variant("one")

    assert [variant(end) for end in (number - 1, number, number + 1)] == ["b", "a", "a"]


def test_firebases_first_condition_has_0_and_its_last_everything_up_to_the_end() -> None:
    (stage,) = Firebase(platform="firebase").rule({"a": 1, "b": 1}).stages
    first, last = stage.ranges
    assert first.start <= 0 < first.stop == last.start
    assert last.start <= 99_999_999 < last.stop
    # A draw that gives each unit the number 0.
    assert stage._replace(draw=stage.draw._replace(modulus=1)).label("any") == "a"


def test_optimizelys_ends_begin_with_the_first_bucket() -> None:
    draw = draw_of(Optimizely(platform="optimizely", experiment="exp"))
    by_bucket = {draw.number(str(i)): str(i) for i in range(80_000)}
    scheme = Optimizely(platform="optimizely", experiment="exp", ends={"a": 1, "b": 3})
    variants = scheme.rule({"a": 1, "b": 1}).variants([by_bucket[bucket] for bucket in range(4)])
    assert variants == ["a", "b", "b", None]
