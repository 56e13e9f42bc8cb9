"""Rows of analysed units: which count, under which numbers, and what is read of them by window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta
from functools import cache, reduce
from types import MappingProxyType, SimpleNamespace
from typing import cast

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import abeval
from abeval.aggregates import reach
from abeval.aggregates.reach import Reach
from abeval.aggregates.unit_rows import RowSums, UnitRows
from abeval.engines.duckdb import DuckDBEngine
from abeval.experiment.model import Experiment
from abeval.logs.mapping import LogColumns
from abeval.logs.prepare import Prepared
from abeval.logs.run import Run
from abeval.logs.shape import LogSchema, write_row_value
from abeval.logs.unit_arrays import Units, pack_key, round_half_away
from abeval.logs.units import assign_sub_buckets
from abeval.metrics.builtin import load_builtin_metrics
from abeval.metrics.definition import (
    CATALOGUE,
    GAUC,
    QUANTILE,
    SESSIONS,
    SOURCES,
    Source,
)
from abeval.stats.quantiles import locate_quantile

DAY, HOUR, MINUTE = 86_400_000, 3_600_000, 60_000
BACK = 19_800 * DAY + 6 * HOUR
"""Here clocks go back, at the midnight that ends a day: it comes twice."""

GAP = 7 * MINUTE
P50 = load_builtin_metrics(30, GAP / MINUTE)["dwell_p50"]

ROW_SOURCES = [source for source in SOURCES.values() if source.reads_rows]
"""Every source that reads single impressions."""

TYPES = MappingProxyType(
    {
        "unit_id": "varchar",
        "in_period": "boolean",
        "day": "date",
        "time_ms": "bigint",
        "request_id": "varchar",
        "item_id": "varchar",
        "position": "bigint",
        "category": "varchar",
        "click": "integer",
        "score_1": "double",
        "score_2": "double",
        "v_1": "bigint",
        "counts": "boolean",
    }
)


def local_day(time_ms: int) -> date:
    """The day on a clock that is six hours behind, and seven from `BACK` on."""
    local = time_ms - (6 if time_ms < BACK else 7) * HOUR
    return date(1970, 1, 1) + timedelta(days=local // DAY)


@cache
def experiment() -> Experiment:
    return abeval.define(
        name="x",
        unit="user_id",
        control="a",
        variants={"a": {"model": "old"}, "b": {"model": "new"}, "absent": {}},
        models={"old": {"score": "s"}, "new": {"score": "t"}},
        logs={"impressions": {}},
        sessions={"gap_minutes": GAP / MINUTE},
        metrics=[{"name": "dwell_p50"}],
    ).experiment


def shape(by_item: bool, own_category: bool) -> LogSchema:
    named = ["item_id", *(["category"] if own_category else [])]
    log = LogColumns("impressions", {}, dict(zip(named, named, strict=True)))
    items = LogColumns("items", {}, {"category": "x"}) if by_item else None
    value = write_row_value(P50.value)
    served = {"a": "score_1", "b": "score_2"}
    return LogSchema(
        log, None, items, None, {"s": "score_1", "t": "score_2"}, served, {}, events={value: "v_1"}
    )


@contextmanager
def held(
    impressions: pd.DataFrame,
    ids: str = "varchar",
    by_item: bool = False,
    kind: type[DuckDBEngine] = DuckDBEngine,
) -> Iterator[DuckDBEngine]:
    """An engine with the impressions; units 6 and 7 are not analysed."""
    engine = kind()
    kinds = {**TYPES, "item_id": ids, "request_id": ids}
    listed = ", ".join(f"cast({name} as {kind}) as {name}" for name, kind in kinds.items())
    engine.add_frame("given", impressions)
    phase = "case when in_period then 3 else 2 end as phase"
    engine.table("logged", f"select {listed}, {phase} from given")
    for name in ("raw_impressions", "seen"):
        engine.view(name, "select * from logged")
    unit_hash = engine.hash64(["logged_id"])
    engine.view(
        "logged_names",
        f"select *, {unit_hash} as unit_hash "
        "from (select 'u' || i as logged_id from range(6) r(i))",
    )
    engine.table(
        "units",
        "select row_number() over (order by unit_hash) - 1 as unit_id, unit_hash from logged_names",
    )
    engine.table(
        "items",
        f"select cast(i as {ids}) as item_id, nullif('k' || (i % 3), 'k2') as category "
        "from range(5) r(i)",
    )
    engine.view("experiment", f"select cast({GAP} as bigint) as session_gap_ms, 64 as item_groups")
    yield engine
    engine.close()


def summed(
    engine: DuckDBEngine,
    of: LogSchema,
    sources: Sequence[Source] = ROW_SOURCES,
    rows: int = 3_000_000,
    values: Sequence[tuple[str, ...]] = (("v_1", "v_1", "v_1"),),
    by_day: bool = False,
) -> RowSums:
    units = units_of(engine)
    bucket = assign_sub_buckets(engine, experiment(), units.hash)
    of = replace(of, impressions=replace(of.impressions, types=engine.columns("logged")))
    prepared = SimpleNamespace(schema=of, assignment=SimpleNamespace(units=units), rows=rows)
    run = Run(experiment(), engine)
    return UnitRows(run, cast(Prepared, prepared), sources, values, bucket, by_day).sums()


def units_of(engine: DuckDBEngine) -> Units:
    """The analysed units, sorted by hash: variants in turns, and two split periods."""
    known = engine.frame("select unit_hash from units order by unit_id")
    number = np.arange(len(known))
    return Units(
        hash=known["unit_hash"].to_numpy(np.int64),
        variant=(number % 2).astype(np.int8),
        split_period=(number // 3).astype(np.int16),
        is_new=np.zeros(len(number), np.int8),
        first_ms=np.zeros(len(number), np.int64),
        segments={},
        covariates={},
        crosses=np.zeros(len(number), bool),
    )


def said(found: RowSums) -> dict[str, list[tuple[object, ...]]]:
    """All that is found, as rows of plain values."""
    answers = {
        f"{source} {of_days is found.by_day}": list(
            zip(*(column.tolist() for column in (*days[:3], *days.columns.values())), strict=True)
        )
        for of_days in (found.days, found.by_day)
        for source, days in of_days.items()
    }
    for columns, own in found.values.items():
        listed = (own.unit.tolist(), own.value.tolist(), own.day.tolist(), own.events.tolist())
        answers[" ".join(columns)] = sorted(zip(*listed, strict=True))
    return {**answers, "reach": shown(found.catalogue.reach)}


def shown(reach: Reach) -> list[tuple[object, ...]]:
    items = np.array(reach.items)[reach.item] if len(reach.item) else reach.item
    entries = (reach.variant, reach.item_group, items, reach.units, reach.impressions)
    return list(zip(*(column.tolist() for column in entries), strict=True))


SCORES = st.one_of(
    st.none(),
    st.sampled_from([0.0, -0.0, 0.25, -0.5, 1.0]),
    st.floats(-1e6, 1e6),
)
TIMES = st.one_of(
    st.none(),
    st.sampled_from([BACK - 1, BACK, BACK + HOUR, BACK - HOUR, BACK + GAP, BACK + GAP + 1]),
    st.integers(BACK - 2 * DAY, BACK + 2 * DAY),
    st.integers(-3 * GAP, 3 * GAP),
)
ROW = st.tuples(
    st.integers(0, 7),
    st.booleans(),
    TIMES,
    st.one_of(st.none(), st.integers(0, 4)),
    st.one_of(st.none(), st.sampled_from([0, 1, 4, 5, 900])),
    st.one_of(st.none(), st.sampled_from([1, 2, 3, 4096, 4097, 10**7])),
    st.one_of(st.none(), st.sampled_from(["x", "y", "k1", ""])),
    st.integers(0, 1),
    SCORES,
    SCORES,
    st.one_of(st.none(), st.integers(-3, 3)),
    st.sampled_from([True, True, True, False]),
)
NAMES = [name for name in TYPES if name != "day"]


def table(rows: Sequence[Sequence[object]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=NAMES, dtype=object)
    frame["unit_id"] = "u" + frame["unit_id"].astype(str)
    frame["day"] = [None if t is None else local_day(t) for t in frame["time_ms"]]
    text = dict.fromkeys(("unit_id", "category"), "str")
    return frame.astype(text).astype(
        dict.fromkeys(("time_ms", "request_id", "item_id", "position", "click", "v_1"), "Int64")
        | dict.fromkeys(("score_1", "score_2"), "float64")
        | dict.fromkeys(("in_period", "counts"), "bool")
    )


POPULAR = ("novelty", "serendipity")
"""Metrics of the popularity of items before the period, among all units of the log."""

FIRST = (0, True, 0, 0, 0, 1, "x", 1, 0.5, 0.5, 1, True)
"""An impression that counts: a log without one is refused earlier."""


@pytest.mark.slow
@pytest.mark.whole
@settings(max_examples=15, deadline=None)
@given(st.lists(ROW, max_size=60), st.booleans())
def test_ids_of_any_type_and_blocks_of_any_size_give_the_same(drawn, by_day):
    frame, answers = table([FIRST, *drawn]), []
    for ids, rows in (("varchar", 0), ("bigint", 0), ("bigint", 10 * reach.BLOCK)):
        with held(frame, ids) as engine:
            answers.append(said(summed(engine, shape(False, True), rows=rows, by_day=by_day)))
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.slow
@pytest.mark.whole
@settings(max_examples=15, deadline=None)
@given(st.lists(ROW, max_size=60), st.sampled_from(["varchar", "bigint"]))
def test_the_own_category_counts_and_else_that_of_the_item(drawn, ids):
    frame = table([FIRST, *drawn])
    of_item = frame.item_id.map(
        lambda item: None if pd.isna(item) else ["k0", "k1", None][item % 3]
    )
    of_item = of_item.where(of_item.notna(), None)
    either = frame.assign(category=frame.category.fillna(of_item))
    for listed, own, known in (
        (frame, True, either),
        (frame, False, frame.assign(category=of_item)),
    ):
        with held(listed, ids, by_item=True) as engine:
            found = summed(engine, shape(True, own), [SOURCES["category_diversity"]], values=[])
        with held(known, ids) as engine:
            plain = summed(engine, shape(False, True), [SOURCES["category_diversity"]], values=[])
        assert said(found) == said(plain)


@pytest.mark.slow
@pytest.mark.whole
@settings(max_examples=15, deadline=None)
@given(st.lists(ROW, max_size=60))
def test_rows_that_do_not_count_and_units_that_are_not_analysed_add_nothing(drawn):
    def read_sums(rows: pd.DataFrame) -> dict[str, object]:
        with held(rows) as engine:
            found = said(summed(engine, shape(False, True), by_day=True))
        # How popular an item was does not depend on who is compared.
        return {name: sums for name, sums in found.items() if not name.startswith(POPULAR)}

    frame = table([FIRST, *drawn])
    assert read_sums(frame) == read_sums(frame[frame.counts & (frame.unit_id < "u6")])


def test_a_negative_zero_ties_with_zero_and_each_variant_is_ranked_by_its_own_score():
    rows = [
        (unit, True, 0, 0, 0, 1, "x", click, score, -score, 1, True)
        for unit in range(6)
        for click, score in ((1, -0.0), (0, 0.0), (0, 1.0))
    ]
    with held(table(rows)) as engine:
        found = summed(engine, shape(False, True), [GAUC], values=[])
        arms = units_of(engine).variant
    # A half of the tie; the other row is higher by one score, and lower by the other.
    weighted = np.where(arms == 0, 0.5 / 2, 1.5 / 2) * 3e9
    assert found.days[GAUC].columns["c_weighted_auc"].tolist() == weighted.tolist()


def test_only_the_columns_of_the_asked_sources_are_read():
    with held(many(100)) as engine:
        of = shape(by_item=False, own_category=True)
        engine.table("logged", "select unit_id, in_period, counts, time_ms, day from logged")
        sums = summed(engine, of, [SESSIONS], values=[])
        assert set(sums.days) == {SESSIONS}
        assert (sums.catalogue.reach.items, dict(sums.values)) == ((), {})


def assert_days(frame: pd.DataFrame, rows: int = 3_000_000) -> None:
    """A window is what a log of its days alone is; GAUC is compared day by day."""
    sources, of = [GAUC, CATALOGUE, QUANTILE], shape(False, True)
    days = [None if day is None else (day - date(1970, 1, 1)).days for day in frame.day]
    number = pd.Series(days, index=frame.index, dtype="float")
    used = number[frame.in_period & frame.counts & (frame.unit_id < "u6")]
    span = int(used.min()), int(used.max())
    spans = {span, (span[0], span[0]), (span[0], span[1] - 1), (span[1], span[1])}
    with held(frame) as engine:
        found = summed(engine, of, sources, rows, by_day=True)
        windows = {}
        for first, last in spans:
            # Days without a row add nothing, and some drawn logs have fifty years of them.
            dates = sorted({first, *(int(day) for day in used if first <= day <= last)})
            days = (found.catalogue.select_day(day, first) for day in dates)
            windows[first, last] = shown(reduce(Reach.add, days))
    (events,) = found.values.values()
    for first, last in spans:
        with held(frame[(number >= first) & (number <= last)]) as engine:
            alone = summed(engine, of, sources, rows)
        assert windows[first, last] == shown(alone.catalogue.reach)
        (own,) = alone.values.values()
        of_days = events.select_days(np.arange(len(events.arm)), first, last)
        for name, mine in of_days.variant_values.items():
            other = own.variant_values[name]
            assert mine.size == other.size
            assert [x.tolist() for x in mine.levels] == [x.tolist() for x in other.levels]
            middle = locate_quantile(mine.size, 0.5)
            assert repr(mine.below(middle)) == repr(other.below(middle))
        if first == last:
            of_day, whole = found.by_day[GAUC], alone.days[GAUC]
            rows_of_day = of_day.day == first
            assert of_day.unit[rows_of_day].tolist() == whole.unit.tolist()
            for name, column in whole.columns.items():
                assert of_day.columns[name][rows_of_day].tolist() == column.tolist()


@pytest.mark.slow
@pytest.mark.whole
@settings(max_examples=15, deadline=None)
@given(st.lists(ROW, max_size=60))
def test_a_window_is_what_a_log_of_its_days_is(drawn):
    first, last = ((*FIRST[:2], time, *FIRST[3:]) for time in (BACK - 3 * DAY, BACK + 3 * DAY))
    assert_days(table([first, *drawn, last]))


def test_a_window_over_several_blocks_is_what_a_log_of_its_days_is(monkeypatch):
    monkeypatch.setattr(reach, "BLOCK", 900)
    assert_days(many(3000), rows=3000)


def many(count: int, decimals: int | None = None) -> pd.DataFrame:
    """Impressions of several chunks, each request in one place but every tenth."""
    rng = np.random.default_rng(2)
    request = np.arange(count) // 10
    strays = rng.random(count) < 0.1
    request[strays] = rng.integers(0, count // 10, strays.sum())
    owner = rng.integers(0, 8, count // 10 + 1)
    scores = rng.random((2, count)) * 3 - 1
    rows = {
        "unit_id": owner[request],
        "in_period": request % 3 > 0,
        "time_ms": BACK + (request - count // 20) * 3 * MINUTE,
        "request_id": request,
        "item_id": rng.integers(0, 50, count),
        "position": rng.integers(1, 30, count),
        "category": rng.choice(["x", "y", "z"], count),
        "click": (rng.random(count) < 0.2).astype(int),
        "score_1": scores[0] if decimals is None else scores[0].round(decimals),
        "score_2": scores[1] if decimals is None else scores[1].round(decimals),
        "v_1": rng.integers(0, 40, count),
        "counts": rng.random(count) < 0.95,
    }
    return table(pd.DataFrame(rows)[NAMES].to_numpy(dtype=object).tolist())


def test_halves_round_away_from_zero_as_in_sql():
    values = np.array([0.5, 1.5, -0.5, -2.5, 0.49999999999999994, 7.0])
    engine = DuckDBEngine()
    asked = ", ".join(f"cast(round({v!r}::double) as bigint)" for v in values.tolist())
    assert round_half_away(values).tolist() == list(engine.rows(f"select {asked}")[0])
    engine.close()


def test_columns_wider_than_one_number_are_grouped_as_well():
    wide = np.array([2**62, -(2**62), 0, 0])
    key = pack_key(wide, wide[::-1], np.array([1, 0, 1, 0]))
    assert np.argsort(key).tolist() == [1, 2, 3, 0]
