"""Spark's standalone cluster: a master and two workers, all processes of this machine."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import abeval
from abeval.simulate import simulate
from tests.engines.sessions import OPTIONS, connect_server, spark_program, standalone_cluster

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    simulate(folder, impressions=6_000)
    return folder / "experiment.toml"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def run(*command: str) -> object:
    """The JSON that a process prints which shares no session with this one."""
    done = subprocess.run(  # noqa: S603 (our own words)
        command,
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": shlex.join([*OPTIONS, "pyspark-shell"]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


MODULE = (sys.executable, "-W", "ignore", "-m", "tests.engines.submitted")


def test_a_cluster_gives_the_same_json(file: Path, address: str) -> None:
    assert run(*MODULE, str(file), address) == json.loads(abeval.load(file).analyze().to_json())


def test_spark_submit_gives_the_same_json(file: Path, address: str) -> None:
    """The master is that of spark-submit: the experiment names none."""
    script = str(ROOT / "tests" / "engines" / "submitted.py")
    command = (spark_program("spark-submit"), "--master", address, *OPTIONS, script, str(file))
    assert run(*command) == json.loads(abeval.load(file).analyze().to_json())


def test_a_connect_server_on_the_cluster_gives_the_same_json(file: Path, address: str) -> None:
    with connect_server(address) as server:
        there = run(*MODULE, str(file), server)
    assert there == json.loads(abeval.load(file).analyze().to_json())
