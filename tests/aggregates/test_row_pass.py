"""Kernels over rows, from one scan, against the queries that define them: to the last digit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from functools import cache
from types import MappingProxyType, SimpleNamespace
from typing import cast

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import abeval
from abeval.aggregates.kernels import rows
from abeval.aggregates.kernels.reach import NO_CATALOGUE, Reach, Sizes
from abeval.aggregates.metric_queries import scored_rows
from abeval.aggregates.row_pass import KERNELS, RowPass, RowSums
from abeval.assignment import SLOTS, SUB_BUCKETS
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.sql import query
from abeval.experiment.model import Experiment
from abeval.logs.mapping import LogColumns
from abeval.logs.prepare import Prepared
from abeval.logs.run import Run
from abeval.logs.shape import LogShape, value_sql
from abeval.logs.unit_arrays import NO_DAY, Units, half_away, key_of
from abeval.logs.units import sub_buckets
from abeval.metrics.builtin import builtin_metrics
from abeval.metrics.definition import (
    AUC,
    CATALOGUE,
    CATEGORY_DIVERSITY,
    GAUC,
    PAGE_VIEWS,
    QUANTILE,
    SERVED_RANKING,
    SESSIONS,
    Source,
)
from abeval.stats.moments import Moments
from abeval.stats.quantiles import PARTS, place
from tests.definitions import run_median

DAY, HOUR, MINUTE = 86_400_000, 3_600_000, 60_000
BACK = 19_800 * DAY + 6 * HOUR
"""Here clocks go back, at the midnight that ends a day: it comes twice."""

GAP = 7 * MINUTE
P50, P90 = (builtin_metrics(30, GAP / MINUTE)[name] for name in ("dwell_p50", "dwell_p90"))

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


def shape(by_item: bool, own_category: bool) -> LogShape:
    named = ["item_id", *(["category"] if own_category else [])]
    log = LogColumns("impressions", {}, dict.fromkeys(named, "x"))
    items = LogColumns("items", {}, {"category": "x"}) if by_item else None
    value = value_sql(P50.value)
    served = {"a": "score_1", "b": "score_2"}
    return LogShape(log, None, items, None, ("s", "t"), served, events={value: "v_1"})


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
    engine.table("logged", f"select {listed} from given")
    unit_hash = engine.hash64(["logged_id"])
    engine.view(
        "logged_names",
        f"select *, {unit_hash} as unit_hash "
        "from (select 'u' || i as logged_id from range(6) r(i))",
    )
    engine.table(
        "unit_names",
        "select row_number() over (order by unit_hash) - 1 as unit_id, logged_id from logged_names",
    )
    h60 = engine.hash60(experiment().salt, "logged_id")
    engine.table(
        "units",
        "select unit_id, case when unit_id % 2 = 0 then 'a' else 'b' end as variant, "
        f"cast(floor({h60} / {SLOTS}) as bigint) % {SUB_BUCKETS} as sub_bucket, "
        "unit_id // 3 as stretch from unit_names",
    )
    engine.table(
        "items",
        f"select cast(i as {ids}) as item_id, nullif('k' || (i % 3), 'k2') as category "
        "from range(5) r(i)",
    )
    category = "coalesce(l.category, t.category)" if by_item else "l.category"
    joined = "left join items t on l.item_id = t.item_id" if by_item else ""
    engine.table(
        "impressions",
        f"select l.* replace (n.unit_id as unit_id, {category} as category) from logged l "
        f"join unit_names n on l.unit_id = n.logged_id join units u on n.unit_id = u.unit_id "
        f"{joined} where l.counts",
    )
    engine.view("experiment", f"select cast({GAP} as bigint) as session_gap_ms, 64 as item_groups")
    yield engine
    engine.close()


def summed(
    engine: DuckDBEngine,
    of: LogShape,
    sources: frozenset[Source] = KERNELS,
    rows: int = 3_000_000,
    values: Sequence[tuple[str, ...]] = (("v_1", "v_1", "v_1"),),
    span: tuple[int, int] | None = None,
) -> RowSums:
    units = units_of(engine)
    bucket = sub_buckets(engine, experiment(), units.hash)
    prepared = SimpleNamespace(shape=of, placed=SimpleNamespace(units=units), rows=rows)
    run = Run(experiment(), engine)
    return RowPass(run, cast(Prepared, prepared), sources, values, bucket, span).sums()


def units_of(engine: DuckDBEngine) -> Units:
    """The analysed units, sorted by hash; the relations get their places as numbers."""
    hashed = engine.hash64(["n.logged_id"])
    known = engine.frame(
        f"select {hashed} as hash, case u.variant when 'a' then 0 else 1 end as arm, u.stretch, "
        "u.unit_id from units u join unit_names n on u.unit_id = n.unit_id order by 1"
    )
    size = len(known)
    return Units(
        hash=known["hash"].to_numpy(np.int64),
        variant=known["arm"].to_numpy(np.int8),
        stretch=known["stretch"].to_numpy(np.int16),
        is_new=np.zeros(size, np.int8),
        first_ms=np.zeros(size, np.int64),
        segments={},
        covariates={},
        crosses=np.zeros(size, bool),
    )


def lines(frame: pd.DataFrame) -> list[tuple[object, ...]]:
    """Rows in an order of their own, days as text."""
    columns = sorted(frame.columns)
    plain = frame[columns].astype(object).where(frame[columns].notna(), None)
    return sorted(tuple(map(str, row)) for row in plain.to_numpy().tolist())


def assert_as_queries(engine: DuckDBEngine, of: LogShape, rows: int = 3_000_000) -> None:
    found = summed(engine, of, rows=rows)
    engine.view("scored", scored_rows(of, ("unit_id", "click")))
    for source in (PAGE_VIEWS, SERVED_RANKING, CATEGORY_DIVERSITY, SESSIONS, GAUC, AUC):
        defined = engine.frame(query(source.query))
        days = found.days[source]
        known = {"unit_id": days.unit, "in_period": days.in_period}
        mine = pd.DataFrame({**known, **days.columns})
        if "day" in defined:
            day = pd.Series(days.day, dtype="float").mask(days.day == NO_DAY)
            mine["day"] = pd.to_datetime(day, unit="D")
            defined["day"] = pd.to_datetime(defined["day"])
        assert lines(mine[list(defined.columns)]) == lines(defined), source
    assert found.catalogue is not None
    reach = engine.frame(query("catalogue/reach"))
    assert lines(shown(found.catalogue.reach)[list(reach.columns)]) == lines(reach)
    groups = engine.frame(query("catalogue/group_units"))
    mine = [(*group, n) for group, n in found.catalogue.group_units().items()]
    names = ["variant", "item_group", "units"]
    assert lines(pd.DataFrame(mine, columns=names)) == lines(groups[names])
    assert_quantiles(found, engine, of)


def shown(reach: Reach) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "variant": np.array(reach.variants)[reach.variant],
            "item_id": np.array(reach.items)[reach.item],
            "item_group": reach.item_group,
            "units": reach.units,
            "impressions": reach.impressions,
        }
    )


def assert_quantiles(found: RowSums, engine: DuckDBEngine, of: LogShape) -> None:
    """The values that occur, what stands next to each place, and each unit's values below."""
    run_median(experiment(), of, engine, P50)
    levels = engine.frame("select * from quantile_level order by variant, value")
    mine = found.values["v_1", "v_1", "v_1"].by_variant
    assert set(mine) == set(levels.variant)
    medians = {}
    for name, own in levels.groupby("variant"):
        ranked = mine[name].levels
        assert len(mine[name].value) == own.events.sum()
        assert ranked.values[[0, -1]].tolist() == [own.value.iloc[0], own.value.iloc[-1]]
        between = own.iloc[:-1][["value", "middle", "next_value", "next_middle"]]
        for row in between.astype("int64").itertuples(index=False):
            assert ranked.step(int(row.middle)) == row
        assert ranked.step(int(own.middle.iloc[-1])) is None
        medians[name] = mine[name].below(place(len(mine[name].value), 0.5))
    known = {name: one for name, one in medians.items() if one is not None}
    assert_moments(known, engine.frame("select * from quantile_below"))


