"""Who was shown what, over arrays, against the query that defines it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abeval.aggregates.kernels import reach_pass
from abeval.aggregates.kernels.reach import Keys
from abeval.aggregates.kernels.reach_pass import reach_table
from abeval.aggregates.reach import queried_reach
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.queries import query

ROWS = st.lists(
    st.tuples(
        st.integers(1, 12),
        st.one_of(st.none(), st.sampled_from(["a", "b", "ä", "", "zz"])),
        st.booleans(),
    ),
    max_size=80,
)
COLUMNS = ["variant", "item_id", "item_group", "units", "impressions"]


def held(rows: list[tuple[int, str | None, bool]]) -> DuckDBEngine:
    """An engine with units 1 to 9 in two variants and five groups; others are not analysed."""
    engine = DuckDBEngine()
    frame = pd.DataFrame(rows, columns=["unit_id", "item_id", "in_period"])
    engine.add_frame("given", frame.astype({"unit_id": "int64", "item_id": "str"}))
    engine.table(
        "impressions",
        "select unit_id, cast(item_id as varchar) as item_id, "
        "cast(in_period as boolean) as in_period from given",
    )
    engine.table(
        "units",
        "select i as unit_id, case when i < 5 then 'new' else 'old' end as variant, "
        "cast(i * 7 as bigint) as sub_bucket from range(1, 10) r(i)",
    )
    engine.view("experiment", "select 5 as item_groups")
    return engine


def assert_as_the_query(engine: DuckDBEngine) -> None:
    variants = ["old", "new", "absent"]
    found = reach_table(engine, variants)
    assert found is not None
    defined = queried_reach(engine, query("catalogue/reach"), variants)
    assert (found.variants, found.items) == (defined.variants, defined.items)
    rows = [sorted(np.stack(one[2:], axis=1).tolist()) for one in (found, defined)]
    assert rows[0] == rows[1]


@settings(max_examples=40, deadline=None)
@given(ROWS)
def test_arrays_give_what_the_query_gives(rows):
    engine = held(rows)
    assert_as_the_query(engine)
    engine.close()


@pytest.mark.parametrize("block", [1, 30, 10_000])
def test_blocks_of_any_size_give_the_same(block, monkeypatch):
    monkeypatch.setattr(reach_pass, "BLOCK", block)
    engine = held([(u, "abcdefg"[(u * u + i) % 7], i % 5 > 0) for u in range(13) for i in range(9)])
    assert_as_the_query(engine)
    engine.close()


def test_numbers_that_do_not_fit_are_left_to_the_query(monkeypatch):
    monkeypatch.setattr(Keys, "fits", lambda self, groups: False)
    engine = held([(1, "a", True)])
    assert reach_table(engine, ["old", "new"]) is None
    engine.close()


def test_keys_fit_into_64_bits_or_not():
    assert Keys.of(1 << 20, 1 << 30).fits(128)
    assert not Keys.of(1 << 30, 1 << 30).fits(256)
    assert not Keys.of(1, 1 << 32).fits(2)
