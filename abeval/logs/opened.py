"""A run on an engine of its own, which may open the files of its experiment and no other ones.

`pipeline.py` and `api/` open it for what they read of the logs; it imports no statistics.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from abeval.engines.choice import open_engine
from abeval.engines.protocol import ConfinedEngine, Engine, ProgressEngine, Watcher
from abeval.engines.sources import files_of_experiment, files_of_log
from abeval.experiment.model import Experiment
from abeval.experiment.sources import LogSource
from abeval.logs.run import Inputs, Run, check_inputs
from abeval.steps import silent


@contextmanager
def opened(
    experiment: Experiment,
    inputs: Inputs,
    reads: Sequence[str] = (),
    engine: Engine | None = None,
) -> Iterator[Run]:
    """A run on the engine that the caller, else the experiment, asks for; closed at the end.

    Args:
        experiment: The engine may open the files of its logs, and no other ones.
        inputs: Of the caller.
        reads: Paths of other files that it may open.
        engine: One that is open already, in place of a new one.
    """
    check_inputs(inputs)
    connection, choice = inputs.get("connection"), inputs.get("engine")
    step = inputs.get("step")
    if engine is None:
        engine = open_engine(experiment.engine, experiment.folder, connection, choice)
    with closing(engine):
        if isinstance(engine, ProgressEngine) and isinstance(step, Watcher):
            step.watch(engine.watched())
        if isinstance(engine, ConfinedEngine):
            others = (LogSource.model_construct(path=path) for path in reads)
            files = [file for log in others for file in files_of_log("", log, experiment.folder)]
            engine.confine([*files_of_experiment(experiment), *files])
        yield Run(experiment, engine, inputs.get("logs") or {}, step or silent)
