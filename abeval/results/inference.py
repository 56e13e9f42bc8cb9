"""What `[inference]` adds to a row of the scorecard.

In every record `metric` is the metric's id and `variant` the variant compared with control; `X_low`
and `X_high` are the ends of the interval of `X`.

`inference/scorecard.py`, `beliefs.py` and `families.py` fill these records; they are fields of
`Result`, shown by `report/tables.py`.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Adjustment:
    """One row of the scorecard without variance reduction and caps, and what they changed.

    Attributes:
        method: `cuped`, `regression` or `stratify`; `cap`; or both, as in `cap+cuped`.
        difference: The unadjusted difference.
        p_value: Its p-value.
        theta: Coefficient of each covariate: the value before, for ratios also the denominator
            before, further covariates and, if some units are new, being new. For a regression,
            first control's coefficients, then how much the variant's differ. Strata have none.
        variance_removed: Share of the difference's variance that the adjustment removed.
        cap: Cap on the values of the numerator, or of a mean.
        cap_denominator: Cap on those of the denominator.
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
    """The boundary of a row of the scorecard at this look, if there are several looks.

    Attributes:
        information: Share of the plan; without a plan, the information as a multiple of that at
            the first look.
        z: The difference over its standard error; of a metric with a target, that of the less
            certain of its differences to control and to control's mirror image.
        boundary: Critical value of abs(z) at this look, unadjusted for other metrics.
        crossed: Whether abs(z) reaches it.
    """

    metric: str
    variant: str
    information: float
    z: float
    boundary: float
    crossed: bool


@dataclass(frozen=True)
class Belief:
    """Posterior of a lift, from the normal prior of the experiment.

    Attributes:
        prior_mean: Mean of the prior of the lift.
        prior_sd: Its standard deviation.
        lift: Posterior mean, as a fraction, with its central credible interval at `1 - alpha`.
        chance_to_beat_control: Probability that the variant is better in the metric's direction.
        expected_loss: Expected loss of choosing the variant, as a fraction of control.
        expected_loss_of_control: Expected loss of staying with control.
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
class TargetGain:
    """How much nearer to its target a metric is in a variant than in control.

    Attributes:
        target: What the metric should meet.
        gain: In the metric's unit; negative is farther.
        gain_low: Lower end of its interval, at the level and the look of the effect; None without.
        gain_high: Upper end.
        p_value: Two-sided, of no gain; `p_adjusted` of the row is this one, adjusted.
        margin_low: The gain at worst, to compare with less the margin, on its scale; None without.
        margin_high: The gain at best.
    """

    metric: str
    variant: str
    target: float
    gain: float
    gain_low: float | None
    gain_high: float | None
    p_value: float
    margin_low: float | None
    margin_high: float | None


@dataclass(frozen=True)
class FamilyInterval:
    """The interval of a goal's difference that matches its adjusted p-value.

    Attributes:
        level: Its level, such as 0.99.
        lift_low: Lower end of the lift at this level; None where the lift has none.
        lift_high: Upper end.
    """

    metric: str
    variant: str
    level: float
    difference_low: float
    difference_high: float
    lift_low: float | None = None
    lift_high: float | None = None
