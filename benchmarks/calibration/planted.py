"""How often `abeval agree` names a planted cause first, and how often one that is not there.

Each log of `benchmarks.plants` has one cause of a gap between offline and online, or none.
The table counts which cause is named first; in a clean log, nothing should be.
"""

import tempfile
from collections import Counter
from pathlib import Path

import abeval
from benchmarks.runner import Record, Table, write_counts
from tests.worlds.plants import simulate_plant
from tests.worlds.plants.causes import PLANTS

IMPRESSIONS = 80_000
FIRST = 200
"""The first seed: those before it were looked at while causes were made."""


def measure_plant(plant: str, repetitions: int, seed: int) -> Record:
    """Count which cause is named first; five times as many logs have none."""
    counts, cause = {name: Counter[str]() for name in ("first", "beside", "stands")}, ""
    logs = repetitions * (5 if plant == "none" else 1)
    for i in range(FIRST + seed, FIRST + seed + logs):
        with tempfile.TemporaryDirectory() as folder:
            cause = simulate_plant(folder, plant, IMPRESSIONS, i).cause or "nothing"
            agreement = abeval.load(Path(folder) / "experiment.toml").agree()
        named = [found.name for found in agreement.confirmed_causes]
        counts["first"][named[0] if named else "nothing"] += 1
        counts["beside"].update(named[1:])
        counts["stands"][agreement.explanations[0].standing] += 1
    right = counts["first"].pop(cause, 0)
    return {
        "planted": plant,
        "to be first": cause,
        "first": f"{right} of {logs}",
        "standing": write_counts(counts["stands"]),
        "first instead": write_counts(counts["first"]),
        "also found": write_counts(counts["beside"]),
    }


TABLES = {"causes": Table(measure_plant, [plant.name for plant in PLANTS], repetitions=20)}
