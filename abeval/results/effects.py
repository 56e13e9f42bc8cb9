"""Hold effects of metrics: overall, by day, segment, cut and quantile.

In every record `metric` is the metric's id and `variant` the variant compared with control. `X_low`
and `X_high` are the ends of the interval of `X` at `1 - alpha`, not adjusted for other metrics.
Effects keep their raw sign. `reason` is a code from `docs/results.md` if a number is missing or
limited, else None.
"""

from typing import ClassVar, Literal

from abeval.results.record import Frozen

Status = Literal[
    "better",
    "worse",
    "equivalent",
    "non_inferior",
    "unclear",
    "too_little_data",
    "untrusted",
    "draft",
]


class VariantRecord(Frozen):
    """A record of one metric in one variant."""

    metric: str
    variant: str


class Values(Frozen, kw_only=True):
    """Two values, their difference and the lift; None if there is none.

    `FIRST` of a record names the fields that its JSON and its table have before the others
    (`record.list_columns`).

    Attributes:
        control: Value in control, in the metric's unit.
        lift: `difference / abs(control)`, as a fraction; an end of its interval without a bound
            is None.
        p_value: Two-sided p-value of no difference.
    """

    FIRST: ClassVar[tuple[str, ...]] = ()

    control: float | None
    treatment: float | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    lift: float | None
    lift_low: float | None
    lift_high: float | None
    p_value: float | None


class Numbers(Values, kw_only=True):
    """An effect's values, with the numbers of units behind them."""

    FIRST: ClassVar[tuple[str, ...]] = ("units_control", "units")

    units_control: int
    units: int


class Row(VariantRecord, Numbers, kw_only=True):
    """One metric in one variant against control.

    Attributes:
        kind: `mean`, `ratio`, `quantile`, `function`, `auc` or `catalogue`.
        direction: `increase`, `decrease` or `toward VALUE`.
        p_adjusted: P-value after Holm. Goals: over goals × variants, by the experiment's family.
            Guardrails: over the guardrails of the variant. Other metrics: None.
        status: The conclusion. Goals follow `p_adjusted`; so does whether a guardrail is worse.
        units_needed: If the metric is `too_skewed` for a test: how many units the smaller variant
            needs for one.
        mde: Smallest lift that a test with this standard error detects with 80 % power, as a
            fraction; None without a lift.
        lift_method: Method of the lift's interval: `fieller`, `delta`, `log_delta`, `jackknife`, or
            the id of a test with its own interval.
        few_units_decide: Whether one unit holds more than a tenth of a ratio's denominator.
        site_lift: Lift of all traffic, with units and times without an exposure; None if every
            unit is exposed, or if it cannot be known.
    """

    FIRST: ClassVar = ("metric", "kind", "role", "direction", "variant", *Numbers.FIRST)

    kind: str
    role: str
    direction: str
    p_adjusted: float | None
    method: str | None
    status: Status
    reason: str | None
    units_needed: int | None = None
    mde: float | None = None
    lift_method: str | None = None
    draws: int | None = None
    seed: int | None = None
    few_units_decide: bool = False
    site_lift: float | None = None
    site_lift_low: float | None = None
    site_lift_high: float | None = None


class SliceRow(VariantRecord, Numbers, kw_only=True):
    """The effect of a metric on one day, or in one segment.

    `slice` is `day`, or the name of a segment. If a variant has fewer than 30 units, there may be
    an effect that is not judged; then `reason` is `too_few_units`.
    """

    FIRST: ClassVar = ("metric", "variant", "slice", "cell", "partial", *Numbers.FIRST)

    slice: str
    cell: str
    partial: bool
    reason: str | None


class CutRow(VariantRecord, Numbers, kw_only=True):
    """The effect of a metric on the impressions of one cell of a cut.

    A ratio is computed over the cell's impressions. A mean per unit is the cell's sum divided by
    all units of the variant, so that cells add up to the whole. Units are counted if they have an
    impression in the cell.

    Attributes:
        share_control: The cell's share of control's denominator; None except for ratios of sums.
    """

    FIRST: ClassVar = (
        *("metric", "variant", "cut", "cell", *Numbers.FIRST),
        *("share_control", "share"),
    )

    cut: str
    cell: str
    share_control: float | None
    share: float | None
    p_adjusted: float | None
    reason: str | None


class QuantileEffect(Values, kw_only=True):
    """A quantile of a value in a variant against control.

    `value` is as in `Distribution`. `level` is the share of the impressions that lie below;
    nothing is adjusted for the number of levels.
    """

    FIRST: ClassVar = ("value", "variant", "level")

    value: str
    variant: str
    level: float
    reason: str | None


