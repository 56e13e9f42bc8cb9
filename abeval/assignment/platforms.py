"""The assignment of other platforms, each as a rule of draws and ranges."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
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
    at_most,
    shares,
)
from abeval.errors import ExperimentError

Weights = Mapping[str, float]
Share = Annotated[float, Field(ge=0, le=1)]
Percent = Annotated[float, Field(ge=0, le=100)]

IN = "in"
"""The label of a unit that passes a stage before the last."""


class Scheme(BaseModel, ABC):
    """How a platform assigns units to variants."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @abstractmethod
    def rule(self, weights: Weights) -> Rule:
        """The rule for variants of these weights, in the platform's order."""


def normed(weights: Weights) -> dict[str, float]:
    """Weights as shares of their sum."""
    total = math.fsum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def steps(parts: Weights) -> tuple[Range, ...]:
    """Half-open ranges whose ends are sums of the parts, in the order of the platform's sums."""
    ends = list(accumulate(parts.values()))
    return tuple(map(Range, parts, [0, *ends], ends))


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

    def rule(self, weights: Weights) -> Rule:
        """Namespace, then the split."""
        values = list(weights.values())
        ranges = growthbook_ranges(len(values), self.coverage, _near_one(values))
        split = tuple(Range(name, *r) for name, r in zip(weights, ranges, strict=True))
        stages = [Stage(growthbook_draw(self.seed, self.version), split)]
        if self.namespace is not None:
            name, start, stop = self.namespace
            stages.insert(0, Stage(growthbook_draw(f"__{name}", 1), (Range(IN, start, stop),)))
        return Rule(tuple(stages))


def growthbook_draw(seed: str, version: Literal[1, 2]) -> Draw:
    """GrowthBook's number from 0 to 1.

    >>> growthbook_draw("seed", 2).number("a")
    0.0505
    """
    if version == 2:
        return Draw("fnv1a32_twice", before=seed, modulus=10_000, divisor=10_000.0)
    return Draw("fnv1a32", after=seed, modulus=1000, divisor=1000.0)


def growthbook_ranges(
    count: int, coverage: float, weights: Sequence[float] | None = None
) -> list[tuple[float, float]]:
    """Start and end of each variation: starts by weight alone, lengths by weight × coverage.

    >>> growthbook_ranges(2, 0.5)
    [(0, 0.25), (0.5, 0.75)]
    """
    coverage = min(max(coverage, 0), 1)
    if weights is None or len(weights) != count or not 0.99 <= sum(weights) <= 1.01:
        weights = [1 / count] * count
    starts = accumulate(weights, initial=0)
    return [(start, start + coverage * weight) for start, weight in zip(starts, weights)]  # noqa: B905


def _near_one(weights: Sequence[float]) -> list[float]:
    """GrowthBook takes weights that sum to nearly 1 as they are, and no others."""
    total = math.fsum(weights)
    return list(weights) if 0.99 <= total <= 1.01 else [weight / total for weight in weights]


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
    traffic: Share = 1.0
    shards: int = Field(default=10_000, ge=1)
    flag: str | None = None

    def rule(self, weights: Weights) -> Rule:
        """Traffic, then the split."""
        stages = [Stage(self._draw("assignment", self.salt), shares(weights, self.shards))]
        if self.flag is not None or self.traffic_salt is not None:
            draw = self._draw("exposure", self.traffic_salt or "")
            stages.insert(0, Stage(draw, (Range(IN, 0, self.traffic * self.shards),)))
        return Rule(tuple(stages))

    def _draw(self, purpose: str, salt: str) -> Draw:
        if self.flag is not None:
            return Draw("md5_32", f"{purpose}-", f"-{self.flag}", modulus=self.shards)
        return Draw("md5_32", f"{salt}-", modulus=self.shards)


class Flagsmith(Scheme):
    """Flagsmith: md5 over the id of the feature state and that of the identity, in per cent.

    Attributes:
        feature: Id of the feature state.
    """

    platform: Literal["flagsmith"]
    feature: str

    def rule(self, weights: Weights) -> Rule:
        """The split of multivariate options."""
        draw = flagsmith_draw(self.feature)._replace(divisor=None)
        return Rule((Stage(draw, shares(weights, FLAGSMITH_STEPS - 1)),))


