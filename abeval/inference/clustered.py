"""Compare variants by the clusters that were randomised, and say what clusters cost.

Which test decides follows from the design alone, so that none is chosen by its p-value. From
`MIN_UNITS` clusters in each variant on, t with the clusters' degrees of freedom, as for any unit.
With fewer, and always with strata or pairs, the assignment is drawn again
(`stats.randomisation`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.model import Experiment
from abeval.experiment.sections import Design
from abeval.inference.comparison import (
    MIN_UNITS,
    Arms,
    Comparison,
    Comparisons,
    Draws,
    Rule,
    Spread,
    limit,
    or_none,
    reason_of,
    refused,
)
from abeval.metrics.definition import Metric, scales
from abeval.results import format as fmt
from abeval.stats import clusters, effects, means, randomisation
from abeval.stats.clusters import Alike
from abeval.stats.distributions import two_sided
from abeval.stats.moments import Moments
from abeval.stats.randomisation import METHOD, Randomised
from abeval.stats.records import Bools, Floats, Refusal


def is_few(experiment: Experiment, aggregates: Aggregates, arms: Arms) -> bool:
    """Tell whether the assignment is drawn again, in place of t by clusters."""
    design = experiment.design
    if design is None or aggregates.clusters is None:
        return False
    is_blocked = design.strata is not None or design.pairs is not None
    return is_blocked or min(arms.units(aggregates)) < MIN_UNITS


def compare_clusters(
    metric: Metric, experiment: Experiment, aggregates: Aggregates, arms: Arms, rule: Rule
) -> Comparison:
    """Compare two variants by drawing the assignment of their clusters again."""
    units = arms.units(aggregates)
    if 0 in units:
        return refused(*units, "no_units")
    y, x, y0, x0 = _sums(metric, aggregates).T
    own, treated, strata = _drawn(experiment, aggregates, arms)
    y, x, y0, x0 = y[own], x[own], y0[own], x0[own]
    observed = Randomised(y, x, treated, randomisation.Assignments(treated[None], is_exact=True))
    try:
        bare = Comparison(*units, *observed.ratios, least=2)
        past = _past(y, x, y0, x0) if rule.adjust == "cuped" else None
        y, prefix = (y, "") if past is None else (y - past, "cuped_")
        test = Randomised(y, x, treated, randomisation.assignments(treated, strata))
        if test.least > rule.alpha:
            return replace(bare, reason="too_few_units")
        control, treatment = (
            means.estimate_ratio(Moments.of(y[own], x[own])) for own in (~treated, treated)
        )
        # Its standard error and degrees of freedom are those of t by clusters.
        by_t = effects.compare(control, treatment, rule.alpha, prefix + METHOD)
    except Refusal as refusal:
        return refused(*units, reason_of(refusal))
    low, high = test.interval(rule.alpha)
    lift = or_none(lambda: test.lift(rule.alpha))
    return replace(
        bare,
        effect=by_t._replace(low=low, high=high, p_value=test.p_value()),
        lift=lift,
        reason=limit(lift),
        spread=Spread(control.variance, treatment.variance, -control.variance),
        own=treatment,
        drawn=test,
        draws=None if test.drawn.is_exact else Draws(randomisation.DRAWS, randomisation.SEED),
    )


def _sums(metric: Metric, aggregates: Aggregates) -> Floats:
    """Return y, x and both before, of each cluster in the metric's own unit."""
    scale = np.array([*scales(metric), *scales(metric)])
    return np.asarray(aggregates.cluster_sums[metric.name][:, :4] * scale)


def _drawn(
    experiment: Experiment, aggregates: Aggregates, arms: Arms
) -> tuple[Bools, Bools, NDArray[np.int32]]:
    """Return which clusters are of two variants; of these which are treated, and their strata."""
    own = aggregates.clusters
    if own is None:
        raise TypeError("no clusters were randomised")
    control, treatment = ([*experiment.variants].index(name) for name in arms)
    chosen = np.isin(own.variant, (control, treatment))
    treated = np.asarray(own.variant[chosen] == treatment)
    return chosen, treated, own.stratum[chosen]


