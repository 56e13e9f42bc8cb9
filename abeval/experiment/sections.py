"""Define the sections of the experiment file."""

import re
import unicodedata
from collections.abc import Mapping
from datetime import date, datetime
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from abeval import bounds
from abeval.assignment.interleaving import Method
from abeval.assignment.switchbacks import Schedule
from abeval.metrics.definition import SPAN, Combine, Missing, Role, span_ms


class Section(BaseModel):
    """A part of the experiment file: no unknown keys, no change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)


Text = Annotated[str, StringConstraints(min_length=1, max_length=100_000)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
SALT = r"^[A-Za-z0-9_.-]+$"
WORD = r"^[A-Za-z][A-Za-z0-9_]*$"
_LINK = r"^https?://\S+$"
_SIZE = r"^\d+(\.\d+)?\s*(KB|MB|GB|TB|KiB|MiB|GiB|TiB)$"
PATTERNS: Mapping[str, str] = {
    SALT: "should contain only letters, digits, `_`, `.` and `-`",
    WORD: "should begin with a letter and contain only letters, digits and `_`",
    _LINK: "should be an address that begins with http:// or https://",
    _SIZE: 'should be a size such as "4GB"',
    SPAN: 'should be a time such as "7 days", "24 hours" or "30 minutes"',
}
"""Each pattern in words."""

Salt = Annotated[str, StringConstraints(pattern=SALT)]
Word = Annotated[str, StringConstraints(pattern=WORD)]
Link = Annotated[str, StringConstraints(pattern=_LINK, max_length=2_000)]


def _normalize_unicode(name: str) -> str:
    """Return a name in Unicode form NFC; refuse names of several lines."""
    odd = any(unicodedata.category(char) in ("Cc", "Zl", "Zp") for char in name)
    if odd or name != name.strip():
        what = "should be on one line, without control characters and spaces around it"
        raise ValueError(f"{what} (got {name!r})")
    # One name may be written in two ways that look alike: results would not find it.
    return unicodedata.normalize("NFC", name)


_MetricName = Annotated[Name, AfterValidator(_normalize_unicode)]
TimeUnit = Literal["s", "ms", "us", "ns"]


def _refuse_non_dates(value: object) -> object:
    """Refuse values that are not written as a date."""
    # pydantic would read numbers, also in text, as seconds since 1970.
    if isinstance(value, int | float) or (
        isinstance(value, str) and not re.match(r"\d{4}-\d{2}-\d{2}", value)
    ):
        raise ValueError(f"should be a date such as 2026-09-14 (got {value!r})")
    return value


def _refuse_offset(value: date) -> date:
    if isinstance(value, datetime) and value.tzinfo is not None:
        raise ValueError(f"has an offset ({value}): write the local time in `timezone` without it")
    return value


Moment = Annotated[
    datetime | date, BeforeValidator(_refuse_non_dates), AfterValidator(_refuse_offset)
]


def convert_to_datetime(value: date | datetime) -> datetime:
    """Return the local time at which a date begins."""
    if isinstance(value, datetime):
        return value
    return datetime(value.year, value.month, value.day)


_Span = Annotated[str, StringConstraints(pattern=SPAN)]
_DAY_MS = span_ms("1 day")


class Switchback(Section):
    """Clusters that take turns between two variants, slot by slot.

    Slots are counted from the start of the period. In the `burn_in` of a slot the variant before
    may still act: these rows are set aside.
    """

    cluster: Text
    slot: _Span
    burn_in: _Span = "0m"
    schedule: Schedule = "balanced"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        # Slots of one number have the same time on every day, so that days can be compared.
        if self.slot_ms == 0 or _DAY_MS % self.slot_ms:
            raise ValueError(f'slot = "{self.slot}" does not divide a day: use such as "2h"')
        if self.burn_in_ms >= self.slot_ms:
            burnt = f'burn_in = "{self.burn_in}" leaves nothing of a slot of "{self.slot}"'
            raise ValueError(f"{burnt}: shorten it, or assign longer slots")
        return self

    @property
    def slot_ms(self) -> int:
        """Return the length of a slot in milliseconds."""
        return span_ms(self.slot)

    @property
    def burn_in_ms(self) -> int:
        """Return the length of the burn-in in milliseconds."""
        return span_ms(self.burn_in)

    @property
    def per_day(self) -> int:
        """Return the number of slots in a day."""
        return _DAY_MS // self.slot_ms


class Design(Section):
    """What was randomised, where that is a group of units.

    The entries are expressions over a row, as segments are. `strata` are groups of clusters that
    were randomised apart, `pairs` are of one cluster of each variant. In a `switchback` slots of
    clusters were randomised.
    """

    cluster: Text | None = None
    strata: Text | None = None
    pairs: Text | None = None
    switchback: Switchback | None = None

    @model_validator(mode="after")
    def _says_what(self) -> Self:
        if self.switchback and self.texts:
            raise ValueError("a switchback names its own cluster: keep `switchback` alone")
        if not self.switchback and self.cluster is None:
            raise ValueError("needs the `cluster` that was randomised, or a `switchback`")
        return self

    @property
    def texts(self) -> dict[str, str]:
        """Return the expressions of cluster, strata and pairs that the file has."""
        return self.model_dump(exclude_none=True, exclude={"switchback"})

    @property
    def randomisation_unit(self) -> str:
        """Name what was randomised."""
        turns = self.switchback
        return f"{turns.cluster} × {turns.slot}" if turns else str(self.cluster)

    @property
    def blocks(self) -> dict[str, str]:
        """Return the strata or pairs within which clusters were randomised."""
        return {name: text for name, text in self.texts.items() if name != "cluster"}


class Cleaning(Section):
    """How duplicate rows and units in several variants are handled."""

    duplicates: Literal["drop", "keep", "unchecked"] = "drop"
    duplicate_key: list[Name] | None = None
    crossover: Literal["first", "exclude", "as_assigned"] = "first"


class Sessions(Section):
    """A session ends after this time without an impression."""

    gap_minutes: Annotated[float, Field(gt=0, le=bounds.MAX_GAP_MINUTES)] = 30.0


class Clicks(Section):
    """From which dwell on a click is a long one."""

    long_seconds: Annotated[float, Field(gt=0, le=bounds.MAX_LONG_SECONDS)] = 30.0


_Look = Annotated[float, Field(gt=0, le=1, strict=True)] | Moment
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
    planned_units: Annotated[int, Field(gt=0, le=int(bounds.MAX_VALUE))] | None = None
    planned_looks: (
        Annotated[list[_Look], Field(min_length=1, max_length=bounds.MAX_LOOKS)] | None
    ) = None
    spending: Literal["obrien_fleming", "pocock", "power"] = "obrien_fleming"
    resample: Resample | None = None
    family: Family = "holm"


class Privacy(Section):
    """What results may show of few units."""

    min_units: Annotated[int, Field(ge=2, le=1_000_000)] | None = None


class EngineOptions(Section):
    """Which engine runs the queries, and what it may use."""

    name: Literal["duckdb", "spark"] = "duckdb"
    address: Name | None = None
    memory_limit: Annotated[str, StringConstraints(pattern=_SIZE)] | None = None
    threads: Annotated[int, Field(ge=1, le=bounds.MAX_THREADS)] | None = None
    temp_directory: Name | None = None
    remote_files: bool = False

    @property
    def memory(self) -> int | None:
        """Return the limit of memory in bytes; None without one.

        Example:
            >>> EngineOptions(memory_limit="1.5 GB").memory
            1500000000
        """
        if self.memory_limit is None:
            return None
        number, unit = re.findall(r"[\d.]+|\w+B", self.memory_limit)
        return int(float(number) * (1024 if "i" in unit else 1000) ** (1 + "KMGT".index(unit[0])))


_Alpha = Annotated[float, Field(ge=bounds.MIN_ALPHA, lt=0.5)]
_Share = Annotated[float, Field(gt=0, le=1)]
_Times = Annotated[float, Field(gt=1, le=1e6)]


class TrustOptions(Section):
    """Thresholds of the trust checks: budgets of all tests together, and shares."""

    aa_runs: Annotated[int, Field(ge=0, le=bounds.MAX_REPLAYS)] = 2_000
    alpha_warn: _Alpha = 0.04
    alpha_fail: _Alpha = 0.004
    rows_warn: _Share = 0.02
    rows_fail: _Share = 0.2
    crossover_warn: _Share = 0.005
    crossover_fail: _Share = 0.1
    assignment_warn: _Share = 0.001
    assignment_fail: _Share = 0.01
    difference_warn: _Share = 0.001
    difference_fail: _Share = 0.005
    influence_warn: _Times = 10.0
    influence_fail: _Times = 100.0
    missing_days: _Share = 0.5
    outside_period: _Share = 0.5

    @model_validator(mode="after")
    def _warns_first(self) -> Self:
        if self.alpha_fail > self.alpha_warn:
            raise ValueError("alpha_fail is above alpha_warn: what fails must warn as well")
        for name in ("rows", "crossover", "assignment", "difference", "influence"):
            if getattr(self, f"{name}_warn") > getattr(self, f"{name}_fail"):
                raise ValueError(f"{name}_warn is above {name}_fail: what fails must warn as well")
        return self


class AgreementColumns(Section):
    """Columns of the impressions by what they hold.

    `treated` is true where the treatment acts.
    """

    served_score: Name | None = None
    latency: Name | None = None
    empty: Name | None = None
    model_version: Name | None = None
    model_time: Name | None = None
    feature_time: Name | None = None
    features: list[Name] = Field(default_factory=list)
    treated: Annotated[str, StringConstraints(min_length=1, max_length=10_000)] | None = None


class Period(Section):
    """A span of time in the experiment's time zone; `end` is exclusive."""

    start: Moment
    end: Moment

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if convert_to_datetime(self.start) >= convert_to_datetime(self.end):
            raise ValueError(f"is empty: start {self.start} is not before end {self.end}")
        return self

    @property
    def bounds(self) -> tuple[datetime, datetime]:
        """Return start (inclusive) and end (exclusive) as local timestamps."""
        return convert_to_datetime(self.start), convert_to_datetime(self.end)


