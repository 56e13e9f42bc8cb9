"""Metrics since exposure against SQL written by hand for each of them."""

from __future__ import annotations

import math
import re
from datetime import date

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from abeval.errors import ExperimentError, LogError
from abeval.results.analysis import Result
from tests.aggregates.events_world import DAY, END, LOGS, METRICS, START, World, experiment, world
from tests.logs.small import aside, values

ENTRY = f"""
with seen as (
  select * from impressions where ts >= '{START}' and ts < '{END}'
),
entry as (
  select user_id, any_value(variant) as variant, min(ts) as exposed,
    cast(min(ts) as date) as entered
  from seen group by user_id
),
clicks as (select * from seen where click = 1),
bought as (
  select distinct o.* from orders o join entry e on o.customer = e.user_id
  where o.at >= e.exposed and o.at < '{END}'
)
"""
"""Units at their first impression of the period; the orders that count are those from then on."""

PER_UNIT = {
    "clicked": "select variant, exists (select 1 from clicks c where c.user_id = e.user_id)",
    "clicked_soon": """
      select variant, exists (
        select 1 from clicks c where c.user_id = e.user_id and c.ts < exposed + interval 36 hour
      )""",
    "items_clicked": """
      select variant, (select count(distinct item_id) from clicks c where c.user_id = e.user_id)""",
    "bought": "select variant, exists (select 1 from bought b where b.customer = e.user_id)",
    "bought_within": """
      select variant, exists (
        select 1 from bought b where b.customer = e.user_id and b.at < exposed + interval 7 day
      )""",
    "revenue": """
      select variant,
        coalesce((
          select sum(amount) from bought b where b.customer = e.user_id and not isnan(amount)
        ), 0)""",
    "revenue_within": """
      select variant, coalesce((
        select sum(amount) from bought b where b.customer = e.user_id and not isnan(amount)
        and kind = 'paid' and b.at < exposed + interval 3 day
      ), 0)""",
    "largest": """
      select variant,
        coalesce((
          select max(amount) from bought b where b.customer = e.user_id and not isnan(amount)
        ), 0)""",
    "first": """
      select variant, coalesce((
        select amount from bought b where b.customer = e.user_id and not isnan(amount)
        order by b."at", amount limit 1
      ), 0)""",
    "kinds": """
      select variant, (select count(distinct kind) from bought b where b.customer = e.user_id)""",
    "returned": """
      select variant, exists (
        select 1 from seen s where s.user_id = e.user_id and cast(s.ts as date) = entered + 2
      )""",
    "bought_on_day": """
      select variant, exists (
        select 1 from bought b where b.customer = e.user_id and cast(b.at as date) = entered + 1
      )""",
    "funnel": """
      select variant, exists (
        select 1 from clicks c join bought p on c.user_id = p.customer
        join bought q on c.user_id = q.customer
        where c.user_id = e.user_id and p.kind = 'cart' and q.kind = 'paid'
        and c.ts <= p.at and p.at <= q.at
      )""",
    "funnel_within": """
      select variant, exists (
        select 1 from clicks c join bought p on c.user_id = p.customer
        where c.user_id = e.user_id and p.amount > 20 and not isnan(p.amount)
        and c.ts <= p.at and p.at < exposed + interval 5 day
      )""",
}
CLOSED = {
    "clicked_soon": "exposed + interval 36 hour <= '{end}'",
    "bought_within": "exposed + interval 7 day <= '{end}'",
    "revenue_within": "exposed + interval 3 day <= '{end}'",
    "returned": "entered + 3 <= '{end}'",
    "bought_on_day": "entered + 2 <= '{end}'",
    "funnel_within": "exposed + interval 5 day <= '{end}'",
}


