"""Metrics with a target, through whole analyses: the gain decides, at any look and any split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

import abeval
from abeval import stats
from abeval.results.analysis import Result
from abeval.stats.moments import Moments
from abeval.stats.records import Floats

TARGET = 30.0
SPREAD = 2.0
EVEN = (1_000, 1_000)
SE = SPREAD * np.sqrt(2 / 1_000)
"""Of the difference of 1,000 units a variant."""

SIZES = {"small": 0.2, "large": 0.5}
PLANS: dict[str, Any] = {
    "fixed": {},
    "always_valid": {"planned_units": 4_000},
    "group_sequential": {"planned_units": 4_000, "planned_looks": [0.25, 0.5]},
}


def values(control: float, treatment: float, units: tuple[int, int] = EVEN) -> Floats:
    """Normal values with these very means in both variants, and a standard deviation of 2."""
    random = np.random.default_rng(1)
    columns = []
    for n, mean in zip(units, (control, treatment), strict=True):
        z = random.normal(size=n)
        columns.append(mean + SPREAD * (z - z.mean()) / z.std(ddof=1))
    return np.concatenate(columns)


def analyze(
    columns: Mapping[str, Floats],
    looks: str = "fixed",
    units: tuple[int, int] = EVEN,
    entries: Mapping[str, Mapping[str, Any]] | None = None,
    **metric: Any,
) -> Result:
    """A metric of each column with a target of 30, goals if nothing else is said."""
    plain = {"role": "goal", "direction": {"toward": TARGET}, **metric}
    metrics = [
        {"name": name, "value": name, **plain, **(entries or {}).get(name, {})} for name in columns
    ]
    return abeval.analyze(
        pd.DataFrame({"variant": np.repeat(["a", "b"], units), **columns}),
        variant="variant",
        metrics=metrics,
        inference={"looks": looks, "family": "none", **PLANS[looks]},
        trust={"aa_runs": 0},
    )


def test_a_gain_across_the_target_ships_only_where_its_look_proves_it() -> None:
    """It shipped by the fixed-horizon p of the gain, and the interval of the difference."""
    result = analyze({"m": values(31.15, 29.05)}, "always_valid")
    row, bound = result["m"], result.boundaries[0]
    assert row.p_value < 1e-6
    assert row.p_adjusted > 0.2
    assert row.status == "unclear"
    assert result.verdicts[0].decision == "keep_running"
    assert not bound.crossed
    assert abs(bound.z) == pytest.approx(0.2 / SE)
    (gain,) = result.gains
    assert (gain.target, gain.gain) == (TARGET, pytest.approx(0.2))
    assert gain.gain_low < 0 < gain.gain_high
    assert gain.p_value == row.p_adjusted
    assert analyze({"m": values(31.15, 29.05)})["m"].status == "better"


@pytest.mark.parametrize("looks", PLANS)
def test_a_gain_is_judged_as_a_difference_of_its_size(looks: str) -> None:
    """Across the target, by its own side, and where more is better."""
    columns, entries = {"loss": values(TARGET + 1, TARGET - 1.5)}, {}
    for name, gain in SIZES.items():
        columns |= {
            f"across_{name}": values(TARGET + 1 + gain / 2, TARGET - 1 + gain / 2),
            f"beside_{name}": values(TARGET + 6 + gain, TARGET + 6),
            f"plain_{name}": values(TARGET, TARGET + gain),
        }
        entries[f"plain_{name}"] = {"direction": "increase"}
    result = analyze(columns, looks, entries=entries)
    for name in SIZES:
        plain = result[f"plain_{name}"]
        for where in ("across", "beside"):
            row = result[f"{where}_{name}"]
            assert row.p_adjusted == pytest.approx(plain.p_adjusted, rel=1e-6)
            assert row.status == plain.status
    assert result["across_small"].status == ("better" if looks == "fixed" else "unclear")
    assert result["across_large"].status == "better"
    assert result["loss"].status == "worse"


def test_the_less_certain_of_two_differences_decides() -> None:
    """To control and to its mirror image: both have to be proven, each by its own test."""
    units = (3_000, 500)
    column = values(31.15, 29.02, units)
    control, treatment = column[:3_000], column[3_000:]
    expected = max(
        scipy_stats.ttest_ind(treatment, one, equal_var=False).pvalue
        for one in (control, 2 * TARGET - control)
    )
    row = analyze({"m": column}, units=units)["m"]
    assert row.p_adjusted == pytest.approx(expected, rel=1e-6)
    assert row.p_value < row.p_adjusted


def test_the_mirror_image_of_skewed_values_has_the_test_of_skewed_values() -> None:
    """At an even split skewness cancels in the difference, not in the sum of both values."""
    random = np.random.default_rng(5)
    control, treatment = random.lognormal(0, 1.3, 1_000), random.lognormal(0, 1.3, 1_000) + 0.7
    target = float(control.mean() + treatment.mean()) / 2 + 0.15
    row = analyze({"m": np.concatenate([control, treatment])}, direction={"toward": target})["m"]
    image = 2 * target - control
    both = stats.skewed.means(Moments.with_third(image), Moments.with_third(treatment))
    expected = stats.skewed.effect(both._replace(scaled=False)).p_value
    welch = scipy_stats.ttest_ind(treatment, image, equal_var=False).pvalue
    assert row.method == "welch_t"
    assert row.p_adjusted == pytest.approx(expected, rel=1e-4)
    assert abs(welch - expected) > 0.01


def guarded(away: float, reach: float) -> Floats:
    """Control so far from the target, in its errors; the gain so many errors inside the margin."""
    control = TARGET + away * SE / np.sqrt(2)
    return values(control, TARGET + abs(control - TARGET) + (3 - reach) * SE)


@pytest.mark.parametrize("margin", [{"absolute": 3 * SE}, 3 * SE / TARGET])
def test_a_margin_at_the_target_needs_more_than_one_beside_it(margin: Any) -> None:
    """Control's own noise was a gain: 5 % of harms of a whole margin passed, not 2.5 %."""
    guardrails = {
        "near": (0.5, 2.1, "unclear"),
        "near_more": (0.5, 2.4, "non_inferior"),
        "below": (-0.5, 2.1, "unclear"),
        "far": (12, 1.9, "unclear"),
        "far_more": (12, 2.1, "non_inferior"),
    }
    others = {"low": (0.5, 2.1, "unclear"), "middle": (0.5, 3.0, "equivalent")}
    expected = {**guardrails, **others}
    columns = {name: guarded(away, reach) for name, (away, reach, _) in expected.items()}
    roles = {
        name: {"role": "guardrail" if name in guardrails else "diagnostic"} for name in columns
    }
    result = analyze(columns, entries=roles, margin=margin)
    statuses = {row.metric: row.status for row in result.scorecard}
    assert statuses == {name: status for name, (_, _, status) in expected.items()}


