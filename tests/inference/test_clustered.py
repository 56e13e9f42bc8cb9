"""Experiments that assigned clusters of users, through whole analyses."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import ExperimentError, LogError
from abeval.logs import clusters
from abeval.report.next_step import write_next_step
from abeval.report.page import render_study
from abeval.results.analysis import Result
from abeval.results.trust import Check
from abeval.stats.randomisation import RandomisationTest, permuted_assignments

pytestmark = pytest.mark.whole


METRICS: list[dict[str, Any]] = [
    {"name": "ctr", "role": "goal"},
    {"name": "dwell_per_user"},
    {"name": "sessions_per_user"},
    {"name": "bought", "per_unit": "any", "value": "click", "role": "diagnostic"},
    {"name": "dwell_p50"},
]


def log(clusters: int = 8, lift: float = 0.0, seed: int = 0, days: int = 10) -> pd.DataFrame:
    """Impressions of users of stores of uneven size; pairs of stores are neighbours."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(10, 60, clusters)
    first = rng.random(clusters // 2) < 0.5
    treated = np.stack([first, ~first], axis=1).ravel()
    store = np.repeat(np.arange(clusters), sizes)
    user = np.repeat(np.arange(len(store)), 1 + rng.poisson(3, len(store)))
    own = store[user]
    rate = (0.2 + 0.05 * rng.random(clusters))[own] * (1 + lift * treated[own])
    click = (rng.random(len(user)) < rate).astype(int)
    seconds = pd.to_timedelta(rng.integers(0, days * 86_400, len(user)), unit="s")
    return pd.DataFrame(
        {
            "user_id": user,
            "store": own,
            "pair": own // 2,
            "region": own % 2,
            "ts": pd.Timestamp("2026-09-01") + seconds,
            "variant": np.where(treated[own], "b", "a"),
            "click": click,
            "dwell": 10.0 * click,
        }
    )


def entries(**more: Any) -> dict[str, Any]:
    return {
        "name": "stores",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "logs": {"impressions": {}},
        "design": {"cluster": "store"},
        "metrics": METRICS,
        **more,
    }


def analyze(table: pd.DataFrame, **more: Any) -> Result:
    return abeval.define(entries(**more)).analyze(logs={"impressions": table})


def check(result: Result, name: str) -> Check:
    return next(one for one in result.trust if one.name == name)


def test_metrics_of_users_and_impressions_are_ratios_of_sums_by_cluster() -> None:
    table = log()
    result = analyze(table)
    arm = table[table["variant"] == "b"]
    users, click = arm["user_id"].nunique(), arm.groupby("user_id")["click"].max()
    expected = {
        "ctr": arm["click"].mean(),
        "dwell_per_user": arm["dwell"].sum() / users,
        "bought": click.mean(),
    }
    rows = {row.metric: row for row in result.scorecard}
    for name, value in expected.items():
        assert rows[name].treatment == pytest.approx(value)
        assert (rows[name].units_control, rows[name].units) == (4, 4)
    assert rows["sessions_per_user"].method == "randomisation"
    assert rows["dwell_p50"].reason == "clustered"
    assert result.experiment.unit == "store"
    assert "8 clusters" in " ".join(result.notes)


def test_more_clusters_than_are_drawn_again_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "MAX_CLUSTERS", 15)
    with pytest.raises(LogError, match="has 16 clusters, but at most 15 are drawn again"):
        analyze(log(16), design={"cluster": "store"})


