"""Stores whose users are treated together, and the sums of an analysis of them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.sums import WHOLE, Slice, Terms, UnitGroups, sum_slices
from abeval.experiment.metrics import list_scorecard_metrics
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis
from abeval.inference.comparison import Arms
from abeval.logs.unit_arrays import Clusters
from abeval.simulate.stores import RATE, Drawn, Users, draw_users
from abeval.stats.records import Floats

ARMS = Arms("control", "treatment")


class World(NamedTuple):
    """Clusters, the correlation of clicks in one, and how clusters were drawn.

    `is_uneven` says that sizes are of Pareto 2: of 60 stores the largest has a tenth of all users.
    """

    clusters: int
    icc: float
    drawn: Drawn = ""
    is_uneven: bool = False


WORLDS = (
    *(World(clusters, icc) for clusters in (8, 20, 100) for icc in (0.01, 0.1, 0.3)),
    World(20, 0.1, "strata"),
    World(20, 0.1, "pairs"),
    *(World(clusters, 0.1, is_uneven=True) for clusters in (20, 60, 100)),
    *(World(60, icc, is_uneven=True) for icc in (0.01, 0.3)),
)


def drawn_users(world: World, seed: int, lift: float) -> Users:
    """Draw an experiment of a world."""
    rng = np.random.default_rng([seed, WORLDS.index(world), 33])
    if not world.is_uneven:
        return draw_users(rng, world.clusters, world.icc, lift, world.drawn)
    sizes = (20 + 40 * rng.pareto(2, world.clusters)).astype(int)
    treated = rng.permutation(np.arange(world.clusters) % 2 == 1)
    spread = np.sqrt(world.icc * RATE * (1 - RATE))
    rates = np.clip(rng.normal(RATE, spread, world.clusters), 0.001, 0.8)
    store = np.repeat(np.arange(world.clusters), sizes)
    x = 1 + rng.poisson(3, len(store))
    y = rng.binomial(x, np.minimum(rates * np.where(treated, 1 + lift, 1), 1)[store])
    return Users(y, x, store, treated, np.zeros(world.clusters, dtype=np.int64))


def entries(world: World, *, by_cluster: bool) -> dict[str, Any]:
    """Write the plan: one ratio, and clusters as they were drawn."""
    metric = {"name": "ctr", "numerator": "y", "denominator": "x", "missing": "zero"}
    design = {"cluster": "store"} | ({world.drawn: "stratum"} if world.drawn else {})
    plan: dict[str, Any] = {
        "name": "stores",
        "unit": "user_id",
        "control": "control",
        "variants": {name: {} for name in ARMS},
        "logs": {"units": {"path": "users.csv"}},
        "metrics": [metric | {"role": "goal"}],
    }
    return plan | ({"design": design} if by_cluster else {})


def analysis_of(experiment: Experiment, drawn: Users) -> Analysis:
    """Sum the users as an analysis does."""
    variant, names = drawn.treated.astype(np.int8), [*ARMS]
    clusters = None
    y, x = drawn.y * 10**6, drawn.x * 10**6
    units = np.bincount(drawn.treated[drawn.store], minlength=2)
    sums: Mapping[str, Floats] = {}
    if experiment.design is not None:
        code = drawn.store.astype(np.int32)
        clusters = Clusters(code, variant, drawn.stratum.astype(np.int32))
        columns = (y, x, 0 * y, 0 * y, y * 1.0 * y, y * 1.0 * x, x * 1.0 * x, np.ones(len(y)))
        sums = {"ctr": np.stack([np.bincount(code, one) for one in columns], axis=1)}
        units = np.bincount(variant, minlength=2)
    groups = UnitGroups(variant[drawn.store], np.zeros(len(y), np.int16), names, clusters and code)
    return Analysis(
        experiment,
        list_scorecard_metrics(experiment),
        Aggregates(
            moments=sum_slices([Slice("ctr", WHOLE, Terms(y, x))], groups),
            units=dict(zip(names, units.tolist(), strict=True)),
            clusters=clusters,
            cluster_sums=sums,
        ),
    )
