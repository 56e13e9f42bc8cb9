"""Platforms that draw by SHA-1: LaunchDarkly, PlanOut, PostHog."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from abeval.assignment.draws import LONG_SCALE, Draw, Range, Rule, Stage, at_most
from abeval.assignment.platforms import IN, Percent, Scheme, Weights, normed, steps


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
