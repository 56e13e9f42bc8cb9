"""Intervals of catalogue metrics and of the calibration error are as wide as they should be."""

import numpy as np
import pandas as pd
import pytest

from abeval.offline.candidates import UNIT_GROUPS
from abeval.offline.groups import Bins, ListedItems
from abeval.stats.resampling import jackknife_se

GROUPS, USERS, ITEMS = UNIT_GROUPS, 640, 60


NAMES = ("coverage", "coverage_equal", "gini", "gini_listed", "entropy", "personalisation")


def listed_rows(rng: np.random.Generator) -> pd.DataFrame:
    """Each user has a taste, and two lists of three items that follow it."""
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
    return frame


def of_groups(frame: pd.DataFrame, groups: int) -> ListedItems:
    """The lists of so many groups of units."""
    columns = {str(name): frame[name].to_numpy() for name in frame.columns}
    total = np.zeros(GROUPS)
    total[:groups] = USERS / GROUPS
    return ListedItems.build(columns, 2 * total, total, USERS // 4, ITEMS + 10)


def lists(rng: np.random.Generator) -> ListedItems:
    return of_groups(listed_rows(rng), GROUPS)


@pytest.mark.slow
def test_the_standard_error_is_the_spread_over_logs():
    rng, names = np.random.default_rng(4), ("gini", "gini_listed", "entropy", "personalisation")
    values, errors = np.zeros((2, 150, len(names)))
    for log in range(150):
        listed = lists(rng)
        values[log] = [listed.values(name)[0] for name in names]
        errors[log] = [jackknife_se(listed.values(name)[1]) for name in names]
    # Over 150 logs a standard deviation is known to 6 %.
    assert errors.mean(axis=0) == pytest.approx(values.std(axis=0, ddof=1), rel=0.2)


def curve(rng: np.random.Generator, wrong: float) -> Bins:
    user = np.arange(USERS)
    chance = 1 / (1 + np.exp(2 + rng.normal(size=(USERS, 1)) + rng.normal(size=(USERS, 20))))
    click = rng.random(chance.shape) < chance
    score = np.clip(chance * wrong, 0, 1)
    rows = {"bin": np.minimum(score * 10, 9).astype(int).ravel(), "rows": 1}
    frame = pd.DataFrame({**rows, "unit_group": np.repeat(user % GROUPS, 20)})
    frame["clicks"], frame["predicted"] = click.ravel(), np.rint(1e9 * score.ravel())
    bins = frame.groupby(["bin", "unit_group"], as_index=False).sum()
    return Bins.build({str(name): bins[name].to_numpy() for name in bins.columns}, GROUPS)


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


@pytest.mark.parametrize("seed", [8, 9])
def test_a_group_left_out_is_a_log_without_it(seed):
    rows = listed_rows(np.random.default_rng(seed))
    # An item that only the last group lists goes with it.
    alone = pd.DataFrame({"item_id": [ITEMS], "unit_group": [GROUPS - 1]})
    rows = pd.concat([rows, alone.assign(lists=1, units=1, weight=0.5, squared_weight=0.25)])
    rest = of_groups(rows[rows["unit_group"] < GROUPS - 1], GROUPS - 1)
    for name in NAMES:
        without = of_groups(rows, GROUPS).values(name)[1][-1]
        assert without == pytest.approx(rest.values(name)[0], abs=1e-12), name


def test_values_of_lists_are_the_ones_that_their_definitions_give():
    rows = listed_rows(np.random.default_rng(8))
    listed, lists_of = of_groups(rows, GROUPS), rows.groupby("item_id")["lists"].sum().to_numpy()
    size, share = ITEMS + 10, lists_of / lists_of.sum()
    padded = np.append(lists_of, np.zeros(size - lists_of.size))
    expected = {
        "coverage": lists_of.size / size,
        "gini": np.abs(padded[:, None] - padded).mean() / 2 / padded.mean(),
        "gini_listed": np.abs(lists_of[:, None] - lists_of).mean() / 2 / lists_of.mean(),
        "entropy": -(share * np.log2(share)).sum(),
    }
    for name, value in expected.items():
        assert listed.values(name)[0] == pytest.approx(value, rel=1e-12), name


def test_lists_of_one_group_only_have_no_value_without_it():
    rows = listed_rows(np.random.default_rng(8))
    value, without = of_groups(rows[rows["unit_group"] == 0], 1).values("entropy")
    assert value > 0
    assert np.isnan(without[0])
    assert without[1:] == pytest.approx(value)
