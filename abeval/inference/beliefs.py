"""The posterior of each lift, where the experiment states a prior.

`judge.py` hands it the analysis with its comparisons, and puts the rows into the result.
"""

from abeval.inference.compare import Analysis
from abeval.metrics.definition import Metric
from abeval.results import Belief
from abeval.stats.decisions import Prior, normal_normal
from abeval.stats.records import Refusal


def beliefs(analysis: Analysis) -> tuple[Belief, ...]:
    """One row per metric and variant that has a lift, where the experiment states a prior."""
    stated = analysis.experiment.inference.prior
    if stated is None:
        return ()
    prior = Prior(stated.mean, stated.sd)
    rows = (_belief(analysis, metric, variant, prior) for metric, variant in analysis.rows)
    return tuple(row for row in rows if row is not None)


def _belief(analysis: Analysis, metric: Metric, variant: str, prior: Prior) -> Belief | None:
    """None without an effect, or for a metric with a target, which has no better side."""
    effect = analysis.comparisons[metric.name, variant].effect
    if effect is None or metric.direction.toward is not None:
        return None
    sign, size = metric.direction.sign, abs(effect.control)
    gain = Prior(sign * prior.mean, prior.sd).on_absolute_scale(effect.control)
    alpha = analysis.experiment.alpha
    try:
        posterior = normal_normal(sign * effect.difference, effect.se, gain, alpha)
    except Refusal:
        return None
    low, high = sorted((sign * posterior.low / size, sign * posterior.high / size))
    return Belief(
        metric=metric.name,
        variant=variant,
        prior_mean=prior.mean,
        prior_sd=prior.sd,
        lift=sign * posterior.mean / size,
        lift_low=low,
        lift_high=high,
        chance_to_beat_control=posterior.chance_to_beat,
        expected_loss=posterior.loss_treatment / size,
        expected_loss_of_control=posterior.loss_control / size,
    )
