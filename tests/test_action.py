"""The GitHub Action: its metadata are those that GitHub documents, its script does what it says.

https://docs.github.com/en/actions/reference/workflows-and-actions/metadata-syntax
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import strictyaml

from tests import sample

ROOT = Path(__file__).parents[1]
ACTION: dict[str, Any] = strictyaml.load((ROOT / "action.yml").read_text(encoding="utf-8")).data
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]

TOP = {"name", "author", "description", "inputs", "outputs", "runs", "branding"}
INPUT = {"description", "required", "default", "deprecationMessage"}
STEP = {"run", "shell", "if", "name", "id", "env", "working-directory", "uses", "with"}
STEP |= {"continue-on-error"}


def test_its_keys_are_those_that_github_knows() -> None:
    assert ACTION.keys() <= TOP
    assert ACTION["name"]
    assert ACTION["description"]
    assert ACTION["runs"].keys() == {"using", "steps"}
    assert ACTION["runs"]["using"] == "composite"
    for entry in ACTION["inputs"].values():
        assert entry.keys() <= INPUT
        assert entry["description"]
        assert ("default" in entry) != (entry.get("required") == "true")
    for entry in ACTION["outputs"].values():
        assert entry.keys() == {"description", "value"}
    for step in STEPS:
        assert step.keys() <= STEP
        # In a composite action each script names its shell.
        assert ("uses" in step) != ({"run", "shell"} <= step.keys())


def test_every_input_is_read_and_every_output_written() -> None:
    text = json.dumps(STEPS)
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == {*ACTION["inputs"]}
    for name, entry in ACTION["outputs"].items():
        assert entry["value"] == f"${{{{ steps.analyze.outputs.{name} }}}}"
        assert f"{name}=$" in STEPS[-1]["run"]


def test_no_input_becomes_a_part_of_a_script() -> None:
    assert not [step for step in STEPS if "${{" in step.get("run", "")]


def run_step(folder: Path, experiment: Path, gate: str = "true") -> tuple[int, dict[str, str], str]:
    """Run the last step as GitHub does; return its exit code, outputs and summary."""
    assert STEPS[-1]["shell"] == "bash"
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    command = bin_folder / "abeval"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m abeval "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    output, summary = folder / "output", folder / "summary"
    env = os.environ | {
        "EXPERIMENT": str(experiment),
        "GATE": gate,
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(summary),
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "RUNNER_TEMP": str(folder),
    }
    script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[-1]["run"]]
    done = subprocess.run(script, env=env, capture_output=True, text=True, check=False)  # noqa: S603
    lines = output.read_text(encoding="utf-8").splitlines() if output.exists() else []
    outputs = dict(line.split("=", 1) for line in lines)
    return done.returncode, outputs, summary.read_text() if summary.exists() else ""


@pytest.mark.whole
@pytest.mark.skipif(shutil.which("bash") is None, reason="GitHub runs the script in bash")
def test_the_sample_ships_and_says_so_in_the_summary_and_the_outputs(tmp_path: Path) -> None:
    code, outputs, summary = run_step(tmp_path, sample.FILE)
    assert code == 0
    assert outputs.keys() == {*ACTION["outputs"]}
    assert json.loads(outputs["brief"])["answer"]["decision"] == "ship"
    assert json.loads(outputs["slack"])["text"] == "sample: ship treatment"
    assert json.loads(Path(outputs["result"]).read_text(encoding="utf-8"))["schema_version"] == "1"
    assert "**SHIP**" in summary


@pytest.mark.first_cases(1)
@pytest.mark.whole
@pytest.mark.skipif(shutil.which("bash") is None, reason="GitHub runs the script in bash")
@pytest.mark.parametrize(("gate", "code"), [("true", 6), ("false", 0)])
def test_a_draft_fails_the_step_unless_the_gate_is_off(
    tmp_path: Path, gate: str, code: int
) -> None:
    (tmp_path / "units.csv").write_text(
        "user,group,spent\n" + "".join(f"{i},{'ab'[i % 2]},{i % 7}\n" for i in range(200))
    )
    experiment = tmp_path / "experiment.toml"
    experiment.write_text(
        'name = "x"\nunit = "user"\ncontrol = "a"\nquestions = ["is a control?"]\n'
        '[variants]\na = {}\nb = {}\n[logs.units]\npath = "units.csv"\n'
        'columns = { variant = "group" }\n[[metrics]]\nname = "spent"\n'
    )
    found, outputs, _ = run_step(tmp_path, experiment, gate)
    assert found == code
    assert json.loads(outputs["brief"])["answer"]["decision"] == "draft"


@pytest.mark.whole
@pytest.mark.skipif(shutil.which("bash") is None, reason="GitHub runs the script in bash")
def test_a_file_that_is_not_there_fails_without_outputs(tmp_path: Path) -> None:
    assert run_step(tmp_path, tmp_path / "nowhere.toml") == (2, {}, "")
