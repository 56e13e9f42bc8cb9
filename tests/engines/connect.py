"""What a client of Spark Connect gets: `python -m tests.engines.connect ADDRESS EXPERIMENT`.

In a process of its own: one that has once been a client starts no other kind of session.
"""

from __future__ import annotations

import json
import sys

import abeval
from abeval.api import LoadedExperiment
from tests.engines import nasty
from tests.engines.parity import difference


def differs(loaded: LoadedExperiment, address: str, logs: dict[str, object]) -> str | None:
    """Where the scorecard on the server differs from DuckDB's."""
    there = loaded.replace(engine={"name": "spark", "address": address})
    results = (asked.analyze(logs=logs) for asked in (loaded, there))
    return difference(*(json.loads(result.to_json()) for result in results))


if __name__ == "__main__":
    numbers = nasty.numbers_experiment(metrics=[{"name": "ctr"}, {"name": "gauc"}])
    answer = {
        "files": differs(abeval.load(sys.argv[2]), sys.argv[1], {}),
        "frames": differs(numbers, sys.argv[1], nasty.numbers()),
    }
    sys.stdout.write(json.dumps(answer))
