"""Guardrails whose value must lie in a range, through whole analyses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.results.analysis import Result, result_from_dict

PLANS: dict[str, Any] = {
    "fixed": {},
    "always_valid": {"planned_units": 4_000},
    "group_sequential": {"planned_units": 4_000, "planned_looks": [0.25, 0.5]},
}


def analyze(
    mean: float, looks: str = "fixed", within: tuple[float, float] = (29.0, 31.0)
) -> Result:
    """A goal that gains, and a guardrail of 1,000 units a variant with this mean and an sd of 5."""
    random = np.random.default_rng(1)
    z = random.normal(size=1_000)
    guard = 5 * (z - z.mean()) / z.std(ddof=1)
    table = pd.DataFrame(
        {
            "variant": np.repeat(["a", "b"], 1_000),
            "gain": np.concatenate([random.normal(10, 1, 1_000), random.normal(11, 1, 1_000)]),
            "guard": np.concatenate([30 + guard, mean + guard]),
        }
    )
    margin, guarded = {"within": [29.0, 31.0]}, {"name": "guard", "value": "guard"}
    metrics = [
        {"name": "gain", "value": "gain", "role": "goal"},
        {**guarded, "role": "guardrail", "margin": margin},
    ]
    return abeval.analyze(
        table,
        variant="variant",
        metrics=metrics,
        inference={"looks": looks, **PLANS[looks]},
        trust={"aa_runs": 0},
    )


CASES = {
    30.0: ("non_inferior", "ship", "guardrails held (guard)"),
    30.8: ("unclear", "keep_running", "could still lie outside [29, 31]"),
    31.8: ("worse", "do_not_ship", "lies outside [29, 31]"),
}


@pytest.mark.whole
@pytest.mark.parametrize("looks", PLANS)
@pytest.mark.parametrize("mean", CASES)
def test_a_range_guards_at_every_look(mean: float, looks: str) -> None:
    status, decision, words = CASES[mean]
    result = analyze(mean, looks)
    (verdict,), (shown,) = result.verdicts, result.ranges
    assert (result["guard"].status, verdict.decision) == (status, decision)
    assert words in verdict.sentence
    assert (shown.metric, shown.low, shown.high) == ("guard", 29.0, 31.0)
    assert shown.value == pytest.approx(mean)
    assert shown.value - shown.value_low == pytest.approx(shown.value_high - shown.value)
    half = 1.96 * 5 / np.sqrt(1_000)
    assert shown.value_high - shown.value == pytest.approx(
        half, rel=0.01 if looks == "fixed" else 1
    )
    assert result["guard"].p_adjusted == pytest.approx(shown.p_value)
    assert (shown.p_value < 0.05) == (status == "worse")
    assert result_from_dict(result.to_dict()) == result


@pytest.mark.whole
def test_the_page_says_the_range(tmp_path: Path) -> None:
    page = analyze(30.8).report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "[29, 31]" in page
    assert "a value outside [29, 31] is not ruled out" in re.sub("</?bdi>", "", page)


@pytest.mark.whole
def test_a_range_of_skewed_values_is_not_judged() -> None:
    random = np.random.default_rng(2)
    table = pd.DataFrame(
        {
            "variant": np.repeat(["a", "b"], (2_700, 300)),
            "paid": np.where(random.random(3_000) < 0.03, random.lognormal(0, 1.5, 3_000), 0.0),
        }
    )
    guard = {"name": "paid", "value": "paid", "role": "guardrail", "margin": {"within": [0.0, 9.0]}}
    row = abeval.analyze(
        table, variant="variant", metrics=[guard], control="a", trust={"aa_runs": 0}
    )["paid"]
    assert (row.status, row.reason) == ("too_little_data", "too_skewed")
