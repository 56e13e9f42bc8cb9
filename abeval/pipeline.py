"""Logs → aggregates → result, on an engine, with a store, or from what was kept."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.collect import collect
from abeval.engines.choice import open_engine
from abeval.engines.protocol import Engine, ProgressEngine, Watcher
from abeval.experiment.metrics import named_metrics
from abeval.experiment.model import Experiment
from abeval.inference.judge import judge
from abeval.logs.sums import Sums, one_pass
from abeval.results.analysis import Result
from abeval.steps import Step

if TYPE_CHECKING:
    import duckdb

    from abeval.engines.choice import EngineChoice


@contextmanager
def opened(
    experiment: Experiment,
    connection: "duckdb.DuckDBPyConnection | None",
    engine: "EngineChoice",
    step: Step | None,
) -> Iterator[Engine]:
    """The engine that the caller, else the experiment, asks for; closed at the end.

    Args:
        experiment: What it says of engines.
        connection: The caller's DuckDB.
        engine: `duckdb`, `spark`, the caller's Spark session, or None.
        step: Told how far a statement is, if it can be told.
    """
    with closing(open_engine(experiment.engine, experiment.folder, connection, engine)) as found:
        if isinstance(found, ProgressEngine) and isinstance(step, Watcher):
            step.watch(found.watched())
        yield found


def analyze_on(
    experiment: Experiment,
    engine: Engine,
    logs: Mapping[str, object],
    step: Step,
    sums: Sums | None = None,
) -> Result:
    """Analyse an experiment on an engine of the caller's; `sums` may come from a store."""
    return judged(experiment, collected(experiment, engine, logs, step, sums), step)


def collected(
    experiment: Experiment,
    engine: Engine,
    logs: Mapping[str, object],
    step: Step,
    sums: Sums | None,
) -> Aggregates:
    """What the metrics of the scorecard add up to; `sums` in place of one pass over the logs."""
    metrics = named_metrics(experiment)
    return collect(experiment, metrics, engine, logs, step, sums or one_pass)


def judged(experiment: Experiment, aggregates: Aggregates, step: Step) -> Result:
    """What the aggregates say of an experiment."""
    step("inference")
    return judge(experiment, named_metrics(experiment), aggregates)


def judged_folder(experiment: Experiment, folder: Path, step: Step) -> Result:
    """What the aggregates of a folder say, or else the sums that a warehouse put there.

    Raises:
        ExperimentError: They are not there, not whole, or were made by other definitions.
    """
    from abeval.store.given import given_file
    from abeval.store.saved import SAVED, read_aggregates

    file = given_file(folder)
    if file is not None and not (folder / SAVED).exists():
        return _judged_sums(experiment, file, step)
    step("reading the aggregates")
    return judged(experiment, read_aggregates(folder, experiment), step)


def _judged_sums(experiment: Experiment, file: Path, step: Step) -> Result:
    from abeval.engines.duckdb import DuckDBEngine
    from abeval.store.given import check_given, given_sums

    check_given(experiment)
    # The duplicates of the logs at hand are not those of the sums.
    cleaning = experiment.cleaning.model_copy(update={"duplicates": "unchecked"})
    unchecked = experiment.model_copy(update={"cleaning": cleaning})
    with closing(DuckDBEngine(unchecked.engine, unchecked.folder)) as engine:
        return analyze_on(unchecked, engine, {}, step, given_sums(file))


def stored(
    folder: Path, experiment: Experiment, frames: Mapping[str, object]
) -> AbstractContextManager[Sums]:
    """Sums that a store keeps by input file.

    Raises:
        ExperimentError: The sums of these logs cannot be stored, or the folder is no store.
    """
    from abeval.store.stored import check_storable, stored_sums

    check_storable(experiment, frames)
    return stored_sums(folder)


def saving(folder: Path, experiment: Experiment) -> Callable[[Aggregates], None]:
    """What writes aggregates to a folder, which is checked before they are computed."""
    from abeval.store.saved import check_savable, save_aggregates

    check_savable(folder)
    return lambda aggregates: save_aggregates(folder, experiment, aggregates)
