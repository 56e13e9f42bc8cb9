"""Off-policy estimators against the numbers of obp, their properties, and their coverage."""

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from abeval.stats import proportions
from abeval.stats.off_policy import (
    CrossFit,
    Policy,
    PolicyValue,
    check_support,
    compute_importance_weights,
    cross_fit,
    diagnose,
    estimate_effective_size,
    sum_unsupported_share,
)
from abeval.stats.records import Refusal
from tests.real_logs import need
from tests.stats.policies import direct, valued

Floats = NDArray[np.float64]
VECTORS = json.loads(
    (Path(__file__).parents[1] / "off_policy" / "vectors" / "off_policy.json").read_text()
)
ZOZO, EMPIRICAL, FROM_BTS, SANITY, TOP = VECTORS["ope"]
PRINTED = VECTORS["onpolicy"]["random/men"]["min_propensity"]
quick = settings(max_examples=60, deadline=None)


def close(expected: float) -> Any:
    return pytest.approx(expected, abs=1e-10, rel=0)


def table_of(direction: str) -> Floats:
    """Probabilities of the evaluated policy, items × positions."""
    if direction in (FROM_BTS, SANITY):
        return np.full((34, 3), 1 / 34)
    zozo, empirical = (np.array(counts, dtype=float) for counts in VECTORS["policies"].values())
    counts = zozo if direction == ZOZO else empirical
    return counts / counts.sum(axis=0)


class Case(NamedTuple):
    item: NDArray[np.int64]
    position: NDArray[np.int64]
    reward: Floats
    logging: Floats
    evaluation: Floats
    policy: Floats
    fit: CrossFit


def log_of(name: str) -> pd.DataFrame:
    return pd.read_parquet(need(f"open_bandit/men_{name}.parquet"))


@cache
def case(direction: str) -> Case:
    log = log_of("bts" if direction == FROM_BTS else "random")
    item, position = log.item_id.to_numpy(), log.position.to_numpy() - 1
    reward, table = log.click.to_numpy(dtype=float), table_of(direction)
    actions, contexts = np.indices(table.shape).reshape(2, -1)
    policy = Policy(contexts, actions, table[actions, contexts])
    fit = cross_fit(reward, item, position, np.arange(len(log)) % 2, policy, prior_rows=50)
    # The vectors' CSV prints 1/34 short, so that SwitchDR at 1 has a weight above it by rounding.
    propensity = np.where(log.propensity == 1 / 34, PRINTED, log.propensity)
    return Case(item, position, reward, propensity, table[item, position], table, fit)


def estimated(name: str, c: Case) -> PolicyValue:
    """An estimator by the name that the vectors give it; a number after `_` is its option."""
    kind, _, option = name.rpartition("_") if name[-1].isdigit() else (name, "", "1")
    rows = (c.reward, c.logging, c.evaluation, c.fit.predicted, c.fit.expected)
    return valued(NAMES[kind], *rows, option=float(option))


NAMES = {
    **{"IPS": "ips", "clipped_IPS": "clipped_ips", "SNIPS": "snips", "DM": "dm", "DR": "dr"},
    **{"SNDR": "sndr", "SwitchDR": "switch_dr", "DRos": "dros"},
}
"""Estimators by the names of the vectors."""

DIRECTIONS = (ZOZO, EMPIRICAL, FROM_BTS, SANITY)
VALUES = [
    (direction, name)
    for direction in DIRECTIONS
    for name, entry in VECTORS["ope"][direction].items()
    if isinstance(entry, dict) and "obp" in entry
]


def test_the_vectors_hold_every_estimator() -> None:
    assert len(VALUES) == 4 * 16


