"""Where a unit goes before its variant: override, holdout, sticky table, layer, traffic, split.

Experiments that must not share units own separate slots of one **layer**. A **holdout** keeps a
share of units out of every experiment that names it. **Traffic** takes the first part of each
variant's slots, so that a ramp only adds units. Each of the three has a salt of its own, or the
experiments would not be independent (Tang et al. 2010).

`cli/assign.py` calls it; `draws.py` gives its rule as SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from abeval.assignment.draws import SLOTS, Draw, Range, Rule, Stage, md5_60, slot, unit_text
from abeval.errors import ExperimentError

if TYPE_CHECKING:
    import pandas as pd

Reason = Literal["override", "holdout", "sticky", "layer", "traffic", "split"]
"""Which step decided: a unit that a layer or traffic decides on is not in the experiment."""


class Placement(NamedTuple):
    """Where one unit goes.

    Attributes:
        unit: The id that was hashed.
        variant: None where the unit is not in the experiment.
        reason: The step that decided.
        analysed: False where a person chose the variant, so that it must not be compared.
    """

    unit: str
    variant: str | None
    reason: Reason
    analysed: bool


@dataclass(frozen=True)
class Holdout:
    """Units that are kept out of every experiment that names this holdout.

    Args:
        salt: Names the holdout; a new salt chooses other units.
        share: Share of all units.
    """

    salt: str
    share: float

    def __post_init__(self) -> None:
        """Check salt and share."""
        check_salt(self.salt)
        _check_share("share of the holdout", self.share)

    @property
    def stop(self) -> int:
        """The slot after its last."""
        return round(self.share * SLOTS)


@dataclass(frozen=True)
class Layer:
    """Experiments that never share a unit: each owns slots of one hash.

    Args:
        salt: Names the layer.
        owned: Experiment → first slot, and the one after its last.

    >>> layer = Layer("ranker").allocate("exp_1", 0.3).allocate("exp_2", 0.5)
    >>> layer.owned
    {'exp_1': (0, 300000), 'exp_2': (300000, 800000)}
    >>> layer.release("exp_1").allocate("exp_3", 0.2).owned["exp_3"]
    (0, 200000)
    """

    salt: str
    owned: Mapping[str, tuple[int, int]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Check salt and slots."""
        check_salt(self.salt)
        for name, (start, stop) in self.owned.items():
            if not 0 <= start < stop <= SLOTS:
                raise ExperimentError(
                    f"slots {start} to {stop} of {name!r} in layer {self.salt!r}",
                    hint=f"use whole numbers from 0 to {SLOTS:,}",
                )
        by_start = sorted((*slots, name) for name, slots in self.owned.items())
        for (_, stop, one), (start, _, other) in pairwise(by_start):
            if start < stop:
                raise ExperimentError(
                    f"{one!r} and {other!r} share slots {start:,} to {stop:,} of layer "
                    f"{self.salt!r}",
                    hint="experiments of one layer must own separate slots",
                )

    def allocate(self, experiment: str, share: float) -> Layer:
        """The layer with the first free slots that are wide enough for one more experiment.

        Raises:
            ExperimentError: The experiment is in the layer, or no free range is wide enough.
        """
        _check_share("share of the layer", share)
        if experiment in self.owned:
            raise ExperimentError(f"{experiment!r} is in layer {self.salt!r}", "release it first")
        width = round(share * SLOTS)
        for start, stop in self.free():
            if 0 < width <= stop - start:
                return replace(self, owned={**self.owned, experiment: (start, start + width)})
        widest = max((stop - start for start, stop in self.free()), default=0)
        raise ExperimentError(
            f"layer {self.salt!r} has no {width:,} free slots in a row for {experiment!r}",
            hint=f"the widest free range has {widest:,}; release an experiment, or use less",
        )

    def release(self, experiment: str) -> Layer:
        """The layer without an experiment.

        Raises:
            ExperimentError: It is not in the layer.
        """
        if experiment not in self.owned:
            raise ExperimentError(f"{experiment!r} is not in layer {self.salt!r}")
        return replace(self, owned={n: s for n, s in self.owned.items() if n != experiment})

    def free(self) -> list[tuple[int, int]]:
        """The ranges of slots that no experiment owns."""
        edges = [0, *(edge for slots in sorted(self.owned.values()) for edge in slots), SLOTS]
        return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]


