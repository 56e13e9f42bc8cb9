"""Two variants within stretches of entry days: each stretch weighs the same in both.

Where the traffic split changed, treatment's units entered at other times than control's. Moments of
the two are taken within the stretches of `logs/placing.py`, and weighted by each stretch's share
of the units of all variants (post-stratification). `compare.py` and everything else that compares
moments gets its pairs here.
"""

from collections.abc import Sequence
from typing import NamedTuple

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.sums import ByStretch, pooled
from abeval.inference import special_tests
from abeval.inference.comparison import Arms, Comparison, Rule, refused
from abeval.inference.means_and_ratios import compare_moments
from abeval.inference.special_tests import Stretches
from abeval.metrics.definition import Metric
from abeval.stats.moments import Moments, stratified

MIN_STRETCH = 30
"""A stretch with fewer units than this in one of two variants cannot compare them."""


class Pair(NamedTuple):
    """Moments of control and of a variant; None where there are none to compare."""

    control: Moments | None
    treatment: Moments | None


def usable(moments: ByStretch, arms: Arms) -> list[int]:
    """The stretches in which two variants can be compared, if there are several."""
    return [
        place
        for place, one in enumerate(moments)
        if min(one[name].n if name in one else 0 for name in arms) >= MIN_STRETCH
    ]


def weights(moments: ByStretch, places: Sequence[int]) -> list[float]:
    """Each stretch's share of the units of all variants."""
    sizes = [sum(one.n for one in moments[place].values()) for place in places]
    return [size / sum(sizes) for size in sizes]


def pair_of(moments: ByStretch, arms: Arms) -> Pair:
    """Moments of two variants, with the stretches weighed alike in both."""
    if len(moments) == 1:
        return Pair(moments[0].get(arms.control), moments[0].get(arms.treatment))
    places = usable(moments, arms)
    if len(places) < 2:
        one = moments[places[0]] if places else {}
        return Pair(one.get(arms.control), one.get(arms.treatment))
    shares = weights(moments, places)
    return Pair(*(stratified([moments[place][name] for place in places], shares) for name in arms))


def compare_within(metric: Metric, moments: ByStretch, arms: Arms, rule: Rule) -> Comparison:
    """Compare two variants by their moments in each stretch."""
    pair = pair_of(moments, arms)
    if is_unweighable(metric, moments, arms, rule):
        control, treatment = (0 if one is None else one.n for one in pair)
        return refused(control, treatment, "split_changed")
    return compare_moments(metric, *pair, rule, stretches_of(moments, arms))


def stretches_of(moments: ByStretch, arms: Arms) -> Stretches | None:
    """The stretches that a pair was weighed of; None where it is of one."""
    places = usable(moments, arms) if len(moments) > 1 else []
    if len(places) < 2:
        return None
    control, treatment = ([moments[place][name] for place in places] for name in arms)
    return Stretches(control, treatment, weights(moments, places))


def is_unweighable(metric: Metric, moments: ByStretch, arms: Arms, rule: Rule) -> bool:
    """Whether several stretches cannot be combined: AUC, and what an exact test would judge."""
    if len(moments) == 1:
        return False
    if not metric.is_mean_or_ratio:
        return True
    places = usable(moments, arms)
    if len(places) < 2 or rule.looks is not None:
        return False
    whole = pooled([moments[place] for place in places])
    return special_tests.rare(whole[arms.control], whole[arms.treatment]) is not None


def together(cells: Sequence[ByStretch]) -> ByStretch:
    """The units of several cells as one, by stretch and variant."""
    return [pooled(of_stretch) for of_stretch in zip(*cells, strict=True)]


def left_out_of(aggregates: Aggregates, arms: Arms) -> list[int]:
    """The stretches in which two variants cannot be compared, though units entered in them."""
    counts = [stretch.units for stretch in aggregates.stretches]
    return [
        place
        for place, units in enumerate(counts)
        if min(units.get(name, 0) for name in arms) < MIN_STRETCH
        and max(units.get(name, 0) for name in arms) > 0
    ]


class CellSize(NamedTuple):
    """What a cell weighs in one variant.

    Attributes:
        denominator: Its total of the denominator.
        units: Its units.
    """

    denominator: float
    units: float


def cell_sizes(whole: ByStretch, cells: Sequence[ByStretch], arms: Arms) -> list[list[CellSize]]:
    """What each cell weighs in control and in the variant, each stretch weighed alike in both.

    Units are so many as would know the mix as well: 1 / Σ share² / n.

    Args:
        whole: Moments of the units of all cells.
        cells: Moments of each cell.
        arms: The two variants.
    """
    places = usable(whole, arms) if len(whole) > 1 else [0]
    shares = weights(whole, places)
    sizes = []
    for name in arms:
        n = [whole[place][name].n for place in places]
        scale = [1.0]
        if len(places) > 1:
            effective = 1 / sum(share**2 / size for share, size in zip(shares, n, strict=True))
            scale = [effective * share / size for share, size in zip(shares, n, strict=True)]
        sizes.append([_cell_size([cell[place] for place in places], name, scale) for cell in cells])
    return sizes


def _cell_size(cell: ByStretch, name: str, scale: Sequence[float]) -> CellSize:
    known = [(f, one[name]) for f, one in zip(scale, cell, strict=True) if name in one]
    units = [(f * one.n, float(one.mean[1])) for f, one in known]
    return CellSize(sum(n * mean for n, mean in units), sum(n for n, _ in units))
