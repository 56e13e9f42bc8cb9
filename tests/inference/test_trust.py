"""The checks that gate a verdict, at their thresholds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import abeval
from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.load import parse_experiment
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis
from abeval.inference.trust.checks import run_trust_checks
from abeval.logs.accounting import LogRows
from abeval.results.analysis import Result
from abeval.results.trust import Check
from tests.aggregates.test_aggregates import aggregate
from tests.logs.small import PERIOD, analyze, small_log


@pytest.fixture(scope="module")
def honest() -> Aggregates:
    return aggregate(small_log(), period=PERIOD)


def experiment(**entries: object) -> Experiment:
    base = {
        "name": "trust",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "logs": {"impressions": {}},
        "period": PERIOD,
    }
    return parse_experiment({**base, **entries})


def check(name: str, aggregates: Aggregates, **entries: object) -> Check:
    found = run_trust_checks(Analysis(experiment(**entries), (), aggregates))
    return next(c for c in found if c.name == name)


def with_units(aggregates: Aggregates, *counts: int) -> Aggregates:
    """Return aggregates of so many units, whose rows nobody counted."""
    return replace(aggregates, units=dict(zip("abc", counts, strict=False)), audits={})


@pytest.mark.parametrize(
    ("excess", "status"),
    [(0, "pass"), (128, "pass"), (129, "warn"), (164, "warn"), (165, "fail"), (-165, "fail")],
)
def test_sample_ratio(honest: Aggregates, excess: int, status: str) -> None:
    """Of 10,000 units p is .01 at 128.8 too many, and .001 at 164.5."""
    counts = 5000 + excess, 5000 - excess
    found = check("srm", with_units(honest, *counts))
    assert found.status == status
    assert found.value == pytest.approx(stats.chisquare(counts).pvalue, rel=1e-9)


def test_sample_ratio_follows_the_weights(honest: Aggregates) -> None:
    weights = {"a": {"weight": 8}, "b": {"weight": 1}, "c": {"weight": 1}}
    counts = 8100, 1000, 900
    found = check("srm", with_units(honest, *counts), variants=weights)
    expected = stats.chisquare(counts, [8000, 1000, 1000]).pvalue
    assert found.value == pytest.approx(expected, rel=1e-9)
    assert found.status == "warn"
    assert check("srm", with_units(honest, 8000, 1000, 1000), variants=weights).status == "pass"


def test_units_in_a_variant_of_no_weight_fail(honest: Aggregates) -> None:
    weights = {"a": {}, "b": {}, "c": {"weight": 0}}
    assert check("srm", with_units(honest, 500, 500, 3), variants=weights).status == "fail"


@pytest.mark.parametrize(
    ("crossovers", "status"), [(0, "pass"), (4, "pass"), (5, "warn"), (99, "warn"), (100, "fail")]
)
def test_crossovers(honest: Aggregates, crossovers: int, status: str) -> None:
    facts = {**honest.facts, "units": 1000, "crossovers": crossovers}
    found = check("crossover", replace(honest, facts=facts))
    assert (found.status, found.value) == (status, crossovers / 1000)
    assert "first variant seen" in found.message


def test_excluding_crossovers_from_an_uneven_split_is_said(honest: Aggregates) -> None:
    facts = replace(honest, facts={**honest.facts, "units": 1000, "crossovers": 5})
    uneven = {"a": {"weight": 9}, "b": {}}
    exclude = {"crossover": "exclude"}
    assert "biases" in check("crossover", facts, cleaning=exclude, variants=uneven).message
    assert "biases" not in check("crossover", facts, cleaning=exclude).message


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("impressions", "duplicate"),
        ("impressions", "null_unit"),
        ("impressions", "null_variant"),
        ("clicks", "no_impression"),
        ("clicks", "late"),
        ("clicks", "ambiguous_impression"),
    ],
)
@pytest.mark.parametrize(
    ("rows", "status"), [(0, "pass"), (19, "pass"), (20, "warn"), (199, "warn"), (200, "fail")]
)
def test_rows_set_aside(honest: Aggregates, log: str, reason: str, rows: int, status: str) -> None:
    accounts = [LogRows(log, "used", 1000 - rows), LogRows(log, reason, rows)]
    name = f"{log}_{'duplicate' if reason == 'duplicate' else 'set_aside'}"
    found = check(name, replace(honest, row_counts=accounts))
    assert (found.status, found.value) == (status, rows / 1000)


def test_checks_of_a_log_that_is_not_there_are_skipped(honest: Aggregates) -> None:
    assert check("clicks_set_aside", honest).status == "skipped"


def test_missing_days(honest: Aggregates) -> None:
    assert check("missing_days", honest).status == "pass"
    gap = replace(honest, days=[one for one in honest.days if one.day != "2024-03-02"])
    found = check("missing_days", gap)
    assert (found.status, found.value) == ("warn", 1)
    assert "2024-03-02" in found.message
    longer = check("missing_days", honest, period={"start": "2024-02-29", "end": "2024-03-06"})
    assert (longer.status, longer.value) == ("warn", 1)
    assert longer.message == "no impression on 1 of 4 days so far (of 6): 2024-02-29"


def with_before(shift: float) -> pd.DataFrame:
    """Three days and one before them, on which `b` clicks more by `shift`."""
    log = small_log(rows=3000, units=200, seed=4)
    before = small_log(rows=2000, units=200, seed=6)
    random = np.random.default_rng(6)
    chance = 0.3 + shift * (before.variant == "b")
    before["click"] = (random.random(len(before)) < chance).astype(int)
    before["ts"] = pd.Timestamp("2024-02-28 12:00").as_unit("ms")
    before["request_id"] += 10_000
    return pd.concat([log, before])


PRE = {"period": PERIOD, "pre_period": {"start": "2024-02-28", "end": "2024-03-01"}}


def test_groups_that_differed_before_are_not_trusted() -> None:
    found = analyze(with_before(0.3), metrics=["ctr"], **PRE)
    balance = next(c for c in found.trust if c.name == "pre_period:ctr:b")
    assert balance.status == "fail"
    assert not found.trusted
    row = found["ctr"]
    assert (row.status, row.reason) == ("untrusted", "failed_trust_check")
    assert row.difference is not None
    assert found.verdicts[0].decision == "do_not_trust"


def test_groups_that_were_alike_before_pass() -> None:
    log = with_before(0.0)
    goals = ["ctr", {"name": "clicks_per_user", "role": "goal"}]
    found = analyze(log, metrics=goals, **PRE)
    checks = {c.name: c for c in found.trust if c.name.startswith("pre_period")}
    assert {c.status for c in checks.values()} == {"pass"}
    # Clicks before the period of all analysed units, zeros included; Holm doubles the smaller p.
    before = log[log.ts < pd.Timestamp(PERIOD["start"])]
    clicks = before.groupby("user_id").click.sum()
    active = log[log.ts >= pd.Timestamp(PERIOD["start"])].drop_duplicates("user_id")
    own = clicks.reindex(active.user_id, fill_value=0).to_numpy()
    a, b = (own[(active.variant == v).to_numpy()] for v in "ab")
    own_p = stats.ttest_ind(a, b, equal_var=False).pvalue
    adjusted = {name: check.value for name, check in checks.items()}
    assert set(adjusted) == {"pre_period:ctr:b", "pre_period:clicks_per_user:b"}
    found_p = adjusted["pre_period:clicks_per_user:b"]
    smaller = found_p < adjusted["pre_period:ctr:b"]
    assert found_p == pytest.approx(own_p * (2 if smaller else 1), rel=1e-9)


def test_a_diagnostic_that_differed_before_is_seen_too() -> None:
    log = with_before(0.3)
    found = analyze(log, metrics=["ctr", "clicks_per_user", "impressions_per_user"], **PRE)
    checks = {c.name: c.status for c in found.trust if c.name.startswith("pre_period")}
    assert checks == {
        "pre_period:ctr:b": "fail",
        "pre_period:clicks_per_user:b": "fail",
        "pre_period:impressions_per_user:b": "pass",
    }


def whales(units: int = 600, every: int = 2, long: int = 3) -> pd.DataFrame:
    """Everybody watches a little, and a few for days; each so many units is in the variant."""
    rows = np.arange(units)
    return pd.DataFrame(
        {
            "user_id": rows,
            "variant": np.where(rows % every == 0, "b", "a"),
            "ts": pd.Timestamp("2024-03-01 12:00"),
            "click": 1,
            "dwell": np.where(rows < long, 1e6, 1.0 + rows % 7),
            "balance": np.where(rows < long, 1e6 * (-1.0) ** rows, 1.0 + rows % 7),
        }
    )


def bots(units: int = 3000) -> pd.DataFrame:
    """A row a user with clicks out of views, which cost; the four who view most never click."""
    random = np.random.default_rng(1)
    views = 1 + np.round(random.lognormal(0, 1, units)).astype(int)
    views[:4] = 300
    clicks = random.binomial(views, 0.3)
    clicks[:4] = 0
    rows = np.arange(units)
    return pd.DataFrame(
        {
            "user_id": rows,
            "variant": np.where(rows % 2 == 0, "b", "a"),
            "clicks": clicks,
            "views": views,
            "gain": 5 * clicks - views,
        }
    )


RATE = {"name": "rate", "numerator": "gain", "denominator": "views", "role": "goal"}
"""May be negative: an effect adds to it, and no other test takes over at an even split."""


def test_a_metric_whose_own_aa_is_off_is_not_trusted_and_the_others_are() -> None:
    metrics = [RATE, {"name": "clicked", "value": "clicks > 0"}]
    found = analyze(bots(), metrics=metrics)
    aa = next(c for c in found.trust if c.name == "aa")
    assert aa.status == "warn"
    assert "rate" in aa.message
    assert "clicked" not in aa.message
    off, kept = found["rate"], found["clicked"]
    assert (off.status, off.reason) == ("untrusted", "failed_aa")
    assert off.p_value is not None
    assert kept.status != "untrusted"
    assert found.verdicts[0].decision != "ship"
    assert [row.metric for row in found.aa] == ["rate", "clicked"]


def test_what_the_check_advises_mends_it() -> None:
    advice = next(c for c in analyze(bots(), metrics=[RATE]).trust if c.name == "aa").remedy
    assert "few units make most of the variance of rate: cap it (cap = 0.99)" in advice
    capped = analyze(bots(), metrics=[{**RATE, "cap": 0.99}])
    assert next(c for c in capped.trust if c.name == "aa").status == "pass"
    assert capped["rate"].status != "untrusted"
    assert '[inference] resample = "permutation"' in advice
    permuted = analyze(bots(), metrics=[RATE], inference={"resample": "permutation"})
    check = next(c for c in permuted.trust if c.name == "aa")
    assert (check.status, "rate: judged by resampling" in check.message) == ("skipped", True)
    assert permuted["rate"].status != "untrusted"


@pytest.mark.slow
def test_sound_tables_are_not_doubted_for_what_chance_did_to_their_replays() -> None:
    """One replay of each warned of three of these forty; a cap has nothing to mend in them."""
    for seed in range(1_000, 1_040):
        random = np.random.default_rng(seed)
        variant = np.where(random.integers(0, 2, 3_000), "b", "a")
        random.gamma(2, 10, 3_000)
        log = pd.DataFrame({"user_id": range(3_000), "variant": variant})
        log["spent"] = random.normal(10, 3, 3_000)
        found = analyze(log, metrics=[{"name": "revenue", "value": "spent"}])
        aa = next(c for c in found.trust if c.name == "aa")
        assert aa.status == "pass", (seed, aa.message)
        assert "a cap would not help" in aa.remedy


@pytest.mark.parametrize("units", [10_000, 30_000])
def test_skewed_values_at_an_uneven_split_are_replayed_by_their_own_test(units: int) -> None:
    """3 % buyers at 90/10, where Welch's test would reject too often."""
    random, rows = np.random.default_rng(5), np.arange(units)
    spent = np.where(random.random(units) < 0.03, random.lognormal(0, 1.0, units).round(2), 0.0)
    log = pd.DataFrame(
        {"user_id": rows, "variant": np.where(rows % 10 == 0, "b", "a"), "spent": spent}
    )
    entries: dict[str, Any] = {
        "metrics": [{"name": "revenue", "value": "spent"}],
        "variants": {"a": {"weight": 0.9}, "b": {"weight": 0.1}},
    }
    assert analyze(log, **entries)["revenue"].method == "permutation_moments"
    loaded = abeval.define(
        name="x", unit="user_id", control="a", logs={"impressions": {}}, **entries
    )
    (row,) = loaded.aa(runs=4_000, logs={"impressions": log}).metrics
    assert 0.035 < row.rejection_rate < 0.065