def flagsmith_draw(feature: str | int) -> Draw:
    """Flagsmith's percentage, as a share from 0 to 1.

    >>> round(flagsmith_draw(12).number(93) * 100, 6)
    27.655531
    """
    return Draw("flagsmith", f"{feature},", divisor=float(FLAGSMITH_STEPS - 1))


class Unleash(Scheme):
    """Unleash: murmur3 for the rollout, and with another seed for the variant.

    Attributes:
        group: The `groupId`, usually the name of the feature.
        rollout: Per cent of units in the experiment.
    """

    platform: Literal["unleash"]
    group: str
    rollout: Percent = 100.0

    def rule(self, weights: Weights) -> Rule:
        """Rollout, then the variant."""
        total = _whole_total(weights)
        rollout = Draw("murmur3", f"{self.group}:", modulus=100)
        variant = Draw("murmur3_unleash", f"{self.group}:", modulus=total)
        passed = Stage(rollout, (Range(IN, 0, math.floor(self.rollout)),))
        return Rule((passed, Stage(variant, shares(weights, total))))


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
    traffic: Share = 1.0
    ends: Mapping[str, int] | None = None
    group: str | None = None
    group_range: tuple[int, int] = (0, 10_000)

    def rule(self, weights: Weights) -> Rule:
        """The group, then the split."""
        split = shares(weights, 10_000 * self.traffic)
        if self.ends is not None:
            stops = self.ends.values()
            split = tuple(map(Range, self.ends, [0, *stops], stops))
        stages = [Stage(optimizely_draw(self.experiment), split)]
        if self.group is not None:
            stages.insert(0, Stage(optimizely_draw(self.group), (Range(IN, *self.group_range),)))
        return Rule(tuple(stages))


def optimizely_draw(parent: str | int) -> Draw:
    """Optimizely's bucket, 0 to 9,999.

    >>> optimizely_draw(1886780721).number("ppid1")
    5254
    """
    return Draw("murmur3_optimizely", after=str(parent))


class Split(Scheme):
    """Split (Harness FME): murmur3 with the feature's seed, or the old hash of Java; 100 buckets.

    Attributes:
        seed: The feature's seed.
        algorithm: `murmur3` (2), or `legacy` (1), whose features are not independent.
        traffic: Per cent of units in the experiment.
        traffic_seed: Seed of the traffic allocation.
    """

    platform: Literal["split"]
    seed: int
    algorithm: Literal["murmur3", "legacy"] = "murmur3"
    traffic: Percent = 100.0
    traffic_seed: int = 0

    def rule(self, weights: Weights) -> Rule:
        """Traffic, then the split."""
        split = Stage(split_draw(self.seed, self.algorithm), shares(weights, 100))
        if self.traffic == 100:
            return Rule((split,))
        draw = split_draw(self.traffic_seed, self.algorithm)
        return Rule((Stage(draw, (Range(IN, 0, self.traffic),)), split))


def split_draw(seed: int, algorithm: Literal["murmur3", "legacy"] = "murmur3") -> Draw:
    """Split's bucket, 0 to 99; its SDKs count from 1.

    >>> split_draw(467569525).number("aUfEsdPN1twuEjff9Sl") + 1
    52
    """
    return Draw("murmur3_seeded" if algorithm == "murmur3" else "java", modulus=100, seed=seed)