def test_few_clusters_are_judged_by_the_draws_of_the_design() -> None:
    table = log(16, lift=0.5)
    sums = table.groupby("store").agg(y=("click", "sum"), x=("click", "size"), v=("variant", "max"))
    treated = (sums["v"] == "b").to_numpy()
    for design, strata in (({}, None), ({"pairs": "pair"}, np.arange(16) // 2)):
        result = analyze(table, design={"cluster": "store", **design})
        row = result["ctr"]
        test = RandomisationTest(
            sums["y"].to_numpy(float),
            sums["x"].to_numpy(float),
            treated,
            permuted_assignments(treated, strata),
        )
        assert row.p_value == pytest.approx(test.p_value())
        assert (row.difference_low, row.difference_high) == pytest.approx(test.interval())
        assert result.verdicts[0].decision == "ship"


def test_what_clusters_cost_is_a_row_a_note_and_a_section_of_the_page() -> None:
    table = log(40)
    result = analyze(table, metrics=METRICS[:1])
    (cost,) = result.cluster_costs
    users = table.groupby(["variant", "store", "user_id"])["click"].agg(y="sum", x="size")
    rates = users.groupby("variant").sum()
    ratio = (rates["y"] / rates["x"]).reindex(users.index.get_level_values("variant")).to_numpy()
    rest = users["y"] - ratio * users["x"]
    stores = rest.groupby("store").agg(["sum", "size"])
    own = (stores["sum"] ** 2 / stores["size"]).sum()
    between, within = own / 38, ((rest**2).sum() - own) / (len(rest) - 40)
    repeated = (stores["size"] ** 2).sum() / len(rest)
    size = (len(rest) - 2 * repeated) / 38
    icc = max(0.0, (between - within) / (between + (size - 1) * within))
    assert cost.icc == pytest.approx(icc)
    assert (cost.clusters, cost.units) == (40, len(rest))
    assert cost.worth == pytest.approx(len(rest) / (1 + (repeated - 1) * icc))
    assert f"design effect {cost.design_effect:.2g}" in " ".join(result.notes)
    study = abeval.define(entries(metrics=METRICS[:1])).study(logs={"impressions": table})
    assert "What was randomised" in render_study(study)


def test_strata_are_drawn_apart() -> None:
    result = analyze(log(16), design={"cluster": "store", "strata": "region"})
    assert "within strata of region" in " ".join(result.notes)


def test_many_clusters_are_judged_by_t_of_the_clusters() -> None:
    row = analyze(log(80))["ctr"]
    assert row.method == "jackknife_t"
    assert row.units == 40
    assert row.p_value is not None


def test_the_past_of_clusters_takes_variance_out() -> None:
    table = log(12, days=20)
    period = {
        "period": {"start": "2026-09-11", "end": "2026-09-21"},
        "pre_period": {"start": "2026-09-01", "end": "2026-09-11"},
        "inference": {"adjust": "cuped"},
    }
    plan = {"metrics": METRICS[:1]}
    row = analyze(table, **period, **plan)["ctr"]
    assert row.method == "cuped_randomisation"
    assert analyze(log(80, days=20), **period, **plan)["ctr"].method == "cuped_jackknife_t"


def test_too_few_clusters_have_no_interval_and_say_so() -> None:
    result = analyze(log(6), metrics=METRICS[:1])
    row = result["ctr"]
    assert (row.status, row.reason, row.lift) == ("too_little_data", "too_few_units", None)
    assert row.control is not None
    assert "Test anew with more: 4 units (store) a variant are needed" in str(result)


@pytest.mark.parametrize(
    ("design", "clusters", "needed"),
    [({}, 6, 4), ({"pairs": "pair"}, 10, 6), ({"strata": "region"}, 4, 6)],
)
def test_as_many_clusters_as_are_asked_for_allow_a_small_p(
    design: dict[str, str], clusters: int, needed: int
) -> None:
    plan = {"design": {"cluster": "store", **design}, "metrics": METRICS[:1]}
    assert analyze(log(clusters), **plan)["ctr"].units_needed == needed
    enough = analyze(log(2 * needed), **plan)["ctr"]
    assert enough.units_needed is None
    assert enough.p_value is not None


@pytest.mark.parametrize("clusters", [16, 80])
def test_stores_of_other_sizes_move_no_denominator_and_more_impressions_do(clusters: int) -> None:
    table = log(clusters)
    small = table["variant"].eq("a") & (table["user_id"] % 3 > 0)
    fewer_users, plan = table[~small], {"metrics": METRICS[:1]}
    assert check(analyze(fewer_users, **plan), "denominators").status == "pass"
    own = table[table["variant"].eq("b")]
    more = pd.concat([table, own.assign(ts=own["ts"] + pd.Timedelta(seconds=7), click=0)])
    warned = check(analyze(more, **plan), "denominators")
    assert warned.status == "warn"
    assert "per unit, impressions moved by +" in warned.message


def test_few_clusters_ask_for_more_of_them_and_not_for_days() -> None:
    period = {"period": {"start": "2026-09-01", "end": "2026-09-11"}}
    shown = str(analyze(log(8), metrics=METRICS[:1], **period))
    step = " ".join(shown.split("Next: ")[1].split())
    assert step.endswith("smaller effects take more clusters (store), not more days.")
    loaded = abeval.define(entries(metrics=METRICS[:1], **period))
    study = loaded.study(logs={"impressions": log(8)})
    step = write_next_step(study.analysis, study.outlook)
    assert re.search(r"±20% takes about \d+ clusters \(store\) in all", step)
    longer = {"period": {"start": "2026-09-01", "end": "2026-09-21"}}
    shown = " ".join(str(analyze(log(8), metrics=METRICS[:1], **longer)).split())
    assert "More days bring no clusters (store): assign more of them." in shown


def test_goals_that_no_draw_can_decide_are_named() -> None:
    goals = [{**metric, "role": "goal"} for metric in METRICS[:3]]
    assert "none of them can be significant" in " ".join(analyze(log(8), metrics=goals).notes)


def test_the_split_is_tested_by_clusters() -> None:
    result = analyze(log(8), variants={"a": {"weight": 0.99}, "b": {"weight": 0.01}})
    srm = next(check for check in result.trust if check.name == "srm")
    assert srm.status == "fail"
    assert "exact" in srm.message


def test_users_who_were_assigned_by_cluster_are_noticed() -> None:
    result = analyze(log(20), design=None, segments={"store": "store"})
    assert "an analysis by unit finds effects that are not there" in " ".join(result.notes)


def test_the_cluster_of_a_user_is_that_of_its_exposure() -> None:
    table = log(8)
    exposures = table.groupby("user_id", as_index=False).first()[
        ["user_id", "ts", "variant", "store"]
    ]
    absent = exposures.iloc[:1].assign(user_id=10**6)
    logs = {"impressions": table.drop(columns="store"), "exposures": pd.concat([exposures, absent])}
    plan = entries(logs={"impressions": {}, "exposures": {}}, metrics=METRICS[1:2])
    row = abeval.define(plan).analyze(logs=logs)["dwell_per_user"]
    users = exposures["variant"].value_counts()[absent["variant"].iloc[0]] + 1
    value = row.treatment if absent["variant"].iloc[0] == "b" else row.control
    dwell = table[table["variant"] == absent["variant"].iloc[0]]["dwell"].sum()
    assert value is not None
    assert value <= dwell / (users - 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"variant": lambda t: np.where(t["user_id"] % 2, "a", "b")}, "units of several variants"),
        ({"store": lambda t: t["store"].where(t["store"] > 0)}, "units have no cluster"),
        ({"pair": lambda t: t["store"] // 4}, "do not have one cluster of each variant"),
    ],
)
def test_a_log_that_is_no_such_design_is_refused(change: Any, message: str) -> None:
    with pytest.raises(LogError, match=message):
        analyze(log().assign(**change), design={"cluster": "store", "pairs": "pair"})


def test_plans_that_do_not_fit_clusters_are_refused() -> None:
    plan = entries(
        design={"cluster": "store", "pairs": "pair", "strata": "region"},
        assignment={"salt": "x"},
        inference={"looks": "always_valid"},
    )
    with pytest.raises(ExperimentError) as error:
        abeval.define(plan)
    for words in ("remove `strata`", "assignment", "looks"):
        assert words in str(error.value)


def test_windows_say_why_they_are_missing() -> None:
    result = abeval.define(entries()).windows(logs={"impressions": log()})
    assert "clusters were randomised" in str(result.to_json())


def test_power_says_how_many_clusters_and_days() -> None:
    period = {"start": "2026-09-01", "end": "2026-09-11"}
    loaded = abeval.define(entries(metrics=METRICS[:2], period=period))
    plan = loaded.power(mde=0.2, logs={"impressions": log(60)})["ctr"]
    assert (plan.units_control, plan.units) == (30, 30)
    assert plan.days is not None
    more = loaded.power(mde=0.1, logs={"impressions": log(60)})["ctr"]
    assert more.clusters == pytest.approx(4 * (plan.clusters or 0), rel=0.1)