def test_a_test_that_rejects_too_rarely_is_no_reason_for_doubt() -> None:
    """Three units have nearly all of the value, half of the units each variant: 0 % rejected."""
    metrics = [{"name": "balance", "value": "balance", "role": "goal"}, {"name": "dwell_p50"}]
    found = analyze(whales(), metrics=metrics, trust={"influence_fail": 1e6})
    aa = next(c for c in found.trust if c.name == "aa")
    (row,) = found.aa
    assert row.rejection_high < 0.05
    assert found["balance"].status != "untrusted"
    assert (aa.status, aa.value) == ("pass", pytest.approx(1.0, abs=1e-6))
    assert "not replayed: dwell_p50" in aa.message


def test_few_units_with_nearly_all_of_the_value_prove_nothing() -> None:
    (row,) = analyze(whales(), metrics=["dwell_per_user"]).scorecard
    assert row.method == "permutation_moments"
    assert row.p_value is not None
    assert row.p_value > 0.05


def test_capping_the_few_brings_the_level_back() -> None:
    capped = [{"name": "dwell_per_user", "role": "goal", "cap": 0.99}]
    found = analyze(whales(), metrics=capped)
    assert next(c for c in found.trust if c.name == "aa").status == "pass"
    assert found["dwell_per_user"].status != "untrusted"


