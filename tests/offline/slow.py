"""The slow, obvious reading of the definitions: lists, loops, and every pair written out."""

from __future__ import annotations

import math
from itertools import combinations, pairwise, permutations
from statistics import fmean

Ranked = list[float]
"""Relevance of the items of a list, best score first."""


def gain(kind: str, grade: float) -> float:
    if grade <= 0:
        return 0.0
    return {"bin": 1.0, "lin": grade, "exp": 2**grade - 1}[kind]


def dcg(kind: str, ranked: Ranked, k: int) -> float:
    return sum(gain(kind, g) / math.log2(place + 1) for place, g in enumerate(ranked[:k], 1))


def best(grades: list[float]) -> list[float]:
    return sorted(grades, reverse=True)


def list_metrics(ranked: Ranked, unlisted: list[float], k: int) -> dict[str, float]:
    """Every ranking metric of one request; `unlisted` are relevant items that are not listed."""
    everything = ranked + unlisted
    relevant = sum(g > 0 for g in everything)
    hits = sum(g > 0 for g in ranked[:k])

    def precision(i: int) -> float:
        return sum(g > 0 for g in ranked[:i]) / i

    def recall(i: int) -> float:
        return sum(g > 0 for g in ranked[:i]) / relevant

    places = [place for place, g in enumerate(ranked[:k], 1) if g > 0]
    precisions = sum(precision(i) for i in places)
    recalls = sum(recall(i) for i in places)
    found = {
        f"precision@{k}": hits / k,
        f"recall@{k}": hits / relevant,
        f"recall@{k}[cap]": hits / min(relevant, k),
        f"f1@{k}": 2 * hits / (k + relevant),
        f"hit@{k}": float(hits > 0),
        f"map@{k}[R]": precisions / relevant,
        f"map@{k}[min]": precisions / min(relevant, k),
        f"map@{k}[hits]": precisions / hits if hits else 0.0,
        f"map@{k}[k]": precisions / k,
        f"mar@{k}[mean]": sum(recall(i) for i in range(1, min(k, len(ranked)) + 1)) / k,
        f"mar@{k}[R]": recalls / relevant,
        f"mar@{k}[min]": recalls / min(relevant, k),
        f"mrr@{k}": 1 / places[0] if places else 0.0,
        f"arhr@{k}": sum(1 / place for place in places),
        f"cg@{k}": sum(max(g, 0.0) for g in ranked[:k]),
        f"ndcg@{k}[bin,k]": dcg("bin", ranked, k) / dcg("bin", [1.0] * k, k),
    }
    for kind in ("bin", "lin", "exp"):
        value = dcg(kind, ranked, k)
        of_list = dcg(kind, best(ranked), k)
        found[f"dcg@{k}[{kind}]"] = value
        found[f"ndcg@{k}[{kind}]"] = value / dcg(kind, best(everything), k)
        found[f"ndcg@{k}[{kind},list]"] = value / of_list if of_list else 0.0
    found["rprec"] = sum(g > 0 for g in ranked[:relevant]) / relevant
    return found


def averaged_over_ties(scored: list[tuple[float, float]], k: int) -> float:
    """Linear nDCG over the list, averaged over every order of equal scores."""
    orders = [
        [g for _, g in order]
        for order in permutations(scored)
        if all(a[0] >= b[0] for a, b in pairwise(order))
    ]
    ideal = dcg("lin", best([g for _, g in scored]), k)
    return fmean(dcg("lin", order, k) for order in orders) / ideal if ideal else 0.0


def pairs(scored: list[tuple[float, float]]) -> tuple[int, int, int]:
    """Concordant, discordant and tied pairs of unlike relevance."""
    signs = [
        (a[0] > b[0]) - (a[0] < b[0]) if a[1] > b[1] else (b[0] > a[0]) - (b[0] < a[0])
        for a, b in combinations(scored, 2)
        if a[1] != b[1]
    ]
    return signs.count(1), signs.count(-1), signs.count(0)


def auc(scored: list[tuple[float, float]]) -> float | None:
    """Of relevant against not relevant, ties half."""
    won, lost, tied = pairs([(score, float(grade > 0)) for score, grade in scored])
    total = won + lost + tied
    return (won + tied / 2) / total if total else None
