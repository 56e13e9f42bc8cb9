"""Effects: of each metric, by day and by segment.

In every row `metric` is the metric's id and `variant` the variant compared with control. `X_low`
and `X_high` are the ends of the interval of `X` at `1 - alpha`, not adjusted for other metrics.

`inference/scorecard.py` and `inference/segments.py` fill these records; they are fields of
`Result`.
"""

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
        lift: `difference / abs(control)`, as a fraction; an end of its interval without a bound
            is None.
        p_value: Two-sided, of no difference.
        p_adjusted: Of goals, over goals × variants, by the experiment's family (Holm); of
            guardrails, Holm over the guardrails of the variant; else None.
        method: Id of the test.
        status: The conclusion; that of goals, and whether a guardrail is worse, follows
            `p_adjusted`.
        reason: A code from `docs/results.md` if a number is missing or limited, else None.
        units_needed: Units of the smaller variant with which a test would hold, where the metric
            is `too_skewed` for any with these.
        mde: Smallest lift that one test with this standard error finds with a power of 80 %, as a
            fraction; None without a lift.
        lift_method: What the interval of the lift is by: `fieller`, `delta`, `log_delta`,
            `jackknife`, or the id of a test that has one of its own.
        draws: Random draws behind the numbers, None where there are none.
        seed: Of these draws.
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
    units_needed: int | None = None
    mde: float | None = None
    lift_method: str | None = None
    draws: int | None = None
    seed: int | None = None


@dataclass(frozen=True)
class SliceRow:
    """The effect of a metric on one day, or in one segment.

    Attributes:
        slice: `day`, or the name of a segment.
        cell: The day (ISO) or the segment's value.
        partial: Whether the log covers the day only in part.
        reason: A code from `docs/results.md` if a number is missing or limited, or `too_few_units`
            beside an effect that is not judged, of fewer than 30 units in a variant; else None.
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
    """Whether the cells of a segment share one effect, and how their mix changes it.

    Attributes:
        segment: Name of the segment.
        cells: Number of cells that are tested: of 30 units or more in each variant, with an effect.
        scale: Of Q, its p-values and I²: `lift` (one relative effect in all cells), or
            `difference` (one difference) where values of control are near zero or negative.
        q: Cochran's Q.
        p_value: Of one effect in all cells.
        p_adjusted: Holm over all metrics, variants and segments.
        i_squared: Share of the variation between cells that is not noise.
        p_value_difference: Of one difference in all cells, in the metric's unit.
        within: Part of the overall difference due to differences within cells.
        mix: Part due to the variants' different mixes of cells.
        mix_p_value: Of the same mix in both variants.
        reversal_p_value: That `within` and the overall difference differ from zero with opposite
            signs (Simpson's paradox); 1 where their signs agree.
        reversed: Whether they do, after Holm over all metrics, variants and segments.
        cells_left_out: Number of the other cells. `within` and `mix` are of all units: there the
            cells of fewer units count together as one.
    """

    metric: str
    variant: str
    segment: str
    cells: int
    scale: Literal["lift", "difference"]
    q: float
    p_value: float
    p_adjusted: float
    i_squared: float
    p_value_difference: float
    within: float
    mix: float
    mix_p_value: float
    reversal_p_value: float
    reversed: bool
    cells_left_out: int = 0


@dataclass(frozen=True)
class SegmentContrast:
    """The effect in one cell of a segment against the effect in all others.

    Attributes:
        segment: Name of the segment.
        cell: The segment's value.
        scale: Of the p-values: `lift`, or `difference` where a value is not positive.
        difference: The cell's difference minus that of the rest, in the metric's unit.
        lift: (1 + the cell's lift) / (1 + that of the rest) − 1; None without a lift.
        p_value: Two-sided, of the same effect in the cell and the rest.
        p_adjusted: Holm over the cells of the segment.
    """

    metric: str
    variant: str
    segment: str
    cell: str
    scale: Literal["lift", "difference"]
    difference: float
    difference_low: float
    difference_high: float
    lift: float | None
    lift_low: float | None
    lift_high: float | None
    p_value: float
    p_adjusted: float
