"""Tables of one file: their truth by pandas and scipy, or what only a person can say."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats


class World(NamedTuple):
    """A table, what must be asked of it, and its truth.

    Attributes:
        asks: How the questions begin; a clean table has none.
        unit: Column of the unit, `row` where there is none.
        truth: Metric → control, treatment and p-value.
        decision: The right one; None where a person has to answer first.
        kind: The log that the table is.
    """

    frame: pd.DataFrame
    asks: tuple[str, ...]
    unit: str
    truth: dict[str, tuple[float, float, float]]
    decision: str | None = None
    kind: str = "units"


def welch(values: pd.Series[float], treated: pd.Series[bool]) -> tuple[float, float, float]:
    """Means of control and treatment, and the p-value of Welch's test, without nulls."""
    parts = [values[treated == side].dropna().astype(float) for side in (False, True)]
    p_value = stats.ttest_ind(*parts, equal_var=False).pvalue
    return float(parts[0].mean()), float(parts[1].mean()), float(p_value)


def _users(rows: int = 4_000, seed: int = 7) -> tuple[np.random.Generator, pd.DataFrame]:
    random = np.random.default_rng(seed)
    side = random.permutation(np.arange(rows) % 2)
    return random, pd.DataFrame({"user_id": 10_000 + random.permutation(rows), "side": side})


def _named(frame: pd.DataFrame, name: str, control: str, treatment: str) -> pd.DataFrame:
    side = np.where(frame["side"] == 1, treatment, control)
    return frame.assign(**{name: side}).drop(columns="side")


def plain() -> World:
    random, users = _users()
    users["converted"] = (random.random(len(users)) < 0.10 + 0.05 * users.side).astype(int)
    users["revenue"] = (users.converted * random.gamma(2, 20, len(users))).round(2)
    truth = {name: welch(users[name], users.side == 1) for name in ("converted", "revenue")}
    return World(_named(users, "group", "control", "treatment"), (), "user_id", truth, "ship")


def answers() -> World:
    """Outcomes as text, and a variant of yes and no."""
    random, users = _users()
    bought = random.random(len(users)) < 0.10 + 0.05 * users.side
    users["Purchased"] = np.where(bought, "Yes", "No")
    truth = {"purchased": welch(bought.astype(float), users.side == 1)}
    return World(_named(users, "Promotion", "No", "Yes"), (), "user_id", truth, "ship")


def without_ids() -> World:
    random, users = _users()
    users["converted"] = random.random(len(users)) < 0.10 + 0.05 * users.side
    truth = {"converted": welch(users.converted, users.side == 1)}
    frame = _named(users, "group", "A", "B").drop(columns="user_id")
    return World(frame, (), "row", truth, "ship")


def stores() -> World:
    """Each store has four weeks, and one promotion: as rows, noise would be significant."""
    random = np.random.default_rng(3)
    stores = np.arange(1, 61)
    level = random.normal(50, 15, 60)
    side = random.permutation(np.arange(60) % 2)
    weeks = [
        pd.DataFrame(
            {
                "MarketID": stores % 7 + 1,
                "LocationID": stores,
                "Promotion": np.where(side == 1, "Yes", "No"),
                "week": week,
                "SalesInThousands": (level + random.normal(0, 3, 60)).round(2),
            }
        )
        for week in range(1, 5)
    ]
    frame = pd.concat(weeks, ignore_index=True)
    means = frame.groupby(["LocationID", "Promotion"]).SalesInThousands.sum().reset_index()
    truth = {"sales_in_thousands_per_unit": welch(means.SalesInThousands, means.Promotion == "Yes")}
    return World(frame, (), "LocationID", truth, "keep_running", "impressions")


