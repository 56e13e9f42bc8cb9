"""Slots keep their level and cover where an analysis by rows does not; the table is printed."""

from __future__ import annotations

import numpy as np
import pytest

from abeval.inference.compare import compare
from abeval.inference.comparison import Arms
from abeval.simulate.turns import ARMS, draw_minutes
from benchmarks.calibration import switchbacks
from benchmarks.calibration.switchbacks import judged
from tests.worlds.switchbacks import WORLDS, World, analysis_of, through_command


@pytest.mark.slow
@pytest.mark.parametrize("world", [WORLDS[0], WORLDS[2], World("coin", 30, 30)])
def test_slots_keep_their_level_and_rows_do_not(world: World) -> None:
    seeds = 200
    with switchbacks.fewer_draws(999):
        own = np.mean([judged(world, seed) for seed in range(seeds)], axis=0)
    level, covered, _, carries, found, by_rows, _ = own
    error = 3 * (0.05 * 0.95 / seeds) ** 0.5
    assert max(level, carries, found) <= 0.05 + error
    assert covered >= 0.95 - error
    assert by_rows >= 0.2


@pytest.mark.slow
def test_carry_over_is_found_where_the_burn_in_is_too_short() -> None:
    with switchbacks.fewer_draws(999):
        own = [judged(World("balanced", 30, 0), seed) for seed in range(60)]
    assert np.mean([one.found for one in own]) >= 0.9
    assert np.mean([one.covered for one in own]) <= 0.9


@pytest.mark.slow
def test_arrays_are_what_the_whole_command_makes_of_the_log() -> None:
    world = World("balanced", 0, 20)
    result = through_command(world, 3, 0.1)
    drawn = draw_minutes("balanced", 0, 3, 0.1)
    analysis = analysis_of(world, drawn)
    own = compare(analysis, analysis.metrics[0], Arms(*ARMS))
    assert own.effect is not None
    assert result["ctr"].difference == pytest.approx(own.effect.difference)
    assert result["ctr"].p_value == own.effect.p_value
    assert drawn.x.sum() == result.accounting[0].read
