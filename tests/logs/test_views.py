"""The columns of a log as the views have them: times, numbers, and the keys of clicks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from abeval.engines.duckdb import DuckDBEngine
from abeval.experiment.load import parse_experiment
from abeval.experiment.model import Experiment
from abeval.experiment.sources import ImpressionLog
from abeval.logs import views
from abeval.logs.mapping import LogColumns, map_columns
from tests.logs.small import PERIOD, analyze, aside, per_unit, small_log, values


def experiment(**entries: Any) -> Experiment:
    variants = {"control": "a", "variants": {"a": {}, "b": {}}}
    base = {"name": "e", "unit": "user_id", **variants, "logs": {"impressions": {}}}
    return parse_experiment({**base, **entries})


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDBEngine]:
    engine = DuckDBEngine()
    yield engine
    engine.close()


def columns(engine: DuckDBEngine, frame: object, source: ImpressionLog) -> LogColumns:
    engine.add_frame("rows", frame)
    return map_columns("impressions", source, engine.columns("rows"), None)


FIRST, LAST = -62_104_060_800, 253_370_764_799
"""The first second of the year 2, and the last of 9998."""


@pytest.mark.parametrize(
    ("unit", "first", "last", "milliseconds"),
    [
        ("s", FIRST, LAST, lambda time: time * 1000),
        ("ms", FIRST * 1000, LAST * 1000, lambda time: time),
        ("us", FIRST * 10**6, LAST * 10**6, lambda time: time // 1000),
        ("ns", -9_200 * 10**15, 9_200 * 10**15, lambda time: time // 10**6),
    ],
)
def test_a_number_too_large_to_be_a_time_is_none(
    engine: DuckDBEngine, unit: str, first: int, last: int, milliseconds: Callable[[int], int]
) -> None:
    assert pd.Timestamp(FIRST, unit="s").isoformat() == "0002-01-01T00:00:00"
    assert pd.Timestamp(LAST, unit="s").isoformat() == "9998-12-31T23:59:59"
    source = ImpressionLog.model_validate({"time_unit": unit})
    frame = pd.DataFrame({"ts": [first - 1, first, 0, last, last + 1]})
    sql = views.write_time_ms(columns(engine, frame, source), engine)
    rows = [time for (time,) in engine.rows(f"select {sql} from rows order by ts")]
    assert rows == [None, milliseconds(first), 0, milliseconds(last), None]


def test_a_timestamp_of_no_day_is_no_time_where_no_period_leaves_it_out(
    engine: DuckDBEngine,
) -> None:
    times = ["0001-12-31 23:59:59", "0002-01-01", "9998-12-31 23:59:59", "9999-01-01"]
    frame = pd.DataFrame({"ts": np.array(times, "datetime64[us]")})
    known = []
    for entries in ({}, {"period": PERIOD}):
        log = columns(engine, frame, ImpressionLog())
        sql = views.write_valid_time(experiment(**entries), log)
        known.append([time is not None for (time,) in engine.rows(f"select {sql} from rows")])
    assert known == [[False, True, True, False], [True] * 4]


@pytest.mark.parametrize(
    ("unit", "zone"), [("ms", None), ("ns", None), ("us", "Asia/Tokyo"), ("ns", "Asia/Tokyo")]
)
def test_an_expression_reads_the_local_time_of_every_type_of_time(
    unit: str, zone: str | None
) -> None:
    log = small_log()
    times = pa.array(log["ts"].astype("int64"), pa.timestamp("ms", zone)).cast(
        pa.timestamp(unit, zone)
    )
    table = pa.Table.from_pandas(log.drop(columns="ts")).append_column("ts", times)
    found = analyze(table, metrics=["ctr"], segments={"at": "cast(ts as varchar)"})
    seen = log.groupby("user_id")["ts"].min().astype(str).str.removesuffix(".000")
    assert {row.cell for row in found.segments} == set(seen)


def test_without_a_period_a_time_may_be_a_number() -> None:
    log = small_log()
    numbers = log.assign(ts=log["ts"].astype("int64") // 1000)
    found = analyze(numbers, logs={"impressions": {"time_unit": "s"}})
    assert [row.cell for row in found.daily] == [row.cell for row in analyze(log).daily]


def test_a_local_time_of_another_zone_is_moved_to_utc() -> None:
    log = small_log()
    tokyo = log.assign(ts=(log["ts"] + pd.Timedelta(hours=9)).astype("datetime64[us]"))
    found = analyze(tokyo, period=PERIOD, logs={"impressions": {"ts_zone": "Asia/Tokyo"}})
    expected = analyze(log, period=PERIOD)
    assert aside(found) == {"used": len(log)}
    assert [(row.cell, row.control) for row in found.daily] == [
        (row.cell, row.control) for row in expected.daily
    ]


def test_decimals_and_short_floats_are_doubles_in_an_expression(engine: DuckDBEngine) -> None:
    kinds = {"Short": "float", "long": "double", "whole": "int", "name": "varchar"}
    kinds |= {"price": "decimal(18, 9)", "count": "decimal(20, 0)"}
    row = ", ".join(f"cast(7 as {kind}) as {name}" for name, kind in kinds.items())
    engine.table("rows", f"select {row}")
    log = LogColumns("impressions", engine.columns("rows"), {})
    read = views.write_own_columns(log, [name.lower() for name in kinds])
    engine.view("read", f"select {', '.join(read)} from rows")
    types = ["DOUBLE", "DOUBLE", "INTEGER", "VARCHAR", "DOUBLE", "DECIMAL(20,0)"]
    assert [*engine.columns("read").values()] == types


def test_a_short_float_is_added_to_as_a_double() -> None:
    log = small_log().assign(short=np.float32(16_777_216))
    found = analyze(log, metrics=[{"name": "sum", "value": "short + 1"}])
    more = log.assign(sum=16_777_217)
    assert values(found)["sum"][0] == pytest.approx(per_unit(more, "sum", "a"), rel=1e-12)


@pytest.mark.parametrize("kind", ["int64", "float64"])
def test_dwell_in_milliseconds_is_a_thousandth_of_that_in_seconds(kind: str) -> None:
    log = small_log()
    log["dwell"] = (log["dwell"] * 1000).round().astype(kind)
    metrics = ["dwell_per_impression"]
    source = {"dwell_unit": "ms", "dwell_without_click": "keep"}
    found = analyze(log, metrics=metrics, logs={"impressions": source})
    own = log[log.variant == "a"]
    assert values(found)["dwell_per_impression"][0] == pytest.approx(own.dwell.mean() / 1000)


def test_a_text_with_a_point_in_an_expression_stays_a_text() -> None:
    log = small_log()
    log["version"] = np.where(log.index % 3 == 0, "v.1", "v.2")
    new = {"name": "new", "value": "case when version = 'v.2' then 1.5 end"}
    is_new = log.assign(new=1.5 * (log.version == "v.2"))
    found = analyze(log, metrics=[new])
    assert values(found)["new"][0] == pytest.approx(per_unit(is_new, "new", "a"), rel=1e-12)


def test_a_click_on_another_position_of_the_same_item_is_on_no_impression() -> None:
    log = small_log().drop(columns=["click", "dwell"])
    clicks = log.head(2)[["request_id", "item_id", "position", "ts"]]
    clicks.loc[1, "position"] = 9
    assert aside(analyze(log, clicks=clicks), "clicks") == {"used": 1, "no_impression": 1}
