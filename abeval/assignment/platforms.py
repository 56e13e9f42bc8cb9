"""Describe other platforms' assignment as rules of draws and ranges.

Docstrings of the classes are in the schema of the experiment file.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from abeval.assignment.draws import (
    FLAGSMITH_STEPS,
    LONG_SCALE,
    Draw,
    Range,
    Rule,
    Stage,
    split_into_ranges,
)
from abeval.errors import ExperimentError

_Weights = Mapping[str, float]
_Share = Annotated[float, Field(ge=0, le=1)]
_Percent = Annotated[float, Field(ge=0, le=100)]

_UNLEASH_VARIANT_SEED = 86028157


class Scheme(BaseModel, ABC):
    """How a platform assigns units to variants."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    def rule(self, weights: _Weights) -> Rule:
        """Return the rule for variants of these weights, in the platform's order."""
        return Rule(tuple(self._list_stages(weights)))

    @abstractmethod
    def _list_stages(self, weights: _Weights) -> Iterator[Stage]:
        """Yield the stages a unit must pass, the one of the variants last."""


class Eppo(Scheme):
    """Eppo: md5 over salt and id; traffic and split are shards of their own.

    Attributes:
        salt: Salt of the split.
        traffic_salt: Salt of the traffic allocation, if there is one.
        traffic: Share of units in the experiment.
        shards: Total number of shards.
        flag: The flag of the old randomisation, which hashes `exposure-ID-FLAG` and
            `assignment-ID-FLAG`, instead of the salts.
    """

    platform: Literal["eppo"]
    salt: str = ""
    traffic_salt: str | None = None
    traffic: _Share = 1.0
    shards: int = Field(default=10_000, ge=1)
    flag: str | None = None

    def _list_stages(self, weights: _Weights) -> Iterator[Stage]:
        if self.flag is not None or self.traffic_salt is not None:
            draw = self._draw("exposure", self.traffic_salt or "")
            yield _build_admission_stage(draw, 0, self.traffic * self.shards)
        yield Stage(self._draw("assignment", self.salt), split_into_ranges(weights, self.shards))

    def _draw(self, purpose: str, salt: str) -> Draw:
        if self.flag is not None:
            return Draw("md5_32", f"{purpose}-", f"-{self.flag}", modulus=self.shards)
        return Draw("md5_32", f"{salt}-", modulus=self.shards)


class Firebase(Scheme):
    """Firebase Remote Config: sha256 over seed and id, in millionths of a per cent.

    Attributes:
        seed: Seed of the percent condition.
    """

    platform: Literal["firebase"]
    seed: str = ""

    def _list_stages(self, weights: _Weights) -> Iterator[Stage]:
        ranges = split_into_ranges(weights, 100_000_000)
        # Firebase's ranges are open below and closed above.
        closed = tuple(Range(r.label, r.start + 1 if r.start else 0, r.stop + 1) for r in ranges)
        draw = Draw("sha256", f"{self.seed}." if self.seed else "", modulus=100_000_000)
        yield Stage(draw, closed)


class Flagsmith(Scheme):
    """Flagsmith: md5 over the ids of feature state and identity, in per cent.

    Attributes:
        feature: Id of the feature state.
    """

    platform: Literal["flagsmith"]
    feature: str

    def _list_stages(self, weights: _Weights) -> Iterator[Stage]:
        yield Stage(
            Draw("flagsmith", f"{self.feature},"), split_into_ranges(weights, FLAGSMITH_STEPS - 1)
        )


class GrowthBook(Scheme):
    """GrowthBook: `fnv1a32`, ranges whose starts do not move when coverage grows.

    Version 1 of the hash gives experiments that are not independent of each other.

    Attributes:
        seed: The experiment's key, or its hash seed.
        version: 1 or 2, the experiment's `hashVersion`.
        coverage: Share of units in the experiment.
        namespace: Name, start and end of the namespace, if it is in one.

    >>> GrowthBook(platform="growthbook", seed="exp").rule({"a": 1, "b": 1}).variant("user")
    'b'
    """

    platform: Literal["growthbook"]
    seed: str
    version: Literal[1, 2] = 2
    coverage: float = 1.0
    namespace: tuple[str, float, float] | None = None

    def _list_stages(self, weights: _Weights) -> Iterator[Stage]:
        if self.namespace is not None:
            name, *ends = self.namespace
            yield _build_admission_stage(_choose_growthbook_draw(f"__{name}", 1), *ends)
        total = math.fsum(weights.values())
        # Weights that sum to nearly 1 are taken as they are, and no others.
        near = [w if 0.99 <= total <= 1.01 else w / total for w in weights.values()]
        ranges = list_growthbook_ranges(len(near), self.coverage, near)
        draw = _choose_growthbook_draw(self.seed, self.version)
        yield Stage(draw, tuple(Range(n, *ends) for n, ends in zip(weights, ranges, strict=True)))


