"""Drafts of files whose names are in no list: what is not known is asked, and never lost."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.drafts.run import Draft, draft_files
from abeval.errors import ExperimentError

START = pd.Timestamp("2026-06-01")
UNITS = 1_500


def draft_of(folder: Path, **frames: pd.DataFrame) -> tuple[Draft, dict[str, Any]]:
    """Write each frame as a CSV file, and draft them in their order."""
    for name, frame in frames.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    drafted = draft_files([folder / f"{name}.csv" for name in frames], folder)
    (folder / "e.toml").write_text(drafted.text)
    return drafted, tomllib.loads(drafted.text)


def seconds(rng: np.random.Generator, number: int, days: int) -> pd.Series:
    return START + pd.to_timedelta(pd.Series(rng.integers(0, days * 86_400, number)), unit="s")


def members(rng: np.random.Generator, unit: str = "member") -> pd.DataFrame:
    """Units of two groups with the time at which they joined."""
    ids = [f"m{number}" for number in range(UNITS)]
    groups = np.where(rng.random(UNITS) < 0.5, "exp", "ctl")
    return pd.DataFrame({unit: ids, "grp": groups, "joined_test": seconds(rng, UNITS, 7)})


def test_files_without_a_metric_ask_for_one_and_the_analysis_says_it(tmp_path: Path) -> None:
    frame = members(np.random.default_rng(1)).drop(columns="member")
    drafted, entries = draft_of(tmp_path, seen=frame)
    assert "metrics" not in entries
    assert any("no metric yet" in question for question in drafted.questions)
    with pytest.raises(ExperimentError, match=r"no metric yet: name one in \[\[metrics\]\]"):
        abeval.load(tmp_path / "e.toml").analyze()


def test_whole_numbers_of_days_are_times_and_costs_no_goals(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    searches = members(rng, "anon").loc[np.repeat(np.arange(UNITS), 4)].reset_index(drop=True)
    day = (START + pd.to_timedelta(rng.integers(0, 40, len(searches)), unit="D")).strftime("%Y%m%d")
    searches = searches.drop(columns="joined_test").assign(
        qid=[f"q{i}" for i in range(len(searches))],
        date=day.astype(int),
        latency_ms=rng.gamma(4, 50, len(searches)).round(2),
    )
    taps = searches[rng.random(len(searches)) < 0.3][["qid", "anon", "date"]]
    drafted, entries = draft_of(tmp_path, searches=searches, taps=taps)
    assert entries["logs"]["impressions"]["ts_format"] == "%Y%m%d"
    assert entries["logs"]["impressions"]["columns"]["ts"] == "date"
    roles = {metric["name"]: metric["role"] for metric in entries["metrics"]}
    assert roles == {"ctr": "goal", "latency_ms": "diagnostic"}
    result = abeval.load(tmp_path / "e.toml").replace(trust={"aa_runs": 0}).analyze()
    assert {verdict.decision for verdict in result.verdicts} == {"keep_running"}
    drafted, _ = draft_of(tmp_path, searches=searches.drop(columns="date"), taps=taps)
    assert any(question.startswith("time: no column has times") for question in drafted.questions)


@pytest.mark.whole
@pytest.mark.parametrize(
    "unit", ["k", *(pytest.param(unit, marks=pytest.mark.slow) for unit in ("member", "acct"))]
)
def test_ids_of_one_row_each_that_come_again_in_another_file_are_the_unit(
    unit: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(3)
    people = members(rng, unit)
    payments = pd.DataFrame(
        {
            unit: rng.choice(people[unit], 3_000),
            "paid_at": seconds(rng, 3_000, 20),
            "amount": rng.gamma(2, 10, 3_000).round(2),
        }
    )
    for files in ({"people": people, "paid": payments}, {"paid": payments, "people": people}):
        drafted, entries = draft_of(tmp_path, **files)
        assert drafted.questions == ()
        assert entries["unit"] == unit
        assert {metric["name"] for metric in entries["metrics"]} == {"any_paid", "paid_amount"}


def test_numbers_of_events_are_sums_per_unit_and_years_no_goals(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    people = members(rng, "user_id")
    payments = pd.DataFrame(
        {
            "user_id": rng.choice(people.user_id, 3_000),
            "paid_at": seconds(rng, 3_000, 20),
            "cents": rng.integers(100, 9_000, 3_000),
        }
    )
    drafted, entries = draft_of(tmp_path, people=people, pay2=payments)
    metrics = {metric["name"]: metric for metric in entries["metrics"]}
    assert metrics["pay2_cents"]["per_unit"] == "sum"
    assert metrics["pay2_cents"]["role"] == "diagnostic"
    assert any("pay2.cents" in question for question in drafted.questions)
    assert any(question.startswith("goal: is it any_pay2?") for question in drafted.questions)
    table = people.drop(columns="joined_test").assign(
        revenue=rng.gamma(2, 10, UNITS), signup_year=rng.integers(2015, 2026, UNITS)
    )
    _, entries = draft_of(tmp_path, table=table)
    assert [metric["name"] for metric in entries["metrics"]] == ["revenue"]
    assert entries["logs"]["units"]["covariates"] == ["signup_year"]


def test_money_of_a_visit_is_summed_by_unit_whatever_its_name(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    visits = members(rng, "kunde_id").sample(4_000, replace=True, random_state=1)
    visits = visits.assign(
        umsatz=rng.gamma(2, 10, 4_000).round(2), seite=rng.integers(0, 99, 4_000)
    )
    _, entries = draft_of(tmp_path, besuche=visits)
    (metric,) = [metric for metric in entries["metrics"] if "umsatz" in metric["name"]]
    assert metric["name"] == "umsatz_per_unit"
    assert "denominator" not in metric


def test_a_variant_in_another_file_is_named_in_the_question(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    accounts = pd.DataFrame({"acct": range(5_000, 6_000), "cell": rng.integers(1, 4, 1_000)})
    tickets = pd.DataFrame(
        {"acct": rng.choice(accounts.acct, 4_000), "opened_at": seconds(rng, 4_000, 9)}
    )
    drafted, entries = draft_of(tmp_path, accounts=accounts, tickets=tickets)
    assert entries["unit"] == "acct"
    (question,) = [q for q in drafted.questions if q.startswith("variant")]
    assert "cell of accounts" in question


def test_a_second_file_that_alone_has_variants_is_exposures_whatever_else_it_has(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(5)
    views = pd.DataFrame(
        {
            "user_id": rng.integers(0, UNITS, 5_000),
            "ts": seconds(rng, 5_000, 10),
            "item_id": rng.integers(0, 99, 5_000),
            "click": rng.integers(0, 2, 5_000),
        }
    ).sort_values("ts")
    group = np.where(np.arange(UNITS) % 2 == 0, "old", "new")
    met = views[["user_id", "ts"]].assign(bucket=group[views.user_id])
    met["page"] = rng.choice(["home", "list", "end"], len(met))
    _, entries = draft_of(tmp_path, views=views, met=met)
    assert entries["control"] == "old"
    assert entries["logs"]["exposures"]["columns"]["variant"] == "bucket"
    assert "metrics" not in entries
    result = abeval.load(tmp_path / "e.toml").replace(trust={"aa_runs": 0}).analyze()
    control = views[group[views.user_id] == "old"]
    assert result["ctr"].control == pytest.approx(control.click.mean(), rel=1e-12)
