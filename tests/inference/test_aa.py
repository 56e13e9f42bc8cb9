"""A/A replays: rows, levels, and what a test that does not keep its level looks like."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

import abeval
from abeval.aggregates.aggregates import BucketSums
from abeval.cli.main import app
from abeval.errors import ExperimentError
from abeval.inference.aa import (
    EXACT,
    Level,
    replay_p_values,
    subtract_past_effect,
)
from abeval.results.trust import AAMetric, AAResult
from abeval.stats.replay import summarise_aa_tests
from tests import sample
from tests.real_logs import kuairand

COLUMNS = [
    "metric",
    "runs",
    "rejection_rate",
    "rejection_low",
    "rejection_high",
    "uniformity_p_value",
]


@pytest.fixture(scope="module")
def result():
    return abeval.load(sample.FILE).aa(runs=4000)


def test_every_metric_of_the_sample_keeps_its_level(result):
    assert result.off() == ()
    assert len(result.metrics) == 18
    assert all(
        row.rejection_low < row.rejection_rate < row.rejection_high for row in result.metrics
    )
    assert all(row.uniformity_p_value > 1e-4 for row in result.metrics)
    assert (result.dealt, result.alpha) == ("units", 0.05)


def test_histograms_count_every_replay(result):
    assert {sum(counts) for counts in result.histograms.values()} == {4000}
    assert result.histograms["ctr"][0] == round(result["ctr"].rejection_rate * 4000)


def test_metrics_that_are_no_sums_are_refused_by_name(result):
    assert set(result.refused) == {"coverage", "gini", "entropy"}


def test_same_seed_same_answer_and_another_seed_another():
    loaded = abeval.load(sample.FILE)
    runs = [loaded.aa(runs=300, seed=seed, metrics=["ctr"]) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0].histograms != runs[2].histograms


def test_command_line_writes_exactly_the_promised_rows(tmp_path):
    file = tmp_path / "aa.json"
    args = ["aa", str(sample.FILE), "--runs", "200", "--metric", "ctr", "--json", str(file)]
    run = CliRunner().invoke(app, args)
    assert run.exit_code == 0, run.output
    (row,) = json.loads(file.read_text())["metrics"]
    assert list(row) == COLUMNS
    assert (row["metric"], row["runs"]) == ("ctr", 200)


def test_no_replays_is_a_mistake():
    with pytest.raises(ExperimentError, match="runs 0: use a number from 1"):
        abeval.load(sample.FILE).aa(runs=0)


def clustered(buckets=512, units=60_000):
    rng = np.random.default_rng(5)
    bucket = rng.integers(0, buckets, units)
    taste = rng.gamma(0.5, 2.0, units)
    y, x = rng.poisson(6 * taste).astype(float), np.full(units, 6.0)
    parts = (np.ones(units), y, x, y * y, y * x, x * x)
    sums = np.stack([np.bincount(bucket, v, buckets) for v in parts], axis=1)
    return BucketSums(sums[:, 0], sums[:, 1:]), BucketSums.per_unit(y, x)


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_buckets_keep_the_level_as_units_do(share):
    buckets, units = clustered()
    for sums in (buckets, units):
        found, _ = replay_p_values({"m": sums}, share, 2000, 3)
        assert np.mean(found["m"] < 0.05) == pytest.approx(0.05, abs=3 * (0.0475 / 2000) ** 0.5)


def replay_until_clear(level, p_values):
    """Return the first p-values that are enough, a batch of 500 after the other."""
    ends = range(500, len(p_values) + 1, 500)
    return next((p_values[:end] for end in ends if level.is_clear(p_values[:end])), p_values)


@pytest.mark.parametrize("rate", [0.05, 0.08, 0.1])
def test_replays_that_end_early_keep_the_level_and_find_what_all_of_them_find(rate):
    """Each alarm is one of all replays too; of a test that is off, few are lost."""
    level, rng = Level.at(0.05, 0.002, 2000), np.random.default_rng(4)
    drawn = rng.random((400, 2000)) * 0.05 / rate
    early = [replay_until_clear(level, p_values) for p_values in drawn]
    of_all = np.array([level.is_high(p_values) for p_values in drawn])
    of_early = np.array([level.is_high(p_values) for p_values in early])
    assert not np.any(of_early & ~of_all)
    assert np.mean(of_all & ~of_early) < 0.04
    if rate == 0.05:
        assert np.mean(of_all) < 0.01
        assert np.mean([len(p_values) for p_values in early]) < 1000
    else:
        assert np.mean(of_early) > (0.9 if rate == 0.08 else 0.99)


def test_a_metric_ends_early_where_others_go_on():
    values = np.random.default_rng(2).gamma(1.0, size=(2, 1000))
    sums = {
        name: BucketSums.per_unit(y, np.ones(1000)) for name, y in zip("ab", values, strict=True)
    }
    every, _ = replay_p_values(sums, 0.5, 2000, 3)
    found, _ = replay_p_values(sums, 0.5, 2000, 3, None, lambda p: p[0] == every["a"][0])
    assert found["a"] == pytest.approx(every["a"][:500], rel=1e-9)
    assert found["b"] == pytest.approx(every["b"], rel=1e-9)


def test_a_test_that_forgets_that_rows_are_of_one_unit_is_off():
    buckets, _ = clustered()
    rows = BucketSums(6 * buckets.units, buckets.sums / [1, 1, 6, 6, 6])
    found, _ = replay_p_values({"rows": rows}, 0.5, 1000, 0)
    test = summarise_aa_tests(found["rows"], 0.05)
    row = AAMetric("rows", test.replays, test.rate, test.low, test.high, test.ks_p_value)
    assert row.rejection_rate > 0.15
    assert AAResult(0.05, 0.5, "sub_buckets", 1, (row,), {}, {}).off() == ("rows",)


def test_a_metric_that_is_always_the_same_is_refused_and_the_others_are_not():
    good, _ = clustered()
    flat = BucketSums(good.units, np.stack([good.units * k for k in (1, 1, 1, 1, 1)], axis=1))
    found, refused = replay_p_values({"good": good, "flat": flat}, 0.5, 200, 0)
    assert list(found) == ["good"]
    assert "same for every unit" in refused["flat"]


def test_kuairand_keeps_the_level():
    found = kuairand(metrics=[{"name": "ctr"}, {"name": "dwell_per_user"}]).aa(runs=2000)
    assert found.off() == ()
    assert found.dealt == "units"


def test_finitely_many_sub_buckets_are_allowed_for_and_units_are_exact():
    row = AAMetric("m", 10_000, 0.0575, 0.0, 1.0, 0.5)
    dealt = {d: AAResult(0.05, 0.5, d, 1, (row,), {}, {}) for d in ("units", "sub_buckets")}
    assert dealt["units"].off() == ("m",)
    assert dealt["sub_buckets"].off() == ()
    assert dealt["units"].errors()["m"] == pytest.approx(0.0075 / (0.0475 / 10_000) ** 0.5)


def test_values_are_replayed_less_what_their_past_explains():
    """Without it the variance of a split would be that of the past too."""
    rng = np.random.default_rng(8)
    past = rng.gamma(0.3, 5.0, 4000).round()
    new = (rng.random(4000) < 0.2).astype(float)
    past *= 1 - new
    y = past + rng.poisson(2.0, 4000)
    before = np.stack([past, np.ones(4000), new], axis=1)
    sums = BucketSums.per_unit(y, np.ones(4000), before)
    own = subtract_past_effect(sums)
    assert own.sums[:, 0].sum() == pytest.approx(y.sum())
    design = np.stack([past, new], axis=1) - [past.mean(), new.mean()]
    fitted = np.linalg.lstsq(design, y - y.mean(), rcond=None)[0]
    assert own.sums[:, 0] == pytest.approx(y - design @ fitted)
    assert stats.skew(own.sums[:, 0]) < 0.5 * stats.skew(sums.sums[:, 0])


def test_few_crashes_of_an_own_metric_are_fishers_in_replays_as_in_rows():
    """Also where other metrics are adjusted: the exact test takes values as they are."""
    number = np.arange(4_000)
    table = pd.DataFrame(
        {
            "user_id": number,
            "variant": np.where(number % 2 == 0, "a", "b"),
            "visits": number % 11,
            "crash": (number % 401 == 0).astype(int),
            "before": number % 7,
        }
    )
    loaded = abeval.define(
        name="crashes",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        logs={"units": {"covariates": ["before"]}},
        metrics=[{"name": "visits"}, {"name": "crash"}],
        inference={"adjust": "cuped"},
        trust={"aa_runs": 0},
    )
    logs = {"units": table}
    assert loaded.analyze(logs=logs)["crash"].method == "fisher_mid_p"
    replayed = loaded.aa(logs=logs, runs=100)
    assert replayed.refused == {"crash": EXACT}
    assert [row.metric for row in replayed.metrics] == ["visits"]


def test_a_log_with_a_past_is_replayed_by_cuped():
    loaded = abeval.load(sample.FILE)
    plain = loaded.replace(inference={"adjust": "none"}).aa(runs=300, metrics=["ctr"])
    cuped = loaded.replace(inference={"adjust": "cuped"}).aa(runs=300, metrics=["ctr"])
    assert plain.notes == cuped.notes == ()
    assert plain.histograms != cuped.histograms
