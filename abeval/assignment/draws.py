"""Turn a unit's id into text, hash, number and range, as platforms do."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Literal, NamedTuple
from uuid import UUID

import mmh3
import numpy as np

from abeval.errors import LogError

SLOTS = 1_000_000
SUB_BUCKETS = 4096
HEX_DIGITS = 15


def md5_60(salt: str, unit: str) -> int:
    """Return the first 60 bits of md5 over ``salt:unit``, in utf-8.

    >>> md5_60("exp_42", "123")
    544213474231947086
    """
    return int(md5(f"{salt}:{unit}")[:HEX_DIGITS], 16)


def compute_slot(h: int) -> int:
    """Return the slot, 0 to 999,999, that decides the variant.

    >>> compute_slot(544213474231947086)
    947086
    """
    return h % SLOTS


def compute_sub_bucket(h: int, count: int = SUB_BUCKETS) -> int:
    """Return the sub-bucket for resampling, independent of the slot."""
    # Digits above those of the slot, so independent of the variant.
    return (h // SLOTS) % count


def md5(text: str) -> str:
    """Return the 32 hex digits of md5 over utf-8."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _fnv1a32(text: str) -> int:
    """Hash by 32-bit FNV-1a over UTF-16 code units, as JavaScript has them.

    >>> _fnv1a32("a") % 1000
    220
    """
    h = 0x811C9DC5
    for code in array("H", text.encode("utf-16-le")):
        h = (h ^ code) * 0x01000193 & 0xFFFFFFFF
    return h


def _murmur3_32(text: str, seed: int = 0) -> int:
    """Hash by MurmurHash3 (x86, 32 bits) over utf-8; the result is unsigned.

    >>> _murmur3_32("123", 0)
    2662625771
    """
    return mmh3.hash(text, seed & 0xFFFFFFFF, signed=False)


def java_hash(text: str) -> int:
    """Hash by Java's `String.hashCode`, over UTF-16 code units, with its sign.

    >>> java_hash("ab")
    3105
    """
    h = 0
    for code in array("H", text.encode("utf-16-le")):
        h = (31 * h + code) & 0xFFFFFFFF
    return _as_signed(h)


