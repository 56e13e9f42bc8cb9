"""What a command imports: what it runs, and nothing that other commands need."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

HEAVY = {
    *("pandas", "pyarrow", "pyspark", "polars", "plotly", "jinja2", "tomlkit", "statsmodels"),
    "sqlglot",
    *("scipy.linalg", "scipy.optimize", "scipy.sparse", "scipy.stats", "rich.markdown"),
}
"""Packages that no command on the path of every day needs."""


BARE = ("duckdb", "numpy", "scipy.special")


@cache
def brought_by(*libraries: str) -> set[str]:
    """What libraries import themselves, such as `scipy.linalg` in some versions."""
    command = [sys.executable, "-c", f"import sys, {', '.join(libraries)}; print(*sys.modules)"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    return {*ran.stdout.split()}


OPTIONS = ("typer", "pydantic.types")
ANALYSIS = (*OPTIONS, *BARE, "markupsafe", "mmh3", "rich.table")

BUDGET: dict[str, tuple[tuple[str, ...], int]] = {
    "--version": (OPTIONS, 15),
    "--help": (("typer.rich_utils",), 15),
    "analyze": (ANALYSIS, 165),
    "analyze --checks": (ANALYSIS, 155),
    "aa": (ANALYSIS, 140),
    "power": (ANALYSIS, 150),
    "windows": (ANALYSIS, 160),
    "replay": (ANALYSIS, 125),
    # Its rows are frames of pandas.
    "agree": ((*ANALYSIS, "pandas"), 220),
}
"""Command → the libraries that it may use, and how many modules of abeval."""


OTHERS = {
    *(
        ".agreement",
        ".audit",
        ".drafts",
        ".history",
        ".off_policy",
        ".offline",
        ".simulate",
        ".study",
    ),
    *(".report.figures", ".report.page", ".engines.spark", ".engines.statement"),
    *(".results.agreement", ".results.history", ".results.off_policy", ".results.replay"),
}
"""Rooms and modules that most commands do without."""

JUDGING = {".inference.judge", ".inference.scorecard", ".inference.verdict"}

WITHOUT = {
    "analyze": {*HEAVY, *OTHERS, ".time", ".results.windows", ".results.power"},
    "analyze --checks": {*HEAVY, *OTHERS, ".time", ".results.windows", *JUDGING},
    "power": {*HEAVY, *OTHERS, ".results.windows", *JUDGING},
    "windows": {*HEAVY, *OTHERS, ".results.power", *JUDGING},
    "replay": {*HEAVY, ".inference", ".time", ".agreement", ".off_policy", *JUDGING},
}
"""Command → what it must not import."""

WITH = {
    "analyze": {".inference.judge", ".aggregates.collect", ".report.terminal"},
    "analyze --checks": {".inference.trust.checks", ".aggregates.collect", ".report.short"},
    "power": {".inference.power", ".aggregates.collect", ".report.short"},
    "windows": {".time.analysis", ".report.time_short"},
    "replay": {".offline.replay", ".report.replay_tables"},
}
"""Command → what it runs."""

PROBE = """
import atexit, json, sys
out = sys.argv.pop(1)
atexit.register(lambda: open(out, "w").write(json.dumps(sorted(sys.modules))))
from abeval.cli.main import main
main()
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment with a small log."""
    folder, rows = tmp_path_factory.mktemp("imports"), np.arange(4000)
    times = pd.Timestamp("2026-03-01").as_unit("us") + pd.to_timedelta(rows % 4000 * 60, unit="s")
    pd.DataFrame(
        {
            "user_id": rows % 400,
            "variant": np.where(rows % 2, "old", "new"),
            "ts": times,
            "request_id": rows // 4,
            "item_id": rows * 7 % 31,
            "position": rows % 4 + 1,
            "click": rows * 13 % 7 == 0,
            "score_old": rows * 11 % 17 / 17,
            "score_new": rows * 5 % 19 / 19,
        }
    ).to_parquet(folder / "log.parquet")
    path = folder / "experiment.toml"
    path.write_text(
        """
        name = "small"
        unit = "user_id"
        control = "old"
        variants = { old = { model = "old" }, new = { model = "new" } }
        models = { old = { score = "score_old" }, new = { score = "score_new" } }
        period = { start = 2026-03-01, end = 2026-03-04 }
        logs.impressions = { path = "log.parquet" }
        metrics = [{ name = "ctr", role = "goal" }, { name = "gauc" }, { name = "coverage" }]
        """,
        encoding="utf-8",
    )
    return path


@cache
def imported(folder: Path, *arguments: str) -> set[str]:
    """Names of the modules that a command imports; those of abeval begin with a dot."""
    out = folder / "modules.json"
    command = [sys.executable, "-c", PROBE, str(out), *arguments]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603
    names = json.loads(out.read_text(encoding="utf-8"))
    return {name.removeprefix("abeval") for name in names}


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("command", WITHOUT)
def test_a_command_imports_what_it_runs(file: Path, command: str) -> None:
    names = imported(file.parent, *command.split(), str(file))
    assert names >= {"duckdb", "numpy", "scipy.special", *WITH[command]}
    assert names & WITHOUT[command] - brought_by(*BARE) == set()


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("command", BUDGET)
def test_a_command_imports_few_libraries_and_modules(file: Path, command: str) -> None:
    libraries, most = BUDGET[command]
    names = imported(file.parent, *command.split(), *[str(file)] * (command[0] != "-"))
    packages = {name.split(".")[0] for name in names} & {*packages_distributions()}
    assert packages - brought_by(*libraries) == set()
    assert sum(name.startswith(".") for name in names) <= most


@pytest.mark.whole
def test_a_page_is_written_without_the_packages_that_only_its_reader_may_want(file: Path) -> None:
    result, page = str(file.parent / "result.json"), str(file.parent / "page.html")
    imported(file.parent, "analyze", str(file), "--json", result)
    names = imported(file.parent, "report", result, "--output", page)
    assert {"jinja2", ".report.page", ".report.time_page"} <= names
    assert names & {"plotly", "pandas", "pyarrow"} == set()


def test_the_version_needs_neither_an_engine_nor_statistics(tmp_path: Path) -> None:
    names = imported(tmp_path, "--version")
    assert (
        names & {"duckdb", "numpy", "scipy", "sqlglot", ".api", ".experiment", ".results"} == set()
    )


def test_the_package_imports_its_version_and_the_names_of_views_alone() -> None:
    probe = "import abeval, sys; print(*(m for m in sys.modules if m.startswith('abeval')))"
    found = subprocess.run(  # noqa: S603
        [sys.executable, "-c", probe], check=True, capture_output=True, text=True
    )
    assert set(found.stdout.split()) == {"abeval", "abeval.version", "abeval.views"}


def test_an_evaluation_of_one_table_needs_no_experiment_and_few_packages(file: Path) -> None:
    probe = (
        "import sys, abeval; log, scores = sys.argv[1], ['score_old']\n"
        "columns = abeval.JudgedColumns('user_id', None, 'item_id', 'click')\n"
        "metrics = ['ndcg@2[bin]', 'gauc[impressions]']\n"
        "print(abeval.evaluate_log(log, scores, columns=columns, metrics=metrics).values())\n"
        "print(*sys.modules)"
    )
    evaluated = subprocess.run(  # noqa: S603
        [sys.executable, "-c", probe, str(file.parent / "log.parquet")],
        check=True,
        capture_output=True,
        text=True,
    )
    names = set(evaluated.stdout.split())
    assert "abeval.offline.sums" in names
    without = {*HEAVY, "sqlglot", "abeval.logs", "abeval.experiment.model"}
    assert names & without - brought_by(*BARE) == set()


def test_records_of_results_are_read_without_scipy() -> None:
    probe = "import abeval.results.replay, sys; print('scipy.special' in sys.modules)"
    answer = subprocess.run(  # noqa: S603
        [sys.executable, "-c", probe], check=True, capture_output=True, text=True
    )
    assert answer.stdout.split() == ["False"]


def test_to_define_records_and_models_compiles_nothing() -> None:
    probe = (
        "import abeval.results.analysis as results, abeval.experiment.model as model\n"
        "kinds = [k for k in vars(results).values() if isinstance(k, type)]\n"
        "records = [k for k in kinds if issubclass(k, results.DrawnRecord)]\n"
        "print(len(records), any('__init__' in vars(k) for k in records))\n"
        "print(model.Experiment.__pydantic_complete__)"
    )
    answer = subprocess.run(  # noqa: S603
        [sys.executable, "-c", probe], check=True, capture_output=True, text=True
    )
    records, *compiled = answer.stdout.split()
    assert int(records) > 1
    assert compiled == ["False", "False"]
