"""What a result is made of: frozen records of plain values, one field a number."""

from dataclasses import dataclass
from typing import Literal

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
    """What was analysed, and how: `family`, `looks` and `adjust` are as in the file."""

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
    adjust: str = "none"


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
class AAMetric:
    """The A/A replay of one metric.

    Attributes:
        metric: Its id.
        runs: Replays.
        rejection_rate: Share of p-values below alpha, which should be alpha.
        rejection_low: Lower end of its 95 % interval (Clopper and Pearson).
        rejection_high: Upper end.
        uniformity_p_value: Of the p-values being uniform (Kolmogorov and Smirnov).
    """

    metric: str
    runs: int
    rejection_rate: float
    rejection_low: float
    rejection_high: float
    uniformity_p_value: float


@dataclass(frozen=True)
class Balance:
    """One metric of one variant against control before the period.

    Attributes:
        metric: Its id.
        variant: The variant compared with control.
        control: Value in control, over the analysed units.
        treatment: Value in the variant.
        difference: `treatment - control`.
        p_value: Two-sided, of no difference.
        p_adjusted: Holm over metrics × variants.
        reason: Why it could not be compared, else None.
    """

    metric: str
    variant: str
    control: float | None
    treatment: float | None
    difference: float | None
    p_value: float | None
    p_adjusted: float | None
    reason: str | None


@dataclass(frozen=True)
class Row:
    """One metric in one variant against control. Effects keep their raw sign.

    Attributes:
        metric: Its id.
        kind: `mean`, `ratio`, `quantile`, `function`, `auc` or `catalogue`.
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
class SegmentTest:
    """Whether the cells of a segment share one effect, and what their mix does to it.

    Attributes:
        metric: Its id.
        variant: The variant compared with control.
        segment: Name of the segment.
        cells: Cells that have an effect.
        q: Cochran's Q.
        p_value: Of one effect in all cells.
        p_adjusted: Holm over all metrics, variants and segments.
        i_squared: Share of the variation between cells that is not noise.
        within: What the cells' own differences make of the overall difference.
        mix: What the variants' different mixes of cells make of it.
        mix_p_value: Of the same mix in both variants.
        reversed: Whether `within` points against the overall difference (Simpson's paradox).
    """

    metric: str
    variant: str
    segment: str
    cells: int
    q: float
    p_value: float
    p_adjusted: float
    i_squared: float
    within: float
    mix: float
    mix_p_value: float
    reversed: bool


@dataclass(frozen=True)
class SegmentContrast:
    """The effect in one cell of a segment against the effect in all others.

    Attributes:
        metric: Its id.
        variant: The variant compared with control.
        segment: Name of the segment.
        cell: The segment's value.
        difference: The cell's difference less that of the rest, in the metric's unit.
        difference_low: Lower end of its interval.
        difference_high: Upper end.
        p_value: Two-sided, of one effect inside and outside.
        p_adjusted: Holm over the cells of the segment.
    """

    metric: str
    variant: str
    segment: str
    cell: str
    difference: float
    difference_low: float
    difference_high: float
    p_value: float
    p_adjusted: float


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
        method: `cuped`, `regression` or `stratify`; `cap`; or both, as in `cap+cuped`.
        difference: The difference without it.
        difference_low: Lower end of its interval.
        difference_high: Upper end.
        p_value: Its p-value.
        theta: Coefficient of each covariate: the value before, for ratios also the denominator
            before, further covariates, and where some units are new, being new. Of a regression,
            first control's, then how much the variant's differ. Strata have none.
        variance_removed: Share of the difference's variance that the adjustment took out.
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
class Boundary:
    """What a row of the scorecard is held against, where one looks more than once.

    Attributes:
        metric: Its id.
        variant: The variant compared with control.
        information: Share of the planned information that is in.
        z: The difference over its standard error.
        boundary: What the size of z has to reach at this look, unadjusted for other metrics.
        crossed: Whether it does.
    """

    metric: str
    variant: str
    information: float
    z: float
    boundary: float
    crossed: bool


@dataclass(frozen=True)
class Belief:
    """What is believed of a lift after the data, by a normal prior that the experiment states.

    Attributes:
        metric: Its id.
        variant: The variant compared with control.
        prior_mean: Mean of the prior of the lift.
        prior_sd: Its standard deviation.
        lift: Posterior mean, as a fraction.
        lift_low: Lower end of the central credible interval at `1 - alpha`.
        lift_high: Upper end.
        chance_to_beat_control: Probability that the variant is better, whichever way that is.
        expected_loss: What choosing the variant loses on average, as a fraction of control.
        expected_loss_of_control: What staying with control loses.
    """

    metric: str
    variant: str
    prior_mean: float
    prior_sd: float
    lift: float
    lift_low: float
    lift_high: float
    chance_to_beat_control: float
    expected_loss: float
    expected_loss_of_control: float


@dataclass(frozen=True)
class FamilyInterval:
    """The interval of a goal that fits how its p-value is adjusted.

    Attributes:
        metric: Its id.
        variant: The variant compared with control.
        level: Its level, such as 0.99.
        difference_low: Lower end.
        difference_high: Upper end.
    """

    metric: str
    variant: str
    level: float
    difference_low: float
    difference_high: float


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