def test_replays_are_not_run_where_they_are_not_asked_for() -> None:
    found = analyze(whales(), metrics=["ctr", "dwell_per_user"], trust={"aa_runs": 0})
    assert next(c for c in found.trust if c.name == "aa").status == "skipped"
    assert found.aa == ()


def test_without_a_pre_period_balance_is_skipped(honest: Aggregates) -> None:
    assert check("pre_period", honest).status == "skipped"


def test_a_reason_of_its_own_outlives_a_failed_check() -> None:
    log = small_log(rows=900, units=90)
    lopsided = log[(log.variant == "b") | (log.user_id < 20)]
    found = analyze(lopsided.assign(click=0), metrics=["ctr", "impressions_per_user"])
    assert next(c for c in found.trust if c.name == "srm").status == "fail"
    reasons = {row.metric: (row.status, row.reason) for row in found.scorecard}
    assert reasons == {
        "ctr": ("untrusted", "no_clicks"),
        "impressions_per_user": ("untrusted", "failed_trust_check"),
    }


@pytest.mark.parametrize(
    ("column", "entries", "why"),
    [
        ("constant", {}, "m: a metric is the same for every unit"),
        ("value", {"trust": {"aa_runs": 0}}, "[trust] aa_runs = 0"),
        ("value", {"variants": {"a": {}, "b": {"weight": 0.05}}}, "b has 60 units, fewer than 200"),
        ("rare", {}, "m: judged by Fisher's exact test"),
    ],
)
def test_why_there_are_no_replays_is_said(column: str, entries: dict[str, Any], why: str) -> None:
    n = 1200 if "variants" in entries else 2498
    log = pd.DataFrame({"user_id": range(n), "constant": 1.0, "value": np.arange(n) % 9})
    every = 20 if "variants" in entries else 2
    log["variant"] = np.where(log.user_id % every == 0, "b", "a")
    log["rare"] = (log.user_id < 9).astype(int)
    found = analyze(log, metrics=[{"name": "m", "value": column}], **entries)
    check = next(c for c in found.trust if c.name == "aa")
    assert (check.status, why in check.message) == ("skipped", True), check.message


