"""Effects by hour of the day and by weekday, against the log itself."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

import abeval
from abeval.cli.main import app
from abeval.errors import ExperimentError
from tests import sample
from tests.sample import FILE
from tests.time.test_analysis import frame, small


def log_of(seed=3, users=900, days=10, lift=lambda hour, day: 0.0 * hour):
    """Users with habits and tastes of their own, several hours a day."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(users), days * 3)
    day = np.tile(np.repeat(np.arange(days), 3), users)
    hour = rng.integers(0, 24, user.size)
    kept = rng.random(user.size) < rng.beta(2, 2, users)[user]
    user, day, hour = user[kept], day[kept], hour[kept]
    taste = rng.beta(6, 14, users)[user]
    treated = user % 2 == 1
    rate = np.clip(taste + treated * lift(hour, day), 0, 1)
    times = pd.Timestamp("2027-03-01") + pd.to_timedelta(24 * day + hour, unit="h")
    return pd.DataFrame(
        {
            "user_id": user,
            "variant": np.where(treated, "b", "a"),
            "ts": times + pd.to_timedelta(rng.integers(0, 3600, user.size), unit="s"),
            "click": (rng.random(user.size) < rate).astype(int),
        }
    )


@pytest.fixture(scope="module")
def log():
    return log_of()


@pytest.fixture(scope="module")
def loaded():
    return small().replace(metrics=[{"name": "ctr"}, {"name": "clicks_per_user"}])


@pytest.fixture(scope="module")
def windows(log, loaded):
    return loaded.windows(logs={"impressions": log}, by=["hour", "weekday"]).windows_frame()


def clustered(rows):
    """Ratio of clicks to impressions and its variance over users."""
    by_user = rows.groupby("user_id").click.agg(["sum", "count"])
    y, x = by_user["sum"].to_numpy(float), by_user["count"].to_numpy(float)
    ratio = y.sum() / x.sum()
    return ratio, np.var(y - ratio * x, ddof=1) / len(y) / x.mean() ** 2, len(y)


@pytest.mark.parametrize(
    ("axis", "label", "mine"),
    [
        ("hour", "07:00", lambda ts: ts.dt.hour == 7),
        ("hour", "00:00", lambda ts: ts.dt.hour == 0),
        ("weekday", "Monday", lambda ts: ts.dt.day_of_week == 0),
        ("weekday", "Sunday", lambda ts: ts.dt.day_of_week == 6),
    ],
)
def test_a_part_of_time_is_the_log_cut_to_it_clustered_by_unit(log, windows, axis, label, mine):
    cut = log[mine(log.ts)]
    arms = [clustered(cut[cut.variant == v]) for v in "ab"]
    rows = windows[(windows.axis == axis) & (windows.start == label)]
    assert set(rows.kind) == {"recurring"}
    ctr = rows[rows.metric == "ctr"].iloc[0]
    assert (ctr.control, ctr.treatment) == pytest.approx([arm[0] for arm in arms], rel=1e-12)
    assert (ctr.units_control, ctr.units) == (arms[0][2], arms[1][2])
    z = (arms[1][0] - arms[0][0]) / np.sqrt(arms[0][1] + arms[1][1])
    assert ctr.p_value == pytest.approx(2 * stats.norm.sf(abs(z)), rel=0.02)
    totals = [cut[cut.variant == v].groupby("user_id").click.sum() for v in "ab"]
    mean = rows[rows.metric == "clicks_per_user"].iloc[0]
    expected = stats.ttest_ind(*totals, equal_var=False).pvalue
    assert mean.p_value == pytest.approx(expected, rel=1e-9)


def test_days_are_counted_and_weekdays_with_a_partial_day_are_marked(log, loaded):
    cut = log[(log.ts >= "2027-03-01 15:00")]
    found = loaded.windows(logs={"impressions": cut}, by=["weekday"], metrics=["ctr"])
    rows = {row.start: row for row in found.windows if row.axis == "weekday"}
    assert [row.days for row in rows.values()] == [2, 2, 2, 1, 1, 1, 1]
    assert [day for day, row in rows.items() if row.partial] == ["Monday"]
    assert not [row for row in found.windows if row.axis == "hour"]


def test_one_effect_at_all_hours_is_not_told_apart_and_a_night_effect_is(loaded):
    found = loaded.windows(logs={"impressions": log_of(seed=8)}, by=["hour", "weekday"])
    assert {row.by for row in found.rhythms} == {"hour", "weekday"}
    assert all(row.p_value > 0.001 for row in found.rhythms)
    night = log_of(seed=9, lift=lambda hour, day: 0.25 * (hour < 6))
    by_hour = loaded.windows(logs={"impressions": night}, by=["hour"], metrics=["ctr"])
    (row,) = by_hour.rhythms
    assert (row.parts, row.scale) == (24, "relative")
    assert row.p_value < 1e-4


@pytest.mark.slow
def test_the_test_of_one_effect_keeps_its_level_although_units_return():
    loaded = small()
    p_values = []
    for seed in range(15):
        logs = {"impressions": log_of(seed=100 + seed, users=600, days=7)}
        p_values.append(loaded.windows(logs=logs, by=["weekday"]).rhythms[0].p_value)
    assert sum(p < 0.05 for p in p_values) <= 3
    assert stats.kstest(p_values, "uniform").pvalue > 0.001


def test_what_is_no_sum_over_impressions_is_named(loaded):
    metrics = [{"name": "ctr"}, {"name": "active_days_per_user"}, {"name": "sessions_per_user"}]
    found = loaded.replace(metrics=metrics).windows(
        logs={"impressions": frame(["2027-03-01", "2027-03-02"])}, by=["hour", "weekday"]
    )
    assert {row.metric for row in found.windows if row.axis == "hour"} == {"ctr"}
    weekdays = {row.metric for row in found.windows if row.axis == "weekday"}
    assert weekdays == {"ctr", "active_days_per_user", "sessions_per_user"}
    (note,) = (note for note in found.notes if "Not by hour" in note)
    assert "active_days_per_user, sessions_per_user" in note


def test_hours_are_those_of_the_experiments_time_zone():
    log = frame(["2027-03-01"])
    found = small(timezone="Asia/Tokyo").windows(logs={"impressions": log}, by=["hour"])
    used = {row.start for row in found.windows if row.axis == "hour" and row.units}
    assert used == {"21:00"}


def test_unknown_parts_of_time_are_a_mistake(loaded):
    with pytest.raises(ExperimentError, match="windows by 'minute'"):
        loaded.windows(by=["minute"])


def test_groups_before_the_period_are_compared_beside_the_windows():
    found = abeval.load(FILE).windows(metrics=["ctr", "clicks_per_user", "gauc"])
    card = {check.name: check for check in sample.analysis().trust}
    rows = {row.metric: row for row in found.before}
    assert set(rows) == {"ctr", "clicks_per_user"}
    assert all(row.p_adjusted >= row.p_value for row in rows.values())
    smaller = min(rows.values(), key=lambda row: row.p_value)
    assert smaller.p_adjusted == pytest.approx(min(1.0, 2 * smaller.p_value))
    assert card["pre_period:ctr:treatment"].status == "pass"


def test_command_line_takes_both(tmp_path):
    file = tmp_path / "time.json"
    args = ["windows", str(FILE), "--metric", "ctr", "--by", "hour", "--by", "weekday"]
    run = CliRunner().invoke(app, [*args, "--json", str(file)])
    assert run.exit_code == 0, run.output
    assert '"by": "weekday"' in file.read_text()
