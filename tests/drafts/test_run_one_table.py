"""`abeval init` of one table, then the analysis of the file as it stands: right, or asked."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.api.frames import draft
from abeval.drafts.run import Draft, draft_files
from abeval.errors import LogError
from abeval.results.analysis import Result
from tests.drafts.worlds import WORLDS, World, plain


def analysed(own: Draft, folder: Path) -> Result:
    (folder / "e.toml").write_text(own.text)
    return abeval.load(folder / "e.toml").replace(trust={"aa_runs": 0}).analyze()


@pytest.mark.first_cases(6)
@pytest.mark.parametrize("name", WORLDS)
def test_the_verdict_is_right_or_a_draft(name: str, tmp_path: Path) -> None:
    world: World = WORLDS[name]()
    is_csv = name not in ("text_times", "nulls")
    file = tmp_path / f"table.{'csv' if is_csv else 'parquet'}"
    world.frame.to_csv(file, index=False) if is_csv else world.frame.to_parquet(file)
    own = draft_files([file], tmp_path)
    entries = tomllib.loads(own.text)
    assert entries["unit"] == world.unit
    assert list(entries["logs"]) == [world.kind]
    assert len(own.questions) == len(world.asks), own.questions
    for asked in world.asks:
        assert any(question.startswith(asked) for question in own.questions), own.questions
    result = analysed(own, tmp_path)
    (verdict,) = result.verdicts
    assert verdict.decision == (world.decision or "draft")
    for metric, (control, treatment, p_value) in world.truth.items():
        row = result[metric]
        assert (row.control, row.treatment) == pytest.approx((control, treatment), rel=1e-6)
        assert row.p_value == pytest.approx(p_value, rel=0.05, abs=1e-4)


ARMS = {
    "en": ("control", "treatment"),
    "zh": ("对照组", "实验组"),
    "hi": ("नियंत्रण", "उपचार"),
    "es": ("control", "tratamiento"),
    "ar": ("المجموعة الضابطة", "المجموعة التجريبية"),
    "fr": ("témoin", "traitement"),
    "bn": ("নিয়ন্ত্রণ", "চিকিৎসা"),
    "pt": ("controle", "tratamento"),
    "ru": ("контрольная группа", "тестовая группа"),
    "ja": ("対照群", "処置群"),
    "de": ("Kontrolle", "Behandlung"),
    "ur": ("کنٹرول", "علاج"),
    "letters": ("A", "B"),
}


@pytest.mark.parametrize("language", ARMS)
def test_variants_are_known_by_their_values_in_many_languages(language: str) -> None:
    control, treatment = ARMS[language]
    frame = plain().frame
    told = frame.group.map({"control": control, "treatment": treatment})
    own = draft(frame.assign(group=told).rename(columns={"group": "column_3"}))
    entries = tomllib.loads(own.text)
    assert own.questions == ()
    assert entries["control"] == control
    assert entries["logs"]["units"]["columns"]["variant"] == "column_3"


@pytest.mark.parametrize(
    "name", ["группа", "分组", "समूह", "grupo", "المجموعة", "グループ", "Gruppe"]
)
def test_a_column_of_the_variant_is_known_by_its_name(name: str) -> None:
    frame = plain().frame.rename(columns={"group": name})
    frame[name] = frame[name].map({"control": "x", "treatment": "y"})
    own = draft(frame)
    assert tomllib.loads(own.text)["logs"]["units"]["columns"]["variant"] == name
    assert [question.split(":")[0] for question in own.questions] == ["control"]


def test_what_differs_between_variants_is_asked_and_what_does_not_is_a_diagnostic() -> None:
    """A number of no known name cannot be left out of a decision where it moved."""
    frame = plain().frame
    noise = np.random.default_rng(1).normal(50, 10, len(frame))
    alike = draft(frame.assign(zork=noise))
    assert alike.questions == ()
    roles = {m["name"]: m["role"] for m in tomllib.loads(alike.text)["metrics"]}
    assert roles == {"converted": "goal", "revenue": "goal", "zork": "diagnostic"}
    moved = draft(frame.assign(zork=noise + 2 * (frame.group == "treatment")))
    (question,) = moved.questions
    assert question.startswith("outcomes: are zork")


def test_some_columns_of_a_wide_table_are_listed_and_the_others_counted() -> None:
    frame = plain().frame
    random = np.random.default_rng(2)
    features = pd.DataFrame({f"feature_{i}": random.normal(size=len(frame)) for i in range(300)})
    own = draft(pd.concat([frame, features], axis=1))
    assert len(tomllib.loads(own.text)["metrics"]) == 22
    assert any("280 more columns" in question for question in own.questions)


def test_fields_of_nested_json_are_columns(tmp_path: Path) -> None:
    frame = plain().frame
    rows = (
        {"context": {"variant": row.group, "user_id": int(row.user_id)}, "converted": row.converted}
        for row in frame.itertuples()
    )
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    entries = tomllib.loads(draft_files([tmp_path / "log.jsonl"], tmp_path).text)
    assert entries["unit"] == "context.user_id"
    assert entries["logs"]["units"]["columns"]["variant"] == "context.variant"


def test_names_of_metrics_are_free(tmp_path: Path) -> None:
    """Names in other letters, and two that differ in spaces alone, were the same metric."""
    frame = plain().frame.rename(columns={"converted": "Total orders", "revenue": "total_orders"})
    frame["покупка"] = frame["Total orders"]
    own = draft(frame)
    names = [metric["name"] for metric in tomllib.loads(own.text)["metrics"]]
    assert len({*names}) == len(names) == 3
    assert "покупка" in names


def test_numbers_that_are_text_are_asked_for() -> None:
    rows = {"user_id": range(400), "group": ["control", "new"] * 200}
    plain_text = pd.DataFrame({**rows, "revenue": [str(i % 7) for i in range(400)]})
    (question, _) = draft(plain_text).questions
    assert question.startswith("numbers: revenue is text that looks like numbers: make numbers")
    with_comma = plain_text.assign(revenue=[f"{i % 7},5" for i in range(400)])
    (question, _) = draft(with_comma).questions
    assert "but has '0,5': write them with a point" in question


def test_a_text_of_hundreds_of_letters_is_no_name_of_a_variant() -> None:
    frame = pd.DataFrame({"user_id": range(400), "group": ["control", "x" * 300] * 200})
    with pytest.raises(LogError, match="a variant in column 'group' is called 'xxx") as refused:
        draft(frame)
    assert refused.value.hint == "names of variants have at most 200 characters"
