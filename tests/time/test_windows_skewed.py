"""Windows over skewed values: a planted 90/10 log through the whole command, and levels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from abeval.cli.main import app
from abeval.inference.comparison import Rule
from abeval.inference.means_and_ratios import compare_moments
from abeval.stats.moments import Moments
from benchmarks.calibration import skewed_windows
from tests.inference.test_means_and_ratios_skew import orders

EXPERIMENT = """
name = "orders"
unit = "user_id"
control = "a"
metrics = [{ name = "revenue", value = "price", role = "goal" }, { name = "ctr", role = "goal" }]
period = { start = "2024-03-01", end = "2024-03-05" }
trust = { aa_runs = 0 }

[variants.a]
weight = 9

[variants.b]
weight = 1

[logs.impressions]
path = "log.parquet"
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Both commands' JSON, of a log in which nothing differs."""
    folder = tmp_path_factory.mktemp("orders")
    orders((3600, 400), 9, buyers=0.06).to_parquet(folder / "log.parquet")
    (folder / "experiment.toml").write_text(EXPERIMENT)
    return {name: _json(folder, name) for name in ("analyze", "windows")}


def _json(folder: Path, command: str) -> dict[str, Any]:
    file = folder / f"{command}.json"
    arguments = [command, str(folder / "experiment.toml"), "--json", str(file)]
    ended = CliRunner().invoke(
        app, [*arguments, *(["--width", "2"] if command == "windows" else [])]
    )
    assert ended.exit_code == 0, ended.output
    return dict(json.loads(file.read_text()))


def windows(results: dict[str, dict[str, Any]], **where: str | int) -> list[dict[str, Any]]:
    rows = results["windows"]["windows"]
    return [row for row in rows if all(row[name] == value for name, value in where.items())]


NUMBERS = ("difference_low", "difference_high", "lift_low", "lift_high", "p_value")


@pytest.mark.whole
def test_the_whole_is_judged_as_the_scorecard(results: dict[str, dict[str, Any]]) -> None:
    for row in results["analyze"]["scorecard"]:
        (*_, last) = windows(results, metric=row["metric"], kind="cumulative", axis="calendar")
        assert row["method"] == "permutation_moments"
        for name in NUMBERS:
            assert last[name] == pytest.approx(row[name], rel=1e-9), (row["metric"], name)


def test_each_day_is_judged_as_the_scorecard_s(results: dict[str, dict[str, Any]]) -> None:
    for row in results["analyze"]["daily"]:
        where = {"metric": row["metric"], "kind": "daily", "end": row["cell"]}
        (day,) = windows(results, axis="calendar", **where)
        assert day["reason"] == row["reason"]
        for name in NUMBERS:
            assert day[name] == pytest.approx(row[name], rel=1e-9), (row["metric"], name)


@pytest.mark.parametrize(("axis", "kind"), [("calendar", "rolling"), ("exposure", "cumulative")])
def test_others_have_a_test_of_their_own_or_none(
    results: dict[str, dict[str, Any]], axis: str, kind: str
) -> None:
    rows = windows(results, metric="revenue", axis=axis, kind=kind)
    answered = [row for row in rows if row["p_value"] is not None]
    assert {row["reason"] for row in rows if row not in answered} <= {"too_skewed"}
    assert answered
    for row in answered:
        above = row["difference_high"] - row["difference"]
        assert above > 1.05 * (row["difference"] - row["difference_low"])


def test_looks_agree_with_their_p_values(results: dict[str, dict[str, Any]]) -> None:
    looks = results["windows"]["looks"]
    assert looks
    for look in looks:
        rejects = look["always_p_value"] <= 0.05
        assert rejects == (not look["always_low"] <= 0 <= look["always_high"])


def test_windows_are_near_the_test_by_their_own_third_moments() -> None:
    """Which sums over pairs of days do not have: the skewness of a window lies in between."""
    random = np.random.default_rng(3)
    now, before = [], []
    for _ in range(4):
        arms = [skewed_windows.units_of(random, units) for units in (9_000, 1_000)]
        judged = skewed_windows.judged(*arms)
        for name in ("three days", "seven days"):
            _, (first, last), _ = skewed_windows.WINDOWS[name]
            exact = compare_moments(
                skewed_windows.METRIC, *(_totals(arm, first, last) for arm in arms), Rule()
            )
            for comparison, distances in zip(judged[name], (now, before), strict=True):
                assert comparison.effect is not None
                assert exact.effect is not None
                assert comparison.effect.difference == pytest.approx(exact.effect.difference)
                distances.append(abs(comparison.effect.p_value - exact.effect.p_value))
    assert np.mean(now) < np.mean(before) / 3


def _totals(units: skewed_windows.Units, first: int, last: int) -> Moments:
    here = units.active[:, first : last + 1].any(axis=1)
    return Moments.build_with_third(
        units.spent[here, first : last + 1].sum(axis=1), np.ones(here.sum())
    )
