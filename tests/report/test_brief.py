"""The answer for programs: small, of one schema, with the decision and what it rests on."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from abeval.cli.main import app
from abeval.report.brief import MOST_BYTES, SCHEMA, brief_json
from abeval.results.analysis import Result
from tests import builders
from tests.report.pages import RESULTS


def read(result: Result) -> dict[str, Any]:
    text = brief_json(result)
    assert len(text.encode()) <= MOST_BYTES
    content: dict[str, Any] = json.loads(text)
    assert content["schema"] == SCHEMA
    return content


@pytest.mark.parametrize("name", RESULTS)
def test_it_has_each_decision_and_why(name: str) -> None:
    result = RESULTS[name]()
    decisions = {one["variant"]: one for one in read(result)["decisions"]}
    for verdict in result.verdicts:
        one = decisions[verdict.variant]
        assert one["decision"] == verdict.decision
        assert verdict.sentence.endswith(one["why"])
        assert one["next"]
        assert one["would_change"]


def test_effects_are_those_of_the_result() -> None:
    result = builders.three_variants()
    content = read(result)
    assert content["effects"]
    for one in content["effects"]:
        row = result[one["metric"], one["variant"]]
        assert (one["role"], one["status"]) == (row.role, row.status)
        assert one["lift"] == pytest.approx(row.lift, rel=1e-3)
        assert one["low"] == pytest.approx(row.lift_low, rel=1e-3)
        assert one["high"] == pytest.approx(row.lift_high, rel=1e-3)
    judged = [row for row in result.scorecard if row.role != "diagnostic"]
    assert len(content["effects"]) + content["left_out"]["effects"] == len(judged)


def test_numbers_that_are_not_to_be_trusted_are_not_shown() -> None:
    content = read(builders.untrusted())
    assert content["effects"] == []
    assert content["left_out"]["effects"] > 0
    assert content["trust"]["unmet"][0]["status"] == "fail"


def test_names_of_a_log_stay_text() -> None:
    result = builders.hostile()
    content = read(result)
    assert content["decisions"][0]["variant"] == result.verdicts[0].variant
    assert content["effects"][0]["metric"] == result.scorecard[0].metric


def test_many_goals_of_long_names_fit_and_the_rest_is_counted() -> None:
    base = builders.three_variants()
    names = [f"{'数' * 190}{i}" for i in range(60)]
    rows = tuple(builders.row(name, role="goal", variant="treatment") for name in names)
    check = replace(base.trust[0], status="warn", message="x" * 5000)
    content = read(replace(base, scorecard=rows, trust=(check,) * 30))
    assert len(content["effects"]) + content["left_out"]["effects"] == len(names)
    assert content["left_out"]["checks"] > 0
    assert content["decisions"][0]["decision"] == base.verdicts[0].decision


def test_the_command_prints_it_and_nothing_else() -> None:
    run = CliRunner().invoke(app, ["analyze", "sample_logs/experiment.toml", "--brief"])
    assert run.exit_code == 0, run.output
    content = json.loads(run.stdout)
    assert content["decisions"][0]["decision"] == "ship"
    assert content["so_far"].startswith("2026-09-14 to 2026-09-27; day 14 of 14, look 2 of 2 (")
    assert content["effects"][0]["lift"] == pytest.approx(0.131, abs=5e-4)


def test_the_question_names_all_variants_and_goals() -> None:
    question = read(builders.three_variants())["question"]
    assert question == "Are treatment and challenger better than control by ctr?"