def _choose_growthbook_draw(seed: str, version: int) -> Draw:
    if version == 2:
        return Draw("fnv1a32_twice", before=seed, modulus=10_000, divisor=10_000.0)
    return Draw("fnv1a32", after=seed, modulus=1000, divisor=1000.0)


class LaunchDarkly(Scheme):
    """LaunchDarkly: sha1 over flag key and salt, or over the experiment's seed.

    Attributes:
        key: The flag's key.
        salt: The flag's salt.
        seed: The rollout's seed, which is hashed instead of key and salt.
    """

    platform: Literal["launchdarkly"]
    key: str = ""
    salt: str = ""
    seed: int | None = None

    def _list_stages(self, weights: _Weights) -> Iterator[Stage]:
        prefix = f"{self.key}.{self.salt}" if self.seed is None else str(self.seed)
        *ranges, last = _accumulate_ranges(weights)
        # Who is past the end is in the last variation.
        draw = Draw("sha1_60", f"{prefix}.", divisor=LONG_SCALE)
        yield Stage(draw, (*ranges, last._replace(stop=math.inf)))


class Optimizely(Scheme):
    """Optimizely: murmur3 over id and experiment id, 10,000 buckets.

    Attributes:
        experiment: Id of the experiment.
        traffic: Share of units in the experiment, if the ends of ranges are not written out.
        ends: End of each variation's range, 0 to 10,000, as `trafficAllocation` has them.
        group: Id of the exclusion group, if it is in one.
        group_range: Its first bucket in that group, and the one after its last.
    """

    platform: Literal["optimizely"]
    experiment: str
    traffic: _Share = 1.0
    ends: Mapping[str, int] | None = None
    group: str | None = None
    group_range: tuple[int, int] = (0, 10_000)

    def _list_stages(self, weights: _Weights) -> Iterator[Stage]:
        if self.group is not None:
            yield _build_admission_stage(
                Draw("murmur3_optimizely", after=self.group), *self.group_range
            )
        split = split_into_ranges(weights, 10_000 * self.traffic)
        if self.ends is not None:
            stops = self.ends.values()
            split = tuple(map(Range, self.ends, [0, *stops], stops))
        yield Stage(Draw("murmur3_optimizely", after=self.experiment), split)


class PlanOut(Scheme):
    """PlanOut: sha1 over the experiment's salt, the parameter's name and the id.

    Attributes:
        salt: The salt of the experiment; in a namespace it is `namespace.experiment`.
        parameter: Name of the parameter that the variants are values of.
        weighted: `WeightedChoice` by weights, else `UniformChoice`.
        namespace: Name of the namespace, if it is in one.
        segments: How many segments the namespace has.
        owned: The segments of this experiment.
    """

    platform: Literal["planout"]
    salt: str
    parameter: str
    weighted: bool = False
    namespace: str | None = None
    segments: int = Field(default=10_000, ge=1)
    owned: tuple[int, ...] = ()

    def _list_stages(self, weights: _Weights) -> Iterator[Stage]:
        if self.namespace is not None:
            draw = Draw("sha1_60", f"{self.namespace}.segment.", modulus=self.segments)
            yield Stage(
                draw, tuple(Range("in", segment, segment + 1) for segment in sorted({*self.owned}))
            )
        draw = Draw("sha1_60", f"{self.salt}.{self.parameter}.")
        if not self.weighted:
            ranges = tuple(Range(name, i, i + 1) for i, name in enumerate(weights))
            yield Stage(draw._replace(modulus=len(weights)), ranges)
            return
        # Ranges own their end; the first owns 0 too.
        ranges = tuple(
            Range(r.label, _include_end(r.start) if r.start else 0, _include_end(r.stop))
            for r in _accumulate_ranges(weights)
        )
        yield Stage(draw._replace(divisor=LONG_SCALE), ranges)


class PostHog(Scheme):
    """PostHog: sha1 over key and id, once for the rollout and once for the variant.

    The text for the variant ends with "variant".

    Attributes:
        key: The flag's key.
        rollout: Per cent of units in the experiment.
    """

    platform: Literal["posthog"]
    key: str
    rollout: _Percent = 100.0

    def _list_stages(self, weights: _Weights) -> Iterator[Stage]:
        draw = Draw("sha1_60", f"{self.key}.", divisor=LONG_SCALE)
        yield _build_admission_stage(draw, 0, _include_end(self.rollout / 100))
        yield Stage(draw._replace(after="variant"), _accumulate_ranges(weights))


