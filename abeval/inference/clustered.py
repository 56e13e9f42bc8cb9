"""Compare variants by randomised clusters, and measure what clusters cost.

The design alone decides which test is used, never a p-value. With `MIN_UNITS` clusters or more in
each variant it is t, with the clusters' degrees of freedom. With fewer, and always with strata,
pairs or time slots, the assignment is re-randomised (`stats.randomisation`). Slots are compared
within cluster and time of day. Carry-over and balance over time are tested by the same draws. The
test holds although slots depend on each other, because the coins of a schedule are independent
(Bojinov, Simchi-Levi and Zhao 2023).
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.model import Experiment
from abeval.experiment.sections import Switchback
from abeval.inference import comparison
from abeval.inference.comparison import (
    MIN_UNITS,
    Arms,
    Comparison,
    Comparisons,
    Rule,
    none_if_refused,
)
from abeval.logs.unit_arrays import SwitchbackSlots
from abeval.metrics.definition import UNIT_DAY, Metric, list_scales
from abeval.results import format as fmt
from abeval.results.analysis import ClusterCost, SlotQuarter
from abeval.stats import clusters, effects, means, randomisation
from abeval.stats.distributions import compute_p_value
from abeval.stats.moments import Moments
from abeval.stats.randomisation import METHOD, RandomisationTest
from abeval.stats.records import Bools, Floats, Integers, Refusal

# Slots × draws held in memory at once.
_CELLS = 20_000_000


def is_row_ratio(metric: Metric) -> bool:
    """Tell whether a metric is a ratio of sums over rows, which slots can have."""
    return metric.source is UNIT_DAY and metric.per is not None


def draw_schedules(treated: Bools, coin: Integers) -> randomisation.Assignments:
    """Draw alternative schedules by the same design, as many as memory allows."""
    # At least 999 draws, so that p can be as small as 0.001.
    draws = max(999, min(randomisation.DRAWS, _CELLS // len(treated)))
    return _draw_schedules(treated.tobytes(), coin.astype(np.int64).tobytes(), draws)


@lru_cache(maxsize=1)
def _draw_schedules(treated: bytes, coin: bytes, draws: int) -> randomisation.Assignments:
    """Draw schedules and cache the last: all metrics of an analysis use the same."""
    return randomisation.coin_flip_assignments(
        np.frombuffer(treated, bool), np.frombuffer(coin, np.int64), draws
    )


class LaggedSlots(NamedTuple):
    """Slots that follow another slot, with the variant of that previous slot.

    Attributes:
        y: Numerator of each quarter of a slot, shape (slots, 4).
        x: Denominator of each quarter of a slot, shape (slots, 4).
        before: Whether the previous slot was treated, shape (slots,).
        assignments: The same for alternative schedules.
        stratum: Group with the same cluster, time of day and variant.
    """

    y: Floats
    x: Floats
    before: Bools
    assignments: randomisation.Assignments
    stratum: Integers

    @classmethod
    def build(cls, metric: Metric, aggregates: Aggregates) -> "LaggedSlots | None":
        """Build the slots of a metric; None if too few have a previous variant."""
        clustering, sums = aggregates.clusters, aggregates.cluster_sums.get(metric.name)
        slots = None if clustering is None else clustering.slots
        if clustering is None or slots is None or sums is None or not is_row_ratio(metric):
            return None
        chosen = np.flatnonzero((slots.before >= 0) & (sums[:, 9::2].sum(axis=1) > 0))
        before, treated = slots.before[chosen], clustering.variant == 1
        # Carry-over and effect are only told apart if variants repeat and change.
        if len(np.unique(clustering.variant[chosen] == treated[before])) < 2:
            return None
        drawn = draw_schedules(treated, slots.coin)
        before_draws = drawn._replace(treated=drawn.treated[:, before])
        within = 2 * clustering.stratum[chosen].astype(np.int64) + clustering.variant[chosen]
        scale = list_scales(metric)
        y, x = sums[chosen, 8::2] * scale[0], sums[chosen, 9::2] * scale[1]
        return cls(y, x, treated[before], before_draws, within)


def carry_over(slots: LaggedSlots) -> float | None:
    """Test for carry-over from the previous slot's variant within a slot.

    The change within a slot is fitted by a line over 1 / quarter, so that the first quarter counts
    most, and compared by the variant of the previous slot.
    """
    score = 1 / np.arange(1, slots.y.shape[1] + 1)
    # Centred within each slot, so that the slot's level does not count.
    centred = score - (slots.x @ score / slots.x.sum(axis=1))[:, None]
    change, weight = (slots.y * centred).sum(axis=1), (slots.x * centred**2).sum(axis=1)
    return none_if_refused(
        RandomisationTest(change, weight, slots.before, slots.assignments, slots.stratum).p_value
    )


def compare_slot_quarters(
    metrics: Sequence[Metric], plan: Switchback | None, aggregates: Aggregates, alpha: float
) -> Iterator[SlotQuarter]:
    """Compare each quarter of the slots by the variant of the previous slot."""
    for metric in metrics:
        slots = None if metric.role == "diagnostic" else LaggedSlots.build(metric, aggregates)
        if plan is None or slots is None:
            continue
        quarters = slots.y.shape[1]
        ends = np.linspace(plan.burn_in_ms, plan.slot_ms, quarters + 1) / 60_000
        for quarter in range(quarters):
            y, x = slots.y[:, quarter], slots.x[:, quarter]
            test = RandomisationTest(y, x, slots.before, slots.assignments, slots.stratum)
            with suppress(Refusal):
                low, high = test.interval(alpha)
                yield SlotQuarter(
                    metric=metric.name,
                    start=float(ends[quarter]),
                    end=float(ends[quarter + 1]),
                    value=float(y.sum() / x.sum()),
                    difference=float(test.difference),
                    difference_low=float(low),
                    difference_high=float(high),
                    p_value=float(test.p_value()),
                )


_WEEK = 7


def balance(plan: Switchback, slots: SwitchbackSlots, treated: Bools) -> float:
    """Test whether treated slots are balanced over hours and weekdays."""
    day, time = np.divmod(slots.number, plan.per_day)
    member = np.hstack([np.eye(plan.per_day)[time], np.eye(_WEEK)[day % _WEEK]])
    # Row 0 is the observed schedule; the others are drawn by the same design.
    size = member.sum(axis=0)
    every = np.vstack([treated, draw_schedules(treated, slots.coin).treated])
    spread = ((every @ member - size / 2) ** 2 / np.maximum(size, 1)).sum(axis=1)
    return (1 + int((spread[1:] >= spread[0] * (1 - 1e-9)).sum())) / len(spread)


def _note_slots(plan: Switchback, slots: SwitchbackSlots, aggregates: Aggregates) -> str:
    """Note which slots were randomised, and what was set aside."""
    burnt = aggregates.count_rows("burn_in")
    return (
        f"Slots of {plan.slot} were randomised in each {plan.cluster} ({len(slots.coin):,} have "
        f'rows), schedule = "{plan.schedule}": {len(np.unique(slots.coin)):,} coins. Effects are '
        f"within {plan.cluster} and time of day. Rows in the first {plan.burn_in} of each slot "
        f"are set aside ({burnt:,})."
    )


def is_few(experiment: Experiment, aggregates: Aggregates, arms: Arms) -> bool:
    """Tell whether clusters are compared by re-randomisation, not by t."""
    design = experiment.design
    if design is None or aggregates.clusters is None:
        return False
    return bool(design.blocks or design.switchback) or min(arms.units(aggregates)) < MIN_UNITS


def read_cluster_sums(metric: Metric, aggregates: Aggregates) -> Floats:
    """Return y, x and both pre-period sums of each cluster, shape (clusters, 4)."""
    return aggregates.cluster_sums[metric.name][:, :4] * [
        *list_scales(metric),
        *list_scales(metric),
    ]


def read_sums_per_unit(metric: Metric, aggregates: Aggregates, column: int) -> Floats:
    """Return one sum of each cluster (0 numerator, 1 denominator) over its units.

    The shape is that of `read_cluster_sums`. Each time slot counts as one unit.
    """
    clustering, sums = aggregates.clusters, aggregates.cluster_sums[metric.name]
    units = sums[:, 7] if clustering is None or clustering.slots is None else np.ones(len(sums))
    scale = list_scales(metric)[column]
    return np.stack([sums[:, column] * scale, units, sums[:, 2 + column] * scale, units], axis=1)


def compare_clusters(
    sums: Floats, experiment: Experiment, aggregates: Aggregates, arms: Arms, rule: Rule
) -> Comparison:
    """Compare two variants by re-randomising their clusters.

    `sums` are y and x of each cluster, now and before the period, shape (clusters, 4).
    """
    units, clustering = arms.units(aggregates), aggregates.clusters
    if clustering is None or 0 in units:
        return comparison.refuse_comparison(*units, "no_units")
    numbers = [[*experiment.variants].index(name) for name in arms]
    chosen = np.isin(clustering.variant, numbers)
    y, x, y0, x0 = sums[chosen].T
    treated, prefix = clustering.variant[chosen] == numbers[1], ""
    stratum = clustering.stratum[chosen].astype(np.int64)
    if clustering.slots is None:
        # A pair or a stratum is drawn by a coin, or by more.
        coin = stratum
        within = None
        assignments = randomisation.permuted_assignments(treated, stratum)
    else:
        coin, within = clustering.slots.coin, stratum
        assignments = draw_schedules(treated, coin)
    try:
        both = [Moments.of(y[arm], x[arm]) for arm in (~treated, treated)]
        ratios = RandomisationTest(y, x, treated, assignments).ratios
        largest = max(m.largest for m in both)
        bare = Comparison(*units, *ratios, min_units=2, largest_share=largest)
        past = _predict_from_past(y, x, y0, x0)
        if rule.adjust == "cuped" and past is not None:
            y, prefix = y - past, "cuped_"
        test = RandomisationTest(y, x, treated, assignments, within)
        difference = test.difference
        # With so few assignments no result could be significant.
        if test.least > rule.alpha:
            needed = randomisation.min_units_for_alpha(rule.alpha, coin)
            return bare._replace(reason="too_few_units", units_needed=needed)
        arms_now = (Moments.of(y[arm], x[arm]) for arm in (~treated, treated))
        control, treatment = map(means.estimate_ratio, arms_now)
        # Its standard error and degrees of freedom are those of t by clusters.
        by_t = effects.compare(control, treatment, rule.alpha, prefix + METHOD)
    except Refusal as refusal:
        return comparison.refuse_comparison(*units, comparison.translate_refusal(refusal))
    (low, high), p_value = test.interval(rule.alpha), test.p_value()
    lift = comparison.none_if_refused(lambda: test.lift(rule.alpha))
    draws = comparison.Draws(len(assignments.treated), randomisation.SEED)
    return bare._replace(
        effect=by_t._replace(difference=difference, low=low, high=high, p_value=p_value),
        lift=lift,
        reason=comparison.lift_reason(lift),
        spread=comparison.Spread(control.variance, treatment.variance, -control.variance),
        treatment_estimate=treatment,
        randomisation_test=test,
        draws=None if assignments.is_exact else draws,
    )


def _predict_from_past(y: Floats, x: Floats, y0: Floats, x0: Floats) -> Floats | None:
    """Return what past values predict of each cluster; None without a past.

    Both variants share one slope, so that it is the same for every assignment.
    """
    if not x0.any() or not x.any():
        return None
    # Residuals from the overall ratio, as for any linearised ratio.
    before, now = y0 - y0.sum() / x0.sum() * x0, y - y.sum() / x.sum() * x
    square = float(before @ before)
    return None if square == 0 else before * float(before @ now) / square


def compute_cluster_costs(
    metrics: Sequence[Metric], aggregates: Aggregates
) -> Iterator[ClusterCost]:
    """Compute the intra-cluster correlation of each metric, and its cost."""
    clustering = aggregates.clusters
    if clustering is None or clustering.slots is not None:
        return
    for metric in metrics:
        sums = aggregates.cluster_sums.get(metric.name)
        if sums is None or not metric.is_mean_or_ratio:
            continue
        y, x, _, _, yy, yx, xx, units = sums.T
        above, below = (np.bincount(clustering.variant, values) for values in (y, x))
        ratio = (above / np.where(below == 0, 1.0, below))[clustering.variant]
        # Σ (y − R·x)² within each cluster.
        squares = yy - 2 * ratio * yx + ratio**2 * xx
        with suppress(Refusal):
            icc, effect = clusters.estimate_icc(units, y - ratio * x, squares, len(below))
            size = len(clustering.of_unit)
            yield ClusterCost(metric.name, len(y), size, icc, effect, size / effect)


def note_clusters(
    metrics: Sequence[Metric],
    experiment: Experiment,
    aggregates: Aggregates,
    comparisons: Comparisons,
) -> Iterator[str]:
    """Note what was randomised, which test decides, and what clusters cost."""
    design, clustering = experiment.design, aggregates.clusters
    if design is None or clustering is None:
        return
    unit = experiment.unit
    if (turns := design.switchback) is None or clustering.slots is None:
        yield (
            f"{design.cluster} was randomised: {len(clustering.variant):,} clusters of "
            f"{len(clustering.of_unit):,} {unit} in all. Each cluster is one unit here; metrics "
            f"per unit are sums over a cluster by its number of {unit}."
        )
    else:
        yield _note_slots(turns, clustering.slots, aggregates)
    judged = {m.name: m for m in metrics if m.role != "diagnostic" and m.is_mean_or_ratio}
    goals = sum(m.role == "goal" for m in metrics) * len(experiment.treatments)
    for variant in experiment.treatments:
        if not is_few(experiment, aggregates, Arms(experiment.control, variant)):
            yield (
                f"P-values and intervals of {variant} are of t with the clusters' degrees of "
                f"freedom: the rule from {MIN_UNITS} clusters in each variant on."
            )
            continue
        rows = {name: comparisons[name, variant] for name in judged}
        tests = [test for row in rows.values() if (test := row.randomisation_test) is not None]
        if not tests:
            continue
        by_t = [
            f"{name} p {fmt.format_p_value(compute_p_value(row.effect.statistic, row.effect.df))} "
            f"({row.effect.df:.1f} df)"
            for name, row in rows.items()
            if row.effect is not None
        ]
        count, least = len(tests[0].assignments.treated), max(test.least for test in tests)
        drawn = f"all {count:,}" if tests[0].assignments.is_exact else f"{count:,} drawn"
        within, why = "", f"below {MIN_UNITS} clusters in a variant"
        for kind, text in design.blocks.items():
            within, why = f" within {kind} of {text}", f"with {kind}, which the t test ignores"
        if design.switchback is not None:
            why = "for slots, whose values depend on each other, which the t test ignores"
        yield (
            f"P-values and intervals of {variant} are of {drawn} assignments{within}: the rule "
            f"{why}. An interval has the effects that this test does not reject. By t with the "
            f"clusters' degrees of freedom, which does not decide: {fmt.join_items(by_t)}."
        )
        if experiment.inference.family != "none" and least * goals > experiment.alpha:
            yield (
                f"The smallest p-value that so few assignments can give {variant} is {least:.2g}: "
                f"corrected for {goals} tests of goals, none of them can be significant. Name one "
                "goal, or assign more clusters."
            )
    for cost in compute_cluster_costs([*judged.values()], aggregates):
        yield (
            f"{cost.metric}: {unit} of one cluster are alike (intra-cluster correlation "
            f"{cost.icc:.2g}, design effect {cost.design_effect:.2g}): the {cost.units:,} say as "
            f"much as {cost.worth:,.0f} independent ones."
        )
