"""Checks of the logs: what is refused, and what the refusal says to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from abeval.errors import LogError
from tests.logs.small import PERIOD, analyze, aside, small_log, values


def test_positions_count_from_1_where_a_metric_reads_them() -> None:
    log = small_log().assign(position=lambda f: f.position - 1)
    assert values(analyze(log, metrics=["ctr"]))
    with pytest.raises(LogError, match="the smallest 'position' is 0"):
        analyze(log, metrics=["ctr", "mrr"])
    from_zero = {"impressions": {"first_position": 0}}
    assert None not in values(analyze(log, metrics=["mrr"], logs=from_zero))["mrr"]


def test_ids_that_are_text_in_the_exposures_alone_are_refused() -> None:
    exposures = pd.DataFrame({"user_id": ["0", "1"], "variant": ["a", "b"]})
    with pytest.raises(LogError, match=r"logs\.exposures: .*they cannot be joined"):
        analyze(small_log(), exposures=exposures)


@pytest.mark.parametrize(
    ("column", "count", "remedy"),
    [("click", "clicks", "rename it"), ("taps", "taps", "remove it from `columns`")],
)
def test_a_count_of_clicks_has_a_metric_that_reads_it(column: str, count: str, remedy: str) -> None:
    log = small_log().rename(columns={"click": column})
    log[column] = np.arange(len(log)) % 4
    with pytest.raises(LogError) as error:
        analyze(log, logs={"impressions": {"columns": {"click": column}}})
    assert remedy in str(error.value)
    assert f'numerator = "{count}"' in str(error.value)


def test_a_schedule_needs_the_time_of_the_exposures_if_no_other_is_known() -> None:
    log = small_log().drop(columns="ts")
    users = log.groupby("user_id")["variant"].first().reset_index()
    splits = [
        {"from": "2024-03-01", "weights": {"a": 0.9, "b": 0.1}},
        {"from": "2024-03-02", "weights": {"a": 0.5, "b": 0.5}},
    ]
    entries: dict[str, Any] = {"assignment": {"splits": splits}}
    with pytest.raises(LogError, match="need the time at which a unit entered"):
        analyze(log, exposures=users, **entries)
    timed = users.assign(ts=pd.Timestamp("2024-03-01 12:00"))
    assert aside(analyze(log, exposures=timed, **entries)) == {"used": len(log)}


def test_the_time_of_an_exposure_may_be_a_number() -> None:
    log = small_log()
    users = log.groupby("user_id")["variant"].first().reset_index()
    noon = pd.Timestamp("2024-03-02 12:00")
    found = analyze(
        log,
        exposures=users.assign(ts=int(noon.timestamp())),
        logs={"exposures": {"time_unit": "s"}},
        period=PERIOD,
    )
    later = int((log["ts"] >= noon).sum())
    assert aside(found) == {"used": later, "not_exposed": len(log) - later}


def test_hashed_units_need_no_variant_in_the_log_of_exposures() -> None:
    log = small_log().drop(columns="variant")
    users = log[["user_id"]].drop_duplicates()
    rule = {"salt": "hashed"}
    found = analyze(log, exposures=users, assignment=rule)
    assert values(found) == values(analyze(log, assignment=rule))
    assert aside(found) == {"used": len(log)}
