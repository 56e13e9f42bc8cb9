"""What `[inference]` adds to a row of the scorecard."""

from dataclasses import dataclass


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
