"""Bivariate normals behind pairs of estimates, against dense conditional normals."""

from __future__ import annotations

import numpy as np
import pytest

from abeval.stats import latent_normal
from abeval.stats.arrays import Floats
from abeval.stats.latent_normal import Nodes, Pairs
from abeval.stats.records import Refusal

VAGUE = 1e6
"""Variance of the means beforehand: next to nothing is known of them."""


def pairs(n: int = 7) -> Pairs:
    rng = np.random.default_rng(n)
    x, y = rng.normal(3, 1, n), rng.normal(-2, 1, n)
    return latent_normal.pairs_of(
        x, rng.uniform(0.3, 1, n), y, rng.uniform(0.3, 1, n), rng.uniform(-0.5, 0.5, n), None
    )


NODES = Nodes(np.array([0.5, 2.0]), np.array([1.5, 0.2]), np.array([0.7, -0.4]))


def conditional(known: Pairs, node: int, x_se: float) -> tuple[Floats, float]:
    """What a new true effect on y is expected to be: its weights on all estimates, its variance.

    The last weight is that of the new estimate on x.
    """
    n = len(known.x)
    a, b, r = (float(axis[node]) for axis in NODES)
    between = r * np.sqrt(a * b)
    true = np.array([[a, between], [between, b]])
    size = 2 * n + 2
    covariance = np.zeros((size, size))
    covariance[0::2, 0::2] = covariance[1::2, 1::2] = VAGUE
    for i in range(n):
        errors = np.diag([known.x_se[i] ** 2, known.y_se[i] ** 2])
        errors[0, 1] = errors[1, 0] = known.shared[i]
        covariance[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] += true + errors
    covariance[-2:, -2:] += true
    covariance[-2, -2] += x_se**2
    seen, wanted = covariance[:-1, :-1], covariance[-1, :-1]
    weights = np.linalg.solve(seen, wanted)
    return weights, float(covariance[-1, -1] - weights @ wanted)


@pytest.mark.parametrize("x_se", [0.1, 2.0])
def test_a_new_effect_is_what_all_estimates_and_its_own_make_expect(x_se: float) -> None:
    known = pairs()
    sums = latent_normal.sums_of(NODES, known)
    mean, variance = latent_normal.new_effect(NODES, sums, 1.7, x_se)
    pull = latent_normal.pull_of(NODES, sums, x_se)
    estimates = np.append(np.ravel([known.x, known.y], order="F"), 1.7)
    for node in (0, 1):
        weights, wanted = conditional(known, node, x_se)
        assert mean[node] == pytest.approx(weights @ estimates, abs=1e-4)
        assert variance[node] == pytest.approx(wanted, abs=1e-4)
        assert pull[node] == pytest.approx(weights[-1], abs=1e-5)


def test_means_are_those_of_generalised_least_squares() -> None:
    known = pairs(5)
    x, y = latent_normal.means(latent_normal.sums_of(NODES, known))
    for node in (0, 1):
        a, b, r = (float(axis[node]) for axis in NODES)
        inverse, weighted = np.zeros((2, 2)), np.zeros(2)
        for i in range(5):
            both = r * np.sqrt(a * b) + known.shared[i]
            block = [[a + known.x_se[i] ** 2, both], [both, b + known.y_se[i] ** 2]]
            inverse += np.linalg.inv(block)
            weighted += np.linalg.inv(block) @ [known.x[i], known.y[i]]
        assert [x[node], y[node]] == pytest.approx(np.linalg.solve(inverse, weighted))


def test_sums_of_many_pairs_are_those_of_each() -> None:
    """More pairs than are summed at once."""
    known = pairs(150)
    each = [
        latent_normal.sums_of(NODES, latent_normal.chosen(known, slice(i, i + 1)))
        for i in range(150)
    ]
    whole = latent_normal.sums_of(NODES, known)
    for total, parts in zip(whole, zip(*each, strict=True), strict=True):
        assert total == pytest.approx(np.sum(parts, axis=0))


def test_every_level_has_the_part_of_the_line_that_is_nearest_to_it() -> None:
    levels = np.array([-1.0, -0.5, 0.2, 1.0])
    assert latent_normal.widths(levels) == pytest.approx([0.25, 0.6, 0.75, 0.4])


def test_the_prior_of_a_grid_is_uniform_in_the_correlation_and_in_the_share_of_noise() -> None:
    known = pairs(9)
    nodes, volume = latent_normal.grid_of(known)
    assert volume.sum() == pytest.approx(2, abs=0.05)  # a correlation lies in (-1, 1)
    for variance, errors in ((nodes.x_variance, known.x_se), (nodes.y_variance, known.y_se)):
        at, place = np.unique(variance, return_inverse=True)
        part = np.bincount(place, volume) / 2
        noise = 1 / (1 + at * np.mean(1 / errors**2))
        # More variance, less noise: a node's share of noise lies in its own part of (0, 1).
        end = 1 - np.cumsum(part)
        assert np.all(end - 0.01 < noise)
        assert np.all(noise < end + part + 0.01)
    at, place = np.unique(nodes.correlation, return_inverse=True)
    part = np.bincount(place, volume) / volume.sum()
    assert (np.cumsum(part) - part / 2) * 2 - 1 == pytest.approx(at, abs=0.01)


PAIRS = {"x": [1, 2, 3, 4, 5], "x_se": [1] * 5, "y": [1, 2, 1, 2, 1], "y_se": [1] * 5}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"x_se": [1, 0, 1, 1, 1]}, "zero_variance"),
        ({"x_se": [1, -1, 1, 1, 1]}, "zero_variance"),
        ({"y_se": [1, 1, 0, 1, 1]}, "zero_variance"),
        ({"y_se": [1, 1, -1, 1, 1]}, "zero_variance"),
        ({"shared": 1.0}, "not_applicable"),
        ({"shared": -1.0}, "not_applicable"),
        ({"shared": [0, 0, 0, 0, 1.5]}, "not_applicable"),
        ({"y": [[1, 2, 1, 2, 1]]}, "inconsistent"),
        ({"groups": [1, 2, 3, 4]}, "inconsistent"),
        ({"groups": [1, 2, 3, 4, 4]}, "too_few_units"),
    ],
)
def test_pairs_without_a_normal_are_refused(changes: dict[str, object], reason: str) -> None:
    whole = {"shared": 0.0, "groups": None} | PAIRS | changes
    with pytest.raises(Refusal) as refused:
        latent_normal.pairs_of(**whole)  # type: ignore[arg-type]
    assert refused.value.reason == reason


def test_errors_share_what_their_correlation_says() -> None:
    known = latent_normal.pairs_of(
        PAIRS["x"], [2, 1, 1, 1, 1], PAIRS["y"], [3, 1, 1, 1, 0.5], [0.5, 0, -0.2, 0, 0.8], None
    )
    assert known.shared.tolist() == pytest.approx([3.0, 0, -0.2, 0, 0.4])
    assert known.groups.tolist() == [0, 1, 2, 3, 4]
