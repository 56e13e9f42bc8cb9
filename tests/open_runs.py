"""An analysis on an open engine."""

from abeval.aggregates.collect import collect
from abeval.experiment.metrics import find_metrics_by_name
from abeval.inference.judge import judge
from abeval.logs.run import Run
from abeval.results.analysis import Result


def analyze_on(run: Run) -> Result:
    """Analyse an experiment on an engine of the caller's."""
    metrics = find_metrics_by_name(run.experiment)
    return judge(run.experiment, metrics, collect(run, metrics))