def test_most_days_missing_fails_but_days_to_come_do_not(honest: Aggregates) -> None:
    late = replace(honest, days=[one for one in honest.days if one.day == "2024-03-03"])
    found = check("missing_days", late, period={"start": "2024-02-26", "end": "2024-03-04"})
    assert (found.status, found.value) == ("fail", 6)
    early = replace(honest, days=[one for one in honest.days if one.day == "2024-03-01"])
    found = check("missing_days", early, period={"start": "2024-03-01", "end": "2024-03-29"})
    assert (found.status, found.value) == ("pass", 0)
    # An end at an hour of a day takes that day in; one at midnight does not.
    for end, days in (("2024-03-04T01:00:00", 4), ("2024-03-04", 3)):
        found = check("missing_days", early, period={"start": "2024-03-01", "end": end})
        assert found.message == f"an impression on each of 1 days so far (of {days})"


@pytest.mark.parametrize(
    ("end", "looks", "day"),
    [("2024-03-15", "fixed", 3), ("2024-03-15", "always_valid", 3), ("2024-03-04", "fixed", None)],
)
def test_a_log_that_ends_before_the_period_says_so(end: str, looks: str, day: int | None) -> None:
    """Days to come were missing days; a log that lost its last days looks the same."""
    log = small_log(rows=3000, units=200, seed=4)
    found = analyze(log, period={"start": "2024-03-01", "end": end}, inference={"looks": looks})
    assert "missing_days" not in found.verdicts[0].sentence
    said = f"the log ends on 2024-03-03, day {day} of 14"
    assert (said in found.verdicts[0].sentence) == (day is not None and looks == "fixed")
    assert any(note.lower().startswith(said) for note in found.notes) == (day is not None)


