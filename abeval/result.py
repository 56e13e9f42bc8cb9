"""One frozen result; the terminal, JSON, the DataFrame and the report are views of it."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import pandas as pd

SCHEMA_VERSION = "1"

Status = Literal[
    "better",
    "worse",
    "equivalent",
    "non_inferior",
    "unclear",
    "too_little_data",
    "untrusted",
]
CheckStatus = Literal["pass", "warn", "fail", "skipped"]
Decision = Literal["ship", "do_not_ship", "keep_running", "do_not_trust"]


@dataclass(frozen=True)
class VariantInfo:
    """A variant: its intended share, the model it serves, and the units that were analysed."""

    name: str
    weight: float
    model: str | None
    units: int


@dataclass(frozen=True)
class ExperimentInfo:
    """What was analysed, and how: `family` adjusts goals, `looks` is `fixed` or `always_valid`."""

    name: str
    unit: str
    control: str
    timezone: str
    start: str | None
    end: str | None
    pre_start: str | None
    pre_end: str | None
    alpha: float
    variants: tuple[VariantInfo, ...]
    family: str = "holm"
    looks: str = "fixed"


@dataclass(frozen=True)
class Check:
    """One check of whether the numbers can be trusted.

    Attributes:
        name: Its id, such as `srm`.
        status: `pass`, `warn`, `fail`, or `skipped` where the logs cannot show it.
        value: What was measured.
        threshold: What it was held against.
        message: In words: what was found, and what to look at.
    """

    name: str
    status: CheckStatus
    value: float | None
    threshold: float | None
    message: str


@dataclass(frozen=True)
class Row:
    """One metric in one variant against control. Effects keep their raw sign.

    Attributes:
        metric: Its id.
        kind: `mean`, `ratio`, `auc` or `catalogue`.
        role: `goal`, `guardrail` or `diagnostic`.
        direction: `increase`, `decrease` or `toward VALUE`.
        variant: The variant compared with control.
        units_control: Units behind the value of control.
        units: Units behind the value of the variant.
        control: Value in control, in the metric's unit.
        treatment: Value in the variant.
        difference: `treatment - control`.
        difference_low: Lower end of its unadjusted interval at `1 - alpha`.
        difference_high: Upper end.
        lift: `difference / abs(control)`, as a fraction.
        lift_low: Lower end of its interval; None where it has no bound.
        lift_high: Upper end.
        p_value: Two-sided, of no difference.
        p_adjusted: Over goals × variants, by the experiment's family (Holm); None outside it.
        method: Id of the test.
        status: What is concluded; goals follow `p_adjusted`.
        reason: A code from `docs/results.md` where a number is missing or limited, else None.
    """

    metric: str
    kind: str
    role: str
    direction: str
    variant: str
    units_control: int
    units: int
    control: float | None
    treatment: float | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    lift: float | None
    lift_low: float | None
    lift_high: float | None
    p_value: float | None
    p_adjusted: float | None
    method: str | None
    status: Status
    reason: str | None


@dataclass(frozen=True)
class SliceRow:
    """The effect of a metric on one day, or in one segment.

    Attributes:
        metric: Its id.
        variant: The variant compared with control.
        slice: `day`, or the name of a segment.
        cell: The day (ISO) or the segment's value.
        partial: Whether the day is only partly covered by the log.
    """

    metric: str
    variant: str
    slice: str
    cell: str
    partial: bool
    units_control: int
    units: int
    control: float | None
    treatment: float | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    lift: float | None
    lift_low: float | None
    lift_high: float | None
    p_value: float | None
    reason: str | None


@dataclass(frozen=True)
class MetricInfo:
    """The definition behind a metric's numbers."""

    name: str
    kind: str
    formula: str
    unit: str
    direction: str
    role: str
    margin: float | None
    margin_relative: bool | None


@dataclass(frozen=True)
class LeftOut:
    """What a metric's definition leaves out, counted."""

    metric: str
    variant: str
    what: str
    count: int


