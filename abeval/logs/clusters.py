"""The clusters that were randomised, of the analysed units: one variant each, strata or pairs."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.logs.unit_arrays import Clusters, Labels

_NAMED = 3
"""So many clusters are named where they are wrong."""

_SWITCHES = (
    "if variants change over time within a cluster, or units were assigned one by one, remove "
    "[design]; strays of a few rows can be left out by the log's `where`"
)


def clusters_of(
    experiment: Experiment, variant: NDArray[np.int8], values: Mapping[str, Labels]
) -> Clusters:
    """Find the clusters of units by the variants of these and what the design says of them.

    Raises:
        LogError: Units have no cluster, a cluster has several variants or strata, or a pair is not
            one cluster of each variant.
    """
    cluster = values["design.cluster"]
    codes, of_unit = np.unique(cluster.code, return_inverse=True)
    names = [cluster.names[code] for code in codes]
    if "" in names:
        count = int((of_unit == names.index("")).sum())
        what = f"{count:,} of {len(of_unit):,} units have no cluster (design.cluster)"
        raise LogError(what, "leave their rows out by the log's `where`")

    def of_each(values: NDArray[np.integer], what: str, remedy: str) -> NDArray[np.int32]:
        """Return the one value that all units of each cluster have."""
        one = np.zeros(len(names), dtype=np.int32)
        one[of_unit] = values
        wrong = np.unique(of_unit[one[of_unit] != values])
        if len(wrong):
            listed = ", ".join(repr(names[place]) for place in wrong[:_NAMED])
            what = f"{len(wrong):,} of {len(names):,} clusters have {what}: {listed}"
            raise LogError(what, remedy)
        return one

    own = of_each(variant, "units of several variants", _SWITCHES)
    stratum = np.zeros_like(own)
    for kind in experiment.design.blocks if experiment.design else ():
        labels = values[f"design.{kind}"]
        stratum = of_each(labels.code, f"several {kind}", "each has one")
        counts = np.zeros((len(labels.names), len(experiment.variants)), dtype=int)
        np.add.at(counts, (stratum, own), 1)
        wrong = np.flatnonzero(counts.any(axis=1) & (counts != 1).any(axis=1))
        if kind == "pairs" and len(wrong):
            listed = ", ".join(repr(labels.names[one]) for one in wrong[:_NAMED])
            what = f"{len(wrong)} pairs do not have one cluster of each variant: {listed}"
            raise LogError(what, "name them in `strata`, or leave out what lost its partner")
    return Clusters(of_unit.astype(np.int32), own.astype(np.int8), stratum)
