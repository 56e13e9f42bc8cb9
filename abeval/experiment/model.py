"""Define the experiment file as a frozen pydantic model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from abeval.assignment.draws import Rule
from abeval.assignment.plan import Assignment, Holdout, Layer, Plan
from abeval.assignment.platforms import AnyScheme
from abeval.bounds import MIN_ALPHA
from abeval.experiment import sections
from abeval.experiment.sections import Moment, Name, Salt, Section, Word
from abeval.experiment.sources import Logs, LogSource, UnitLog
from abeval.metrics.row_text import write_column_expression


class ScheduledSplit(Section):
    """How traffic is split from a moment on: the share of each variant."""

    start: Annotated[Moment, Field(alias="from")]
    weights: Mapping[Name, Annotated[float, Field(ge=0, allow_inf_nan=False)]]


class LayerSlots(Section):
    """The slots of a layer that the experiment owns.

    No other owner has the units of these slots.
    """

    salt: Salt
    slots: tuple[int, int]


class HoldoutShare(Section):
    """Units that are kept out of every experiment of this holdout."""

    salt: Salt
    share: Annotated[float, Field(ge=0, lt=1)]


class HoldoutTable(Section):
    """Mark control as a holdout: units that got none of the launches of a period.

    `launches` has the day since which everybody else has a launch, by the name of its experiment;
    without it, a history says what was shipped, each from the end of its test on.
    """

    launches: Mapping[Name, Moment] = Field(default_factory=dict)


class AssignmentRule(Section):
    """How units are assigned: by abeval's salted hash or another platform's scheme.

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
            needs = "a `salt`, the `scheme` of another platform, or `splits` that changed"
            raise ValueError(f"needs {needs}")
        return self

    @property
    def is_plain(self) -> bool:
        """Tell whether all units are assigned by abeval's own hash."""
        settings = (self.layer, self.holdout, self.scheme, self.order)
        return self.traffic == 1 and all(setting is None for setting in settings)


