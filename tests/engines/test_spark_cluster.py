"""The whole analysis with executors in processes of their own, as on a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import abeval
from tests.engines.parity import difference
from tests.engines.sessions import spark_session

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

SAMPLE = Path(__file__).parents[2] / "sample_logs" / "experiment.toml"


def test_separate_executors_give_the_same_results() -> None:
    loaded = abeval.load(SAMPLE)
    with spark_session("local-cluster[2,1,1024]") as session:
        scorecard = loaded.analyze(engine=session)
        replay = loaded.replay(engine=session)
        # The driver and two executors.
        assert session.sparkContext._jsc.sc().getExecutorMemoryStatus().size() == 3
    assert scorecard.to_json() == loaded.analyze().to_json()
    assert difference(json.loads(loaded.replay().to_json()), json.loads(replay.to_json())) is None
