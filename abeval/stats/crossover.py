"""What excluding units seen in several variants does to a comparison of nothing."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from abeval.stats.records import Refusal


class Identities(NamedTuple):
    """A kind of unit that draws its variant once per identity, such as per device.

    Attributes:
        share: Share of all units.
        identities: Independent assignments each of these units gets.
        mean: Mean of the metric over these units, the same in every variant.
    """

    share: float
    identities: int
    mean: float


def mean_after_exclusion(split: float, kinds: Sequence[Identities]) -> float:
    """Mean of a variant once every unit seen in another variant is left out.

    A unit with d identities stays in a variant of share s with probability s^d, so a small
    variant loses far more of the active units than a large one, and an A/A test shows an
    effect. With an even split both variants lose alike.

    Args:
        split: Share of the variant.
        kinds: Kinds of units, shares summing to 1.

    Raises:
        Refusal: `too_few_units` when nobody stays.

    Example:
        >>> kinds = [Identities(0.8, 1, 1.0), Identities(0.2, 2, 3.0)]
        >>> round(mean_after_exclusion(0.9, kinds), 4), round(mean_after_exclusion(0.1, kinds), 4)
        (1.3673, 1.0488)
    """
    staying = [kind.share * split**kind.identities for kind in kinds]
    total = math.fsum(staying)
    if total <= 0:
        raise Refusal("too_few_units", "exclusion leaves no unit in the variant")
    return math.fsum(w * kind.mean for w, kind in zip(staying, kinds, strict=True)) / total


def false_lift(control: float, treatment: float, kinds: Sequence[Identities]) -> float:
    """Relative effect that exclusion alone makes between two variants of these shares.

    Raises:
        Refusal: `too_few_units`, `control_near_zero`.

    Example:
        >>> kinds = [Identities(0.8, 1, 1.0), Identities(0.2, 2, 3.0)]
        >>> round(false_lift(0.9, 0.1, kinds), 4), false_lift(0.5, 0.5, kinds)
        (-0.233, 0.0)
    """
    base = mean_after_exclusion(control, kinds)
    if base == 0:
        raise Refusal("control_near_zero", "the control's mean is zero")
    return (mean_after_exclusion(treatment, kinds) - base) / abs(base)
