"""What an experiment file says of its design: periods, variants, models, assignment, segments.

Parts of the `Experiment` of `model.py`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from abeval.assignment.plan import Holdout, Layer
from abeval.assignment.platforms import AnyScheme
from abeval.bounds import MAX_WEIGHT
from abeval.experiment.sections import Moment, Name, Salt, Section, moment


class Period(Section):
    """A span of time in the experiment's time zone; `end` is exclusive."""

    start: Moment
    end: Moment

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if moment(self.start) >= moment(self.end):
            raise ValueError(f"is empty: start {self.start} is not before end {self.end}")
        return self

    @property
    def bounds(self) -> tuple[datetime, datetime]:
        """Start (inclusive) and end (exclusive) as local timestamps."""
        return moment(self.start), moment(self.end)


class Event(Period):
    """Something that happened during the experiment: a promotion, a holiday, an outage."""

    name: Name


class Variant(Section):
    """One arm: its share of units, the model that ranks for it, the log's arms that it joins."""

    weight: Annotated[float, Field(ge=0, le=MAX_WEIGHT)] = 1.0
    model: str | None = None
    of: Annotated[list[Name], Field(min_length=1)] | None = None


class Model(Section):
    """A ranking model; `score` is the impression column that logs what it predicted."""

    score: Name


class ScheduledSplit(Section):
    """How traffic is split from a moment on: the share of each variant."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    start: Annotated[Moment, Field(alias="from")]
    weights: Mapping[Name, Annotated[float, Field(ge=0, allow_inf_nan=False)]]


class LayerSlots(Section):
    """The slots of a layer that the experiment owns: its units share none with other owners."""

    salt: Salt
    slots: tuple[int, int]


class HoldoutShare(Section):
    """Units that are kept out of every experiment of this holdout."""

    salt: Salt
    share: Annotated[float, Field(ge=0, lt=1)]


class AssignmentRule(Section):
    """How units are assigned: by abeval's hash with a salt, or by another platform's scheme.

    It gives the variant if the log does not have it; otherwise every run checks the log by it.
    `splits` say when the shares of logged variants changed.
    """

    salt: Salt | None = None
    traffic: Annotated[float, Field(gt=0, le=1)] = 1.0
    layer: LayerSlots | None = None
    holdout: HoldoutShare | None = None
    scheme: AnyScheme | None = None
    order: list[Name] | None = None
    splits: list[ScheduledSplit] = Field(default_factory=list)

    @model_validator(mode="after")
    def _has_a_rule(self) -> Self:
        if self.salt is None and self.scheme is None and not self.splits:
            raise ValueError(
                "needs a `salt`, the `scheme` of another platform, or `splits` that changed"
            )
        return self

    @property
    def is_plain(self) -> bool:
        """Whether all units are in, by abeval's own hash."""
        others = (self.layer, self.holdout, self.scheme, self.order)
        return self.traffic == 1 and all(other is None for other in others)

    @property
    def held_out(self) -> Holdout | None:
        """The holdout that the experiment leaves alone."""
        return None if self.holdout is None else Holdout(self.holdout.salt, self.holdout.share)

    def place_in_layer(self, name: str) -> tuple[Layer, str] | None:
        """The experiment's slots, as a layer in which only it is known."""
        if self.layer is None:
            return None
        return Layer(self.layer.salt, {name: self.layer.slots}), name


class SegmentRule(Section):
    """A property of units, and whether it is known before the treatment can act."""

    value: str
    known: Literal["before", "exposure"] | None = None
