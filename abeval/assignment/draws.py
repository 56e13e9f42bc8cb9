"""Unit → number → range, as every platform does it.

A **draw** hashes a text around the id to a number. A **stage** gives the number the label of the
range that holds it. A **rule** is stages in a row: who falls into no range of one is not in the
experiment, and the last stage names the variant. `platforms/` writes each platform as a rule;
`cli/audit.py` and `audit/` compute variants by it; `engines/builders.py` writes it as SQL.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from abeval.assignment import draws

HashName = Literal[
    "md5_32",
    "md5_60",
    "sha1_60",
    "sha256_64",
    "sha256",
    "fnv1a32",
    "fnv1a32_twice",
    "murmur3",
    "murmur3_unleash",
    "murmur3_optimizely",
    "murmur3_seeded",
    "java",
    "flagsmith",
]

LONG_SCALE = 2.0**60
"""What PlanOut, LaunchDarkly and PostHog divide 60 bits by; the quotient can be exactly 1.

They write 0xFFFFFFFFFFFFFFF, which is this number in floating point.
"""

UNLEASH_VARIANT_SEED = 86028157
FLAGSMITH_STEPS = 9999


class Draw(NamedTuple):
    """A number from 0 on for each unit: ``hash(before + id + after) % modulus / divisor``.

    Attributes:
        hash: Which hash.
        before: Text before the id.
        after: Text after it.
        modulus: Remainder of the hash by this, or the whole hash.
        divisor: The remainder is divided by this, in floating point, if it is there.
        seed: Of the hashes that have one.
    """

    hash: HashName
    before: str = ""
    after: str = ""
    modulus: int | None = None
    divisor: float | None = None
    seed: int = 0

    def number(self, unit: object) -> float:
        """The number of one unit.

        >>> Draw("md5_32", "", modulus=10_000).number("alice")
        3170
        """
        whole = _hashed(self, f"{self.before}{unit_text(unit)}{self.after}")
        rest = whole if self.modulus is None else whole % self.modulus
        return rest if self.divisor is None else rest / self.divisor


class Range(NamedTuple):
    """The half-open range ``start <= number < stop`` of one label."""

    label: str
    start: float
    stop: float


class Stage(NamedTuple):
    """A draw, and what its ranges are called."""

    draw: Draw
    ranges: tuple[Range, ...]

    def label(self, unit: object) -> str | None:
        """The label of the first range that holds the unit's number, None where none does."""
        number = self.draw.number(unit)
        return next((r.label for r in self.ranges if r.start <= number < r.stop), None)


class Rule(NamedTuple):
    """Stages in a row: the variant of a unit, or that it is not in the experiment.

    >>> draw = Draw("md5_32", "salt-", modulus=10_000)
    >>> rule = Rule((Stage(draw, shares({"control": 0.5, "treatment": 0.5}, 10_000)),))
    >>> rule.variant("alice"), rule.variant("bob")
    ('control', 'control')
    """

    stages: tuple[Stage, ...]

    def variant(self, unit: object) -> str | None:
        """The variant of one unit, None where it is not in the experiment."""
        label = None
        for stage in self.stages:
            label = stage.label(unit)
            if label is None:
                return None
        return label

    def variants(self, units: Iterable[object]) -> list[str | None]:
        """The variant of each unit, in their order."""
        return [self.variant(unit) for unit in units]


def shares(weights: Mapping[str, float], size: float) -> tuple[Range, ...]:
    """Ranges of `size` numbers in proportion to the weights, from 0 on.

    Ends are rounded to the millionth of a number, so that 0.1 + 0.2 ends where 0.3 does.

    >>> shares({"a": 1, "b": 3}, 100)
    (Range(label='a', start=0, stop=25.0), Range(label='b', start=25.0, stop=100.0))
    """
    total, ranges = math.fsum(weights.values()), []
    start: float = 0
    place: float = 0
    for label, weight in weights.items():
        place += weight
        stop = round(place * size / total, 6)
        ranges.append(Range(label, start, stop))
        start = stop
    return tuple(ranges)


def at_most(number: float) -> float:
    """The end of a half-open range whose last number is this one."""
    return math.nextafter(number, math.inf)


def _hashed(draw: Draw, text: str) -> int:
    return _HASHES[draw.hash](text, draw.seed)


def _flagsmith(text: str, seed: int) -> int:
    """A draw of exactly 100 % is drawn again, with the ids said once more."""
    repeated = text
    while (rest := int(draws.md5(repeated), 16) % FLAGSMITH_STEPS) == FLAGSMITH_STEPS - 1:
        repeated += f",{text}"
    return rest


_HASHES: Mapping[HashName, Callable[[str, int], int]] = {
    "md5_32": lambda text, _: int(draws.md5(text)[:8], 16),
    "md5_60": lambda text, _: int(draws.md5(text)[: draws.HEX_DIGITS], 16),
    "sha1_60": lambda text, _: int(draws.sha1(text)[:15], 16),
    "sha256_64": lambda text, _: int(draws.sha256(text)[:16], 16),
    "sha256": lambda text, _: int(draws.sha256(text), 16),
    "fnv1a32": lambda text, _: draws.fnv1a32(text),
    "fnv1a32_twice": lambda text, _: draws.fnv1a32(str(draws.fnv1a32(text))),
    "murmur3": lambda text, _: draws.murmur3_32(text),
    "murmur3_unleash": lambda text, _: draws.murmur3_32(text, UNLEASH_VARIANT_SEED),
    "murmur3_optimizely": lambda text, _: draws.murmur3_32(text, 1) * 10_000 >> 32,
    "murmur3_seeded": lambda text, seed: draws.murmur3_32(text, seed),
    "java": lambda text, seed: _magnitude(draws.java_hash(text) ^ seed),
    "flagsmith": _flagsmith,
}


def _magnitude(number: int) -> int:
    """The size of a number whose low 32 bits are Java's int."""
    h = number & 0xFFFFFFFF
    return min(h, 0x100000000 - h)
