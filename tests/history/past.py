"""Past experiments with known true effects, as results of `analyze` and `replay`."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from abeval.results.analysis import Result
from abeval.results.replay import REPLAY_SCHEMA_VERSION, PairRow, ReplayModel, ReplayResult
from abeval.results.trust import Verdict
from tests import builders

Z = 1.959963984540054


class Past(NamedTuple):
    """One experiment: its results, and the true lift of its ctr."""

    result: Result
    replayed: ReplayResult
    true: float


def online(name: str, lifts: dict[str, tuple[float, float]], decision: str) -> Result:
    """An analysis with these lifts and standard errors, by metric."""
    rows = tuple(
        builders.row(metric, p_value=_p(value / se), **builders.effect(value, Z * se))
        for metric, (value, se) in lifts.items()
    )
    built = builders.result(scorecard=rows, verdicts=(Verdict("treatment", decision, "."),))
    return replace(built, experiment=replace(built.experiment, name=name))


def _p(z: float) -> float:
    from scipy.special import ndtr

    return float(2 * ndtr(-abs(z)))


def replayed(name: str, differences: dict[str, tuple[float, float]]) -> ReplayResult:
    """A replay of two models with these differences and standard errors on control's traffic."""
    pairs = tuple(
        PairRow(
            *("ranker_v1", "ranker_v2", traffic, metric, 0.7, 0.7 + value, value),
            *(value - Z * se, value + Z * se, _p(value / se), 10_000, None),
        )
        for metric, (one, se) in differences.items()
        for traffic, value in (("control", one), ("treatment", -one), ("pooled", one / 2))
    )
    return ReplayResult(
        *(REPLAY_SCHEMA_VERSION, name, 0.05),
        (ReplayModel("ranker_v1"), ReplayModel("ranker_v2")),
        *((), (), (), pairs, (), (), (), ()),
    )


def past(experiments: int, seed: int = 0, spread: float = 0.01, se: float = 0.01) -> list[Past]:
    """Experiments whose offline auc has to do with their ctr (.8), and whose ndcg has not.

    What is significantly better is shipped. Log loss falls where auc rises.
    """
    random = np.random.default_rng(seed)
    made = []
    for i in range(experiments):
        offline, other, noise, none = random.standard_normal(4)
        true = spread * (0.8 * offline + 0.6 * other)
        seen = true + se * noise
        auc = 0.02 * offline + 0.005 * random.standard_normal()
        name = f"e{i:02}"
        lifts = {"ctr": (seen, se), "dwell_per_user": (0.01 * random.standard_normal(), 0.01)}
        decision = "ship" if seen > Z * se else "keep_running"
        differences = {"auc": (auc, 0.005), "log_loss": (-auc, 0.005), "ndcg@5[lin]": (none, 0.1)}
        made.append(Past(online(name, lifts, decision), replayed(name, differences), true))
    return made
