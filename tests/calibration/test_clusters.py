"""Clusters keep their level and cover where an analysis by users does not; the table is printed."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from benchmarks.calibration import clusters, off_policy, switchbacks
from benchmarks.calibration.clusters import judged
from benchmarks.runner import write_table
from tests.worlds.clusters import World


@pytest.mark.slow
@pytest.mark.parametrize(
    "world", [World(8, 0.1), World(20, 0.3), World(100, 0.01), World(20, 0.1, "pairs")]
)
def test_clusters_keep_their_level_and_users_do_not(world: World) -> None:
    seeds = 300
    own = np.mean([judged(world, seed, by_cluster=True)[:2] for seed in range(seeds)], axis=0)
    of_users = [judged(world, seed, by_cluster=False).rejected for seed in range(100)]
    error = 3 * (0.05 * 0.95 / seeds) ** 0.5
    assert own[0] <= 0.05 + error
    assert own[1] >= 0.95 - error
    assert np.mean(of_users) >= 0.2


@pytest.mark.slow
@pytest.mark.parametrize("module", [clusters, off_policy, switchbacks])
def test_a_world_is_a_row_of_the_table(module: ModuleType) -> None:
    row = module.measure_world(module.WORLDS[0], 1, 0)
    printed = list(write_table([row]))
    assert len(printed) == 3
    assert len({line.count("|") for line in printed}) == 1


@pytest.mark.slow
def test_doubly_robust_intervals_cover_where_rows_have_a_heavy_tail() -> None:
    seeds, world = 300, off_policy.WORLDS[4]
    sides = [off_policy.outcomes(world, seed)["dr"] for seed in range(seeds)]
    error = 3 * (0.05 * 0.95 / seeds) ** 0.5
    assert sides.count("inside") / seeds >= 0.95 - error
