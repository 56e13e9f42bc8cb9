"""The queries of served values and of serving, against pandas and SciPy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.sql import query


@pytest.fixture(scope="module")
def served() -> pd.DataFrame:
    """Rows of both sides with tied scores, unknown ones, and calls that failed."""
    rng = np.random.default_rng(8)
    rows = 400
    own = rng.integers(0, 12, rows) / 8
    table = pd.DataFrame(
        {
            "side": rng.choice(["control", "variant"], rows),
            "cluster": rng.integers(0, 3, rows),
            "state": rng.choice(["plain", "failed", "late"], rows, p=[0.8, 0.1, 0.1]),
            "click": rng.integers(0, 2, rows),
            "own": own,
            "served_score": np.round(own + rng.normal(0, 0.3, rows), 1),
        }
    )
    for flag in ("timeout", "fallback", "empty"):
        table[flag] = rng.integers(0, 2, rows).astype(float)
    table["latency"] = rng.gamma(2, 30, rows).round(3)
    for column in ("timeout", "fallback", "empty", "latency", "own", "served_score"):
        table[column] = table[column].mask(rng.random(rows) < 0.1)
    times = {"time_ms": 1, "feature_time": 1, "age_ms": 1}
    return table.assign(learned=0, stale=0.0, model_version="v", **times)


@pytest.fixture
def engine(served: pd.DataFrame) -> Iterator[DuckDBEngine]:
    engine = DuckDBEngine()
    # A null of pandas is a NaN; the queries read nulls.
    engine.add_frame("agreement_served", served.convert_dtypes())
    yield engine
    engine.close()


def test_orders_agree_as_spearmans_correlation_says_with_ties(
    engine: DuckDBEngine, served: pd.DataFrame
) -> None:
    rows = engine.frame(query("agreement/served_values")).set_index("side")
    plain = served[(served.state == "plain")].dropna(subset=["own", "served_score"])
    for side, own in plain.groupby("side"):
        row = rows.loc[side]
        correlation = row.own_served / np.sqrt(row.own_own * row.served_served)
        expected = stats.spearmanr(own.own, own.served_score).statistic
        assert correlation == pytest.approx(expected, rel=1e-12)


def test_serving_is_counted_by_side_and_group(engine: DuckDBEngine, served: pd.DataFrame) -> None:
    rows = engine.frame(query("agreement/served_sums")).drop(columns="model_version")
    rows = rows.groupby(["side", "cluster"]).sum()
    for key, own in served.groupby(["side", "cluster"]):
        row, healthy = rows.xs(key), own[own.state != "failed"]
        assert row.impressions == len(own)
        for flag in ("timeout", "fallback", "empty"):
            assert (row[f"{flag}_known"], row[flag]) == (own[flag].count(), own[flag].sum())
        assert row.latency_known == own.latency.count()
        assert row.latency_thousandths == round(1000 * own.latency.sum())
        assert (row.healthy, row.healthy_clicks) == (len(healthy), healthy.click.sum())
