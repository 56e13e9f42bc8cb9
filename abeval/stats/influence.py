"""Measure how few units an effect may come from."""

from collections.abc import Sequence
from typing import NamedTuple

from scipy import special

_ROUNDING = 1e-13


class Unit(NamedTuple):
    """What one unit adds to the numerator and the denominator of a metric."""

    y: float
    x: float


class Group(NamedTuple):
    """A group's sums of numerators and denominators, and its units that deviate most.

    These units have the largest `y - value * x`; their order does not matter.
    """

    y: float
    x: float
    units: Sequence[Unit]

    @property
    def value(self) -> float:
        """Return the mean or the ratio."""
        return self.y / self.x

    @property
    def deviations(self) -> list[float]:
        """Return the distances of its units from the value, from the largest on."""
        return sorted((abs(unit.y - self.value * unit.x) for unit in self.units), reverse=True)


class Influence(NamedTuple):
    """A lift with and without its most influential units, and their counts."""

    lift: float
    lift_without: float
    control: int
    treatment: int


def find_fewest_units(values: Sequence[float], total: float, squares: float) -> float:
    """Bound from below the number of units with a value other than 0.

    Counts the units listed in `values`. The other units are at least (Σv)² / Σv², by the inequality
    of Cauchy and Schwarz. `total` and `squares` are the sums over all units.

    Example:
        >>> find_fewest_units([5.0, 0.0], total=5.0, squares=25.0)
        1.0
        >>> find_fewest_units([5.0, 1.0], total=36.0, squares=56.0)
        32.0
    """
    rest = total - sum(values)
    rest_squares = squares - sum(value * value for value in values)
    # Sums are rounded; a larger divisor keeps the number too small rather than too large.
    among = rest * rest / max(rest_squares, _ROUNDING * squares) if squares > 0 else 0.0
    return sum(value != 0 for value in values) + among


def compute_binomial_tail(inside: int, outside: int, share: float) -> float:
    """Return the chance that a group with this share gets this many units or more.

    Example:
        >>> compute_binomial_tail(12, 0, 0.5)
        0.000244140625
    """
    return float(special.betainc(inside, outside + 1, share))


def find_influence(control: Group, treatment: Group, most: int = 10) -> Influence | None:
    """Recompute a lift without the units that move it most; None if undefined.

    A unit moves the lift by about its deviation divided by the denominator of its group (the
    infinitesimal jackknife: Efron 1982). The units of both groups are ranked together by this
    number.

    Example:
        >>> bot = Group(y=60.0, x=10.0, units=[Unit(51.0, 1.0), Unit(2.0, 1.0)])
        >>> plain = Group(y=10.0, x=10.0, units=[Unit(2.0, 1.0), Unit(2.0, 1.0)])
        >>> found = find_influence(plain, bot, most=1)
        >>> found.lift, round(found.lift_without, 6), found.treatment
        (5.0, 0.0, 1)
    """
    if not (control.y > 0 and control.x > 0 and treatment.x > 0):
        return None
    groups = control, treatment
    scales = treatment.value / control.value**2, 1 / control.value
    moves = (
        (abs(unit.y - group.value * unit.x) / group.x * scale, side, unit)
        for side, (group, scale) in enumerate(zip(groups, scales, strict=True))
        for unit in group.units
    )
    ranked = sorted(moves, key=lambda move: -move[0])[:most]
    remaining = [
        _remove_units(group, [unit for _, unit_side, unit in ranked if unit_side == side])
        for side, group in enumerate(groups)
    ]
    if remaining[0].y <= 0 or min(group.x for group in remaining) <= 0:
        return None
    in_treatment = sum(side for _, side, _ in ranked)
    lift, without = (pair[1].value / pair[0].value - 1 for pair in (groups, remaining))
    return Influence(lift, without, len(ranked) - in_treatment, in_treatment)


def _remove_units(group: Group, units: Sequence[Unit]) -> Group:
    return Group(group.y - sum(u.y for u in units), group.x - sum(u.x for u in units), ())