def assert_moments(found: Mapping[str, Moments], of_units: pd.DataFrame) -> None:
    """Sums of each variant, from the values of its units."""
    assert set(found) == set(of_units.variant)
    for name, own in of_units.groupby("variant"):
        y, x = (own[column].astype(float) for column in ("t_below", "t_events"))
        assert found[name].n == len(own)
        assert found[name].mean == pytest.approx([y.mean() / PARTS, x.mean()], rel=1e-12)
        products = np.cov(y / PARTS, x, bias=True) * len(own)
        assert found[name].comoment == pytest.approx(products, rel=1e-9, abs=1e-9)


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


FIRST = (0, True, 0, 0, 0, 1, "x", 1, 0.5, 0.5, 1, True)
"""An impression that counts: a log without one is refused earlier."""


@pytest.mark.whole
@settings(max_examples=40, deadline=None)
@given(
    st.lists(ROW, max_size=60),
    st.sampled_from(["varchar", "bigint"]),
    st.sampled_from(["own", "of items", "both"]),
)
def test_kernels_give_what_the_queries_give(drawn, ids, categories):
    by_item, own = categories != "own", categories != "of items"
    frame = table([FIRST, *drawn])
    with held(frame if own else frame.assign(category=None), ids, by_item) as engine:
        assert_as_queries(engine, shape(by_item, own))


