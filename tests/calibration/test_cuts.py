"""Cuts keep their levels: few seeds of `benchmarks.calibration.cuts`, through the whole API."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.calibration import cuts
from tests.real_logs import need

pytestmark = pytest.mark.slow


def test_a_moved_scene_is_seen_in_the_cut_and_nothing_is_untrusted() -> None:
    seeds = [cuts.seed_of(seed) for seed in range(2)]
    assert max(seed.error for seed in seeds) < 1e-12
    assert not any(seed.untrusted for seed in seeds)
    assert all(seed.covered[0] for seed in seeds)


def test_as_a_segment_the_same_log_is_untrusted() -> None:
    assert cuts.is_moved_segment(0)


def test_intervals_cover_and_keep_their_level() -> None:
    """Four rates of 50 draws: below .83 only by four standard errors."""
    assert min(cuts.coverage_of(50, seed=1)) > 0.82


def test_splits_of_a_real_log_keep_their_level() -> None:
    level = cuts.level_of(cuts.units_of(str(need("kuairand/log.parquet"))), splits=40)
    assert level.cells == pytest.approx(0.05, abs=0.045)
    assert np.max(level[1:]) < 0.19
