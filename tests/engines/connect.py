"""What a client of Spark Connect gets, in a process of its own: `python -m tests.engines.connect`.

A process that has once been a client starts no other kind of session.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import abeval
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.spark.engine import SparkEngine
from abeval.experiment.settings import EngineOptions
from abeval.logs.run import Run
from abeval.pipeline import analyze_on
from tests.engines import nasty
from tests.engines.parity import Both, difference

SAMPLE = Path(__file__).parents[2] / "sample_logs" / "experiment.toml"


def sample(address: str) -> str | None:
    """Where the scorecard of the sample logs differs from DuckDB's."""
    loaded = abeval.load(SAMPLE)
    there = loaded.replace(engine={"name": "spark", "address": address})
    return difference(json.loads(loaded.analyze().to_json()), json.loads(there.analyze().to_json()))


def frames(address: str) -> int:
    """Statements that agree over frames, which go to the server by way of Arrow."""
    engine = SparkEngine(EngineOptions(name="spark", address=address))
    both = Both(DuckDBEngine(), engine)
    loaded = nasty.numbers_experiment(metrics=[{"name": "ctr"}, {"name": "gauc"}])
    analyze_on(Run(loaded.experiment, both, nasty.numbers()))
    both.close()
    return both.statements


if __name__ == "__main__":
    found = {"difference": sample(sys.argv[1]), "statements": frames(sys.argv[1])}
    sys.stdout.write(json.dumps(found))