def _past(y: Floats, x: Floats, y0: Floats, x0: Floats) -> Floats | None:
    """Return what each cluster's past explains of it, by one slope over all; None without a past.

    The slope is of both variants together, so that it is the same for every assignment.
    """
    if not x0.any() or not x.any():
        return None
    before, now = y0 - y0.sum() / x0.sum() * x0, y - y.sum() / x.sum() * x
    square = float(before @ before)
    return None if square == 0 else before * float(before @ now) / square


def alike_of(metric: Metric, aggregates: Aggregates) -> Alike | None:
    """Return how alike the units of clusters are in a metric; None where it cannot be told."""
    own, sums = aggregates.clusters, aggregates.cluster_sums.get(metric.name)
    if own is None or sums is None:
        return None
    y, x, _, _, yy, yx, xx, units = sums.T
    ratio = np.zeros(len(y))
    for arm in np.unique(own.variant):
        of = own.variant == arm
        ratio[of] = y[of].sum() / x[of].sum() if x[of].any() else 0.0
    squares = yy - 2 * ratio * yx + ratio**2 * xx
    return or_none(lambda: clusters.alike(units, y - ratio * x, squares, own.variant))


Note = tuple[str, Mapping[str, object]]
"""The key of a sentence in `notes.toml`, and what it names."""


def notes_of(
    metrics: Sequence[Metric],
    experiment: Experiment,
    aggregates: Aggregates,
    comparisons: Comparisons,
) -> Iterator[Note]:
    """Say what was randomised, which test decides, and what clusters cost each goal."""
    design, own = experiment.design, aggregates.clusters
    if design is None or own is None:
        return
    units = int(own.units.sum())
    slots = {"cluster": design.cluster, "clusters": len(own.variant), "units": units}
    slots |= {"unit": experiment.unit, "least": MIN_UNITS}
    judged = [m for m in metrics if m.role != "diagnostic" and m.is_mean_or_ratio]
    yield "clusters", slots
    by_draws = [
        name
        for name in experiment.treatments
        if is_few(experiment, aggregates, Arms(experiment.control, name))
    ]
    if len(by_draws) < len(experiment.treatments):
        yield "by_t", slots
    goals = sum(m.role == "goal" for m in judged) * len(experiment.treatments)
    for name in by_draws:
        rows = {m.name: comparisons[m.name, name] for m in judged}
        yield from _of_draws(design, name, rows)
        least = max((one.drawn.least for one in rows.values() if one.drawn), default=0.0)
        if experiment.inference.family != "none" and least * goals > experiment.alpha:
            yield "too_few_draws", {"variant": name, "least": least, "goals": goals}
    for metric in judged:
        one = alike_of(metric, aggregates)
        if one is not None:
            worth = {"icc": one.icc, "effect": one.effect, "worth": units / one.effect}
            yield "alike", {**slots, "metric": metric.name, **worth}


def _of_draws(design: Design, variant: str, rows: Mapping[str, Comparison]) -> Iterator[Note]:
    """Say which assignments are drawn, and what t says of a variant, which does not decide."""
    test = next((one.drawn for one in rows.values() if one.drawn is not None), None)
    if test is None:
        return
    count, within, why = len(test.drawn.treated), "", f"below {MIN_UNITS} clusters in a variant"
    for kind, text in (("strata", design.strata), ("pairs", design.pairs)):
        if text is not None:
            within, why = f" within {kind} of {text}", f"with {kind}, of which t takes no account"
    by_t = [
        f"{name} p {fmt.p_value(two_sided(one.effect.statistic, one.effect.df))} "
        f"({one.effect.df:.1f} df)"
        for name, one in rows.items()
        if one.effect is not None
    ]
    drawn = f"all {count:,} assignments" if test.drawn.is_exact else f"{count:,} drawn assignments"
    slots = {"variant": variant, "drawn": drawn, "within": within, "why": why}
    yield "by_draws", {**slots, "t": fmt.listing(by_t)}