def by_hand(logs: World, metric: str) -> dict[str, float]:
    """Variant → the mean over its units, or the ratio."""
    impressions, orders = logs.impressions, logs.orders  # noqa: F841 (DuckDB reads them)
    if metric == "basket":
        sql = """
          select variant, sum(case when not isnan(amount) then amount else 0 end) / count(*)
          from bought b join entry e on b.customer = e.user_id group by variant"""
    else:
        closed = CLOSED.get(metric, "true").format(end=END)
        sql = f"""
          select variant, avg(cast(v as double)) from (
            {PER_UNIT[metric]} as v from entry e where {closed}
          ) group by variant"""
    return dict(duckdb.sql(f"{ENTRY} {sql}").fetchall())


@pytest.fixture(scope="module")
def logs() -> World:
    return world()


@pytest.fixture(scope="module")
def result(logs: World) -> Result:
    return experiment().analyze(logs=logs.logs)


@pytest.mark.parametrize("metric", [metric["name"] for metric in METRICS])
def test_every_metric_is_what_sql_by_hand_says(logs: World, result: Result, metric: str) -> None:
    control, treatment = values(result)[metric]
    expected = by_hand(logs, metric)
    assert control == pytest.approx(expected["a"], rel=1e-12, abs=0)
    assert treatment == pytest.approx(expected["b"], rel=1e-12, abs=0)


def test_units_whose_window_is_open_are_left_out_and_counted(logs: World, result: Result) -> None:
    sql = f"{ENTRY} select variant, count(*) from entry where exposed > {_WEEK} group by variant"
    expected = counted(logs, sql)
    left = {i.variant: i.count for i in result.left_out if i.metric == "bought_within"}
    assert left == expected
    every = counted(logs, f"{ENTRY} select variant, count(*) from entry group by variant")
    row = next(r for r in result.scorecard if r.metric == "bought_within")
    assert (row.units_control, row.units) == (every["a"] - left["a"], every["b"] - left["b"])


_WEEK = f"timestamp '{END}' - interval 7 day"


def test_every_row_of_the_orders_is_accounted_for(logs: World, result: Result) -> None:
    once = logs.orders.drop_duplicates()
    used = counted(logs, f"{ENTRY} select 'used', count(*) from bought")["used"]
    rows = aside(result, "orders")
    assert rows["used"] == used
    assert rows["duplicate"] == len(logs.orders) - len(once)
    assert rows["null_unit"] == once["customer"].isna().sum()
    known = counted(
        logs,
        f"""{ENTRY} select case
          when customer not in (select user_id from entry) then 'not_in_experiment'
          when o."at" is null then 'null_time'
          when o."at" < '{START}' or o."at" >= '{END}' then 'outside_period'
          when o."at" < exposed then 'before_exposure'
        end as reason, count(*) from (select distinct * from orders) o
        left join entry e on o.customer = e.user_id where customer is not null
        group by reason having reason is not null""",
    )
    assert {reason: n for reason, n in rows.items() if reason in known} == known
    assert set(rows) == {"used", "duplicate", "null_unit", *known}


def counted(logs: World, sql: str) -> dict[str, int]:
    """The rows of a query over the frames."""
    impressions, orders = logs.impressions, logs.orders  # noqa: F841 (DuckDB reads them)
    return dict(duckdb.sql(sql).fetchall())


def test_cuped_takes_the_same_value_of_the_time_before(logs: World) -> None:
    """θ and the adjusted difference by hand, over units that are old and new alike."""
    before = {"start": "2026-02-22", "end": "2026-03-01"}
    metrics = [m for m in METRICS if m["name"] == "revenue"]
    run = experiment(metrics=metrics, pre_period=before, inference={"adjust": "cuped"})
    result = run.analyze(logs=logs.logs)
    impressions, orders = logs.impressions, logs.orders  # noqa: F841 (DuckDB reads them)
    units = duckdb.sql(
        f"""{ENTRY}, earlier as (select distinct * from orders where "at" < '{START}'
          and "at" >= '2026-02-22')
        select variant,
          coalesce((
            select sum(amount) from bought where customer = user_id and not isnan(amount)
          ), 0) as y,
          coalesce((
            select sum(amount) from earlier where customer = user_id and not isnan(amount)
          ), 0) as y0,
          case when user_id not in (select user_id from impressions where ts < '{START}'
            and ts >= '2026-02-22') then 1 else 0 end as no_visit
        from entry"""
    ).df()
    is_new = ((units["no_visit"] == 1) & (units["y0"] == 0)).astype(float)
    covariates = np.column_stack([units["y0"], is_new])
    groups = [(units["variant"] == name).to_numpy() for name in ("a", "b")]
    y = units["y"].to_numpy()
    products = np.cov(np.column_stack([y, covariates]).T)
    theta = np.linalg.solve(products[1:, 1:], products[1:, 0])
    adjusted = y - covariates @ theta
    (row,) = result.scorecard
    expected = adjusted[groups[1]].mean() - adjusted[groups[0]].mean()
    assert row.difference == pytest.approx(expected, rel=1e-9)
    (before_check,) = [c for c in result.trust if c.name.startswith("pre_period:revenue")]
    assert before_check.status in ("pass", "warn")


