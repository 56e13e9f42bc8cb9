"""Platforms that draw by MurmurHash3: Optimizely, Split, Unleash."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from abeval.assignment.draws import Draw, Range, Rule, Stage, shares
from abeval.assignment.platforms import IN, Percent, Scheme, Share, Weights
from abeval.errors import ExperimentError


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
