"""What is known of three public logs, found again by whole analyses."""

import math
from functools import cache

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from abeval.assignment import Assignment
from abeval.results.analysis import Account
from abeval.stats import means
from abeval.stats.moments import Moments
from tests.real_logs import cookie_cats, kuairand, need, open_bandit


def whole(result, metric):
    """The value over both arms of a metric per impression, from the arms and their impressions."""
    row, sizes = result[metric], result["impressions_per_user"]
    shown = (sizes.control * sizes.units_control, sizes.treatment * sizes.units)
    return (row.control * shown[0] + row.treatment * shown[1]) / sum(shown)


METRICS = [
    {"name": "ctr", "role": "goal"},
    {"name": "dwell_per_impression"},
    {"name": "impressions_per_user"},
]


@cache
def analyzed(duplicates="drop", salt="aa"):
    return kuairand(salt, metrics=METRICS, cleaning={"duplicates": duplicates}).analyze()


def test_kuairand_sets_exact_duplicates_aside():
    result = analyzed()
    assert result.accounting == (Account("impressions", 94_784, 92_034, (("duplicate", 2_750),)),)
    assert whole(result, "ctr") == pytest.approx(0.446770, abs=5e-7)
    assert whole(result, "dwell_per_impression") == pytest.approx(21.928, abs=5e-4)


def test_kuairand_keeps_duplicates_where_the_user_says_so():
    result = analyzed("keep")
    assert result.accounting == (Account("impressions", 94_784, 94_784, ()),)
    assert whole(result, "ctr") == pytest.approx(0.437869, abs=5e-7)
    assert whole(result, "dwell_per_impression") == pytest.approx(21.447, abs=5e-4)


def test_kuairand_days_are_calendar_days_and_partial_ones_are_marked():
    days = [row for row in analyzed("keep").daily if row.metric == "impressions_per_user"]
    assert [day.cell for day in days] == [f"2022-04-{d}" for d in range(24, 31)]
    # The log runs from 15:05 on the first day to 15:52 on the last.
    assert [day.partial for day in days] == [True] + [False] * 5 + [True]
    first = days[0]
    assert round(first.control * first.units_control + first.treatment * first.units) == 2_452


def user_sums():
    log = need("kuairand/log.parquet")
    return duckdb.sql(
        f"""select user_id, sum(is_click)::bigint as clicks, count(*) as impressions
        from (select distinct * from '{log}') group by user_id order by user_id"""
    ).df()


def aa_p_values(users: pd.DataFrame, salt: str) -> tuple[float, float]:
    """p of CTR between hash-assigned halves: by users, and as if impressions were independent."""
    variant = Assignment(salt, {"a": 1, "b": 1}).assign_many(users.user_id.tolist()).variant
    arms = [users[(variant == name).to_numpy()] for name in "ab"]
    by_user = means.delta(*(Moments.of(arm.clicks, arm.impressions) for arm in arms)).p_value
    clicks, shown = (np.array([arm[c].sum() for arm in arms]) for c in ("clicks", "impressions"))
    pooled = clicks.sum() / shown.sum()
    z = (clicks / shown) @ [-1, 1] / math.sqrt(pooled * (1 - pooled) * (1 / shown).sum())
    return by_user, float(2 * scipy_stats.norm.sf(abs(z)))


@pytest.mark.slow
def test_kuairand_300_aa_splits_user_delta_holds_its_level_and_impressions_do_not():
    users = user_sums()
    assert users.impressions.sum() == 92_034
    p = np.array([aa_p_values(users, f"aa-{i}") for i in range(300)])
    by_user, by_impression = (p < 0.05).mean(axis=0)
    assert 0.02 <= by_user <= 0.08
    assert 0.15 <= by_impression <= 0.30


@pytest.mark.whole
@pytest.mark.parametrize("salt", ["aa-0", "aa-17"])
def test_kuairand_whole_analysis_is_that_split(salt):
    row = kuairand(salt, metrics=METRICS).analyze()["ctr"]
    assert row.p_value == pytest.approx(aa_p_values(user_sums(), salt)[0], rel=1e-9)
    assert row.method == "delta_t"


def test_open_bandit_rows_are_units_and_no_user_is_invented():
    result = open_bandit().analyze()
    row = result["ctr"]
    assert (row.units_control, row.units) == (10_000, 10_000)
    assert (round(row.control * 10_000), round(row.treatment * 10_000)) == (46, 69)
    assert row.p_value == pytest.approx(0.0315, abs=5e-5)
    assert row.method == "delta_t"
    assert any("Every row is its own unit" in note for note in result.notes)


def test_cookie_cats_retention_and_srm():
    result = cookie_cats().analyze()
    row = result["retention_7"]
    assert row.treatment == pytest.approx(0.182000, abs=5e-7)
    assert row.control == pytest.approx(0.190201, abs=5e-7)
    assert row.difference == pytest.approx(-0.008201, abs=5e-7)
    assert row.p_value == pytest.approx(0.0016, abs=5e-5)
    assert row.status == "worse"
    assert result["retention_1"].p_value == pytest.approx(0.0744, abs=5e-5)
    srm = next(check for check in result.trust if check.name == "srm")
    assert srm.value == pytest.approx(0.0086, abs=5e-5)
    assert srm.status == "warn"
    assert result.trusted


def checks(result):
    return {check.name: check for check in result.trust}


def test_cookie_cats_one_player_with_49_854_rounds_is_influence_and_no_id():
    loaded = cookie_cats()
    metrics = [
        {"name": "retention_7", "value": "retention_7", "role": "goal"},
        {"name": "rounds", "value": "sum_gamerounds", "role": "diagnostic"},
    ]
    result = loaded.replace(metrics=metrics).analyze()
    found = checks(result)["influence"]
    assert (found.status, found.metrics) == ("warn", ("rounds",))
    assert found.message == (
        "one single unit of gate_30 makes 84.2% of the variance of rounds, "
        "17 times as far out as the next; the effect is -2.21%, "
        "and -0.13% without the 10 units that move it most"
    )
    # Retention does not read the rounds: its row and the verdict stand.
    assert result["retention_7"].status == "worse"
    assert result.verdicts[0].decision == "do_not_ship"
    assert checks(result)["srm"].status == "warn"
    # The player's id is 6390605.
    assert "6390605" not in result.to_json()
    assert "49854" not in result.to_json()


def test_kuairand_duplicates_are_alike_in_both_groups_and_no_hour_is_missing():
    found = checks(analyzed())
    assert found["impressions_duplicate"].status == "warn"
    assert "2,750 of 94,784 duplicate impressions" in found["impressions_duplicate"].message
    passed = ("duplicates_by_variant", "missing_hours", "clock", "late_data", "nulls", "influence")
    assert {found[name].status for name in passed} == {"pass"}