def test_a_date_counts_from_the_day_of_the_exposure_on() -> None:
    """Also far from UTC: an order of the day is not before the exposure of that day."""
    exposed = pd.Timestamp("2026-03-02 23:30")  # 18:30 in New York
    impressions = pd.DataFrame(
        {"user_id": [0, 1, 2, 3], "variant": ["a", "b", "a", "b"], "ts": [exposed] * 4}
    )
    days = [date(2026, 3, 2), date(2026, 3, 1), date(2026, 3, 8), date(2026, 3, 9)]
    orders = pd.DataFrame({"customer": [0, 1, 2, 3], "at": days})
    result = experiment(
        timezone="America/New_York",
        metrics=[
            {"name": "bought", "log": "orders"},
            {"name": "day_6", "log": "orders", "retention": 6},
            {"name": "week", "log": "orders", "within": "7 days"},
        ],
        logs={
            "impressions": {},
            "events": {"orders": {"columns": {"unit_id": "customer", "ts": "at"}, "until": END}},
        },
    ).analyze(logs={"impressions": impressions, "orders": orders})
    assert aside(result, "orders") == {"used": 3, "before_exposure": 1}
    assert values(result) == {"bought": (1.0, 0.5), "day_6": (0.5, 0.0), "week": (1.0, 0.0)}


def test_windows_refuse_them_and_aa_and_power_answer(logs: World) -> None:
    run = experiment(metrics=[*METRICS[:6], {"name": "ctr"}])
    over_time = run.windows(logs=logs.logs)
    assert over_time.refused["bought_within"].startswith("a value since a unit's exposure does not")
    assert {w.metric for w in over_time.windows} == {"ctr"}
    replays = run.aa(logs=logs.logs, runs=50)
    assert "bought_within" in {m.metric for m in replays.metrics}
    (plan,) = [p for p in run.power(logs=logs.logs).plans if p.metric == "bought_within"]
    result = run.analyze(logs=logs.logs)
    row = result["bought_within"]
    assert row.control is not None
    assert plan.mde is not None
    error = math.sqrt((1 - row.control) / row.control * 4 / (row.units_control + row.units))
    goals = sum(row.role == "goal" for row in result.scorecard)
    reach = stats.norm.isf(0.025 / goals) + stats.norm.isf(0.2)
    assert plan.mde == row.mde == pytest.approx(reach * error * (1 + plan.mde / 2) ** 0.5, rel=0.01)


def test_sums_of_impressions_have_windows(logs: World) -> None:
    entries = [
        {"name": "numbers", "per_unit": "sum", "value": "item_id", "where": "item_id > 2"},
        {"name": "of_clicks", "log": "clicks", "per_unit": "sum", "value": "item_id"},
        {"name": "ratio", "log": "clicks", "numerator": "item_id", "denominator": "1"},
    ]
    run = experiment(metrics=entries)
    result, over_time = run.analyze(logs=logs.logs), run.windows(logs=logs.logs)
    assert not over_time.refused
    rows = logs.impressions[logs.impressions["ts"].between(START, END, "left")].drop_duplicates()
    mine = rows[rows["variant"] == "a"]
    clicked = mine[mine["click"] == 1]
    units = mine["user_id"].nunique()
    exact = {
        "numbers": mine.loc[mine["item_id"] > 2, "item_id"].sum() / units,
        "of_clicks": clicked["item_id"].sum() / units,
        "ratio": clicked["item_id"].mean(),
    }
    for name, value in exact.items():
        assert result[name].control == pytest.approx(value, rel=1e-12)
        last = [
            w
            for w in over_time.windows
            if w.metric == name and (w.axis, w.kind) == ("calendar", "cumulative")
        ][-1]
        assert last.control == pytest.approx(value, rel=1e-12)