class Split(Scheme):
    """Split (Harness FME): murmur3 or the old hash of Java, with a seed; 100 buckets.

    Attributes:
        seed: The feature's seed.
        algorithm: `murmur3` (2), or `legacy` (1), whose features are not independent.
        traffic: Per cent of units in the experiment.
        traffic_seed: Seed of the traffic allocation.
    """

    platform: Literal["split"]
    seed: int
    algorithm: Literal["murmur3", "legacy"] = "murmur3"
    traffic: _Percent = 100.0
    traffic_seed: int = 0

    def _list_stages(self, weights: _Weights) -> Iterator[Stage]:
        draw = Draw("murmur3" if self.algorithm == "murmur3" else "java", modulus=100)
        if self.traffic < 100:
            yield _build_admission_stage(draw._replace(seed=self.traffic_seed), 0, self.traffic)
        yield Stage(draw._replace(seed=self.seed), split_into_ranges(weights, 100))


class Statsig(Scheme):
    """Statsig: sha256 over salt and id.

    An experiment has 1,000 buckets, a gate 10,000.

    Attributes:
        salt: The experiment's salt.
        gate: Salt and rule salt of the gate or allocation before it, if there is one.
        gate_percent: Per cent of units that pass that gate.
    """

    platform: Literal["statsig"]
    salt: str
    gate: tuple[str, str] | None = None
    gate_percent: _Percent = 100.0

    def _list_stages(self, weights: _Weights) -> Iterator[Stage]:
        if self.gate is not None:
            draw = Draw("sha256_64", ".".join(self.gate) + ".", modulus=10_000)
            yield _build_admission_stage(draw, 0, self.gate_percent * 100)
        yield Stage(
            Draw("sha256_64", f"{self.salt}.", modulus=1000), split_into_ranges(weights, 1000)
        )


class Unleash(Scheme):
    """Unleash: murmur3 for the rollout, and with another seed for the variant.

    Attributes:
        group: The `groupId`, usually the name of the feature.
        rollout: Per cent of units in the experiment.
    """

    platform: Literal["unleash"]
    group: str
    rollout: _Percent = 100.0

    def _list_stages(self, weights: _Weights) -> Iterator[Stage]:
        total = math.fsum(weights.values())
        if total != int(total):
            hint = "write them as Unleash does: whole numbers, usually 1000 in all"
            raise ExperimentError(f"the weights of an Unleash scheme sum to {total:g}", hint)
        draw = Draw("murmur3", f"{self.group}:", modulus=100)
        yield _build_admission_stage(draw, 0, math.floor(self.rollout))
        # A second seed makes the variant independent of the rollout.
        draw = draw._replace(modulus=int(total), seed=_UNLEASH_VARIANT_SEED)
        yield Stage(draw, split_into_ranges(weights, int(total)))


AnyScheme = Annotated[
    Eppo
    | Firebase
    | Flagsmith
    | GrowthBook
    | LaunchDarkly
    | Optimizely
    | PlanOut
    | PostHog
    | Split
    | Statsig
    | Unleash,
    Field(discriminator="platform"),
]


def list_growthbook_ranges(
    count: int, coverage: float, weights: Sequence[float]
) -> list[tuple[float, float]]:
    """Return the range of each variation: starts by weight, lengths by coverage.

    >>> list_growthbook_ranges(2, 0.5, [0.5, 0.5])
    [(0, 0.25), (0.5, 0.75)]
    """
    coverage = min(max(coverage, 0), 1)
    if len(weights) != count or not 0.99 <= sum(weights) <= 1.01:
        weights = [1 / count] * count
    starts = accumulate(weights, initial=0)
    return [(start, start + coverage * weight) for start, weight in zip(starts, weights)]  # noqa: B905


def _build_admission_stage(draw: Draw, start: float, stop: float) -> Stage:
    return Stage(draw, (Range("in", start, stop),))


def _accumulate_ranges(weights: _Weights) -> tuple[Range, ...]:
    """Return ranges that end at the cumulative shares, in the platform's order."""
    total = math.fsum(weights.values())
    ends = list(accumulate(weight / total for weight in weights.values()))
    return tuple(map(Range, weights, [0, *ends], ends))


def _include_end(number: float) -> float:
    """Return the end of a half-open range that includes this number."""
    return math.nextafter(number, math.inf)