class Event(Period):
    """An event during the experiment: a promotion, a holiday, an outage."""

    name: Name


class Variant(Section):
    """One variant: its share of units, and the model that ranks for it.

    `of` lists the variants of the log that are joined into this one.
    """

    weight: Annotated[float, Field(ge=0, le=bounds.MAX_WEIGHT)] = 1.0
    model: str | None = None
    of: Annotated[list[Name], Field(min_length=1)] | None = None


class Model(Section):
    """A ranking model and its score.

    `score` is a column of the impressions, or an expression over their columns. A blend of two
    models is such an expression: `0.3 * new + 0.7 * base`.
    """

    score: Annotated[str, StringConstraints(min_length=1, max_length=10_000)]


class Interleaving(Section):
    """Lists mixed of the rankers that the variants name.

    The entries say which ranker each item is of, and by which rule lists are mixed. `team` is the
    column of the impressions that says the ranker; without it, the `salt` of a team draft or the
    `ranks` of a balanced list do. `ranks` are the columns with each ranker's own position of the
    item, `credit` that of `abeval.interleave`. With `debias`, what users do counts by how seldom
    its position is clicked.
    """

    method: Method = "team_draft"
    team: Name | None = None
    ranks: Mapping[Name, Name] = Field(default_factory=dict)
    credit: Name | None = None
    salt: Salt | None = None
    debias: bool = False


