"""Spark, in short: one small analysis, every statement on both engines. The rest: `-m spark`."""

from __future__ import annotations

import pytest

from abeval.api import define
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.spark.engine import SparkEngine
from abeval.logs.run import Run
from tests.engines.parity import Both
from tests.engines.sessions import spark_session
from tests.logs.small import PERIOD, small_log
from tests.open_runs import analyze_on


@pytest.mark.whole
def test_a_small_analysis_is_the_same_on_spark_statement_by_statement() -> None:
    experiment = define(
        name="small",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        period=PERIOD,
        timezone="Asia/Kathmandu",
        logs={"impressions": {}},
        metrics=[{"name": "ctr"}, {"name": "sessions_per_user"}, {"name": "gauc"}],
    ).experiment
    with spark_session() as session:
        both = Both(DuckDBEngine(), SparkEngine(session=session))
        analyze_on(Run(experiment, both, {"impressions": small_log()}))
        both.close()
        assert "2_units/logged_sums" in both.ran
        assert session.catalog.listTables() == []
