"""Looks at an experiment while it runs: through the whole analysis, and over many experiments."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import abeval
from abeval.report.terminal import as_text
from abeval.results import format as fmt
from abeval.results.analysis import Result, result_from_dict
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
        critical = sequential.find_bound_from_start(growth)
        for z, inside in ((critical * 1.0001, False), (critical * 0.9999, True)):
            look = sequential.look_from_start(z, 1.0, growth)
            assert (look.low <= 0 <= look.high) == inside == (look.p_value > 0.05)
    at_start = sequential.look_from_start(2.9, 1.0, 1.0)
    assert at_start.p_value == pytest.approx(stats.chi2.sf(2.9**2, 3), rel=1e-12)
    far = sequential.look_from_start(30.0, 1.0, 10.0)
    expected = stats.chi2.sf(30.0**2 - np.log(10), 3)
    assert far.p_value == pytest.approx(expected, rel=1e-9)
    assert sequential.look_from_start(60.0, 1.0, 10.0).p_value == 0.0


def test_a_thousandfold_information_is_looked_at_all_the_time() -> None:
    """4,000 paths of a z statistic, 700 looks from the start to 1,000 times its information."""
    random = np.random.default_rng(1)
    growth = np.geomspace(1, 1000, 700)
    steps = random.standard_normal((4000, growth.size)) * np.sqrt(np.diff(growth, prepend=0.0))
    z = np.abs(np.cumsum(steps, axis=1)) / np.sqrt(growth)
    critical = [sequential.find_bound_from_start(float(g)) for g in growth]
    crossed = float(np.mean((z >= critical).any(axis=1)))
    error = np.sqrt(0.05 * 0.95 / 4000)
    assert 0.02 < crossed <= 0.05 + 3 * error
    # The constant boundary that was there does not hold.
    assert np.mean((z >= 3.0352).any(axis=1)) > 0.05 + 3 * error


def ramped(users: int = 8_000, ramp: int = 21, low: float = 0.01, seed: int = 0) -> pd.DataFrame:
    """As many new users a day over 28 days; the variant has 1 % of them for a while, then half."""
    random = np.random.default_rng(seed)
    user = np.arange(users)
    day = user * 28 // users
    treated = random.random(users) < np.where(day < ramp, low, 0.5)
    rows = np.repeat(user, 5)
    return pd.DataFrame(
        {
            "user_id": rows,
            "variant": np.where(treated, "b", "a")[rows],
            "ts": pd.Timestamp("2027-03-01 12:00") + pd.to_timedelta(day[rows], unit="D"),
            "item_id": np.tile(np.arange(5), users),
            "click": random.random(rows.size) < 0.3,
        }
    )


PLAN = {"looks": "group_sequential", "planned_looks": [0.25, 0.5, 0.75]}


@pytest.mark.parametrize("spending", ["obrien_fleming", "pocock", "power"])
def test_planned_looks_under_a_ramp_correlate_as_their_units_do(spending: str) -> None:
    """By shares of days, three quarters of the information were in after three weeks at 1 %."""
    log = ramped()
    (found,) = analyzed(log, **PLAN, spending=spending).boundaries
    first = log.drop_duplicates("user_id")
    day = (first["ts"] - pd.Timestamp("2027-03-01")).dt.days
    counts = [
        [int(((day < end) & (first.variant == v)).sum()) for v in "ab"] for end in (7, 14, 21, 28)
    ]
    units = [1 / (1 / a + 1 / b) for a, b in counts]
    assert units[2] / units[-1] < 0.1
    expected = sequential.bounds(
        np.array(units) / units[-1], 0.05, spending, spent_at=[0.25, 0.5, 0.75, 1.0]
    )
    assert found.boundary == pytest.approx(expected.z[-1], abs=0.02)
    by_days = sequential.bounds([0.25, 0.5, 0.75, 1.0], 0.05, spending)
    assert found.boundary > by_days.z[-1] + 0.05
    assert found.information == 1.0


def test_a_used_bound_stays_as_it_was() -> None:
    """What was spent at the first look does not change with what comes after it."""
    log = ramped()
    (early,) = analyzed(log[log["ts"] < "2027-03-15"], **PLAN).boundaries
    two = sequential.bounds([0.1, 1.0], spent_at=[0.25, 0.5])
    three = sequential.bounds([0.01, 0.1, 1.0], spent_at=[0.25, 0.5, 1.0])
    assert two.z == pytest.approx(three.z[:2], rel=1e-9)
    assert early.information == 0.5


def test_planned_looks_under_ramps_keep_their_level() -> None:
    """20,000 experiments without an effect, at the looks' true information."""
    random = np.random.default_rng(2)
    shares = np.arange(1, 15) / 14
    # Nine of 14 days at 1 %, the others at 50 %.
    days = np.where(np.arange(14) < 9, 0.01, 0.5)
    fractions = np.cumsum(days) / days.sum()
    steps = random.standard_normal((20_000, 14)) * np.sqrt(np.diff(fractions, prepend=0.0))
    z = np.abs(np.cumsum(steps, axis=1)) / np.sqrt(fractions)
    error = np.sqrt(0.05 * 0.95 / 20_000)
    for spending in ("obrien_fleming", "pocock", "power"):
        by_information = sequential.bounds(fractions, 0.05, spending, spent_at=shares).z
        rejected = float(np.mean((z >= by_information).any(axis=1)))
        assert rejected == pytest.approx(0.05, abs=3 * error)
        by_days = sequential.bounds(shares, 0.05, spending).z
        assert np.mean((z >= by_days).any(axis=1)) > 0.05 + 3 * error


