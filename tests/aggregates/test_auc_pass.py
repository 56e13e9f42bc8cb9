"""The score kernels against the queries that define them, to the last digit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abeval.aggregates.kernels import auc_pass
from abeval.aggregates.kernels.auc import half_away
from abeval.aggregates.kernels.auc_pass import score_tables
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.queries import query

SCORES = st.one_of(
    st.sampled_from([0.0, -0.0, 0.25, 0.5, 1.0]),
    st.floats(-1e6, 1e6),
)
ROWS = st.lists(st.tuples(st.integers(1, 9), SCORES, st.integers(0, 1)), min_size=1, max_size=60)


def held(rows: list[tuple[int, float, int]]) -> DuckDBEngine:
    """An engine with `scored`: units 1 to 4 in a, others in b."""
    frame = pd.DataFrame(rows, columns=["unit_id", "score", "click"])
    frame.insert(0, "variant", np.where(frame.unit_id <= 4, "a", "b"))
    engine = DuckDBEngine()
    engine.add_frame("scored", frame.astype({"unit_id": "int64", "click": "int64"}))
    return engine


def assert_equal_to_queries(engine: DuckDBEngine) -> None:
    found = score_tables(engine, ["a", "b", "absent"])
    for name, table in (("gauc", found.gauc), ("auc", found.auc)):
        defined = engine.frame(f"select * from ({query(f'units/{name}')}) order by unit_id")
        columns = [c for c in defined.columns if c != "in_period"]
        mine = pd.DataFrame(table).sort_values("unit_id")[columns].to_numpy()
        assert mine.tolist() == defined[columns].astype("int64").to_numpy().tolist(), name


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_kernels_give_what_the_queries_give(rows):
    engine = held(rows)
    assert_equal_to_queries(engine)
    engine.close()


@pytest.mark.parametrize("block", [7, 50, 1000])
def test_blocks_of_any_size_give_the_same(block, monkeypatch):
    rng = np.random.default_rng(1)
    rows = [
        (int(u), float(s), int(c))
        for u, s, c in zip(
            rng.integers(1, 9, 400),
            np.round(rng.random(400), 2),
            rng.random(400) < 0.2,
            strict=True,
        )
    ]
    engine = held(rows)
    monkeypatch.setattr(auc_pass, "BLOCK", block)
    assert_equal_to_queries(engine)
    engine.close()


def test_halves_round_away_from_zero_as_in_sql():
    values = np.array([0.5, 1.5, -0.5, -2.5, 0.49999999999999994, 7.0])
    engine = DuckDBEngine()
    asked = ", ".join(f"cast(round({v!r}::double) as bigint)" for v in values.tolist())
    assert half_away(values).tolist() == list(engine.rows(f"select {asked}")[0])
    engine.close()


def test_rows_that_come_in_many_chunks_give_the_same(monkeypatch, tmp_path):
    engine = DuckDBEngine()
    engine.table(
        "scored",
        "select case when i % 8 < 4 then 'a' else 'b' end as variant, i % 8 + 1 as unit_id, "
        "hash(i) % 1000 / 1000.0::double as score, cast(hash(i) % 7 = 0 as int) as click "
        "from range(400000) r(i)",
    )
    assert len(list(engine.chunks("select unit_id from scored"))) > 3
    whole = score_tables(engine, ["a", "b"])
    monkeypatch.setattr(auc_pass, "BLOCK", 20_000)
    parts = score_tables(engine, ["a", "b"], str(tmp_path / "new"))
    for one, other in zip(whole, parts, strict=True):
        pd.testing.assert_frame_equal(pd.DataFrame(one), pd.DataFrame(other))
    assert list((tmp_path / "new").iterdir()) == []
    engine.close()


def test_nothing_scored_is_no_row():
    engine = held([(1, 0.5, 1)])
    one = "select 'a' as variant, 1 as unit_id, 0.5e0 as score, 1 as click"
    engine.table("scored", f"select * from ({one}) where click = 0")
    found = score_tables(engine, ["a", "b"])
    assert [len(table["unit_id"]) for table in found] == [0, 0]
    engine.close()
