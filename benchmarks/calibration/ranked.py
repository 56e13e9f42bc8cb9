"""How often `abeval agree` names a cause in ranked logs that have no fault.

Each list is the top 10 of 150 candidates by the score of the model that serves, as in production.
Choosing the top narrows the range of the score that chose, and people look less at later positions
where a world says so: what follows from the lists of control alone is true of these worlds, and
any other cause is a false accusation.
"""

from collections import Counter

from benchmarks.runner import Record, Table, write_counts
from tests.worlds.ranked import WORLDS, World, agreement_of, drawn


def measure_world(world: World, repetitions: int, seed: int) -> Record:
    """Count how offline stands to online in a world, and which causes are named."""
    stands, named, accused, idle = Counter[str](), Counter[str](), 0, 0
    for i in range(seed, seed + repetitions):
        agreement = agreement_of(world, drawn(world, i))
        standing = agreement.explanations[0].standing
        causes = {cause.name for cause in agreement.confirmed_causes}
        stands[standing] += 1
        named.update(causes)
        accused += bool(causes - world.true)
        idle += bool(causes) and standing in ("agree", "inconclusive")
    return {
        "world": world.name,
        "false": accused,
        "without a gap": idle,
        "of": repetitions,
        "standing": write_counts(stands),
        "named": write_counts(named),
    }


TABLES = {"worlds": Table(measure_world, WORLDS, repetitions=100)}
