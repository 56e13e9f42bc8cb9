"""The assignment of other platforms, each as a rule of draws and ranges.

A class has the settings that its platform shows. The experiment file names one under
`[assignment.scheme]`. Numbers that the platforms published for their own SDKs are in
`tests/assignment/`.

| platform | hash of | number | ranges |
|---|---|---|---|
| Eppo | md5 of salt-ID | % shards | half-open |
| Firebase | sha256 of seed.ID | % 100,000,000 | above the start, up to the end |
| Flagsmith | md5 of feature,ID | % 9999 / 9998 | half-open |
| GrowthBook | fnv1a32 of seed and ID | 0 to 1 in steps | starts by weight, lengths by coverage |
| LaunchDarkly | sha1 of key.salt.ID | 0 to 1 | half-open, the last without an end |
| Optimizely | murmur3 of ID and experiment | 0 to 9,999 | half-open |
| PlanOut | sha1 of salt.parameter.ID | % variants, or 0 to 1 | one number each, or closed |
| PostHog | sha1 of key.ID | 0 to 1 | half-open |
| Split | murmur3, or Java's, of ID | % 100 | half-open |
| Statsig | sha256 of salt.ID | % 1,000 | half-open |
| Unleash | murmur3 of group:ID | % sum of weights | half-open |
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from abeval.assignment.draws import FLAGSMITH_STEPS, LONG_SCALE, Draw, Range, Rule, Stage, shares
from abeval.errors import ExperimentError

Weights = Mapping[str, float]
Share = Annotated[float, Field(ge=0, le=1)]
Percent = Annotated[float, Field(ge=0, le=100)]

UNLEASH_VARIANT_SEED = 86028157


class Scheme(BaseModel, ABC):
    """How a platform assigns units to variants."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def rule(self, weights: Weights) -> Rule:
        """Make the rule for variants of these weights, in the platform's order."""
        gate, split = self._gate(), self._split(weights)
        return Rule((split,) if gate is None else (gate, split))

    @abstractmethod
    def _split(self, weights: Weights) -> Stage:
        """The stage that names the variant."""

    def _gate(self) -> Stage | None:
        """The stage that a unit has to pass before, if there is one."""
        return None


class Eppo(Scheme):
    """Eppo: traffic and split are shards of their own.

    The flag's old randomisation hashes `exposure-ID-FLAG` and `assignment-ID-FLAG` instead.
    """

    platform: Literal["eppo"]
    salt: str = ""
    traffic_salt: str | None = None
    traffic: Share = 1.0
    shards: int = Field(default=10_000, ge=1)
    flag: str | None = None

    def _split(self, weights: Weights) -> Stage:
        return Stage(self._draw("assignment", self.salt), shares(weights, self.shards))

    def _gate(self) -> Stage | None:
        if self.flag is None and self.traffic_salt is None:
            return None
        draw = self._draw("exposure", self.traffic_salt or "")
        return _between(draw, 0, self.traffic * self.shards)

    def _draw(self, purpose: str, salt: str) -> Draw:
        if self.flag is not None:
            return Draw("md5_32", f"{purpose}-", f"-{self.flag}", modulus=self.shards)
        return Draw("md5_32", f"{salt}-", modulus=self.shards)


class Firebase(Scheme):
    """Firebase Remote Config: millionths of a per cent, by the seed of the percent condition."""

    platform: Literal["firebase"]
    seed: str = ""

    def _split(self, weights: Weights) -> Stage:
        ranges = shares(weights, 100_000_000)
        closed = tuple(Range(r.label, r.start + 1 if r.start else 0, r.stop + 1) for r in ranges)
        draw = Draw("sha256", f"{self.seed}." if self.seed else "", modulus=100_000_000)
        return Stage(draw, closed)


class Flagsmith(Scheme):
    """Flagsmith: the split of multivariate options, by the id of the feature state."""

    platform: Literal["flagsmith"]
    feature: str

    def _split(self, weights: Weights) -> Stage:
        return Stage(Draw("flagsmith", f"{self.feature},"), shares(weights, FLAGSMITH_STEPS - 1))


