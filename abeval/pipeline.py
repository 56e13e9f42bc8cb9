"""Analyse logs: collect their aggregates, and judge them."""

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.collect import collect
from abeval.engines.sql import Engine
from abeval.experiment.metrics import find_metrics_by_name
from abeval.experiment.model import Experiment
from abeval.inference.judge import judge
from abeval.logs.run import Inputs, open_run
from abeval.progress import Step
from abeval.results.analysis import Result


def analyze_logs(experiment: Experiment, inputs: Inputs, engine: Engine | None = None) -> Result:
    """Analyse the logs of an experiment, on an open engine or on a new one."""
    with open_run(experiment, inputs, engine=engine) as run:
        aggregates = collect(run, find_metrics_by_name(experiment))
    # The engine has given back its memory: statistics of many items need some of their own.
    return judge_aggregates(experiment, aggregates, run.step)


def judge_aggregates(experiment: Experiment, aggregates: Aggregates, step: Step) -> Result:
    """Judge the aggregates of an experiment."""
    step("inference")
    return judge(experiment, find_metrics_by_name(experiment), aggregates)
