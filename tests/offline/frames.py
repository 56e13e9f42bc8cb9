"""Lists and ground truths of the vectors, as the frames that `evaluate` takes."""

import json
import math
import re
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

VECTORS = Path(__file__).parent / "vectors"

_NAMES = {
    "P": "precision@{}",
    "R": "recall@{}",
    "Rcap": "recall@{}[cap]",
    "F1": "f1@{}",
    "Hit": "hit@{}",
    "RR": "mrr@{}",
    "ARHR": "arhr@{}",
    "AP[R]": "map@{}[R]",
    "AP[min(R,k)]": "map@{}[min]",
    "AP[hits]": "map@{}[hits]",
    "AP[k]": "map@{}[k]",
    "AR[mean]": "mar@{}[mean]",
    "AR[R]": "mar@{}[R]",
    "nDCG[lin]": "ndcg@{}[lin]",
    "nDCG[exp]": "ndcg@{}[exp]",
    "DCG[lin]": "dcg@{}[lin]",
    "DCG[exp]": "dcg@{}[exp]",
    "Rprec": "rprec@{}",
}


@cache
def ranking() -> dict[str, Any]:
    return json.loads((VECTORS / "ranking.json").read_text())


@cache
def seeds() -> dict[str, Any]:
    return json.loads((VECTORS / "seed_documents.json").read_text())


def our_id(theirs: str) -> str:
    """The id of a name in the vectors: `AP@3[min(R,k)]` is `map@3[min]`."""
    name, k, variant = re.fullmatch(r"(\w+?)(?:@(\d+))?(\[.*\])?", theirs).groups()
    ours = _NAMES[name + (variant or "")]
    return ours.format(k) if k else ours.replace("@{}", "")


def run_frame(run: dict[str, dict[str, float]]) -> pd.DataFrame:
    rows = [(q, item, score) for q, items in run.items() for item, score in items.items()]
    return pd.DataFrame(rows, columns=["request_id", "item_id", "score"])


def truth_frame(qrels: dict[str, dict[str, float]]) -> pd.DataFrame:
    rows = [(q, item, grade) for q, items in qrels.items() for item, grade in items.items()]
    return pd.DataFrame(rows, columns=["request_id", "item_id", "grade"])


def one_list(relevance: list[float], request: str = "q") -> tuple[pd.DataFrame, pd.DataFrame]:
    """A list in rank order whose relevant items are all on it."""
    items = [f"i{n:03}" for n in range(len(relevance))]
    ranks = range(1, len(items) + 1)
    run = pd.DataFrame({"request_id": request, "item_id": items, "rank": ranks})
    truth = pd.DataFrame({"request_id": request, "item_id": items, "grade": relevance})
    return run, truth


def close(ours: float | None, theirs: float, tolerance: float = 1e-9) -> bool:
    return ours is not None and math.isclose(ours, theirs, rel_tol=0, abs_tol=tolerance)
