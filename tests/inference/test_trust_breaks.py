"""Logs that break off in one variant; sound ones never do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from abeval.results.analysis import Result
from abeval.results.trust import Check
from benchmarks.calibration.healthy_logs import analyze_world
from tests.worlds.faulty import lose_clicks, lose_orders
from tests.worlds.healthy import (
    DAY_MS,
    DAYS,
    Random,
    Visits,
    World,
    buyers,
    changing,
    draw_logs,
    draw_visits,
    heavy,
)

pytestmark = pytest.mark.whole


def check(result: Result, name: str = "breaks") -> Check:
    return next(one for one in result.trust if one.name == name)


def draw(world: Callable[[Random], World]) -> Result:
    return analyze_world(world(np.random.default_rng(3)))


def test_clicks_that_end_within_a_test_were_a_loss_or_a_win():
    """Control's clicks ended on a day: +100 %, shipped, with every check passed."""
    result = draw(partial(lose_clicks, variant="control"))
    found = check(result)
    assert (found.status, found.value, result.verdicts[0].decision) == ("fail", 1.0, "do_not_trust")
    assert found.message.startswith("clicks in the week from 2026-09-")
    assert "control 0 after " in found.message
    # Who is seen, and how often, does not depend on clicks.
    assert "impressions_per_user" not in (found.metrics or ())
    assert result["impressions_per_user"].status != "untrusted"


def test_clicks_that_end_on_one_device_name_it():
    found = check(draw(partial(lose_clicks, variant="treatment", device="phone")))
    assert (found.status, "device = 'phone'" in found.message) == ("fail", True)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("days", [1, 2, 3, 5])
def test_clicks_of_some_days_name_the_first(days: int):
    """Of five days the week from the first on lost less, was surer, and only warned."""
    found = check(draw(partial(lose_clicks, variant="treatment", lasts=days)))
    assert (found.status, found.message.startswith("clicks on 2026-09-")) == ("fail", True)


def test_where_impressions_end_clicks_are_not_told_as_well():
    logs = heavy(np.random.default_rng(3), 3_000, 0.0).logs
    shown = logs["impressions"]
    lost = (shown["variant"] == "treatment") & (shown["ts"] >= "2026-09-20")
    clicks = logs["clicks"][~logs["clicks"]["impression_id"].isin(shown["impression_id"][lost])]
    found = check(analyze_world(World({"impressions": shown[~lost], "clicks": clicks}, {})))
    assert (found.status, found.metrics, "clicks" in found.message) == ("fail", None, False)


@pytest.mark.parametrize("variant", ["control", "treatment"])
def test_orders_that_end_touch_their_metrics(variant: str):
    result = draw(partial(lose_orders, variant=variant, start=7))
    found = check(result)
    assert (found.status, found.metrics) == ("fail", ("buyers", "revenue"))
    assert f"{variant} 0 after " in found.message


def test_a_variant_without_any_order_decides_nothing():
    """Control had none: no lift could be told, and the treatment was shipped."""
    result = draw(partial(lose_orders, variant="control", start=0))
    found = check(result, "missing_outcomes")
    assert (found.status, result.verdicts[0].decision) == ("fail", "do_not_trust")
    assert check(result).status == "pass"


def test_what_should_not_happen_may_be_lacking_in_a_variant():
    """Errors of one variant alone are an effect; then the check warns."""
    world = lose_orders(np.random.default_rng(3), "control", 0)
    metric = {
        "name": "errors",
        "role": "guardrail",
        "log": "orders",
        "per_unit": "any",
        "margin": 0.02,
    }
    goal = {"name": "impressions_per_user", "role": "goal"}
    entries = {**world.entries, "metrics": [goal, {**metric, "direction": "decrease"}]}
    result = analyze_world(World(world.logs, entries))
    assert check(result, "missing_outcomes").status == "warn"
    assert result["errors"].status == "worse"


def test_what_only_a_variant_can_have_by_design_is_a_diagnostic_that_warns():
    """Clicks on a new button failed even where nothing was decided by them."""
    random = np.random.default_rng(3)
    logs = draw_logs(random, draw_visits(random, 2_000), 0.0)
    shown = logs["impressions"][logs["impressions"]["variant"] == "treatment"]
    button = shown[["user_id", "ts"]].drop_duplicates("user_id")
    for role, status in (("goal", "fail"), ("diagnostic", "warn")):
        pressed = {"name": "pressed", "log": "button", "per_unit": "any", "role": role}
        entries = {
            "logs": {"impressions": {}, "clicks": {}, "events": {"button": {}}},
            "metrics": [{"name": "ctr", "role": "goal"}, pressed],
        }
        result = analyze_world(World({**logs, "button": button}, entries))
        assert check(result, "missing_outcomes").status == status
    assert 'role = "diagnostic"' in check(result, "missing_outcomes").remedy
    assert result["pressed"].status != "untrusted"