class GrowthBook(Scheme):
    """GrowthBook: ranges whose starts do not move when coverage grows.

    Experiments by version 1 of the hash are not independent of each other. The namespace is its
    name, start and end.

    >>> GrowthBook(platform="growthbook", seed="exp").rule({"a": 1, "b": 1}).variant("user")
    'b'
    """

    platform: Literal["growthbook"]
    seed: str
    version: Literal[1, 2] = 2
    coverage: float = 1.0
    namespace: tuple[str, float, float] | None = None

    def _split(self, weights: Weights) -> Stage:
        total = math.fsum(weights.values())
        # Weights that sum to nearly 1 are taken as they are, and no others.
        near = {n: w if 0.99 <= total <= 1.01 else w / total for n, w in weights.items()}
        ranges = growthbook_ranges(len(near), self.coverage, [*near.values()])
        return Stage(
            self._draw(self.seed, self.version),
            tuple(Range(name, *ends) for name, ends in zip(near, ranges, strict=True)),
        )

    def _gate(self) -> Stage | None:
        if self.namespace is None:
            return None
        name, start, stop = self.namespace
        return _between(self._draw(f"__{name}", 1), start, stop)

    @staticmethod
    def _draw(seed: str, version: int) -> Draw:
        if version == 2:
            return Draw("fnv1a32_twice", before=seed, modulus=10_000, divisor=10_000.0)
        return Draw("fnv1a32", after=seed, modulus=1000, divisor=1000.0)


class LaunchDarkly(Scheme):
    """LaunchDarkly: the rollout's seed is hashed, if there is one, instead of key and salt."""

    platform: Literal["launchdarkly"]
    key: str = ""
    salt: str = ""
    seed: int | None = None

    def _split(self, weights: Weights) -> Stage:
        prefix = f"{self.key}.{self.salt}" if self.seed is None else str(self.seed)
        *ranges, last = _steps(weights)
        # Who is past the end is in the last variation.
        draw = Draw("sha1_60", f"{prefix}.", divisor=LONG_SCALE)
        return Stage(draw, (*ranges, last._replace(stop=math.inf)))


class Optimizely(Scheme):
    """Optimizely: by the id of the experiment, and before it of its exclusion group.

    `ends` has the end of each variation's range, as `trafficAllocation` does, where they do not
    follow from `traffic`. `group_range` is the first bucket, and the one after the last.
    """

    platform: Literal["optimizely"]
    experiment: str
    traffic: Share = 1.0
    ends: Mapping[str, int] | None = None
    group: str | None = None
    group_range: tuple[int, int] = (0, 10_000)

    def _split(self, weights: Weights) -> Stage:
        split = shares(weights, 10_000 * self.traffic)
        if self.ends is not None:
            stops = self.ends.values()
            split = tuple(map(Range, self.ends, [0, *stops], stops))
        return Stage(Draw("murmur3_optimizely", after=self.experiment), split)

    def _gate(self) -> Stage | None:
        if self.group is None:
            return None
        return _between(Draw("murmur3_optimizely", after=self.group), *self.group_range)


class PlanOut(Scheme):
    """PlanOut: `UniformChoice`, or `WeightedChoice`, of a parameter's values.

    In a namespace the salt is `namespace.experiment`, and `owned` are the experiment's segments.
    """

    platform: Literal["planout"]
    salt: str
    parameter: str
    weighted: bool = False
    namespace: str | None = None
    segments: int = Field(default=10_000, ge=1)
    owned: tuple[int, ...] = ()

    def _split(self, weights: Weights) -> Stage:
        before = f"{self.salt}.{self.parameter}."
        if not self.weighted:
            draw = Draw("sha1_60", before, modulus=len(weights))
            return Stage(draw, tuple(Range(name, i, i + 1) for i, name in enumerate(weights)))
        # Ranges own their end; the first owns 0 too.
        return Stage(
            Draw("sha1_60", before, divisor=LONG_SCALE),
            tuple(
                Range(r.label, _after(r.start) if r.start else 0, _after(r.stop))
                for r in _steps(weights)
            ),
        )

    def _gate(self) -> Stage | None:
        if self.namespace is None:
            return None
        draw = Draw("sha1_60", f"{self.namespace}.segment.", modulus=self.segments)
        return Stage(draw, tuple(Range("in", one, one + 1) for one in sorted({*self.owned})))


