"""What is believed of each effect after the data, with the prior stated."""

from collections.abc import Mapping, Sequence

from abeval.experiment.model import Experiment
from abeval.inference.comparison import Comparison
from abeval.metrics.definition import Metric
from abeval.results import Belief
from abeval.stats.bayes import Prior, normal_normal
from abeval.stats.records import Effect, Refusal

Key = tuple[str, str]


def beliefs(
    experiment: Experiment, metrics: Sequence[Metric], found: Mapping[Key, Comparison]
) -> tuple[Belief, ...]:
    """One row per metric and variant that has a lift, where the experiment states a prior."""
    if experiment.inference.prior is None:
        return ()
    told = experiment.inference.prior
    prior = Prior(told.mean, told.sd)
    rows = (
        _belief(metric, variant, found[metric.name, variant].effect, prior, experiment.alpha)
        for metric in metrics
        for variant in experiment.treatments
    )
    return tuple(row for row in rows if row is not None)


def _belief(
    metric: Metric, variant: str, effect: Effect | None, prior: Prior, alpha: float
) -> Belief | None:
    """The posterior of the lift; a metric that should meet a target has no better side."""
    if effect is None or metric.direction.toward is not None:
        return None
    sign, size = metric.direction.sign, abs(effect.control)
    gain = Prior(sign * prior.mean, prior.sd).on_absolute_scale(effect.control)
    try:
        found = normal_normal(sign * effect.difference, effect.se, gain, alpha)
    except Refusal:
        return None
    low, high = sorted((sign * found.low / size, sign * found.high / size))
    return Belief(
        metric=metric.name,
        variant=variant,
        prior_mean=prior.mean,
        prior_sd=prior.sd,
        lift=sign * found.mean / size,
        lift_low=low,
        lift_high=high,
        chance_to_beat_control=found.chance_to_beat,
        expected_loss=found.loss_treatment / size,
        expected_loss_of_control=found.loss_control / size,
    )