def test_a_log_that_is_mostly_outside_the_period_is_not_trusted() -> None:
    """Half a year of which days and months were exchanged, as 7/3/2020 to 7/10/2020 once were."""
    log = small_log(rows=3000, units=200, seed=4)
    log["ts"] += pd.to_timedelta(log["request_id"] % 7 * 31, unit="D")
    named = {"period": PERIOD}
    found = analyze(log, **named)
    outside = next(c for c in found.trust if c.name == "impressions_outside_period")
    assert outside.status == "fail"
    assert outside.value is not None
    assert outside.value > 0.8
    assert found.verdicts[0].decision == "do_not_trust"
    allowed = analyze(log, trust={"outside_period": 1}, **named)
    assert next(c for c in allowed.trust if c.name == outside.name).status == "pass"


def test_a_log_without_times_in_many_rows_is_not_trusted() -> None:
    log = small_log(rows=3000, units=200, seed=4)
    found = analyze(log.assign(ts=log["ts"].where(log.index % 4 > 0)), period=PERIOD)
    assert next(c for c in found.trust if c.name == "impressions_set_aside").status == "fail"


def test_a_skipped_check_has_a_remedy_only_where_somebody_can_have_it_made() -> None:
    """What does not apply to a log is not among what its reader should do."""

    def mendable(found: Result) -> set[str]:
        return {one.name for one in found.trust if one.status == "skipped" and one.remedy}

    log = small_log(rows=3000, units=200, seed=4)
    found = analyze(log)
    assert mendable(found) == {"assignment", "pre_period"}
    assert next(one for one in found.trust if one.name == "served").status == "skipped"
    models = {name: {"model": "m"} for name in "ab"}
    variants = {"variants": models, "models": {"m": {"score": "score"}}}
    assert "served" in mendable(analyze(log.assign(score=0.5), **variants))
    assert mendable(analyze(log.drop(columns="ts"))) == {"assignment", "missing_days"}
    keeps = analyze(log, cleaning={"duplicates": "unchecked"})
    assert "impressions_duplicate" in mendable(keeps)
    table = pd.DataFrame({"grp": ["a"] * 700 + ["b"] * 300, "bought": [0, 1] * 500})
    assert mendable(abeval.analyze(table, variant="grp")) == {"srm"}
    planned = abeval.analyze(table, variant="grp", weights={"a": 7, "b": 3})
    assert mendable(planned) == set()
