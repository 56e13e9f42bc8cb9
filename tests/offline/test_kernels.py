"""What kernels compute over arrays is what the queries say."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.sql import ArrayEngine
from abeval.offline.candidates import Candidates, one_traffic, read_units
from abeval.offline.evaluate import JudgedColumns, evaluate_log
from abeval.offline.metrics import PRESETS, UNCUT, Policy, Scoring, default_metrics, metrics_of
from abeval.offline.rows import Groups, read_rows
from abeval.offline.sums import Sums, run_models
from tests.examples import drawn

METRICS = tuple(
    dict.fromkeys(
        m
        for m in (
            *default_metrics([1, 3, 5]),
            *(m for p in PRESETS.values() for m in p.metrics([2])),
            *metrics_of(["rprec", "ndcg[lin,list]", "map[hits]", "arhr"]),
        )
        if m.definition.family in ("list", "pairs")
    )
)
MODELS = {"a": "m_0", "b": "m_1"}


class QueriesOnly:
    """An engine that can hand over no chunks of rows."""

    def __init__(self, engine: DuckDBEngine) -> None:
        for name in ("view", "table", "rows", "frame", "columns", "arrays"):
            setattr(self, name, getattr(engine, name))


def random_log(seed: int) -> pd.DataFrame:
    """Users with lists of unlike lengths; ties, missing scores, graded or binary relevance."""
    rng = np.random.default_rng(seed)
    levels = [0, 0, 0, 1] if seed % 2 else [0, 0, 0, 1, 2, 4.5]
    lists = []
    for request in range(rng.integers(1, 25)):
        n = int(rng.integers(1, 9)) if rng.random() < 0.9 else int(rng.integers(20, 60))
        scores = rng.integers(0, 6, (2, n)) / 6
        scores[:, rng.random(n) < 0.1] = np.nan
        if rng.random() < 0.15:
            scores[int(rng.integers(2))] = np.nan
        lists.append(
            pd.DataFrame(
                {
                    "unit_id": request % 7,
                    "request_id": request,
                    "item_id": rng.permutation(100)[:n],
                    "grade": rng.choice(levels, n).astype(float),
                    "m_0": scores[0],
                    "m_1": scores[1],
                }
            )
        )
    return pd.concat(lists, ignore_index=True)


def sums_of(log: pd.DataFrame, fast: bool) -> Sums:
    engine = DuckDBEngine()
    engine.add_frame("log", log)
    usable = ", ".join(f"case when abs({m}) < 1e300 then {m} end as {m}" for m in MODELS.values())
    engine.view("shown", f"select unit_id, request_id, item_id, grade, {usable} from log")
    engine.table("traffic", one_traffic("log"))
    candidates = {
        model: f"select unit_id, request_id, item_id, {m} as score, item_id as tie, grade, "
        "null as category from shown"
        for model, m in MODELS.items()
    }
    rows = None
    if fast:
        fetched = read_rows(engine, "shown", "item_id", "request_id", MODELS)
        assert fetched is not None
        rows = fetched.of_units(read_units(engine).ids)
    asked = engine if fast else QueriesOnly(engine)
    assert isinstance(asked, ArrayEngine) == fast
    return run_models(
        asked,
        Candidates(candidates, rows=rows),
        read_units(asked),
        Scoring(METRICS, Policy()),
        lambda _: None,
    )


@pytest.mark.whole
@drawn(12)
@given(st.integers(0, 10_000), st.booleans())
def test_kernels_and_queries_agree(seed, shuffled):
    log = random_log(seed)
    if shuffled:
        log = log.sample(frac=1, random_state=seed)
    fast, slow = sums_of(log, True), sums_of(log, False)
    assert fast.coverage == slow.coverage
    assert (fast.uncompared, fast.longest, fast.largest_grade) == (
        slow.uncompared,
        slow.longest,
        slow.largest_grade,
    )
    assert set(fast.models) == set(slow.models)
    for model, found in slow.models.items():
        ours = fast.models[model].columns
        assert (fast.models[model].low, fast.models[model].high) == (found.low, found.high)
        for name, column in found.columns.items():
            if name in ours:
                most = 1e-10 if name[0] == "list" else 2e-9
                np.testing.assert_allclose(ours[name], column, rtol=0, atol=most, err_msg=str(name))
        for metric in METRICS:
            family, name, cutoff = metric.definition.family, metric.definition.above, UNCUT
            if family == "list":
                name, cutoff = metric.definition.column, metric.cutoff
            assert (family, name, cutoff) in found.columns
            assert (family, name, cutoff) in ours


@pytest.mark.parametrize("many", [True, False])
def test_units_with_few_and_many_relevant_rows(many):
    """One long list, with many ties."""
    rng = np.random.default_rng(3)
    n = 400
    log = pd.DataFrame(
        {
            "unit_id": 1,
            "request_id": 1,
            "item_id": rng.permutation(n),
            "grade": (rng.random(n) < (0.5 if many else 0.01)).astype(float),
            "m_0": rng.integers(0, 50, n) / 50,
            "m_1": rng.random(n),
        }
    )
    fast, slow = sums_of(log, True), sums_of(log, False)
    for model, found in slow.models.items():
        for name, column in found.columns.items():
            ours = fast.models[model].columns.get(name)
            if ours is not None:
                np.testing.assert_allclose(ours, column, rtol=1e-12, atol=2e-9, err_msg=str(name))


@pytest.mark.parametrize(
    "fault",
    [
        lambda log: pd.concat([log, log.head(1)]),
        lambda log: log.assign(unit_id=range(len(log))),
        lambda log: log.astype({"request_id": str}),
        lambda log: log.assign(item_id=[None, *log["item_id"][1:]]),
    ],
)
def test_what_needs_mending_is_left_to_the_queries(fault):
    engine = DuckDBEngine()
    engine.add_frame("shown", fault(random_log(4)))
    assert read_rows(engine, "shown", "item_id", "request_id", MODELS) is None


def test_one_table_of_judged_rows_gives_what_lists_and_a_truth_give(tmp_path):
    log = random_log(9).rename(columns={"unit_id": "user", "grade": "click", "m_0": "old"})
    log.to_parquet(tmp_path / "log.parquet")
    columns = JudgedColumns(unit="user", relevance="click")
    found = evaluate_log(
        tmp_path / "log.parquet",
        {"first": "old", "second": "m_1"},
        columns=columns,
        metrics=["ndcg@3[lin]", "gauc[units]", "auc"],
    )
    twice = evaluate_log(
        pd.concat([log, log]), ["old"], columns=columns, metrics=["ndcg@3[lin]", "gauc[units]"]
    )
    once = evaluate_log(log, ["old"], columns=columns, metrics=["ndcg@3[lin]", "gauc[units]"])
    assert once.values() == twice.values()
    assert dict(twice.result.accounting)["items_repeated_in_a_request"] == len(log)
    assert {row.model for row in found.result.rows} == {"first", "second"}
    assert found.result.pair("auc").difference is not None


@pytest.mark.parametrize("missing", [None, float("nan"), float("inf")])
def test_rows_without_a_unit_or_a_relevance_are_counted(missing):
    log = random_log(9)
    log.loc[0, "grade"] = missing
    log["unit_id"] = log["unit_id"].astype("Int64")
    whole = evaluate_log(log, ["m_0"], metrics=["mrr"])
    stray = log.iloc[[1]].assign(unit_id=pd.array([None], dtype="Int64"))
    found = evaluate_log(pd.concat([log, stray]), ["m_0"], metrics=["mrr"])
    assert dict(whole.result.accounting)["rows_without_unit"] == 0
    assert dict(found.result.accounting)["rows_without_unit"] == 1
    assert dict(found.result.accounting)["rows_without_relevance"] == 1
    assert found.values() == whole.values()


@given(st.lists(st.integers(0, 4), max_size=30))
def test_blocks_hold_every_row_of_every_group_once(keys):
    key = np.array(keys, dtype=np.int64)
    groups = Groups.of(key)
    seen = [tuple(row) for block in groups.blocks() for row in block.matrix(groups.sorted(key))]
    assert sorted(x for row in seen for x in row) == sorted(keys)
    assert all(len(set(row)) == 1 for row in seen)
    assert len(seen) == len(set(keys))
