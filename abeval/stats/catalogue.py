"""Coverage, Gini and entropy of what was shown, compared at equal traffic.

None of the three is additive, and all of them grow or fall with traffic: with the same policy at
90/10 the larger arm covers more of the catalogue by size alone. So variants are compared at equal
numbers of units: coverage by rarefying units, Gini and entropy on equally large sets of hash
groups. Rarefying impressions is not enough, for one unit's impressions are alike.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abeval.stats import effects
from abeval.stats.equal_traffic import (
    Arm,
    Functional,
    at_equal_traffic,
    entropy_of_sets,
    gini_of_sets,
    left_out,
    redeals,
)
from abeval.stats.records import Effect, Lift, Refusal

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Incidence(NamedTuple):
    """Who was shown what in one variant: one entry per item and group that met.

    A group is a set of hash sub-buckets, the same sets in every variant; a unit is in one group.

    Attributes:
        item: Item code in [0, catalogue_size), shape (entries,), the same codes in every variant.
        group: Group in [0, groups), shape (entries,).
        units: Distinct units of the group that were shown the item, shape (entries,).
        impressions: Impressions of the item in the group, shape (entries,).
        units_in_group: Units of the variant per group, shape (groups,), shown anything or not.
        catalogue_size: Items that could have been shown.
    """

    item: Integers
    group: Integers
    units: Integers
    impressions: Integers
    units_in_group: Integers
    catalogue_size: int


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


def coverage(units_per_item: ArrayLike, units: int, at: int, catalogue_size: int) -> float:
    """Share of the catalogue that `at` of the units would have been shown, in expectation.

    Args:
        units_per_item: Distinct units shown each item, shape (items,); unseen items may be absent.
        units: Units in the variant.
        at: Units to rarefy to, at most `units`.
        catalogue_size: Items that could have been shown.

    Returns:
        A share in [0, 1].

    Raises:
        Refusal: `too_few_units` for `at` outside [1, units]; `not_applicable` for counts outside
            [0, units] or more items than the catalogue has.

    Source:
        Hurlbert (1971); Colwell et al. (2012), incidence-based rarefaction.

    Example:
        >>> coverage([10, 5, 1], units=10, at=10, catalogue_size=4)
        0.75
        >>> round(coverage([10, 5, 1], units=10, at=1, catalogue_size=4), 3)
        0.4
    """
    # Imported here, as it takes longer to import than most catalogues to count.
    from scipy.special import gammaln

    shown = np.asarray(units_per_item, dtype=float)
    if not 1 <= at <= units:
        raise Refusal("too_few_units", f"cannot rarefy {units} units to {at}")
    if np.any((shown < 0) | (shown > units)):
        raise Refusal("not_applicable", "an item is shown to between no and all units")
    if len(shown) > catalogue_size:
        raise Refusal("not_applicable", f"{len(shown)} items in a catalogue of {catalogue_size}")
    rest = np.minimum(shown, units - at)
    log_missed = (
        gammaln(units - rest + 1)
        - gammaln(units - rest - at + 1)
        - gammaln(units + 1)
        + gammaln(units - at + 1)
    )
    missed = np.where(shown > units - at, 0.0, np.exp(np.minimum(log_missed, 0.0)))
    return float(np.sum(1.0 - missed) / catalogue_size)


def gini(impressions_per_item: ArrayLike, catalogue_size: int) -> float:
    """Gini coefficient of exposure over the full catalogue, items never shown included.

    `sum_i (2 i - n - 1) x_(i) / (n sum x)` with n the catalogue size: 0 when all items are shown
    alike, 1 - 1/n (not 1) when one item takes everything.

    Args:
        impressions_per_item: Shape (items,), not negative; unseen items may be absent.
        catalogue_size: Items that could have been shown.

    Returns:
        A number in [0, 1 - 1/n].

    Raises:
        Refusal: `too_few_units` without impressions; `not_applicable` for more items than the
            catalogue has or negative counts.

    Source:
        Gini (1912); Dixon et al. (1987) for the population norm.

    Example:
        >>> gini([1, 1, 1, 1], 4), gini([4], 4)
        (0.0, 0.75)
    """
    shown = _exposure(impressions_per_item, catalogue_size)
    return float(gini_of_sets(shown[None], catalogue_size)[0])


def entropy(impressions_per_item: ArrayLike, catalogue_size: int) -> float:
    """Shannon entropy of exposure, in nats: at most the logarithm of the catalogue size.

    Args:
        impressions_per_item: Shape (items,), not negative; unseen items may be absent.
        catalogue_size: Items that could have been shown.

    Returns:
        `-sum p log p` over the items' shares of impressions.

    Raises:
        Refusal: As `gini`.

    Source:
        Shannon (1948).

    Example:
        >>> round(entropy([5, 5], 10), 4)
        0.6931
    """
    shown = _exposure(impressions_per_item, catalogue_size)
    return float(entropy_of_sets(shown[None])[0])


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
    pair = _matrices(control, treatment, functional)
    at = _check_traffic(*pair)
    groups, size = control.units_in_group.size, control.catalogue_size
    rng = np.random.default_rng(seed)
    order = rng.permutation(groups)
    values = at_equal_traffic(*pair, order, functional, size)
    difference = values[1] - values[0]
    without = left_out(*pair, order, functional, size)
    se = _jackknife_se(without[1] - without[0])
    if se <= 1e-12 * (abs(values[0]) + abs(values[1])):
        raise Refusal("zero_variance", f"{functional} is the same whichever group is left out")
    effect = effects.from_difference(
        *values, difference, se, groups - 1, alpha, f"{functional}_jackknife"
    )
    lift = _lift(*values, without, alpha)
    if permutations == 0:
        return CatalogueComparison(effect, lift, at, groups, 0)
    deals = redeals(*pair, functional, size, permutations, rng)
    beyond = np.count_nonzero(np.abs(deals) >= abs(difference))
    p_value = float(1 + beyond) / (1 + len(deals))
    permuted = effect._replace(
        p_value=p_value,
        log10_p_value=float(np.log10(p_value)),
        method=f"{functional}_permutation",
    )
    return CatalogueComparison(permuted, lift, at, groups, len(deals))


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


def _exposure(impressions: ArrayLike, catalogue_size: int) -> Floats:
    shown = np.asarray(impressions, dtype=float)
    if len(shown) > catalogue_size or np.any(shown < 0):
        raise Refusal("not_applicable", f"{len(shown)} items in a catalogue of {catalogue_size}")
    if not np.isfinite(shown).all():
        raise Refusal("not_finite", "impressions must be finite")
    if shown.sum() == 0:
        raise Refusal("too_few_units", "nothing was shown")
    return shown


def _matrices(control: Incidence, treatment: Incidence, functional: Functional) -> tuple[Arm, Arm]:
    """Dense counts of the items either variant showed, shape (items, groups)."""
    groups = len(control.units_in_group)
    if len(treatment.units_in_group) != groups:
        raise Refusal("not_applicable", "the variants have different groups")
    if control.catalogue_size != treatment.catalogue_size:
        raise Refusal("not_applicable", "the variants have different catalogues")
    if groups < 8:
        raise Refusal("too_few_units", f"a jackknife of {groups} groups; use at least 8, better 64")
    codes = np.concatenate([np.asarray(control.item), np.asarray(treatment.item)])
    if len(codes) and (codes.min() < 0 or codes.max() >= control.catalogue_size):
        raise Refusal("not_applicable", "an item's code lies outside the catalogue")
    kept = np.flatnonzero(np.bincount(codes, minlength=control.catalogue_size))
    row = np.zeros(control.catalogue_size, dtype=np.int64)
    row[kept] = np.arange(len(kept))
    return (
        _arm(control, row, len(kept), groups, functional),
        _arm(treatment, row, len(kept), groups, functional),
    )


def _arm(arm: Incidence, row: Integers, items: int, groups: int, functional: Functional) -> Arm:
    values = np.asarray(arm.units if functional == "coverage" else arm.impressions, dtype=float)
    if not np.isfinite(values).all() or np.any(values < 0):
        raise Refusal("not_finite", "counts must be finite and not negative")
    cell = row[np.asarray(arm.item)] * groups + np.asarray(arm.group)
    counts = np.bincount(cell, weights=values, minlength=items * groups)
    if counts.sum() == 0:
        raise Refusal("too_few_units", "a variant was shown nothing")
    units = np.asarray(arm.units_in_group, dtype=float)
    return Arm(counts.reshape(items, groups).astype(np.float64), units)


def _check_traffic(control: Arm, treatment: Arm) -> int:
    small, large = sorted((control.units.sum(), treatment.units.sum()))
    if small / (small + large) * len(control.units) < 2:
        raise Refusal(
            "too_few_units",
            f"the smaller variant holds less than two of {len(control.units)} groups' worth of "
            "units; cut the sub-buckets into more groups",
        )
    return int(small)