@dataclass(frozen=True)
class Plan:
    """An experiment's place among the others, and its split.

    Args:
        split: Salt and weights of the variants.
        traffic: Share of the units that reach the split which are in the experiment.
        layer: The layer, and the name under which it owns slots there.
        holdout: Units that are in no experiment.
        overrides: Unit → variant that a person chose; these units are not analysed.
        sticky: Unit → variant of units that keep it whatever the hash says.

    >>> plan = Plan(Assignment("exp_42", {"a": 1, "b": 1}), traffic=0.2)
    >>> plan.place("123")
    Placement(unit='123', variant=None, reason='traffic', analysed=True)
    >>> plan.ramped(1.0).place("123").variant
    'b'
    """

    split: Assignment
    traffic: float = 1.0
    layer: tuple[Layer, str] | None = None
    holdout: Holdout | None = None
    overrides: Mapping[str, str] = field(default_factory=dict, hash=False)
    sticky: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Check that salts differ and names exist."""
        _check_share("traffic", self.traffic)
        salts = [self.split.salt]
        salts += [self.layer[0].salt] if self.layer else []
        salts += [self.holdout.salt] if self.holdout else []
        if len({*salts}) < len(salts):
            raise ExperimentError(
                "split, layer and holdout share a salt",
                hint="give each its own, or the variants get unlike units",
            )
        if self.layer is not None and self.layer[1] not in self.layer[0].owned:
            raise ExperimentError(f"layer {self.layer[0].salt!r} has no {self.layer[1]!r}")
        for variant in {*self.overrides.values(), *self.sticky.values()}:
            if variant not in self.split.weights:
                raise ExperimentError(f"a table of units names the unknown variant {variant!r}")

    @property
    def ranges(self) -> tuple[SlotRange, ...]:
        """The slots of each variant that traffic reaches: starts do not depend on it."""
        return tuple(
            r._replace(stop=r.start + round(self.traffic * (r.stop - r.start)))
            for r in self.split.ranges
        )

    def ramped(self, traffic: float) -> Plan:
        """The plan with more traffic: no enrolled unit changes sides.

        Raises:
            ExperimentError: Less traffic, which would take units out of the experiment.
        """
        if traffic < self.traffic:
            raise ExperimentError(
                f"traffic {traffic:g} is less than {self.traffic:g}: units would leave a variant",
                hint="stop the experiment and start another with a new salt",
            )
        return replace(self, traffic=traffic)

    def moved(self, after: Plan) -> float:
        """Share of this plan's slots whose variant another plan changes: 0 for a clean ramp.

        >>> even = Plan(Assignment("exp", {"a": 1, "b": 1}))
        >>> even.moved(Plan(Assignment("exp", {"a": 1, "b": 3})))
        0.25
        """
        enrolled = sum(own.stop - own.start for own in self.ranges)
        kept = sum(
            _common(own, new)
            for own in self.ranges
            for new in after.ranges
            if own.variant == new.variant
        )
        return (enrolled - kept) / enrolled if enrolled else 0

    def rule(self) -> Rule:
        """Holdout, layer, traffic and split as draws, which have a form in SQL."""
        stages = []
        if self.holdout is not None:
            stages.append(_stage(self.holdout.salt, [("in", self.holdout.stop, SLOTS)]))
        if self.layer is not None:
            layer, name = self.layer
            stages.append(_stage(layer.salt, [("in", *layer.owned[name])]))
        split = _stage(self.split.salt, [(r.variant, r.start, r.stop) for r in self.ranges])
        return Rule((*stages, split))

    def place(self, unit: object) -> Placement:
        """Where one unit goes, and which step decided."""
        text = unit_text(unit)
        if text in self.overrides:
            return Placement(text, self.overrides[text], "override", analysed=False)
        if self.holdout is not None and _slot(self.holdout.salt, text) < self.holdout.stop:
            return Placement(text, None, "holdout", analysed=True)
        if text in self.sticky:
            return Placement(text, self.sticky[text], "sticky", analysed=True)
        if not self._in_layer(text):
            return Placement(text, None, "layer", analysed=True)
        variant = _owner(self.ranges, _slot(self.split.salt, text))
        return Placement(text, variant, "split" if variant else "traffic", analysed=True)

    def explain(self, unit: object) -> str:
        r"""Every step for one unit, one a line, in their order; the split as `Assignment.explain`.

        >>> plan = Plan(Assignment("exp_42", {"a": 1, "b": 1}), 0.2, holdout=Holdout("h", 0.1))
        >>> print("\n".join(plan.explain("123").splitlines()[:2]))
        holdout     slot 579,094 of h: in the experiment ([0, 100,000) is held out)
        unit        123
        """
        text = unit_text(unit)
        placement = self.place(text)
        lines = [f"override    {self.overrides[text]}"] if text in self.overrides else []
        if self.holdout is not None:
            place = _slot(self.holdout.salt, text)
            words = "held out" if place < self.holdout.stop else "in the experiment"
            edge = f"[0, {self.holdout.stop:,}) is held out"
            lines.append(f"holdout     slot {place:,} of {self.holdout.salt}: {words} ({edge})")
        lines += [f"sticky      {self.sticky[text]}"] if text in self.sticky else []
        if self.layer is not None:
            layer, name = self.layer
            start, stop = layer.owned[name]
            edge = f"{name} owns [{start:,}, {stop:,})"
            lines.append(f"layer       slot {_slot(layer.salt, text):,} of {layer.salt} ({edge})")
        lines.append(str(self.split.explain(text)))
        if self.traffic < 1:
            edges = ", ".join(f"{r} is {r.variant}" for r in self.ranges)
            lines.append(f"traffic     {self.traffic:g}: {edges}")
        if len(lines) > 1:
            lines.append(f"placed      {placement.variant or 'not in it'}, by {placement.reason}")
        return "\n".join(lines)

    def place_many(self, units: Iterable[object]) -> pd.DataFrame:
        """One row a unit: `unit, variant, reason, analysed, slot, sub_bucket`."""
        import pandas as pd

        rows = [self.place(unit) for unit in units]
        split = self.split.assign_many(row.unit for row in rows)[["slot", "sub_bucket"]]
        return pd.DataFrame(rows, columns=Placement._fields).join(split)

    def _in_layer(self, text: str) -> bool:
        if self.layer is None:
            return True
        layer, name = self.layer
        start, stop = layer.owned[name]
        return start <= _slot(layer.salt, text) < stop


def _slot(salt: str, text: str) -> int:
    return slot(md5_60(salt, text))


def _owner(ranges: Iterable[SlotRange], place: int) -> str | None:
    return next((r.variant for r in ranges if r.start <= place < r.stop), None)


def _common(one: SlotRange, other: SlotRange) -> int:
    """How many slots are in both."""
    return max(0, min(one.stop, other.stop) - max(one.start, other.start))


def _stage(salt: str, ranges: Iterable[tuple[str, int, int]]) -> Stage:
    draw = Draw("md5_60", f"{salt}:", modulus=SLOTS)
    return Stage(draw, tuple(Range(*owned) for owned in ranges))


def _check_share(what: str, share: float) -> None:
    if not 0 <= share <= 1:
        raise ExperimentError(f"{what} is {share}", hint="use a number from 0 to 1")
