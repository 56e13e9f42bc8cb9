"""Guardrails as a family, and ratios whose denominator the treatment moves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.experiment.load import parse_experiment
from abeval.inference.comparison import Arms, Comparison, Rule
from abeval.inference.families import adjust_guardrail_p_values
from abeval.inference.scorecard import build_rows
from abeval.inference.trust.groups import compare_bottoms
from abeval.inference.verdict import decide
from abeval.metrics.definition import Margin, Metric
from abeval.results.analysis import Result
from abeval.results.trust import Check
from abeval.stats import effects
from abeval.stats.moments import Moments
from abeval.stats.records import Lift
from tests.logs.small import analyze


def experiment_of(guardrails: int, **inference: object):
    names = ["goal", *(f"g{i}" for i in range(guardrails))]
    return parse_experiment(
        {
            "name": "guardrails",
            "unit": "user_id",
            "control": "a",
            "variants": {"a": {}, "b": {}, "c": {}},
            "logs": {"impressions": {"path": "none.parquet"}},
            "metrics": [{"name": name, "value": "1"} for name in names],
            "inference": inference,
        }
    )


def metrics_of(guardrails: int) -> list[Metric]:
    return [
        Metric("goal", "mean", "…", role="goal"),
        *(
            Metric(f"g{i}", "mean", "…", role="guardrail", margin=Margin(0.05, relative=True))
            for i in range(guardrails)
        ),
    ]


def compared(z: float, se: float = 0.01) -> Comparison:
    """A metric of 1 in control that moved by so many standard errors."""
    effect = effects.effect_from_difference(1.0, 1.0 + z * se, z * se, se)
    lift = Lift(effect.difference, effect.low, effect.high, bounded=True, method="fieller")
    return Comparison(1000, 1000, 1.0, 1.0 + z * se, effect, lift)


def test_a_guardrail_that_is_worse_by_chance_does_not_stop() -> None:
    """p .03 on one of five guardrails said DO NOT SHIP; such a p comes in 12 of 100 A/A tests."""
    metrics = metrics_of(5)
    comparisons = {(m.name, v): compared(0.0, 0.03) for m in metrics for v in "bc"}
    comparisons["goal", "b"] = compared(5.0)
    comparisons["g2", "b"] = compared(-2.17, 0.03)
    rows = {(r.metric, r.variant): r for r in build_rows(experiment_of(5), metrics, comparisons)}
    assert rows["g2", "b"].p_value == pytest.approx(0.03, abs=1e-3)
    assert rows["g2", "b"].p_adjusted == pytest.approx(0.15, abs=5e-3)
    assert rows["g2", "b"].status == "unclear"
    unadjusted = experiment_of(5, family="none")
    rows = {(r.metric, r.variant): r for r in build_rows(unadjusted, metrics, comparisons)}
    assert rows["g2", "b"].status == "worse"


def test_a_guardrail_that_is_plainly_worse_stops_its_own_variant() -> None:
    metrics = metrics_of(5)
    comparisons = {(m.name, v): compared(0.0) for m in metrics for v in "bc"}
    for variant in "bc":
        comparisons["goal", variant] = compared(5.0)
    comparisons["g2", "b"] = compared(-6.0)
    rows = tuple(build_rows(experiment_of(5), metrics, comparisons))
    decisions = {verdict.variant: verdict.decision for verdict in decide((), rows, ())}
    assert decisions == {"b": "do_not_ship", "c": "ship"}


def test_one_guardrail_has_nothing_to_be_adjusted_for() -> None:
    metrics = metrics_of(1)
    comparisons = {(m.name, v): compared(-2.2, 0.03) for m in metrics for v in "bc"}
    adjusted = adjust_guardrail_p_values(experiment_of(1), metrics, comparisons)
    assert adjusted["g0", "b"] == pytest.approx(0.0278, abs=1e-3)


def shown(more: float, seed: int = 1) -> Result:
    """Users of one click rate each; the treatment shows them more impressions, further down."""
    random = np.random.default_rng(seed)
    user = np.arange(6_000)
    variant = np.where(user % 2 == 0, "a", "b")
    first = random.poisson(10, user.size) + 1
    extra = np.where(variant == "b", random.poisson(more * 11, user.size), 0)
    taste = random.beta(3, 17, user.size)
    rows = np.repeat(user, first + extra)
    further = np.concatenate([np.arange(n) >= k for n, k in zip(first + extra, first, strict=True)])
    rate = taste[rows] * np.where(further, 0.5, 1.0)
    log = pd.DataFrame(
        {
            "user_id": rows,
            "variant": variant[rows],
            "item_id": np.arange(rows.size),
            "click": random.random(rows.size) < rate,
        }
    )
    metrics = [{"name": "ctr"}, {"name": "clicks_per_user"}]
    return analyze(log, metrics=metrics, trust={"aa_runs": 0})


def check_of(result: Result):
    return next(check for check in result.trust if check.name == "denominators")


def test_a_ratio_whose_denominator_moved_is_taken_apart() -> None:
    """Nobody's click rate fell, and clicks rose: only ctr −11 % was said."""
    result = shown(0.27)
    row, check = result["ctr"], check_of(result)
    assert (row.status, row.lift_high < 0) == ("unclear", True)
    assert check.status == "warn"
    impressions = result["clicks_per_user"].treatment / row.treatment
    before = result["clicks_per_user"].control / row.control
    assert f"impressions moved by {impressions / before - 1:+.1%}" in check.message
    assert f"clicks by {result['clicks_per_user'].lift:+.1%}" in check.message
    assert "denominators" in result.verdicts[0].sentence


