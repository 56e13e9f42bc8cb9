"""All inputs, and some of each class."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

from benchmarks.malformed.experiments import entries, texts
from benchmarks.malformed.logs import expressions, files, logs
from benchmarks.malformed.options import ids, names, options
from benchmarks.malformed.world import Case


def every_case() -> list[Case]:
    """All inputs, always the same."""
    kinds = (entries, texts, expressions, logs, files, options, names, ids)
    return [case for kind in kinds for case in kind()]


def sample(count: int, seed: int = 1) -> list[Case]:
    """As many inputs of each class as there are of the others, always the same for a seed."""
    rng = random.Random(seed)  # noqa: S311 (no secret)
    cases = every_case()
    rng.shuffle(cases)
    places: Counter[str] = Counter()
    ranked = []
    for i, case in enumerate(cases):
        ranked.append((places[case.kind], i))
        places[case.kind] += 1
    return [cases[i] for _, i in sorted(ranked)[:count]]


def some(shares: Mapping[str, int], seed: int = 1) -> list[Case]:
    """Inputs drawn from each class, always the same for a seed.

    Args:
        shares: How many of each class.
        seed: Of the draw.
    """
    rng = random.Random(seed)  # noqa: S311 (no secret)
    cases = every_case()
    return [
        case
        for kind, count in shares.items()
        for case in rng.sample([c for c in cases if c.kind == kind], count)
    ]
