"""Faults that are planted into logs, and what an analysis says of them; sound logs say nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.inference.trust import hours
from abeval.inference.trust.audits import sum_day_windows
from abeval.results.analysis import Result
from abeval.results.trust import Check
from tests.logs.small import analyze, small_log
from tests.worlds.audited import (
    FAULTS,
    Log,
    analysed,
    fired,
    leaks,
    outcome,
    simulated,
)


def check(result: Result, name: str) -> Check:
    return next(one for one in result.trust if one.name == name)


@pytest.mark.first_cases(6)
@pytest.mark.whole
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_named_and_ranked_first(name: str) -> None:
    fault = FAULTS[name]
    log = simulated(400_000 if "hour" in name else 120_000, seed=11)
    found = outcome(fault, analysed(fault.plant(log, np.random.default_rng(1))))
    assert (found.found, found.first) == (True, True), found


@pytest.mark.parametrize("effect", [0.0, 0.3])
def test_a_sound_log_passes_every_audit_also_with_an_effect(effect: float) -> None:
    result = analysed(simulated(120_000, seed=4, effect=effect))
    # What a ratio divides by is moved by the effect: this check says so, and is no audit.
    assert [c.name for c in fired(result) if c.name != "denominators"] == []
    assert (result["ctr"].lift or 0) > 0.1 if effect else True


@pytest.mark.slow
@pytest.mark.whole
def test_a_hash_that_leaks_between_layers_is_found_and_chance_is_not() -> None:
    log = simulated(240_000, seed=1)
    assert leaks(log, np.random.default_rng(1), share=0.1)
    assert not leaks(log, np.random.default_rng(1), share=0.0)


def lists(rows: int = 12_000) -> pd.DataFrame:
    return small_log(rows=rows, units=400, seed=4)


def test_nulls_of_items_warn_and_nulls_of_scores_fail() -> None:
    """Other items may have no category; a score is the model's own."""
    log = lists()
    gone = (log["variant"] == "b") & (np.random.default_rng(2).random(len(log)) < 0.2)
    metrics = ["ctr", "category_diversity", "gauc"]
    items = analyze(log.assign(category=log["category"].mask(gone)), metrics=metrics)
    scores = analyze(log.assign(score=log["score"].mask(gone)), metrics=metrics)
    warned, failed = check(items, "nulls"), check(scores, "nulls")
    assert (warned.status, warned.threshold, warned.metrics) == (
        "warn",
        None,
        ("category_diversity",),
    )
    assert "category (a 0.00%, b 2" in warned.message
    assert (failed.status, failed.metrics) == ("fail", ("gauc",))
    assert scores["gauc"].status == "untrusted"
    assert scores["ctr"].status != "untrusted"


def test_rows_without_a_unit_or_a_time_in_one_variant() -> None:
    log = small_log(rows=12_000, units=400, seed=4)
    log["ts"] = log["ts"] + pd.to_timedelta(np.arange(len(log)) % 12, unit="D")
    gone = (log["variant"] == "b") & (np.random.default_rng(3).random(len(log)) < 0.1)
    period = {"start": "2024-03-01", "end": "2024-04-01"}
    people = analyze(log.assign(user_id=log["user_id"].astype("Int64").mask(gone)), period=period)
    times = analyze(log.assign(ts=log["ts"].mask(gone)), period=period)
    for result, reason in ((people, "null_unit"), (times, "null_time")):
        found = check(result, "set_aside_by_variant")
        assert found.status == "fail"
        assert (
            f"{reason} (a 0.00%, b 1" in found.message or f"{reason} (a 0.00%, b 9" in found.message
        )


@pytest.mark.whole
def test_duplicates_of_one_variant() -> None:
    log = lists()
    again = log[(log["variant"] == "b") & (np.random.default_rng(5).random(len(log)) < 0.05)]
    result = analyze(pd.concat([log, again]))
    found = check(result, "duplicates_by_variant")
    assert found.status == "fail"
    assert "(a 0.00%, b 5" in found.message or "(a 0.00%, b 4" in found.message
    both = log[np.random.default_rng(5).random(len(log)) < 0.05]
    assert check(analyze(pd.concat([log, both])), "duplicates_by_variant").status == "pass"