class SegmentTest(VariantRecord):
    """Test of whether segment cells share one effect, and of a mix shift.

    Attributes:
        cells: Number of cells tested: those with an effect and at least 30 units in each variant.
        scale: Scale of Q, its p-values and I²: `lift` (one relative effect in all cells), or
            `difference` (one difference) if values of control are near zero or negative.
        p_adjusted: P-value after Holm over all metrics, variants and segments.
        i_squared: Share of the variation between cells that is not noise.
        p_value_difference: P-value of the same difference, in the metric's unit, in all cells.
        within: Part of the overall difference that is due to differences within cells.
        mix: Part that is due to the variants' different mixes of cells.
        mix_p_value: P-value of the same mix in both variants.
        reversal_p_value: Small if `within` and the overall difference surely have opposite signs
            (Simpson's paradox); 1 if their signs agree.
        reversed: Whether the signs are opposite, after Holm over all metrics, variants and
            segments.
        cells_left_out: Number of cells not tested. In `within` and `mix`, which cover all units,
            the cells with fewer than 30 units count together as one cell.
    """

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


class SegmentContrast(VariantRecord):
    """The effect in one cell of a segment against the effect in all others.

    Attributes:
        scale: Scale of the p-values: `lift`, or `difference` if a value is not positive.
        difference: The cell's difference minus that of the rest, in the metric's unit.
        lift: (1 + the cell's lift) / (1 + that of the rest) − 1; None without a lift.
        p_value: Two-sided p-value of the same effect in the cell and in the rest.
        p_adjusted: P-value after Holm over the cells of the segment.
    """

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


class Adjustment(VariantRecord):
    """A scorecard row without variance reduction and caps, and their effect.

    Attributes:
        method: `cuped`, `regression`, `stratify` or `cap`, or a cap with one of the others, as in
            `cap+cuped`.
        theta: Coefficient of each covariate, in order: the value before; for ratios, the
            denominator before; further covariates; if some units are new, an indicator of new
            units. A regression has first control's coefficients, then the variant's minus
            control's. Strata have none.
        cap: Largest value kept of the numerator, or of a mean; larger ones are cut to it.
    """

    method: str
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    p_value: float | None
    theta: tuple[float, ...]
    variance_removed: float | None
    cap: float | None
    cap_denominator: float | None


class Boundary(VariantRecord):
    """The boundary of a scorecard row at this look, if there are several looks.

    Attributes:
        information: Share of the planned information; without a plan, the information as a multiple
            of that at the first look.
        boundary: Critical value of abs(z) at this look, not adjusted for other metrics.
    """

    information: float
    z: float
    boundary: float
    crossed: bool


class RangeRow(VariantRecord):
    """The value of a guardrail whose margin is a range.

    Attributes:
        value: The variant's value, unadjusted, with its interval at the look of the row. The
            guardrail holds if the interval lies within the range (two one-sided tests; Schuirmann
            1987).
        p_value: Two-sided p-value of a true value at the nearer bound, if the value is outside the
            range; 1 if it is inside.
    """

    low: float
    high: float
    value: float
    value_low: float
    value_high: float
    p_value: float


class FamilyInterval(VariantRecord):
    """The interval of a goal's difference that matches its adjusted p-value."""

    level: float
    difference_low: float
    difference_high: float
    lift_low: float | None = None
    lift_high: float | None = None


class CutSplit(VariantRecord):
    """A difference split into changes within a cut's cells and of their mix.

    Each part is the mean over the two orders in which cells and mix can change. The parts add up to
    the difference. `metric` is a ratio of sums over impressions; `cells` counts small ones too.
    """

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


class NoCut(Frozen):
    """A metric without effects by cut, and why, in words."""

    metric: str
    reason: str


Fate = Literal["no_score", "single_impression", "no_click", "only_clicks"]
"""Why a unit has no AUC."""


class Distribution(Frozen):
    """The distribution of a value of impressions in one variant.

    `value` is `dwell of clicks`, or the expression of a quantile metric. `levels` are the shares of
    the impressions below each of `quantiles`; both have the same shape.
    """

    value: str
    unit: str
    variant: str
    events: int
    levels: tuple[float, ...]
    quantiles: tuple[float, ...]


class AucBin(Frozen):
    """Units with an AUC in [low, high), and their impressions; 1 is in the last."""

    low: float
    high: float
    units: int
    impressions: int


class WithoutAuc(Frozen):
    """Units that GAUC leaves out for one reason, and their impressions.

    For a unit with a single impression the reason is always `single_impression`.
    """

    reason: Fate
    units: int
    impressions: int
    clicks: int


class UnitAucs(Frozen):
    """The distribution of unit AUCs in a variant; their weighted mean is GAUC.

    Attributes:
        impressions: Impressions with a score of the units that have an AUC: the weights of GAUC.
        bins: Bins of the AUC, ascending; bins without units are left out.
        without: Units without an AUC, by reason.
    """

    variant: str
    units: int
    impressions: int
    bins: tuple[AucBin, ...]
    without: tuple[WithoutAuc, ...]


class CatalogueUse(Frozen):
    """How impressions of a variant spread over the catalogue.

    Attributes:
        gini: Gini coefficient of the variant's impressions over all items. The scorecard compares
            variants at equal traffic instead.
        coverage: Expected share of the catalogue shown to a given number of units drawn from the
            variant.
        item_shares: Shares of the items, least shown first.
        impression_shares: Share of the impressions that these items have: the Lorenz curve.
    """

    variant: str
    items: int
    shown: int
    impressions: int
    gini: float
    units: tuple[int, ...]
    coverage: tuple[float, ...]
    item_shares: tuple[float, ...]
    impression_shares: tuple[float, ...]
