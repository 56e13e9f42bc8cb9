"""Coverage, Gini and entropy of what was shown, compared at equal traffic.

None of the three is additive, and all of them grow or fall with traffic: with the same policy at
90/10 the larger arm covers more of the catalogue by size alone. So variants are compared at equal
numbers of units: coverage by rarefying units, Gini and entropy on equally large sets of hash
groups. Rarefying impressions is not enough, for one unit's impressions are alike.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np

from abeval.stats import effects
from abeval.stats.equal_traffic import (
    Arm,
    Coverage,
    Evenness,
    Measure,
    at_equal_traffic,
    left_out,
    redeals,
)
from abeval.stats.exposure import Floats, Functional, Spread
from abeval.stats.exposure import coverage as coverage
from abeval.stats.exposure import entropy as entropy
from abeval.stats.exposure import gini as gini
from abeval.stats.incidence import Counted, matrices
from abeval.stats.incidence import Incidence as Incidence
from abeval.stats.records import Effect, Lift, Refusal


class CatalogueComparison(NamedTuple):
    """Two variants at equal traffic.

    Attributes:
        effect: Values at equal traffic. Interval by delete-a-group jackknife (t with groups - 1
            degrees of freedom), p-value by permutation: near alpha the two may disagree.
        lift: Relative effect with a jackknife interval of its own; None where control is zero.
        at: Units both variants are compared at: those of the smaller one.
        groups: Hash groups.
        permutations: Re-deals behind the p-value.
    """

    effect: Effect
    lift: Lift | None
    at: int
    groups: int
    permutations: int


def compare(
    control: Incidence,
    treatment: Incidence,
    functional: Functional,
    alpha: float = 0.05,
    permutations: int = 1000,
    seed: int = 0,
) -> CatalogueComparison:
    """Compare two variants' coverage, Gini or entropy at the smaller one's number of units.

    The permutation pools the variants group by group and cuts the groups, at random, into blocks
    of the smaller variant's share; each block against the others is a re-deal. Control
    and treatment cells of a group, which differ in size, are never swapped. Re-deals are brought
    to the observed numbers of units, and divided by sqrt(chi2/df), because they know the variance
    from finitely many groups: as t is to z.

    Args:
        control: Incidence of control.
        treatment: Incidence of treatment, with the same groups and catalogue.
        functional: `coverage`, `gini` or `entropy` (nats).
        alpha: Two-sided level of the interval.
        permutations: Re-deals at least; the p-value is no smaller than 1 / (permutations + 1).
            With 0 it is that of the jackknife's t.
        seed: Of the sets of groups and the re-deals.

    Returns:
        The effect, the units compared at, the groups and the re-deals.

    Raises:
        Refusal: `too_few_units` for fewer than eight groups, an empty variant, or a smaller
            variant with less than two groups' worth of the pooled units (use more groups);
            `zero_variance` if no group matters; `not_applicable` for groups or catalogues that
            differ.

    Source:
        Hurlbert (1971), rarefaction; Efron & Stein (1981), jackknife; Phipson & Smyth (2010),
        (1 + b) / (1 + B).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> item, group = np.divmod(np.arange(50 * 16), 16)
        >>> def arm(policy):
        ...     shown = rng.binomial(30, np.repeat(policy, 16))
        ...     return Incidence(item, group, shown, shown, np.full(16, 30), 60)
        >>> found = compare(arm(np.full(50, 0.02)), arm(np.full(50, 0.001)), "coverage")
        >>> found.at, found.effect.difference < 0, round(found.effect.p_value, 3)
        (480, True, 0.001)
    """
    found = compare_all(control, treatment, [functional], alpha, permutations, seed)[functional]
    if isinstance(found, Refusal):
        raise found
    return found


def compare_all(
    control: Incidence,
    treatment: Incidence,
    functionals: Collection[Functional] = ("coverage", "gini", "entropy"),
    alpha: float = 0.05,
    permutations: int = 1000,
    seed: int = 0,
) -> dict[Functional, CatalogueComparison | Refusal]:
    """Compare several functionals as `compare` does each: Gini and entropy share what is counted.

    Args:
        control: Incidence of control.
        treatment: Incidence of treatment, with the same groups and catalogue.
        functionals: Those wanted.
        alpha: As for `compare`.
        permutations: As for `compare`.
        seed: As for `compare`, of each functional.

    Returns:
        Functional → what `compare` returns, or the refusal that it raises.

    Example:
        >>> one = Incidence(
        ...     *np.divmod(np.arange(80), 16), *np.full((2, 80), 2), np.full(16, 5), 10
        ... )
        >>> compare_all(one, one)["gini"]
        Refusal('gini is the same whichever group is left out')
    """
    size, test = control.catalogue_size, _Test(alpha, permutations, seed)
    found: dict[Functional, CatalogueComparison | Refusal] = {}
    if "coverage" in functionals:
        found |= _compared(control, treatment, "units", Coverage(size), test)
    spread = [name for name in _SPREAD if name in functionals]
    if spread:
        found |= _compared(control, treatment, "impressions", Evenness(size, spread), test)
    return {name: found[name] for name in functionals}


_SPREAD: tuple[Spread, ...] = ("gini", "entropy")


class _Test(NamedTuple):
    alpha: float
    permutations: int
    seed: int


def _compared(
    control: Incidence, treatment: Incidence, counted: Counted, measure: Measure, test: _Test
) -> dict[Functional, CatalogueComparison | Refusal]:
    """Every functional of a measure of what is counted."""
    rng, names = np.random.default_rng(test.seed), measure.functionals
    try:
        pair = matrices(control, treatment, counted)
        at = _check_traffic(*pair)
        order = rng.permutation(control.units_in_group.size)
        values = at_equal_traffic(*pair, order, measure)
        without = left_out(*pair, order, measure)
    except Refusal as refusal:
        # Its traceback would keep the matrices.
        return dict.fromkeys(names, refusal.with_traceback(None))
    found = [_estimated(*of, at, test.alpha) for of in zip(names, values, without, strict=True)]
    if test.permutations == 0 or not any(isinstance(one, CatalogueComparison) for one in found):
        return dict(zip(names, found, strict=True))
    try:
        deals: Iterable[Floats | Refusal] = redeals(*pair, measure, test.permutations, rng)
    except Refusal as refusal:
        deals = [refusal.with_traceback(None)] * len(names)
    tested = zip(found, deals, strict=True)
    return {name: _permuted(name, *of) for name, of in zip(names, tested, strict=True)}


def _estimated(
    functional: Functional, values: Floats, without: Floats, at: int, alpha: float
) -> CatalogueComparison | Refusal:
    """Effect and lift, with intervals and p-value by the jackknife."""
    control, treatment = values.tolist()
    groups, se = without.shape[1], _jackknife_se(without[1] - without[0])
    if se <= 1e-12 * (abs(control) + abs(treatment)):
        return Refusal("zero_variance", f"{functional} is the same whichever group is left out")
    difference, method = treatment - control, f"{functional}_jackknife"
    effect = effects.from_difference(control, treatment, difference, se, groups - 1, alpha, method)
    return CatalogueComparison(effect, _lift(control, treatment, without, alpha), at, groups, 0)


def _permuted(
    functional: Functional, found: CatalogueComparison | Refusal, deals: Floats | Refusal
) -> CatalogueComparison | Refusal:
    """The comparison with the p-value of its re-deals."""
    if isinstance(found, Refusal):
        return found
    if isinstance(deals, Refusal):
        return deals
    beyond = np.count_nonzero(np.abs(deals) >= abs(found.effect.difference))
    p_value = float(1 + beyond) / (1 + len(deals))
    effect = found.effect._replace(
        p_value=p_value,
        log10_p_value=float(np.log10(p_value)),
        method=f"{functional}_permutation",
    )
    return found._replace(effect=effect, permutations=len(deals))


def _jackknife_se(without: Floats) -> float:
    groups = len(without)
    return float(np.sqrt((groups - 1) / groups * np.sum((without - without.mean()) ** 2)))


def _lift(control: float, treatment: float, without: Floats, alpha: float) -> Lift | None:
    """The ratio's own jackknife: control and treatment share no unit, but share groups."""
    if control == 0 or np.any(without[0] == 0):
        return None
    value = treatment / control - 1
    se = _jackknife_se(without[1] / without[0])
    low, high = effects.interval(value, se, without.shape[1] - 1, alpha)
    return Lift(value, low, high, True, "jackknife")


def _check_traffic(control: Arm, treatment: Arm) -> int:
    small, large = sorted((control.units.sum(), treatment.units.sum()))
    if small / (small + large) * len(control.units) < 2:
        raise Refusal(
            "too_few_units",
            f"the smaller variant holds less than two of {len(control.units)} groups' worth of "
            "units; cut the sub-buckets into more groups",
        )
    return int(small)