def test_what_was_not_served_as_meant() -> None:
    log = lists()
    random = np.random.default_rng(6)
    b = log["variant"] == "b"
    log = log.assign(slow=(random.random(len(log)) < np.where(b, 0.3, 0.001)).astype(int))
    log["old"] = random.random(len(log)) < 0.001
    result = analyze(log, logs={"impressions": {"columns": {"timeout": "slow", "stale": "old"}}})
    assert check(result, "served:timeout").status == "fail"
    assert "a timeout: a 0." in check(result, "served:timeout").message
    assert check(result, "served:stale").status == "pass"
    # A text that is called so is another thing, and stops nobody.
    words = analyze(log.assign(fallback="page 2"))
    assert check(words, "served").status == "skipped"


def test_exposed_units_without_an_impression() -> None:
    log = lists()
    units = np.arange(4_000)
    variant = np.where(units % 2 == 0, "a", "b")
    silent = (units >= 400) & (units % 2 == 0) & (units % 8 != 0)
    exposed = pd.DataFrame({"user_id": units, "variant": variant, "ts": log["ts"].min()})
    seen = np.repeat(np.arange(400, 4_000), 1)
    more = pd.DataFrame({**log.iloc[:1].to_dict("list"), "user_id": [0]}).loc[[0] * len(seen)]
    more = more.assign(
        user_id=seen, variant=np.where(seen % 2 == 0, "a", "b"), request_id=10**6 + seen
    )
    whole = pd.concat([log, more[~silent[seen]]])
    result = analyze(whole, exposures=exposed)
    found = check(result, "silent_units")
    assert found.status == "warn"
    assert found.threshold is None


def ramped(lost: float) -> Check:
    """`silent_units` of a ramp from 10 to 50 %: who enters late has less time to come."""
    random, n = np.random.default_rng(12), 4_000
    start = pd.Timestamp("2026-10-01")
    day = random.integers(0, 10, n)
    variant = np.where(random.random(n) < np.where(day < 4, 0.1, 0.5), "b", "a")
    entry = start + pd.to_timedelta(day * 24.0 + random.random(n) * 24, unit="h")
    exposed = pd.DataFrame({"user_id": np.arange(n), "variant": variant, "ts": entry})
    waits = random.exponential(48.0, n)
    comes = (day * 24 + waits < 240) & ~((variant == "b") & (random.random(n) < lost))
    log = exposed.assign(
        ts=entry + pd.to_timedelta(waits, unit="h"), request_id=np.arange(n), item_id=1, click=0
    )[comes]
    dates = [f"2026-10-{n:02d}" for n in (1, 5, 12)]
    splits = [
        {"from": dates[0], "weights": {"a": 0.9, "b": 0.1}},
        {"from": dates[1], "weights": {"a": 0.5, "b": 0.5}},
    ]
    experiment = abeval.define(
        name="ramp",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        period={"start": dates[0], "end": dates[2]},
        assignment={"splits": splits},
        logs={"impressions": {}, "exposures": {}},
        metrics=[{"name": "ctr"}],
    )
    result = experiment.check(logs={"impressions": log, "exposures": exposed})
    return next(one for one in result.trust if one.name == "silent_units")


def test_a_ramp_makes_no_units_silent_and_lists_that_are_lost_do() -> None:
    sound, broken = ramped(0.0), ramped(0.2)
    assert (sound.status, sound.value) == ("pass", 0.0)
    assert "within the split periods" in sound.message
    assert broken.status == "warn"


@pytest.mark.whole
def test_a_log_that_ends_too_early() -> None:
    log = simulated(120_000, seed=5)
    ts = log.impressions["ts"].to_numpy()
    end = ts.max()
    late = (end - ts) < np.timedelta64(6, "h")
    thin = log.impressions[~(late & (np.random.default_rng(1).random(len(ts)) < 0.9))]
    found = check(analysed(Log(thin, log.clicks)), "late_data")
    assert found.status == "warn"
    assert "more rows may be on their way" in found.message


