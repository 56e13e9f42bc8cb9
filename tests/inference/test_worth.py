"""What all traffic would gain, against totals of worlds where it had the treatment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.results.analysis import Worth
from tests.logs.small import PERIOD, analyze, small_log
from tests.worlds import splits
from tests.worlds.experiments import define_experiment
from tests.worlds.triggered import World, analyze_world

GOALS = [{"name": name, "role": "goal"} for name in ("clicks_per_user", "ctr")]
LOG = small_log(rows=4_000, units=400)


def worths(result: abeval.Result) -> dict[tuple[str, str], Worth]:
    return {(worth.metric, worth.variant): worth for worth in result.worth}


def test_it_is_the_difference_of_all_units_a_day() -> None:
    result = analyze(LOG, period=PERIOD, metrics=GOALS)
    mean, rate = (worths(result)[name, "b"] for name in ("clicks_per_user", "ctr"))
    by_variant = LOG.groupby("variant")
    clicks, units = by_variant.click.sum(), by_variant.user_id.nunique()
    per_unit, rates = clicks / units, LOG.groupby("variant").click.mean()
    assert (mean.what, mean.same, mean.days) == ("clicks", "", 3.0)
    assert mean.control == pytest.approx(per_unit.a * units.sum() / 3)
    assert mean.change == pytest.approx((per_unit.b - per_unit.a) * units.sum() / 3)
    assert (rate.what, rate.same) == ("clicks", "impressions")
    assert rate.change == pytest.approx((rates.b - rates.a) * len(LOG) / 3)
    row = result["clicks_per_user"]
    assert mean.change_low / mean.change == pytest.approx(row.difference_low / row.difference)


def test_an_hour_less_of_the_last_day_is_less_of_a_day() -> None:
    cut = LOG[LOG.ts < "2024-03-03 12:00"]
    days = worths(analyze(cut, period=PERIOD, metrics=GOALS))["ctr", "b"].days
    assert days == pytest.approx(2.5, abs=0.01)
    untimed = worths(analyze(cut.drop(columns="ts"), metrics=GOALS))["ctr", "b"]
    assert untimed.days is None


def days_of(log: pd.DataFrame, **entries: Any) -> float | None:
    return worths(analyze(log, metrics=GOALS, **entries))["clicks_per_user", "b"].days


@pytest.mark.parametrize("period", [{}, {"period": PERIOD}])
def test_a_site_that_is_quiet_at_night_has_whole_days(period: dict[str, Any]) -> None:
    is_open = LOG[LOG.ts.dt.hour.between(9, 16)]
    assert days_of(is_open, **period) == 3.0
    # The last day has half of its eight hours.
    assert days_of(is_open[is_open.ts < "2024-03-03 13:00"], **period) == pytest.approx(
        2.5, abs=0.02
    )


def test_a_test_of_one_day_that_is_cut_is_less_of_a_day() -> None:
    morning = LOG[LOG.ts < "2024-03-01 06:00"]
    period = {"start": "2024-03-01", "end": "2024-03-02"}
    assert days_of(morning, period=period) == pytest.approx(0.25, abs=0.01)


def test_days_on_which_nobody_was_in_the_test_do_not_dilute_it() -> None:
    late = LOG[LOG.ts >= "2024-03-02"]
    assert days_of(late, period=PERIOD) == 2.0
    exposures = LOG.drop_duplicates("user_id").assign(ts=pd.Timestamp("2024-03-02 12:00"))
    exposed = exposures[["user_id", "variant", "ts"]]
    assert days_of(LOG, exposures=exposed, period=PERIOD) == pytest.approx(1.5, abs=0.02)


def drawn(seed: int, treated: float, lift: float, third: float = 0.0) -> pd.DataFrame:
    """Users of whom most come late: their totals are smaller, in every variant alike."""
    rng, n = np.random.default_rng([seed, 9]), 4_000
    group, came = rng.random(n), 10 * rng.beta(3, 1, n)
    variant = np.where(group < treated, "b", np.where(group < treated + third, "c", "a"))
    seen = rng.poisson(rng.gamma(2.0, 3.0, n) * (10 - came) / 10) + 1
    user = np.repeat(np.arange(n), seen)
    at = came[user] + (10 - came[user]) * rng.random(len(user))
    # The first of them comes at once: days without anybody do not count.
    at[0] = 0.01
    chance = 0.2 * np.where(variant == "b", 1 + lift, 1.0)
    return pd.DataFrame(
        {
            "user_id": user,
            "variant": variant[user],
            "ts": pd.Timestamp("2026-03-01") + pd.to_timedelta(at, unit="D"),
            "click": (rng.random(len(user)) < chance[user]).astype(int),
        }
    )


@pytest.mark.parametrize(
    ("treated", "third"),
    [
        (0.3, 0.4),
        pytest.param(0.5, 0.0, marks=pytest.mark.slow),
        pytest.param(0.1, 0.0, marks=pytest.mark.slow),
    ],
)
def test_uneven_splits_and_units_that_come_late(treated: float, third: float) -> None:
    lift, covered = 0.3, 0
    weights = {"a": {"weight": 1 - treated - third}, "b": {"weight": treated}}
    experiment = define_experiment(
        variants=weights | ({"c": {"weight": third}} if third else {}),
        period={"start": "2026-03-01", "end": "2026-03-11"},
        logs={"impressions": {}},
        metrics=GOALS,
        trust={"aa_runs": 0},
        cleaning={"duplicates": "unchecked"},
    )
    for seed in range(6):
        log = drawn(seed, treated, lift, third)
        worth = worths(experiment.analyze(logs={"impressions": log}))["clicks_per_user", "b"]
        # If everybody had b, clicks would be a fifth of the rows more by 30 %.
        truth = 0.2 * lift * len(log) / 10
        covered += worth.change_low <= truth <= worth.change_high
        assert worth.change == pytest.approx(truth, rel=0.8)
        assert worth.control == pytest.approx(0.2 * len(log) / 10, rel=0.15)
    assert covered >= 5


def test_a_ramp_gains_what_all_its_users_would() -> None:
    world, covered = splits.World("ramp", splits.ramp(0.1), waits=0.5), 0
    for seed in range(6):
        users = splits.users_of(world, seed, 0.4)
        result = splits.analysed(world, users, "exposures")
        rows = {row.metric: row for row in result.scorecard}
        metric = next(m for m in ("clicks_per_user", "ctr") if rows[m].role == "goal")
        worth = worths(result)[metric, "b"]
        control = float((users.clicks / np.where(users.treated == 1, 1.4, 1.0)).sum())
        covered += worth.change_low <= 0.4 * control / splits.DAYS <= worth.change_high
    assert covered >= 5


def test_a_triggered_gain_is_that_of_the_exposed_units_alone() -> None:
    result = analyze_world(World(lift=0.6), 2, metrics=GOALS)
    worth, row = worths(result)["clicks_per_user", "b"], result["clicks_per_user"]
    assert row.control is not None
    assert row.site_lift is not None
    total = worth.change / row.site_lift
    # The change over the site's lift is the clicks of all traffic a day, exposed or not.
    log, _ = World(lift=0.6).draw(2)
    assert total == pytest.approx(log.click.sum() / 7, rel=0.15)


@pytest.mark.parametrize(
    "entries",
    [
        {"metrics": [{"name": "active_days_per_user", "role": "goal"}]},
        {"metrics": [{"name": "clicks_per_user", "role": "goal", "cap": 0.9}]},
        {"metrics": [{"name": "clicks_per_user", "role": "guardrail", "margin": 0.1}]},
        {"metrics": GOALS, "questions": ["Is a the control?"]},
        {"metrics": [{"name": "spent", "value": "dwell", "missing": "drop", "role": "goal"}]},
    ],
)
def test_what_does_not_add_up_or_is_a_draft_has_no_worth(entries: dict[str, Any]) -> None:
    assert analyze(LOG, period=PERIOD, **entries).worth == ()
