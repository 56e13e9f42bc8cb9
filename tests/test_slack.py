"""The message for Slack: what the brief says, within the limits of Block Kit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import abeval
from abeval.brief import write_brief_json
from abeval.cli.main import app
from abeval.slack import build_message
from tests import sample
from tests.report.pages import RESULTS
from tests.worlds.pages import WORLDS

MOST_BLOCKS = 50
MOST_LETTERS = {"plain_text": 150, "mrkdwn": 3000}
"""Slack: 150 letters of a header, 3,000 of a section's or a context's text."""


def check_blocks(message: dict[str, Any]) -> list[str]:
    """Hold a message to what Slack takes; return its texts."""
    assert message.keys() == {"text", "blocks"}
    assert 0 < len(message["text"]) <= 150
    kinds = [block["type"] for block in message["blocks"]]
    assert kinds[0] == "header"
    assert kinds[-1] == "context"
    assert set(kinds[1:-1]) == {"section"}
    assert len(kinds) <= MOST_BLOCKS
    texts = []
    for block in message["blocks"]:
        is_context = block["type"] == "context"
        assert block.keys() == ({"type", "elements"} if is_context else {"type", "text"})
        for text in block["elements"] if is_context else [block["text"]]:
            assert text["type"] == ("plain_text" if block["type"] == "header" else "mrkdwn")
            assert 0 < len(text["text"]) <= MOST_LETTERS[text["type"]]
            texts.append(text["text"])
    return texts


@pytest.mark.parametrize("name", RESULTS)
def test_each_result_is_a_message_that_slack_takes(name: str) -> None:
    brief = json.loads(write_brief_json(RESULTS[name]()))
    texts = check_blocks(build_message(brief))
    decisions = "\n".join(texts[1:-2])
    for item in brief["decisions"]:
        assert item["decision"].replace("_", " ").upper() in decisions
    # Names from a log mention nobody, link nowhere, and hide nothing.
    marks = "".join(texts[1:]).replace("&lt;", "").replace("&gt;", "").replace("&amp;", "")
    assert not {"<", ">", "&", "\u202e"} & set(marks)


@pytest.mark.first_cases(3)
@pytest.mark.whole
@pytest.mark.parametrize("world", WORLDS)
def test_each_world_is_a_message_that_slack_takes(world: str) -> None:
    study = WORLDS[world]().first()
    assert study.analysis is not None
    check_blocks(build_message(json.loads(write_brief_json(study.analysis, study.outlook))))


def test_the_longest_texts_are_cut_after_they_are_escaped() -> None:
    brief = json.loads(write_brief_json(sample.analysis()))
    item = {**brief["decisions"][0], "variant": "&" * 2_999, "why": "<" * 2_999}
    brief |= {"experiment": "&" * 151, "so_far": ">" * 3_000, "decisions": [item] * 8}
    texts = check_blocks(build_message(brief))
    assert texts[0] == "&" * 149 + "…"
    assert texts[1].startswith("*&amp;")
    assert texts[1].endswith("&amp;…")


def test_the_command_prints_the_message_of_a_result(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text(sample.analysis().to_json(), encoding="utf-8")
    done = CliRunner().invoke(app, ["tools", "slack", str(file)])
    assert done.exit_code == 0, done.output
    message = json.loads(done.stdout)
    assert message["text"] == "sample: ship treatment"
    assert "• ctr (goal, treatment): +13.1% [+8.2%, +18.2%], better" in check_blocks(message)[2]


def test_a_result_of_another_kind_is_refused_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "replay.json"
    run = pd.DataFrame({"request_id": 1, "item_id": [1, 2], "score": [0.2, 0.1]})
    replayed = abeval.evaluate(run, run.assign(grade=[1, 0]), metrics=["mrr"]).result
    file.write_text(replayed.to_json(), encoding="utf-8")
    done = CliRunner().invoke(app, ["tools", "slack", str(file)])
    assert "--json result.json" in str(done.exception)
