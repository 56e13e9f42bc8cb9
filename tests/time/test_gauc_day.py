"""GAUC by day, against every pair of a click and a non-click."""

import duckdb
import numpy as np
import pandas as pd
import pytest

from abeval.engines.queries import query


def auc(score, click):
    gap = score[click == 1][:, None] - score[click == 0]
    return float(np.mean((gap > 0) + 0.5 * (gap == 0)))


def test_few_and_many_pairs_and_ties():
    rng = np.random.default_rng(3)
    sizes = {1: 5, 2: 40, 3: 700, 4: 3, 5: 90}
    rows = [
        (unit, f"2027-03-0{day}", rng.integers(0, 12) / 10, int(rng.random() < 0.3 and unit != 4))
        for unit, size in sizes.items()
        for day in (1, 2)
        for _ in range(size)
    ]
    log = pd.DataFrame(rows, columns=["unit_id", "day", "score", "click"]).assign(variant="a")
    connection = duckdb.connect()
    connection.register("scored_day", log)
    found = connection.execute(query("time/gauc_day")).df().set_index(["unit_id", "day"])
    both = {
        key: group
        for key, group in log.groupby(["unit_id", "day"])
        if 0 < group.click.sum() < len(group)
    }
    assert set(found.index) == set(both)
    assert {key[0] for key in both} == {1, 2, 3, 5}
    for key, group in both.items():
        row = found.loc[key]
        assert row.c_impressions == len(group)
        expected = auc(group.score.to_numpy(), group.click.to_numpy())
        assert row.c_weighted_auc / 1e9 / len(group) == pytest.approx(expected, abs=1e-9)
