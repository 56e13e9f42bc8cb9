"""Logs with a row for each state of an order are told; lines of orders are not."""

from __future__ import annotations

import numpy as np
import pandas as pd

from abeval.results.trust import Check
from benchmarks.calibration.healthy_logs import analyze_world
from tests.relations import answer, relation
from tests.worlds.healthy import World, buyers

NAME = "outcome_states:orders"


def checks(form: str, where: str | None = None, metric_where: str | None = None) -> list[Check]:
    """The check of a log of orders, of their states, or of their lines."""
    logs, entries = buyers(np.random.default_rng(3), 1_000, 0.0)
    orders = logs["orders"].assign(order_id=np.arange(len(logs["orders"])), status="paid")
    created = orders.assign(status="created", ts=orders["ts"] - pd.Timedelta(minutes=3))
    lines = orders.assign(amount=orders["amount"] + 1)
    rows = {"orders": [orders], "states": [created, orders], "lines": [orders, lines]}[form]
    source = {} if where is None else {"where": where}
    events = {**entries["logs"], "events": {"orders": source}}
    log = pd.concat(rows).reset_index(drop=True)
    chosen = {} if metric_where is None else {"where": metric_where}
    metrics = [{**metric, **chosen} for metric in entries["metrics"]]
    changed = {**entries, "logs": events, "metrics": metrics}
    result = analyze_world(World({**logs, "orders": log}, changed))
    return [check for check in result.trust if check.name == NAME]


def test_states_of_an_order_were_summed_in_silence() -> None:
    (found,) = checks("states")
    assert (found.status, found.value, found.metrics) == ("warn", 1.0, ("buyers", "revenue"))
    assert "where = \"status = '…'\"" in found.remedy
    assert checks("states", where="status = 'paid'") == []


def test_metrics_that_choose_among_states_are_not_warned_of() -> None:
    """What the documentation shows, `where = "status = 'paid'"` in a metric, was warned of."""
    assert checks("states", metric_where="status = 'paid'") == []
    (found,) = checks("states", metric_where="amount > 0")
    assert found.metrics == ("buyers", "revenue")


def test_orders_and_their_lines_pass() -> None:
    assert checks("orders") == checks("lines") == []


def test_rows_of_orders_with_several_states_are_counted() -> None:
    rows = relation("id, state", (1, "a"), (1, "b"), (2, "a"), (2, "a"), (None, "a"), (3, None))
    assert answer("audit/order_states", order_rows=rows) == [(2, 5)]
