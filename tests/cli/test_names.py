"""Names of commands: four groups, examples of help, JSON on stdout."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from abeval.cli.main import app
from abeval.report.markdown import MOST_LINES
from tests.cli.test_apart import ALL
from tests.cli.test_outputs import EXPERIMENT
from tests.logs.small import small_log
from tests.test_docs_run import log, prepare, world

__all__ = ["world"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment, a draft of it, one of a broken split, ids, and a result."""
    folder = tmp_path_factory.mktemp("names")
    (folder / "logs").mkdir()
    small_log().to_parquet(folder / "logs" / "one.parquet")
    text = EXPERIMENT.replace("PATH", "logs")
    uneven = text.replace("b = {}", "b = {weight = 9}")
    drafted = f'questions = ["which?"]\n{text}'
    for name, one in {"e": text, "uneven": uneven, "draft": drafted}.items():
        (folder / f"{name}.toml").write_text(one)
    (folder / "ids.csv").write_text("user\n1\n2\n")
    return folder


def run(line: str) -> Result:
    return CliRunner().invoke(app, shlex.split(line))


@pytest.mark.whole
def test_analyze_writes_the_whole_page_and_its_json_and_markdown(world: Path) -> None:
    files = ("page.html", "study.json", "page.md")
    reports = " ".join(f"--report {file}" for file in files)
    done = run(f"analyze experiment.toml {reports} --json result.json")
    assert (done.exit_code, done.stderr) == (0, "")
    study = json.loads((world / "study.json").read_text(encoding="utf-8"))
    assert study["time"] is not None
    result = json.loads((world / "result.json").read_text(encoding="utf-8"))
    assert result.pop("digest") != study["digest"]
    assert result == study["analysis"]
    for file, format in ((files[0], "html"), (files[2], "md")):
        done = run(f"report study.json --output again.{format} --format {format}")
        assert (done.exit_code, done.stdout) == (0, "")
        assert (world / f"again.{format}").read_bytes() == (world / file).read_bytes()


def test_an_experiment_is_not_reported_but_analyzed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    done = run("report e.toml --output page.html")
    assert "e.toml is an experiment file, not a result" in f"{done.exception}"
    assert "abeval analyze e.toml --report report.html" in f"{done.exception}"


def test_options_that_do_not_go_together_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert "--unit is for a table" in f"{run('analyze e.toml --unit user').exception}"
    both = run("analyze e.toml --sums sums.csv --connect chdb:folder")
    assert "--sums has the sums that --connect would ask for" in f"{both.exception}"
    shares = run("tools assign ids.csv --salt s --variants a=half,b=half")
    assert "weights that are no numbers" in f"{shares.exception}"


def test_markdown_on_stdout_is_that_of_the_result(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    file = tmp_path / "o.json"
    shown = run(f"analyze e.toml --format md --json {file}")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout == run(f"report {file} --format md").stdout
    assert shown.stdout.startswith("## ")
    assert shown.stdout.count("\n\n") < MOST_LINES
    both = run("analyze e.toml --format md --brief")
    assert "--brief and --format" in f"{both.exception}"


def test_the_help_has_four_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    text = run("--help").stdout
    parts = re.split(r"─ (Decide|Explain|Trust|Tools) ─", text)
    listed = {
        title: re.findall(r"^│ ([a-z-]+) ", body, re.MULTILINE)
        for title, body in zip(parts[1::2], parts[2::2], strict=True)
    }
    assert listed == {
        "Decide": ["init", "analyze", "windows", "power"],
        "Explain": ["replay", "agree", "off-policy", "history"],
        "Trust": ["aa", "audit"],
        "Tools": ["report", "mcp", "tools"],
    }
    assert "--install-completion" in text


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--checks --report p.html", "--checks has no --report"),
        ("--checks --format md", "--checks has no --format"),
        ("--checks --pairs ctr", "--pairs has no --checks"),
        ("--pairs ctr --gate", "--pairs has no --gate"),
        ("--pairs ctr --connect x", "--pairs has no --connect"),
    ],
)
def test_what_only_checks_or_compares_has_no_other_outputs(
    options: str, says: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    done = run(f"analyze e.toml {options}")
    assert says in f"{done.exception}"
    assert not Path("p.html").exists()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("analyze e.toml", 0),
        ("analyze uneven.toml --gate", 3),
        ("analyze e.toml --checks", 0),
        ("analyze e.toml --pairs ctr", 0),
        ("power e.toml --mde 5%", 0),
        ("tools assign ids.csv --salt s --variants a=1,b=1", 0),
        ("tools assign --explain 7 --salt s --variants a=1,b=1", 0),
    ],
)
def test_json_to_stdout_is_that_of_a_file_and_stands_alone(
    line: str, code: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    file = tmp_path / "o.json"
    kept, shown = run(f"{line} --json {file}"), run(f"{line} --json -")
    assert (kept.exit_code, shown.exit_code) == (code, code)
    assert shown.stdout == file.read_text(encoding="utf-8")
    assert json.loads(shown.stdout)
    assert not Path("-").exists()


@pytest.mark.parametrize(("names", "command"), ALL)
def test_help_ends_with_two_examples(names: tuple[str, ...], command: object) -> None:
    assert len(examples(command)) == 2
    assert all(one.startswith(f"abeval {' '.join(names)}") for one in examples(command))
    assert max(map(len, examples(command))) <= 78


def examples(command: object) -> list[str]:
    head, *lines = getattr(command, "epilog").split("\n\n")  # noqa: B009
    assert head == "Examples:"
    return lines


HERE = {
    r" \| curl .*": "",
    "audit experiment": "audit EXPERIMENT",
    "off-policy experiment.toml --from control": "off-policy policy.toml --from random",
    "--to treatment": "--to bts",
    " > .*": "",
    "simulate logs$": "simulate log.d --impressions 5000",
    "50000": "5000",
    "mcp experiments logs": "mcp . .",
    r"impressions/\*": "impressions/log",
}
"""What an example names → what it names in the world of docs."""


@pytest.mark.whole
def test_the_examples_of_the_help_run(world: Path) -> None:
    prepare(world)
    (world / "ids.csv").write_text("user\n1\n2\n")
    clicked = log().query("click == 1")
    clicked[["user_id", "item_id", "time"]].to_csv(world / "clicks.csv", index=False)
    (world / "policy.csv").write_text(
        "item_id,probability\n" + "".join(f"{i},0.025\n" for i in range(40))
    )
    lines = [line for _, command in (one.values for one in ALL) for line in examples(command)]
    # First what writes the files that others read.
    lines.sort(key=lambda line: "agree" not in line)
    for line in lines:
        for pattern, other in HERE.items():
            line = re.sub(pattern, other, line)
        done = run(line.removeprefix("abeval "))
        assert done.exit_code == 0, (line, done.output, done.exception)
