"""Levels and coverage where clusters of users were randomised, beside an analysis by users.

Stores of uneven size (lognormal, 20 to some 400 users; or Pareto 2), half of them treated. A user
has a number of impressions, and clicks with the chance of the store. Experiments go through
arrays and the inference of an analysis, one in 25 through the whole command.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

import abeval
from abeval.experiment.load import parse_experiment
from abeval.inference.compare import compare
from abeval.simulate.stores import RATE
from abeval.stats.distributions import compute_p_value
from benchmarks.runner import Record, Table
from tests.worlds.clusters import ARMS, WORLDS, World, analysis_of, drawn_users, entries

LIFT = 0.1


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
    by_t = compute_p_value(null.statistic, null.df) <= experiment.alpha
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


def measure_world(world: World, repetitions: int, seed: int) -> Record:
    """Measure a world by arrays, and one experiment in 25 through the whole command."""
    seeds = range(seed, seed + repetitions)
    users, own = (
        [judged(world, one, by_cluster=by_cluster) for one in seeds] for by_cluster in (False, True)
    )
    level, covered, _, by_t = np.mean(own, axis=0).tolist()
    level_of_users, covered_of_users, *_ = np.mean(users, axis=0).tolist()
    whole = [through_command(world, one) for one in seeds[: max(repetitions // 25, 1)]]
    counts = [sum(p for p, *_ in whole), sum(w for _, w, _ in whole)]
    decided = sum(decision != "keep_running" for *_, decision in whole)
    return {
        "clusters": world.clusters,
        "sizes": "Pareto 2" if world.is_uneven else "lognormal",
        "ICC": world.icc,
        "drawn": world.drawn or "at random",
        "level, %": level,
        "coverage, %": covered,
        "level of t, %": by_t,
        "median width, % of control": float(np.median([one.width for one in own])) / RATE,
        "by users: level, %": level_of_users,
        "by users: coverage, %": covered_of_users,
        "whole command: significant / warned / decided": f"{counts[0]} / {counts[1]} / {decided}",
    }


TABLES = {"clusters": Table(measure_world, WORLDS)}
