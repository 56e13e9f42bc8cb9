"""Effects by cut: in parts of the traffic, of which a unit may be in several.

`inference/cuts.py` fills these records; they are fields of `Result`.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class CutRow:
    """The effect of a metric on the impressions of one cell of a cut.

    Attributes:
        metric: The metric's id.
        variant: The variant compared with control.
        cut: Name of the cut.
        cell: The cut's value.
        units_control: Control's units that have an impression in the cell.
        units: The variant's.
        share_control: The cell's share of control's denominator; None but for ratios of sums.
        share: Its share of the variant's.
        control: Value in control: of a ratio over the cell's impressions; of a mean per unit, the
            cell's sum over all units of the variant, so that cells add up to the whole.
        p_value: Two-sided, of no difference.
        p_adjusted: Holm over the cells of the cut, for this metric and variant.
        reason: A code from `docs/results.md` if a number is missing or limited, else None.
    """

    metric: str
    variant: str
    cut: str
    cell: str
    units_control: int
    units: int
    share_control: float | None
    share: float | None
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
    reason: str | None


@dataclass(frozen=True)
class CutSplit:
    """A difference split into what changed within the cells of a cut, and what their mix did.

    Both parts are the mean over the two orders in which they can change, and sum to the difference.

    Attributes:
        metric: The metric's id: a ratio of sums over impressions.
        variant: The variant compared with control.
        cut: Name of the cut.
        cells: Number of its cells, small ones too.
        difference: Of the whole, in the metric's unit.
        within: Part due to the differences within cells.
        within_low: Lower end of its interval, clustered by unit.
        within_high: Upper end.
        within_p_value: Two-sided, of no part within.
        mix: Part due to the variants' different mixes of cells.
        mix_low: Lower end of its interval.
        mix_high: Upper end.
        mix_p_value: Two-sided, of no part by the mix.
        reason: A code from `docs/results.md` if an interval is missing, else None.
    """

    metric: str
    variant: str
    cut: str
    cells: int
    difference: float | None = None
    within: float | None = None
    within_low: float | None = None
    within_high: float | None = None
    within_p_value: float | None = None
    mix: float | None = None
    mix_low: float | None = None
    mix_high: float | None = None
    mix_p_value: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class NoCut:
    """A metric without effects by cut.

    Attributes:
        metric: The metric's id.
        reason: Why, in words.
    """

    metric: str
    reason: str
