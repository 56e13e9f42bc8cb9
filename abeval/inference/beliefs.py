"""The posterior of each lift, where the experiment states a prior."""

from abeval.inference.compare import Analysis
from abeval.metrics.definition import Metric
from abeval.results import Belief
from abeval.stats.bayes import Prior, normal_normal
from abeval.stats.records import Effect, Refusal


def beliefs(analysis: Analysis) -> tuple[Belief, ...]:
    """One row per metric and variant that has a lift, where the experiment states a prior."""
    experiment = analysis.experiment
    if experiment.inference.prior is None:
        return ()
    prior = Prior(experiment.inference.prior.mean, experiment.inference.prior.sd)
    rows = (
        _belief(metric, variant, effect, prior, experiment.alpha)
        for metric, variant in analysis.rows
        if (effect := analysis.comparisons[metric.name, variant].effect) is not None
    )
    return tuple(row for row in rows if row is not None)


def _belief(
    metric: Metric, variant: str, effect: Effect, prior: Prior, alpha: float
) -> Belief | None:
    """The posterior of the lift; a metric that should meet a target has no better side."""
    if metric.direction.toward is not None:
        return None
    sign, size = metric.direction.sign, abs(effect.control)
    gain = Prior(sign * prior.mean, prior.sd).on_absolute_scale(effect.control)
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
