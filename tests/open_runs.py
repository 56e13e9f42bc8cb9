"""An analysis on an open engine."""

from abeval.aggregates.collect import collect
from abeval.experiment.metrics import find_metrics_by_name
from abeval.logs.run import Run
from abeval.pipeline import judge_aggregates
from abeval.results.analysis import Result


def analyze_on(run: Run) -> Result:
    """Analyse an experiment on an engine of the caller's."""
    aggregates = collect(run, find_metrics_by_name(run.experiment))
    return judge_aggregates(run.experiment, aggregates, run.step)
