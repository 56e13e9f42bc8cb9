"""`abeval analyze --checks`: the checks of an analysis, without its scorecard."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

import abeval
from abeval.cli.main import app
from tests.logs.small import PERIOD, small_log

EXPERIMENT = """
name = "checked"
unit = "user_id"
control = "a"
period = {{ start = {start}, end = {end} }}
variants = {{ a = {{}}, b = {{}} }}
logs = {{ impressions = {{ path = "log.parquet" }} }}
segments = {{ category = "category" }}
metrics = [{{ name = "ctr" }}, {{ name = "clicks_per_user" }}, {{ name = "gauc", role = "goal" }}]
"""


def put(folder: Path, lost: int) -> Path:
    """An experiment whose log lacks most rows of so many of the units of `b`."""
    log = small_log(rows=6000, units=800)
    log[~((log["variant"] == "b") & (log["user_id"] < lost))].to_parquet(folder / "log.parquet")
    file = folder / "experiment.toml"
    file.write_text(EXPERIMENT.format(**PERIOD))
    return file


def test_it_says_what_an_analysis_says_of_the_split_and_the_log(tmp_path: Path) -> None:
    file = put(tmp_path, lost=0)
    loaded = abeval.load(file)
    alone, whole = loaded.check(), loaded.analyze()
    same = {"pre_period", "aa"}
    checks = {c.name: c for c in whole.trust if c.name.partition(":")[0] not in same}
    assert {c.name: c.status for c in alone.trust if c.name in checks} == {
        name: check.status for name, check in checks.items()
    }
    assert alone["srm"].value == checks["srm"].value
    assert alone.failed_checks == ()
    assert not [name for name in alone.to_frame()["name"] if "gauc" in name]


def test_the_gate_stops_a_pipeline_where_a_check_fails(tmp_path: Path) -> None:
    for lost, code in ((0, 0), (300, 3)):
        file, out = put(tmp_path, lost), tmp_path / "checks.json"
        result = CliRunner().invoke(
            app, ["analyze", "--checks", str(file), "--gate", "--json", str(out)]
        )
        assert result.exit_code == code, result.output
        checks = {check["name"]: check for check in json.loads(out.read_text())["trust"]}
        assert (checks["srm"]["status"] == "fail") == bool(lost)
    assert "srm" in result.output
    assert "What to do: look for units lost" in " ".join(result.output.split())


def test_without_a_metric_of_the_one_pass_it_counts_impressions(tmp_path: Path) -> None:
    file = put(tmp_path, lost=0)
    loaded = abeval.load(file).replace(metrics=[{"name": "gauc", "role": "goal"}])
    assert loaded.check()["srm:category"].status != "skipped"
