"""Bayesian answers with the prior stated: normal-normal effects and beta-binomial rates.

`inference/beliefs.py` hands `normal_normal` the effect of a comparison and the prior of the
experiment file. `beta_binomial` is for your own counts: no analysis calls it.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy import special

from abeval.stats.arrays import Floats
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


class BetaBinomial(NamedTuple):
    """Two rates under independent beta priors.

    Attributes:
        control: Posterior mean rate in control.
        treatment: Posterior mean rate in treatment.
        chance_to_beat: Probability that treatment's rate is the higher one.
        loss_treatment: Expected loss of choosing treatment, in rate.
        loss_control: Expected loss of choosing control, in rate.
    """

    control: float
    treatment: float
    chance_to_beat: float
    loss_treatment: float
    loss_control: float


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


def beta_binomial(
    control_successes: int,
    control_units: int,
    treatment_successes: int,
    treatment_units: int,
    prior: tuple[float, float] = (1.0, 1.0),
) -> BetaBinomial:
    """Compare two rates under the same beta prior.

    Args:
        control_successes: Units that converted in control.
        control_units: Units in control; 0 leaves the prior.
        treatment_successes: Units that converted in treatment.
        treatment_units: Units in treatment.
        prior: Parameters of the beta prior of each rate, positive.

    Returns:
        Posterior means, chance to beat and expected losses, by quadrature good to about 1e-12.

    Raises:
        Refusal: `not_applicable` for successes outside [0, units] or a prior that is not
            positive; `not_finite`.

    Source:
        Cook (2005), "Exact calculation of beta inequalities"; Miller (2015); Stucchio (2015).

    Example:
        >>> round(beta_binomial(105, 1000, 125, 1000).chance_to_beat, 6)
        0.919164
    """
    numbers = (control_successes, control_units, treatment_successes, treatment_units, *prior)
    if not all(map(math.isfinite, numbers)):
        raise Refusal("not_finite", "counts and prior must be finite")
    if not (
        0 <= control_successes <= control_units and 0 <= treatment_successes <= treatment_units
    ):
        raise Refusal("not_applicable", "successes lie between zero and the units")
    if min(prior) <= 0:
        raise Refusal("not_applicable", "a beta prior has positive parameters")
    a_c, b_c = prior[0] + control_successes, prior[1] + control_units - control_successes
    a_t, b_t = prior[0] + treatment_successes, prior[1] + treatment_units - treatment_successes
    p, q, weight = _logit_nodes(((a_c, b_c), (a_t, b_t)))
    log_density = a_t * np.log(p) + b_t * np.log(q) - special.betaln(a_t, b_t)
    below_c, below_t = special.betainc(a_c, b_c, p), special.betainc(a_t, b_t, p)
    above_c, above_t = special.betaincc(a_c, b_c, p), special.betaincc(a_t, b_t, p)
    return BetaBinomial(
        a_c / (a_c + b_c),
        a_t / (a_t + b_t),
        min(1.0, float(weight @ (np.exp(log_density) * below_c))),
        float(weight @ (below_t * above_c * p * q)),
        float(weight @ (below_c * above_t * p * q)),
    )


def _normal_loss(z: float) -> float:
    """E max(-X, 0) for X ~ N(z, 1)."""
    density = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return density - z * float(special.ndtr(-z))


def _logit_nodes(shapes: tuple[tuple[float, float], ...]) -> tuple[Floats, Floats, Floats]:
    """Quadrature over the logit of a rate, in panels where either beta distribution lives.

    Returns p, 1 - p and weights: in the logit even a prior below 1 has a smooth density.
    """
    tails = np.array([1e-18, 1e-13, 1e-9, 1e-6, 1e-4, 0.01, 0.1, 0.3])
    edges = []
    for a, b in shapes:
        low, high = special.betaincinv(a, b, tails), special.betaincinv(b, a, tails)
        tiny = np.finfo(float).tiny
        low, high = np.maximum(low, tiny), np.maximum(high, tiny)
        edges += [np.log(low) - np.log1p(-low), np.log1p(-high) - np.log(high)]
    cut = np.unique(np.concatenate(edges))
    rule, rule_weight = np.polynomial.legendre.leggauss(40)
    half = np.diff(cut)[:, None] / 2
    x = (cut[:-1, None] + half * (rule + 1)).ravel()
    return special.expit(x), special.expit(-x), (half * rule_weight).ravel()
