"""Where a split goes wrong, since when, and what is likely: through the whole analysis."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.api import LoadedExperiment
from abeval.results.analysis import CheckResult, Result
from abeval.results.trust import Check

USERS = 24_000


def log(lost: Callable[[pd.DataFrame, np.ndarray], pd.Series], seed: int = 0) -> pd.DataFrame:
    """One impression a user over ten days, without those of variant b that are lost."""
    random = np.random.default_rng(seed)
    day = random.integers(0, 10, USERS)
    table = pd.DataFrame(
        {
            "user_id": np.arange(USERS),
            "variant": random.choice(["a", "b"], USERS),
            "ts": pd.Timestamp("2026-09-14")
            + pd.to_timedelta(day * 24 + random.integers(0, 24, USERS), unit="h"),
            "device": random.choice(["ios", "android", "web"], USERS, p=[0.3, 0.5, 0.2]),
            "click": random.random(USERS) < 0.1,
        }
    )
    gone = lost(table, random.random(USERS)) & (table["variant"] == "b")
    return table[~gone].astype({"click": int})


def experiment(**more: object) -> LoadedExperiment:
    return abeval.define(
        ".",
        name="places",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        logs={"impressions": {}},
        segments={"device": "device"},
        metrics=[{"name": "ctr"}],
        engine={"threads": 1},
        **more,
    )


def analysed(table: pd.DataFrame, **more: object) -> Result:
    return experiment(**more).analyze(logs={"impressions": table})


def srm(result: Result | CheckResult) -> Check:
    return next(check for check in result.trust if check.name == "srm")


def test_units_lost_from_a_day_on_are_named_by_day() -> None:
    late = analysed(log(lambda t, u: (t["ts"] >= "2026-09-21") & (u < 0.12)))
    assert late.split_places[0].dimension == "entry day"
    assert late.split_places[0].worst in ("2026-09-21", "2026-09-22", "2026-09-23")
    assert "it shows most by entry day 2026-09-2" in srm(late).message
    before = [one.p_value for one in late.split_days if one.day < "2026-09-21"]
    assert min(before) > 0.5 > late.split_days[-1].p_value


def test_units_lost_on_one_device_are_named_by_device() -> None:
    result = analysed(log(lambda t, u: (t["device"] == "ios") & (u < 0.15)))
    first = result.split_places[0]
    assert (first.dimension, first.worst, first.cells) == ("device", "ios", 3)
    assert first.p_value_without > 0.01
    assert "it shows most by device = 'ios' (all others together p = 0." in srm(result).message


def test_units_lost_everywhere_are_named_as_that() -> None:
    result = analysed(log(lambda t, u: u < 0.05))
    assert srm(result).status == "fail"
    assert "the same on all days, at all hours of entry and in all segments" in srm(result).message
    assert srm(result).remedy.startswith("look for a wrong weight, a redirect, ")
    first = next(one.day for one in result.split_days if one.p_value < 0.01)
    assert f"; it shows from {first} " in srm(result).message


def test_units_lost_at_some_hours_of_each_day_are_named_by_the_clock() -> None:
    """A job that runs at night; `abeval analyze --checks` says the same as the analysis."""
    table = log(lambda t, u: t["ts"].dt.hour.isin([3, 4, 5]) & (u < 0.35))
    result = experiment().check(logs={"impressions": table})
    first = result.split_places[0]
    assert (first.dimension, first.cells) == ("hour of the day", 24)
    assert first.worst in ("03:00", "04:00", "05:00")
    assert f"it shows most by hour of the day {first.worst}" in srm(result).message
    assert "look at what runs at that hour each day" in srm(result).message
    assert result.split_days[-1].p_value < 1


def test_units_lost_in_a_few_hours_are_named_by_these_though_all_units_together_are_even() -> None:
    lost = pd.date_range("2026-09-18 10:00", periods=4, freq="h")
    result = analysed(log(lambda t, u: t["ts"].isin(lost)))
    assert srm(result).status == "pass"
    first = result.split_places[0]
    assert (first.dimension, first.cells) == ("entry hour", 240)
    assert pd.Timestamp(first.worst) in lost
    assert first.p_value < 1e-6 < 0.001 < first.p_value_without


def test_hours_with_few_units_are_tested_together() -> None:
    few = log(lambda t, u: u < 0).iloc[::100]
    (hours,) = (p for p in analysed(few).split_places if p.dimension == "hour of the day")
    assert hours.cells > 20
    assert [p for p in analysed(few).split_places if p.dimension == "entry hour"] == []


@pytest.mark.whole
def test_a_mismatch_of_one_day_that_a_daily_reader_may_have_met_by_chance_says_so() -> None:
    """Read daily, a test at p < .01 cries on sound splits; the running test does not."""
    result = analysed(log(lambda t, u: u < 0.0375))
    assert srm(result).status == "warn"
    assert "may be read every day does not see it yet (p = " in srm(result).message


def test_a_sound_split_names_no_place() -> None:
    result = analysed(log(lambda t, u: u < 0))
    assert "shows most" not in srm(result).message
    assert sum(one.units["a"] for one in result.split_days) == result["ctr"].units_control
    assert [one.day for one in result.split_days] == [f"2026-09-{day}" for day in range(14, 24)]


def test_the_running_test_seldom_cries_although_it_is_read_every_day() -> None:
    """Ten looks at 300 sound splits: a test at a fixed level would cry in a fifth of them."""
    from abeval.stats import srm as tests

    random = np.random.default_rng(4)
    counts = random.binomial(2_400, 0.5, (300, 10))
    cries = fixed = 0
    for entered in counts:
        path = np.cumsum(np.stack([entered, 2_400 - entered], axis=1), axis=0)
        cries += tests.check_split_at_looks(path, [1, 1])[-1] < 0.05
        fixed += min(tests.chi_square(row.tolist(), [1, 1]).p_value for row in path) < 0.05
    assert cries <= 15 < 30 < fixed


@pytest.mark.whole
def test_without_one_split_by_day_there_is_no_running_test() -> None:
    sound = log(lambda t, u: u < 0)
    assert analysed(sound.drop(columns="ts")).split_days == ()
    early = sound["ts"] < "2026-09-18"
    thinned = np.random.default_rng(1).random(len(sound)) < 0.7
    ramped = sound[~(early & (sound["variant"] == "b") & thinned)]
    splits = [
        {"from": "2026-09-14", "weights": {"a": 0.77, "b": 0.23}},
        {"from": "2026-09-18", "weights": {"a": 0.5, "b": 0.5}},
    ]
    assert analysed(ramped, assignment={"splits": splits}).split_days == ()
