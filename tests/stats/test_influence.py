"""The few units that most of an effect may come from."""

from __future__ import annotations

import numpy as np
import pytest

from abeval.stats.influence import (
    Group,
    Unit,
    compute_binomial_tail,
    find_fewest_units,
    find_influence,
)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 3e8])
def test_no_more_units_are_apart_than_there_are(scale: float) -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        values = (rng.normal(1, 2, 40) * scale * (rng.random(40) < 0.7)).tolist()
        total = squares = 0.0
        for v in values:  # As an engine adds them: rounded each time.
            total, squares = total + v, squares + v * v
        apart = sum(v != 0 for v in values)
        for listed in (0, 3, 39):
            result = find_fewest_units(values[:listed], total, squares)
            assert sum(v != 0 for v in values[:listed]) <= result <= apart + 1e-6
        # Of all units nothing but rounding is left.
        assert find_fewest_units(values, total, squares) == pytest.approx(apart, abs=1e-6)


def test_units_of_one_value_are_all_counted() -> None:
    for value in (0.001, -0.3, 40.0):
        assert find_fewest_units([], 7 * value, 7 * value**2) == pytest.approx(7)
        assert find_fewest_units([value, 0.0], 7 * value, 7 * value**2) == pytest.approx(7)
    assert find_fewest_units([0.0, 0.0], 0.0, 0.0) == 0
    assert find_fewest_units([], 0.0, 0.0) == 0


def group(scale: float, *units: tuple[float, float]) -> Group:
    own = [Unit(y * scale, x * scale) for y, x in units]
    return Group(sum(u.y for u in own), sum(u.x for u in own), own)


PLAIN = (2.0, 4.0), (3.0, 4.0), (1.0, 4.0), (2.0, 3.0)
BOT = (30.0, 5.0), (2.0, 4.0), (1.0, 4.0)


@pytest.mark.parametrize("scale", [1e-3, 0.02, 1.0, 1e6])
def test_the_unit_that_moves_the_lift_most_is_left_out(scale: float) -> None:
    for treated in (False, True):
        pair = group(scale, *PLAIN), group(scale, *BOT)
        control, treatment = pair if treated else pair[::-1]
        result = find_influence(control, treatment, most=1)
        assert result is not None
        rest = 3 / 8
        others = 8 / 15
        without = rest / others if treated else others / rest
        assert result.lift_without == pytest.approx(without - 1)
        assert result.lift == pytest.approx(treatment.value / control.value - 1)
        assert (result.control, result.treatment) == ((0, 1) if treated else (1, 0))


def test_of_two_groups_the_units_are_ranked_together() -> None:
    """As by leaving out each alone, and looking at the lift."""
    rng = np.random.default_rng(2)
    units = [[(float(y), 1.0 + x) for y, x in rng.poisson(9, (30, 2))] for _ in range(2)]
    # The second group is three times as large in all.
    groups = group(1.0, *units[0]), group(3.0, *units[1])
    control, treatment = groups
    moves = []
    for side, one in enumerate(groups):
        for u in one.units:
            deviation = abs(u.y - one.value * u.x) / one.x
            lift_per_value = 1 / control.value if side else treatment.value / control.value**2
            moves.append((deviation * lift_per_value, side, u))
    moves.sort(key=lambda one: -one[0])
    for most in (1, 5, 10, 20):
        left = (
            [[u.y for _, s, u in moves[most:] if s == side] for side in (0, 1)],
            [[u.x for _, s, u in moves[most:] if s == side] for side in (0, 1)],
        )
        values = [sum(y) / sum(x) for y, x in zip(*left, strict=True)]
        result = find_influence(control, treatment, most)
        assert result is not None
        assert result.lift_without == pytest.approx(values[1] / values[0] - 1)
        assert result.treatment == sum(s for _, s, _ in moves[:most])
        assert result.control == most - result.treatment
    assert find_influence(control, treatment) == find_influence(control, treatment, 10)


def test_what_has_no_lift_has_no_influence() -> None:
    some = group(1.0, *PLAIN)
    for y, x in ((0.0, 5.0), (-1.0, 5.0), (1.0, 0.0)):
        assert find_influence(Group(y, x, []), some) is None
    assert find_influence(some, Group(0.0, 0.0, [])) is None
    # Without its units a group has no denominator, or control no numerator.
    both = group(1.0, (9.0, 1.0), (0.1, 1.0))
    assert find_influence(some, both, most=2) is None
    assert find_influence(both, group(0.01, *PLAIN), most=2) is None
    assert find_influence(Group(9.0, 5.0, [Unit(9.0, 1.0)]), some, most=1) is None
    one = find_influence(some, group(1.0, (9.0, 1.0), (9.0, 0.5)), most=1)
    assert one is not None
    assert one.treatment == 1


def test_chances_of_any_number_of_units_are_finite() -> None:
    assert compute_binomial_tail(1_000, 99_000, 0.01) == pytest.approx(0.5, abs=0.01)
