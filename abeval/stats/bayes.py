"""Combine an effect with a stated normal prior."""

import math
from typing import NamedTuple

from scipy import special

from abeval.stats.distributions import two_sided_quantile
from abeval.stats.records import Refusal

FLAT = math.inf
"""Standard deviation of a flat prior."""


class Prior(NamedTuple):
    """A normal prior of the effect, on the same scale as the effect.

    Attributes:
        mean: Its mean.
        sd: Its standard deviation; `FLAT` (infinity) says nothing.
    """

    mean: float
    sd: float

    def on_absolute_scale(self, control: float) -> "Prior":
        """The prior of a lift as a prior of the difference: times the control's size (D7)."""
        return Prior(self.mean * abs(control), self.sd * abs(control))


FLAT_PRIOR = Prior(0.0, FLAT)


class Posterior(NamedTuple):
    """Posterior of an effect.

    Attributes:
        mean: Posterior mean.
        sd: Posterior standard deviation.
        low: Lower end of the central credible interval.
        high: Upper end.
        chance_to_beat: Probability that the effect is positive.
        loss_treatment: Expected loss of choosing treatment, `E max(-effect, 0)`.
        loss_control: Expected loss of choosing control, `E max(effect, 0)`.
        prior: The prior used.
    """

    mean: float
    sd: float
    low: float
    high: float
    chance_to_beat: float
    loss_treatment: float
    loss_control: float
    prior: Prior


def normal_normal(
    difference: float, se: float, prior: Prior = FLAT_PRIOR, alpha: float = 0.05
) -> Posterior:
    """Posterior of an effect with a normal likelihood and a normal prior.

    Args:
        difference: Estimated effect (a difference, or a lift with its delta standard error).
        se: Its standard error.
        prior: On the same scale: for a difference use `Prior.on_absolute_scale`.
        alpha: The credible interval holds 1 - alpha.

    Returns:
        Posterior, chance to beat control and expected losses in the unit of the effect.

    Raises:
        Refusal: `zero_variance` for a standard error or prior sd that is not positive;
            `not_finite`.

    Source:
        Deng (WWW 2015); Stucchio (2015), "Bayesian A/B testing at VWO", for the loss.

    Example:
        >>> belief = normal_normal(0.03, 0.02, Prior(0.0, 0.3))
        >>> round(belief.chance_to_beat, 6), round(belief.loss_treatment, 6)
        (0.932761, 0.000589)
    """
    if not all(map(math.isfinite, (difference, se, prior.mean))) or math.isnan(prior.sd):
        raise Refusal("not_finite", "effect, standard error and prior mean must be finite")
    if se <= 0 or prior.sd <= 0:
        raise Refusal("zero_variance", "standard error and prior sd must be positive")
    shrink = 1 / (1 + (se / prior.sd) ** 2)
    mean, sd = prior.mean + shrink * (difference - prior.mean), se * math.sqrt(shrink)
    width = two_sided_quantile(alpha) * sd
    z = mean / sd
    return Posterior(
        mean,
        sd,
        mean - width,
        mean + width,
        float(special.ndtr(z)),
        sd * _normal_loss(z),
        sd * _normal_loss(-z),
        prior,
    )


def _normal_loss(z: float) -> float:
    """E max(-X, 0) for X ~ N(z, 1)."""
    density = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return density - z * float(special.ndtr(-z))