class Experiment(Section):
    """An A/B test: its variants, period, logs, metrics and options."""

    include: list[Name] = Field(default_factory=list)
    name: Name
    title: Name | None = None
    hypothesis: sections.Text | None = None
    owner: Name | None = None
    link: sections.Link | None = None
    questions: list[sections.Text] = Field(default_factory=list)
    unit: Name
    control: Name
    timezone: Name = "UTC"
    alpha: Annotated[float, Field(ge=MIN_ALPHA, lt=1)] = 0.05
    period: sections.Period | None = None
    pre_period: sections.Period | None = None
    variants: Mapping[Name, sections.Variant]
    weights: Literal["planned", "observed"] = "planned"
    models: Mapping[Name, sections.Model] = Field(default_factory=dict)
    assignment: AssignmentRule | None = None
    holdout: HoldoutTable | None = None
    interleaving: sections.Interleaving | None = None
    logs: Logs
    tables: Mapping[Word, LogSource] = Field(default_factory=dict)
    design: sections.Design | None = None
    cleaning: sections.Cleaning = sections.Cleaning.model_construct()
    sessions: sections.Sessions = sections.Sessions.model_construct()
    clicks: sections.Clicks = sections.Clicks.model_construct()
    segments: Mapping[Word, str | sections.SegmentRule] = Field(default_factory=dict)
    cuts: Mapping[Word, sections.Text] = Field(default_factory=dict)
    metrics: list[sections.MetricChoice] = Field(default_factory=list)
    agreement: sections.AgreementColumns = Field(default_factory=sections.AgreementColumns)
    events: list[sections.Event] = Field(default_factory=list)
    inference: sections.Inference = sections.Inference.model_construct()
    trust: sections.TrustOptions = sections.TrustOptions.model_construct()
    privacy: sections.Privacy = sections.Privacy.model_construct()
    engine: sections.EngineOptions = sections.EngineOptions.model_construct()
    folder: SkipJsonSchema[Annotated[Path, Field(exclude=True)]] = Path()

    @model_validator(mode="before")
    @classmethod
    def _columns_are_metrics(cls, raw: object) -> object:
        """Turn metrics without an expression into columns, in a table of units."""
        if not isinstance(raw, Mapping):
            return raw
        logs, chosen = raw.get("logs"), raw.get("metrics")
        if not isinstance(logs, Mapping) or "impressions" in logs or not isinstance(chosen, list):
            return raw
        texts = {"value", "numerator", "denominator", "function"}
        # Such a table has no built-in metrics that the name could mean.
        columns = [
            {**c, "value": write_column_expression(c["name"])}
            if isinstance(c, Mapping) and "name" in c and texts.isdisjoint(c)
            else c
            for c in chosen
        ]
        return {**raw, "metrics": columns}

    @property
    def single_look(self) -> "Experiment":
        """Return the experiment with a single look, at the end."""
        inference = self.inference.model_copy(update={"looks": "fixed"})
        return self.model_copy(update={"inference": inference})

    @property
    def is_unit_table(self) -> bool:
        """Tell whether the log is a table of units, not of impressions."""
        return self.logs.impressions is None

    @property
    def unit_table(self) -> UnitLog | None:
        """Return the table of units beside the impressions; None without one."""
        return None if self.is_unit_table else self.logs.units

    @property
    def segment_names(self) -> list[str]:
        """List the segments of impressions, then those of the table of units."""
        return [*self.segments, *(self.unit_table.segments if self.unit_table else ())]

    @property
    def treatments(self) -> list[str]:
        """List every variant but control, in the order of the file."""
        return [name for name in self.variants if name != self.control]

    @property
    def segment_values(self) -> dict[str, str]:
        """Return name → expression over the impression."""
        rules = self.segments.items()
        return {name: rule if isinstance(rule, str) else rule.value for name, rule in rules}

    def known_from(self, source: Literal["before", "exposure"]) -> dict[str, str]:
        """Return the segments known before, or at exposure: name → expression."""
        expressions = {
            name: rule.value
            for name, rule in self.segments.items()
            if isinstance(rule, sections.SegmentRule) and rule.known == source
        }
        # A unit that never came has its cluster where it was exposed.
        has_design = source == "exposure" and self.logs.exposures is not None
        return expressions | (self.design_values if has_design else {})

    @property
    def design_values(self) -> dict[str, str]:
        """Return the cluster, strata and pairs of the design: name → expression."""
        if self.switchback is not None:
            return {"design.cluster": self.switchback.cluster}
        texts = {} if self.design is None else self.design.texts
        return {f"design.{name}": text for name, text in texts.items()}

    @property
    def switchback(self) -> sections.Switchback | None:
        """Return the switchback of the design; None without one."""
        return None if self.design is None else self.design.switchback

    @property
    def unit_values(self) -> dict[str, str]:
        """Return the segments and clusters of a unit: name → expression."""
        return {**self.segment_values, **self.design_values}

    @property
    def row_segments(self) -> dict[str, str]:
        """Return the segments that are read from rows of the log: name → expression."""
        exposed = self.known_from("exposure")
        return {name: text for name, text in self.unit_values.items() if name not in exposed}

    @property
    def assigns(self) -> bool:
        """Tell whether abeval can compute variants, by a salt or a scheme."""
        rule = self.assignment
        return rule is not None and (rule.salt is not None or rule.scheme is not None)

    @property
    def schedule(self) -> list[ScheduledSplit]:
        """List the changes of the variants' shares."""
        return [] if self.assignment is None else self.assignment.splits

    @property
    def salt(self) -> str:
        """Return the salt of sub-buckets, and of variants if abeval assigns them."""
        if self.assignment is not None and self.assignment.salt is not None:
            return self.assignment.salt
        # The name of the experiment is as good a salt as any, in the letters that salts may have.
        return "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in self.name)

    @property
    def ties(self) -> Literal["rule", "weight", "none"]:
        """Choose how units in several variants are assigned if time does not tell.

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
        """Return the rule that assigns units; None if the file has none.

        Where the split changed, no single rule gives the variants of all units.
        """
        assignment = self.assignment
        if assignment is None or not self.assigns or assignment.splits:
            return None
        weights = {name: self.variants[name].weight for name in assignment.order or self.variants}
        if assignment.scheme is not None:
            return assignment.scheme.rule(weights)
        slots, holdout = assignment.layer, assignment.holdout
        layer = None if slots is None else (Layer(slots.salt, {self.name: slots.slots}), self.name)
        held_out = None if holdout is None else Holdout(holdout.salt, holdout.share)
        return Plan(Assignment(self.salt, weights), assignment.traffic, layer, held_out).rule()