@pytest.mark.parametrize(("direction", "name"), VALUES)
def test_vector_values_and_standard_errors(direction: str, name: str) -> None:
    entry, found = VECTORS["ope"][direction][name], estimated(name, case(direction))
    assert found.value == close(entry["value"])
    assert found.value == close(entry["obp"])
    if name == "DM":
        # The number exists, but it is no standard error of the policy's value.
        rows = case(direction).fit.expected
        assert rows.std(ddof=1) / np.sqrt(rows.size) == close(entry["se_iid"])
        assert found[1:] == (None, None, None, "none", "model_error_unknown")
    elif "se_iid" in entry:
        assert found.se == close(entry["se_iid"])
        assert found.low is not None
        assert found.low < found.value < found.high


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_vector_diagnostics(direction: str) -> None:
    c, expected = case(direction), VECTORS["ope"][direction]["diagnostics"]
    weights = compute_importance_weights(c.logging, c.evaluation)
    taken = np.zeros(c.policy.shape)
    np.add.at(taken, (c.item, c.position), 1)
    share = np.broadcast_to(np.bincount(c.position) / c.position.size, c.policy.shape)
    unseen = sum_unsupported_share(c.policy.ravel(), taken.ravel(), share.ravel())
    found = diagnose(c.reward, weights, unsupported=unseen)
    assert found.mean_weight == close(expected["mean_w"])
    assert found.mean_weight_se == close(expected["mean_w_se"])
    assert found.max_weight == close(expected["max_w"])
    assert found.ess == pytest.approx(expected["ess"], rel=1e-12)
    assert found.ess_share == close(expected["ess_share"])
    assert found.weight_p99 == close(expected["w_p99"])
    assert found.clicks == expected["clicks_used"]
    assert unseen == expected["support_violations (pi_e>0 but item-position unseen)"]
    rejection = VECTORS["ope"][direction]["replay_importance_rejection_expected"]
    assert found.accepted == pytest.approx(rejection["expected_accepted"], rel=1e-12)
    snips = valued("snips", c.reward, c.logging, c.evaluation)
    assert snips.value == close(rejection["value"])
    check_support(found)


@pytest.mark.parametrize("direction", [ZOZO, EMPIRICAL, SANITY])
def test_vector_replay_of_all_draws(direction: str) -> None:
    c, entry = case(direction), VECTORS["ope"][direction]
    expected = entry["replay_expected (Rao-Blackwell: sum pi_e*r / sum pi_e)"]
    found = valued("replay", c.reward, c.logging, c.evaluation, min_ess=0)
    assert found.value == close(expected["value"])
    assert c.evaluation.sum() == close(expected["expected_matches"])


def test_replay_of_a_log_that_is_not_uniform_is_refused() -> None:
    # The number is 0.0069, the CTR of the log's own policy, whoever is evaluated.
    c = case(FROM_BTS)
    with pytest.raises(Refusal, match="one probability") as refused:
        valued("replay", c.reward, c.logging, c.evaluation)
    assert refused.value.reason == "unsupported_by_logging"


def test_vector_deterministic_policy() -> None:
    c, expected = case(SANITY), VECTORS["ope"][TOP]
    matched = c.item == np.array(expected["items_by_position"])[c.position]
    replay = valued("replay", c.reward, c.logging, matched)
    assert (matched.sum(), (c.reward * matched).sum()) == (expected["matched"], expected["clicks"])
    assert replay.value == close(expected["replay_value"])
    ips = valued("ips", c.reward, c.logging, matched)
    assert ips.value == close(expected["IPS"])
    # One click says nothing of how much a weighted mean varies.
    assert (ips.low, ips.high, ips.reason) == (None, None, "too_few_rewards")


@pytest.mark.parametrize("name", ["random", "bts"])
def test_vector_on_policy(name: str) -> None:
    log, expected = log_of(name), VECTORS["onpolicy"][f"{name}/men"]
    found = valued("ips", log.click, log.propensity, log.propensity)
    assert (len(log), log.click.sum()) == (expected["n"], expected["clicks"])
    assert found.value == close(expected["ctr"])
    assert log.propensity.min() == close(expected["min_propensity"])
    assert log.propensity.max() == close(expected["max_propensity"])
    for position, entry in expected["by_position"].items():
        rows = log[log.position == int(position)]
        assert (len(rows), rows.click.sum()) == (entry["n"], entry["clicks"])
        assert rows.click.mean() == close(entry["ctr"])


def test_vector_the_real_ab_test() -> None:
    expected = VECTORS["onpolicy"]["AB_men_bts_minus_random"]
    arms = [proportions.Count(int(log_of(n).click.sum()), 10_000) for n in ("random", "bts")]
    effect = proportions.exact(*arms)
    assert effect.difference == close(expected["diff"])
    assert effect.statistic == close(expected["z_pooled"])
    # The p-value of the vector is that of z; the exact one is near it with 138 clicks.
    assert effect.p_value == pytest.approx(expected["p_two_sided"], rel=0.05)


