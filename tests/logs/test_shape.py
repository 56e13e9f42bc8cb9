"""What the views hold: of each metric and segment what the logs can give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import abeval
from abeval.assignment import SUB_BUCKETS
from abeval.engines.duckdb import DuckDBEngine
from abeval.errors import LogError
from abeval.experiment.load import parse_experiment
from abeval.logs.views import write_experiment_view
from abeval.results.analysis import Result
from tests.logs.small import analyze, aside, per_unit, small_log, values


def test_a_metric_may_need_all_that_the_log_has(tmp_path: Path) -> None:
    log = small_log()
    scored = analyze(log[["user_id", "variant", "click", "score"]], metrics=["auc", "gauc"])
    assert None not in (*values(scored)["auc"], *values(scored)["gauc"])
    ranked = [{"name": "high", "value": "rank", "quantile": 0.9}, {"name": "sessions_per_user"}]
    timed = log[["user_id", "variant", "ts"]].assign(rank=log.index)
    assert None not in values(analyze(timed, metrics=ranked))["sessions_per_user"]
    dwelt = log[["user_id", "variant", "dwell"]]
    dwelt.to_parquet(tmp_path / "1.parquet")
    dwelt[["user_id", "variant"]].to_parquet(tmp_path / "2.parquet")
    source = {"path": "*.parquet", "dwell_without_click": "keep"}
    found = analyze(
        folder=tmp_path,
        metrics=["dwell_per_user"],
        logs={"impressions": source},
        cleaning={"duplicates": "unchecked"},
    )
    assert values(found)["dwell_per_user"][0] == pytest.approx(per_unit(log, "dwell", "a"))
    assert any("1 of 2 files of the impressions lack" in note for note in found.notes)


def test_a_segment_by_the_category_of_items_is_looked_up() -> None:
    log = small_log().assign(category=lambda f: "c" + (f.item_id % 3).astype(str))
    items = log[["item_id", "category"]].drop_duplicates()
    entries: dict[str, Any] = {"segments": {"kind": "category"}, "metrics": ["ctr"]}
    found = analyze(log.drop(columns="category"), items=items, **entries)
    cells = [(row.cell, row.units, row.treatment) for row in found.segments]
    expected = [(row.cell, row.units, row.treatment) for row in analyze(log, **entries).segments]
    assert cells == expected
    assert {cell for cell, *_ in cells} == {"c0", "c1", "c2"}


def test_scores_are_read_if_any_metric_reads_them() -> None:
    log, names = small_log(), ["ctr", "q_ctr", "auc", "sessions_per_user"]
    found, nothing = analyze(log, metrics=names), analyze(log.assign(score=None), metrics=names)
    own = log[log.variant == "a"]
    assert values(found)["q_ctr"][0] == pytest.approx(own.score.sum() / own.click.sum())
    clicked = own.score[own.click == 1].rank(method="average")
    both = own.score.rank(method="average")[own.click == 1].sum() - clicked.sum()
    pairs = len(clicked) * (len(own) - len(clicked))
    assert values(found)["auc"][0] == pytest.approx(both / pairs)
    reasons = {row.metric: row.reason for row in nothing.scorecard}
    assert reasons["ctr"] is reasons["sessions_per_user"] is None
    assert None not in (reasons["q_ctr"], reasons["auc"])


def test_a_score_that_is_text_is_refused() -> None:
    models = {"old": {"score": "category"}}
    with pytest.raises(LogError, match=r"models\.old\.score: .*but a score is a number"):
        analyze(small_log(), models=models, variants={"a": {"model": "old"}, "b": {}})


def of_units(frame: pd.DataFrame, **entries: Any) -> Result:
    base = {"name": "e", "control": "a", "variants": {"a": {}, "b": {}}, "unit": "user_id"}
    metrics = [{"name": "spent"}]
    loaded = abeval.define(**{**base, "logs": {"units": {}}, "metrics": metrics, **entries})
    return loaded.analyze(logs={"units": frame})


USERS = pd.DataFrame(
    {
        "user_id": range(60),
        "variant": ["a", "b"] * 30,
        "spent": [float(n) for n in range(60)],
    }
)


def test_a_table_of_rows_has_no_unit_that_is_repeated() -> None:
    rows = USERS.drop(columns="user_id")
    assert aside(of_units(rows, unit="row"), "units") == {"used": 60}
    again = pd.concat([USERS, USERS.head(3).assign(spent=-1.0)])
    assert aside(of_units(again), "units") == {"used": 57, "repeated_unit": 6}


def test_a_segment_of_a_table_of_units_is_its_column_whenever_it_was_known() -> None:
    users = USERS.assign(tier=["free", "free", "pro"] * 20)
    segments = {"tier": {"value": "tier", "known": "before"}}
    found = of_units(users, segments=segments)
    assert {row.cell: row.units for row in found.segments} == {"free": 20, "pro": 10}


def test_items_form_groups_of_the_same_number_of_sub_buckets() -> None:
    variants = {"control": "a", "variants": {"a": {}, "b": {}}}
    logs: dict[str, Any] = {"impressions": {}}
    own = parse_experiment({"name": "e", "unit": "user_id", **variants, "logs": logs})
    engine = DuckDBEngine()
    engine.table("experiment", write_experiment_view(own))
    even = f"select {SUB_BUCKETS} % item_groups = 0 from experiment"
    assert engine.rows(even) == [(True,)]
    engine.close()
