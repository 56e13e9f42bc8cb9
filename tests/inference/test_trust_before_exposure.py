"""Rows of an outcome log from before exposure: of a clock that is behind, and of honest logs."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.results.analysis import Result
from abeval.stats.faults import measure_clock_lag
from benchmarks.calibration.healthy_logs import analyze_world
from tests.relations import answer, relation
from tests.worlds.healthy import World, buyers

START = pd.Timestamp("2026-09-14")
UNITS = 2_000
Hours = np.ndarray


def hours(values: Hours) -> pd.Series:
    return pd.Series(START + pd.to_timedelta(np.asarray(values) * 3600, unit="s"))


def judged(entry: Hours, order: Hours, buyer: np.ndarray, zone: str | None = None) -> Result:
    """An experiment of units that enter and buy at these hours since its start."""
    names = np.where(np.arange(UNITS) % 2, "treatment", "control")
    seen = pd.DataFrame({"user_id": np.arange(UNITS), "variant": names, "ts": hours(entry)})
    orders = pd.DataFrame({"user_id": buyer, "ts": hours(order)})
    orders = orders[orders.ts >= START - pd.Timedelta(hours=30)]
    if zone is not None:
        seen["ts"] = seen.ts.dt.tz_localize(zone)
    loaded = abeval.define(
        name="zones",
        unit="user_id",
        control="control",
        variants={"control": {}, "treatment": {}},
        logs={"impressions": {}, "events": {"orders": {}}},
        metrics=[{"name": "bought", "log": "orders", "role": "goal"}],
        trust={"aa_runs": 0},
    )
    return loaded.analyze(logs={"impressions": seen, "orders": orders})


def check(result: Result) -> abeval.Check:
    return next(one for one in result.trust if one.name == "before_exposure:orders")


def world(shift: float = 0.0, seed: int = 3) -> tuple[Hours, Hours, np.ndarray]:
    """Units enter over two weeks, and a third of them buy soon after."""
    rng = np.random.default_rng(seed)
    entry = rng.uniform(30, 14 * 24, UNITS)
    buyer = rng.permutation(UNITS)[:700]
    return entry, entry[buyer] + rng.exponential(6, 700) - shift, buyer


@pytest.mark.parametrize("shift", [1, 2, 3.5, 5, 8, 11])
def test_a_log_of_another_zone_is_not_trusted_and_the_shift_is_named(shift: float) -> None:
    found = check(judged(*world(shift)))
    # Within an hour of their entry a seventh of the units buy.
    assert found.status == ("warn" if shift == 1 else "fail")
    assert f"times {shift:g} hours later would mend that" in found.message
    assert (f"Etc/GMT+{shift:g}" in found.remedy) == (shift % 1 == 0)
    assert found.metrics == ("bought",)


def steady(rng: np.random.Generator, entry: Hours) -> tuple[Hours, np.ndarray]:
    """People who buy at any time, before they enter as after."""
    return rng.uniform(0, 14 * 24, 3_000), rng.integers(0, UNITS, 3_000)


def triggered(rng: np.random.Generator, entry: Hours) -> tuple[Hours, np.ndarray]:
    """The page that thanks for an order is what is tested: the order comes minutes before."""
    buyer = np.arange(UNITS)
    return entry - rng.exponential(0.02, UNITS), buyer


def visiting(rng: np.random.Generator, entry: Hours) -> tuple[Hours, np.ndarray]:
    """People enter somewhere in a visit in which they buy."""
    buyer = rng.integers(0, UNITS, 1_500)
    return entry[buyer] + rng.normal(0, 0.4, 1_500), buyer


def daily(rng: np.random.Generator, entry: Hours) -> tuple[Hours, np.ndarray]:
    """People who buy in the evening, on any day."""
    buyer = rng.integers(0, UNITS, 3_000)
    return 24 * rng.integers(0, 14, 3_000) + rng.normal(20, 1.5, 3_000), buyer


HONEST = {"steady": steady, "triggered": triggered, "visiting": visiting, "daily": daily}


@pytest.mark.parametrize("kind", HONEST)
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
@pytest.mark.parametrize("at_once", [False, True])
def test_an_honest_log_passes_however_much_of_it_is_from_before(
    kind: str, seed: int, at_once: bool
) -> None:
    """`at_once`: everybody enters by a mail at noon, and the orders begin at midnight."""
    rng = np.random.default_rng(seed)
    morning = np.mod(rng.normal(9, 2, UNITS), 24)
    entry = np.full(UNITS, 12.0) if at_once else 24 * rng.integers(0, 14, UNITS) + morning
    orders: Callable[..., tuple[Hours, np.ndarray]] = HONEST[kind]
    assert check(judged(entry, *orders(rng, entry))).status == "pass"


def test_of_few_rows_nothing_is_said() -> None:
    assert measure_clock_lag(dict.fromkeys(range(16), 1)) == 0
    assert measure_clock_lag({}) == 0


def test_times_without_a_zone_beside_times_with_one_are_asked_for() -> None:
    entry, order, buyer = world()
    asked = judged(entry, order, buyer, zone="UTC")
    assert asked.verdicts[0].decision == "draft"
    assert "[logs.events.orders] ts_zone" in asked.questions[0]
    assert judged(entry, order, buyer).questions == ()


@pytest.mark.parametrize("hour", [22, 23, 5])
def test_days_that_are_midnights_of_another_zone_are_named_with_what_mends_them(hour: int) -> None:
    """A sixth of the orders came before their exposure, in silence."""
    random = np.random.default_rng(5)
    orders = buyers(random, 3_000, 0.3).logs
    day = orders["orders"].ts.dt.floor("D")
    shifted = day + pd.Timedelta(hours=hour if hour < 12 else hour - 24)
    logs = {**orders, "orders": orders["orders"].assign(ts=shifted)}
    entries = buyers(random, 100, 0.0).entries
    found = check(analyze_world(World(logs, entries)))
    assert (found.status, f"are at {hour}:00 UTC" in found.message) == ("warn", True)
    query = re.search(r'query = "(.*)"', found.remedy)
    assert query is not None
    mended = {**entries["logs"], "events": {"orders": {"query": query[1]}}}
    result = analyze_world(World(logs, {**entries, "logs": mended}))
    named = [one for one in result.accounting if one.log == "orders"]
    assert named[0].used == named[0].read


def test_times_of_a_day_are_one_where_all_are_alike() -> None:
    def ask(*times: int | None) -> tuple[object, ...]:
        day = [None if time is None else time // 86_400_000 for time in times]
        rows = relation("time_ms bigint, day", *zip(times, day, strict=True))
        return answer("audit/times_of_day", outcome_rows=rows)[0]

    hour = 3_600_000
    assert ask(22 * hour, 46 * hour, None) == (22 * hour, 22 * hour, 2)
    assert ask(22 * hour, 47 * hour) == (22 * hour, 23 * hour, 2)
    assert ask(22 * hour, 46 * hour + 1)[2] is None
