"""One budget of false alarms over all checks, and which rows a failed check touches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import ExperimentError
from abeval.experiment.sections import TrustOptions
from abeval.inference.trust.finding import (
    Limits,
    RawCheck,
    TrustCheck,
    apply_thresholds,
    skip_check,
)
from abeval.results.analysis import Result
from tests.logs.small import PERIOD, analyze, small_log


def a_test(name: str, p_value: float) -> RawCheck:
    return RawCheck(p_value, "calm", "alarm", name=name, remedy="do something")


@pytest.mark.slow
def test_no_number_of_checks_raises_the_rate_of_false_alarms() -> None:
    """40 families of 1 to 5 tests each, 4,000 sound experiments."""
    random = np.random.default_rng(0)
    sizes = np.arange(40) % 5 + 1
    warned = failed = 0
    for _ in range(4_000):
        tests = [
            a_test(f"check{i}:{k}", float(p))
            for i, size in enumerate(sizes)
            for k, p in enumerate(random.random(size))
        ]
        tests.append(a_test("srm", float(random.random())))
        statuses = {check.status for check in apply_thresholds(tests, TrustOptions())}
        warned += bool(statuses & {"warn", "fail"})
        failed += "fail" in statuses
    # Independent tests: 1 - (1 - .01) (1 - .03 / 40) ** 40.
    assert warned / 4_000 == pytest.approx(0.039, abs=0.01)
    assert failed / 4_000 == pytest.approx(0.004, abs=0.003)


def test_the_split_keeps_its_customary_level_among_any_number_of_checks() -> None:
    others = [a_test(f"check{i}", 0.5) for i in range(30)]
    for p_value, status in ((0.0086, "warn"), (0.0009, "fail"), (0.011, "pass")):
        srm, *rest = apply_thresholds([a_test("srm", p_value), *others], TrustOptions())
        assert (srm.status, srm.warn_threshold, srm.threshold) == (status, 0.01, 0.001)
        assert {check.threshold for check in rest} == {0.0001}
        assert "alpha_fail = 0.004" in srm.threshold_reason


def test_tests_of_one_family_are_adjusted_over_it() -> None:
    tests = [a_test(f"pre_period:{i}", p) for i, p in enumerate((0.0009, 0.02, 0.9))]
    first, second, third = apply_thresholds(tests, TrustOptions())
    assert (first.value, second.value, third.value) == pytest.approx((0.0027, 0.04, 0.9))
    assert [first.status, second.status] == ["fail", "pass"]
    warns = apply_thresholds([tests[0]._replace(worst="warn")], TrustOptions())[0]
    assert (warns.status, warns.threshold) == ("warn", None)
    assert apply_thresholds([tests[2]._replace(least="warn")], TrustOptions())[0].status == "warn"


@pytest.mark.parametrize(
    ("value", "beyond", "status"),
    [
        *((0.019, False, "pass"), (0.02, False, "warn"), (0.2, False, "fail")),
        *((0.02, True, "pass"), (0.021, True, "warn"), (0.2, True, "warn"), (0.21, True, "fail")),
    ],
)
def test_a_number_reaches_its_limits_or_goes_beyond_them(
    value: float, beyond: bool, status: str
) -> None:
    limits = Limits(0.02, 0.2, beyond)
    (check,) = apply_thresholds(
        [RawCheck(value, "few", "many", limits, name="lost")], TrustOptions()
    )
    assert (check.status, check.value, check.is_test) == (status, value, False)
    assert check.message == ("few" if status == "pass" else "many")
    assert (check.warn_threshold, check.threshold) == (0.02, 0.2)


def test_numbers_and_checks_that_cannot_be_made_spend_no_budget() -> None:
    limits = Limits(None, None)
    number, none, test = apply_thresholds(
        [
            RawCheck(9.0, "much", limits=limits, name="b"),
            skip_check("no log", "c"),
            a_test("d", 0.02),
        ],
        TrustOptions(),
    )
    assert (number.status, number.message) == ("pass", "much")
    assert (none.status, none.message, none.threshold_reason) == ("skipped", "no log", "")
    assert (test.status, test.warn_threshold) == ("warn", 0.03)
    failed = apply_thresholds(
        [RawCheck(None, "no split", least="fail", name="srm")], TrustOptions()
    )
    assert [check.status for check in failed] == ["fail"]


def test_parts_of_a_check_are_told_together_and_the_worst_decides() -> None:
    limits, seldom = Limits(0.001, 0.005), Limits(0.005, None)
    parts = [
        RawCheck(0.0, "whole", "holes", limits, name="lists", remedy="load them"),
        RawCheck(0.02, "once", "repeats", seldom, ("ctr",), name="lists", remedy="clear the cache"),
        skip_check("no positions", "lists"),
    ]
    (calm,), (bad,) = (apply_thresholds(own, TrustOptions()) for own in (parts[::2], parts))
    assert (calm.status, calm.message, calm.threshold) == ("pass", "whole", 0.005)
    assert (bad.status, bad.message, bad.value) == ("warn", "repeats", 0.02)
    assert (bad.metrics, bad.remedy, bad.threshold) == (("ctr",), "clear the cache", None)
    worse = [parts[0]._replace(value=0.01), parts[1]]
    (both,) = apply_thresholds(worse, TrustOptions())
    assert (both.status, both.message, both.metrics) == ("fail", "holes; repeats", None)
    assert both.remedy == "load them; clear the cache"
    assert apply_thresholds(parts[2:], TrustOptions())[0].status == "skipped"


def test_a_row_gives_its_name_to_findings_without_one() -> None:
    found = [RawCheck(0.5, "calm"), RawCheck(0.5, "calm", name="nulls:score")]
    assert [one.name for one in TrustCheck("nulls", lambda _: found).findings(None)] == [
        "nulls",
        "nulls:score",
    ]


def late_clicks(share: float, **entries: Any) -> Result:
    """A world in which a share of the clicks comes a day after its impression."""
    random = np.random.default_rng(1)
    log = small_log(rows=6000, units=300, seed=2).assign(impression_id=range(6000))
    clicks = log.loc[log["click"] == 1, ["impression_id", "ts", "user_id"]].copy()
    late = random.random(len(clicks)) < share
    clicks["ts"] += pd.to_timedelta(np.where(late, 48, 0.01), unit="h")
    metrics = entries.pop("metrics")
    return analyze(
        log.drop(columns=["click", "dwell"]),
        clicks=clicks,
        period=PERIOD,
        metrics=metrics,
        trust={"aa_runs": 0},
        logs={"clicks": {"attribution_hours": 24}},
        **entries,
    )


def test_lost_clicks_touch_ctr_and_not_impressions() -> None:
    goal = {"name": "impressions_per_user", "role": "goal"}
    result = late_clicks(0.4, metrics=[goal, {"name": "ctr", "role": "diagnostic"}])
    check = next(check for check in result.trust if check.name == "clicks_set_aside")
    assert (check.status, check.metrics, check.is_test) == ("fail", ("ctr",), False)
    assert (check.warn_threshold, check.threshold) == (0.02, 0.2)
    assert check.remedy
    assert check.threshold_reason
    assert (result["ctr"].status, result["ctr"].reason) == ("untrusted", "failed_trust_check")
    assert result["impressions_per_user"].status != "untrusted"
    (verdict,) = result.verdicts
    assert verdict.decision != "do_not_trust"
    assert "clicks_set_aside failed, for other metrics only" in verdict.sentence
    assert result.trusted


def test_lost_clicks_stop_a_verdict_that_rests_on_them() -> None:
    result = late_clicks(0.4, metrics=["ctr", "impressions_per_user"])
    assert result.verdicts[0].decision == "do_not_trust"
    assert not result.trusted
    assert result["impressions_per_user"].status != "untrusted"
    # The log itself is the same: a user who expects late clicks says so.
    log = small_log(rows=600, units=60)
    with pytest.raises(ExperimentError, match="rows_warn is above rows_fail"):
        analyze(log, trust={"rows_fail": 0.01})


def test_thresholds_come_from_the_file() -> None:
    log = small_log(rows=3000, units=200, seed=4)
    log["user_id"] = log["user_id"].astype("Int64").where(log.index % 50 > 0)
    for limits, status in (
        ({}, "warn"),
        ({"rows_fail": 0.02}, "fail"),
        ({"rows_warn": 0.1}, "pass"),
    ):
        result = analyze(log, period=PERIOD, trust=limits)
        check = next(check for check in result.trust if check.name == "impressions_set_aside")
        assert check.status == status
    assert check.metrics is None


def test_a_strict_budget_is_spent_by_the_split_as_well() -> None:
    units = pd.DataFrame({"user_id": range(2000), "y": 1.0})
    units["variant"] = np.where(units["user_id"] < 1060, "a", "b")
    entries = {"unit": "user_id", "control": "a", "variants": {"a": {}, "b": {}}, "name": "units"}
    for alpha, status in ((0.004, "warn"), (0.04, "fail")):
        loaded = abeval.define(
            ".",
            **entries,
            logs={"units": {}},
            metrics=[{"name": "y"}],
            trust={"alpha_fail": alpha},
        )
        result = loaded.analyze(logs={"units": units})
        srm = next(check for check in result.trust if check.name == "srm")
        assert srm.status == status
