"""`k` that each request has of its own: an expression of the request, such as its viewport."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import abeval
from abeval.cli.main import app
from abeval.errors import AbevalError
from tests.offline.test_expressions_scores import experiment, log
from tests.sample import FILE

VIEWPORT = "case when screen = 'phone' then 2 else 4 end"
AT = {"phone": 2, "desktop": 4}


def screens(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(screen=np.where(rows.request_id % 3 == 0, "phone", "desktop"))


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    "metric",
    ["precision@{}", "recall@{}", "ndcg@{}[exp]", "map@{}[min]", "ndcg@{}[lin,ties]", "mrr@{}"],
)
def test_each_request_counts_at_its_own_cut_off(metric: str) -> None:
    rows = screens(log())
    id_ = metric.format("viewport")
    columns = abeval.JudgedColumns(unit="user", relevance="click")
    given: dict[str, Any] = {"columns": columns, "metrics": [id_]}
    found = abeval.evaluate_log(rows, ["base", "new"], k=[f"viewport: {VIEWPORT}"], **given)
    # By hand: the mean over requests with a relevant item, each at the k of its screen.
    for score in ("base", "new"):
        total, requests = 0.0, 0
        for screen, k in AT.items():
            part = rows[rows.screen == screen]
            of = {"columns": columns, "metrics": [metric.format(k)]}
            own = abeval.evaluate_log(part, [score], **of).result.row(metric.format(k))
            total += own.value * own.counted
            requests += int(own.counted)
        row = found.result.row(id_, score)
        assert row.value == pytest.approx(total / requests, abs=1e-12)
        assert row.counted == requests
    replayed = experiment("new").replay(
        logs={"impressions": rows}, metrics=[id_], k=(3, f"viewport: {VIEWPORT}")
    )
    row = replayed.row(id_, "blend", "pooled")
    assert row.value == pytest.approx(found.values("new")[id_], abs=1e-12)
    pair = found.result.pair(id_)
    assert (pair.low, pair.high) == pytest.approx(
        (replayed.pair(id_, "pooled").low, replayed.pair(id_, "pooled").high), abs=1e-12
    )


def test_lists_take_it_of_the_truth() -> None:
    run = pd.DataFrame(
        {"request_id": [1] * 3 + [2] * 3, "item_id": [1, 2, 3] * 2, "rank": [1, 2, 3] * 2}
    )
    truth = pd.DataFrame({"request_id": [1, 1, 2], "item_id": [2, 3, 3], "rows": [2, 2, 3]})
    found = abeval.evaluate(run, truth, k=["seen: rows"], metrics=["precision@seen", "recall@seen"])
    assert found.values() == pytest.approx({"precision@seen": 5 / 12, "recall@seen": 0.75})


def test_numbers_and_names_stand_beside_each_other() -> None:
    rows = screens(log())
    found = experiment("new").replay(logs={"impressions": rows}, k=(2, f"viewport: {VIEWPORT}"))
    ids = [name for name, _ in found.definitions]
    assert {"precision@2", "precision@viewport", "ild@viewport[category]", "coverage@2"} <= {*ids}
    # What is of all lists together has no cut-off of a request.
    assert "coverage@viewport" not in ids
    alone = experiment("new").replay(logs={"impressions": rows}, k=(2,))
    assert [row for row in found.rows if "viewport" not in row.metric] == [*alone.rows]


def test_a_cut_off_as_long_as_every_list_is_refused_where_order_cannot_matter() -> None:
    rows = screens(log())
    for text, reason in (("5", "k_covers_list"), (VIEWPORT, None)):
        found = experiment("new").replay(
            logs={"impressions": rows}, k=[f"v: {text}"], metrics=["recall@v"]
        )
        assert found.row("recall@v").reason == reason


@pytest.mark.parametrize(
    ("k", "says"),
    [
        (["v: position"], r"k 'v': 'position' is 1 to 5 in request 0\n.*one whole number"),
        (["v: case when screen = 'phone' then 2 end"], "is null in request 1"),
        (["v: 2.5"], "is 2.5 in request 0"),
        (["v: 0"], "is 0 in request 0"),
        (["v: case when position > 1 then 2 end"], "is 2 and null in request 0"),
        (["v: scren"], "reads 'scren', .*did you mean `screen`"),
        (["v: request_id + 1"], "has 120 different values\n.*at most 50"),
        (["v: screen"], "k 'v': 'screen' cannot be computed"),
        (["v: max(2)"], "k 'v': expression .* holds an aggregate"),
        (["viewport"], "or NAME: EXPRESSION; 'viewport' is neither"),
        (["v: 2", "v: 3"], "k: 'v' means something else"),
        ([0], "k must be one or more whole numbers"),
    ],
)
def test_a_cut_off_that_cannot_be_is_refused(k: Any, says: str) -> None:
    rows = screens(log())
    with pytest.raises(AbevalError, match=says):
        experiment("new").replay(logs={"impressions": rows}, metrics=["mrr"], k=k)


def test_a_name_that_no_cut_off_has_is_told() -> None:
    for metric, says in (
        ("ndcg@viewprt[lin]", "no cut-off is called 'viewprt'"),
        ("coverage@viewport", "coverage is of all lists together, which need one cut-off"),
    ):
        with pytest.raises(AbevalError, match=says):
            experiment("new").replay(k=[f"viewport: {VIEWPORT}"], metrics=[metric])


@pytest.mark.whole
def test_the_command_takes_both() -> None:
    command = [
        "replay",
        str(FILE),
        "--k",
        "3",
        "--k",
        "view: case when device = 'phone' then 5 else 9 end",
    ]
    done = CliRunner().invoke(app, [*command, "--metric", "ndcg@view[lin]", "--metric", "auc"])
    assert done.exit_code == 0, done.output
    assert "ndcg@view[lin]" in done.output