def assert_days(frame: pd.DataFrame, rows: int = 3_000_000) -> None:
    """A window is what a log of its days alone is; GAUC is compared day by day."""
    sources, of = frozenset({GAUC, CATALOGUE, QUANTILE}), shape(False, True)
    days = [None if day is None else (day - date(1970, 1, 1)).days for day in frame.day]
    number = pd.Series(days, index=frame.index, dtype="float")
    used = number[frame.in_period & frame.counts & (frame.unit_id < "u6")]
    span = int(used.min()), int(used.max())
    with held(frame) as engine:
        found = summed(engine, of, sources, rows, span=span)
    assert found.catalogue is not None
    (events,) = found.values.values()
    for first, last in {span, (span[0], span[0]), (span[0], span[1] - 1), (span[1], span[1])}:
        with held(frame[(number >= first) & (number <= last)]) as engine:
            alone = summed(engine, of, sources, rows)
        assert alone.catalogue is not None
        assert lines(shown(found.catalogue.of_days(first, last))) == lines(
            shown(alone.catalogue.reach)
        )
        (own,) = alone.values.values()
        of_days = events.of_days(np.arange(len(events.arm)), first, last)
        assert of_days.value.tolist() == own.value.tolist()
        assert of_days.unit.tolist() == own.unit.tolist()
        if first == last:
            of_day, whole = found.by_day[GAUC], alone.days[GAUC]
            rows_of_day = of_day.day == first
            assert of_day.unit[rows_of_day].tolist() == whole.unit.tolist()
            for name, column in whole.columns.items():
                assert of_day.columns[name][rows_of_day].tolist() == column.tolist()


@pytest.mark.whole
@settings(max_examples=25, deadline=None)
@given(st.lists(ROW, max_size=60))
def test_a_window_is_what_a_log_of_its_days_is(drawn):
    first, last = ((*FIRST[:2], time, *FIRST[3:]) for time in (BACK - 3 * DAY, BACK + 3 * DAY))
    assert_days(table([first, *drawn, last]))


def test_a_window_over_several_blocks_is_what_a_log_of_its_days_is(monkeypatch):
    monkeypatch.setattr(rows, "BLOCK", 900)
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


