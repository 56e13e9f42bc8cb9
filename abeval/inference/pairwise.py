"""Any two variants against each other, with p-values adjusted over all pairs.

`api/` calls it on collected aggregates, for `abeval compare`; `compare.py` compares each pair.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Literal

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.model import Experiment
from abeval.experiment.sections import Family
from abeval.inference.compare import Analysis, compare
from abeval.inference.comparison import Arms, Comparison, Comparisons, Key, adjusted_p_values
from abeval.inference.trust.checks import trust_checks
from abeval.metrics.definition import Metric
from abeval.results.analysis import Pair, Pairwise
from abeval.stats.multiplicity import Method


def pairwise(
    experiment: Experiment, metrics: Sequence[Metric], metric: Metric, aggregates: Aggregates
) -> Pairwise:
    """Compare every two variants on a metric."""
    analysis = Analysis(experiment, metrics, aggregates)
    comparisons = {
        (base, variant): compare(analysis, metric, Arms(base, variant))
        for base, variant in combinations(experiment.variants, 2)
    }
    family = _of_pairs(experiment.inference.family)
    adjusted = {} if family == "none" else adjusted_p_values(comparisons, family)
    return Pairwise(
        metric=metric.name,
        values=_values(experiment, comparisons),
        family=family,
        alpha=experiment.alpha,
        pairs=tuple(_pair(key, one, adjusted.get(key)) for key, one in comparisons.items()),
        trust=trust_checks(analysis),
    )


def _of_pairs(family: Family) -> Literal["none"] | Method:
    """Dunnett needs pairs with control, and all pairs of one metric have the same weight."""
    if family == "dunnett":
        return "holm"
    return "bonferroni" if family == "weighted" else family


def _values(
    experiment: Experiment, comparisons: Comparisons
) -> tuple[tuple[str, float | None], ...]:
    """The value of each variant, from the first comparison that has one."""
    values: dict[str, float | None] = dict.fromkeys(experiment.variants)
    for (base, variant), comparison in comparisons.items():
        values[base] = comparison.control if values[base] is None else values[base]
        values[variant] = comparison.treatment if values[variant] is None else values[variant]
    return tuple(values.items())


def _pair(key: Key, comparison: Comparison, p_adjusted: float | None) -> Pair:
    numbers = comparison.numbers
    return Pair(
        base=key[0],
        variant=key[1],
        units_base=numbers.units_control,
        units=numbers.units,
        difference=numbers.difference,
        difference_low=numbers.difference_low,
        difference_high=numbers.difference_high,
        lift=numbers.lift,
        p_value=numbers.p_value,
        p_adjusted=numbers.p_value if p_adjusted is None else p_adjusted,
        reason=comparison.reason,
    )