@pytest.mark.parametrize(
    ("inference", "said"),
    [
        ({}, "day 14 of 28"),
        ({"looks": "always_valid"}, "day 14 of 28"),
        (
            {"looks": "group_sequential", "planned_looks": ["2027-03-08", "2027-03-15"]},
            "day 14 of 28, look 2 of 3: P_OPEN, so no early stop yet, next look 2027-03-29",
        ),
        (
            {"looks": "group_sequential", "planned_looks": [0.25, 0.75]},
            "day 14 of 28, an unplanned look after 1 of 3: P_OPEN, so no early stop yet, "
            "next look 2027-03-22",
        ),
        (
            {"looks": "group_sequential", "planned_looks": [0.5], "planned_units": 4_000},
            "day 14 of 28, look 1 of 2: P_OPEN, so no early stop yet, next look at 4,000 units",
        ),
    ],
)
def test_progress_says_the_day_the_look_and_the_next_one(
    inference: dict[str, Any], said: str
) -> None:
    result = analyzed(log_of(2_000, days=14), **inference)
    p = fmt.format_z_p_value(result.boundaries[0].z, 2) if result.boundaries else ""
    said = said.replace("P_OPEN", f"ctr p {p} is above its boundary 0.00305")
    assert result.progress == said
    assert result_from_dict(json.loads(result.to_json())).progress == said
    days = "(2027-03-01 to 2027-03-14, planned to 2027-03-28)"
    said = said.replace("day 14 of 28", f"day 14 of 28 {days}")
    assert f"looks: {said}; user_id units:" in as_text(result, 300)


def test_days_to_come_are_not_missing_at_a_planned_look() -> None:
    planned = {"looks": "group_sequential", "planned_looks": ["2027-03-08", "2027-03-15"]}
    for inference, hedges in ((planned, False), ({"looks": "always_valid"}, True)):
        result = analyzed(log_of(2_000, days=14), **inference)
        days = next(check for check in result.trust if check.name == "missing_days")
        assert days.status == "pass"
        assert any("has lost its last days" in note for note in result.notes) is hedges


def test_without_a_planned_end_progress_counts_days() -> None:
    log = log_of(600, days=9)
    loaded = abeval.define(
        name="open",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        logs={"impressions": {}},
        metrics=[{"name": "ctr"}],
        trust={"aa_runs": 0},
    )
    result = loaded.analyze(logs={"impressions": log})
    assert (result.progress, result.experiment.dates) == ("day 9", "")
