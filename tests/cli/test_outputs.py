"""No output replaces what a command reads, another output, or becomes a log of the next run."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import abeval
from abeval.engines.duckdb import DuckDBEngine
from abeval.errors import AbevalError, ExperimentError
from abeval.simulate import simulate
from tests.cli.test_cli import call
from tests.logs.small import small_log

EXPERIMENT = """\
name = "t"
unit = "user_id"
control = "a"
variants = {a = {}, b = {}}
metrics = [{name = "ctr"}]
cleaning.duplicates = "unchecked"
logs.impressions.path = "PATH"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    small_log().to_parquet(tmp_path / "logs" / "one.parquet")
    (tmp_path / "e.toml").write_text(EXPERIMENT.replace("PATH", "logs"))
    (tmp_path / "glob.toml").write_text(EXPERIMENT.replace("PATH", "lo*/*.parquet"))
    (tmp_path / "link.toml").symlink_to(tmp_path / "e.toml")
    (tmp_path / "link.parquet").symlink_to(tmp_path / "logs" / "one.parquet")
    (tmp_path / "linked").symlink_to(tmp_path / "logs", target_is_directory=True)
    (tmp_path / "kept").mkdir()
    (tmp_path / "policy.csv").write_text("item_id,probability\n1,1\n")
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read: no engine starts."""

    def started(*_: object, **__: object) -> None:
        raise AssertionError("an engine was started")

    monkeypatch.setattr(DuckDBEngine, "__init__", started)


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--json e.toml", "--json would replace the experiment file: "),
        ("--json ./logs/../e.toml", "--json would replace the experiment file: "),
        ("--csv link.toml", "--csv would replace the experiment file: "),
        ("--report e.toml", "--report would replace the experiment file: "),
        ("--json logs/one.parquet", "--json would replace the log impressions: "),
        ("--csv link.parquet", "--csv would replace the log impressions: "),
        ("--json linked/one.parquet", "--json would replace the log impressions: "),
        ("--report link.parquet", "--report would replace the log impressions: "),
        ("--report logs/new.html", "--report would be read as the log impressions by the next"),
        ("--csv linked/o.csv", "--csv would be read as the log impressions by the next run"),
        ("--json o --csv o", "--json and --csv would write the same file: "),
        ("--json o --report ./logs/../o", "--json and --report would write the same file: "),
        ("--json logs/one.parquet.wal", "--json would replace the log impressions: "),
        ("--csv linked/one.parquet-wal", "--csv would replace the log impressions: "),
        ("--report logs/one.parquet-shm", "--report would replace the log impressions: "),
        ("--json e.toml-journal", "--json would replace the experiment file: "),
        ("--json ", "the name is empty"),
        ("--temp-directory ", "engine.temp_directory"),
    ],
)
def test_refused_before_anything_is_read(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: str,
    said: str,
) -> None:
    monkeypatch.chdir(folder)
    before = contents(folder)
    assert call(monkeypatch, "analyze", "e.toml", *options.split(" ")) == 2
    assert said in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert contents(folder) == before


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("windows e.toml --json e.toml", "would replace the experiment file"),
        ("analyze e.toml --pairs ctr --json logs/one.parquet", "would replace the log"),
        ("power e.toml --json link.parquet", "would replace the log"),
        ("aa e.toml --json e.toml", "would replace the experiment file"),
        ("replay e.toml --json o --report o", "would write the same file"),
        ("off-policy e.toml --from a --policy policy.csv --json policy.csv", "replace --policy"),
        (
            "tools assign policy.csv --salt s --variants a=1,b=1 --json policy.csv",
            "replace the ids",
        ),
        ("audit e.toml --against o=policy.csv --json policy.csv", "--json would replace --against"),
        ("report policy.csv --output q.html --json q.html", "would write the same file"),
        ("init logs --output logs/e.toml", "--output would be read as the files by the next run"),
    ],
)
def test_every_command_that_writes_is_held(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: str,
    said: str,
) -> None:
    monkeypatch.chdir(folder)
    before = contents(folder)
    assert call(monkeypatch, *arguments.split()) == 2
    assert said in capsys.readouterr().err
    assert contents(folder) == before


@pytest.mark.whole
def test_outputs_of_their_own_are_written_twice(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    outputs = "--json o.json --csv o.csv --report kept/o.html"
    for _ in range(2):
        assert call(monkeypatch, "analyze", "e.toml", *outputs.split()) == 0


def test_a_report_replaces_a_page_and_nothing_else(folder: Path) -> None:
    result = abeval.load(folder / "e.toml").analyze()
    page = result.report(folder / "page.html")
    assert result.report(page).read_text().startswith("<!doctype html>")
    (folder / "empty.html").touch()
    result.report(folder / "empty.html")
    before = contents(folder)
    for name in ("e.toml", "link.parquet", "logs/one.parquet"):
        with pytest.raises(AbevalError, match="not an HTML page"):
            result.report(folder / name)
    assert contents(folder) == before


def test_simulate_needs_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, "tools", "simulate", "", "--impressions", 2_000) == 2
    assert "the name is empty" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    with pytest.raises(ExperimentError, match="the name is empty"):
        simulate("")


@pytest.mark.parametrize("option", ["--json", "--csv", "--report"])
def test_links_in_a_circle_are_told_of_in_words(
    option: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (folder / "loop").symlink_to("pool")
    (folder / "pool").symlink_to("loop")
    assert call(monkeypatch, "analyze", folder / "e.toml", option, folder / "loop") == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "loop" in said


def test_a_log_or_ids_of_links_in_a_circle_are_told_of_in_words(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "loop").symlink_to("loop")
    (folder / "e.toml").write_text(EXPERIMENT.replace("PATH", "loop"))
    ids = ("tools", "assign", folder / "loop", "--salt", "s", "--variants", "a=1,b=1")
    for arguments in (("analyze", folder / "e.toml"), ids):
        assert call(monkeypatch, *arguments, "--json", folder / "o.json") == 2
        assert "loop" in capsys.readouterr().err
