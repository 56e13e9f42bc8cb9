"""Pairs within strata, against every pair written out."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from tests.relations import answer, chance


class Scored(NamedTuple):
    """A row of `agreement_strata`, with the scores of both models."""

    part: str
    variant: str
    stratum: int
    cluster: int
    click: int
    baseline: float
    candidate: float


def scored(seed: int, count: int) -> list[Scored]:
    """Rows with many ties, in strata of few rows."""
    rng = chance(seed)
    return [
        Scored(
            rng.choice("pq"),
            rng.choice("ab"),
            rng.randrange(3),
            rng.randrange(4),
            int(rng.random() < 0.4),
            rng.randrange(6) / 8,
            rng.randrange(6) / 8,
        )
        for _ in range(count)
    ]


def halves(score: float, click: int, other: float) -> int:
    """2 if the clicked row of two has the higher score, 1 if they are tied."""
    higher, lower = (score, other) if click else (other, score)
    return 2 * (higher > lower) + (higher == lower)


def test_each_pair_within_a_stratum_counts_at_both_of_its_rows() -> None:
    rows = scored(3, 150)
    expected: dict[tuple[object, ...], dict[str, int]] = defaultdict(
        lambda: {"pairs": 0, "baseline_halves": 0, "candidate_halves": 0}
    )
    for row in rows:
        own = expected[row.part, row.variant, row.cluster]
        for other in rows:
            if other[:3] == row[:3] and other.click != row.click:
                own["pairs"] += 1
                own["baseline_halves"] += halves(row.baseline, row.click, other.baseline)
                own["candidate_halves"] += halves(row.candidate, row.click, other.candidate)
    pairs = answer("agreement/pairs", agreement_strata=rows).by_key("part variant cluster")
    assert pairs == expected
