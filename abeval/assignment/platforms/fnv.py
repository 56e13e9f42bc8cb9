"""The platform that draws by FNV-1a: GrowthBook."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

from abeval.assignment.draws import Draw, Range, Rule, Stage
from abeval.assignment.platforms import IN, Scheme, Weights


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