def test_a_model_taken_as_known_is_too_sure_of_itself() -> None:
    # 46 clicks cannot tell a CTR to 2e-6; refitting it shows what they can.
    c = case(EMPIRICAL)
    spread = c.fit.expected.std(ddof=1) / 100
    refit = direct(c.reward, c.fit.expected, refit=c.fit.influence)
    assert spread < 1e-5 < 1e-3 < refit.se < 1.5e-3
    rows = (c.reward, c.logging, c.evaluation, c.fit.predicted, c.fit.expected)
    known = valued("switch_dr", *rows, option=1)
    assert valued("switch_dr", *rows, option=1, refit=c.fit.influence).se > 5 * known.se


# What a log cannot support


def test_a_tiny_effective_sample_size_is_refused_by_every_weighted_estimator() -> None:
    reward = np.tile([1.0, 0.0], 500)
    logging = np.where(np.arange(1000) < 5, 0.001, 0.5)
    rows = (reward, logging, np.full(1000, 0.5))
    flat = (np.full(1000, 0.5), np.full(1000, 0.5))
    assert estimate_effective_size(compute_importance_weights(*rows[1:])) < 10
    for call in (
        lambda: valued("ips", *rows),
        lambda: valued("clipped_ips", *rows, option=10),
        lambda: valued("snips", *rows),
        lambda: valued("dr", *rows, *flat),
        lambda: valued("sndr", *rows, *flat),
        lambda: valued("switch_dr", *rows, *flat, option=10),
        lambda: valued("dros", *rows, *flat, option=10),
        lambda: valued("replay", reward, np.full(1000, 0.1), np.arange(1000) < 50),
    ):
        with pytest.raises(Refusal, match="effective sample size") as refused:
            call()
        assert refused.value.reason == "unsupported_by_logging"
    assert valued("snips", *rows, min_ess=5).value == pytest.approx(0.6, abs=0.1)


def test_rows_of_few_units_are_no_effective_sample() -> None:
    reward, half = np.tile([1.0, 0.0], 500), np.full(1000, 0.5)
    units = np.arange(1000) % 40
    assert valued("ips", reward, half, half).value == 0.5
    with pytest.raises(Refusal) as refused:
        valued("ips", reward, half, half, clusters=units)
    assert refused.value.reason == "unsupported_by_logging"


def test_a_policy_without_any_overlap_is_refused_whatever_the_threshold() -> None:
    with pytest.raises(Refusal) as refused:
        valued("ips", [1, 0], [0.5, 0.5], [0, 0], min_ess=0)
    assert refused.value.reason == "unsupported_by_logging"


def test_support_is_checked_by_share_by_size_and_by_mean_weight() -> None:
    reward, ones = np.tile([1.0, 0.0], 500), np.ones(1000)
    check_support(diagnose(reward, ones, unsupported=0.05))
    rng = np.random.default_rng(0)
    spread = rng.uniform(0.5, 1.5, 1000)
    check_support(diagnose(reward, spread))
    # Significant, and yet too little to matter.
    check_support(diagnose(reward, 1.03 + rng.normal(0, 0.01, 1000)))
    for found, reason in (
        (diagnose(reward, ones, unsupported=0.051), "unsupported_by_logging"),
        (diagnose(reward, ones, clusters=np.arange(1000) % 40), "unsupported_by_logging"),
        (diagnose(reward, np.where(np.arange(1000) < 40, 25, 1e-9)), "unsupported_by_logging"),
        (diagnose(reward, 1.3 * spread), "weights_not_one"),
        (diagnose(reward, 1.1 * ones), "weights_not_one"),
    ):
        with pytest.raises(Refusal) as refused:
            check_support(found)
        assert refused.value.reason == reason


GOOD = ([1.0, 0.0, 1.0, 0.0], [0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 0.25, 0.75])


