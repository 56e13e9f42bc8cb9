"""The experiment file as frozen pydantic models: its entries and their defaults.

`load.py` fills them from the TOML file; each step reads its settings from the `Experiment` of its
`Run`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from abeval.assignment.draws import Rule
from abeval.assignment.plan import Assignment, Plan
from abeval.bounds import MIN_ALPHA
from abeval.experiment.sections import (
    AgreementColumns,
    AssignmentRule,
    Cleaning,
    Clicks,
    EngineOptions,
    Event,
    Inference,
    MetricChoice,
    Model,
    Name,
    Period,
    Privacy,
    ScheduledSplit,
    Section,
    SegmentRule,
    Sessions,
    Text,
    TrustOptions,
    Variant,
    Word,
)
from abeval.experiment.sources import Logs, LogSource, UnitLog


class Experiment(Section):
    """An A/B test: its variants, period, logs, metrics and options."""

    include: list[Name] = Field(default_factory=list)
    name: Name
    unit: Name
    control: Name
    timezone: Name = "UTC"
    alpha: Annotated[float, Field(ge=MIN_ALPHA, lt=1)] = 0.05
    period: Period | None = None
    pre_period: Period | None = None
    variants: Mapping[Name, Variant]
    weights: Literal["planned", "observed"] = "planned"
    models: Mapping[Name, Model] = Field(default_factory=dict)
    assignment: AssignmentRule | None = None
    logs: Logs
    tables: Mapping[Word, LogSource] = Field(default_factory=dict)
    cleaning: Cleaning = Cleaning()
    sessions: Sessions = Sessions()
    clicks: Clicks = Clicks()
    segments: Mapping[Word, str | SegmentRule] = Field(default_factory=dict)
    cuts: Mapping[Word, Text] = Field(default_factory=dict)
    metrics: list[MetricChoice] = Field(default_factory=list)
    agreement: AgreementColumns = Field(default_factory=AgreementColumns)
    events: list[Event] = Field(default_factory=list)
    inference: Inference = Inference()
    trust: TrustOptions = TrustOptions()
    privacy: Privacy = Privacy()
    engine: EngineOptions = EngineOptions()
    folder: SkipJsonSchema[Annotated[Path, Field(exclude=True)]] = Path()
    overrides: SkipJsonSchema[Annotated[tuple[str, ...], Field(exclude=True)]] = ()

    @model_validator(mode="before")
    @classmethod
    def _columns_are_metrics(cls, raw: object) -> object:
        """A metric of a table of units without an expression is the column of its name."""
        logs = raw.get("logs") if isinstance(raw, Mapping) else None
        chosen = raw.get("metrics") if isinstance(raw, Mapping) else None
        if not isinstance(logs, Mapping) or "impressions" in logs or not isinstance(chosen, list):
            return raw
        texts = ("value", "numerator", "denominator", "function")
        columns = [
            {**one, "value": one["name"]}
            if isinstance(one, Mapping) and "name" in one and not any(t in one for t in texts)
            else one
            for one in chosen
        ]
        return {**raw, "metrics": columns} if isinstance(raw, Mapping) else raw

    @property
    def of_units(self) -> bool:
        """Whether a table of units is analysed, not a log of impressions."""
        return self.logs.impressions is None

    @property
    def unit_table(self) -> UnitLog | None:
        """The table of units beside a log of impressions; None without one."""
        return None if self.of_units else self.logs.units

    @property
    def segment_names(self) -> list[str]:
        """The segments of impressions, then those of the table of units."""
        return [*self.segments, *(self.unit_table.segments if self.unit_table else ())]

    @property
    def treatments(self) -> list[str]:
        """Every variant but control, in the order of the file."""
        return [name for name in self.variants if name != self.control]

    @property
    def segment_values(self) -> dict[str, str]:
        """Name → expression over the impression."""
        return {
            name: rule if isinstance(rule, str) else rule.value
            for name, rule in self.segments.items()
        }

    @property
    def assigns(self) -> bool:
        """Whether the file has a salt or a scheme, by which abeval can compute variants."""
        own = self.assignment
        return own is not None and (own.salt is not None or own.scheme is not None)

    @property
    def schedule(self) -> list[ScheduledSplit]:
        """When the shares of the variants changed, as the file says."""
        return [] if self.assignment is None else self.assignment.splits

    @property
    def salt(self) -> str:
        """The salt of the sub-buckets, and of the variants if abeval assigns them."""
        if self.assignment is not None and self.assignment.salt is not None:
            return self.assignment.salt
        return "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in self.name)

    @property
    def ties(self) -> Literal["rule", "weight", "none"]:
        """What places units of several variants of which the log does not tell the first.

        The rule of assignment; without it, a hash by the weights where two variants differ in it,
        because to exclude such units would change an uneven split. A unit of three variants may not
        have been in the one that owns its slot.
        """
        weights = [variant.weight for variant in self.variants.values()]
        if self.assignment_rule is not None:
            return "rule"
        return "weight" if len(weights) == 2 and weights[0] != weights[1] else "none"

    @property
    def assignment_rule(self) -> Rule | None:
        """How a unit's variant follows from its id, None where the file does not say.

        Where the split changed, no single rule gives the variants of all units.
        """
        own = self.assignment
        if own is None or not self.assigns or own.splits:
            return None
        weights = {name: self.variants[name].weight for name in own.order or self.variants}
        if own.scheme is not None:
            return own.scheme.rule(weights)
        split = Assignment(self.salt, weights)
        return Plan(split, own.traffic, own.place_in_layer(self.name), own.held_out).rule()