class PostHog(Scheme):
    """PostHog: the rollout by the flag's key, the variant with "variant" after the id."""

    platform: Literal["posthog"]
    key: str
    rollout: Percent = 100.0

    def _split(self, weights: Weights) -> Stage:
        draw = Draw("sha1_60", f"{self.key}.", "variant", divisor=LONG_SCALE)
        return Stage(draw, _steps(weights))

    def _gate(self) -> Stage:
        draw = Draw("sha1_60", f"{self.key}.", divisor=LONG_SCALE)
        return _between(draw, 0, _after(self.rollout / 100))


class Split(Scheme):
    """Split (Harness FME): by seeds of the feature and of its traffic allocation.

    By the `legacy` algorithm (1), features are not independent. Its SDKs count buckets from 1.
    """

    platform: Literal["split"]
    seed: int
    algorithm: Literal["murmur3", "legacy"] = "murmur3"
    traffic: Percent = 100.0
    traffic_seed: int = 0

    def _split(self, weights: Weights) -> Stage:
        return Stage(self._draw(self.seed), shares(weights, 100))

    def _gate(self) -> Stage | None:
        if self.traffic == 100:
            return None
        return _between(self._draw(self.traffic_seed), 0, self.traffic)

    def _draw(self, seed: int) -> Draw:
        return Draw("murmur3" if self.algorithm == "murmur3" else "java", modulus=100, seed=seed)


class Statsig(Scheme):
    """Statsig: 1,000 buckets of an experiment, 10,000 of the gate or allocation before it.

    `gate` has the salt and the rule salt.
    """

    platform: Literal["statsig"]
    salt: str
    gate: tuple[str, str] | None = None
    gate_percent: Percent = 100.0

    def _split(self, weights: Weights) -> Stage:
        return Stage(Draw("sha256_64", f"{self.salt}.", modulus=1000), shares(weights, 1000))

    def _gate(self) -> Stage | None:
        if self.gate is None:
            return None
        draw = Draw("sha256_64", ".".join(self.gate) + ".", modulus=10_000)
        return _between(draw, 0, self.gate_percent * 100)


class Unleash(Scheme):
    """Unleash: the rollout, and with another seed the variant, by the `groupId`."""

    platform: Literal["unleash"]
    group: str
    rollout: Percent = 100.0

    def _split(self, weights: Weights) -> Stage:
        total = math.fsum(weights.values())
        if total != int(total):
            raise ExperimentError(
                f"the weights of an Unleash scheme sum to {total:g}",
                hint="write them as Unleash does: whole numbers, usually 1000 in all",
            )
        draw = Draw("murmur3", f"{self.group}:", modulus=int(total), seed=UNLEASH_VARIANT_SEED)
        return Stage(draw, shares(weights, int(total)))

    def _gate(self) -> Stage:
        draw = Draw("murmur3", f"{self.group}:", modulus=100)
        return _between(draw, 0, math.floor(self.rollout))


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


def growthbook_ranges(
    count: int, coverage: float, weights: Sequence[float]
) -> list[tuple[float, float]]:
    """Return start and end of each variation: starts by weight alone, lengths with coverage.

    >>> growthbook_ranges(2, 0.5, [0.5, 0.5])
    [(0, 0.25), (0.5, 0.75)]
    """
    coverage = min(max(coverage, 0), 1)
    if len(weights) != count or not 0.99 <= sum(weights) <= 1.01:
        weights = [1 / count] * count
    starts = accumulate(weights, initial=0)
    return [(start, start + coverage * weight) for start, weight in zip(starts, weights)]  # noqa: B905


def _between(draw: Draw, start: float, stop: float) -> Stage:
    return Stage(draw, (Range("in", start, stop),))


def _steps(weights: Weights) -> tuple[Range, ...]:
    """Half-open ranges whose ends are sums of the shares, in the order of the platform's sums."""
    total = math.fsum(weights.values())
    ends = list(accumulate(weight / total for weight in weights.values()))
    return tuple(map(Range, weights, [0, *ends], ends))


def _after(number: float) -> float:
    """The end of a half-open range whose last number is this one."""
    return math.nextafter(number, math.inf)
