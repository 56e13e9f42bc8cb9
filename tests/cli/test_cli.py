"""The command line: results on stdout, messages on stderr, files whole, the same on every run."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from typer.testing import Result as Run

from abeval.assignment import Assignment
from abeval.cli.main import app, main
from abeval.engines.sql import query, query_names
from abeval.experiment.load import parse_experiment
from abeval.experiment.metrics import list_available_metrics
from abeval.results.analysis import Result
from abeval.results.effects import Row
from abeval.results.record import list_columns
from abeval.simulate import simulate

Capture = pytest.CaptureFixture[str]


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["abeval", *map(str, arguments)])
    try:
        main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def abeval(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(  # noqa: S603 (our own command)
        [sys.executable, "-m", "abeval", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    simulate(folder, impressions=6_000)
    file = folder / "short.toml"
    text = (folder / "experiment.toml").read_text()
    names = ("ctr", "dwell_per_user", "gauc")
    chosen = "".join(f'[[metrics]]\nname = "{name}"\n\n' for name in names)
    file.write_text(text[: text.index("[[metrics]]")] + chosen)
    return folder


@pytest.fixture(scope="module")
def analyzed(logs: Path) -> tuple[Run, Path]:
    out = logs / "out"
    out.mkdir()
    paths = ["--json", out / "o.json", "--csv", out / "o.csv", "--report", out / "o.html"]
    arguments = ["analyze", logs / "short.toml", *paths, "--profile"]
    return CliRunner().invoke(app, [*map(str, arguments)]), out


def numbers(part: Any) -> Iterator[float]:
    if isinstance(part, dict | list):
        for inner in part.values() if isinstance(part, dict) else part:
            yield from numbers(inner)
    elif isinstance(part, float):
        yield part


@pytest.mark.whole
def test_analyze_prints_the_result_and_nothing_else(
    analyzed: tuple[Run, Path],
) -> None:
    done, out = analyzed
    assert done.exit_code == 0
    verdict = json.loads((out / "o.json").read_text())["verdicts"][0]
    word, _, rest = verdict["sentence"].partition(":")
    headline, _, clause = done.stdout.partition(":")
    assert headline == f"{word}, STOP"
    assert clause.startswith(rest[:10])
    assert "Scorecard" in done.stdout
    assert "GAUC" in done.stderr  # --profile
    assert "seconds" in done.stderr
    assert "seconds" not in done.stdout
    assert sorted(p.name for p in out.iterdir()) == ["o.csv", "o.html", "o.json"]


def test_the_json_has_the_documented_fields_in_order(
    analyzed: tuple[Run, Path],
) -> None:
    found = json.loads((analyzed[1] / "o.json").read_text())
    assert list(found) == [*(f.name for f in fields(Result)), "digest"]
    assert found["schema_version"] == "1"
    for row in found["scorecard"]:
        assert list(row) == list_columns(Row)
        assert list(row)[:5] == ["metric", "kind", "role", "direction", "variant"]
    assert [row["metric"] for row in found["scorecard"]][:2] == ["ctr", "dwell_per_user"]
    for account in found["accounting"]:
        assert account["read"] == account["used"] + sum(n for _, n in account["set_aside"])


def test_the_json_has_no_number_that_json_has_not(
    analyzed: tuple[Run, Path],
) -> None:
    text = (analyzed[1] / "o.json").read_text()

    def refuse(constant: str) -> float:
        raise AssertionError(constant)

    found = json.loads(text, parse_constant=refuse)
    assert all(math.isfinite(number) for number in numbers(found))


def test_csv_and_json_agree_to_the_last_digit(
    analyzed: tuple[Run, Path],
) -> None:
    found = json.loads((analyzed[1] / "o.json").read_text())["scorecard"]
    rows = list(csv.DictReader(io.StringIO((analyzed[1] / "o.csv").read_text())))
    assert len(rows) == len(found)
    for row, whole in zip(rows, found, strict=True):
        assert list(row) == list(whole)
        for name, value in whole.items():
            shown = "" if value is None else value
            assert row[name] == str(shown) or float(row[name]) == value


def test_two_runs_write_the_same_bytes(
    logs: Path,
    analyzed: tuple[Run, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = ["--json", tmp_path / "o.json", "--csv", tmp_path / "o.csv"]
    assert call(monkeypatch, "analyze", logs / "short.toml", *options) == 0
    for name in ("o.json", "o.csv"):
        assert (tmp_path / name).read_bytes() == (analyzed[1] / name).read_bytes()


def test_the_gate_exits_by_the_verdict(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = {"ship": 0, "do_not_trust": 3, "do_not_ship": 4, "keep_running": 5}
    out = logs / "gate.json"
    code = call(monkeypatch, "analyze", logs / "short.toml", "--gate", "--json", out)
    (verdict,) = json.loads(out.read_text())["verdicts"]
    assert code == codes[verdict["decision"]] == 5
    text = (logs / "short.toml").read_text()
    uneven = logs / "uneven.toml"
    uneven.write_text(text.replace("weight = 0.5", "weight = 0.01", 1))
    assert call(monkeypatch, "analyze", uneven, "--gate", "--json", out) == 3
    assert json.loads(out.read_text())["verdicts"][0]["decision"] == "do_not_trust"


def test_missing_values_of_a_table_are_asked_for_by_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    table = tmp_path / "table.csv"
    rows = "\n".join(f"{'ab'[i % 2]},{'' if i % 5 == 0 else i % 3}" for i in range(200))
    table.write_text(f"grp,spent\n{rows}\n")
    assert call(monkeypatch, "analyze", table, "--variant", "grp") == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "units whose spent is null, NaN or infinite, 20 in a, 20 in b" in error
    assert 'missing = "drop" (of a table --missing drop) leaves units' in error
    assert 'missing = "zero" counts them as 0' in error
    assert call(monkeypatch, "analyze", table, "--variant", "grp", "--missing", "drop") == 0
    assert "spent leaves out units whose spent is null" in capsys.readouterr().out


def test_an_output_that_cannot_be_written_is_said_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    missing = tmp_path / "no" / "o.json"
    assert call(monkeypatch, "analyze", tmp_path / "no.toml", "--json", missing) == 2
    err = capsys.readouterr().err
    assert f"cannot write {missing}" in err
    assert "experiment file" not in err


def test_assign_keeps_ids_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    file = tmp_path / "ids.csv"
    file.write_text('user,country\n007,de\n\n" 7",fr\n"a,b",us\n', encoding="utf-8-sig")
    assert call(monkeypatch, "tools", "assign", file, "--salt", "s", "--variants", "a=1, b=3") == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    rule = Assignment("s", {"a": 1, "b": 3})
    assert rows[0] == ["user", "variant", "slot", "sub_bucket", "reason"]
    assert rows[1:] == [
        [unit, found.variant, str(found.slot), str(found.sub_bucket), "split"]
        for unit in ("007", " 7", "a,b")
        for found in [rule.assign(unit)]
    ]


def test_assign_takes_another_column_and_writes_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "ids.csv").write_text("country,user\nde,007\n")
    options = ["--salt", "s", "--variants", "a=1,b=1", "--json", tmp_path / "o.json"]
    assert (
        call(monkeypatch, "tools", "assign", tmp_path / "ids.csv", "--column", "user", *options)
        == 0
    )
    assert capsys.readouterr().out.splitlines()[0] == "user,variant,slot,sub_bucket,reason"
    found = Assignment("s", {"a": 1, "b": 1}).assign("007")
    assert json.loads((tmp_path / "o.json").read_text()) == [
        {
            "user": "007",
            "variant": found.variant,
            "slot": found.slot,
            "sub_bucket": found.sub_bucket,
            "reason": "split",
        }
    ]


def test_assign_lets_clusters_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "c.csv").write_text("city\nRome\nOslo\n")
    plan = ["tools", "assign", tmp_path / "c.csv", "--salt", "s", "--variants", "a=1,b=1"]
    period = ["--period", "2026-09-14", "2026-09-28"]
    for _ in range(2):
        assert (
            call(monkeypatch, *plan, "--slots", "2h", *period, "--json", tmp_path / "o.json") == 0
        )
    out = capsys.readouterr().out
    rows = list(csv.DictReader(io.StringIO(out[: len(out) // 2])))
    # Deterministic; each city has each hour of a weekday once in either variant.
    assert out[: len(out) // 2] == out[len(out) // 2 :]
    assert json.loads((tmp_path / "o.json").read_text()) == rows
    assert len(rows) == 2 * 14 * 12
    turns = {(row["cluster"], row["start"]): row["variant"] for row in rows}
    assert turns["Rome", "2026-09-15 04:00:00"] != turns["Rome", "2026-09-22 04:00:00"]
    assert len({city for (city, _), variant in turns.items() if variant == "a"}) == 2
    for wrong, hint in (
        (["--slots", "7h", *period], "does not divide a day"),
        (["--slots", "2h"], "need a period"),
    ):
        assert call(monkeypatch, *plan, *wrong) == 2
        assert hint in capsys.readouterr().err


def test_assign_explains_one_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    options = ["--salt", "exp_42", "--variants", "a=1,b=1", "--json", tmp_path / "o.json"]
    assert call(monkeypatch, "tools", "assign", "--explain", "123", *options) == 0
    out = capsys.readouterr().out
    assert out == f"{Assignment('exp_42', {'a': 1, 'b': 1}).explain('123')}\n"
    found = json.loads((tmp_path / "o.json").read_text())
    assert (found["slot"], found["variant"], found["sub_bucket"]) == (947086, "b", 2999)
    assert found["range"] == [500_000, 1_000_000]


def test_assign_with_a_layer_a_holdout_and_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    ids = tmp_path / "ids.csv"
    ids.write_text("user\n" + "\n".join(f"u{i}" for i in range(400)) + "\n")
    (tmp_path / "qa.csv").write_text("user,variant\nu1,b\n")
    base = ["--salt", "s", "--variants", "a=1,b=1"]
    plan = [*base, "--traffic", "0.5", "--layer", "l:0-500000", "--holdout", "h:0.2"]
    assert call(monkeypatch, "tools", "assign", ids, *plan, "--overrides", tmp_path / "qa.csv") == 0
    rows = {row["user"]: row for row in csv.DictReader(io.StringIO(capsys.readouterr().out))}
    assert (rows["u1"]["variant"], rows["u1"]["reason"]) == ("b", "override")
    assert {row["reason"] for row in rows.values()} >= {"holdout", "layer", "traffic", "split"}
    assert all(not row["variant"] for row in rows.values() if row["reason"] == "layer")
    assert call(monkeypatch, "tools", "assign", *plan, "--explain", "u2") == 0
    assert "placed" in capsys.readouterr().out
    for dialect in ("duckdb", "spark"):
        assert call(monkeypatch, "tools", "assign", *plan, "--sql", dialect) == 0
        assert "AS variant" in capsys.readouterr().out
    mistakes = {("--layer", "l"): "SALT:START-STOP", ("--holdout", "h:x"): "SALT:SHARE"}
    for option, says in mistakes.items():
        assert call(monkeypatch, "tools", "assign", ids, *base, *option) == 2
        assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "variants", "says"),
    [
        (b"id\n1\n", "a", "--variants: 'a' is not NAME=WEIGHT"),
        (b"id\n1\n", "a=1,a=2", "'a=2' is not NAME=WEIGHT, or its name is there twice"),
        (b"id\n1\n", "=1", "'=1' is not NAME=WEIGHT"),
        (b"id\n1\n", "a=-1,b=1", "weight of variant 'a' -1.0"),
        (b"id\n1\n", "a=0,b=0", "no variant has a weight above 0"),
        (b"", "a=1,b=1", "ids.csv is empty"),
        (b"\n\n", "a=1,b=1", "ids.csv is empty"),
        (b"id,x\n1,2\n\n,3\n", "a=1,b=1", "ids.csv, line 4: no id"),
        (b"id\n\xff\n", "a=1,b=1", "give a CSV file in UTF-8"),
        (b'id\n"1\x00' + b"x" * 200_000, "a=1,b=1", "ids.csv cannot be read"),
    ],
)
def test_mistakes_of_assign(
    content: bytes,
    variants: str,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    file = tmp_path / "ids.csv"
    file.write_bytes(content)
    assert call(monkeypatch, "tools", "assign", file, "--salt", "s", "--variants", variants) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["tools", "assign", "no.csv", "--salt", "s", "--variants", "a=1,b=1"],
            "no.csv cannot be read",
        ),
        (
            ["tools", "assign", "--salt", "s", "--variants", "a=1,b=1"],
            "give a CSV file of ids",
        ),
        (
            ["tools", "assign", "--explain", "1", "--salt", "a:b", "--variants", "a=1"],
            "salt 'a:b' cannot",
        ),
        (["tools", "sql", "2_units/logged_sumss"], "no query is called '2_units/logged_sumss'"),
        (["tools", "simulate", "x", "--impressions", "5"], "5 impressions are too few"),
        (["tools", "simulate", "x", "--seed", "-1"], "Invalid value for '--seed'"),
        (
            ["tools", "simulate", "x", "--seed", "x", "--debug"],
            "'--seed': should be a whole number",
        ),
        (["analyze"], "name an experiment file, a table, or --sums"),
        (["analyse", "x"], "No such command 'analyse'"),
        (["analyze", "x", "--jsn", "y"], "No such option"),
    ],
)
def test_mistakes_of_the_command_itself(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert err.startswith("error: ")
    assert list(tmp_path.iterdir()) == []


def test_names_in_messages_do_not_steer_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    file = tmp_path / "\x1b[31mred.toml"
    assert call(monkeypatch, "analyze", file) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_metrics_lists_every_builtin_one(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    assert call(monkeypatch, "tools", "metrics") == 0
    out = capsys.readouterr().out
    raw = {"name": "x", "unit": "u", "control": "a", "variants": {"a": {}, "b": {}}}
    known = list_available_metrics(
        parse_experiment({**raw, "logs": {"impressions": {"path": "x"}}})
    )
    for name in ("ctr", "gauc", "map"):
        assert name in known
    shown = "".join(out.split())
    for metric in known.values():
        assert metric.name[:8] in shown


def test_schema_is_a_json_schema_of_the_file(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    assert call(monkeypatch, "tools", "schema") == 0
    found = json.loads(capsys.readouterr().out)
    assert {"name", "unit", "control", "variants", "logs"} <= set(found["required"])
    assert "folder" not in found["required"]


def test_sql_prints_names_and_queries(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    assert call(monkeypatch, "tools", "sql") == 0
    assert capsys.readouterr().out.splitlines() == list(query_names())
    assert call(monkeypatch, "tools", "sql", "2_units/logged_sums") == 0
    assert capsys.readouterr().out == query("2_units/logged_sums")


def test_simulate_says_where_the_experiment_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    folder = tmp_path / "sim"
    assert call(monkeypatch, "tools", "simulate", folder, "--impressions", 5_000, "--seed", 3) == 0
    out, err = capsys.readouterr()
    assert out == f"{folder / 'experiment.toml'}\n"
    assert "error" not in err
    assert json.loads((folder / "truth.json").read_text())["seed"] == 3
    assert call(monkeypatch, "analyze", out.strip()) == 0


HEAVY = {
    *("duckdb", "jinja2", "markupsafe", "numpy", "pandas", "plotly", "pyarrow", "pydantic"),
    *("pyspark", "scipy", "sqlglot", "statsmodels"),
}


def imported(code: str) -> tuple[set[str], str]:
    """Modules in memory after some code ran in a process of its own, and what it printed."""
    listing = "import sys; print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(  # noqa: S603 (our own code)
        [sys.executable, "-c", f"try:\n  {code}\nfinally:\n  {listing}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.split()), done.stdout


def test_help_imports_nothing_heavy() -> None:
    modules, shown = imported("from abeval.cli.main import app; app(['--help'])")
    for command in ("analyze", "agree", "audit", "tools"):
        assert command in shown
    assert modules & HEAVY == set()
    assert sum(name.split(".")[0] == "abeval" for name in modules) <= 27


def test_the_package_imports_lazily() -> None:
    modules, _ = imported("import abeval")
    assert modules & HEAVY == set()


def test_the_package_runs_as_a_module_also_in_a_terminal_without_greek() -> None:
    done = abeval("tools", "metrics", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "ctr" in done.stdout


@pytest.mark.parametrize("command", ["analyze", "windows", "replay"])
def test_a_report_that_cannot_be_written_is_refused_before_a_log_is_read(
    command: str,
    logs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    experiment = tmp_path / "experiment.toml"
    experiment.write_text((logs / "experiment.toml").read_text())
    assert call(monkeypatch, command, experiment, "--report", tmp_path / "none" / "x.html") == 2
    said = capsys.readouterr().err
    assert "cannot write" in said
    assert "impressions" not in said


@pytest.mark.parametrize("unit", [(), ("--unit", "user_id")])
def test_the_first_screen_of_a_small_table_is_the_verdict_and_fits_15_lines(
    unit: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    lines = [f"u{i},{'ab'[i % 2]},{int(i % 7 < 1 + i % 2)}" for i in range(5_000)]
    first = 0 if unit else 1
    table = [line.split(",")[first:] for line in ["user_id,group,converted", *lines]]
    (tmp_path / "users.csv").write_text("\n".join(map(",".join, table)))
    monkeypatch.setenv("COLUMNS", "80")
    assert call(monkeypatch, "analyze", tmp_path / "users.csv", "--variant", "group", *unit) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) <= 15, shown
    assert shown[0].startswith("SHIP, NO GUARDRAIL SET: converted +100%")
    assert [line for line in shown[2:4] if re.fullmatch(r"Trust: \d+ checks passed", line)], shown
    assert not [line for line in shown if "skipped" in line or "audits" in line]
