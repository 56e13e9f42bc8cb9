"""Replays by cut: metrics of scores in parts of the traffic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import TypeAdapter

import abeval
from abeval.offline.slices import CELLS
from abeval.report.page import page_html
from abeval.results.replay import ReplayResult
from abeval.results.study import Study
from tests.report.pages import whole

SCORED = ("gauc[impressions]", "auc", "q_ctr", "log_loss")


def log(users: int = 300, seed: int = 5) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(users), rng.poisson(9, users) + 1)
    place = rng.choice(["feed", "home", "shop"], user.size, p=[0.5, 0.3, 0.2])
    place = np.where((user < 20) & (rng.random(user.size) < 0.3), "rare", place)
    truth = rng.beta(2, 5, user.size)
    return pd.DataFrame(
        {
            "user_id": user,
            "variant": np.where(user % 2 == 1, "b", "a"),
            "ts": pd.Timestamp("2026-01-08 12:00")
            + pd.to_timedelta(np.arange(user.size), unit="s"),
            "request_id": np.arange(user.size) // 4,
            "item_id": np.arange(user.size),
            "place": np.where(rng.random(user.size) < 0.02, None, place),
            "old": np.round(np.clip(truth + rng.normal(0, 0.2, user.size), 0.01, 0.99), 3),
            "new": np.round(np.clip(truth + rng.normal(0, 0.1, user.size), 0.01, 0.99), 3),
            "click": rng.random(user.size) < truth,
        }
    )


def replayed(rows: pd.DataFrame, cuts: dict[str, str], **entries: Any) -> ReplayResult:
    loaded = abeval.define(
        ".",
        **{
            "name": "places",
            "unit": "user_id",
            "control": "a",
            "variants": {"a": {"model": "old"}, "b": {"model": "new"}},
            "models": {"old": {"score": "old"}, "new": {"score": "new"}},
            "period": {"start": "2026-01-08", "end": "2026-01-15"},
            "logs": {"impressions": {}},
            "cuts": cuts,
            "engine": {"threads": 1},
            **entries,
        },
    )
    return loaded.replay(metrics=[*SCORED, "ndcg@3[lin]"], logs={"impressions": rows})


@pytest.fixture(scope="module")
def result() -> ReplayResult:
    return replayed(log(), {"place": "place"})


@pytest.mark.whole
@pytest.mark.parametrize("cell", ["feed", "home"])
def test_a_cell_is_the_log_filtered_to_it(result: ReplayResult, cell: str) -> None:
    only = replayed(log().query(f"place == '{cell}'"), {})
    rows = [row for row in result.cut_rows if row.cell == cell]
    assert {row.metric for row in rows} == set(SCORED)
    for row in rows:
        whole = only.row(row.metric, row.model, row.traffic)
        assert row.value == pytest.approx(whole.value, abs=1e-12)
        # Units without an impression in the cell count as zeros: n / (n - 1) differs by 1e-3.
        assert (row.low, row.high) == pytest.approx((whole.low, whole.high), rel=5e-4)
        assert row.units == whole.units
    for pair in (pair for pair in result.cut_pairs if pair.cell == cell):
        whole = only.pair(pair.metric, pair.traffic)
        assert pair.difference == pytest.approx(whole.difference, abs=1e-12)


def test_every_pair_has_holms_p_over_the_cells(result: ReplayResult) -> None:
    pairs = [p for p in result.cut_pairs if (p.metric, p.traffic) == ("auc", "pooled")]
    known = [p for p in pairs if p.p_value is not None]
    smallest = min(known, key=lambda p: p.p_value)
    assert smallest.p_adjusted == pytest.approx(min(1, len(known) * smallest.p_value))


def test_a_cell_of_few_units_is_refused(result: ReplayResult) -> None:
    rare = [row for row in (*result.cut_rows, *result.cut_pairs) if row.cell == "rare"]
    assert {row.reason for row in rare} == {"too_few_units"}
    assert {row.value for row in rare} == {None}
    assert all(0 < row.units < 30 for row in rare)


def test_the_rest_is_as_without_cuts(result: ReplayResult) -> None:
    plain = replayed(log(), {})
    assert (plain.cut_rows, plain.cut_pairs) == ((), ())
    assert (plain.rows, plain.pairs) == (result.rows, result.pairs)
    again = TypeAdapter(ReplayResult).validate_python(result.to_dict())
    assert (again.cut_rows, again.cut_pairs) == (result.cut_rows, result.cut_pairs)


@pytest.mark.whole
def test_many_values_and_private_ones_are_one_cell() -> None:
    many = replayed(log(), {"user": "user_id"})
    assert len({row.cell for row in many.cut_rows}) == CELLS
    assert any("300 values" in note for note in many.notes)
    private = replayed(log(), {"place": "place"}, privacy={"min_units": 60})
    cells = {(row.cell, row.traffic): row.units for row in private.cut_rows}
    assert min(cells.values()) >= 60
    rows = log()
    joined = rows[~rows["place"].isin({cell for cell, _ in cells})]
    assert cells["other", "pooled"] == joined["user_id"].nunique()


def test_the_page_and_the_terminal_show_them(result: ReplayResult) -> None:
    page = whole(page_html(Study(replay=result)))
    title = "Cuts: parts of the traffic"
    assert "feed" in page[page.index("Models by cut place", page.index(title)) :]
    assert title not in whole(page_html(Study(replay=replayed(log(60), {}))))
    text = str(result)
    assert "Models by cut" in text
    assert "feed" in text[text.index("Models by cut") :]
