"""Definitions that several experiment files share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import abeval
from abeval.errors import ExperimentError
from abeval.experiment.model import Experiment
from tests.cli.test_cli import call
from tests.logs.small import small_log

HEAD = 'name = "t"\nunit = "user_id"\ncontrol = "a"\nvariants = {a = {}, b = {}}\n'
LIBRARY = """\
[[metrics]]
name = "clicks"
value = "click"
role = "goal"

[[metrics]]
name = "seconds"
value = "dwell"
unit = "s"
role = "guardrail"
margin = 0.1

[[metrics]]
name = "speed"
function = "seconds / clicks"
"""
LOGS = '[logs.impressions]\npath = "rows.parquet"\n[cleaning]\nduplicates = "unchecked"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An experiment, shared metrics, and logs with their rows in a folder of their own."""
    (tmp_path / "shared").mkdir()
    small_log().to_parquet(tmp_path / "shared" / "rows.parquet")
    (tmp_path / "shared" / "logs.toml").write_text(LOGS)
    (tmp_path / "metrics.toml").write_text(LIBRARY)
    (tmp_path / "e.toml").write_text('include = ["metrics.toml", "shared/logs.toml"]\n' + HEAD)
    return tmp_path


def loaded(folder: Path, entries: str = "") -> Experiment:
    text = (folder / "e.toml").read_text()
    (folder / "e.toml").write_text(text + entries)
    return abeval.load(folder / "e.toml").experiment


def metrics(experiment: Experiment) -> dict[str, Any]:
    return {m.name: (m.role, m.margin) for m in experiment.metrics}


def test_without_metrics_of_its_own_a_file_gets_all(folder: Path) -> None:
    experiment = loaded(folder)
    assert metrics(experiment) == {
        "clicks": ("goal", None),
        "seconds": ("guardrail", 0.1),
        "speed": (None, None),
    }


def test_a_file_chooses_by_name_and_overrides(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(folder, '[[metrics]]\nname = "seconds"\nmargin = 0.9\n[[metrics]]\nname = "ctr"\n')
    out = folder / "o.json"
    assert call(monkeypatch, "analyze", folder / "e.toml", "--json", out) == 0
    result = json.loads(out.read_text())
    assert [row["metric"] for row in result["scorecard"]] == ["seconds", "ctr"]
    (info,) = [one for one in result["metrics"] if one["name"] == "seconds"]
    assert (info["margin"], info["role"], info["unit"]) == (0.9, "guardrail", "s")


def test_the_same_as_one_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = LOGS.replace("rows", "shared/rows")
    (folder / "one.toml").write_text(HEAD + one + LIBRARY)
    for name in ("e", "one"):
        out = folder / f"{name}.json"
        assert call(monkeypatch, "analyze", folder / f"{name}.toml", "--json", out) == 0
    assert (folder / "e.json").read_text() == (folder / "one.json").read_text()


def test_the_parts_of_a_function_come_with_it(folder: Path) -> None:
    experiment = loaded(folder, '[[metrics]]\nname = "speed"\nrole = "goal"\n')
    assert metrics(experiment) == {
        "speed": ("goal", None),
        "seconds": ("diagnostic", 0.1),
        "clicks": ("diagnostic", None),
    }


def test_a_new_definition_replaces_the_whole_one(folder: Path) -> None:
    entry = '[[metrics]]\nname = "seconds"\nnumerator = "dwell"\ndenominator = "click"\n'
    experiment = loaded(folder, entry)
    (metric,) = experiment.metrics
    assert (metric.value, metric.numerator, metric.margin) == (None, "dwell", 0.1)


def test_later_files_win_and_files_include_others(folder: Path) -> None:
    (folder / "shared" / "base.toml").write_text("alpha = 0.1\n[clicks]\nlong_seconds = 20\n")
    (folder / "shared" / "more.toml").write_text('include = ["base.toml"]\nalpha = 0.01\n')
    text = (
        (folder / "e.toml").read_text().replace('["', '["shared/base.toml", "shared/more.toml", "')
    )
    (folder / "e.toml").write_text(text)
    experiment = loaded(folder)
    assert (experiment.alpha, experiment.clicks.long_seconds) == (0.01, 20)
    again = abeval.load(folder / "e.toml").replace(alpha=0.02).experiment
    assert (again.alpha, again.clicks) == (0.02, experiment.clicks)
    assert again.logs == experiment.logs


def test_in_python_too(folder: Path) -> None:
    own = {"include": ["metrics.toml"], "name": "t", "unit": "user_id", "control": "a"}
    variants = {"variants": {"a": {}, "b": {}}, "logs": {"impressions": {}}}
    assert len(abeval.define({**own, **variants}, folder).experiment.metrics) == 3


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (
            {"metrics.toml": 'include = ["e.toml"]\n'},
            "in a circle: .*e.toml includes .*metrics.toml",
        ),
        ({"metrics.toml": 'include = ["./metrics.toml"]\n'}, "in a circle"),
        (
            {"metrics.toml": 'include = ["gone.toml"]\n'},
            "no file at .*gone.toml; .*metrics.toml incl",
        ),
        ({"metrics.toml": "x = \n"}, "metrics.toml, which .*e.toml includes, is not valid TOML"),
        ({"metrics.toml": 'include = "a.toml"\n'}, "metrics.toml: include is 'a.toml', not a list"),
        ({"metrics.toml": "[[metrics]]\nname = 'm'\nvalu = 'x'\n"}, "did you mean `value`"),
    ],
)
def test_what_cannot_be_included_is_said(folder: Path, files: dict[str, str], says: str) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)
    with pytest.raises(ExperimentError, match=says):
        loaded(folder)


def test_an_output_does_not_replace_an_included_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "metrics.toml"
    monkeypatch.chdir(folder)
    assert call(monkeypatch, "analyze", folder / "e.toml", "--json", file) == 2
    assert "would replace the included metrics.toml" in capsys.readouterr().err
    assert file.read_text() == LIBRARY


def test_the_schema_knows_it() -> None:
    properties = Experiment.model_json_schema()["properties"]
    assert properties["include"]["type"] == "array"
    assert "folder" not in properties


def test_paths_by_variant_start_at_the_folder_of_their_file(folder: Path) -> None:
    text = LOGS.replace('"rows.parquet"', '{ a = "a.parquet", b = ["b.parquet"] }')
    (folder / "shared" / "logs.toml").write_text(text)
    log = loaded(folder).logs.impressions
    assert log is not None
    assert log.paths == [str(folder / "shared" / f"{name}.parquet") for name in "ab"]