@pytest.mark.whole
@pytest.mark.parametrize("looks", ["fixed", "always_valid"])
def test_guardrails_on_either_side_of_the_target(looks: str) -> None:
    """At repeated looks each difference has half of alpha, of their wider interval."""
    columns = {
        # From 2 below to 1.9 above: nearer, although the difference is many margins.
        "over": values(28, 31.9),
        "beyond": values(28, 33.4),
        "near": values(TARGET, TARGET + 0.1),
        "last": values(TARGET, TARGET + 0.76),
    }
    result = analyze(columns, looks, role="guardrail", margin={"absolute": 1.0})
    assert [result[name].status for name in ("over", "beyond", "near")] == [
        "non_inferior",
        "worse",
        "non_inferior",
    ]
    assert result["last"].status == ("non_inferior" if looks == "fixed" else "worse")


def rare(control: int, treatment: int) -> Floats:
    """So many ones in 1,000 units of each variant."""
    return np.concatenate([np.arange(1_000) < control, np.arange(1_000) < treatment]).astype(float)


EDGES: dict[str, tuple[Floats, dict[str, Any]]] = {
    "few successes": (rare(2, 3), {"unit": "share", "direction": {"toward": 0.1}}),
    "no success": (rare(0, 0), {"unit": "share", "direction": {"toward": 0.1}}),
    "nothing varies": (np.full(2_000, 31.0), {}),
    "one unit is all": (np.arange(2_000) == 1_500, {"direction": {"toward": 5.0}}),
}


@pytest.mark.whole
@pytest.mark.parametrize("looks", ["fixed", "always_valid"])
@pytest.mark.parametrize("edge", EDGES)
def test_values_that_prove_nothing_decide_nothing(edge: str, looks: str) -> None:
    column, metric = EDGES[edge]
    columns = {"goal": column.astype(float), "guard": column.astype(float)}
    guard = {"role": "guardrail", "margin": 0.05}
    result = analyze(columns, looks, entries={"guard": guard}, **metric)
    for name in columns:
        assert result[name].status in ("unclear", "too_little_data")
    assert result.verdicts[0].decision == "keep_running"
    for gain in result.gains:
        ends = [end for end in (gain.gain_low, gain.gain_high) if end is not None]
        assert all(np.isfinite(end) for end in ends)
        assert sorted(ends) == ends
