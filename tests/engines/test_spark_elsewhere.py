"""Spark in other processes: executors of a cluster, and a Spark Connect server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import abeval
from abeval.simulate import simulate
from tests.engines.parity import difference
from tests.engines.sessions import connect_server, spark_session

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment with every log that `simulate` writes, in files."""
    folder = tmp_path_factory.mktemp("logs")
    simulate(folder, impressions=6_000)
    return folder / "experiment.toml"


def test_separate_executors_give_the_same_results(file: Path) -> None:
    loaded = abeval.load(file)
    with spark_session("local-cluster[2,1,1024]") as session:
        scorecard = loaded.analyze(engine=session)
        replay = loaded.replay(engine=session, metrics=["ndcg@3[lin]", "gauc[impressions]"])
        # The driver and two executors.
        assert session.sparkContext._jsc.sc().getExecutorMemoryStatus().size() == 3
    assert scorecard.to_json() == loaded.analyze().to_json()
    mine = loaded.replay(metrics=["ndcg@3[lin]", "gauc[impressions]"])
    assert difference(json.loads(mine.to_json()), json.loads(replay.to_json())) is None


def test_a_connect_server_gives_the_same_results(file: Path) -> None:
    """Of files, which the server reads, and of frames, which go to it by way of Arrow."""
    with connect_server() as address:
        client = subprocess.run(  # noqa: S603 (our own words)
            [sys.executable, "-W", "ignore", "-m", "tests.engines.connect", address, str(file)],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=False,
        )
    assert client.returncode == 0, client.stderr[-2000:]
    assert json.loads(client.stdout) == {"files": None, "frames": None}
