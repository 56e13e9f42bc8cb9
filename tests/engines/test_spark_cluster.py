"""The whole analysis with executors in processes of their own, as on a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

import abeval
from tests.engines.sessions import spark_session

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

SAMPLE = Path(__file__).parents[2] / "sample_logs" / "experiment.toml"


def test_separate_executors_give_the_same_result() -> None:
    loaded = abeval.load(SAMPLE)
    with spark_session("local-cluster[2,1,1024]") as session:
        found = loaded.analyze(engine=session)
        # The driver and two executors.
        assert session.sparkContext._jsc.sc().getExecutorMemoryStatus().size() == 3
    assert found.to_json() == loaded.analyze().to_json()
