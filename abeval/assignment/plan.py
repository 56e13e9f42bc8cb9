"""Assign a unit by override, holdout, sticky table, layer, traffic and split."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from abeval.assignment import draws
from abeval.assignment.draws import (
    HEX_DIGITS,
    SLOTS,
    SUB_BUCKETS,
    Range,
    Rule,
    Stage,
    format_unit_id,
)
from abeval.bounds import MAX_WEIGHT, check_between
from abeval.errors import ExperimentError, LogError

if TYPE_CHECKING:
    import pandas as pd

_SALT = re.compile(r"[A-Za-z0-9_.-]+")


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
    range: Range
    variant: str
    sub_bucket: int
    sub_buckets: int

    def __str__(self) -> str:
        head, tail = self.digest[:HEX_DIGITS], self.digest[HEX_DIGITS:]
        lines = (
            f"unit        {self.unit}",
            f"salt        {self.salt}",
            f"digest      md5('{self.salt}:{self.unit}') = {head}·{tail}",
            f"h           0x{head} = {self.h}",
            f"slot        h mod {SLOTS:,} = {self.slot}",
            f"range       {self.range} is {self.variant}",
            f"variant     {self.variant}",
            f"sub_bucket  (h div {SLOTS:,}) mod {self.sub_buckets} = {self.sub_bucket}",
        )
        return "\n".join(lines)


@dataclass(frozen=True)
class Assignment:
    """Variants that share 1,000,000 slots in proportion to their weights, 0 for none.

    With another salt, units are assigned independently.

    Raises:
        ExperimentError: The salt or a weight cannot be used.

    >>> split = Assignment("exp_42", {"control": 0.5, "treatment": 0.5})
    >>> split.assign(123).variant
    'treatment'
    """

    salt: str
    weights: Mapping[str, float] = field(hash=False)
    sub_buckets: int = SUB_BUCKETS
    ranges: tuple[Range, ...] = field(init=False)

    def __post_init__(self) -> None:
        check_salt(self.salt)
        _check_weights(self.weights)
        if self.sub_buckets < 1:
            raise ExperimentError(f"sub_buckets is {self.sub_buckets}", hint="use at least 1")
        object.__setattr__(self, "weights", dict(self.weights))
        object.__setattr__(self, "ranges", _divide_slots(self.weights))

    def assign(self, unit: object) -> Assigned:
        """Return the hash, slot, sub-bucket and variant of one unit.

        >>> Assignment("exp_42", {"a": 1, "b": 1}).assign("00123")
        Assigned(unit='00123', h=13812144263782114, slot=782114, sub_bucket=2183, variant='b')
        """
        text = format_unit_id(unit)
        h = draws.md5_60(self.salt, text)
        slot = draws.compute_slot(h)
        bucket = draws.compute_sub_bucket(h, self.sub_buckets)
        return Assigned(text, h, slot, bucket, self._find_range(slot).label)

    def assign_many(self, units: Iterable[object]) -> pd.DataFrame:
        """Assign units, one row each, in order: ``unit, h, slot, sub_bucket, variant``.

        >>> Assignment("exp_42", {"a": 1, "b": 1}).assign_many([1, 2]).variant.tolist()
        ['a', 'a']
        """
        import pandas as pd

        frame = pd.DataFrame([self.assign(unit) for unit in units], columns=Assigned._fields)
        return frame.astype(dict.fromkeys(("h", "slot", "sub_bucket"), "int64"))

    def explain(self, unit: object) -> Explanation:
        """Explain why a unit is where it is.

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
            digest=draws.md5(f"{self.salt}:{assigned.unit}"),
            range=self._find_range(assigned.slot),
            sub_buckets=self.sub_buckets,
        )

    def _find_range(self, slot: int) -> Range:
        return self.ranges[bisect_right([r.stop for r in self.ranges], slot)]


def check_salt(salt: str) -> None:
    """Refuse a salt that could be mistaken for another."""
    # A salt without ":" keeps "a:b" + "c" and "a" + "b:c" apart.
    if not _SALT.fullmatch(salt):
        hint = "use letters, digits, '_', '.' and '-' only"
        raise ExperimentError(f"salt {salt!r} cannot be used", hint)


def _check_weights(weights: Mapping[str, float]) -> None:
    for variant, weight in weights.items():
        check_between(f"weight of variant {variant!r}", weight, 0, MAX_WEIGHT)
    if not sum(weights.values()) > 0:
        raise ExperimentError("no variant has a weight above 0", "set at least one weight above 0")


def _divide_slots(weights: Mapping[str, float]) -> tuple[Range, ...]:
    # Boundaries are rounded, not widths: widths rounded one by one need not sum to all slots.
    total = list(accumulate(weights.values()))
    stops = [round(part / total[-1] * SLOTS) for part in total]
    ranges = tuple(map(Range, weights, [0, *stops], stops))
    for owned in ranges:
        if owned.start == owned.stop and weights[owned.label] > 0:
            what = f"weight of variant {owned.label!r} is less than one slot in {SLOTS:,}"
            raise ExperimentError(what, "give it a larger weight, or 0")
    return ranges


