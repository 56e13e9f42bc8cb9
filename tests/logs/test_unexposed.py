"""What the log has of assigned units while they were not exposed, against pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from abeval.assignment import Assignment
from abeval.results.analysis import Result
from tests.logs.small import PERIOD, START, analyze, small_log

NOON = START + pd.Timedelta(hours=36)
METRICS = ["clicks_per_user", "ctr", "dwell_per_user"]


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    return small_log(rows=4_000, units=400)


def exposures(units: int = 200) -> pd.DataFrame:
    """The first units are exposed at noon of the second day."""
    variant = np.where(np.arange(units) % 2 == 0, "a", "b")
    return pd.DataFrame({"user_id": range(units), "ts": NOON.as_unit("ms"), "variant": variant})


def by_hand(log: pd.DataFrame, exposed: int = 200) -> dict[str, float]:
    """Lifts of all traffic; the rest is every row of a or b that is not exposed."""
    inside = (log.user_id < exposed) & (log.ts >= NOON)
    dwell = log.dwell.where(log.click == 1, 0).fillna(0)
    columns = pd.DataFrame({"click": log.click, "one": 1, "dwell": dwell})
    rest = columns[~inside & log.variant.isin(["a", "b"])].sum() / exposed
    a, b = (columns[inside & (log.variant == v)].sum() / (exposed / 2) for v in "ab")
    totals_a, totals_b = a + rest, b + rest
    lifts = (totals_b / totals_a - 1).to_dict()
    ratio = (totals_b.click / totals_b.one) / (totals_a.click / totals_a.one) - 1
    return {"clicks_per_user": lifts["click"], "dwell_per_user": lifts["dwell"], "ctr": ratio}


def site_lifts(result: Result) -> dict[str, float | None]:
    return {row.metric: row.site_lift for row in result.scorecard}


def found(log: pd.DataFrame, exposed: pd.DataFrame, **entries: Any) -> dict[str, float | None]:
    asked = {"period": PERIOD, "metrics": METRICS, "trust": {"aa_runs": 0}, **entries}
    return site_lifts(analyze(log, exposures=exposed, **asked))


def test_rows_before_the_exposure_and_of_other_units_are_the_rest(log: pd.DataFrame) -> None:
    assert found(log, exposures()) == pytest.approx(by_hand(log))


def test_units_outside_of_the_experiment_and_of_the_period_are_not(log: pd.DataFrame) -> None:
    strangers = log.sample(500, random_state=1)
    strangers = strangers.assign(user_id=strangers.user_id + 10_000, variant="old")
    before = strangers.assign(variant="a", ts=strangers.ts - pd.Timedelta(days=9))
    whole = pd.concat([log, strangers, before])
    assert found(whole, exposures()) == pytest.approx(by_hand(log))


def test_without_a_rest_or_its_variants_nothing_is_said(log: pd.DataFrame) -> None:
    nobody = dict.fromkeys(METRICS)
    everybody = exposures(400).assign(ts=START.as_unit("ms"))
    assert found(log, everybody) == nobody
    assert found(log.drop(columns="variant"), exposures()) == nobody
    assert site_lifts(analyze(log, metrics=METRICS, trust={"aa_runs": 0})) == nobody


def test_of_a_log_that_labels_few_of_them_nothing_is_said(log: pd.DataFrame) -> None:
    def labelled(units: int) -> dict[str, float | None]:
        return found(log.assign(variant=log.variant.where(log.user_id < units)), exposures())

    nobody = dict.fromkeys(METRICS)
    assert labelled(200 + 1) == nobody
    assert labelled(200 + 100) == nobody
    # One unit of nearly 200 is less than 1 %.
    assert labelled(200 + 199) == pytest.approx(by_hand(log[log.user_id < 399]))


def test_a_rule_tells_the_variants_of_units_that_the_log_does_not(log: pd.DataFrame) -> None:
    rule = Assignment("layer_7", {"a": 1.0, "b": 1.0})
    variant = log.user_id.map(lambda user: rule.assign(user).variant)
    ruled = log.assign(variant=variant)
    exposed = exposures()
    exposed["variant"] = exposed.user_id.map(lambda user: rule.assign(user).variant)
    salt = {"assignment": {"salt": "layer_7"}}
    logged = found(ruled, exposed, **salt)
    assert None not in logged.values()
    assert found(ruled.drop(columns="variant"), exposed, **salt) == pytest.approx(logged)


def test_crossovers_that_are_excluded_are_no_rest_either(log: pd.DataFrame) -> None:
    crossing = log.user_id >= 380
    crossed = log.assign(variant=log.variant.where(~crossing | (log.index % 2 == 0), "a"))
    kept = crossed.groupby("user_id").variant.transform("nunique") == 1
    excluded = {"cleaning": {"crossover": "exclude"}}
    assert found(crossed, exposures(), **excluded) == pytest.approx(by_hand(crossed[kept]))


def test_caps_of_the_exposed_units_hold_for_the_rest(log: pd.DataFrame) -> None:
    capped = [{"name": "clicks_per_user", "cap": 0.75}]
    heavy = log.assign(click=1)
    result = found(heavy, exposures(), metrics=capped)
    inside = (heavy.user_id < 200) & (heavy.ts >= NOON)
    users = heavy[inside].groupby("user_id").click.sum().reindex(range(200), fill_value=0)
    cap = np.sort(users)[int(np.ceil(1 + 0.75 * 199)) - 1]
    a, b = (users[users.index % 2 == arm].clip(upper=cap).mean() for arm in (0, 1))
    rest = heavy[~inside].groupby("user_id").click.sum().clip(upper=cap).sum() / 200
    assert result["clicks_per_user"] == pytest.approx((b - a) / (a + rest))
