"""A/A on the pre-period with the real assignment: were the groups equal before?"""

from collections.abc import Mapping, Sequence

from abeval.experiment.model import Experiment
from abeval.inference.comparison import Comparison, Rule, compare_moments
from abeval.metrics.definition import Metric
from abeval.results import Balance
from abeval.stats.moments import Moments
from abeval.stats.multiplicity import adjust


def known_before(metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics whose values before the period are summed along."""
    return [m for m in metrics if m.source.daily and m.kind in ("mean", "ratio")]


def balance(
    experiment: Experiment,
    metrics: Sequence[Metric],
    before: Mapping[str, Mapping[str, Moments]],
) -> tuple[Balance, ...]:
    """Compare the groups before the period, every metric and variant, Holm over all of them.

    Args:
        experiment: Whose variants these are.
        metrics: In the order of the rows.
        before: Metric → variant → moments of (y, x) before the period over the analysed units,
            zeros for those not seen.
    """
    found = {
        (metric.name, variant): compare_moments(
            metric, arms.get(experiment.control), arms.get(variant), Rule(experiment.alpha)
        )
        for metric in metrics
        if (arms := before.get(metric.name)) is not None
        for variant in experiment.treatments
    }
    adjusted = _holm(found)
    return tuple(
        Balance(
            metric=metric,
            variant=variant,
            control=one.control,
            treatment=one.treatment,
            difference=None if one.effect is None else one.effect.difference,
            p_value=None if one.effect is None else one.effect.p_value,
            p_adjusted=adjusted.get((metric, variant)),
            reason=one.reason if one.effect is None else None,
        )
        for (metric, variant), one in found.items()
    )


def _holm(found: Mapping[tuple[str, str], Comparison]) -> dict[tuple[str, str], float]:
    p_values = {key: one.effect.p_value for key, one in found.items() if one.effect is not None}
    if not p_values:
        return {}
    return dict(zip(p_values, map(float, adjust(list(p_values.values()))), strict=True))