def test_orders_that_end_are_told_beside_impressions_that_fall():
    """Fewer impressions may be an effect, and then warned; that orders end was not looked for."""
    random = np.random.default_rng(3)
    world = lose_orders(random, "treatment", 7)
    shown = world.logs["impressions"]
    late = (shown["variant"] == "treatment") & (shown["ts"] >= "2026-09-21")
    fewer = shown[~(late & (random.random(len(shown)) < 0.75))]
    result = analyze_world(World({**world.logs, "impressions": fewer}, world.entries))
    found = check(result)
    assert (found.status, found.metrics) == ("fail", ("buyers", "revenue"))
    assert "impressions " in found.message


@pytest.mark.parametrize("factor", [100.0, 0.0])
def test_amounts_of_another_unit_from_a_day_on_touch_their_metric(factor: float):
    """In cents from a day on: +3,555 % of revenue, shipped."""
    logs, entries = buyers(np.random.default_rng(3), 6_000, 0.0)
    exposures, orders = logs["exposures"], logs["orders"].copy()
    treated = exposures["user_id"][exposures["variant"] == "treatment"]
    late = orders["user_id"].isin(treated) & (orders["ts"] >= "2026-09-21")
    orders.loc[late, "amount"] *= factor
    result = analyze_world(World({**logs, "orders": orders}, entries))
    found = check(result)
    assert (found.status, found.metrics) == ("fail", ("revenue",))
    assert "values of revenue" in found.message
    assert "e+" not in found.message
    assert "amounts in the same unit" in found.remedy
    assert (result["revenue"].status, result["buyers"].status) == ("untrusted", "unclear")


def test_values_of_impressions_from_a_day_on_touch_the_metrics_of_them():
    logs = dict(heavy(np.random.default_rng(3), 3_000, 0.0).logs)
    shown = logs["impressions"]
    shown["latency"] = np.random.default_rng(1).lognormal(4.0, 1.0, len(shown))
    metrics = [{"name": "ctr", "role": "goal"}, {"name": "latency", "value": "latency"}]
    assert check(analyze_world(World(logs, {"metrics": metrics}))).status == "pass"
    late = (shown["variant"] == "treatment") & (shown["ts"] >= "2026-09-20")
    shown.loc[late, "latency"] *= 1_000
    found = check(analyze_world(World(logs, {"metrics": metrics})))
    assert (found.status, found.metrics) == ("fail", ("latency",))


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("world", [changing, heavy, buyers])
def test_effects_that_change_and_heavy_users_break_nothing(world: Callable[..., World]):
    for seed in range(3):
        result = analyze_world(world(np.random.default_rng(seed), 2_000, 0.2))
        assert check(result).status == "pass"


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("seed", range(3))
def test_crawlers_of_a_few_days_break_nothing(seed: int):
    """Seven of eight such logs failed: the days of a few machines were taken for all units'."""
    random, users, crawlers = np.random.default_rng(seed), 1_500, 20
    people = draw_visits(random, users)
    crawler = np.repeat(np.arange(crawlers), random.integers(200, 2_000, crawlers))
    day = random.integers(0, DAYS, crawlers)[crawler]
    visits = Visits(
        np.concatenate([people.user, users + crawler]),
        np.concatenate([people.ms, day * DAY_MS + random.integers(0, DAY_MS, crawler.size)]),
        np.concatenate([people.taste, np.full(crawler.size, 0.1)]),
    )
    assert check(analyze_world(World(draw_logs(random, visits, 0.0), {}))).status == "pass"


@pytest.mark.parametrize("seed", [0, 1])
def test_cities_that_close_for_some_days_break_nothing(seed: int):
    """Users of one city stay away together: as if each came alone, six of eight logs failed."""
    random, cities = np.random.default_rng(seed), 90
    visits, size = draw_visits(random, 6_000), random.lognormal(0.0, 2.0, cities)
    city = random.choice(cities, 6_000, p=size / size.sum())
    closed, day = random.integers(2, 12, cities)[city[visits.user]], visits.ms // DAY_MS
    is_open = (day < closed) | (day >= closed + 3)
    visits = Visits(*(column[is_open] for column in visits))
    logs = draw_logs(random, visits, 0.0, unit=city[visits.user])
    logs["impressions"]["city"] = city[logs["impressions"]["user_id"]].astype(str)
    goal = {"name": "ctr", "role": "goal"}
    entries = {"design": {"cluster": "city"}, "segments": {}, "metrics": [goal]}
    result = analyze_world(World(logs, entries))
    assert (check(result).status, check(result, "short_days").status) == ("pass", "pass")
