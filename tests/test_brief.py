"""The answer for programs: small, of one schema, with the decision and what it rests on."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from abeval.brief import MOST_BYTES, SCHEMA, write_brief_json
from abeval.cli.main import app
from abeval.report.next_step import Step, recommend_step
from abeval.results import codes
from abeval.results.analysis import Result
from tests import builders
from tests.report.pages import RESULTS


def read(result: Result) -> dict[str, Any]:
    text = write_brief_json(result)
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
        assert one["decision"] == codes.describe_code(verdict.decision).replace(" ", "_")
        assert f"`{one['action']}`" in (Step.__doc__ or "")
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
    assert content["about_effects"].startswith("withheld, because a check failed: 0 of ")
    assert content["answer"] == {"decision": "do_not_trust", "action": "repair", "use": None}
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


@pytest.mark.whole
def test_the_command_prints_it_and_nothing_else() -> None:
    run = CliRunner().invoke(app, ["analyze", "sample_logs/experiment.toml", "--brief"])
    assert run.exit_code == 0, run.output
    content = json.loads(run.stdout)
    assert content["decisions"][0]["decision"] == "ship"
    assert content["so_far"].startswith(
        "day 14 of 14 (2026-09-14 to 2026-09-27), final look (2 of 2)"
    )
    assert content["so_far"].endswith("; units: 1,389 in control, 1,383 in treatment")
    assert content["effects"][2]["holds_if"] == "low > -0.1"
    assert content["trust"]["not_checked"].endswith(" checks: /trust says why")
    assert content["effects"][0]["lift"] == pytest.approx(0.131, abs=5e-4)


def test_the_question_names_all_variants_and_goals() -> None:
    question = read(builders.three_variants())["question"]
    assert question == "Are treatment and challenger better than control by ctr?"


def test_where_one_variant_ships_no_other_is_told_to_keep_control() -> None:
    base = builders.three_variants()
    ship, other = replace(base.verdicts[0], decision="ship"), base.verdicts[1]
    for decision in ("do_not_ship", "keep_running"):
        verdicts = (ship, replace(other, decision=decision))
        content = read(replace(base, verdicts=verdicts))
        assert content["answer"] == {"decision": "ship", "action": "ship", "use": ship.variant}
        second = content["decisions"][1]
        assert "eep control" not in second["next"]
        alone = replace(base, verdicts=verdicts[1:])
        assert recommend_step(alone, None, verdicts[1]).word != "do_not_ship"


def test_without_a_period_it_says_so_and_counts_units() -> None:
    base = builders.ship()
    info = replace(base.experiment, start=None, end=None)
    so_far = read(replace(base, experiment=info))["so_far"]
    assert so_far.startswith("no period is known; units: ")
    assert f" in {info.control}, " in so_far


def test_a_variant_of_few_units_is_named_and_thirty_are_not_enough() -> None:
    base = builders.ship()
    few = builders.row(status="too_little_data", units=16)
    verdict = replace(base.verdicts[0], decision="keep_running")
    step = recommend_step(replace(base, scorecard=(few,), verdicts=(verdict,)), None, verdict)
    assert step.word == "new_test"
    assert "Too few units: treatment has 16. ctr needs at least 30 to be tested" in step.text


def test_a_draft_says_at_its_effects_that_it_decides_nothing() -> None:
    base = builders.ship()
    asked = replace(base.experiment, questions=("unit: is it user_id?",))
    draft = replace(base.verdicts[0], decision="draft", sentence="DRAFT: 1 question is open")
    content = read(replace(base, experiment=asked, verdicts=(draft,)))
    assert content["about_effects"].startswith("a draft, nothing to decide on: ")
    assert content["answer"]["use"] is None
    (one,) = content["decisions"]
    assert one["why"] != one["would_change"]


def test_it_says_which_goal_and_which_guardrail_would_change_a_decision() -> None:
    """Not the metrics that decide nothing, nor goals that are unclear."""
    (decision,) = read(builders.ship())["decisions"]
    assert decision["would_change"] == (
        "no gain any more in ctr, a loss of sessions_per_user beyond its margin, or a failed check"
    )