@dataclass(frozen=True)
class Adjustment:
    """What variance reduction or capping changed in one row of the scorecard.

    Attributes:
        metric: Its id.
        variant: The variant compared with control.
        method: `cuped`, `cap`, or `cap+cuped`.
        difference: The difference without it.
        difference_low: Lower end of its interval.
        difference_high: Upper end.
        p_value: Its p-value.
        theta: Coefficient of each covariate: the value before, for ratios also the denominator
            before, and where some units are new, being new.
        variance_removed: Share of the difference's variance that CUPED took out.
        cap: Where values of the numerator, or of a mean, are capped.
        cap_denominator: Where those of the denominator are.
    """

    metric: str
    variant: str
    method: str
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    p_value: float | None
    theta: tuple[float, ...]
    variance_removed: float | None
    cap: float | None
    cap_denominator: float | None


@dataclass(frozen=True)
class Account:
    """Rows of one log: `read = used + the sum of set_aside`."""

    log: str
    read: int
    used: int
    set_aside: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Verdict:
    """The decision on one variant, in one sentence."""

    variant: str
    decision: Decision
    sentence: str


@dataclass(frozen=True)
class Result:
    """Everything an analysis found, and everything its report shows."""

    schema_version: str
    experiment: ExperimentInfo
    verdicts: tuple[Verdict, ...]
    trust: tuple[Check, ...]
    scorecard: tuple[Row, ...]
    metrics: tuple[MetricInfo, ...]
    daily: tuple[SliceRow, ...]
    segments: tuple[SliceRow, ...]
    left_out: tuple[LeftOut, ...]
    accounting: tuple[Account, ...]
    notes: tuple[str, ...]
    adjustments: tuple[Adjustment, ...] = ()

    @property
    def trusted(self) -> bool:
        """Whether no trust check failed."""
        return all(check.status != "fail" for check in self.trust)

    def __getitem__(self, key: str | tuple[str, str]) -> Row:
        """The row of a metric, or of a metric and variant where there are several variants."""
        metric, variant = (key, None) if isinstance(key, str) else key
        for row in self.scorecard:
            if row.metric == metric and variant in (None, row.variant):
                return row
        raise KeyError(key)

    def to_frame(self) -> pd.DataFrame:
        """The scorecard, one row per metric and variant."""
        return pd.DataFrame(
            [asdict(row) for row in self.scorecard], columns=[f.name for f in fields(Row)]
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, as the JSON file has them."""
        return asdict(self)

    def to_json(self) -> str:
        """The result as JSON text: sorted nowhere, finite everywhere, the same on every run."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def to_csv(self) -> str:
        """The scorecard as CSV text."""
        return self.to_frame().to_csv(index=False)

    def report(self, path: str | Path) -> Path:
        """Write the self-contained HTML report."""
        from abeval.report import write_report

        return write_report(self, Path(path))

    def _repr_html_(self) -> str:
        from abeval.report import summary_html

        return summary_html(self)

    def __str__(self) -> str:
        from abeval.terminal import as_text

        return as_text(self)


def result_from_dict(raw: dict[str, Any]) -> Result:
    """A result read back from its JSON.

    Raises:
        ValueError: The file has another schema version.
    """
    if raw.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(
            f"schema version {raw.get('schema_version')!r}, this abeval reads {SCHEMA_VERSION!r}"
        )
    info = dict(raw["experiment"])
    variants = tuple(VariantInfo(**v) for v in info.pop("variants"))
    return Result(
        schema_version=SCHEMA_VERSION,
        experiment=ExperimentInfo(**info, variants=variants),
        verdicts=tuple(Verdict(**v) for v in raw["verdicts"]),
        trust=tuple(Check(**c) for c in raw["trust"]),
        scorecard=tuple(Row(**r) for r in raw["scorecard"]),
        metrics=tuple(MetricInfo(**m) for m in raw["metrics"]),
        daily=tuple(SliceRow(**s) for s in raw["daily"]),
        segments=tuple(SliceRow(**s) for s in raw["segments"]),
        left_out=tuple(LeftOut(**s) for s in raw["left_out"]),
        accounting=tuple(_account(a) for a in raw["accounting"]),
        notes=tuple(raw["notes"]),
        adjustments=tuple(_adjustment(a) for a in raw["adjustments"]),
    )


def _adjustment(raw: dict[str, Any]) -> Adjustment:
    return Adjustment(**{**raw, "theta": tuple(raw["theta"])})


def _account(raw: dict[str, Any]) -> Account:
    pairs = tuple((str(reason), int(rows)) for reason, rows in raw["set_aside"])
    return Account(raw["log"], raw["read"], raw["used"], pairs)