class SegmentRule(Section):
    """A property of units, and whether it is known before the treatment can act."""

    value: str
    known: Literal["before", "exposure"] | None = None


_End = Annotated[float, Field(ge=-bounds.MAX_VALUE, le=bounds.MAX_VALUE)]


class Range(Section):
    """The least and the largest value that a guardrail may have in a variant."""

    within: tuple[_End, _End]


class AbsoluteMargin(Section):
    """A margin in the metric's own unit."""

    absolute: Annotated[float, Field(gt=0, le=bounds.MAX_VALUE)]


class Step(Section):
    """A step of a funnel: the rows of a log for which `where` is true."""

    log: Word = "impressions"
    where: Text | None = None

    def __str__(self) -> str:
        """Return the rows in words."""
        return self.log if self.where is None else f"{self.log} where {self.where}"

    @property
    def condition(self) -> str:
        """Return SQL that is true for the rows; clicks are clicked impressions."""
        tests = ["click = 1"] if self.log == "clicks" else []
        tests += [] if self.where is None else [f"coalesce(cast(({self.where}) as boolean), false)"]
        return " and ".join(tests) or "true"


class MetricChoice(Section):
    """A metric of the scorecard: built-in by name, or the user's own by expressions.

    `log`, `per_unit`, `where`, `within`, `retention` and `funnel` make it a value of a unit since
    its exposure.
    """

    name: _MetricName
    label: _MetricName | None = None
    description: Text | None = None
    role: Role | None = None
    direction: Literal["increase", "decrease"] | None = None
    margin: Annotated[float, Field(gt=0, lt=1)] | AbsoluteMargin | Range | None = None
    value: str | None = None
    numerator: str | None = None
    denominator: str | None = None
    function: str | None = None
    log: Word | None = None
    per_unit: Combine | None = None
    where: Text | None = None
    within: _Span | None = None
    retention: Annotated[int, Field(ge=1, le=bounds.MAX_WINDOW_DAYS)] | None = None
    funnel: Annotated[list[Step], Field(min_length=2, max_length=20)] | None = None
    quantile: Annotated[float, Field(gt=0, lt=1)] | None = None
    unit: str | None = None
    resolution: Annotated[float, Field(ge=bounds.MIN_RESOLUTION, le=1)] = 1e-6
    missing: Missing | None = None
    cap: Annotated[float, Field(gt=0.5, lt=1)] | None = None
    covariates: list[Name] | None = None
    weight: Annotated[float, Field(ge=1 / bounds.MAX_WEIGHT, le=bounds.MAX_WEIGHT)] | None = None
    test: Word | None = None

    @field_validator("direction", mode="before")
    @classmethod
    def _has_no_target(cls, direction: object) -> object:
        if isinstance(direction, Mapping) and "toward" in direction:
            raise ValueError(
                "a value to meet is no direction: leave it out and the metric is shown with its "
                'interval, or let it guard with role = "guardrail" and '
                "margin = { within = [LOW, HIGH] }"
            )
        return direction

    @property
    def texts(self) -> list[str]:
        """List the expressions of the metric: value, or numerator and denominator."""
        return [text for text in (self.value, self.numerator, self.denominator) if text is not None]

    @property
    def is_own(self) -> bool:
        """Tell whether the file defines the metric."""
        return bool(self.texts) or self.function is not None or self.is_since_exposure

    @property
    def is_since_exposure(self) -> bool:
        """Tell whether the metric is a value of a unit since its exposure."""
        keys = (self.log, self.per_unit, self.where, self.within, self.retention, self.funnel)
        return any(key is not None for key in keys)

    @property
    def rows(self) -> Step:
        """Return the rows of the metric: a log and a condition."""
        return Step(log=self.log or "impressions", where=self.where)

    @property
    def combined_by(self) -> Combine:
        """Return how a unit's rows are combined."""
        has_none = self.value is None and self.numerator is None
        # Without a value all that counts is whether a unit has a row.
        return self.per_unit or ("any" if has_none else "sum")