def test_each_effect_says_what_its_ten_units_make_of_it() -> None:
    units = abeval.define(
        name="units",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        logs={"units": {}},
        metrics=[{"name": "rounds"}],
    )
    random = np.random.default_rng(8)
    table: dict[str, Any] = {
        "user_id": np.arange(2_000),
        "variant": np.where(np.arange(2_000) % 2 == 0, "a", "b"),
        "rounds": random.poisson(50, 2_000),
    }
    table["rounds"][0] = 49_854
    result = units.analyze(logs={"units": pd.DataFrame(table)})
    found = check(result, "influence")
    assert (found.status, found.metrics) == ("fail", ("rounds",))
    assert result["rounds"].status == "untrusted"
    (one,) = result.influence
    rounds = pd.DataFrame(table)
    means = rounds[rounds["user_id"] > 0].groupby("variant")["rounds"].mean()
    assert one.lift < -0.4
    assert one.lift_without == pytest.approx(means["b"] / means["a"] - 1, abs=0.01)
    assert one.units == 10
    assert "49,854" not in found.message


def table_of(units: int = 600, **metrics: object) -> pd.DataFrame:
    number = np.arange(units)
    variant = np.where(number % 2 == 0, "control", "treatment")
    return pd.DataFrame({"user_id": number, "variant": variant, **metrics})


def analysed_table(table: pd.DataFrame, metrics: list[str]) -> Result:
    return abeval.analyze(
        table, unit="user_id", variant="variant", metrics=metrics, control="control"
    )


def test_the_only_success_buyer_or_failure_of_a_variant_is_no_fault() -> None:
    random = np.random.default_rng(4)
    number = np.arange(600)
    # Control has one of each: the most ordinary thing of a rare metric.
    few = np.isin(number, [10, 21, 33, 55])
    names = ["visits", "bought", "revenue", "kept"]
    table = table_of(
        visits=random.poisson(3, 600),
        bought=few.astype(int),
        revenue=np.where(few, 20 + 5.25 * number, 0.0),
        kept=1 - few,
    )
    result = analysed_table(table, names)
    found = check(result, "influence")
    assert found.status == "pass"
    assert "not looked at in every variant: bought, revenue and kept" in found.message
    assert {result[name].status for name in names}.isdisjoint({"untrusted"})
    assert [one.decision for one in result.verdicts] == ["keep_running"]
    only = check(analysed_table(table, ["bought"]), "influence")
    assert (only.status, "fewer than 10 units" in only.message) == ("skipped", True)


