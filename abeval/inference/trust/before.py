"""Checks of the groups before the experiment: were they equal in what is known from then?

`checks.py` calls `before_checks`; `time/analysis.py` shows `balance`.
"""

from collections.abc import Mapping, Sequence

from abeval.aggregates.sums import BALANCE, ByStretch
from abeval.experiment.metrics import covariate_means
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis
from abeval.inference.comparison import Arms, Rule, adjusted_p_values
from abeval.inference.means_and_ratios import compare_within
from abeval.inference.trust.finding import Finding, Significance, Words, skipped
from abeval.metrics.definition import Metric
from abeval.results import Balance

Groups = tuple[Sequence[Metric], Mapping[str, ByStretch]]
"""Metrics, and metric → moments of (y, x) by stretch and variant."""


def balance(
    experiment: Experiment,
    metrics: Sequence[Metric],
    before: Mapping[str, ByStretch],
) -> tuple[Balance, ...]:
    """Compare the groups before the period: every metric and variant, Holm over all of them.

    Args:
        experiment: Its variants and level.
        metrics: In the order of the rows.
        before: Metric → moments of (y, x) before the period over the analysed units, by stretch
            and variant; zeros for units not seen then.
    """
    comparisons = {
        (metric.name, variant): compare_within(
            metric, moments, Arms(experiment.control, variant), Rule(experiment.alpha)
        )
        for metric in metrics
        if (moments := before.get(metric.name)) is not None
        for variant in experiment.treatments
    }
    adjusted = adjusted_p_values(comparisons)
    return tuple(
        Balance(
            metric=key[0],
            variant=key[1],
            control=comparison.control,
            treatment=comparison.treatment,
            difference=comparison.numbers.difference,
            p_value=comparison.numbers.p_value,
            p_adjusted=adjusted.get(key),
            reason=comparison.reason if comparison.effect is None else None,
        )
        for key, comparison in comparisons.items()
    )


def before_checks(analysis: Analysis) -> list[Finding]:
    """Were the groups equal before the experiment, in every metric with values then?"""
    experiment = analysis.experiment
    metrics, known = _covariates(analysis)
    if experiment.pre_period is not None:
        of_period, before = _before(analysis)
        metrics, known = [*of_period, *metrics], {**known, **before}
    rows = balance(experiment, metrics, known)
    if not rows:
        lacks = "covariates in [logs.units]" if experiment.of_units else "[pre_period]"
        message = f"no {lacks}, so it is unknown whether the groups were equal before"
        return [skipped("pre_period", message)]
    return [_finding(row) for row in rows]


def _before(analysis: Analysis) -> Groups:
    """Every metric with values before the period, and their moments by variant.

    A score is that of the model that a variant serves, so it differs before if the models do.
    """
    models = {variant.model for variant in analysis.experiment.variants.values()}
    metrics = [
        metric
        for metric in analysis.metrics
        if metric.is_mean_or_ratio
        and not (len(models) > 1 and "score" in metric.needs)
        and metric.source.has_before
        and metric.name not in analysis.aggregates.refused
    ]
    before = {
        metric.name: [
            {variant: moments.pick(2, 3) for variant, moments in one.items()}
            for one in analysis.moments(metric)
        ]
        for metric in metrics
    }
    return metrics, before


def _covariates(analysis: Analysis) -> Groups:
    """Every covariate of a table of units as a metric, and its moments by variant."""
    aggregates = analysis.aggregates
    metrics = [
        metric
        for metric in covariate_means(analysis.experiment)
        if aggregates.cells(metric.name, BALANCE)
    ]
    known: dict[str, ByStretch] = {}
    for metric in metrics:
        (term,) = metric.covariates
        moments = aggregates.of(metric.name, BALANCE, "", (term.scale, 1.0))
        known[metric.name] = [
            {variant: one.pick(0, 1) for variant, one in variants.items()} for variants in moments
        ]
    return metrics, known


def _finding(row: Balance) -> Finding:
    name = f"pre_period:{row.metric}:{row.variant}"
    if row.p_adjusted is None or row.p_value is None:
        message = f"{row.metric} before the experiment cannot be compared: {row.reason}"
        return skipped(name, message)
    calm, alarm = (
        f"{row.metric} of {row.variant} {words} before the experiment: {row.control:.4g} against "
        f"{row.treatment:.4g} (p = {row.p_adjusted:.2g} after Holm over metrics and variants)"
        for words in ("shows no difference", "differed")
    )
    remedy = (
        "look for an earlier experiment on the same units, and for units lost or added after "
        "their assignment; CUPED does not mend it"
    )
    return Significance(name, row.p_value, Words(calm, alarm, remedy))