def test_a_ratio_whose_denominator_stayed_is_not_warned_of() -> None:
    check = check_of(shown(0.0))
    assert (check.status, check.value > 0.01) == ("pass", True)


def views(seed: int, users: int, treated: int, more: float = 1.0) -> Check:
    """The check, of users whose views are skewed; the treatment's first ones see more of them."""
    random = np.random.default_rng(seed)
    seen = np.ceil(random.lognormal(1, 1.5, users))
    treatment = np.arange(users) < treated
    seen = np.where(treatment, np.ceil(more * seen), seen).astype(int)
    table = pd.DataFrame(
        {
            "user_id": np.arange(users),
            "variant": np.where(treatment, "b", "a"),
            "clicks": random.binomial(seen, 0.1),
            "views": seen,
        }
    )
    loaded = abeval.define(
        name="views",
        unit="user_id",
        control="a",
        variants={"a": {"weight": users - treated}, "b": {"weight": treated}},
        logs={"units": {}},
        metrics=[{"name": "ctr", "numerator": "clicks", "denominator": "views", "role": "goal"}],
    )
    trust = loaded.check(logs={"units": table}).trust
    return next(check for check in trust if check.name == "denominators")


def test_skewed_views_at_an_uneven_split_are_no_moved_denominator() -> None:
    """Welch's test of this A/A table says p = .001, and it warned."""
    check = views(seed=21, users=2_000, treated=200)
    assert (check.status, check.value > check.warn_threshold) == ("pass", True)


def test_skewed_views_that_moved_are_seen_at_an_uneven_split() -> None:
    check = views(seed=1, users=10_000, treated=1_000, more=1.6)
    assert check.status == "warn"
    assert "views moved by +" in check.message


def test_views_too_skewed_for_any_test_say_so() -> None:
    check = views(seed=7, users=4_000, treated=20)
    assert (check.status, check.value) == ("skipped", None)
    assert "cannot be compared for ctr of b" in check.message
    assert "units in the smaller variant would do" in check.message


def test_the_denominators_of_sound_ramps_seldom_move() -> None:
    """Of such A/A ramps, Welch's test within split periods rejects 6.6 % at .003."""
    random, ratio = np.random.default_rng(2), Metric("ctr", "ratio", "Σ clicks / Σ views")
    p_values = []
    for _ in range(150):
        stretches = []
        for sizes in ((2_000, 60), (120, 120)):
            seen = [np.ceil(random.lognormal(1, 1.5, n)) for n in sizes]
            stretches.append(
                {
                    name: Moments.build_with_third(one, one)
                    for name, one in zip("ab", seen, strict=True)
                }
            )
        compared = compare_bottoms(ratio, stretches, Arms("a", "b"), Rule())
        if compared.effect is not None:
            p_values.append(compared.effect.p_value)
    assert len(p_values) > 75
    assert sum(p <= 0.003 for p in p_values) <= 2
