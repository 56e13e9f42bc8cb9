"""Ids of units as logged: what is drawn for them."""

from __future__ import annotations

from contextlib import closing

import pandas as pd
from abeval.logs.units import sub_buckets

from abeval.assignment import md5_60, sub_bucket
from abeval.engines.duckdb import DuckDBEngine
from abeval.experiment.load import parse_experiment
from abeval.logs.prepare import prepare
from abeval.logs.run import Run


def test_a_pass_over_a_table_of_units_draws_what_their_ids_draw() -> None:
    variants = {"control": "a", "variants": {"a": {}, "b": {}}}
    logs, metrics = {"units": {}}, [{"name": "spent"}]
    experiment = parse_experiment(
        {"name": "e", "unit": "user_id", **variants, "logs": logs, "metrics": metrics}
    )
    users = [f"u-{number}" for number in range(40)]
    arms = ["a", "b", "b", "c"] * 10
    frame = pd.DataFrame({"user_id": users, "variant": arms, "spent": 1})
    analysed = [user for user, arm in zip(users, arms, strict=True) if arm != "c"]
    with closing(DuckDBEngine()) as engine:
        prepared = prepare(Run(experiment, engine, {"units": frame}), [], units_read=False)
        hashes = prepared.placed.units.hash
        assert prepared.cells.sub_bucket is not None
        drawn = sub_buckets(engine, experiment, hashes, prepared.cells).tolist()
        assert drawn == sub_buckets(engine, experiment, hashes).tolist()
    assert sorted(drawn) == sorted(sub_bucket(md5_60("e", user)) for user in analysed)
