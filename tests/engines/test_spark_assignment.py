"""Rules of assignment on Spark: the same variant for every id as in Python."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from abeval.assignment import Assignment, Holdout, Layer, Plan
from abeval.engines.spark.engine import SparkEngine
from abeval.logs.names import expected_by_rule, places_of_hashes
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
        engine.add_frame("ids", pd.DataFrame({"logged_id": units}))
        unit_hash = engine.hash64(["logged_id"])
        engine.view("logged_names", f"select logged_id, {unit_hash} as unit_hash from ids")
        known = engine.frame("select logged_id, unit_hash from logged_names")
        hashes = np.sort(known["unit_hash"].to_numpy())
        place = places_of_hashes(known["unit_hash"].to_numpy(), hashes)
        for name, rule in rules.items():
            names = sorted({v for v in rule.variants(units) if v is not None})
            codes = expected_by_rule(engine, rule, hashes, names)[place]
            expected = [None if code < 0 else names[code] for code in codes]
            assert expected == rule.variants(known["logged_id"]), name
        engine.close()