def schools() -> World:
    """Pupils have ids, but whole schools were assigned."""
    random = np.random.default_rng(8)
    school = random.integers(0, 30, 1_500)
    effects = random.normal(0, 8, 30)
    frame = pd.DataFrame(
        {
            "student_id": np.arange(1_500),
            "school": [f"S{place:02}" for place in school],
            "arm": np.where(school % 2 == 1, "new", "control"),
            "score": (60 + effects[school] + random.normal(0, 10, 1_500)).round(1),
        }
    )
    return World(frame, ("direction",), "school", {}, None, "impressions")


def latency() -> World:
    random, users = _users()
    users["latency_ms"] = random.gamma(4, 30 + 4 * users.side).round(1)
    truth = {"latency_ms": welch(users.latency_ms, users.side == 1)}
    return World(_named(users, "variant", "control", "new"), (), "user_id", truth, "do_not_ship")


def churn() -> World:
    random, users = _users()
    users["churned"] = (random.random(len(users)) < 0.30 - 0.06 * users.side).astype(int)
    truth = {"churned": welch(users.churned, users.side == 1)}
    return World(_named(users, "variant", "control", "new"), (), "user_id", truth, "ship")


def spend() -> World:
    """Revenue, or a cost: the table does not say."""
    random, users = _users()
    users["spend_usd"] = random.gamma(3, 10 + 1.5 * users.side).round(2)
    truth = {"spend_usd": welch(users.spend_usd, users.side == 1)}
    frame = _named(users, "variant", "control", "new")
    return World(frame, ("direction",), "user_id", truth)


def funnel() -> World:
    """Half of the rows are from before, and the others are split unevenly."""
    random, users = _users()
    stage = np.where(np.arange(len(users)) % 2 == 0, "pre_test", "test")
    users["side"] = ((stage == "test") & (users.side == 1)).astype(int)
    users["test_stage"] = stage
    users["converted"] = (random.random(len(users)) < 0.12).astype(int)
    own = users[users.test_stage == "test"]
    truth = {"converted": welch(own.converted, own.side == 1)}
    return World(_named(users, "group", "control", "new"), ("rows",), "user_id", truth)


def uneven() -> World:
    random, users = _users()
    users["side"] = (np.arange(len(users)) % 3 == 0).astype(int)
    users["converted"] = (random.random(len(users)) < 0.12).astype(int)
    truth = {"converted": welch(users.converted, users.side == 1)}
    return World(_named(users, "group", "control", "new"), ("weights",), "user_id", truth)


def campaigns() -> World:
    """Days of two campaigns: rows are sums over many people."""
    random = np.random.default_rng(2)
    days = pd.date_range("2026-08-01", periods=30)
    frame = pd.DataFrame(
        {
            "Campaign Name": np.repeat(["Control Campaign", "Test Campaign"], 30),
            "Date": np.tile(days.strftime("%-d.%m.%Y"), 2),
            "Spend [USD]": random.integers(1_500, 3_000, 60),
            "# of Impressions": random.integers(50_000, 150_000, 60),
            "# of Website Clicks": random.integers(3_000, 8_000, 60),
            "# of Purchase": random.integers(200, 900, 60),
        }
    )
    return World(frame, ("unit",), "# of Impressions", {}, None, "sums")


def clicks_of_users() -> World:
    """Counts of clicks and impressions by user are a ratio, and no column `click`."""
    random, users = _users()
    users["impressions"] = random.integers(1, 40, len(users))
    users["clicks"] = random.binomial(users.impressions, 0.10 + 0.01 * users.side)
    sums = users.groupby("side")[["clicks", "impressions"]].sum()
    rates = sums.clicks / sums.impressions
    line = users.clicks - users.impressions * rates[users.side].to_numpy()
    line = line / users.groupby("side").impressions.mean()[users.side].to_numpy()
    errors = [line[users.side == side].var() / (users.side == side).sum() for side in (0, 1)]
    z = (rates[1] - rates[0]) / np.sqrt(sum(errors))
    truth = {"clicks_per_impressions": (rates[0], rates[1], float(2 * stats.norm.sf(abs(z))))}
    return World(_named(users, "variant", "control", "new"), (), "user_id", truth, "ship")


