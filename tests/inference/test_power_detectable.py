"""What can be detected is one number: in the scorecard, on the page, in Next and in `power`."""

from __future__ import annotations

import re
from datetime import date, timedelta
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import abeval
from abeval.aggregates.collect import collect_prepared
from abeval.api import LoadedExperiment
from abeval.experiment.metrics import find_metrics_by_name
from abeval.logs.run import open_run
from abeval.report.next_step import write_next_step
from abeval.report.page import render_study
from abeval.results.study import Study
from abeval.study import analyze_with_outlook
from benchmarks.calibration import detectable
from tests import real_logs
from tests.report.pages import whole

START = date(2026, 9, 1)
PLANNED = {"looks": "group_sequential", "planned_looks": [0.25, 0.5, 0.75]}
ALWAYS = {"looks": "always_valid"}
FOUR = ("a", "b", "c", "d")
RAMP = [{"from": "2026-09-05", "weights": {"a": 0.5, "b": 0.5}}]


class World(NamedTuple):
    """An experiment of users who return; `planned` days, of which the log has seven."""

    planned: int = 7
    names: tuple[str, ...] = ("a", "b")
    inference: tuple[tuple[str, Any], ...] = ()
    goals: tuple[str, ...] = ("ctr",)
    margin: float = 0.03
    effect: float = 0.0
    users: int = 1_500
    ramp: bool = False
    before: bool = False
    cuts: bool = False


def world(*, inference: dict[str, Any] | None = None, **entries: Any) -> World:
    return World(inference=tuple((inference or {}).items()), **entries)


WORLDS = {
    "fixed": world(),
    "halfway": world(planned=14),
    "two goals": world(goals=("ctr", "sessions_per_user")),
    "planned looks": world(planned=14, inference=PLANNED),
    "last look": world(inference=PLANNED),
    "always valid": world(planned=14, inference=ALWAYS),
    "always valid, planned units": world(inference={**ALWAYS, "planned_units": 5_000}),
    "always valid, at the end": world(inference=ALWAYS),
    "ramp": world(planned=14, ramp=True),
    "ramp, planned looks": world(planned=14, ramp=True, inference=PLANNED),
    "three variants": world(names=FOUR, users=3_000),
    "three variants, planned looks": world(planned=14, names=FOUR, users=3_000, inference=PLANNED),
    "three variants, Dunnett": world(names=FOUR, users=3_000, inference={"family": "dunnett"}),
    "CUPED": world(before=True, inference={"adjust": "cuped"}),
    "CUPED, planned looks": world(
        planned=14, before=True, inference={"adjust": "cuped", **PLANNED}
    ),
    "cuts": world(cuts=True),
    "guardrail, at the end": world(effect=0.25, margin=0.01),
    "guardrail, halfway": world(planned=28, effect=0.3, margin=0.08),
}


def log(of: World, seed: int) -> pd.DataFrame:
    """Impressions of seven days, clicks among them."""
    rng = np.random.default_rng(seed)
    entry, draw = rng.integers(0, 7, of.users), rng.random(of.users)
    variant = np.array(of.names)[(draw * len(of.names)).astype(int)]
    if of.ramp:
        variant = np.where(draw < np.where(entry < 4, 0.1, 0.5), "b", "a")
    taste = rng.gamma(2.0, 0.5, of.users)
    days = []
    for day in range(-7 if of.before else 0, 7):
        again = rng.random(of.users) < 0.4
        users = np.flatnonzero(((day < 0) & again) | (day == entry) | ((day > entry) & again))
        who = np.repeat(users, 1 + rng.poisson(3 * taste[users]))
        lift = np.where((variant[who] != "a") & (day >= 0), of.effect, 0.0)
        seconds = rng.integers(60, 86_340, who.size)
        days.append(
            pd.DataFrame(
                {
                    "user_id": who,
                    "variant": variant[who],
                    "ts": pd.Timestamp(START + timedelta(days=day))
                    + pd.to_timedelta(seconds, unit="s"),
                    "item_id": rng.integers(0, 99, who.size),
                    "scene": rng.choice(["home", "search"], who.size),
                    "click": rng.random(who.size) < 0.15 * taste[who] * (1 + lift),
                }
            )
        )
    return pd.concat(days, ignore_index=True)


def defined(of: World) -> LoadedExperiment:
    more: dict[str, Any] = {}
    weights = dict.fromkeys(of.names, 1.0)
    if of.ramp:
        weights, more["assignment"] = {"a": 0.9, "b": 0.1}, {"splits": RAMP}
    if of.before:
        more["pre_period"] = {"start": "2026-08-25", "end": str(START)}
    if of.cuts:
        more["cuts"] = {"scene": "scene"}
    guardrail = {"name": "impressions_per_user", "role": "guardrail", "margin": of.margin}
    return abeval.define(
        ".",
        name="detectable",
        unit="user_id",
        control="a",
        timezone="UTC",
        variants={name: {"weight": weight} for name, weight in weights.items()},
        logs={"impressions": {}},
        period={"start": str(START), "end": str(START + timedelta(days=of.planned))},
        metrics=[*({"name": name, "role": "goal"} for name in of.goals), guardrail],
        inference=dict(of.inference),
        engine={"threads": 1},
        **more,
    )


