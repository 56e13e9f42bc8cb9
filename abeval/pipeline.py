"""Collect aggregates from logs, or read those that were kept, and judge them.

`logs/run.py` opens the logs, `inference/judge.py` judges: nothing else is done here.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.collect import collect
from abeval.engines.protocol import Engine
from abeval.experiment.metrics import named_metrics
from abeval.experiment.model import Experiment
from abeval.inference.judge import judge
from abeval.logs.outputs import Place, check_apart, check_named, reads_of
from abeval.logs.run import Inputs, Run, check_inputs, opened
from abeval.progress import Step
from abeval.results.analysis import Result
from abeval.store.summaries import Summary


def analyze_logs(
    experiment: Experiment,
    inputs: Inputs,
    save_aggregates: str | Path | None,
    engine: Engine | None = None,
) -> Result:
    """Judge logs; keep the aggregates behind the result if a folder is named.

    Args:
        experiment: What to analyse.
        inputs: Of the caller.
        save_aggregates: A folder to write.
        engine: One that is open and may have read the logs, in place of a new one.

    Raises:
        ExperimentError: The folder cannot be written, or would replace an input.
    """
    check_inputs(inputs)
    save = None if save_aggregates is None else _saving(save_aggregates, experiment)
    with opened(experiment, inputs, engine=engine) as run:
        aggregates = collect(run, named_metrics(experiment))
    if save is not None:
        save(aggregates)
    # The engine has given back its memory: statistics of many items need some of their own.
    return judged(experiment, aggregates, run.step)


def analyze_on(run: Run) -> Result:
    """Analyse an experiment on an engine of the caller's."""
    aggregates = collect(run, named_metrics(run.experiment))
    return judged(run.experiment, aggregates, run.step)


def judged(experiment: Experiment, aggregates: Aggregates, step: Step) -> Result:
    """Judge the aggregates of an experiment."""
    step("inference")
    return judge(experiment, named_metrics(experiment), aggregates)


def judged_folder(experiment: Experiment, folder: Path, step: Step) -> Result:
    """Judge the aggregates of a folder.

    Raises:
        ExperimentError: They are not there, not whole, or were made by other definitions.
    """
    from abeval.store.saved import read_aggregates

    step("reading the aggregates")
    return judged(experiment, read_aggregates(folder, experiment), step)


def judged_summaries(experiment: Experiment, rows: Sequence[Summary], source: str) -> Result:
    """Judge sums by metric, variant and day.

    Raises:
        ExperimentError: The experiment asks for what sums cannot give.
        LogError: The sums are of other variants.
    """
    from abeval.store.summaries import of_experiment

    metrics, aggregates = of_experiment(experiment, named_metrics(experiment), rows, source)
    return judge(experiment, metrics, aggregates)


def _saving(folder: str | Path, experiment: Experiment) -> Callable[[Aggregates], None]:
    """Check the folder for aggregates, and return what writes them there.

    Raises:
        ExperimentError: It cannot be written, or would replace an input.
    """
    from abeval.store.saved import KEPT, check_savable, save_aggregates

    check_named("save_aggregates", folder)
    check_apart(reads_of(experiment), [Place("save_aggregates", Path(folder), KEPT)])
    check_savable(Path(folder))
    return partial(save_aggregates, Path(folder), experiment)
