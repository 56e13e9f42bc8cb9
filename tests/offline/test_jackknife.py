"""Intervals of catalogue metrics and of the calibration error are as wide as they should be."""

import numpy as np
import pandas as pd
import pytest

from abeval.offline.candidates import UNIT_GROUPS
from abeval.offline.groups import Bins, Listed
from abeval.stats.resampling import jackknife_se

GROUPS, USERS, ITEMS = UNIT_GROUPS, 640, 60


def lists(rng: np.random.Generator) -> Listed:
    """Each user has a taste, and lists of three items that follow it."""
    taste = rng.permuted(np.tile(0.9 ** np.arange(ITEMS), (USERS, 1)), axis=1)
    taste = taste + 2 * 0.95 ** np.arange(ITEMS)
    keys = rng.random((2, USERS, ITEMS)) ** (1 / taste)
    rows = []
    for request in keys:
        top = np.argsort(-request, axis=1)[:, :3]
        group = np.repeat(np.arange(USERS) % GROUPS, 3)
        rows.append(pd.DataFrame({"item_id": top.ravel(), "unit_group": group}))
    frame = pd.concat(rows).groupby(["item_id", "unit_group"], as_index=False).size()
    frame["lists"] = frame["size"]
    frame["weight"], frame["squared_weight"] = frame["size"] / np.sqrt(3), frame["size"] / 3
    frame["units"] = np.minimum(frame["size"], USERS // GROUPS)
    total, units = np.full(GROUPS, 2.0 * USERS / GROUPS), np.full(GROUPS, 1.0 * USERS / GROUPS)
    return Listed.of(frame, total, units, USERS // 4, ITEMS + 10)


@pytest.mark.whole
def test_the_standard_error_is_the_spread_over_logs():
    rng, names = np.random.default_rng(4), ("gini", "gini_listed", "entropy", "personalisation")
    values, errors = np.zeros((2, 150, len(names)))
    for log in range(150):
        listed = lists(rng)
        whole, parts = listed.whole(), listed.without(np.arange(GROUPS))
        values[log] = [whole.values(name)[0] for name in names]
        errors[log] = [jackknife_se(parts.values(name)) for name in names]
    # Over 150 logs a standard deviation is known to 6 %.
    assert errors.mean(axis=0) == pytest.approx(values.std(axis=0, ddof=1), rel=0.2)


def curve(rng: np.random.Generator, wrong: float) -> Bins:
    user = np.arange(USERS)
    chance = 1 / (1 + np.exp(2 + rng.normal(size=(USERS, 1)) + rng.normal(size=(USERS, 20))))
    click = rng.random(chance.shape) < chance
    score = np.clip(chance * wrong, 0, 1)
    rows = {"bin": np.minimum(score * 10, 9).astype(int).ravel(), "rows": 1}
    frame = pd.DataFrame({**rows, "unit_group": np.repeat(user % GROUPS, 20)})
    frame["clicks"], frame["predicted"] = click.ravel(), score.ravel()
    return Bins.of(frame.groupby(["bin", "unit_group"], as_index=False).sum(), GROUPS)


def test_the_error_of_a_wrong_model_has_a_right_interval():
    rng, values, errors, groups = np.random.default_rng(6), [], [], np.arange(GROUPS)
    for _ in range(150):
        bins = curve(rng, wrong=1.5)
        values.append(bins.error())
        errors.append(jackknife_se(bins.errors_without(groups)))
        assert bins.bias(groups) < 0.25 * errors[-1]
    assert np.mean(errors) == pytest.approx(np.std(values, ddof=1), rel=0.2)


def test_the_error_of_a_right_model_is_noise_and_is_said_to_be():
    rng, groups = np.random.default_rng(7), np.arange(GROUPS)
    found = [curve(rng, wrong=1.0) for _ in range(40)]
    errors = [jackknife_se(bins.errors_without(groups)) for bins in found]
    assert (
        np.mean([bins.bias(groups) > 0.25 * se for bins, se in zip(found, errors, strict=True)])
        > 0.9
    )


def test_a_group_left_out_is_a_log_without_it():
    listed = lists(np.random.default_rng(8))
    without = listed.without(np.array([3]))
    kept = np.arange(GROUPS) != 3
    sizes = (listed.lists[kept], listed.units[kept], listed.equal, listed.catalogue)
    again = Listed(listed.items[..., kept], *sizes).whole()
    for name in ("coverage", "coverage_equal", "gini", "gini_listed", "entropy", "personalisation"):
        assert without.values(name)[0] == pytest.approx(again.values(name)[0], abs=1e-12)
