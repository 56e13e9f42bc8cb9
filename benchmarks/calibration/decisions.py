"""How often verdicts ship and stop: by the number of guardrails, and without a correction for it.

    python -m benchmarks.calibration.decisions

Each experiment is the estimates of its goals and guardrails, correlated at .3, judged by
`scorecard.build_rows` and `verdict.decide` as an analysis is.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from abeval.experiment.load import parse_experiment
from abeval.experiment.model import Experiment
from abeval.inference.comparison import Comparison
from abeval.inference.scorecard import build_rows
from abeval.inference.verdict import decide
from abeval.metrics.definition import Margin, Metric
from abeval.results import Decision
from abeval.stats import effects
from abeval.stats.records import Floats, Lift

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


class Cell(NamedTuple):
    """Shares of experiments.

    Attributes:
        goals: Goals.
        guardrails: Guardrails.
        family: `holm`, or `none` for no correction at all.
        stopped: Stopped although nothing moves.
        shipped: Shipped although nothing moves.
        shipped_gain: Shipped where every goal gains, at 80 % power each, and no guardrail moves.
        stopped_harm: Stopped where one guardrail loses as much.
        shipped_margin: Shipped where one guardrail loses all of its margin.
    """

    goals: int
    guardrails: int
    family: str
    stopped: float
    shipped: float
    shipped_gain: float
    stopped_harm: float
    shipped_margin: float


def experiment_of(goals: int, guardrails: int, family: str) -> tuple[Experiment, list[Metric]]:
    """An experiment of two variants, and its metrics."""
    metrics = [
        *(Metric(f"goal{i}", "mean", "…", role="goal") for i in range(goals)),
        *(
            Metric(
                f"guardrail{i}", "mean", "…", role="guardrail", margin=Margin(MARGIN, relative=True)
            )
            for i in range(guardrails)
        ),
    ]
    experiment = parse_experiment(
        {
            "name": "decisions",
            "unit": "user_id",
            "control": "a",
            "variants": {"a": {}, TREATMENT: {}},
            "logs": {"impressions": {"path": "none.parquet"}},
            "metrics": [{"name": metric.name, "value": "1"} for metric in metrics],
            "inference": {"family": family},
        }
    )
    return experiment, metrics


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


def cells(runs: int) -> Iterator[Cell]:
    """Every number of goals and guardrails, with and without a correction."""
    for goals, guardrails in ((1, 0), (1, 1), (1, 3), (2, 3), (1, 5), (1, 10)):
        for family in ("none", "holm"):
            yield cell(goals, guardrails, family, runs)


def cell(goals: int, guardrails: int, family: str, runs: int) -> Cell:
    """One row of the table."""
    case = experiment_of(goals, guardrails, family)
    return Cell(
        goals,
        guardrails,
        family,
        share(*case, NOTHING, "do_not_ship", runs),
        share(*case, NOTHING, "ship", runs),
        share(*case, GAIN, "ship", runs),
        share(*case, HARM, "do_not_ship", runs) if guardrails else float("nan"),
        share(*case, AT_MARGIN, "ship", runs) if guardrails else float("nan"),
    )


def markdown(rows: Iterator[Cell]) -> Iterator[str]:
    """Lines of the table for the documentation."""
    yield (
        "| goals | guardrails | correction | no effect: stopped, % | no effect: shipped, % | every "
        "goal gains: shipped, % | one guardrail loses: stopped, % | one at its margin: shipped, % |"
    )
    yield "|--:|--:|---|--:|--:|--:|--:|--:|"
    for row in rows:
        shares = " | ".join("" if np.isnan(v) else f"{100 * v:.1f}" for v in row[3:])
        yield f"| {row.goals} | {row.guardrails} | {row.family} | {shares} |"


def main() -> None:
    """Run the study and print its table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.decisions")
    parser.add_argument("--repetitions", type=int, default=4_000)
    for line in markdown(cells(parser.parse_args().repetitions)):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