@pytest.mark.parametrize(
    ("place", "values", "reason"),
    [
        (1, [0.5, 0.0, 0.5, 0.5], "invalid_propensity"),
        (1, [0.5, -0.1, 0.5, 0.5], "invalid_propensity"),
        (1, [0.5, 1.1, 0.5, 0.5], "invalid_propensity"),
        (1, [0.5, np.nan, 0.5, 0.5], "invalid_propensity"),
        (1, [0.5, 5e-324, 0.5, 0.5], "invalid_propensity"),
        (2, [0.5, -0.1, 0.5, 0.5], "invalid_propensity"),
        (2, [0.5, 1.1, 0.5, 0.5], "invalid_propensity"),
        (2, [0.5, np.inf, 0.5, 0.5], "invalid_propensity"),
        (2, [0.5, np.nan, 0.5, 0.5], "invalid_propensity"),
        (0, [1.0, np.nan, 0.5, 0.5], "not_finite"),
        (0, [1.0, 0.0, 1.0], "inconsistent"),
        (1, [0.5, 0.5, 0.5], "inconsistent"),
        (2, [[0.5], [0.5], [0.5], [0.5]], "inconsistent"),
    ],
)
def test_bad_input_is_refused_by_type(place: int, values: list[float], reason: str) -> None:
    rows = [*GOOD[:place], values, *GOOD[place + 1 :]]
    flat = (np.full(4, 0.5), np.full(4, 0.5))
    for call in (
        lambda: valued("ips", *rows, min_ess=0),
        lambda: valued("snips", *rows, min_ess=0),
        lambda: valued("dr", *rows, *flat, min_ess=0),
        lambda: valued("dr", *rows, *flat, min_ess=0),
    ):
        with pytest.raises(Refusal) as refused:
            call()
        assert refused.value.reason == reason


