"""Guardrails as a family, and ratios whose denominator the treatment moves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from abeval.experiment.load import parse_experiment
from abeval.inference.comparison import Comparison
from abeval.inference.families import guardrails_adjusted
from abeval.inference.scorecard import judged_rows
from abeval.inference.verdict import decide
from abeval.metrics.definition import Margin, Metric
from abeval.results.analysis import Result
from abeval.stats import effects
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
    effect = effects.from_difference(1.0, 1.0 + z * se, z * se, se)
    lift = Lift(effect.difference, effect.low, effect.high, bounded=True, method="fieller")
    return Comparison(1000, 1000, 1.0, 1.0 + z * se, effect, lift)


def test_a_guardrail_that_is_worse_by_chance_does_not_stop() -> None:
    """p .03 on one of five guardrails said DO NOT SHIP; such a p comes in 12 of 100 A/A tests."""
    metrics = metrics_of(5)
    comparisons = {(m.name, v): compared(0.0, 0.03) for m in metrics for v in "bc"}
    comparisons["goal", "b"] = compared(5.0)
    comparisons["g2", "b"] = compared(-2.17, 0.03)
    rows = {(r.metric, r.variant): r for r in judged_rows(experiment_of(5), metrics, comparisons)}
    assert rows["g2", "b"].p_value == pytest.approx(0.03, abs=1e-3)
    assert rows["g2", "b"].p_adjusted == pytest.approx(0.15, abs=5e-3)
    assert rows["g2", "b"].status == "unclear"
    unadjusted = experiment_of(5, family="none")
    rows = {(r.metric, r.variant): r for r in judged_rows(unadjusted, metrics, comparisons)}
    assert rows["g2", "b"].status == "worse"


def test_a_guardrail_that_is_plainly_worse_stops_its_own_variant() -> None:
    metrics = metrics_of(5)
    comparisons = {(m.name, v): compared(0.0) for m in metrics for v in "bc"}
    for variant in "bc":
        comparisons["goal", variant] = compared(5.0)
    comparisons["g2", "b"] = compared(-6.0)
    rows = tuple(judged_rows(experiment_of(5), metrics, comparisons))
    decisions = {verdict.variant: verdict.decision for verdict in decide((), rows, ())}
    assert decisions == {"b": "do_not_ship", "c": "ship"}


def test_one_guardrail_has_nothing_to_be_adjusted_for() -> None:
    metrics = metrics_of(1)
    comparisons = {(m.name, v): compared(-2.2, 0.03) for m in metrics for v in "bc"}
    adjusted = guardrails_adjusted(experiment_of(1), metrics, comparisons)
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
    assert row.status == "worse"
    assert check.status == "warn"
    impressions = result["clicks_per_user"].treatment / row.treatment
    before = result["clicks_per_user"].control / row.control
    clicks = result["clicks_per_user"].lift
    assert f"impressions {100 * (impressions / before - 1):+.1f} %" in check.message
    assert f"clicks {100 * clicks:+.1f} %" in check.message
    assert f"ctr {100 * row.lift:+.1f} %" in check.message
    assert "denominators" in result.verdicts[0].sentence


def test_a_ratio_whose_denominator_stayed_is_not_warned_of() -> None:
    check = check_of(shown(0.0))
    assert (check.status, check.value > 0.01) == ("pass", True)
