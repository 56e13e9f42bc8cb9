"""Every command and block of code of README.md and docs/ runs, as it stands there, on a small log.

What cannot run here is in `ELSEWHERE`, with the reason. `tests/test_docs_methods.py` runs the
examples of docs/methods.md, `tests/test_docs.py` checks the names in all of them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import abeval
from abeval.cli.main import app
from tests.test_docs import DOCS

ELSEWHERE = {
    r"pip install": "it needs a network",
    r"python3 -m venv": "it needs a network; .ci/run runs README's first command in a fresh clone",
    r"pytest": "it is the suite",
    r"python (-m )?benchmarks": "minutes to hours; tests/calibration has short versions",
    r"python -m tests\.malformed": "minutes; tests/malformed/test_malformed.py is short",
    r"bash \.ci/run": "it runs this suite",
    r"--connect|connect=|sql --sums": "it needs a warehouse: tests/table/test_warehouse.py",
    r"--engine spark|engine=spark": "it needs Java; tests/engines run it with -m spark",
}
"""Commands that are not run here, and why."""

NO_CODE = {
    "README.md": ("SHIP, NO GUARDRAIL SET",),
    "docs/agreement.md": ("model   = ½",),
    "docs/data.md": ("variant,users,conversions",),
    "docs/design.md": ("logs ──views", "plan     experiment"),
    "docs/programs.md": ("- uses:",),
    "queries/README.md": ("your files ──▶",),
}
"""Blocks that are formulas, drawings, or what a command prints."""

PAGES = sorted(set(DOCS) - {"CHANGELOG.md", "docs/methods.md"})


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Language and text of every fenced and every indented block."""
    fenced = r"^```(\w*)\n(.*?)^```"
    for match in re.finditer(fenced, text, re.DOTALL | re.MULTILINE):
        yield match[1], match[2]
    bare = re.sub(fenced, "", text, flags=re.DOTALL | re.MULTILINE)
    for match in re.finditer(r"(?<=\n\n)((?: {4}[^\n]*\n)+)", bare):
        yield "", re.sub(r"^ {4}", "", match[1], flags=re.MULTILINE)


def commands(page: str) -> Iterator[str]:
    """The lines of a page that are for a shell."""
    for language, block in blocks(DOCS[page]):
        if language in ("", "sh"):
            for line in block.replace("\\\n", " ").splitlines():
                if re.match(r"(\S+/)?(abeval|python3?|pip|bash)\s|\w+=\S+ ", line):
                    yield re.sub(r"\s+#.*$", "", line)


def python(page: str) -> Iterator[str]:
    """The Python of a page: blocks, and lines that call abeval or a result."""
    for language, block in blocks(DOCS[page]):
        if language == "python":
            yield block
        elif not language:
            yield from (x for x in block.splitlines() if re.match(r"(abeval|result)\.\w+\(", x))


def known(page: str, language: str, block: str) -> bool:
    """Whether a block is of a kind that a test here runs."""
    if language in ("python", "sh", "toml", "text"):
        return language != "text" or block.startswith(NO_CODE.get(page, ()))
    lines = [line for line in block.splitlines() if line.strip()]
    of_shell = list(commands(page))
    of_python = list(python(page))
    shown = all(re.sub(r"\s+#.*$", "", x) in of_shell or x in of_python for x in lines)
    return shown or block.startswith((*NO_CODE.get(page, ()), "select ", "include = ", "  [["))


@pytest.mark.parametrize("page", PAGES)
def test_no_block_is_of_another_kind(page: str) -> None:
    for language, block in blocks(DOCS[page]):
        assert known(page, language, block), block


EXPERIMENT = """
name = "docs"
unit = "user_id"
control = "control"
[period]
start = 2026-09-14
end = 2026-09-17
[pre_period]
start = 2026-09-13
end = 2026-09-14
[variants.control]
model = "baseline"
[variants.treatment]
model = "candidate"
[models.baseline]
score = "score_baseline"
[models.candidate]
score = "score_candidate"
[logs.impressions]
path = "impressions/*.parquet"
columns = { ts = "time" }
[cleaning]
duplicates = "unchecked"
[engine]
threads = 1
[trust]
aa_runs = 0
[[metrics]]
name = "ctr"
role = "goal"
[[metrics]]
name = "clicks_per_user"
"""