def _as_signed(h: int) -> int:
    # Two's complement: flip the sign bit, then subtract it.
    return ((h & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def format_unit_id(unit: object) -> str:
    """Return the text to hash: the same as DuckDB's ``cast(id as varchar)``.

    Raises:
        LogError: The id is null, or of a type whose text engines do not agree on.
    """
    if isinstance(unit, str):
        return str(unit)
    if isinstance(unit, (int, np.integer, UUID)) and not isinstance(unit, bool):
        return str(unit)
    # Floats and dates have no text that all engines agree on.
    what, hint = f"unit id {unit!r} is of type {type(unit).__name__}", "cast ids to text or integer"
    # The nulls of pandas by name, for it need not be imported.
    if unit is None or type(unit).__name__ in ("NAType", "NaTType"):
        what, hint = "a unit id is null", "drop rows without an id before assigning"
    elif isinstance(unit, (float, np.floating)) and math.isnan(unit):
        what = "a unit id is NaN, so it is null or the ids are floats"
        hint = f"drop rows without an id, then {hint}"
    elif isinstance(unit, (float, np.floating)):
        what = f"unit id {float(unit)!r} is a float"
        hint = f"{hint}: 123 and 123.0 hash to different variants"
    raise LogError(what, hint)


HashName = Literal[
    "md5_32",
    "md5_60",
    "sha1_60",
    "sha256_64",
    "sha256",
    "fnv1a32",
    "fnv1a32_twice",
    "murmur3",
    "murmur3_optimizely",
    "java",
    "flagsmith",
]

_HexHash = Literal["md5", "sha1", "sha256"]
"""Hashes that SQL has, as text of hex digits."""

HEX_HASHES: Mapping[HashName, tuple[_HexHash, int]] = {
    "md5_32": ("md5", 8),
    "md5_60": ("md5", HEX_DIGITS),
    "sha1_60": ("sha1", 15),
    "sha256_64": ("sha256", 16),
    "sha256": ("sha256", 64),
}
"""The hash, and how many of its hex digits form the number."""

LONG_SCALE = 2.0**60
"""What PlanOut, LaunchDarkly and PostHog divide 60 bits by; the quotient can be exactly 1.

They write 0xFFFFFFFFFFFFFFF, which is this number in floating point.
"""

FLAGSMITH_STEPS = 9999


class Draw(NamedTuple):
    """A number for each unit: ``hash(before + id + after) % modulus / divisor``.

    Without a modulus the whole hash counts. `seed` is only for hashes that take one.
    """

    hash: HashName
    before: str = ""
    after: str = ""
    modulus: int | None = None
    divisor: float | None = None
    seed: int = 0

    def number(self, unit: object) -> float:
        """Return the number of one unit.

        >>> Draw("md5_32", "", modulus=10_000).number("alice")
        3170
        """
        text = f"{self.before}{format_unit_id(unit)}{self.after}"
        if self.hash in HEX_HASHES:
            algorithm, digits = HEX_HASHES[self.hash]
            hashed = hashlib.new(algorithm, text.encode(), usedforsecurity=False)
            value = int(hashed.hexdigest()[:digits], 16)
        else:
            value = _HASHES[self.hash](text, self.seed)
        remainder = value if self.modulus is None else value % self.modulus
        return remainder if self.divisor is None else remainder / self.divisor


class Range(NamedTuple):
    """The half-open range ``start <= number < stop`` of one label."""

    label: str
    start: float
    stop: float

    def __str__(self) -> str:
        return f"[{self.start:,}, {self.stop:,})"


class Stage(NamedTuple):
    """A draw, and what its ranges are called."""

    draw: Draw
    ranges: tuple[Range, ...]

    def label(self, unit: object) -> str | None:
        """Return the label of the first range that holds the unit's number."""
        number = self.draw.number(unit)
        return next((r.label for r in self.ranges if r.start <= number < r.stop), None)


class Rule(NamedTuple):
    """A sequence of stages that gives a unit's variant, or leaves it out.

    >>> draw = Draw("md5_32", "salt-", modulus=10_000)
    >>> rule = Rule((Stage(draw, split_into_ranges({"control": 0.5, "treatment": 0.5}, 10_000)),))
    >>> rule.variant("alice")
    'control'
    """

    stages: tuple[Stage, ...]

    def variant(self, unit: object) -> str | None:
        """Return the variant of one unit, None if it is not in the experiment."""
        label = None
        for stage in self.stages:
            if (label := stage.label(unit)) is None:
                break
        return label

    def variants(self, units: Iterable[object]) -> list[str | None]:
        """Return the variant of each unit, in their order."""
        return [self.variant(unit) for unit in units]


def split_into_ranges(weights: Mapping[str, float], size: float) -> tuple[Range, ...]:
    """Divide `size` numbers into ranges in proportion to the weights.

    Ends are rounded to a millionth, so that the range of 0.1 + 0.2 ends where that of 0.3 does.

    >>> split_into_ranges({"a": 1, "b": 3}, 100)
    (Range(label='a', start=0, stop=25.0), Range(label='b', start=25.0, stop=100.0))
    """
    total = math.fsum(weights.values())
    ends = [round(cumulative * size / total, 6) for cumulative in accumulate(weights.values())]
    return tuple(map(Range, weights, [0, *ends], ends))


def _hash_by_flagsmith(text: str, _: int) -> int:
    """Draw again with the id repeated if the draw is exactly 100 %."""
    repeated = text
    # Flagsmith's own rule, for a draw of 100 % is outside all ranges.
    while (remainder := int(md5(repeated), 16) % FLAGSMITH_STEPS) == FLAGSMITH_STEPS - 1:
        repeated += f",{text}"
    return remainder


_HASHES: Mapping[HashName, Callable[[str, int], int]] = {
    "fnv1a32": lambda text, _: _fnv1a32(text),
    "fnv1a32_twice": lambda text, _: _fnv1a32(str(_fnv1a32(text))),
    "murmur3": _murmur3_32,
    "murmur3_optimizely": lambda text, _: _murmur3_32(text, 1) * 10_000 >> 32,
    "java": lambda text, seed: abs(_as_signed(java_hash(text) ^ seed)),
    "flagsmith": _hash_by_flagsmith,
}