@pytest.mark.whole
@pytest.mark.parametrize(("block", "memory"), [(900, 1 << 29), (900, 0), (10**6, 0)])
@pytest.mark.parametrize("decimals", [None, 3])
def test_chunks_and_blocks_of_any_size_give_the_same(block, memory, decimals, monkeypatch):
    monkeypatch.setattr(rows, "BLOCK", block)
    monkeypatch.setattr(rows, "room_of", lambda options: rows.Room(memory))
    with held(many(5000, decimals), "bigint") as engine:
        assert_as_queries(engine, shape(by_item=False, own_category=True), rows=5000)


class Parts:
    """Rows apart by one of their columns."""

    def __init__(self, columns, by, count):
        part = columns[by] % 7 % count
        masks = [part == number for number in range(count)]
        self._parts = [{n: c[mask] for n, c in columns.items()} for mask in masks if mask.any()]
        self.is_open = True

    def each(self, work):
        return [work(part) for part in self._parts]

    def close(self):
        self.is_open = False


class Elsewhere(DuckDBEngine):
    """An engine that keeps rows in parts, as those of other machines do."""

    opened: Parts

    def spread(self, sql, by, parts):
        self.opened = Parts(self.arrays(sql), by, parts)
        return self.opened


@pytest.mark.parametrize("decimals", [None, 3])
def test_parts_on_other_machines_give_the_same(decimals, monkeypatch):
    monkeypatch.setattr(rows, "BLOCK", 900)
    with held(many(5000, decimals), "bigint", kind=Elsewhere) as engine:
        assert_as_queries(engine, shape(by_item=False, own_category=True), rows=5000)
        assert not engine.opened.is_open


def test_what_does_not_fit_into_memory_lies_where_it_is_told_to(tmp_path):
    kept = rows.Blocks(1, rows.Room(0, str(tmp_path / "new")))
    kept.add({"item": np.arange(3), "score": np.zeros(3)}, [0, 3])
    kept.add({"item": np.arange(300, 302), "score": np.ones(2)}, [0, 2])
    assert (tmp_path / "new").is_dir()
    assert kept.read(0)["item"].tolist() == [0, 1, 2, 300, 301]
    kept.close()
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize("far", [7, 2**40])
def test_items_far_apart_are_as_well_told_apart(far):
    frame = many(300)
    frame["item_id"] = frame["item_id"] * far - 5
    with held(frame, "bigint") as engine:
        assert_as_queries(engine, shape(by_item=False, own_category=True))


def test_only_the_columns_of_the_asked_sources_are_read():
    with held(many(100)) as engine:
        of = shape(by_item=False, own_category=True)
        engine.table("logged", "select unit_id, in_period, counts, time_ms, day from logged")
        sums = summed(engine, of, frozenset({SESSIONS}), values=[])
        assert set(sums.days) == {SESSIONS}
        assert (sums.catalogue, dict(sums.values)) == (NO_CATALOGUE, {})


def test_sizes_must_fit_into_one_number():
    assert Sizes(groups=128, items=1 << 20, units=1 << 30).fit
    assert not Sizes(groups=128, items=1 << 28, units=1 << 28).fit


def test_halves_round_away_from_zero_as_in_sql():
    values = np.array([0.5, 1.5, -0.5, -2.5, 0.49999999999999994, 7.0])
    engine = DuckDBEngine()
    asked = ", ".join(f"cast(round({v!r}::double) as bigint)" for v in values.tolist())
    assert half_away(values).tolist() == list(engine.rows(f"select {asked}")[0])
    engine.close()


def test_columns_wider_than_one_number_are_grouped_as_well():
    wide = np.array([2**62, -(2**62), 0, 0])
    key = key_of(wide, wide[::-1], np.array([1, 0, 1, 0]))
    assert np.argsort(key).tolist() == [1, 2, 3, 0]
