"""How often verdicts ship and stop: by the number of guardrails, and without a correction for it.

Each experiment is the estimates of its goals and guardrails, correlated at .3, judged by
`scorecard.build_rows` and `verdict.decide` as an analysis is.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from abeval.experiment.model import Experiment
from abeval.inference.comparison import Comparison
from abeval.inference.scorecard import build_rows
from abeval.inference.verdict import decide
from abeval.metrics.definition import Metric
from abeval.results.trust import Decision
from abeval.stats import effects
from abeval.stats.records import Floats, Lift
from benchmarks.runner import Record, Table
from tests.worlds.experiments import list_metrics, parse_metrics

CORRELATION = 0.3
REACH = 2.8016
"""Standard errors at which a test at 5 % finds an effect in 80 %."""

MARGIN = 0.02
TREATMENT = "b"


class Truth(NamedTuple):
    """What the treatment does, in standard errors of each estimate.

    Attributes:
        goals: To every goal.
        first: To the first guardrail.
        others: To the other guardrails.
        margin: The guardrails' margin.
    """

    goals: float
    first: float = 0.0
    others: float = 0.0
    margin: float = REACH + 1


NOTHING = Truth(0.0)
GAIN = Truth(REACH)
HARM = Truth(REACH, first=-REACH)
AT_MARGIN = Truth(REACH, first=-(REACH + 1))


def experiment_of(goals: int, guardrails: int, family: str) -> tuple[Experiment, list[Metric]]:
    """An experiment of two variants, and its metrics."""
    names = [f"goal{i}" for i in range(goals)], [f"guardrail{i}" for i in range(guardrails)]
    metrics = list_metrics(*names, MARGIN)
    return parse_metrics(metrics, inference={"family": family}), metrics


def decision_of(
    experiment: Experiment, metrics: Sequence[Metric], z: Floats, margin: float
) -> Decision:
    """The decision on estimates that lie so many standard errors from control."""
    se = MARGIN / margin
    comparisons = {
        (metric.name, TREATMENT): _comparison(float(one), se)
        for metric, one in zip(metrics, z, strict=True)
    }
    (verdict,) = decide((), tuple(build_rows(experiment, metrics, comparisons)), ())
    return verdict.decision


def _comparison(z: float, se: float) -> Comparison:
    effect = effects.effect_from_difference(1.0, 1.0 + z * se, z * se, se)
    lift = Lift(effect.difference, effect.low, effect.high, bounded=True, method="fieller")
    return Comparison(10_000, 10_000, 1.0, 1.0 + z * se, effect, lift)


def share(
    experiment: Experiment,
    metrics: Sequence[Metric],
    truth: Truth,
    decision: Decision,
    runs: int,
    seed: int = 0,
) -> float:
    """Share of experiments with a decision."""
    rng = np.random.default_rng([seed, len(metrics)])
    goals = sum(metric.role == "goal" for metric in metrics)
    guardrails = len(metrics) - goals
    mean = np.repeat([truth.goals, truth.others], [goals, guardrails])
    if guardrails:
        mean[goals] = truth.first
    common = rng.standard_normal((runs, 1)) * np.sqrt(CORRELATION)
    own = rng.standard_normal((runs, len(metrics))) * np.sqrt(1 - CORRELATION)
    found = [decision_of(experiment, metrics, z, truth.margin) for z in mean + common + own]
    return found.count(decision) / runs


def measure_cell(cell: tuple[int, int, str], repetitions: int, seed: int) -> Record:
    """Measure the shares of decisions with so many goals and guardrails, with a correction."""
    goals, guardrails, family = cell
    case = experiment_of(goals, guardrails, family)

    def measure(truth: Truth, decision: Decision) -> float:
        return share(*case, truth, decision, repetitions, seed)

    return {
        "goals": goals,
        "guardrails": guardrails,
        "correction": family,
        "no effect: stopped, %": measure(NOTHING, "do_not_ship"),
        "no effect: shipped, %": measure(NOTHING, "ship"),
        "every goal gains: shipped, %": measure(GAIN, "ship"),
        "one guardrail loses: stopped, %": measure(HARM, "do_not_ship") if guardrails else math.nan,
        "one at its margin: shipped, %": measure(AT_MARGIN, "ship") if guardrails else math.nan,
    }


SIZES = ((1, 0), (1, 1), (1, 3), (2, 3), (1, 5), (1, 10))
CELLS = [(*size, family) for size in SIZES for family in ("none", "holm")]
TABLES = {"decisions": Table(measure_cell, CELLS, repetitions=4_000)}
