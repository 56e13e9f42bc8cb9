"""Any two variants against each other, with p-values adjusted over all pairs."""

from collections.abc import Sequence
from itertools import combinations
from typing import Literal

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.model import Experiment, Family
from abeval.inference.compare import compare
from abeval.inference.comparison import Comparison
from abeval.inference.trust import trust_checks
from abeval.metrics.definition import Metric
from abeval.results.pairwise import Pair, Pairwise
from abeval.stats import multiplicity


def pairwise(
    experiment: Experiment, metrics: Sequence[Metric], metric: Metric, aggregates: Aggregates
) -> Pairwise:
    """Compare every two variants on a metric."""
    found = {
        (base, variant): compare(experiment, metric, variant, aggregates, control=base)
        for base, variant in combinations(experiment.variants, 2)
    }
    tested = {key: f.effect.p_value for key, f in found.items() if f.effect is not None}
    family = _of_pairs(experiment.inference.family)
    adjusted = dict(tested)
    if tested and family != "none":
        values = multiplicity.adjust(list(tested.values()), family)
        adjusted = dict(zip(tested, (float(p) for p in values), strict=True))
    return Pairwise(
        metric=metric.name,
        values=_values(experiment, found),
        family=family,
        alpha=experiment.alpha,
        pairs=tuple(_pair(key, f, adjusted.get(key)) for key, f in found.items()),
        trust=trust_checks(experiment, metrics, aggregates),
    )


def _of_pairs(family: Family) -> Literal["none"] | multiplicity.Method:
    """Dunnett is for pairs with control, and the pairs of one metric weigh the same."""
    if family == "dunnett":
        return "holm"
    return "bonferroni" if family == "weighted" else family


def _values(
    experiment: Experiment, found: dict[tuple[str, str], Comparison]
) -> tuple[tuple[str, float | None], ...]:
    known: dict[str, float | None] = dict.fromkeys(experiment.variants)
    for (base, variant), comparison in found.items():
        known[base] = comparison.control if known[base] is None else known[base]
        known[variant] = comparison.treatment if known[variant] is None else known[variant]
    return tuple(known.items())


def _pair(key: tuple[str, str], found: Comparison, p_adjusted: float | None) -> Pair:
    effect, lift = found.effect, found.lift
    return Pair(
        base=key[0],
        variant=key[1],
        units_base=found.units_control,
        units=found.units,
        difference=None if effect is None else effect.difference,
        difference_low=None if effect is None else effect.low,
        difference_high=None if effect is None else effect.high,
        lift=None if lift is None else lift.value,
        p_value=None if effect is None else effect.p_value,
        p_adjusted=p_adjusted,
        reason=found.reason,
    )