class Seen(NamedTuple):
    """What the page's first screen says of one log."""

    study: Study
    step: str


@cache
def seen(name: str) -> Seen:
    of = WORLDS[name]
    loaded, inputs = defined(of), {"impressions": log(of, 101 + list(WORLDS).index(name))}
    with open_run(loaded.experiment, {"logs": inputs}) as run:
        study = analyze_with_outlook(
            run, collect_prepared(run, find_metrics_by_name(run.experiment)), daily=None
        )
    return Seen(study, write_next_step(study.analysis, study.outlook))


def planned(name: str, days: float | None = None) -> abeval.Plans:
    """What `power` says of the same log."""
    of = WORLDS[name]
    logs = {"impressions": log(of, 101 + list(WORLDS).index(name))}
    return defined(of).power(days=days, logs=logs)


def half_width(row: abeval.Row) -> float:
    assert row.difference_high is not None
    assert row.difference_low is not None
    assert row.control is not None
    return (row.difference_high - row.difference_low) / 2 / row.control


@pytest.mark.first_cases(6)
@pytest.mark.whole
@pytest.mark.parametrize("name", WORLDS)
def test_scorecard_page_and_power_have_one_number(name: str) -> None:
    study = seen(name).study
    assert study.analysis is not None
    assert study.outlook is not None
    for plan in planned(name).plans:
        row, ahead = study.analysis[plan.metric, "b"], study.outlook[plan.metric]
        assert plan.mde == row.mde == ahead.mde
        assert plan.baseline == row.control
        assert dict(ahead.points)[7.0] == row.mde
        curve = study.figures["power", plan.metric].data[0]
        assert dict(zip(curve.x, curve.y, strict=True))[7.0] == pytest.approx(100 * (row.mde or 0))


@pytest.mark.whole
@pytest.mark.parametrize("name", ["fixed", "three variants, planned looks"])
def test_the_page_shows_what_lies_ahead_once(name: str) -> None:
    study = seen(name).study
    assert study.outlook is not None
    tabs = whole(render_study(study)).count('<div class="tab" data-tab="power">')
    assert tabs == len({plan.metric for plan in study.outlook.metrics})


@pytest.mark.whole
@pytest.mark.parametrize("name", WORLDS)
def test_no_interval_is_wider_than_what_could_be_seen(name: str) -> None:
    """An effect within the interval's half-width is found in fewer than half of all tests."""
    study = seen(name).study
    assert study.analysis is not None
    bounds = {(one.metric, one.variant): one.boundary for one in study.analysis.boundaries}
    for row in study.analysis.scorecard:
        critical = bounds.get((row.metric, row.variant), 1.96)
        assert row.mde is not None
        assert row.mde > half_width(row) * (critical + 0.8416) / critical * (1 - 2e-3)


def test_a_goal_is_found_at_the_level_of_its_family_a_margin_at_its_own() -> None:
    result = seen("three variants").study.analysis
    assert result is not None
    for metric, level in (("ctr", 0.05 / 3), ("impressions_per_user", 0.05)):
        row = result[metric, "b"]
        reach = stats.norm.isf(level / 2) + stats.norm.isf(0.2)
        expected = half_width(row) / 1.96 * reach
        grown = 1.0 if metric == "impressions_per_user" else (1 + (row.mde or 0) / 2) ** 0.5
        assert row.mde == pytest.approx(expected * grown, rel=3e-3)


@pytest.mark.parametrize("name", ["fixed", "two goals", "always valid, at the end"])
def test_at_the_planned_end_next_decides(name: str) -> None:
    study, step = seen(name)
    assert study.analysis is not None
    mde = study.analysis["ctr"].mde or 0
    assert step.startswith(
        f"Stop and keep a. This test can detect ±{100 * mde:.2g}% of ctr. "
        "If smaller effects matter, "
    )
    longer = r"takes about \d+ days in all \([\d.]+ times as long, about [\d,]+ units\)"
    assert re.search(longer, step)
    anew = "which this test may run on" if "always" in name else "in a new test"
    assert step.endswith(f"{anew}.")
    assert "Run on" not in step


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("halfway", "Run on to the planned end, 2026-09-14: "),
        ("planned looks", "Look again on 2026-09-11, the next planned look: "),
        ("ramp, planned looks", "Look again on 2026-09-11, the next planned look: "),
        ("always valid", "Run on, and look on any day up to the planned end, 2026-09-14: "),
    ],
)
def test_on_the_way_next_names_the_day_and_what_the_row_can_see(name: str, start: str) -> None:
    study, step = seen(name)
    assert study.analysis is not None
    mde = study.analysis["ctr"].mde or 0
    assert step.startswith(f"{start}it can detect ±{100 * mde:.2g}% of ctr so far, ±")
    end = re.search(r"±([\d.]+)% at the planned end\.$", step)
    assert end is not None
    assert float(end[1]) < 100 * mde