def nulls() -> World:
    random, users = _users()
    users["purchase"] = random.gamma(2, 10 + users.side).round(2)
    users.loc[random.random(len(users)) < 0.1 + 0.1 * users.side, "purchase"] = np.nan
    truth = {"purchase": welch(users.purchase, users.side == 1)}
    return World(_named(users, "group", "control", "new"), ("missing",), "user_id", truth)


def covariates() -> World:
    random, users = _users()
    users["spend_before"] = random.gamma(2, 20, len(users)).round(2)
    users["revenue"] = (users.spend_before + random.normal(3 * users.side, 5)).round(2)
    before, after = users.spend_before, users.revenue
    theta = sum(
        np.cov(before[users.side == side], after[users.side == side])[0, 1] for side in (0, 1)
    ) / sum(before[users.side == side].var() for side in (0, 1))
    adjusted = after - theta * (before - before.mean())
    control, treatment, _ = welch(after, users.side == 1)
    truth = {"revenue": (control, treatment, welch(adjusted, users.side == 1)[2])}
    return World(_named(users, "group", "control", "new"), (), "user_id", truth, "ship")


def preorders() -> World:
    """What is ordered before it is out is an outcome, and none of the past."""
    random, users = _users()
    users["pre_orders"] = random.poisson(1 + 0.2 * users.side, len(users))
    truth = {"pre_orders": welch(users.pre_orders, users.side == 1)}
    return World(_named(users, "group", "control", "new"), (), "user_id", truth, "ship")


def commas() -> World:
    """A number with a decimal comma is one."""
    random, users = _users()
    users["converted"] = (random.random(len(users)) < 0.10 + 0.05 * users.side).astype(int)
    amount = random.gamma(2, 20, len(users)).round(2)
    users["amount"] = [f"{number}".replace(".", ",") for number in amount]
    sides = users.side == 1
    truth = {"converted": welch(users.converted, sides), "amount": welch(pd.Series(amount), sides)}
    return World(_named(users, "group", "control", "new"), (), "user_id", truth, "ship")


def text_times() -> World:
    """ISO text in Parquet is the time of a log."""
    random = np.random.default_rng(4)
    users = random.integers(0, 900, 6_000)
    seconds = pd.to_timedelta(random.integers(0, 10 * 86_400, 6_000), unit="s")
    times = pd.Timestamp("2026-07-01") + seconds
    frame = pd.DataFrame(
        {
            "user_id": users,
            "ts": times.strftime("%Y-%m-%dT%H:%M:%S"),
            "variant": np.where(users % 2 == 1, "new", "control"),
            "item_id": random.integers(0, 200, 6_000),
            "click": (random.random(6_000) < 0.2).astype(int),
        }
    )
    return World(frame, (), "user_id", {}, "keep_running", "impressions")


def blank_footer() -> World:
    world = plain()
    blank = pd.DataFrame(None, index=range(2), columns=world.frame.columns)
    frame = pd.concat([world.frame.astype(object), blank], ignore_index=True)
    return world._replace(frame=frame)


def rivals() -> World:
    """Two columns could be the variant: nothing says which, nor which value is control."""
    random, users = _users()
    users["version"] = random.choice(["red", "blue"], len(users))
    users["converted"] = (random.random(len(users)) < 0.1 + 0.05 * users.side).astype(int)
    frame = _named(users, "policy", "p1", "p2")
    return World(frame, ("variant",), "user_id", {})


WORLDS: dict[str, Callable[[], World]] = {
    own.__name__: own
    for own in (
        plain,
        answers,
        without_ids,
        stores,
        schools,
        latency,
        churn,
        spend,
        funnel,
        uneven,
        campaigns,
        clicks_of_users,
        nulls,
        covariates,
        preorders,
        commas,
        text_times,
        blank_footer,
        rivals,
    )
}
