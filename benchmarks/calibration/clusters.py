"""Levels and coverage where clusters of users were randomised, beside an analysis by users.

    python -m benchmarks.calibration.clusters --seeds 1000 --runs 40

Stores of uneven size (lognormal, 20 to some 400 users; or Pareto 2), half of them treated. A user
has a number of impressions, and clicks with the chance of the store. `--seeds` experiments of each
world go through arrays and the inference of an analysis, `--runs` through the whole command.
"""

import argparse
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import abeval
from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.sums import WHOLE, Slice, Terms, UnitGroups, sum_slices
from abeval.experiment.load import parse_experiment
from abeval.experiment.metrics import chosen_metrics
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis, compare
from abeval.inference.comparison import Arms
from abeval.logs.unit_arrays import Clusters
from abeval.simulate.stores import RATE, Drawn, Users, draw_users
from abeval.stats.distributions import two_sided
from abeval.stats.records import Floats

LIFT = 0.1
ARMS = Arms("control", "treatment")


class World(NamedTuple):
    """Clusters, the correlation of clicks in one, and how clusters were drawn.

    `is_uneven` says that sizes are of Pareto 2: of 60 stores the largest has a tenth of all users.
    """

    clusters: int
    icc: float
    drawn: Drawn = ""
    is_uneven: bool = False

    def __str__(self) -> str:
        """Name it for a table."""
        sizes = "Pareto 2" if self.is_uneven else "lognormal"
        return f"{self.clusters} | {sizes} | {self.icc:g} | {self.drawn or 'at random'}"


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
        chosen_metrics(experiment),
        Aggregates(
            moments=sum_slices([Slice("ctr", WHOLE, Terms(y, x))], groups),
            units=dict(zip(names, units.tolist(), strict=True)),
            clusters=clusters,
            cluster_sums=sums,
        ),
    )


class Judged(NamedTuple):
    """Whether no effect is rejected (also by t), an effect covered; the width of its interval."""

    rejected: bool
    covered: bool
    width: float
    by_t: bool


def judged(world: World, seed: int, *, by_cluster: bool) -> Judged:
    """Judge one experiment without an effect, and one with."""
    experiment, ends = parse_experiment(entries(world, by_cluster=by_cluster)), []
    for lift in (0.0, LIFT):
        drawn = drawn_users(world, seed, lift)
        analysis = analysis_of(experiment, drawn)
        effect = compare(analysis, analysis.metrics[0], ARMS).effect
        if effect is None:
            raise ValueError(f"{world}: no effect")
        ends.append(effect)
    null, effect = ends
    covered = effect.low <= RATE * LIFT <= effect.high
    by_t = two_sided(null.statistic, null.df) <= experiment.alpha
    return Judged(null.p_value <= experiment.alpha, covered, effect.high - effect.low, by_t)


def through_command(world: World, seed: int) -> tuple[bool, bool, str]:
    """Analyse a table of users without an effect: is it significant, trusted, and what verdict."""
    drawn = drawn_users(world, seed, 0.0)
    names = np.where(drawn.treated, "treatment", "control")[drawn.store]
    frame = pd.DataFrame(
        {
            "user_id": np.arange(len(drawn.y)),
            "variant": names,
            "store": drawn.store,
            "stratum": drawn.stratum[drawn.store],
            "y": drawn.y,
            "x": drawn.x,
        }
    )
    loaded = abeval.define(entries(world, by_cluster=True))
    result = loaded.analyze(logs={"units": frame})
    row = result.scorecard[0]
    failed = any(check.status in ("fail", "warn") for check in result.trust)
    return (row.p_value or 1) <= result.experiment.alpha, failed, result.verdicts[0].decision


def line(world: World, seeds: int, runs: int) -> str:
    """Measure a world: a row of the table."""
    of_users = [judged(world, seed, by_cluster=False) for seed in range(seeds)]
    own = [judged(world, seed, by_cluster=True) for seed in range(seeds)]
    whole = [through_command(world, seed) for seed in range(runs)]
    level, covered, _, by_t = np.mean(own, axis=0)
    level_of_users, covered_of_users, *_ = np.mean(of_users, axis=0)
    width = np.median([one.width for one in own]) / RATE
    shares = level, covered, by_t, width, level_of_users, covered_of_users
    cells = [f"{100 * share:.1f}" for share in shares]
    counts = (one[0] for one in whole), (one[1] for one in whole)
    decided = sum(one[2] != "keep_running" for one in whole)
    cells.append(" / ".join(map(str, [*map(sum, counts), decided])))
    return f"| {world} | {' | '.join(cells)} |\n"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=40)
    options = parser.parse_args()
    sys.stdout.write(
        "| clusters | sizes | ICC | drawn | level, % | coverage, % | level of t, % "
        "| median width, % of control | by users: level, % | coverage, % "
        "| whole command: significant / warned / decided |\n"
        "|--:|---|--:|---|--:|--:|--:|--:|--:|--:|--:|\n"
    )
    for world in WORLDS:
        sys.stdout.write(line(world, options.seeds, options.runs))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
