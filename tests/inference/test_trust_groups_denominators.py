"""Ratios whose denominator moved: what they decide, and what stands beside them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.report.terminal import as_text
from abeval.results.analysis import Result
from abeval.results.study import build_study
from tests.logs.small import analyze

GOAL = {"name": "ctr", "numerator": "clicks", "denominator": "views", "role": "goal"}
CLICKS = {"name": "clicks", "value": "clicks", "role": "goal"}
GUARD = {**GOAL, "role": "guardrail", "margin": 0.05}


def users(
    seed: int, views: float = 0.0, clicks: float = 0.0, n: int = 8_000, mean: float = 20
) -> pd.DataFrame:
    """Uneven users; the treatment has so many more views, and so many more clicks in all."""
    random = np.random.default_rng(seed)
    treated = random.random(n) < 0.5
    activity = random.gamma(4, mean / 4, n)
    seen = random.poisson(activity * np.where(treated, 1 + views, 1)) + 1
    rate = random.beta(4, 36, n) * np.where(treated, 1 + clicks, 1)
    return pd.DataFrame(
        {
            "user_id": np.arange(n),
            "variant": np.where(treated, "b", "a"),
            "views": seen,
            "clicks": random.poisson(activity * rate),
            "before": random.poisson(activity * 0.1),
        }
    )


def judged(table: pd.DataFrame, *metrics: dict[str, Any], **entries: Any) -> Result:
    variants = {name: {} for name in sorted(set(table.variant))}
    base = {"name": "w", "unit": "user_id", "control": "a", "variants": variants}
    entries = {**base, "logs": {"units": {}}, "metrics": list(metrics), **entries}
    return abeval.define(**entries, trust={"aa_runs": 0}).analyze(logs={"units": table})


@cache
def rendered(share: float) -> Result:
    """Views are logged at another moment, and nothing else changes."""
    return judged(users(3, views=share, n=12_000), GOAL)


@pytest.mark.parametrize("share", [0.4, 0.1, -0.2])
def test_a_denominator_that_moved_alone_neither_ships_nor_stops(share: float) -> None:
    """DO NOT SHIP was said of views logged at render, and SHIP of a fifth of them lost."""
    result = rendered(share)
    row, (verdict,) = result["ctr"], result.verdicts
    assert row.lift_low * row.lift_high > 0
    assert row.p_adjusted < 1e-4
    assert (row.status, row.reason) == ("unclear", "denominator_moved")
    assert verdict.decision == "keep_running"


def test_the_total_stands_beside_the_ratio() -> None:
    table = users(3, views=0.4, n=12_000)
    result = rendered(0.4)
    means = table.groupby("variant")[["views", "clicks"]].mean()
    moved = means.loc["b"] / means.loc["a"] - 1
    total = judged(table, CLICKS)["clicks"]
    said = (
        f"per unit, views moved by {moved.views:+.1%}, clicks by "
        f"{total.lift:+.1%} [{total.lift_low:+.1%}, {total.lift_high:+.1%}]"
    )
    assert f"ctr {100 * result['ctr'].lift:+.1f}%" in result.verdicts[0].sentence
    assert f"cannot decide: {said}" in result.verdicts[0].sentence
    assert "denominator moved" in as_text(result)
    assert "Judge by totals per unit" in build_study(result).to_markdown()


@pytest.mark.parametrize(
    ("views", "clicks", "decision"),
    [
        (0.1, 0.3, "ship"),
        (-0.15, -0.2, "do_not_ship"),
        (0.3, 0.15, "keep_running"),
        (-0.3, -0.15, "keep_running"),
    ],
)
def test_the_ratio_decides_what_its_total_says_too(
    views: float, clicks: float, decision: str
) -> None:
    result = judged(users(4, views, clicks, n=12_000), GOAL)
    assert "denominators" in result.verdicts[0].sentence
    assert result.verdicts[0].decision == decision
    assert "per unit, views moved by" in result.verdicts[0].sentence


def test_a_denominator_that_moved_by_little_takes_no_effect_away() -> None:
    result = judged(users(5, views=0.02, clicks=0.04, n=60_000, mean=200), GOAL)
    assert "denominators warned" in result.verdicts[0].sentence
    assert result["ctr"].status == "better"


def test_a_denominator_that_stayed_changes_nothing() -> None:
    for clicks, status in ((0.2, "better"), (-0.2, "worse"), (0.0, "unclear")):
        row = judged(users(6, clicks=clicks), GOAL)["ctr"]
        assert (row.status, row.reason) == (status, None)


@pytest.mark.parametrize("margin", [0.05, {"absolute": 0.005}])
def test_a_guardrail_is_not_held_by_its_ratio_alone(margin: object) -> None:
    """A fifth of the views lost, and no effect: the guardrail was better, and it shipped."""
    goal = {"name": "bought", "value": "bought", "role": "goal"}
    for views, clicks, status in ((-0.2, -0.1, "unclear"), (0.1, 0.1, "non_inferior")):
        table = users(7, views, clicks, n=40_000)
        table["bought"] = table.before + 5 * (table.variant == "b")
        result = judged(table, goal, {**GUARD, "margin": margin})
        row = result["ctr"]
        assert row.status == status
        decision = "keep_running" if status == "unclear" else "ship"
        assert result.verdicts[0].decision == decision
        assert ("guardrail ctr" in result.verdicts[0].sentence) == (status == "unclear")


def test_what_cannot_decide_is_said_beside_what_does() -> None:
    table = users(3, views=0.4, n=12_000)
    table["bought"] = table.before + (table.variant == "b")
    result = judged(table, {"name": "bought", "value": "bought", "role": "goal"}, GOAL)
    assert result.verdicts[0].decision == "ship"
    assert "; ctr -" in result.verdicts[0].sentence
    assert "cannot decide: per unit, views moved by" in result.verdicts[0].sentence


def test_each_variant_has_its_own_denominator() -> None:
    table = users(8, n=18_000)
    random = np.random.default_rng(1)
    table["variant"] = random.choice(["a", "b", "c"], len(table))
    table["views"] += random.poisson(10, len(table)) * (table.variant == "c")
    result = judged(table, GOAL)
    assert [result["ctr", name].reason for name in "bc"] == [None, "denominator_moved"]


def test_the_total_is_adjusted_by_its_own_past() -> None:
    """A tenth more clicks of uneven users: only CUPED tells it from chance."""
    random = np.random.default_rng(2)
    activity = random.gamma(1.5, 40, 1_000)
    treated = random.random(activity.size) < 0.5
    days = []
    for day, treatment in (("2026-01-01", False), ("2026-01-08", True)):
        more = treated & treatment
        seen = random.poisson(activity * np.where(more, 0.6, 1)) + 1
        clicks = np.minimum(seen, random.poisson(activity * np.where(more, 0.22, 0.2)))
        rows = np.repeat(np.arange(activity.size), seen)
        place = np.arange(rows.size) - np.repeat(np.cumsum(seen) - seen, seen)
        log = {"user_id": rows, "variant": np.where(treated[rows], "b", "a"), "item_id": place}
        log |= {"ts": pd.Timestamp(day), "click": (place < clicks[rows]).astype(int)}
        days.append(pd.DataFrame(log))
    entries = {
        "period": {"start": "2026-01-08", "end": "2026-01-09"},
        "pre_period": {"start": "2026-01-01", "end": "2026-01-02"},
        "metrics": [{"name": "ctr", "role": "goal"}],
        "trust": {"aa_runs": 0},
    }
    for adjust, status in (("none", "unclear"), ("cuped", "better")):
        result = analyze(pd.concat(days), **entries, inference={"adjust": adjust})
        assert result["ctr"].status == status
        assert "per unit, impressions moved by" in result.verdicts[0].sentence


def test_an_average_of_a_quality_has_no_total() -> None:
    """More impressions in the treatment: its GAUC is of others, and its numerator no total."""
    random = np.random.default_rng(9)
    user = np.arange(3_000)
    treated = user % 2 == 1
    seen = random.poisson(np.where(treated, 14, 10)) + 2
    rows = np.repeat(user, seen)
    click = random.random(rows.size) < 0.3
    score = random.normal(click * np.where(treated[rows], 1.0, 0.6), 1.0)
    log = pd.DataFrame(
        {
            "user_id": rows,
            "variant": np.where(treated[rows], "b", "a"),
            "score": score,
            "click": click.astype(int),
        }
    )
    result = analyze(log, metrics=[{"name": "gauc", "role": "goal"}], trust={"aa_runs": 0})
    assert result["gauc"].lift_low > 0.05
    assert result["gauc"].reason == "denominator_moved"
    assert result.verdicts[0].decision == "keep_running"
