"""Logs of any shape: local times, filters, queries, several arms of which some are compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import AbevalError
from tests.logs.small import PERIOD, aside, small_log, values
from tests.logs.test_files import put, read, read_frame

LOG = small_log()
ROWS = len(LOG)


@pytest.mark.first_cases(4)
@pytest.mark.whole
@pytest.mark.parametrize("timezone", ["Europe/Berlin", "America/New_York", "UTC"])
@pytest.mark.parametrize("kind", ["parquet", "csv", "frame", "date_text"])
def test_local_times_of_a_zone(tmp_path: Path, timezone: str, kind: str) -> None:
    """Over the night of 31 March 2024, in which clocks in Berlin go forward."""
    log = LOG.assign(ts=LOG["ts"] + pd.Timedelta(days=29))
    period = {"start": "2024-03-30", "end": "2024-04-02"}
    zoned = log["ts"].dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin")
    local = log.assign(ts=zoned.dt.tz_localize(None).astype("datetime64[us]"))
    source: dict[str, Any] = {"ts_zone": "Europe/Berlin"}
    expected = read_frame(log, period=period, timezone=timezone)
    if kind == "frame":
        found = read_frame(local, source=source, period=period, timezone=timezone)
    else:
        if kind == "date_text":
            local = local.assign(ts=local["ts"].dt.strftime("%m/%d/%Y %H:%M:%S"))
            source["ts_format"], kind = "%m/%d/%Y %H:%M:%S", "csv"
        put(tmp_path / f"log.{kind}", local)
        found = read(tmp_path, f"log.{kind}", source=source, period=period, timezone=timezone)
    assert values(found) == values(expected)
    assert aside(found) == aside(expected)


@pytest.mark.parametrize(
    ("ts", "says"),
    [
        ("timezone('UTC', ts)", "has a zone, so ts_zone has no meaning"),
        ("cast(ts as date)", "ts_zone, which is for times of day without a zone, has no meaning"),
    ],
)
def test_a_zone_that_has_no_meaning_is_refused(tmp_path: Path, ts: str, says: str) -> None:
    with duckdb.connect() as con:
        con.execute("set timezone = 'UTC'")
        log = f"select * replace ({ts} as ts) from LOG"
        con.execute(f"copy ({log}) to '{tmp_path / 'log.parquet'}' (format parquet)")
    with pytest.raises(AbevalError, match=says):
        read(tmp_path, "log.parquet", source={"ts_zone": "Europe/Berlin"})


EVENTS = "events.parquet"


def events(folder: Path) -> pd.DataFrame:
    """One table of events, with a column of their type."""
    log = small_log().assign(impression_id=range(ROWS), type="view")
    clicks = log.loc[log.click == 1].assign(type="click", ts=lambda f: f.ts + pd.Timedelta("5 s"))
    other = log.head(30).assign(type="scroll")
    put(folder / EVENTS, pd.concat([log, clicks, other]).drop(columns=["click"]))
    return log


@pytest.mark.parametrize("how", ["where", "query"])
def test_one_table_of_events_is_two_logs(tmp_path: Path, how: str) -> None:
    log = events(tmp_path)

    def of(kind: str) -> dict[str, str]:
        if how == "where":
            return {"path": EVENTS, "where": f"type = '{kind}'"}
        return {"path": EVENTS, "query": f"select * from log where type = '{kind}'"}

    found = read(tmp_path, EVENTS, source=of("view"), logs={"clicks": of("click")}, period=PERIOD)
    assert values(found) == values(read_frame(log, period=PERIOD))
    assert aside(found, "clicks")["used"] > 0
    notes = " ".join(found.notes)
    if how == "where":
        assert f"The impressions are {ROWS:,} of " in notes
        assert "rows of the log, where type = 'view'." in notes
    else:
        assert "The clicks are the answer of a query: select * from log where type" in notes


def test_lists_in_json_lines_are_rows_by_a_query(tmp_path: Path) -> None:
    """A page with a list of items per line, and who saw it in a nested object."""
    lines = []
    for (request, unit, variant), rows in LOG.groupby(["request_id", "user_id", "variant"]):
        shown = rows[["item_id", "position", "click"]].to_dict("records")
        who = {"id": int(unit), "arms": {"ranker": variant}}
        lines.append(
            {"request": int(request), "who": who, "at": str(rows.ts.min()), "items": shown}
        )
    (tmp_path / "pages.jsonl").write_text("\n".join(map(json.dumps, lines)))
    query = """
    select page.request as request_id, page.who.id as user_id, page.who.arms.ranker as variant,
      cast(page.at as timestamp) as ts, page.item.item_id as item_id,
      page.item.position as position, page.item.click as click
    from (select *, unnest(items) as item from log) as page
    """
    found = read(tmp_path, "pages.jsonl", source={"query": query})
    first = LOG.assign(ts=LOG.groupby("request_id")["ts"].transform("min"))
    assert values(found) == values(read_frame(first))


def test_a_query_reads_named_tables(tmp_path: Path) -> None:
    put(tmp_path / "views.csv", LOG.drop(columns="variant"))
    put(tmp_path / "users.parquet", LOG[["user_id", "variant"]].drop_duplicates())
    query = "select v.*, u.variant from log v join users u using (user_id)"
    found = read(
        tmp_path, "views.csv", source={"query": query}, tables={"users": {"path": "users.parquet"}}
    )
    assert values(found) == values(read_frame())
    source = {"query": query.replace("log v", "seen v"), "path": None}
    tables = {"users": {"path": "users.parquet"}, "seen": {"path": "views.csv"}}
    found = read(tmp_path, "", source=source, tables=tables)
    assert values(found) == values(read_frame())


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"query": "select * from 'other.parquet'"}, "it may read: log"),
        ({"query": "select * from read_csv('other.csv')"}, "it may read: log"),
        ({"query": "select * from other.log"}, "it may read: log"),
        ({"query": "select 1; select 2"}, "is not one SELECT"),
        ({"query": "drop table log"}, "is not one SELECT"),
        ({"query": "copy log to 'x.csv'"}, "is not one SELECT"),
        ({"query": "select nothing from log"}, "logs.impressions.query cannot be run: .*nothing"),
        ({"query": "selec"}, "logs.impressions.query"),
        ({"where": "sum(click) > 1"}, "holds an aggregate"),
        ({"where": "nothing = 1"}, "logs.impressions.where: 'nothing = 1' cannot be computed"),
        ({"where": "variant"}, "logs.impressions.where: 'variant' cannot be computed"),
        ({"ts_zone": "Mars/Base"}, "unknown time zone 'Mars/Base'"),
        ({"ts_format": "%d", "time_unit": "s"}, "has no meaning beside `time_unit`"),
    ],
)
def test_what_no_log_can_be_is_refused(tmp_path: Path, entries: dict[str, str], says: str) -> None:
    put(tmp_path / "log.parquet")
    with pytest.raises(AbevalError, match=says):
        read(tmp_path, "log.parquet", source=entries)


def arms(units: int = 2000, seed: int = 3) -> pd.DataFrame:
    """Users in four arms of a test, each of 25 %."""
    random = np.random.default_rng(seed)
    unit = np.repeat(np.arange(units), 4)
    arm = random.choice(list("ABCD"), units)[unit]
    click = (random.random(unit.size) < 0.2 + 0.1 * (arm == "C")).astype(int)
    return pd.DataFrame({"user_id": unit, "variant": arm, "click": click, "n": range(unit.size)})


def test_arms_that_are_not_named_are_counted_and_fail_nothing() -> None:
    """Half of the log is of other arms; it was over the limit of 20 %."""
    log = arms()
    found = read_frame(log, control="A", variants={"A": {}, "B": {}}, metrics=[{"name": "ctr"}])
    named = log[log.variant.isin(["A", "B"])]
    assert aside(found) == {"used": len(named), "not_compared": len(log) - len(named)}
    assert values(found) == values(
        read_frame(named, control="A", variants={"A": {}, "B": {}}, metrics=[{"name": "ctr"}])
    )
    assert all(check.status != "fail" for check in found.trust)
    assert found.verdicts[0].decision == "keep_running"
    assert any("that the experiment does not name are not compared" in n for n in found.notes)


def test_a_variant_that_the_log_does_not_have_still_fails() -> None:
    found = read_frame(arms(), control="A", variants={"A": {}, "b": {}}, metrics=[{"name": "ctr"}])
    assert found.verdicts[0].decision == "do_not_trust"


def test_arms_are_joined() -> None:
    log = arms()
    one = log.assign(variant=log.variant.map({"A": "A", "B": "new", "C": "new", "D": "D"}))
    variants: dict[str, Any] = {"A": {}, "new": {"weight": 2, "of": ["B", "C"]}}
    found = read_frame(log, control="A", variants=variants, metrics=[{"name": "ctr"}])
    plain = {"A": {}, "new": {"weight": 2}}
    expected = read_frame(one, control="A", variants=plain, metrics=[{"name": "ctr"}])
    assert values(found) == values(expected)
    assert found["ctr"].p_value == expected["ctr"].p_value
    assert aside(found) == aside(expected)


def test_a_unit_in_two_arms_of_one_variant_is_no_crossover() -> None:
    log = arms()
    moved = log.assign(variant=np.where((log.variant == "B") & (log.n % 2 == 0), "C", log.variant))
    variants = {"A": {}, "new": {"weight": 2, "of": ["B", "C"]}}
    found = read_frame(moved, control="A", variants=variants, metrics=[{"name": "ctr"}])
    assert next(c for c in found.trust if c.name == "crossover").value == 0


@pytest.mark.parametrize(
    ("variants", "says"),
    [
        ({"A": {}, "new": {"of": ["A", "B"]}}, "'A' is a variant of its own already"),
        ({"A": {}, "x": {"of": ["B"]}, "y": {"of": ["B", "C"]}}, "'B' is in 'x' already"),
        ({"A": {}, "x": {"of": []}}, "should have at least 1 item"),
    ],
)
def test_an_arm_has_one_variant(variants: dict[str, Any], says: str) -> None:
    with pytest.raises(AbevalError, match=says):
        abeval.define(
            name="t", unit="user_id", control="A", variants=variants, logs={"impressions": {}}
        )
