"""Which engine an analysis runs on, what it may use, and the flags that say so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import abeval
from abeval.api import LoadedExperiment
from abeval.errors import ExperimentError, QueryError
from abeval.experiment.sections import EngineOptions
from abeval.logs.run import open_engine
from abeval.simulate import simulate
from tests.cli.test_cli import call

COMMANDS = {
    "analyze": [],
    "analyze --pairs ctr": [],
    "power": ["--mde", "5%"],
    "windows": ["--metric", "ctr"],
    "aa": ["--metric", "ctr", "--runs", "10"],
    "replay": ["--k", "1"],
    "off-policy": ["--from", "control", "--to", "treatment"],
}
"""Every command that takes an experiment."""


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> LoadedExperiment:
    folder = tmp_path_factory.mktemp("logs")
    simulate(folder, impressions=40_000)
    return abeval.load(folder / "experiment.toml")


@pytest.mark.whole
def test_an_analysis_that_does_not_fit_spills_and_says_the_same(
    experiment: LoadedExperiment, tmp_path: Path
) -> None:
    folder = tmp_path / "spill"
    spilled = []
    # DuckDB has half of it.
    small = experiment.replace(
        engine={"memory_limit": "60MB", "threads": 1, "temp_directory": str(folder)}
    )
    found = small.analyze(step=lambda _: spilled.append(folder.is_dir() and any(folder.iterdir())))
    assert any(spilled)
    assert found.to_json() == experiment.analyze().to_json()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_the_flags_of_the_engine(
    command: str,
    experiment: LoadedExperiment,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = experiment.experiment.folder / "experiment.toml"
    flags = ["--memory-limit", "1KB", "--threads", "1", "--temp-directory", file.parent / "t"]
    assert call(monkeypatch, *command.split(), file, *COMMANDS[command], *flags) == 2
    assert "out of memory" in capsys.readouterr().err.lower()


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--memory-limit", "much"], 'should be a size such as "4GB"'),
        (["--threads", "0"], "--threads"),
        (["--engine", "oracle"], "engine.name"),
    ],
)
def test_a_flag_that_makes_no_sense_is_refused(
    flags: list[str],
    says: str,
    experiment: LoadedExperiment,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = experiment.experiment.folder / "experiment.toml"
    assert call(monkeypatch, "analyze", file, *flags) == 2
    assert says in capsys.readouterr().err


def test_a_flag_leaves_the_other_entries_of_the_file(tmp_path: Path) -> None:
    options = EngineOptions(threads=1, memory_limit="123MiB")
    engine = open_engine(options, tmp_path, choice="duckdb")
    settings = "select current_setting('memory_limit'), current_setting('threads')"
    assert engine.rows(settings) == [("61.5 MiB", 1)]
    engine.close()


def test_what_is_no_engine_is_refused(experiment: LoadedExperiment) -> None:
    for wrong in ("oracle", 7):
        with pytest.raises(ExperimentError, match="unknown engine"):
            experiment.analyze(engine=wrong)  # type: ignore[arg-type]


def test_without_pyspark_it_says_what_to_install(
    experiment: LoadedExperiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pyspark", "pyspark.errors", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(QueryError, match="needs pyspark") as missing:
        experiment.analyze(engine="spark")
    assert missing.value.hint is not None
    assert "abeval-logs[spark]" in missing.value.hint


def test_an_address_where_no_server_is_says_so_at_once(experiment: LoadedExperiment) -> None:
    pytest.importorskip("pyspark")
    away = experiment.replace(engine={"name": "spark", "address": "sc://localhost:1"})
    with pytest.raises(QueryError, match="no Spark Connect server answers at 'sc://localhost:1'"):
        away.analyze()


def test_limits_of_memory_are_bytes() -> None:
    sizes = ("4GB", "4GiB", "512 MiB", "1.5KB")
    limits = [EngineOptions(memory_limit=size).memory for size in sizes]
    assert limits == [4 * 10**9, 4 << 30, 512 << 20, 1500]