WRONG = {
    "log": ({"log": "order"}, "no log of rows of units is called 'order'; did you mean `orders`?"),
    "value": ({"log": "orders", "per_unit": "max"}, 'per_unit = "max" needs `value`'),
    "span": ({"within": "a week"}, 'should be a time such as "7 days"'),
    "long": ({"within": "5000 days"}, "is not between 0 and 400 days"),
    "both": ({"retention": 3, "within": "7 days"}, "cannot be used with `retention`"),
    "twice": ({"funnel": [{"log": "orders"}, {"log": "orders"}]}, "one row would be both"),
    "ratio": (
        {"per_unit": "any", "numerator": "click", "denominator": "1"},
        'only "sum" has a meaning',
    ),
    "where": ({"where": "count(*) > 3"}, "holds an aggregate"),
    "score": ({"per_unit": "max", "value": "score"}, "has no value per unit since exposure"),
    "quantile": ({"per_unit": "sum", "value": "click", "quantile": 0.5}, "cannot be used with `q"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_contradicts_itself_is_refused(name: str) -> None:
    entries, message = WRONG[name]
    with pytest.raises(ExperimentError, match=re.escape(message)):
        experiment(metrics=[{"name": "own", **entries}])


def test_an_outcome_log_needs_a_time_a_unit_and_a_name_of_its_own(logs: World) -> None:
    with pytest.raises(LogError, match=r"logs\.events\.orders: no column 'at' for ts"):
        experiment().analyze(logs={**logs.logs, "orders": logs.orders.rename(columns={"at": "x"})})
    timeless = {"impressions": logs.impressions.drop(columns="ts"), "orders": logs.orders}
    with pytest.raises(LogError, match="no log says when that was"):
        experiment(period=None).analyze(logs=timeless)
    logged = {"impressions": {}, "events": {"clicks": {}}}
    with pytest.raises(ExperimentError, match=r"logs\.events\.clicks: is the name of another log"):
        experiment(logs=logged, metrics=[{"name": "ctr"}])
    with pytest.raises(ExperimentError, match=r"logs\.events\.orders: needs a unit to join by"):
        experiment(unit="row", metrics=[{"name": "ctr"}])


def test_exposed_units_without_an_impression_count_from_their_exposure_on() -> None:
    """Four units are exposed on the second day at noon; one of them never sees anything."""
    noon = START + pd.Timedelta("36 hours")
    exposures = pd.DataFrame({"user_id": range(4), "variant": ["a", "b"] * 2, "ts": [noon] * 4})
    seen = exposures[exposures["user_id"] != 2].assign(click=1)
    early = seen.assign(ts=noon - pd.Timedelta("1 hour"))
    orders = pd.DataFrame(
        {
            "customer": [0, 2, 3, 1],
            "at": [noon - pd.Timedelta("1 s"), noon, noon + DAY - pd.Timedelta("1 s"), noon + DAY],
        }
    )
    result = experiment(
        metrics=[
            {"name": "bought", "log": "orders", "within": "24 hours"},
            {"name": "clicks", "log": "clicks", "per_unit": "sum", "value": "click"},
        ],
        logs={**LOGS, "exposures": {}},
    ).analyze(
        logs={"impressions": pd.concat([seen, early]), "exposures": exposures, "orders": orders}
    )
    assert values(result) == {"bought": (0.5, 0.5), "clicks": (0.5, 1.0)}
    assert aside(result, "orders") == {"used": 3, "before_exposure": 1}