@pytest.mark.parametrize("buyers", [11, 600])
def test_a_bot_among_eleven_buyers_or_among_all_is_seen(buyers: int) -> None:
    number = np.arange(600)
    revenue = np.where(number // 2 < buyers, 5.0 + number % 7, 0.0)
    revenue[2] = 40_000.0
    found = check(analysed_table(table_of(revenue=revenue), ["revenue"]), "influence")
    assert (found.status, found.metrics) == ("fail", ("revenue",))


@pytest.mark.parametrize(("heavy", "status"), [("treatment", "warn"), ("both", "pass")])
def test_twelve_units_that_hide_each_other_are_seen_unless_both_variants_have_them(
    heavy: str, status: str
) -> None:
    random, number = np.random.default_rng(6), np.arange(2_000)
    rounds = random.poisson(20, 2_000)
    chosen = (number < 24) & ((number % 2 == 1) | (heavy == "both"))
    rounds[chosen] = 150 + number[chosen]
    found = check(analysed_table(table_of(2_000, rounds=rounds), ["rounds"]), "influence")
    assert found.status == status
    words = "12 units of treatment together make "
    assert (words in found.message) == (heavy == "treatment")


def test_a_rare_product_of_few_prices_is_no_fault() -> None:
    """Its buyers are apart from everybody else, and all of one variant by chance."""
    number = np.arange(2_000)
    bought = np.where((number < 30) & (number % 2 == 1), 40.0, 0.0)
    found = check(analysed_table(table_of(2_000, bought=bought), ["bought"]), "influence")
    assert found.status in ("pass", "skipped")


def with_tiny(tiny: int, seed: int, spread: float = 6.0) -> pd.DataFrame:
    """Rows of users of their own hours, sound, of two variants and of a very small third one."""
    random = np.random.default_rng(seed)
    units = np.repeat(["control", "treatment", "tiny"], [1_000, 1_000, tiny])
    unit = np.repeat(np.arange(len(units)), random.poisson(4, len(units)) + 1)
    own = random.normal(14, spread, len(units))[unit]
    other = random.normal(14, spread, len(unit))
    hours = np.where(random.random(len(unit)) < 0.5, own, other).astype(int) % 24
    day = random.integers(0, 7, len(unit)) * 24
    seconds = (hours + day) * 3_600 + random.integers(0, 3_600, len(unit))
    return pd.DataFrame(
        {
            "user_id": unit,
            "variant": units[unit],
            "ts": pd.Timestamp("2026-10-01") + pd.to_timedelta(seconds, unit="s"),
            "impression_id": np.arange(len(unit)),
            "item_id": random.integers(0, 500, len(unit)),
            "position": pd.array(random.integers(1, 9, len(unit)), "Int64"),
            "request_id": np.arange(len(unit)),
            "click": random.integers(0, 9, len(unit)) == 0,
        }
    )


def checked(log: pd.DataFrame) -> dict[str, Check]:
    sizes = log.groupby("variant")["user_id"].nunique()
    experiment = abeval.define(
        name="tiny",
        unit="user_id",
        control="control",
        variants={name: {"weight": int(n)} for name, n in sizes.items()},
        logs={"impressions": {}},
        metrics=[{"name": "ctr"}],
    )
    return {one.name: one for one in experiment.check(logs={"impressions": log}).trust}


@pytest.mark.parametrize(("tiny", "seed"), [(14, 0), (40, 1)])
def test_a_tiny_variant_makes_no_fault_by_chance(tiny: int, seed: int) -> None:
    log = with_tiny(tiny, seed)
    # One user in twenty has no positions, in every variant; of a tiny one it may well be nobody.
    nobody = np.random.default_rng(seed).random(2_000 + tiny) < 0.05
    log["position"] = log["position"].mask(nobody[log["user_id"]])
    checks = checked(log)
    assert [one.name for one in checks.values() if one.status in ("warn", "fail")] == []
    if tiny == 14:
        words = "; tiny has 14 units of the 30 that a comparison needs"
        assert all(checks[name].message.endswith(words) for name in ("clock", "nulls"))
        alone = checked(log[log["variant"] != "treatment"])
        assert alone["clock"].status == alone["nulls"].status == "skipped"
        assert "tiny has 14 units, and a comparison needs 30" in alone["clock"].message


def test_a_small_variant_with_a_fault_is_seen() -> None:
    log = with_tiny(200, seed=2, spread=3.0)
    small = log["variant"] == "tiny"
    log["position"] = log["position"].mask(small)
    log["ts"] = log["ts"] + pd.to_timedelta(np.where(small, 8, 0), unit="h")
    checks = checked(log)
    assert (checks["nulls"].status, checks["clock"].status) == ("fail", "fail")
    assert "tiny is about 8 hours later" in checks["clock"].message


def test_few_units_are_not_looked_at_where_the_file_says_so() -> None:
    result = analyze(lists(), privacy={"min_units": 5})
    assert result.influence == ()
    assert check(result, "influence").status == "skipped"


def test_a_day_stands_beside_the_seven_before_and_after_it() -> None:
    rows = (1 << np.arange(10))[:, None, None]
    before, after, week = (
        sum_day_windows(rows, *days).ravel().tolist() for days in ((-7, 0), (1, 8), (0, 7))
    )
    assert before[8] == sum(1 << day for day in range(1, 8))
    assert after[1] == sum(1 << day for day in range(2, 9))
    assert (before[0], after[8], after[9]) == (0, 1 << 9, 0)
    assert (week[0], week[9]) == (sum(1 << day for day in range(7)), 1 << 9)


def test_the_mean_direction_of_the_clock_is_that_of_the_hours() -> None:
    rows = np.zeros((24, 3), np.int64)
    rows[0, 0], rows[6, 0], rows[12, 1] = 3, 2, 5
    rhythm = hours._sum_rhythm(rows)
    turns = [(sums.clusters, sums.y, sums.x) for sums in rhythm.turns]
    assert turns == [(2, 3_000 - 5_000, 10), (2, 2_000, 10)]
    of_six = rhythm.hours[6]
    assert (of_six.clusters, of_six.y, of_six.x, of_six.y_x) == (2, 2, 10, 10)
