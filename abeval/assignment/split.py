"""Unit → hash → slot → variant, and the independent sub-bucket.

One md5 decides both. Its first 60 bits fit a signed BIGINT on every engine, so DuckDB gets the same
number from ``cast('0x' || substr(md5(salt || ':' || id), 1, 15) as bigint)``. Only integers are
used: a hash turned into a fraction of 1 can come out as exactly 1.0 and belong to no range.

`logs/placing.py` writes its ranges of slots into SQL; `cli/assign.py` and `simulate/visits.py` call
it for ids.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from abeval.assignment.draws import (
    HEX_DIGITS,
    SLOTS,
    SUB_BUCKETS,
    digest,
    md5_60,
    slot,
    sub_bucket,
    unit_text,
)
from abeval.bounds import MAX_WEIGHT
from abeval.errors import ExperimentError

if TYPE_CHECKING:
    import pandas as pd

_SALT = re.compile(r"[A-Za-z0-9_.-]+")


class SlotRange(NamedTuple):
    """The half-open range of slots, ``start <= slot < stop``, that a variant owns."""

    variant: str
    start: int
    stop: int

    def __str__(self) -> str:
        """The range as [start, stop)."""
        return f"[{self.start:,}, {self.stop:,})"


class Assigned(NamedTuple):
    """The assignment of one unit."""

    unit: str
    h: int
    slot: int
    sub_bucket: int
    variant: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Every step from the id of a unit to its variant."""

    unit: str
    salt: str
    digest: str
    h: int
    slot: int
    range: SlotRange
    variant: str
    sub_bucket: int
    sub_buckets: int

    def __str__(self) -> str:
        """One step a line."""
        head, tail = self.digest[:HEX_DIGITS], self.digest[HEX_DIGITS:]
        return "\n".join(
            (
                f"unit        {self.unit}",
                f"salt        {self.salt}",
                f"digest      md5('{self.salt}:{self.unit}') = {head}·{tail}",
                f"h           0x{head} = {self.h}",
                f"slot        h mod {SLOTS:,} = {self.slot}",
                f"range       {self.range} is {self.variant}",
                f"variant     {self.variant}",
                f"sub_bucket  (h div {SLOTS:,}) mod {self.sub_buckets} = {self.sub_bucket}",
            )
        )


@dataclass(frozen=True)
class Assignment:
    """Variants that share 1,000,000 slots in proportion to their weights.

    Args:
        salt: names the randomisation; with another salt, units are assigned independently.
        weights: weight of each variant, in order. They need not sum to 1; 0 gets no slots.
        sub_buckets: how many sub-buckets units are spread over.

    Raises:
        ExperimentError: the salt or a weight cannot be used.

    >>> split = Assignment("exp_42", {"control": 0.5, "treatment": 0.5})
    >>> split.assign(123).variant
    'treatment'
    >>> [str(r) for r in split.ranges]
    ['[0, 500,000)', '[500,000, 1,000,000)']
    """

    salt: str
    weights: Mapping[str, float] = field(hash=False)
    sub_buckets: int = SUB_BUCKETS
    ranges: tuple[SlotRange, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Check the arguments, and compute the ranges."""
        check_salt(self.salt)
        _check_weights(self.weights)
        if self.sub_buckets < 1:
            raise ExperimentError(f"sub_buckets is {self.sub_buckets}", hint="use at least 1")
        object.__setattr__(self, "weights", dict(self.weights))
        object.__setattr__(self, "ranges", _ranges(self.weights))

    def assign(self, unit: object) -> Assigned:
        """The hash, slot, sub-bucket and variant of one unit.

        >>> Assignment("exp_42", {"a": 1, "b": 1}).assign("00123")
        Assigned(unit='00123', h=13812144263782114, slot=782114, sub_bucket=2183, variant='b')
        """
        text = unit_text(unit)
        h = md5_60(self.salt, text)
        place = slot(h)
        return Assigned(text, h, place, sub_bucket(h, self.sub_buckets), self._range(place).variant)

    def assign_many(self, units: Iterable[object]) -> pd.DataFrame:
        """One row a unit, in the order given: ``unit, h, slot, sub_bucket, variant``.

        >>> Assignment("exp_42", {"a": 1, "b": 1}).assign_many([1, 2]).variant.tolist()
        ['a', 'a']
        """
        import pandas as pd

        texts = [unit_text(unit) for unit in units]
        h = np.fromiter((md5_60(self.salt, text) for text in texts), np.int64, len(texts))
        slots = h % SLOTS
        stops = np.array([r.stop for r in self.ranges])
        names = np.array([r.variant for r in self.ranges], dtype=object)
        return pd.DataFrame(
            {
                "unit": texts,
                "h": h,
                "slot": slots,
                "sub_bucket": (h // SLOTS) % self.sub_buckets,
                "variant": names[np.searchsorted(stops, slots, side="right")],
            }
        )

    def explain(self, unit: object) -> Explanation:
        """Why a unit is where it is.

        >>> print(Assignment("exp_42", {"a": 1, "b": 1}).explain("123"))
        unit        123
        salt        exp_42
        digest      md5('exp_42:123') = 78d6f457d938f4e·6ea5c8281ba8a2720
        h           0x78d6f457d938f4e = 544213474231947086
        slot        h mod 1,000,000 = 947086
        range       [500,000, 1,000,000) is b
        variant     b
        sub_bucket  (h div 1,000,000) mod 4096 = 2999
        """
        assigned = self.assign(unit)
        return Explanation(
            **assigned._asdict(),
            salt=self.salt,
            digest=digest(self.salt, assigned.unit),
            range=self._range(assigned.slot),
            sub_buckets=self.sub_buckets,
        )

    def _range(self, place: int) -> SlotRange:
        return self.ranges[bisect_right([r.stop for r in self.ranges], place)]


def check_salt(salt: str) -> None:
    """Refuse a salt that could be mistaken for another."""
    # A salt without ":" keeps "a:b" + "c" and "a" + "b:c" apart.
    if not _SALT.fullmatch(salt):
        raise ExperimentError(
            f"salt {salt!r} cannot be used", hint="use letters, digits, '_', '.' and '-' only"
        )


def _check_weights(weights: Mapping[str, float]) -> None:
    for variant, weight in weights.items():
        if not 0 <= weight <= MAX_WEIGHT:
            raise ExperimentError(
                f"weight of variant {variant!r} is {weight}",
                hint=f"use a number from 0 to {MAX_WEIGHT:g}",
            )
    if not sum(weights.values()) > 0:
        raise ExperimentError(
            "no variant has a weight above 0", hint="set at least one weight above 0"
        )


def _ranges(weights: Mapping[str, float]) -> tuple[SlotRange, ...]:
    # Boundaries are rounded, not widths: widths rounded one by one need not sum to all slots.
    total = list(accumulate(weights.values()))
    stops = [round(part / total[-1] * SLOTS) for part in total]
    ranges = tuple(map(SlotRange, weights, [0, *stops], stops))
    for owned in ranges:
        if owned.start == owned.stop and weights[owned.variant] > 0:
            raise ExperimentError(
                f"weight of variant {owned.variant!r} is less than one slot in {SLOTS:,}",
                hint="give it a larger weight, or 0",
            )
    return ranges
