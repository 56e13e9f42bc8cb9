"""Rules of assignment on Spark: the same variant for every id as in Python."""

from __future__ import annotations

import pandas as pd
import pytest
from abeval.logs.expected import write_expected_units

from abeval.assignment import Assignment, Holdout, Layer, Plan
from abeval.engines.spark.engine import SparkEngine
from tests.assignment.schemes import SETTINGS, WEIGHTS, odd_ids, scheme
from tests.engines.sessions import spark_session

pytestmark = pytest.mark.spark


def test_every_rule_gives_ten_thousand_odd_ids_the_variant_that_python_gives() -> None:
    units = odd_ids(10_000)
    layer = Layer("ranker", {"exp": (100_000, 800_000)})
    plan = Plan(Assignment("exp", WEIGHTS), 0.6, (layer, "exp"), Holdout("hold", 0.1))
    rules = {"abeval": plan.rule()} | {name: scheme(name).rule(WEIGHTS) for name in SETTINGS}
    with spark_session() as session:
        engine = SparkEngine(session=session)
        engine.add_frame(
            "unit_names", pd.DataFrame({"unit_id": range(len(units)), "logged_id": units})
        )
        for name, rule in rules.items():
            write_expected_units(rule, engine)
            rows = engine.frame("select expected from expected_units order by unit_id")
            expected = [None if pd.isna(v) else v for v in rows["expected"]]
            assert expected == rule.variants(units), name
        engine.close()