POLICY = """
name = "policy"
unit = "user_id"
control = "random"
[variants.random]
[variants.bts]
[logs.impressions]
path = "policy.parquet"
[[metrics]]
name = "ctr"
"""


def log(rows: int = 1200) -> pd.DataFrame:
    """Lists of five to a hundred users, on four days."""
    rng = np.random.default_rng(5)
    request = np.arange(rows) // 5
    user = rng.integers(0, 100, rows)[request]
    score = rng.random(rows)
    start = pd.Timestamp("2026-09-13")
    seconds = rng.integers(0, 4 * 86_400, rows)[request]
    return pd.DataFrame(
        {
            "user_id": user,
            "variant": np.where(user % 2 == 0, "control", "treatment"),
            "time": (start + pd.to_timedelta(seconds, "s")).as_unit("ms"),
            "request_id": request,
            "item_id": rng.integers(0, 40, rows),
            "position": np.arange(rows) % 5 + 1,
            "price": rng.integers(1, 9, rows),
            "click": (rng.random(rows) < 0.1 + 0.2 * score).astype(int),
            "dwell_ms": 9_000,
            "score_baseline": np.round(rng.random(rows), 3),
            "score_candidate": np.round(score, 3),
        }
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Every file that the pages name, small; the working folder meanwhile."""
    folder, before = tmp_path_factory.mktemp("docs"), Path.cwd()
    (folder / "impressions").mkdir()
    rows = log()
    rows.to_parquet(folder / "impressions" / "log.parquet", index=False)
    (folder / "experiment.toml").write_text(EXPERIMENT, encoding="utf-8")
    (folder / "sample_logs").symlink_to(folder)
    users = rows.groupby(["user_id", "variant"], as_index=False).agg(
        revenue=("price", "sum"), clicks=("click", "sum"), views=("click", "size")
    )
    users["converted"], users["spent_before"] = users.clicks > 2, users.views + users.revenue % 7
    users = users.rename(columns={"variant": "group"})
    users.to_csv(folder / "users.csv", index=False)
    pd.DataFrame({"user_id": range(9)}).to_csv(folder / "IDS.csv", index=False)
    os.chdir(folder)
    yield folder
    os.chdir(before)
    shutil.rmtree(folder)


def run(command: str) -> None:
    words = shlex.split(command)
    assert words[0] == "abeval", command
    done = CliRunner().invoke(app, words[1:])
    assert done.exit_code == 0, f"{command}: {done.exception} {done.output}"


@pytest.mark.whole
def test_the_commands_of_the_pages_run(world: Path) -> None:
    """Each once, in the order of the pages, after what writes the files that they read."""
    prepare(world)
    every = [line for page in PAGES for line in commands(page)]
    assert set(FIRST) <= set(every)
    lines = [line for line in every if line not in FIRST]
    skipped = dict.fromkeys(ELSEWHERE, False)
    for line in dict.fromkeys(lines):
        reasons = [why for why in ELSEWHERE if re.search(why, line)]
        skipped |= dict.fromkeys(reasons, True)
        if not reasons:
            run(small(line))
    assert all(skipped.values()), skipped


FIRST = (
    "abeval analyze experiment.toml --json result.json",
    "abeval replay experiment.toml --json replay.json",
)
"""Commands of docs/agreement.md whose files earlier pages read."""

SMALL = {
    r"--impressions 200000": "--impressions 5000",
    r"simulate DIR": "simulate log.d",
    r"(aggregates) (DIR|FOLDER)": r"\1 kept.d",
    r"off-policy experiment.toml": "off-policy policy.toml",
}
"""What a command names → what it names here: less of it, and folders of its own."""


def small(line: str) -> str:
    for pattern, other in SMALL.items():
        line = re.sub(pattern, other, line)
    return line


def prepare(world: Path) -> None:
    """Files that commands read, and no command of an earlier page writes."""
    for line in FIRST:
        run(line)
    for name in ("time", "windows"):
        run(f"abeval windows experiment.toml --json {name}.json")
    (world / "holdout.toml").write_text(EXPERIMENT + "[holdout]\n", encoding="utf-8")
    result = json.loads((world / "result.json").read_text(encoding="utf-8"))
    # Without its digest a result may have another name.
    del result["digest"]
    for i in range(6):
        text = json.dumps(result)
        (world / f"{i}.json").write_text(text.replace('"docs"', f'"docs {i}"'), encoding="utf-8")
        run(f"abeval history add {i}.json --history history.parquet")
    rule = EXPERIMENT + '[assignment]\nsalt = "docs"\n'
    for name, salt in (("EXPERIMENT", "docs"), ("next", "next")):
        text = rule.replace('"docs"', f'"{salt}"')
        (world / f"{name}.toml").write_text(text, encoding="utf-8")
    rows = log()
    rows[["user_id", "variant"]].drop_duplicates().to_csv(world / "units.csv", index=False)
    policy = rows.assign(variant=np.where(rows.user_id % 2, "bts", "random"), propensity=1 / 40)
    policy.to_parquet(world / "policy.parquet", index=False)
    (world / "policy.toml").write_text(POLICY, encoding="utf-8")
    (sums,) = [block for _, block in blocks(DOCS["docs/data.md"]) if block.startswith("select ")]
    counts = pd.DataFrame({"variant": ["a", "b"], "users": [900, 910], "signups": [90, 99]})
    counts.to_csv(world / "counts.csv", index=False)
    impressions = rows  # noqa: F841 (the query of the page reads it by this name)
    duckdb.sql(sums).df().to_csv(world / "weekly.csv", index=False)


def test_the_example_of_the_readme_prints_what_stands_below_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    (language, example), (_, shown) = [*blocks(DOCS["README.md"])][:2]
    assert language == "python"
    exec(compile(example, "README.md", "exec"), {})  # noqa: S102
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    *lines, more = shown.splitlines()
    assert more == "…"
    assert printed[: len(lines)] == lines


@pytest.mark.whole
def test_the_python_of_the_pages_runs(world: Path) -> None:
    """Page by page, with the names that its text speaks of."""
    loaded = abeval.load("experiment.toml")
    rows = log().assign(grade=lambda x: x.click, unit_id=lambda x: x.user_id, score=0.5)
    rows.to_parquet("log.parquet", index=False)
    names = {
        "abeval": abeval,
        "result": loaded.analyze(),
        "replay": loaded.replay(metrics=["auc"]),
        "users": pd.read_csv("users.csv"),
        "run": pd.DataFrame({"request_id": [1, 1], "item_id": ["a", "b"], "score": [0.9, 0.8]}),
        "truth": pd.DataFrame({"request_id": [1], "item_id": ["b"]}),
    }
    (world / "policy.toml").write_text(POLICY, encoding="utf-8")
    policy = log().assign(propensity=1 / 40)
    policy["variant"] = np.where(policy.user_id % 2, "bts", "random")
    policy.to_parquet("policy.parquet", index=False)
    ran = 0
    for page in PAGES:
        own: dict[str, Any] = dict(names)
        for code in python(page):
            if any(re.search(why, code) for why in ELSEWHERE):
                continue
            # Two pages have an experiment.toml of another log.
            here = code.replace("experiment.toml", "policy.toml") if "off_policy" in code else code
            exec(compile(here, page, "exec"), own)  # noqa: S102
            ran += 1
    assert ran >= 10


BASE = """
name = "x"
unit = "user_id"
control = "old"
variants = { old = {}, new = {} }
logs.impressions.path = "log.parquet"
"""


@pytest.mark.parametrize("page", [p for p in PAGES if "[[" in DOCS[p] or "```toml" in DOCS[p]])
def test_the_entries_of_the_pages_are_valid(page: str) -> None:
    """Each block of TOML, in an experiment that has the rest."""
    for language, block in blocks(DOCS[page]):
        if language == "toml" or (not language and block.lstrip().startswith("[[")):
            entries = tomllib.loads(block)
            if "project" in entries:
                continue  # The file of a package that adds to abeval.
            base = tomllib.loads(BASE) if "control" not in entries else {}
            if "splits" in entries.get("assignment", {}):
                base |= {"timezone": "UTC", "variants": {"control": {}, "treatment": {}}}
                base["control"] = "control"
                entries["assignment"]["salt"] = "x"
            defined = abeval.define(merged(base, entries)).experiment
            assert entries.keys() <= defined.model_fields_set, block


def merged(base: dict[str, Any], entries: dict[str, Any]) -> dict[str, Any]:
    """Entries over others, table by table."""
    both = {**base, **entries}
    for name in base.keys() & entries.keys():
        if isinstance(base[name], dict):
            both[name] = merged(base[name], entries[name])
    return both