@pytest.mark.parametrize(
    ("clusters", "reason"),
    [
        ([1, 2, 3], "inconsistent"),
        ([0.5, 1.0, 2.0, 3.0], "inconsistent"),
        ([1.0, np.nan, 2.0, 3.0], "inconsistent"),
        ([7, 7, 7, 7], "too_few_units"),
    ],
)
def test_bad_clusters_are_refused(clusters: list[float], reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        valued("ips", *GOOD, clusters=clusters, min_ess=0)
    assert refused.value.reason == reason


def test_more_bad_input() -> None:
    for call, reason in (
        (lambda: valued("ips", [], [], []), "too_few_units"),
        (
            lambda: valued("dr", *GOOD, [np.nan] * 4, [0.5] * 4, min_ess=0),
            "not_finite",
        ),
        (lambda: valued("dr", *GOOD, [0.5] * 3, [0.5] * 4, min_ess=0), "inconsistent"),
        (lambda: direct([1, 0], [0.5, np.inf]), "not_finite"),
    ):
        with pytest.raises(Refusal) as refused:
            call()
        assert refused.value.reason == reason
    for cap in (0, -1, np.nan):
        with pytest.raises(ValueError, match="above 0"):
            valued("clipped_ips", *GOOD, option=cap, min_ess=0)


def test_no_click_is_no_proof_of_zero() -> None:
    half = np.full(200, 0.5)
    found = valued("ips", np.zeros(200), half, half)
    assert found == PolicyValue(0.0, 0.0, None, None, "delta_hall", "zero_variance")


# Properties


@st.composite
def logs(draw: st.DrawFn) -> tuple[Floats, Floats, Floats]:
    n, probability = draw(st.integers(2, 30)), st.floats(0.01, 1)
    reward = draw(st.lists(st.sampled_from([0.0, 1.0, 2.5]), min_size=n, max_size=n))
    logging = draw(st.lists(probability, min_size=n, max_size=n))
    evaluation = draw(st.lists(probability, min_size=n, max_size=n))
    return np.array(reward), np.array(logging), np.array(evaluation)


@quick
@given(logs(), st.floats(0.01, 1))
def test_snips_does_not_see_the_scale_of_the_weights(
    log: tuple[Floats, Floats, Floats], scale: float
) -> None:
    reward, logging, evaluation = log
    found = valued("snips", reward, logging, evaluation, min_ess=0)
    scaled = valued("snips", reward, logging, scale * evaluation, min_ess=0)
    assert scaled.value == pytest.approx(found.value, rel=1e-9)
    assert scaled.se == pytest.approx(found.se, rel=1e-6, abs=1e-12)


@quick
@given(logs())
def test_a_policy_on_its_own_log_has_the_mean_of_its_log(
    log: tuple[Floats, Floats, Floats],
) -> None:
    reward, logging, _ = log
    for name in ("ips", "snips"):
        found = valued(name, reward, logging, logging, min_ess=0)
        assert found.value == pytest.approx(reward.mean(), rel=1e-12)
        if found.se:
            assert found.se == pytest.approx(reward.std(ddof=1) / np.sqrt(reward.size), rel=1e-9)


@quick
@given(st.lists(st.booleans(), min_size=2, max_size=40), st.floats(0.01, 1))
def test_uniform_on_uniform_is_ctr(clicks: list[bool], p: float) -> None:
    reward, uniform = np.array(clicks, dtype=float), np.full(len(clicks), p)
    for name in ("ips", "snips", "replay"):
        assert valued(name, reward, uniform, uniform, min_ess=0).value == pytest.approx(
            reward.mean()
        )


@quick
@given(logs(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(
    log: tuple[Floats, Floats, Floats],
    random: Any,
) -> None:
    order = list(range(log[0].size))
    random.shuffle(order)
    q, expected = np.linspace(0, 1, log[0].size), np.linspace(1, 0.5, log[0].size)
    units = np.arange(log[0].size) // 2
    for name, columns in (
        ("ips", log),
        ("snips", log),
        ("dr", (*log, q, expected)),
        ("sndr", (*log, q, expected)),
    ):
        if units.max() == 0:
            continue
        found = valued(name, *columns, clusters=units, min_ess=0)
        shuffled = valued(name, *(c[order] for c in columns), clusters=units[order], min_ess=0)
        assert shuffled.value == pytest.approx(found.value, rel=1e-9, abs=1e-12)
        assert shuffled.se == pytest.approx(found.se, rel=1e-6, abs=1e-9)


@quick
@given(logs(), st.floats(0.1, 50))
def test_limits_of_the_options(log: tuple[Floats, Floats, Floats], option: float) -> None:
    q, expected = np.full(log[0].size, 0.3), np.full(log[0].size, 0.4)
    rows = (*log, q, expected)
    dr = valued("dr", *rows, min_ess=0).value
    assert valued("switch_dr", *rows, option=101, min_ess=0).value == dr
    assert valued("dros", *rows, option=1e15, min_ess=0).value == pytest.approx(dr, rel=1e-6)
    assert valued("dros", *rows, option=1e-12, min_ess=0).value == pytest.approx(0.4)
    clipped = valued("clipped_ips", *log, option=option, min_ess=0).value
    assert clipped <= valued("ips", *log, min_ess=0).value
    assert 0 <= valued("snips", *log, min_ess=0).value <= log[0].max() + 1e-12


def test_a_unit_of_one_row_is_a_row_and_doubled_rows_add_nothing() -> None:
    rng = np.random.default_rng(3)
    rows = rng.binomial(1, 0.3, 500), rng.uniform(0.2, 1, 500), rng.uniform(0.2, 1, 500)
    for name in ("ips", "snips"):
        plain = valued(name, *rows)
        alone = valued(name, *rows, clusters=np.arange(500) + 7)
        assert alone[:4] == pytest.approx(plain[:4], rel=1e-12)
        twice = valued(name, *(np.tile(c, 2) for c in rows), clusters=np.tile(np.arange(500), 2))
        assert twice[:4] == pytest.approx(plain[:4], rel=1e-12)


def test_the_mean_weight_is_tested_by_units() -> None:
    weights = np.repeat(np.random.default_rng(5).exponential(1, 300), 4)
    rows, units = diagnose(weights, weights), diagnose(weights, weights, np.arange(1200) // 4)
    assert units.mean_weight_se == pytest.approx(2 * rows.mean_weight_se, rel=0.01)
    assert diagnose(np.ones(10), np.ones(10))[3:6] == (1.0, 0.0, 1.0)
    assert diagnose(np.ones(10), np.full(10, 1.2)).mean_weight_p == 0.0
