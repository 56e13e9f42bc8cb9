"""A table of units beside a log of impressions: segments, covariates and outcomes by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import ExperimentError, LogError
from abeval.results.analysis import Result
from tests.aggregates.events_world import END, START, World, experiment, world
from tests.logs.small import aside, values

METRICS: list[dict[str, Any]] = [
    {"name": "clicks_per_user"},
    {"name": "plan_price", "log": "units", "value": "price", "resolution": 0.01},
    {"name": "paying", "log": "units", "per_unit": "any", "value": "price > 10"},
    {"name": "per_seat", "log": "units", "numerator": "price", "denominator": "seats"},
]


@pytest.fixture(scope="module")
def logs() -> World:
    return world(600)


@pytest.fixture(scope="module")
def users(logs: World) -> pd.DataFrame:
    """Most units, with strangers, an equal row twice and a unit of two rows that differ."""
    random = np.random.default_rng(3)
    clicks = logs.impressions.groupby("user_id")["click"].sum().reindex(range(700)).fillna(0)
    table = pd.DataFrame(
        {
            "user_id": range(700),
            "tier": random.choice(["free", "pro"], 700),
            "earlier": clicks.to_numpy() + random.normal(0, 1, 700),
            "price": np.round(random.gamma(2, 6, 700), 2),
            "seats": random.integers(1, 9, 700),
        }
    ).drop(index=range(30, 50))
    other = table.iloc[[7]].assign(price=99.0)
    return pd.concat([table, table.iloc[[3]], other], ignore_index=True)


def analyzed(logs: World, users: pd.DataFrame, **entries: Any) -> Result:
    table = {"covariates": ["earlier"], "segments": {"tier": "upper(tier)"}}
    chosen = {
        "logs": {"impressions": {}, "units": table},
        "metrics": METRICS,
        "inference": {"adjust": "cuped"},
        **entries,
    }
    frames = {"impressions": logs.impressions, "units": users}
    return experiment(**chosen).analyze(logs=frames)


def by_hand(logs: World, users: pd.DataFrame) -> pd.DataFrame:
    """One row of each analysed unit."""
    log = logs.impressions
    of_period = log[(log["ts"] >= START) & (log["ts"] < END)]
    units = of_period.groupby("user_id").agg(variant=("variant", "first"), clicks=("click", "sum"))
    known = users.drop_duplicates().drop_duplicates("user_id", keep=False).set_index("user_id")
    joined = units.join(known)
    numbers = ["earlier", "price", "seats"]
    return joined.assign(**joined[numbers].fillna(0), tier=joined["tier"].str.upper().fillna(""))


def test_outcomes_covariates_and_segments_are_joined_by_unit(
    logs: World, users: pd.DataFrame
) -> None:
    result, units = analyzed(logs, users), by_hand(logs, users)
    found = values(result)
    for i, name in enumerate(("a", "b")):
        own = units[units["variant"] == name]
        assert found["plan_price"][i] == pytest.approx(own["price"].mean(), rel=1e-12)
        assert found["paying"][i] == pytest.approx((own["price"] > 10).mean(), rel=1e-12)
        ratio = own["price"].sum() / own["seats"].sum()
        assert found["per_seat"][i] == pytest.approx(ratio, rel=1e-12)
    groups = [units[units["variant"] == name] for name in ("a", "b")]
    # Who is in the table is a covariate too.
    covariates = np.column_stack([units["earlier"], units["tier"] != ""])
    theta = np.linalg.lstsq(
        covariates - covariates.mean(axis=0), units["clicks"] - units["clicks"].mean(), rcond=None
    )[0]
    adjusted = [
        (g["clicks"] - theta[0] * g["earlier"] - theta[1] * (g["tier"] != "")).mean()
        for g in groups
    ]
    row = result["clicks_per_user"]
    assert row.difference == pytest.approx(adjusted[1] - adjusted[0], rel=1e-6)
    (change,) = [a for a in result.adjustments if a.metric == "clicks_per_user"]
    assert change.variance_removed == pytest.approx(
        units["clicks"].corr(units["earlier"]) ** 2, abs=0.05
    )
    (check,) = [c for c in result.trust if c.name.startswith("pre_period:")]
    assert (check.name, check.status) == ("pre_period:earlier:b", "pass")
    cells = {r.cell: r for r in result.segments if r.metric == "plan_price" and r.slice == "tier"}
    assert set(cells) == {"FREE", "PRO", ""}
    of_pro = groups[0][groups[0]["tier"] == "PRO"]["price"].mean()
    assert cells["PRO"].control == pytest.approx(of_pro, rel=1e-12)


def test_its_rows_are_counted_and_units_without_one_named(logs: World, users: pd.DataFrame) -> None:
    result, units = analyzed(logs, users), by_hand(logs, users)
    rows = aside(result, "units")
    assert (rows["duplicate"], rows["repeated_unit"]) == (1, 2)
    assert rows["used"] == (units["tier"] != "").sum()
    lacking = (units["tier"] == "").sum()
    assert any(
        note.startswith(f"{lacking} of {len(units)} analysed units have no row in the table")
        for note in result.notes
    )


def test_stratified_by_a_segment_of_the_table(logs: World, users: pd.DataFrame) -> None:
    strata = {"adjust": "stratify", "stratify_by": "tier"}
    assert analyzed(logs, users, inference=strata)["clicks_per_user"].method.startswith("post_str")


def test_a_capped_outcome_is_adjusted_by_the_table_s_covariates(
    logs: World, users: pd.DataFrame
) -> None:
    cap = float(np.quantile(by_hand(logs, users)["price"], 0.9, method="higher"))
    price = {"name": "own", "log": "units", "value": "price", "resolution": 0.01}
    by_cap = {**price, "cap": 0.9}
    found = analyzed(logs, users, metrics=[by_cap])["own"]
    expected = analyzed(logs, users.assign(price=users["price"].clip(upper=cap)), metrics=[price])
    assert found.method.startswith("cuped")
    assert found.p_value == pytest.approx(expected["own"].p_value, rel=1e-9)
    assert found.difference == pytest.approx(expected["own"].difference, rel=1e-9)


REFUSED = {
    "within": ({"log": "units", "value": "price", "within": "7 days"}, "has no times"),
    "funnel": ({"funnel": [{"log": "clicks"}, {"log": "units"}]}, "has no times"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_table_cannot_give_is_refused(logs: World, users: pd.DataFrame, name: str) -> None:
    entries, message = REFUSED[name]
    with pytest.raises(ExperimentError, match=message):
        analyzed(logs, users, metrics=[{"name": "own", **entries}])


def test_ids_of_another_type_are_refused(logs: World, users: pd.DataFrame) -> None:
    with pytest.raises(LogError, match=r"logs.units: column 'user_id' is VARCHAR"):
        analyzed(logs, users.astype({"user_id": str}))


def test_groups_are_compared_in_every_covariate_also_where_nothing_is_adjusted(
    logs: World, users: pd.DataFrame
) -> None:
    """The only metric is a ratio; one covariate is higher in b, as if b had been chosen by it."""
    units = by_hand(logs, users)
    of_b = users["user_id"].isin(units.index[units["variant"] == "b"])
    table = users.assign(age=40.0 + users["seats"], tilted=users["price"] + 4.0 * of_b)
    loaded = experiment(
        logs={"impressions": {}, "units": {"covariates": ["age", "tilted"]}},
        metrics=[{"name": "ctr"}],
        inference={"adjust": "none"},
    )
    for compute in (loaded.analyze, loaded.check):
        result = compute(logs={"impressions": logs.impressions, "units": table})
        checks = {c.name: c for c in result.trust if c.name.startswith("pre_period:")}
        assert {name: c.status for name, c in checks.items()} == {
            "pre_period:age:b": "pass",
            "pre_period:tilted:b": "fail",
        }
    known = table.drop_duplicates().drop_duplicates("user_id", keep=False).set_index("user_id")
    tilted = known["tilted"].reindex(units.index).fillna(0)
    means = [f"{tilted[units['variant'] == name].mean():.4g}" for name in ("a", "b")]
    assert f"{means[0]} against {means[1]}" in checks["pre_period:tilted:b"].message


def test_groups_of_a_table_are_compared_in_its_covariates_without_adjustment() -> None:
    random = np.random.default_rng(2)
    treated = random.random(2_000) < 0.5
    table = pd.DataFrame(
        {
            "who": range(2_000),
            "group": np.where(treated, "b", "a"),
            "spent": random.gamma(2, 3, 2_000),
            "before": random.gamma(2, 3, 2_000) * np.where(treated, 1.3, 1.0),
            "age": random.normal(40, 9, 2_000),
        }
    )
    loaded = abeval.define(
        ".",
        name="table",
        unit="who",
        control="a",
        variants={"a": {}, "b": {}},
        logs={"units": {"columns": {"variant": "group"}, "covariates": ["before", "age"]}},
        metrics=[{"name": "spent"}],
    )
    trust = loaded.analyze(logs={"units": table}).trust
    statuses = {c.name: c.status for c in trust if c.name.startswith("pre_period")}
    assert statuses == {"pre_period:before:b": "fail", "pre_period:age:b": "pass"}
