"""Rhythms of rows by hour of the day, for tests of clocks."""

from __future__ import annotations

import numpy as np

from abeval.stats.faults import Rhythm, Sums


def sums(y: np.ndarray, x: np.ndarray) -> Sums:
    """Of clusters."""
    return Sums(len(y), *(int(v.sum()) for v in (y, x, y * y, y * x, x * x)))


def rhythm_of(counts: np.ndarray) -> Rhythm:
    """Of rows by cluster and hour, shape (clusters, 24)."""
    whole, angle = counts.sum(axis=1), np.arange(24) / 24 * 2 * np.pi
    turns = [np.round(1000 * f(angle)).astype(int) for f in (np.cos, np.sin)]
    return Rhythm(
        [sums(counts[:, hour], whole) for hour in range(24)],
        [sums(counts @ turn, whole) for turn in turns],
    )
