"""Detection and false alarms of the audits of a log.

Each fault is planted into a simulated log and the whole analysis runs on it. A fault is `found` if
its check warns or fails and says the words that name it, and `first` if it is the first of the
checks that fail, or else warn. In sound logs no check should, with and without an effect of the
treatment that moves clicks, lists, delays and items. In `part` a part of each log is audited, as
of a long one.
"""

from collections import Counter
from contextlib import nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from abeval.aggregates import audits
from benchmarks.runner import Record, Table, write_counts
from tests.worlds.audited import FAULTS, TWENTY, analysed, fired, leaks, outcome, simulated


def measure_fault(
    cell: tuple[int, str], repetitions: int, seed: int, read: int | None = None
) -> Record:
    """Count the logs of so many impressions in which a fault is found; `read` rows are audited."""
    impressions, name = cell
    counts, others = Counter[str](), Counter[str]()
    limits: dict[str, Any] = {"MOST_ROWS": read, "FEWEST_ROWS": read} if read else {}
    with patch.multiple(audits, **limits) if limits else nullcontext():
        for i in range(seed, seed + repetitions):
            fault, random = FAULTS[name], np.random.default_rng(i + 10_000)
            result = analysed(fault.plant(simulated(impressions, i), random))
            found = outcome(fault, result)
            counts["found"] += found.found
            counts["first"] += found.first
            counts["shipped"] += any(v.decision == "ship" for v in result.verdicts)
            others.update(found.others)
    said = {name: counts[name] for name in ("found", "first", "shipped")}
    size = {"impressions": impressions, "of": repetitions}
    return {"fault": name, **size, **said, "beside it": write_counts(others)}


def measure_leaks(impressions: int, repetitions: int, seed: int) -> Record:
    """Count the logs in which a hash that leaks for a tenth of the units is seen."""
    leaked = [
        leaks(simulated(impressions, i), np.random.default_rng(i + 10_000), 0.1)
        for i in range(seed, seed + repetitions)
    ]
    return {"impressions": impressions, "a hash that leaks": sum(leaked), "of": repetitions}


def measure_sound(effect: float, repetitions: int, seed: int) -> Record:
    """Count the logs without a fault in which a check fails or warns."""
    names, counts = Counter[str](), Counter[str]()
    for i in range(seed, seed + repetitions):
        checks = fired(analysed(simulated(40_000, i, effect), TWENTY))
        counts.update({check.status for check in checks})
        names.update(f"`{check.name}` {check.status}" for check in checks)
    said = {"fail": counts["fail"], "warn": counts["warn"], "which": write_counts(names)}
    return {"effect": f"{effect:.0%}", "logs": repetitions, **said}


SIZES = (120_000, 400_000)
TABLES = {
    "faults": Table(measure_fault, [(size, name) for size in SIZES for name in FAULTS], 40),
    "part": Table(partial(measure_fault, read=100_000), [(SIZES[1], name) for name in FAULTS], 40),
    "leaks": Table(measure_leaks, SIZES, repetitions=100),
    "sound": Table(measure_sound, (0.0, 0.3)),
}
