"""Experiments in which cities took turns between variants, through whole analyses."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.assignment.switchbacks import Schedule, build_schedule
from abeval.errors import ExperimentError, LogError
from abeval.results.analysis import Result
from abeval.results.trust import Check
from abeval.simulate.turns import ARMS, LIFT, build_log, draw_minutes
from abeval.stats.randomisation import RandomisationTest, coin_flip_assignments

pytestmark = pytest.mark.whole


START = datetime(2026, 9, 14)
DAYS, CITIES = 14, ("Lima", "Oslo", "Rome")


@cache
def log(
    schedule: Schedule = "balanced", lift: float = 0.0, carry: float = 0.0, seed: int = 0
) -> pd.DataFrame:
    """Impressions of three cities; the variant before acts for `carry` minutes of a slot."""
    rng = np.random.default_rng(seed)
    period, length = (START, START + timedelta(DAYS)), timedelta(hours=2)
    slots = pd.DataFrame(build_schedule(CITIES, ("a", "b"), period, length, "salt", schedule))
    treated = (slots["variant"] == "b").to_numpy().reshape(len(CITIES), -1)
    rows = 60_000
    city, second = rng.integers(0, len(CITIES), rows), rng.integers(0, DAYS * 86_400, rows)
    slot, since = np.divmod(second / 7_200, 1)
    slot = slot.astype(int)
    before = treated[city, np.maximum(slot - 1, 0)]
    acts = np.where((since * 120 < carry) & (slot > 0), before, treated[city, slot])
    rate = (0.2 + 0.05 * city + 0.05 * np.sin(second / 86_400 * 2 * np.pi)) * (1 + lift * acts)
    return pd.DataFrame(
        {
            "city": np.array(CITIES)[city],
            "user_id": rng.integers(0, 5_000, rows),
            "ts": pd.Timestamp(START) + pd.to_timedelta(second, unit="s"),
            "variant": np.where(treated[city, slot], "b", "a"),
            "click": (rng.random(rows) < rate).astype(int),
        }
    )


def entries(burn_in: str = "20m", schedule: str = "balanced", **more: Any) -> dict[str, Any]:
    turns = {"cluster": "city", "slot": "2h", "burn_in": burn_in, "schedule": schedule}
    return {
        "name": "cities",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "period": {"start": "2026-09-14", "end": "2026-09-28"},
        "logs": {"impressions": {}},
        "design": {"switchback": turns},
        "metrics": [{"name": "ctr", "role": "goal"}, {"name": "clicks_per_user"}],
        **more,
    }


def analyze(table: pd.DataFrame, **more: Any) -> Result:
    return abeval.define(entries(**more)).analyze(logs={"impressions": table})


@cache
def lifted() -> Result:
    """The analysis of a log whose treatment lifts clicks by a fifth."""
    return analyze(log(lift=0.2))


@cache
def of_two_goals() -> Result:
    """The analysis of a log without an effect, of a ratio and of a mean per user."""
    goals = [{"name": name, "role": "goal"} for name in ("ctr", "clicks_per_user")]
    return analyze(log(), metrics=goals)


def named(result: Result, name: str) -> Check:
    return next(check for check in result.trust if check.name == name)


def aside(result: Result) -> dict[str, int]:
    return dict(result.accounting[0].set_aside)


def faults(result: Result) -> set[str]:
    return {check.name for check in result.trust if check.status in ("warn", "fail")}


def of_slots(table: pd.DataFrame, burn_in: int) -> pd.DataFrame:
    """Sum what counts by city and slot, as the page of the design says, in plain pandas."""
    minute = (table["ts"] - START) / pd.Timedelta(minutes=1)
    rows = table.assign(slot=(minute // 120).astype(int), since=minute % 120)
    kept = rows[rows["since"] >= burn_in]
    sums = kept.groupby(["city", "slot"], as_index=False)
    return sums.agg(y=("click", "sum"), x=("click", "size"), variant=("variant", "first"))


def test_slots_are_compared_within_city_and_hour_by_the_draws_of_the_schedule() -> None:
    result, sums = lifted(), of_slots(log(lift=0.2), 20)
    hour, week = sums["slot"] % 12, sums["slot"] // 12 % 7
    coin = sums.groupby(["city", hour.rename("hour"), week.rename("week")]).ngroup().to_numpy()
    within = sums.groupby(["city", hour]).ngroup().to_numpy()
    treated = (sums["variant"] == "b").to_numpy()
    y, x = sums["y"].to_numpy(float), sums["x"].to_numpy(float)
    test = RandomisationTest(y, x, treated, coin_flip_assignments(treated, coin), within)
    row, arms = result["ctr"], sums.groupby("variant")[["y", "x"]].sum()
    assert (row.units_control, row.units) == (252, 252)
    assert row.treatment == pytest.approx(arms.loc["b", "y"] / arms.loc["b", "x"])
    # The difference is that of a regression on city and hour, weighted by impressions.
    design = np.column_stack([treated, np.eye(within.max() + 1)[within]]) * np.sqrt(x)[:, None]
    slope = np.linalg.lstsq(design, y / np.sqrt(x), rcond=None)[0][0]
    assert row.difference == pytest.approx(slope)
    assert row.p_value == pytest.approx(test.p_value(), abs=0.002)
    assert row.difference_low == pytest.approx(test.interval().low, rel=0.1)
    assert row.lift_low is not None
    assert row.lift_high is not None
    assert row.lift_low < 0.2 < row.lift_high
    assert result.verdicts[0].decision == "ship"
    assert result.experiment.unit == "city × 2h"


def test_rows_of_the_burn_in_are_counted() -> None:
    table, result = log(), of_two_goals()
    kept = int(of_slots(table, 20)["x"].sum())
    assert aside(result) == {"burn_in": len(table) - kept}
    assert f"set aside ({len(table) - kept:,})" in " ".join(result.notes)


def test_nothing_is_found_where_nothing_is() -> None:
    result = analyze(log(seed=1))
    assert faults(result) == set()
    assert result["ctr"].status == "unclear"
    assert named(result, "carry_over").status == "pass"


def test_users_are_no_denominator_and_the_row_says_so() -> None:
    result = of_two_goals()
    row = result["clicks_per_user"]
    assert (row.reason, row.lift) == ("switched", None)
    assert {one.metric for one in result.slot_quarters} == {"ctr"}
    assert named(result, "carry_over").metrics == ("ctr",)


@pytest.mark.slow
def test_carry_over_is_named_and_a_longer_burn_in_takes_it_out() -> None:
    table = log(lift=0.6, carry=40)
    short, long = analyze(table, burn_in="0m"), analyze(table, burn_in="40m")
    assert faults(short) == {"carry_over"}
    assert "carries over" in named(short, "carry_over").message
    assert faults(long) == set()
    assert (short["ctr"].lift or 0) < 0.5 < (long["ctr"].lift or 0)


@pytest.mark.slow
def test_carry_over_of_the_first_quarter_is_found_in_a_log_of_usual_size() -> None:
    drawn = [build_log(draw_minutes("balanced", 30, seed, LIFT), seed) for seed in range(4)]
    plan = {"variants": {name: {} for name in ARMS}, "control": ARMS[0]}
    results = [analyze(table, burn_in="0m", **plan) for table in drawn]
    assert sum("carry_over" in faults(result) for result in results) >= 3
    # Half an hour of carry-over is the first quarter of two hours.
    first, *later = np.mean(
        [[one.difference / one.value for one in result.slot_quarters] for result in results], axis=0
    )
    assert first == pytest.approx(LIFT, abs=0.04)
    assert np.abs(later).max() < 0.04
    assert [one.start for one in results[0].slot_quarters] == [0, 30, 60, 90]


def test_a_slot_of_both_variants_fails_and_is_named() -> None:
    table = log().copy()
    wrong = table["ts"].between("2026-09-20 05:00", "2026-09-20 05:30") & (table["city"] == "Oslo")
    table.loc[wrong, "variant"] = np.where(table.loc[wrong, "variant"] == "a", "b", "a")
    result = analyze(table)
    check = named(result, "crossover")
    assert check.status == "fail"
    assert "1 of 504 slots" in check.message
    assert "Oslo at 2026-09-20 04:00" in check.message
    assert aside(result)["mixed_slot"] > 0
    assert result.verdicts[0].decision == "do_not_trust"


def test_hours_that_one_variant_has_alone_are_found() -> None:
    table = log("coin")
    evening = table["ts"].dt.hour >= 18
    table = table[~evening | (table["variant"] == "b")]
    assert "slot_hours" in faults(analyze(table, schedule="coin"))
    assert faults(analyze(log("coin"), schedule="coin")) == set()


def test_missing_slots_cost_their_rows_alone() -> None:
    table = log(lift=0.2)
    gone = table["ts"].between("2026-09-16", "2026-09-16 11:59:59") & (table["city"] == "Rome")
    result = analyze(table[~gone])
    row = result["ctr"]
    assert row.units_control + row.units == 504 - 6
    assert row.status == "better"


def test_rows_without_a_cluster_are_set_aside() -> None:
    table = log().copy()
    table.loc[:99, "city"] = None
    assert aside(analyze(table))["no_cluster"] == 100


def test_slots_in_turn_are_drawn_in_turn() -> None:
    result = analyze(log("alternating", lift=0.2), schedule="alternating")
    assert result["ctr"].status == "better"
    assert "42 coins" in " ".join(result.notes)


def test_slots_that_follow_none_say_nothing_of_what_carries_over() -> None:
    table = log(lift=0.2)
    check = named(analyze(table[table["ts"].dt.hour % 4 < 2]), "carry_over")
    assert (check.status, check.message) == ("skipped", "no slot follows another")


def test_a_day_has_no_hour_twice_so_nothing_is_compared() -> None:
    table = log("coin")
    period = {"start": "2026-09-14", "end": "2026-09-15"}
    row = analyze(table[table["ts"] < "2026-09-15"], schedule="coin", period=period)["ctr"]
    assert (row.reason, row.lift) == ("too_few_units", None)


def test_another_schedule_than_the_file_says_is_refused() -> None:
    with pytest.raises(LogError, match="groups of slots of one coin") as error:
        analyze(log("coin"))
    assert 'schedule = "coin"' in str(error.value)


def test_a_schedule_gives_rows_their_variant_by_a_query() -> None:
    table, period = log(lift=0.2), (START, START + timedelta(DAYS))
    slots = pd.DataFrame(build_schedule(CITIES, ("a", "b"), period, timedelta(hours=2), "salt"))
    query = (
        "select log.*, s.variant from log join schedule s "
        "on log.city = s.cluster and log.ts >= s.start and log.ts < s.end"
    )
    plan = entries(logs={"impressions": {"query": query}}, tables={"schedule": {}})
    logs = {"impressions": table.drop(columns="variant"), "schedule": slots}
    row = abeval.define(plan).analyze(logs=logs)["ctr"]
    assert row.difference == pytest.approx(lifted()["ctr"].difference)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"burn_in": "3h"}, "leaves nothing of a slot"),
        ({"burn_in": "120m"}, "assign longer slots"),
        ({"segments": {"os": "os"}}, "not analysed with `segments`"),
        ({"variants": {"a": {"weight": 3}, "b": {}}}, "remove `weight`"),
        ({"variants": {"a": {}, "b": {}, "c": {}}}, "compares two variants"),
        ({"design": {"cluster": "city", "switchback": {"cluster": "c", "slot": "2h"}}}, "alone"),
        ({"design": {"switchback": {"cluster": "city", "slot": "7h"}}}, "does not divide a day"),
        ({"design": {}}, "needs the `cluster`"),
    ],
)
def test_a_plan_that_is_no_switchback_says_how_to_mend_it(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ExperimentError) as error:
        abeval.define(entries(**change))
    assert message in str(error.value)


def test_more_days_bring_more_slots() -> None:
    loaded = abeval.define(entries(metrics=[{"name": "ctr", "role": "goal"}]))
    plans = [loaded.power(mde=mde, logs={"impressions": log()})["ctr"] for mde in (0.02, 0.01)]
    assert plans[1].days == pytest.approx(4 * (plans[0].days or 0), rel=0.02)
    assert plans[0].clusters is None
