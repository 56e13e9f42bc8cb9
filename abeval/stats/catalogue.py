"""Coverage, Gini and entropy of item exposure, compared at equal traffic.

None of the three is additive, and all of them depend on traffic: at a 90/10 split under one policy
the larger variant covers more of the catalogue because of its size alone. So variants are compared
at equal numbers of units: coverage by rarefying units, Gini and entropy on equally large sets of
hash groups. Rarefying impressions is not enough, because impressions of one unit are similar.

`inference/other_kinds.py` hands over the `Incidence` (`stats/incidence.py`) of two variants, and
makes comparisons of what comes back.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from abeval.stats import effects, resampling
from abeval.stats.catalogue import Measure
from abeval.stats.exposure import Functional, Spread
from abeval.stats.exposure import coverage as coverage
from abeval.stats.exposure import entropy as entropy
from abeval.stats.exposure import gini as gini
from abeval.stats.records import Effect, Floats, Lift, Refusal

PERMUTATIONS, SEED = 1000, 0
"""Least number of permutations, and the seed, where a caller names none."""


class CatalogueComparison(NamedTuple):
    """Two variants at equal traffic.

    Attributes:
        effect: Values at equal traffic, with an interval by delete-a-group jackknife (t with
            groups - 1 degrees of freedom) and a p-value by permutation. Near alpha the two may
            disagree.
        lift: Relative effect with a jackknife interval of its own; None if control is zero.
        at: Number of units at which the variants are compared: that of the smaller one.
        groups: Number of hash groups.
        permutations: Number of permutations behind the p-value; 0 for the jackknife's t.
    """

    effect: Effect
    lift: Lift | None
    at: int
    groups: int
    permutations: int


def compare_all(
    control: Incidence,
    treatment: Incidence,
    functionals: Collection[Functional] = ("coverage", "gini", "entropy"),
    alpha: float = 0.05,
    permutations: int = PERMUTATIONS,
    seed: int = SEED,
) -> dict[Functional, CatalogueComparison | Refusal]:
    """Compare two variants' coverage, Gini and entropy at the smaller one's number of units.

    Coverage is rarefied (Hurlbert 1971); the interval is by jackknife (Efron & Stein 1981). Gini
    and entropy share their counts.

    The permutation test pools the variants within each group and cuts the groups at random into
    blocks of the smaller variant's share; each block is compared with the others. Control's and
    treatment's counts of a group are never swapped, because they differ in size. The null
    differences are scaled as in `resampling.scaled_null`.

    Args:
        control: Incidence of control.
        treatment: Incidence of treatment, with the same groups and catalogue.
        functionals: Any of `coverage`, `gini` and `entropy` (nats).
        alpha: Two-sided level of the interval.
        permutations: Least number of permutations; the p-value is no smaller than
            1 / (permutations + 1). With 0 it is that of the jackknife's t.
        seed: Seed of the sets of groups and of the permutations.

    Returns:
        By functional, the comparison, or its refusal: `too_few_units` for fewer than eight groups,
        an empty variant, or a smaller variant with less than two groups' worth of the pooled units
        (use more groups); `zero_variance` if no group changes the values; `not_applicable` for
        groups or catalogues that differ.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> item, group = np.divmod(np.arange(50 * 16), 16)
        >>> def arm(policy):
        ...     shown = rng.binomial(30, np.repeat(policy, 16))
        ...     return Incidence(item, group, shown, shown, np.full(16, 30), 60)
        >>> arms = arm(np.full(50, 0.02)), arm(np.full(50, 0.001))
        >>> comparison = compare_all(*arms)["coverage"]
        >>> comparison.at, comparison.effect.difference < 0, round(comparison.effect.p_value, 3)
        (480, True, 0.001)
        >>> compare_all(arms[0], arms[0]._replace(units_in_group=np.zeros(16)))["gini"].reason
        'too_few_units'
    """
    size, test = control.catalogue_size, _Test(alpha, permutations, seed)
    outcomes: dict[Functional, CatalogueComparison | Refusal] = {}
    if "coverage" in functionals:
        outcomes |= _compare(control, treatment, "units", Coverage(size), test)
    spread = [name for name in _SPREAD if name in functionals]
    if spread:
        outcomes |= _compare(control, treatment, "impressions", Evenness(size, spread), test)
    return {name: outcomes[name] for name in functionals}


_SPREAD: tuple[Spread, ...] = ("gini", "entropy")


class _Test(NamedTuple):
    alpha: float
    permutations: int
    seed: int


def _compare(
    control: Incidence, treatment: Incidence, counted: Counted, measure: Measure, test: _Test
) -> dict[Functional, CatalogueComparison | Refusal]:
    """Comparisons of all functionals of a measure."""
    rng, names = np.random.default_rng(test.seed), measure.functionals
    try:
        arms = matrices(control, treatment, counted)
        at = _common_units(*arms)
        order = rng.permutation(control.units_in_group.size)
        values = at_equal_traffic(*arms, order, measure)
        without = left_out(*arms, order, measure)
    except Refusal as refusal:
        # A traceback would keep the matrices in memory.
        return dict.fromkeys(names, refusal.with_traceback(None))
    columns = zip(names, values, without, strict=True)
    outcomes = {name: _jackknifed(name, pair, left, at, test.alpha) for name, pair, left in columns}
    if test.permutations == 0 or all(isinstance(one, Refusal) for one in outcomes.values()):
        return outcomes
    try:
        nulls: list[Floats | Refusal] = [*null_differences(*arms, measure, test.permutations, rng)]
    except Refusal as refusal:
        nulls = [refusal.with_traceback(None)] * len(names)
    pairs = zip(outcomes.items(), nulls, strict=True)
    return {name: _permuted(name, outcome, null) for (name, outcome), null in pairs}


def _jackknifed(
    functional: Functional, values: Floats, without: Floats, at: int, alpha: float
) -> CatalogueComparison | Refusal:
    """Effect and lift, with intervals and p-value by the jackknife."""
    control, treatment = values.tolist()
    groups, se = without.shape[1], _jackknife_se(without[1] - without[0])
    if se <= 1e-12 * (abs(control) + abs(treatment)):
        return Refusal("zero_variance", f"{functional} does not change when any group is left out")
    difference, method = treatment - control, f"{functional}_jackknife"
    effect = effects.from_difference(control, treatment, difference, se, groups - 1, alpha, method)
    return CatalogueComparison(effect, _lift(control, treatment, without, alpha), at, groups, 0)


def _permuted(
    functional: Functional, comparison: CatalogueComparison | Refusal, null: Floats | Refusal
) -> CatalogueComparison | Refusal:
    """The comparison with the p-value of the permutation test, or the first refusal."""
    if isinstance(comparison, Refusal):
        return comparison
    if isinstance(null, Refusal):
        return null
    effect = resampling.permuted(comparison.effect, null, f"{functional}_permutation")
    return comparison._replace(effect=effect, permutations=len(null))


def _jackknife_se(without: Floats) -> float:
    groups = len(without)
    return float(np.sqrt((groups - 1) / groups * np.sum((without - without.mean()) ** 2)))


def _lift(control: float, treatment: float, without: Floats, alpha: float) -> Lift | None:
    """Lift with the jackknife of the ratio: the variants share groups, though no units."""
    if control == 0 or np.any(without[0] == 0):
        return None
    value = treatment / control - 1
    se = _jackknife_se(without[1] / without[0])
    low, high = effects.interval(value, se, without.shape[1] - 1, alpha)
    return Lift(value, low, high, True, "jackknife")


def _common_units(control: Arm, treatment: Arm) -> int:
    """Units of the smaller variant."""
    small, large = sorted((control.units.sum(), treatment.units.sum()))
    if small / (small + large) * len(control.units) < 2:
        raise Refusal(
            "too_few_units",
            f"the smaller variant has fewer units than two of {len(control.units)} groups; use "
            "more groups",
        )
    return int(small)
