"""Looks at an experiment while it runs: through the whole analysis, and over many experiments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import abeval
from abeval.results.analysis import Result
from abeval.stats import sequential

PERIOD = {"start": "2027-03-01", "end": "2027-03-29"}


def log_of(users: int, days: int = 28, rate: float = 0.3, seed: int = 0) -> pd.DataFrame:
    """Five impressions a user, on days of their own; half of the users are treated."""
    random = np.random.default_rng(seed)
    user = np.repeat(np.arange(users), 5)
    day = np.repeat(np.arange(users) * days // users, 5)
    return pd.DataFrame(
        {
            "user_id": user,
            "variant": np.where(user % 2 == 0, "a", "b"),
            "ts": pd.Timestamp("2027-03-01 12:00") + pd.to_timedelta(day, unit="D"),
            "item_id": np.tile(np.arange(5), users),
            "click": random.random(user.size) < rate,
        }
    )


def analyzed(log: pd.DataFrame, metrics: tuple[str, ...] = ("ctr",), **inference: Any) -> Result:
    loaded = abeval.define(
        ".",
        name="looks",
        unit="user_id",
        control="a",
        period=PERIOD,
        variants={"a": {}, "b": {}},
        logs={"impressions": {}},
        metrics=[{"name": name} for name in metrics],
        inference=inference,
        trust={"aa_runs": 0},
        engine={"threads": 1},
    )
    return loaded.analyze(logs={"impressions": log})


def test_without_a_plan_the_boundary_rises_with_what_has_been_seen() -> None:
    """It was 3.035 at every look, which rejects 7.4 % from 100 units to 100,000."""
    for users in (2_000, 20_000):
        log = log_of(users)
        (look,) = analyzed(log, looks="always_valid").boundaries
        clicks = log.groupby("variant")["click"]
        # One impression is as good as independent here, and ctr has no other variance.
        se = np.sqrt((clicks.var() / clicks.size()).sum())
        growth = (0.15 * log["click"].mean() / se) ** 2
        assert look.information == pytest.approx(growth, rel=0.05)
        assert look.boundary == pytest.approx(
            np.sqrt(stats.chi2.isf(0.05, 3) + np.log(look.information)), rel=1e-12
        )


def test_with_a_plan_it_is_tighter() -> None:
    log = log_of(20_000)
    free = analyzed(log, looks="always_valid")
    planned = analyzed(log, looks="always_valid", planned_units=20_000)
    assert planned.boundaries[0].boundary == pytest.approx(3.035, abs=1e-3)
    assert planned.boundaries[0].information == 1.0
    assert free.boundaries[0].boundary > 3.5
    widths = [row.difference_high - row.difference_low for row in (free["ctr"], planned["ctr"])]
    assert widths[0] > 1.1 * widths[1]
    assert any("with planned_units they would be tighter" in note for note in free.notes)
    assert any("tightest at the planned 20,000 units" in note for note in planned.notes)


@pytest.mark.parametrize("inference", [{}, {"planned_units": 1_000}])
def test_looks_have_a_stated_start(inference: dict[str, Any]) -> None:
    row = analyzed(log_of(190), looks="always_valid", **inference)["ctr"]
    assert (row.reason, row.status) == ("before_first_look", "too_little_data")
    assert row.difference is None
    assert row.control is not None
    later = analyzed(log_of(20_000), looks="always_valid", **inference)["ctr"]
    assert later.difference is not None


def test_a_rare_event_starts_later_than_a_frequent_one() -> None:
    result = analyzed(log_of(4_000, rate=0.002), ("ctr", "impressions_per_user"), looks="fixed")
    assert result["ctr"].reason is None
    rare = analyzed(log_of(4_000, rate=0.002), looks="always_valid")["ctr"]
    assert rare.reason == "before_first_look"


def test_the_interval_agrees_with_the_p_value_at_every_growth() -> None:
    for growth in (1.0, 3.0, 1e4):
        critical = sequential.critical_from_start(growth)
        for z, inside in ((critical * 1.0001, False), (critical * 0.9999, True)):
            look = sequential.from_start(z, 1.0, growth)
            assert (look.low <= 0 <= look.high) == inside == (look.p_value > 0.05)
    at_start = sequential.from_start(2.9, 1.0, 1.0)
    assert at_start.p_value == pytest.approx(stats.chi2.sf(2.9**2, 3), rel=1e-12)
    far = sequential.from_start(30.0, 1.0, 10.0)
    expected = np.log10(stats.chi2.sf(30.0**2 - np.log(10), 3))
    assert far.log10_p_value == pytest.approx(expected, rel=1e-9)
    beyond = sequential.from_start(60.0, 1.0, 10.0)
    assert (beyond.p_value, beyond.log10_p_value < -700) == (0.0, True)


def test_a_thousandfold_information_is_looked_at_all_the_time() -> None:
    """4,000 paths of a z statistic, 700 looks from the start to 1,000 times its information."""
    random = np.random.default_rng(1)
    growth = np.geomspace(1, 1000, 700)
    steps = random.standard_normal((4000, growth.size)) * np.sqrt(np.diff(growth, prepend=0.0))
    z = np.abs(np.cumsum(steps, axis=1)) / np.sqrt(growth)
    critical = [sequential.critical_from_start(float(g)) for g in growth]
    crossed = float(np.mean((z >= critical).any(axis=1)))
    error = np.sqrt(0.05 * 0.95 / 4000)
    assert 0.02 < crossed <= 0.05 + 3 * error
    # The constant boundary that was there does not hold.
    assert np.mean((z >= 3.0352).any(axis=1)) > 0.05 + 3 * error
