"""How alike units of a cluster are."""

from __future__ import annotations

import numpy as np
import pytest

from abeval.stats.clusters import estimate_icc
from abeval.stats.records import Refusal


@pytest.mark.parametrize("icc", [0.0, 0.05, 0.3])
def test_the_correlation_of_a_simulation_is_found(icc: float) -> None:
    rng = np.random.default_rng(3)
    sizes = rng.integers(5, 60, 2000)
    cluster = np.repeat(np.arange(2000), sizes)
    values = rng.normal(0, icc**0.5, 2000)[cluster] + rng.normal(0, (1 - icc) ** 0.5, len(cluster))
    sums, squares = (np.bincount(cluster, (values - values.mean()) ** k) for k in (1, 2))
    own = estimate_icc(sizes, sums, squares)
    # A variance of 2,000 draws has a relative error of 3 %.
    assert own.icc == pytest.approx(icc, rel=0.1, abs=0.002)
    # What the mean's variance really is, over that of as many independent units.
    assert own.effect == pytest.approx(1 + ((sizes**2).sum() / sizes.sum() - 1) * icc, rel=0.1)


def test_each_group_has_a_mean_of_its_own() -> None:
    deviations = np.array([[-1.0, 1], [1, -1], [-1, 1], [1, -1]])
    squares = (deviations**2).sum(axis=1)
    assert estimate_icc([2] * 4, deviations.sum(axis=1), squares, groups=2).icc == 0.0


def test_one_cluster_or_units_alone_say_nothing() -> None:
    for sizes in ([4], [1, 1]):
        with pytest.raises(Refusal, match="two clusters"):
            estimate_icc(sizes, [1.0] * len(sizes), [1.0] * len(sizes))
