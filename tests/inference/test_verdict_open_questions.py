"""Open questions of the experiment file: everything is shown as a draft, and nothing is decided."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import abeval
from abeval.cli.main import app
from abeval.errors import ExperimentError
from abeval.report.markdown import markdown
from abeval.report.page import render_study
from abeval.report.terminal import as_text
from abeval.results.analysis import Result, result_from_dict
from abeval.results.study import build_study, read_results
from abeval.simulate import simulate
from tests.report.pages import parse, words

QUESTIONS = ["unit: is it user_id?", "weights: were 1, 1, 1 intended? The counts fit."]
SAID = (
    "DRAFT: 2 questions are open: (1) unit: is it user_id?; "
    "(2) weights: were 1, 1, 1 intended? The counts fit."
)
EXPERIMENT = """
name = "basket"
unit = "user_id"
control = "a"
variants = { a = {}, b = {}, c = {} }
logs = { units = { path = "units.csv", columns = { variant = "grp" } } }
metrics = [{ name = "spend", role = "goal" }, { name = "bought", role = "guardrail", margin = 0.2 }]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An experiment in which b gains without a doubt, and c loses."""
    rng = np.random.default_rng(5)
    groups = np.repeat(["a", "b", "c"], 1_000)
    gain = pd.Series(groups).map({"a": 0.0, "b": 3.0, "c": -3.0})
    frame = pd.DataFrame(
        {
            "user_id": range(3_000),
            "grp": groups,
            "spend": 20 + gain + rng.normal(0, 5, 3_000),
            "bought": (rng.random(3_000) < 0.5).astype(int),
        }
    )
    frame.to_csv(tmp_path / "units.csv", index=False)
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    return tmp_path / "e.toml"


def drafted(file: Path) -> abeval.LoadedExperiment:
    return abeval.load(file).replace(questions=QUESTIONS)


def test_a_draft_decides_nothing_and_the_answered_file_decides(file: Path) -> None:
    draft, answered = drafted(file).analyze(), drafted(file).replace(questions=[]).analyze()
    assert [v.decision for v in answered.verdicts] == ["ship", "do_not_ship"]
    assert [(v.variant, v.decision, v.sentence) for v in draft.verdicts] == [
        (variant, "draft", SAID) for variant in "bc"
    ]
    assert {row.status for row in draft.scorecard} == {"draft"}
    assert {"better", "worse"} <= {row.status for row in answered.scorecard}
    # The numbers are there, and are the same.
    assert draft.scorecard == tuple(replace(row, status="draft") for row in answered.scorecard)
    assert draft.trust == answered.trust


def test_the_json_has_the_questions_and_gives_the_same_draft(file: Path) -> None:
    draft = drafted(file).analyze()
    raw = draft.to_dict()
    assert list(raw["experiment"]["questions"]) == QUESTIONS
    again = result_from_dict(raw)
    assert again == draft
    # Results of earlier versions know of no questions.
    del raw["experiment"]["questions"]
    assert result_from_dict(raw).questions == ()


def test_who_reads_the_first_screen_reads_draft_first(file: Path) -> None:
    draft = drafted(file).analyze()
    text = as_text(draft)
    # Once for all variants.
    assert text.startswith(SAID[:60])
    assert text.count("DRAFT:") == 1
    assert "Scorecard (DRAFT)" in text
    page = parse(render_study(build_study(draft)))
    (section,) = page.all("section", id="verdict")
    assert words(section).startswith(SAID.replace(":", "", 1))
    assert "Answer each question" in words(section)
    assert [e.attributes["class"] for e in page.all("div") if "verdict" in _class(e)] == [
        "verdict draft"
    ]
    chips = {words(e) for e in page.all("span") if _class(e).startswith("chip")}
    assert chips == {"draft"}
    written = markdown(build_study(draft))
    assert written.splitlines()[2].startswith("**DRAFT** 2 questions are open")
    for shown in (text, written, words(section)):
        assert not re.search("ship|better|worse|roll out", shown, re.IGNORECASE)


def _class(element: Any) -> str:
    return element.attributes.get("class", "")


def test_a_failed_check_is_named_beside_the_questions(file: Path) -> None:
    weights = {"a": {"weight": 2}, "b": {}, "c": {}}
    draft = drafted(file).replace(variants=weights).analyze()
    assert {v.sentence for v in draft.verdicts} == {f"{SAID} Note: srm failed."}
    assert {row.status for row in draft.scorecard} == {"untrusted"}
    assert "units where" in as_text(draft)


def test_sums_are_judged_as_a_draft_too(file: Path) -> None:
    frame = pd.read_csv(file.parent / "units.csv")
    sums = [
        {"metric": metric, "variant": variant, "n": 1_000}
        | {"sum_y": own[metric].sum(), "sum_yy": (own[metric] ** 2).sum()}
        for variant, own in frame.groupby("grp")
        for metric in ("spend", "bought")
    ]
    result = drafted(file).from_sums(pd.DataFrame(sums))
    assert {verdict.sentence for verdict in result.verdicts} == {SAID}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> abeval.LoadedExperiment:
    """Logs with scores, two models and days."""
    folder = tmp_path_factory.mktemp("sample")
    simulate(folder, impressions=6_000)
    return abeval.load(folder / "experiment.toml")


SHORT: dict[str, Callable[[abeval.LoadedExperiment], Any]] = {
    "check": lambda sample: sample.check(),
    "compare": lambda sample: sample.compare("ctr"),
    "windows": lambda sample: sample.windows(metrics=["ctr"]),
    "replay": lambda sample: sample.replay(metrics=["auc"]),
    "agree": lambda sample: sample.agree(metrics=["auc"]),
}


LONG = ("replay", "agree")


@pytest.mark.parametrize(
    "command", [pytest.param(c, marks=pytest.mark.whole if c in LONG else ()) for c in SHORT]
)
def test_other_results_say_it_before_their_tables(
    command: str, sample: abeval.LoadedExperiment
) -> None:
    result = SHORT[command](sample.replace(questions=QUESTIONS))
    assert " ".join(str(result).split()).startswith(SAID.rstrip("."))
    assert SAID.rstrip(".") in " ".join(result._repr_html_().split())
    assert tuple(result.questions) == tuple(QUESTIONS)
    answered = SHORT[command](sample)
    assert "DRAFT" not in str(answered)
    assert replace(result, **_without(result)) == answered
    if command in ("windows", "replay"):
        page = parse(render_study(build_study(result)))
        assert [words(e) for e in page.all("div") if _class(e) == "verdict draft"] == [
            SAID.replace(":", "", 1).rstrip(".")
        ]
        assert markdown(build_study(result)).splitlines()[2].startswith("**DRAFT** 2 questions")


def _without(result: Any) -> dict[str, Any]:
    if hasattr(result, "experiment"):
        return {"experiment": replace(result.experiment, questions=())}
    return {"questions": ()}


@pytest.mark.whole
def test_the_gates_fail_with_a_code_of_their_own(file: Path) -> None:
    answered, text = file.read_text(), f"questions = {QUESTIONS}\n"
    for questions, codes in (("", (4, 0)), (text, (6, 6))):
        file.write_text(questions + answered)
        for checks, code in zip(([], ["--checks"]), codes, strict=True):
            command = ["analyze", str(file), *checks]
            ran = CliRunner().invoke(app, [*command, "--gate"])
            assert ran.exit_code == code, ran.output
            assert CliRunner().invoke(app, command).exit_code == 0
    ran = CliRunner().invoke(app, ["power", str(file), "--days", "14"])
    assert " ".join(ran.stderr.split()).startswith(SAID.rstrip("."))
    page = file.with_name("page.md")
    CliRunner().invoke(app, ["analyze", str(file), "--report", str(page)])
    assert "**DRAFT**" in page.read_text()


def test_a_draft_does_not_enter_a_history(
    file: Path, tmp_path: Path, sample: abeval.LoadedExperiment
) -> None:
    history = abeval.History(tmp_path / "h.parquet")
    draft = drafted(file).analyze()
    (tmp_path / "r.json").write_text(draft.to_json())
    with pytest.raises(ExperimentError, match="is a draft: 2 questions are open"):
        history.add(draft)
    with pytest.raises(ExperimentError, match="is a draft"):
        history.add(tmp_path / "r.json", shipped="b")
    assert not (tmp_path / "h.parquet").exists()
    assert read_results([tmp_path / "r.json"]).questions == tuple(QUESTIONS)
    replayed = SHORT["replay"](sample.replace(questions=QUESTIONS))
    with pytest.raises(ExperimentError, match="is a draft"):
        history.add(replayed)
    history.add(drafted(file).replace(questions=[]).analyze())
    assert {row.decision for row in history.rows()} == {"ship", "do_not_ship"}


@pytest.mark.parametrize(
    ("questions", "why"), [('"unit?"', "questions"), ('["unit?", ""]', r"questions\[1\]")]
)
def test_questions_are_a_list_of_texts(file: Path, questions: str, why: str) -> None:
    file.write_text(f"questions = {questions}\n" + file.read_text())
    with pytest.raises(ExperimentError, match=why):
        abeval.load(file)


def test_a_draft_that_is_included_stays_one(file: Path) -> None:
    file.write_text(f"questions = {QUESTIONS}\n" + file.read_text())
    file.with_name("own.toml").write_text('include = ["e.toml"]\nalpha = 0.01\n')
    result: Result = abeval.load(file.with_name("own.toml")).analyze()
    assert {verdict.decision for verdict in result.verdicts} == {"draft"}
