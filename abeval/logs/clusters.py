"""Find the randomised clusters, or slots of them, of the analysed units."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abeval.assignment.switchbacks import draw_slot_coins
from abeval.bounds import MAX_CLUSTERS
from abeval.engines.sql import Engine, read_int
from abeval.errors import LogError
from abeval.experiment.model import Experiment
from abeval.experiment.sections import Switchback
from abeval.logs.unit_arrays import (
    NONE,
    Clusters,
    Labels,
    SwitchbackSlots,
    pack_key,
    unique_inverse,
)

_NAMED = 3
"""Number of wrong clusters to name in an error."""

_SWITCHES = (
    "if variants change over time within a cluster, or units were assigned one by one, remove "
    "[design]; strays of a few rows can be left out by the log's `where`"
)


def find_clusters(
    experiment: Experiment, variant: NDArray[np.int8], values: Mapping[str, Labels]
) -> Clusters:
    """Find the clusters of units, and check them against the design.

    Raises:
        LogError: Units have no cluster, a cluster has several variants or strata, or a pair is not
            one cluster of each variant; there are more than `MAX_CLUSTERS`.
    """
    cluster = values["design.cluster"]
    codes, of_unit = np.unique(cluster.code, return_inverse=True)
    names = [cluster.names[code] for code in codes]
    remedy = "so many need no draw: make them the `unit`, without [design]"
    _check_count(len(names), "clusters", remedy)
    if "" in names:
        count = int((of_unit == names.index("")).sum())
        what = f"{count:,} of {len(of_unit):,} units have no cluster (design.cluster)"
        raise LogError(what, "leave their rows out by the log's `where`")

    def find_single_value(values: NDArray[np.integer], what: str, remedy: str) -> NDArray[np.int32]:
        """Return the one value that all units of each cluster have."""
        cluster_values = np.zeros(len(names), dtype=np.int32)
        # The last unit of a cluster wins; a cluster with several values then differs in some unit.
        cluster_values[of_unit] = values
        wrong = np.unique(of_unit[cluster_values[of_unit] != values])
        if len(wrong):
            examples = ", ".join(repr(names[index]) for index in wrong[:_NAMED])
            what = f"{len(wrong):,} of {len(names):,} clusters have {what}: {examples}"
            raise LogError(what, remedy)
        return cluster_values

    cluster_variant = find_single_value(variant, "units of several variants", _SWITCHES)
    stratum = np.zeros_like(cluster_variant)
    for kind in experiment.design.blocks if experiment.design else ():
        labels = values[f"design.{kind}"]
        stratum = find_single_value(labels.code, f"several {kind}", "each has one")
        counts = np.zeros((len(labels.names), len(experiment.variants)), dtype=int)
        # A pair has exactly one cluster of each variant.
        np.add.at(counts, (stratum, cluster_variant), 1)
        wrong = np.flatnonzero(counts.any(axis=1) & (counts != 1).any(axis=1))
        if kind == "pairs" and len(wrong):
            examples = ", ".join(repr(labels.names[index]) for index in wrong[:_NAMED])
            what = f"{len(wrong)} pairs do not have one cluster of each variant: {examples}"
            raise LogError(what, "name them in `strata`, or leave out what lost its partner")
    return Clusters(of_unit.astype(np.int32), cluster_variant.astype(np.int8), stratum)


def _check_count(count: int, what: str, remedy: str) -> None:
    if count > MAX_CLUSTERS:
        message = f"[design] has {count:,} {what}, but at most {MAX_CLUSTERS:,} are drawn again"
        raise LogError(message, remedy)


PARTS = ("0", "1", "2", "3")
"""Quarters of a slot after its burn-in, as `1_log/switched` names them."""


def find_slots(
    experiment: Experiment,
    plan: Switchback,
    variant: NDArray[np.int8],
    values: Mapping[str, Labels],
) -> Clusters:
    """Find the slots that units are parts of, and the coin that decided each.

    Raises:
        LogError: Slots were not drawn as the schedule says, or are more than `MAX_CLUSTERS`.
    """
    cluster, slot, part = (values[f"design.{name}"] for name in ("cluster", "slot", "part"))
    number = np.array([int(name or 0) for name in slot.names])[slot.code]
    if experiment.period is None:
        # Without a period, slots count from midnight of the first day.
        number = number - number.min(initial=2**62) // plan.per_day * plan.per_day
    keys, of_unit = unique_inverse(pack_key(cluster.code, number))
    _check_count(len(keys), "slots of clusters", "analyse fewer clusters, or a shorter period")
    slot_variant, slot_number, city = (np.zeros(len(keys), dtype=np.int64) for _ in range(3))
    slot_variant[of_unit], slot_number[of_unit], city[of_unit] = variant, number, cluster.code
    days = int(slot_number.max(initial=0)) // plan.per_day + 1
    if experiment.period is not None:
        start, end = experiment.period.bounds
        days = -((start - end) // _DAY)
    drawn = draw_slot_coins(plan.schedule, slot_number, plan.per_day, days)
    _, coin = unique_inverse(pack_key(city, drawn.coin))
    count, heads = (np.bincount(coin, weights) for weights in (None, slot_variant ^ drawn.side))
    # All slots of one coin show heads, or none: the schedule fixes how they follow from it.
    wrong = int(((heads > 0) & (heads < count)).sum())
    if wrong:
        raise LogError(
            f"in {wrong:,} of {len(count):,} groups of slots of one coin variants are not "
            f'as schedule = "{plan.schedule}" gives them',
            'if each slot was drawn by itself, write schedule = "coin"; see also its [period]',
        )
    # A slot is compared with those of its cluster at the same time of day.
    _, stratum = unique_inverse(pack_key(city, slot_number % plan.per_day))
    follows = (city[1:] == city[:-1]) & (slot_number[1:] == slot_number[:-1] + 1)
    before = np.append(NONE, np.where(follows, np.arange(len(keys) - 1), NONE))
    quarter = np.array([int(name in PARTS and name) for name in part.names], dtype=np.int8)
    switchback_slots = SwitchbackSlots(slot_number, coin, before, quarter[part.code])
    return Clusters(
        of_unit.astype(np.int32),
        slot_variant.astype(np.int8),
        stratum.astype(np.int32),
        switchback_slots,
    )


_DAY, _MS = timedelta(days=1), timedelta(milliseconds=1)


class MixedSlots(NamedTuple):
    """Count the slots with rows, and the slots that show several variants.

    `examples` names some of the slots that show several variants.
    """

    slots: int
    mixed: int
    examples: Sequence[str]


def count_mixed_slots(experiment: Experiment, engine: Engine) -> MixedSlots | None:
    """Count the slots of a switchback; None for other designs."""
    if (plan := experiment.switchback) is None:
        return None
    every = engine.rows(
        "select of_cluster, of_slot, is_mixed from slots order by of_cluster, of_slot"
    )
    rows = [row[:2] for row in every if row[2]]
    start = datetime(1970, 1, 1) if experiment.period is None else experiment.period.bounds[0]
    examples = [
        f"{name} at {start + read_int(slot) * plan.slot_ms * _MS:%Y-%m-%d %H:%M}"
        for name, slot in rows[:_NAMED]
    ]
    return MixedSlots(len(every), len(rows), examples)
