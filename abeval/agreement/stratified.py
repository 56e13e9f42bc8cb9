"""AUC of both models within strata, on one traffic, from the rows of `queries/agreement/pairs`."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from abeval.agreement import clusters
from abeval.stats.records import Estimate, Floats


def single(pairs: pd.DataFrame, variant: str, part: str) -> Estimate | None:
    """AUC of one value, from the rows of `queries/agreement/single_pairs`."""
    twice = pairs.assign(baseline_halves=pairs["halves"], candidate_halves=pairs["halves"])
    both = stratified(twice, variant, part)
    return None if both is None else both.candidate


class Stratified(NamedTuple):
    """AUC within positions, weighted by pairs, of both models on one traffic."""

    baseline: Estimate
    candidate: Estimate
    difference: Estimate


def stratified(pairs: pd.DataFrame, variant: str, part: str = "all") -> Stratified | None:
    """Halves of won pairs and pairs by cluster, each pair counted at both of its rows.

    A cluster's influence is twice its share, because a pair has two rows (Hoeffding 1948).
    """
    own = pairs[(pairs["variant"] == variant) & (pairs["part"] == part)]
    count = own["pairs"].to_numpy(dtype=np.float64)
    total = count.sum()
    if count.size < 2 or not total:
        return None
    values, influences = list[float](), list[Floats]()
    for model in ("baseline", "candidate"):
        won = own[f"{model}_halves"].to_numpy(dtype=np.float64) / 2
        values.append(float(won.sum() / total))
        influences.append(2 * (won - values[-1] * count) / total)
    return Stratified(
        clusters.influenced(values[0], influences[0]),
        clusters.influenced(values[1], influences[1]),
        clusters.influenced(values[1] - values[0], influences[1] - influences[0]),
    )
