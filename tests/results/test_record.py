"""Result JSON that was edited: every reader refuses it; other forms of the same are read."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, field, replace
from pathlib import Path
from typing import Any

import pytest

import abeval
from abeval.cli.main import main
from abeval.errors import ExperimentError
from abeval.results.analysis import result_from_dict
from abeval.results.record import Frozen
from tests import builders

EDITS = {
    "a number": lambda raw: raw["scorecard"][0].update(lift=0.5),
    "a last digit": lambda raw: raw["scorecard"][0].update(
        p_value=raw["scorecard"][0]["p_value"] + 1e-15
    ),
    "a decision": lambda raw: raw["verdicts"][0].update(decision="do_not_ship"),
    "a row left out": lambda raw: raw["scorecard"].pop(),
    "a field left out": lambda raw: raw.pop("notes"),
    "a field added": lambda raw: raw.update(more=1),
    "the digest": lambda raw: raw.update(digest=None),
}


def raw_result() -> dict[str, Any]:
    raw: dict[str, Any] = json.loads(builders.ship().to_json())
    return raw


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_result_is_refused_by_every_reader(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = raw_result()
    EDITS[name](raw)
    file, page = tmp_path / "result.json", tmp_path / "page.html"
    file.write_text(json.dumps(raw), encoding="utf-8")
    history = tmp_path / "history.parquet"
    for command in (
        ["report", str(file), "--output", str(page)],
        ["report", str(file), "--format", "md"],
        ["history", "add", str(file), "--history", str(history)],
    ):
        monkeypatch.setattr(sys, "argv", ["abeval", *command])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        assert (ended.value.code, printed.out) == (2, "")
        assert f"{file}: its fields are not those that abeval wrote" in printed.err
    assert not page.exists()
    assert not history.exists()
    for read in (lambda: abeval.read_results([file]), lambda: result_from_dict(raw)):
        with pytest.raises(ExperimentError, match="edited or damaged"):
            read()


@pytest.mark.parametrize(
    "form",
    [
        lambda raw: json.dumps(raw),
        lambda raw: json.dumps(raw, sort_keys=True, indent=7),
        lambda raw: re.sub(r": (\d+)\.0\b", r": \1", json.dumps(raw)),
        lambda raw: re.sub(r": 0\.(\d)\b", r": \1e-1", json.dumps(raw)),
        lambda raw: json.dumps({name: value for name, value in raw.items() if name != "digest"}),
    ],
)
def test_a_result_in_another_form_or_without_a_digest_is_read(form: Any, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(form(raw_result()), encoding="utf-8")
    assert abeval.read_results([tmp_path / "result.json"]).analysis == builders.ship()


def test_the_json_of_a_page_has_a_digest_of_its_own(tmp_path: Path) -> None:
    study = abeval.Study(analysis=builders.ship())
    (tmp_path / "study.json").write_text(study.to_compact_json(), encoding="utf-8")
    assert abeval.read_results([tmp_path / "study.json"]) == study
    text = (tmp_path / "study.json").read_text(encoding="utf-8").replace('"ship"', '"draft"', 1)
    (tmp_path / "study.json").write_text(text, encoding="utf-8")
    with pytest.raises(ExperimentError, match=r"study\.json: its fields"):
        abeval.read_results([tmp_path / "study.json"])


class Point(Frozen):
    """A record with a default."""

    x: int
    y: float = 0.5


class Named(Frozen):
    """A record whose default is made."""

    names: Mapping[str, str] = field(default_factory=dict)


def test_a_record_is_a_frozen_dataclass() -> None:
    point = Point(1)
    assert point == Point(x=1, y=0.5) != replace(point, y=2.0)
    assert len({point, Point(y=0.5, x=1)}) == 1
    assert (repr(point), vars(Point(y=2.0, x=1))) == ("Point(x=1, y=0.5)", {"x": 1, "y": 2.0})
    match point:
        case Point(x, y):
            assert (x, y) == (1, 0.5)
    with pytest.raises(FrozenInstanceError, match="'x'"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="'x'"):
        del point.x


def test_a_default_that_is_made_is_one() -> None:
    assert Named() == Named({})


@pytest.mark.parametrize(
    ("values", "named"),
    [((), {}), ((1, 2, 3), {}), ((1,), {"x": 1}), ((1,), {"z": 1}), ((), {"y": 1.0})],
)
def test_a_record_has_each_of_its_fields_once(
    values: tuple[Any, ...], named: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match="Point has the fields"):
        Point(*values, **named)


def test_a_result_that_is_read_back_has_the_hash_of_its_equal() -> None:
    check = builders.ship().trust[0]
    assert hash(check) == hash(replace(check))
    (read, *_) = result_from_dict(raw_result()).trust
    assert (read, hash(read)) == (check, hash(check))