def test_next_names_the_variant_that_it_is_about() -> None:
    study, step = seen("three variants")
    assert study.analysis is not None
    best = max("bcd", key=lambda name: study.analysis["ctr", name].lift or 0)  # type: ignore[index]
    mde = study.analysis["ctr", best].mde or 0
    assert f"±{100 * mde:.2g}% of ctr of {best}" in step


def test_of_a_guardrail_the_question_is_its_margin() -> None:
    study, step = seen("guardrail, at the end")
    assert study.analysis is not None
    row = study.analysis["impressions_per_user"]
    assert study.analysis.verdicts[0].decision == "keep_running", step
    assert step.startswith("impressions_per_user: a drop of more than 1% is not ruled out")
    assert f"{-100 * (row.lift_low or 0):.2g}% still possible" in step
    assert re.search(r"Accept a margin of \d+%, reduce variance \(CUPED\), or stop\.$", step)


def test_a_day_later_a_margin_that_was_planned_for_is_proven() -> None:
    name = "guardrail, halfway"
    study = seen(name).study
    assert study.outlook is not None
    ahead = study.outlook["impressions_per_user"]
    assert ahead.target == 0.08
    assert ahead.target_days is not None
    now, later = (
        planned(name, days)["impressions_per_user"].mde or 0
        for days in (None, round(ahead.target_days) + 1)
    )
    assert 0 < later <= 0.08 < now


def test_units_of_a_ramp_come_in_its_latest_split() -> None:
    """Seven days of 10 % and then 50 %, followed to 28 days, against a log of 28."""
    days = []
    for length in (8, 28):
        of = World(ramp=True, users=400 * length, planned=28)
        rng = np.random.default_rng(length)
        entry = rng.integers(0, length, of.users)
        split = np.where(entry < 4, 0.1, 0.5)
        times = pd.Timestamp(START) + pd.to_timedelta(86_400 * entry + 43_200, unit="s")
        rows = {"user_id": np.arange(of.users), "ts": times, "item_id": 1}
        variant = np.where(rng.random(of.users) < split, "b", "a")
        frame = pd.DataFrame({**rows, "variant": variant, "click": rng.random(of.users) < 0.3})
        days.append(defined(of).power(days=28, logs={"impressions": frame})["ctr"].mde)
    assert days[0] == pytest.approx(days[1], rel=0.05)


@pytest.mark.slow
def test_days_of_users_who_return_add_less_than_the_square_law_says() -> None:
    """Ten days of logs of thirty, against all of them: the same users come on every day."""
    of, users, days = World(planned=30), 2_000, defined(World(planned=30)).power
    foretold, by_square = [], []
    for seed in range(1, 7):
        rng = np.random.default_rng(seed)
        taste, who = rng.beta(2, 12, users), np.repeat(np.arange(users), 1 + rng.poisson(23, users))
        seconds = rng.integers(0, 30 * 86_400, who.size)
        frame = pd.DataFrame(
            {
                "user_id": who,
                "variant": np.array(of.names)[who % 2],
                "ts": pd.Timestamp(START) + pd.to_timedelta(seconds, unit="s"),
                "item_id": 1,
                "click": rng.random(who.size) < taste[who],
            }
        )
        first = {"impressions": frame[seconds < 10 * 86_400]}
        true = days(logs={"impressions": frame})["ctr"].mde or 0
        foretold.append((days(days=30, logs=first)["ctr"].mde or 0) / true)
        by_square.append((days(logs=first)["ctr"].mde or 0) / 3**0.5 / true)
    assert np.mean(foretold) == pytest.approx(1.0, abs=0.05)
    assert np.mean(by_square) < 0.85
    ended = defined(World(planned=10)).study(logs=first)
    step = write_next_step(ended.analysis, ended.outlook)
    assert " units), in a new test" in step


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fixed", "planned looks, the second of four", "always valid"])
def test_a_true_effect_of_that_size_is_found_in_four_of_five(name: str) -> None:
    """More worlds, and more of each: python -m benchmarks calibrate detectable."""
    row = detectable.measure_world(name, 150)
    error = 3 * (0.16 / 150) ** 0.5
    assert row["found, %"] == pytest.approx(0.8, abs=error)
    assert row["held, %"] == pytest.approx(0.8, abs=error)


@pytest.mark.whole
def test_a_ratio_does_not_grow_with_the_days_a_total_does() -> None:
    metrics = [{"name": "ctr", "role": "goal"}, {"name": "clicks_per_user", "role": "goal"}]
    loaded = real_logs.kuairand(metrics=metrics)
    control = loaded.analyze()["ctr"].control
    plans = [loaded.power(days=days) for days in (7, 30, 120)]
    assert [one["ctr"].baseline for one in plans] == [control] * 3
    totals = [one["clicks_per_user"].baseline or 0 for one in plans]
    assert totals == sorted(totals)
    assert totals[2] > 2 * totals[0]