def _whole_total(weights: Weights) -> int:
    total = math.fsum(weights.values())
    if total != int(total):
        raise ExperimentError(
            f"the weights of an Unleash scheme sum to {total:g}",
            hint="write them as Unleash does: whole numbers, usually 1000 in all",
        )
    return int(total)


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

    def rule(self, weights: Weights) -> Rule:
        """Segment of the namespace, then the choice."""
        stages = [self._choice(weights)]
        if self.namespace is not None:
            draw = Draw("sha1_60", f"{self.namespace}.segment.", modulus=self.segments)
            owned = tuple(Range(IN, segment, segment + 1) for segment in sorted({*self.owned}))
            stages.insert(0, Stage(draw, owned))
        return Rule(tuple(stages))

    def _choice(self, weights: Weights) -> Stage:
        before = f"{self.salt}.{self.parameter}."
        if not self.weighted:
            draw = Draw("sha1_60", before, modulus=len(weights))
            return Stage(draw, tuple(Range(name, i, i + 1) for i, name in enumerate(weights)))
        draw = Draw("sha1_60", before, divisor=LONG_SCALE)
        return Stage(draw, _closed(normed(weights)))


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

    def rule(self, weights: Weights) -> Rule:
        """The split; who is past its end is in the last variation."""
        ranges = list(steps(normed(weights)))
        ranges[-1] = ranges[-1]._replace(stop=math.inf)
        return Rule((Stage(self.draw(), tuple(ranges)),))

    def draw(self) -> Draw:
        """The number from 0 to 1.

        >>> draw = LaunchDarkly(platform="launchdarkly", key="hashKey", salt="saltyA").draw()
        >>> round(draw.number("userKeyA"), 8)
        0.42157587
        """
        prefix = f"{self.key}.{self.salt}" if self.seed is None else str(self.seed)
        return Draw("sha1_60", f"{prefix}.", divisor=LONG_SCALE)


class PostHog(Scheme):
    """PostHog: sha1 over key and id for the rollout, with "variant" at the end for the variant.

    Attributes:
        key: The flag's key.
        rollout: Per cent of units in the experiment.
    """

    platform: Literal["posthog"]
    key: str
    rollout: Percent = 100.0

    def rule(self, weights: Weights) -> Rule:
        """Rollout, then the variant."""
        before = f"{self.key}."
        passed = (Range(IN, 0, at_most(self.rollout / 100)),)
        rollout = Draw("sha1_60", before, divisor=LONG_SCALE)
        variant = Draw("sha1_60", before, "variant", divisor=LONG_SCALE)
        return Rule((Stage(rollout, passed), Stage(variant, steps(normed(weights)))))


def _closed(parts: Weights) -> tuple[Range, ...]:
    """Ranges that own their end; the first owns 0 too."""
    return tuple(
        Range(r.label, at_most(r.start) if r.start else 0, at_most(r.stop)) for r in steps(parts)
    )


class Statsig(Scheme):
    """Statsig: sha256 over salt and id; 1,000 buckets of an experiment, 10,000 of a gate.

    Attributes:
        salt: The experiment's salt.
        gate: Salt and rule salt of the gate or allocation before it, if there is one.
        gate_percent: Per cent of units that pass that gate.
    """

    platform: Literal["statsig"]
    salt: str
    gate: tuple[str, str] | None = None
    gate_percent: Percent = 100.0

    def rule(self, weights: Weights) -> Rule:
        """The gate, then the split."""
        stages = [Stage(statsig_draw(self.salt), shares(weights, 1000))]
        if self.gate is not None:
            draw = Draw("sha256_64", ".".join(self.gate) + ".", modulus=10_000)
            stages.insert(0, Stage(draw, (Range(IN, 0, self.gate_percent * 100),)))
        return Rule(tuple(stages))


def statsig_draw(salt: str) -> Draw:
    """Statsig's user bucket, 0 to 999.

    >>> statsig_draw("f8aeba58-18fb-4f36-9bbd-4c611447a912").number("random")
    104
    """
    return Draw("sha256_64", f"{salt}.", modulus=1000)


class Firebase(Scheme):
    """Firebase Remote Config: sha256 over seed and id, in millionths of a per cent.

    Attributes:
        seed: Seed of the percent condition.
    """

    platform: Literal["firebase"]
    seed: str = ""

    def rule(self, weights: Weights) -> Rule:
        """The split; each condition is above its lower bound and at most its upper one."""
        ranges = shares(weights, 100_000_000)
        closed = tuple(Range(r.label, r.start + 1 if r.start else 0, r.stop + 1) for r in ranges)
        return Rule((Stage(firebase_draw(self.seed), closed),))


def firebase_draw(seed: str) -> Draw:
    """Firebase's micro-percentile, 0 to 99,999,999.

    >>> firebase_draw("1").number("one")
    64146488
    """
    return Draw("sha256", f"{seed}." if seed else "", modulus=100_000_000)


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