_Reason = Literal["override", "holdout", "sticky", "layer", "traffic", "split"]
"""The step that decided; after `layer` or `traffic` a unit is not in the experiment."""


class Placement(NamedTuple):
    """The variant of one unit, and the step that decided."""

    unit: str
    variant: str | None
    reason: _Reason
    analysed: bool


@dataclass(frozen=True)
class Holdout:
    """A share of units that is kept out of all experiments that name it.

    A new salt chooses other units.
    """

    salt: str
    share: float

    def __post_init__(self) -> None:
        check_salt(self.salt)
        check_between("share of the holdout", self.share, 0, 1)

    @property
    def stop(self) -> int:
        """Return the first slot after those of the holdout, which begin at 0."""
        return round(self.share * SLOTS)


@dataclass(frozen=True)
class Layer:
    """Experiments that never share a unit: each owns slots of one hash.

    `owned` is the first slot of each experiment, and the one after its last.

    >>> Layer("ranker", {"exp_1": (0, 300_000), "exp_2": (300_000, 800_000)}).owned["exp_2"]
    (300000, 800000)
    """

    salt: str
    owned: Mapping[str, tuple[int, int]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_salt(self.salt)
        for name, (start, stop) in self.owned.items():
            if not 0 <= start < stop <= SLOTS:
                what = f"slots {start} to {stop} of {name!r} in layer {self.salt!r}"
                raise ExperimentError(what, f"use whole numbers from 0 to {SLOTS:,}")
        by_start = sorted((*slots, name) for name, slots in self.owned.items())
        for (_, stop, first), (start, _, second) in pairwise(by_start):
            if start < stop:
                shared = f"slots {start:,} to {stop:,} of layer {self.salt!r}"
                hint = "experiments of one layer must own separate slots"
                raise ExperimentError(f"{first!r} and {second!r} share {shared}", hint)


@dataclass(frozen=True)
class Plan:
    """An experiment's place among the others, and its split.

    Args:
        traffic: Share of the units reaching the split that are in the experiment.
        layer: The layer, and the name under which it owns slots there.
        holdout: Units that are held out of all experiments.
        overrides: Unit → variant that a person chose; these units are not analysed.
        sticky: Unit → variant of units that keep it whatever the hash says.

    >>> plan = Plan(Assignment("exp_42", {"a": 1, "b": 1}), traffic=0.2)
    >>> plan.place("123")
    Placement(unit='123', variant=None, reason='traffic', analysed=True)
    """

    split: Assignment
    traffic: float = 1.0
    layer: tuple[Layer, str] | None = None
    holdout: Holdout | None = None
    overrides: Mapping[str, str] = field(default_factory=dict, hash=False)
    sticky: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_between("traffic", self.traffic, 0, 1)
        salts = [self.split.salt]
        salts += [self.layer[0].salt] if self.layer else []
        salts += [self.holdout.salt] if self.holdout else []
        # Two draws with one salt would be the same draw.
        if len({*salts}) < len(salts):
            hint = "give each its own, or the variants get unlike units"
            raise ExperimentError("split, layer and holdout share a salt", hint)
        if self.layer is not None and self.layer[1] not in self.layer[0].owned:
            raise ExperimentError(f"layer {self.layer[0].salt!r} has no {self.layer[1]!r}")
        for variant in {*self.overrides.values(), *self.sticky.values()}:
            if variant not in self.split.weights:
                raise ExperimentError(f"a table of units names the unknown variant {variant!r}")

    @property
    def ranges(self) -> tuple[Range, ...]:
        """Return the slots of each variant that traffic reaches.

        Their starts do not depend on traffic.
        """
        return tuple(
            r._replace(stop=r.start + round(self.traffic * (r.stop - r.start)))
            for r in self.split.ranges
        )

    def moved(self, after: Plan) -> float:
        """Return the share of enrolled slots that another plan reassigns.

        A clean ramp reassigns none.

        >>> even = Plan(Assignment("exp", {"a": 1, "b": 1}))
        >>> even.moved(Plan(Assignment("exp", {"a": 1, "b": 3})))
        0.25
        """
        enrolled = sum(old.stop - old.start for old in self.ranges)
        kept = sum(
            max(0, min(old.stop, new.stop) - max(old.start, new.start))
            for old in self.ranges
            for new in after.ranges
            if old.label == new.label
        )
        return (enrolled - kept) / enrolled if enrolled else 0

    @cached_property
    def _stages(self) -> dict[_Reason, Stage]:
        """Return the stages a unit must pass: holdout, layer, and the split."""
        stages: dict[_Reason, Stage] = {}
        if self.holdout is not None:
            stages["holdout"] = _build_slot_stage(
                self.holdout.salt, Range("in", self.holdout.stop, SLOTS)
            )
        if self.layer is not None:
            layer, name = self.layer
            stages["layer"] = _build_slot_stage(layer.salt, Range("in", *layer.owned[name]))
        return stages | {"traffic": _build_slot_stage(self.split.salt, *self.ranges)}

    def rule(self) -> Rule:
        """Return holdout, layer, traffic and split as draws, which have a form in SQL."""
        return Rule(tuple(self._stages.values()))

    def place(self, unit: object) -> Placement:
        """Return a unit's variant, and the step that decided."""
        text = format_unit_id(unit)
        if text in self.overrides:
            return Placement(text, self.overrides[text], "override", analysed=False)
        labels = {step: stage.label(text) for step, stage in self._stages.items()}
        # The first step that does not let the unit pass decides.
        shut: _Reason | None = next((step for step in labels if labels[step] is None), None)
        if shut != "holdout" and text in self.sticky:
            return Placement(text, self.sticky[text], "sticky", analysed=True)
        variant = None if shut else labels["traffic"]
        return Placement(text, variant, shut or "split", analysed=True)

    def explain(self, unit: object) -> str:
        """Explain every step for one unit, one a line, the split as `Assignment.explain`."""
        text = format_unit_id(unit)
        placement = self.place(text)
        lines = [f"override    {self.overrides[text]}"] if text in self.overrides else []
        slots = {step: int(stage.draw.number(text)) for step, stage in self._stages.items()}
        if self.holdout is not None:
            slot = slots["holdout"]
            outcome = "held out" if slot < self.holdout.stop else "in the experiment"
            edge = f"[0, {self.holdout.stop:,}) is held out"
            lines.append(f"holdout     slot {slot:,} of {self.holdout.salt}: {outcome} ({edge})")
        lines += [f"sticky      {self.sticky[text]}"] if text in self.sticky else []
        if self.layer is not None:
            layer, name = self.layer
            start, stop = layer.owned[name]
            edge = f"{name} owns [{start:,}, {stop:,})"
            lines.append(f"layer       slot {slots['layer']:,} of {layer.salt} ({edge})")
        lines.append(str(self.split.explain(text)))
        if self.traffic < 1:
            edges = ", ".join(f"{r} is {r.label}" for r in self.ranges)
            lines.append(f"traffic     {self.traffic:g}: {edges}")
        if len(lines) > 1:
            lines.append(f"placed      {placement.variant or 'not in it'}, by {placement.reason}")
        return "\n".join(lines)

    def place_many(self, units: Iterable[object]) -> pd.DataFrame:
        """Place units, one row each: `unit, variant, reason, analysed, slot, sub_bucket`."""
        import pandas as pd

        rows = [self.place(unit) for unit in units]
        split = self.split.assign_many(row.unit for row in rows)[["slot", "sub_bucket"]]
        return pd.DataFrame(rows, columns=Placement._fields).join(split)


def _build_slot_stage(salt: str, *ranges: Range) -> Stage:
    return Stage(draws.Draw("md5_60", f"{salt}:", modulus=SLOTS), ranges)


def read_plan(
    split: Assignment,
    traffic: float,
    layer: str | None,
    holdout: str | None,
    overrides: Path | None,
    sticky: Path | None,
) -> Plan:
    """Return the plan that the options of `abeval tools assign` describe."""
    tables = [{} if file is None else dict(read_assignment(file)) for file in (overrides, sticky)]
    owned = None if layer is None else _parse_layer(layer)
    return Plan(
        split, traffic, owned, None if holdout is None else _parse_holdout(holdout), *tables
    )


def _parse_layer(text: str) -> tuple[Layer, str]:
    salt, _, slots = text.rpartition(":")
    start, _, stop = slots.partition("-")
    if not (salt and start.isdecimal() and stop.isdecimal()):
        hint = "write --layer ranker:0-300000"
        raise ExperimentError(f"--layer {text!r} is not SALT:START-STOP", hint)
    return Layer(salt, {"this": (int(start), int(stop))}), "this"


def _parse_holdout(text: str) -> Holdout:
    salt, _, share = text.rpartition(":")
    try:
        return Holdout(salt, float(share))
    except ValueError:
        hint = "write --holdout holdout.2026:0.05"
        raise ExperimentError(f"--holdout {text!r} is not SALT:SHARE", hint=hint) from None


def read_assignment(file: Path) -> pd.Series[str]:
    """Read the variant of each unit, by unit id: the first two columns of a CSV file."""
    import pandas as pd

    try:
        rows = pd.read_csv(file, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise LogError(f"{file} cannot be read: {error}", "give a CSV file in UTF-8") from error
    if rows.shape[1] < 2:
        raise LogError(f"{file} has fewer than two columns", "give unit and variant, with a header")
    units, variants = rows.iloc[:, 0], rows.iloc[:, 1]
    if not (twice := units[units.duplicated()]).empty:
        what = f"{file} names a unit twice, such as {twice.iloc[0]!r}"
        raise LogError(what, "keep one row a unit")
    return pd.Series(variants.to_numpy(dtype=object), units.to_numpy(dtype=object))
