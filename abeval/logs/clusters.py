"""The clusters that were randomised, of the analysed units: one variant each, strata or pairs."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.logs.unit_arrays import Clusters, Labels

_NAMED = 3
"""So many clusters are named where they are wrong."""


def clusters_of(
    experiment: Experiment, variant: NDArray[np.int8], values: Mapping[str, Labels]
) -> Clusters:
    """Find the clusters of units by the variants of these and what the design says of them.

    Raises:
        LogError: Units have no cluster, a cluster has several variants or strata, or a pair is not
            one cluster of each variant.
    """
    cluster = values["design.cluster"]
    names, of_unit = np.unique(cluster.code, return_inverse=True)
    texts = [cluster.names[code] for code in names]
    if "" in texts:
        count = int((of_unit == texts.index("")).sum())
        what = f"{count:,} of {len(of_unit):,} units have no cluster (design.cluster)"
        raise LogError(what, 'keep rows with one: where = "… is not null" in the log\'s section')
    own = _of_each(of_unit, variant, texts, "units of several variants", _SWITCHES)
    kind = next((key for key in ("pairs", "strata") if f"design.{key}" in values), "")
    stratum = np.zeros(len(texts), dtype=np.int32)
    if kind:
        code = values[f"design.{kind}"].code
        stratum = _of_each(of_unit, code, texts, f"several {kind}", "each has one")
    arms = len(experiment.variants)
    if kind == "pairs":
        table = np.zeros((int(stratum.max()) + 1, arms), dtype=np.int64)
        np.add.at(table, (stratum, own), 1)
        wrong = np.flatnonzero(table.any(axis=1) & (table != 1).any(axis=1))
        if len(wrong):
            listed = ", ".join(repr(values["design.pairs"].names[one]) for one in wrong[:_NAMED])
            what = f"{len(wrong)} pairs do not have one cluster of each variant: {listed}"
            raise LogError(what, "name them in `strata`, or leave out what lost its partner")
    return Clusters(
        of_unit.astype(np.int32), own.astype(np.int8), stratum, np.bincount(of_unit).astype(int)
    )


_SWITCHES = (
    "if variants change over time within a cluster, or units were assigned one by one, remove "
    "[design]; strays of a few rows can be left out by the log's `where`"
)


def _of_each(
    of_unit: NDArray[np.integer],
    values: NDArray[np.integer],
    names: list[str],
    what: str,
    remedy: str,
) -> NDArray[np.int32]:
    """Return the one value that all units of each cluster have."""
    low, high = (np.full(len(names), one, dtype=np.int32) for one in (2**31 - 1, -1))
    np.minimum.at(low, of_unit, values.astype(np.int32))
    np.maximum.at(high, of_unit, values.astype(np.int32))
    wrong = np.flatnonzero(low != high)
    if len(wrong):
        listed = ", ".join(repr(names[one]) for one in wrong[:_NAMED])
        raise LogError(f"{len(wrong):,} of {len(names):,} clusters have {what}: {listed}", remedy)
    return low
