"""The full time analysis of a real week, dealt out by 100 fixed salts in which nothing differs."""

import duckdb
import numpy as np
import pytest

from abeval.assignment import Assignment
from abeval.time.analysis import follow_metric
from abeval.time.time_sums import Timeline
from benchmarks.calibration.verdicts import CTR
from tests.real_logs import kuairand, need
from tests.worlds.days import Arm, experiment_of, metric_days

DAYS = tuple(f"2022-04-{day}" for day in range(24, 31))
PARTIAL = frozenset([DAYS[0], DAYS[-1]])


@pytest.fixture(scope="module")
def log():
    """Users, and their clicks and impressions by day."""
    rows = duckdb.sql(
        f"""select user_id, cast(make_timestamp(time_ms * 1000) as date) as day,
          count(*) as shown, sum(is_click)::bigint as clicks
        from (select distinct * from '{need("kuairand/log.parquet")}')
        group by all order by all"""
    ).df()
    users, days = np.unique(rows.user_id), rows.day.astype(str).str[:10]
    place = np.searchsorted(users, rows.user_id), np.searchsorted(DAYS, days)
    made = np.zeros((2, len(users), len(DAYS)), dtype=np.int64)
    made[0][place], made[1][place] = rows.clicks, rows.shown
    return users.tolist(), made[0], made[1]


def analysed(log, salt, more=0.0):
    """The analysis under a salt; treated users click on `more` of the rest on late days."""
    users, clicks, shown = log
    dealt = Assignment(salt, {"control": 1, "treatment": 1}).assign_many(users)
    treated = (dealt.variant == "treatment").to_numpy()
    late = treated[:, None] & (np.arange(len(DAYS)) >= 4)
    clicks = clicks + np.where(late, np.rint(more * (shown - clicks)), 0).astype(np.int64)
    entry = (shown > 0).argmax(axis=1)
    arms = {
        name: Arm(entry[rows], shown[rows] > 0, clicks[rows], shown[rows])
        for name, rows in (("control", ~treated), ("treatment", treated))
    }
    by_day = metric_days(arms, observed=len(DAYS) - 1)
    entered = dict(zip(arms, by_day.table.entry_counts, strict=True))
    line = Timeline(experiment_of(), DAYS, PARTIAL, entered, {"ctr": by_day})
    (result,) = follow_metric(line, CTR)
    return result


@pytest.mark.whole
def test_the_quick_way_is_the_whole_way(log):
    quick = analysed(log, "aa-3")
    loaded = kuairand("aa-3", metrics=[{"name": "ctr", "role": "goal"}])
    renamed = loaded.replace(control="control", variants={"control": {}, "treatment": {}}).windows()
    assert renamed.partial == tuple(sorted(PARTIAL))
    assert quick.looks[-1].fixed_p_value == pytest.approx(renamed.looks[-1].fixed_p_value, rel=1e-9)
    row = renamed["ctr"]
    assert quick.stability.wald_p_value == pytest.approx(row.wald_p_value, rel=1e-9)
    assert quick.stability.change_p_value == pytest.approx(row.change_p_value, rel=1e-9)


def test_a_drift_that_is_there_is_found(log):
    found = analysed(log, "aa-3", more=0.5).stability
    assert found.verdict in ("drifting", "settling")
    assert found.late_less_early_p_value < 1e-6


def counted(log, salts):
    found = [analysed(log, f"aa-{i}") for i in range(salts)]
    effects = sum(one.looks[-1].fixed_declares != "unclear" for one in found)
    drifts = sum(one.stability.verdict in ("drifting", "settling") for one in found)
    return effects, drifts, [one.stability.late_less_early_p_value for one in found]


@pytest.mark.slow
def test_100_salts(log):
    effects, drifts, late = counted(log, 100)
    assert effects <= 10
    assert drifts <= 5
    assert np.mean(np.array(late) < 0.05) <= 0.12
