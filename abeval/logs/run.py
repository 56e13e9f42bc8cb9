"""One run: an experiment, its logs and an engine, as every step up to the aggregates gets them.

`pipeline.py` and `api/` open it for the keywords that a caller gave, on an engine that may open the
files of its experiment and no other ones; `cli/sql.py` makes it of a recording engine.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

from abeval.engines.protocol import ConfinedEngine, Engine, ProgressEngine, Watcher
from abeval.engines.sources import files_of_experiment, files_of_log
from abeval.experiment.model import Experiment
from abeval.experiment.problems import suggestion
from abeval.experiment.sources import LogSource
from abeval.progress import Step, silent

if TYPE_CHECKING:
    import duckdb

    from abeval.logs.run import EngineChoice


class Inputs(TypedDict, total=False):
    """Keywords of every method of an experiment that reads logs.

    Attributes:
        logs: Frames (pandas, Polars, Arrow, DuckDB relations) by log name: `impressions`,
            `clicks`, `items`, `exposures`, outcome logs by their names, for a replay also `scores`
            and `truth`; the others are read from where the file says.
        connection: The caller's DuckDB, whose tables `logs.*.table` names.
        engine: `duckdb`, `spark` or the caller's `SparkSession`, whose tables `logs.*.table` names
            and whose frames `logs` may be; without, what the experiment says.
        step: Called with the name of each step as it begins.
    """

    logs: Mapping[str, object] | None
    connection: "duckdb.DuckDBPyConnection | None"
    engine: "EngineChoice"
    step: Step | None


def check_inputs(inputs: Inputs) -> None:
    """Refuse a keyword that there is not, as a signature that lists them would.

    Raises:
        TypeError: With the keyword that was probably meant.
    """
    for name in inputs:
        if name not in Inputs.__annotations__:
            hint = suggestion(name, Inputs.__annotations__)
            raise TypeError(f"unexpected keyword argument {name!r}{hint}")


@dataclass(frozen=True)
class Run:
    """An experiment on an open engine.

    Attributes:
        experiment: What to analyse.
        engine: Where the queries run.
        frames: Logs from Python, by name; the others are read from where the file says.
        step: Called with the name of each step as it begins.
    """

    experiment: Experiment
    engine: Engine
    frames: Mapping[str, object] = field(default_factory=dict)
    step: Step = silent


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
