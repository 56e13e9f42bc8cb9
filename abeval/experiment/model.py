"""The experiment file as frozen pydantic models: its entries and their defaults.

`load.py` fills them from the TOML file; each step reads its settings from the `Experiment` of its
`Run`.
"""

import re
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from abeval.assignment.draws import Rule
from abeval.assignment.plan import Holdout, Layer, Plan
from abeval.assignment.platforms import AnyScheme
from abeval.assignment.split import Assignment
from abeval.bounds import (
    MAX_ATTRIBUTION_HOURS,
    MAX_GAP_MINUTES,
    MAX_LONG_SECONDS,
    MAX_SIZE,
    MAX_THREADS,
    MAX_VALUE,
    MAX_WEIGHT,
    MAX_WINDOW_DAYS,
    MIN_ALPHA,
    MIN_RESOLUTION,
)
from abeval.experiment.agreement import AgreementColumns
from abeval.experiment.section import Section
from abeval.experiment.trust import TrustOptions
from abeval.metrics.definition import Role
from abeval.metrics.per_unit import SPAN, Combine

Text = Annotated[str, StringConstraints(min_length=1, max_length=100_000)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
_SALT = r"^[A-Za-z0-9_.-]+$"
_WORD = r"^[A-Za-z][A-Za-z0-9_]*$"
_SIZE = r"^\d+(\.\d+)?\s*(KB|MB|GB|TB|KiB|MiB|GiB|TiB)$"
PATTERNS: Mapping[str, str] = {
    _SALT: "should contain only letters, digits, `_`, `.` and `-`",
    _WORD: "should begin with a letter and contain only letters, digits and `_`",
    _SIZE: 'should be a size such as "4GB"',
    SPAN: 'should be a time such as "7 days", "24 hours" or "30 minutes"',
}
"""Each pattern in words."""

Salt = Annotated[str, StringConstraints(pattern=_SALT)]
Word = Annotated[str, StringConstraints(pattern=_WORD)]
TimeUnit = Literal["s", "ms", "us", "ns"]

ROW_UNIT = "row"
OUTCOME = "events."
"""What the names of outcome logs begin with, wherever all logs have names."""
OWN_TABLE = "log"
"""What the query of a log calls the rows of the log itself."""


def _local(value: object) -> object:
    """Refuse numbers and other text, which pydantic would read as seconds since 1970."""
    if isinstance(value, int | float) or (
        isinstance(value, str) and not re.match(r"\d{4}-\d{2}-\d{2}", value)
    ):
        raise ValueError(f"should be a date such as 2026-09-14 (got {value!r})")
    return value


def _without_offset(value: date) -> date:
    if isinstance(value, datetime) and value.tzinfo is not None:
        raise ValueError(f"has an offset ({value}): write the local time in `timezone` without it")
    return value


Moment = Annotated[datetime | date, BeforeValidator(_local), AfterValidator(_without_offset)]


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


def moment(value: date | datetime) -> datetime:
    """A date as the local time at which it begins."""
    if isinstance(value, datetime):
        return value
    return datetime(value.year, value.month, value.day)


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


class Split(Section):
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
    splits: list[Split] = Field(default_factory=list)

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


class LogSource(Section):
    """Where a log is: files, or a table of a DuckDB database or of the caller's connection."""

    path: Name | list[Name] | None = None
    table: Name | None = None
    database: Name | None = None
    format: Literal["auto", "parquet", "csv", "json"] = "auto"
    columns: Mapping[str, Name] = Field(default_factory=dict)
    time_unit: TimeUnit | None = None
    ts_format: Name | None = None
    ts_zone: Name | None = None
    where: Text | None = None
    query: Text | None = None

    @property
    def paths(self) -> list[str]:
        """The globs, files and folders, empty where the log is a table."""
        if self.path is None:
            return []
        return [self.path] if isinstance(self.path, str) else list(self.path)

    def with_unit(self, unit: str) -> Self:
        """The same log, whose column of the unit is this one unless the file maps another."""
        if unit == ROW_UNIT:
            return self
        return self.model_copy(update={"columns": {"unit_id": unit, **self.columns}})


class ImpressionLog(LogSource):
    """One row per impression."""

    dwell_unit: Literal["s", "ms"] = "s"
    dwell_without_click: Literal["zero", "keep"] = "zero"
    first_position: Literal[0, 1] = 1


class Covariate(Section):
    """A value of a unit that was measured before the experiment."""

    value: Name
    resolution: Annotated[float, Field(gt=0, le=1)] = 1e-6


class UnitLog(LogSource):
    """One row per unit: its variant, its outcomes and what was known of it before, as columns.

    Beside a log of impressions the variant is that of the log, and `segments` are expressions of
    the row.
    """

    covariates: list[Name | Covariate] = Field(default_factory=list)
    segments: Mapping[Word, Text] = Field(default_factory=dict)


class ClickLog(LogSource):
    """One row per click."""

    dwell_unit: Literal["s", "ms"] = "s"
    join: (
        Annotated[
            list[Literal["unit_id", "impression_id", "request_id", "item_id", "position"]],
            Field(min_length=1, max_length=3),
        ]
        | None
    ) = None
    attribution_hours: Annotated[float, Field(gt=0, le=MAX_ATTRIBUTION_HOURS)] = 24.0


class ItemLog(LogSource):
    """One row per item of the catalogue."""


class ExposureLog(LogSource):
    """One row per unit that entered the experiment."""


class EventLog(LogSource):
    """One row per event of a unit outside the impressions, such as an order; it has its own time.

    `until` is the moment up to which the log is complete; by default its last row.
    """

    until: Moment | None = None


class ScoreLog(LogSource):
    """One row per model, request and item: the model's score or rank of the item, for replays."""


class TruthLog(LogSource):
    """One row per request (or unit) and relevant item, with its grade, for replays."""


class TrainingLog(LogSource):
    """One row per row of a model's training data, for the agreement of offline and online."""


class Logs(Section):
    """The logs of the experiment: impressions and what belongs to them, or a table of units.

    `events` are outcome logs, by names of the user's.
    """

    impressions: ImpressionLog | None = None
    units: UnitLog | None = None
    clicks: ClickLog | None = None
    items: ItemLog | None = None
    exposures: ExposureLog | None = None
    scores: ScoreLog | None = None
    truth: TruthLog | None = None
    training: TrainingLog | None = None
    events: Mapping[Word, EventLog] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_rows(self) -> Self:
        if self.impressions is None and self.units is None:
            raise ValueError("needs `impressions`, or `units` for a table of one row a unit")
        return self

    @property
    def named(self) -> dict[str, LogSource]:
        """Every log that there is, by its path in the file below `logs`."""
        own = {name: getattr(self, name) for name in type(self).model_fields if name != "events"}
        logs = {name: log for name, log in own.items() if log is not None}
        return {**logs, **{OUTCOME + name: log for name, log in self.events.items()}}

    @property
    def rows_name(self) -> Literal["impressions", "units"]:
        """The name of the log that is analysed."""
        return "units" if self.impressions is None else "impressions"

    @property
    def rows(self) -> ImpressionLog:
        """The log that is analysed; a table of units is read as one impression of each."""
        if self.impressions is not None or self.units is None:
            return self.impressions or ImpressionLog()
        return ImpressionLog(**self.units.model_dump(exclude={"covariates", "segments"}))


class Cleaning(Section):
    """How duplicate rows and units in several variants are handled."""

    duplicates: Literal["drop", "keep", "unchecked"] = "drop"
    duplicate_key: list[Name] | None = None
    crossover: Literal["first", "exclude", "as_assigned"] = "first"


class Sessions(Section):
    """A session ends after this time without an impression."""

    gap_minutes: Annotated[float, Field(gt=0, le=MAX_GAP_MINUTES)] = 30.0


class Clicks(Section):
    """From which dwell on a click is a long one."""

    long_seconds: Annotated[float, Field(gt=0, le=MAX_LONG_SECONDS)] = 30.0


class Toward(Section):
    """The better variant is the one closer to this value."""

    toward: Annotated[float, Field(ge=-MAX_VALUE, le=MAX_VALUE)]


class AbsoluteMargin(Section):
    """A margin in the metric's own unit."""

    absolute: Annotated[float, Field(gt=0, le=MAX_VALUE)]


class Step(Section):
    """A step of a funnel: the rows of a log for which `where` is true."""

    log: Word = "impressions"
    where: Text | None = None


class MetricChoice(Section):
    """A metric of the scorecard: a built-in one by name, or the user's own by expressions.

    `log`, `per_unit`, `where`, `within`, `retention` and `funnel` make it a value of a unit since
    its exposure.
    """

    name: Word
    role: Role | None = None
    direction: Literal["increase", "decrease"] | Toward | None = None
    margin: Annotated[float, Field(gt=0, lt=1)] | AbsoluteMargin | None = None
    value: str | None = None
    numerator: str | None = None
    denominator: str | None = None
    function: str | None = None
    log: Word | None = None
    per_unit: Combine | None = None
    where: Text | None = None
    within: Annotated[str, StringConstraints(pattern=SPAN)] | None = None
    retention: Annotated[int, Field(ge=1, le=MAX_WINDOW_DAYS)] | None = None
    funnel: Annotated[list[Step], Field(min_length=2, max_length=20)] | None = None
    quantile: Annotated[float, Field(gt=0, lt=1)] | None = None
    unit: str | None = None
    resolution: Annotated[float, Field(ge=MIN_RESOLUTION, le=1)] = 1e-6
    cap: Annotated[float, Field(gt=0.5, lt=1)] | None = None
    covariates: Annotated[list[Word], Field(min_length=1)] | None = None
    weight: Annotated[float, Field(ge=1 / MAX_WEIGHT, le=MAX_WEIGHT)] | None = None

    @property
    def is_own(self) -> bool:
        """Whether the file defines the metric, instead of naming a built-in one."""
        texts = (self.value, self.numerator, self.denominator, self.function)
        return any(text is not None for text in texts) or self.of_events

    @property
    def of_events(self) -> bool:
        """Whether it is a value of a unit since its exposure, from the rows of a log."""
        keys = (self.log, self.per_unit, self.where, self.within, self.retention, self.funnel)
        return any(key is not None for key in keys)


class Prior(Section):
    """A normal prior for every lift: 0.05 is 5 %."""

    mean: Annotated[float, Field(ge=-MAX_SIZE, le=MAX_SIZE)] = 0.0
    sd: Annotated[float, Field(ge=1 / MAX_SIZE, le=MAX_SIZE)]


Look = Annotated[float, Field(gt=0, le=1, strict=True)] | Moment
Relative = Literal["fieller", "delta", "log_delta"]
Adjust = Literal["none", "cuped", "regression", "stratify"]
Resample = Literal["jackknife", "bootstrap", "permutation"]
Family = Literal[
    "none", "bonferroni", "weighted", "holm", "hochberg", "hommel", "bh", "by", "dunnett"
]


class Inference(Section):
    """How effects are estimated and tested."""

    relative: Relative = "fieller"
    adjust: Adjust = "none"
    stratify_by: str | None = None
    looks: Literal["fixed", "always_valid", "group_sequential"] = "fixed"
    planned_units: Annotated[int, Field(gt=0, le=int(MAX_VALUE))] | None = None
    planned_looks: Annotated[list[Look], Field(min_length=1)] | None = None
    spending: Literal["obrien_fleming", "pocock", "power"] = "obrien_fleming"
    prior: Prior | None = None
    resample: Resample | None = None
    family: Family = "holm"


class SegmentRule(Section):
    """A property of units, and whether it is known before the treatment can act."""

    value: str
    known: Literal["before", "exposure"] | None = None


class Privacy(Section):
    """What results may show of few units."""

    min_units: Annotated[int, Field(ge=2, le=1_000_000)] | None = None


class EngineOptions(Section):
    """Which engine runs the queries, and what it may use."""

    name: Literal["duckdb", "spark"] = "duckdb"
    address: Name | None = None
    memory_limit: Annotated[str, StringConstraints(pattern=_SIZE)] | None = None
    threads: Annotated[int, Field(ge=1, le=MAX_THREADS)] | None = None
    temp_directory: Name | None = None
    remote_files: bool = False


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
    def schedule(self) -> list[Split]:
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
