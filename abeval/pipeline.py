"""Logs → aggregates → result, on an engine, with a store, or from what was kept.

Called by `api/`, and by `cli/sql.py` with an engine of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.collect import collect
from abeval.aggregates.summaries import Summary
from abeval.engines.inputs import files_of_experiment
from abeval.engines.protocol import Engine
from abeval.experiment.metrics import named_metrics
from abeval.experiment.model import Experiment
from abeval.files import real
from abeval.inference.judge import judge
from abeval.logs.opened import opened
from abeval.logs.outputs import Place, check_apart, check_named, reads_of
from abeval.logs.run import Inputs, Run, check_inputs
from abeval.logs.sums import Sums, one_pass
from abeval.metrics.definition import Metric
from abeval.results.analysis import Result
from abeval.steps import Step


def analyze_logs(
    experiment: Experiment,
    inputs: Inputs,
    store: str | Path | None,
    save_aggregates: str | Path | None,
    engine: Engine | None = None,
) -> Result:
    """Logs → result; with `store` only new files are read, `save_aggregates` keeps the aggregates.

    Args:
        experiment: What to analyse.
        inputs: Of the caller.
        store: A folder of sums by input file.
        save_aggregates: A folder to write.
        engine: One that is open and may have read the logs, in place of a new one.

    Raises:
        ExperimentError: The sums of these logs cannot be stored, the folder is no store, or an
            output would replace an input.
    """
    check_inputs(inputs)
    if written := _folders(store, save_aggregates):
        check_apart(reads_of(experiment), written)
    save = None if save_aggregates is None else _saving(Path(save_aggregates), experiment)
    logs = inputs.get("logs") or {}
    collects = collect if store is None else _over_store(Path(store), experiment, logs)
    writes = () if store is None else [store]
    with opened(experiment, inputs, writes=writes, engine=engine) as run:
        aggregates = collects(run, named_metrics(experiment))
    if save is not None:
        save(aggregates)
    # The engine has given back its memory: statistics of many items need some of their own.
    return judged(experiment, aggregates, run.step)


def _folders(store: str | Path | None, save_aggregates: str | Path | None) -> list[Place]:
    """The folders that an analysis writes, none for None.

    Raises:
        ExperimentError: A name is empty.
    """
    from abeval.store.manifest import KEPT, WRITTEN

    named = (("store", store, WRITTEN), ("save_aggregates", save_aggregates, KEPT))
    for name, folder, _ in named:
        if folder is not None:
            check_named(name, folder)
    return [Place(name, Path(f), globs) for name, f, globs in named if f is not None]


def analyze_on(run: Run, sums: Sums = one_pass) -> Result:
    """Analyse an experiment on an engine of the caller's; `sums` may come from a warehouse."""
    aggregates = collect(run, named_metrics(run.experiment), sums)
    return judged(run.experiment, aggregates, run.step)


def judged(experiment: Experiment, aggregates: Aggregates, step: Step) -> Result:
    """What the aggregates say of an experiment."""
    step("inference")
    return judge(experiment, named_metrics(experiment), aggregates)


def judged_folder(experiment: Experiment, folder: Path, step: Step) -> Result:
    """What the aggregates of a folder say, or else the sums that a warehouse put there.

    Raises:
        ExperimentError: They are not there, not whole, or were made by other definitions.
    """
    from abeval.store.manifest import SAVED
    from abeval.store.saved import read_aggregates
    from abeval.store.warehouse import warehouse_file

    file = warehouse_file(folder)
    if file is not None and not (folder / SAVED).exists():
        return _judged_sums(experiment, file, step)
    step("reading the aggregates")
    return judged(experiment, read_aggregates(folder, experiment), step)


def judged_summaries(experiment: Experiment, rows: Sequence[Summary], source: str) -> Result:
    """What sums by metric, variant and day say of an experiment.

    Raises:
        ExperimentError: The experiment asks for what sums cannot give.
        LogError: The sums are of other variants.
    """
    from abeval.store.summaries import of_experiment

    metrics, aggregates = of_experiment(experiment, named_metrics(experiment), rows, source)
    return judge(experiment, metrics, aggregates)


def _judged_sums(experiment: Experiment, file: Path, step: Step) -> Result:
    from abeval.engines.duckdb import DuckDBEngine
    from abeval.store.warehouse import check_supported, warehouse_sums

    check_supported(experiment)
    # The duplicates of the logs at hand are not those of the sums.
    cleaning = experiment.cleaning.model_copy(update={"duplicates": "unchecked"})
    unchecked = experiment.model_copy(update={"cleaning": cleaning})
    with closing(DuckDBEngine(unchecked.engine, unchecked.folder)) as engine:
        engine.confine([*files_of_experiment(unchecked), str(real(file))])
        return analyze_on(Run(unchecked, engine, step=step), warehouse_sums(file))


def _over_store(
    folder: Path, experiment: Experiment, frames: Mapping[str, object]
) -> Callable[[Run, Sequence[Metric]], Aggregates]:
    """`collect` over a store.

    Raises:
        ExperimentError: The sums of these logs cannot be stored.
    """
    from abeval.store.collect import collect_stored
    from abeval.store.storable import check_storable

    check_storable(experiment, frames)
    return partial(collect_stored, folder)


def _saving(folder: Path, experiment: Experiment) -> Callable[[Aggregates], None]:
    """What writes aggregates to a folder, which is checked before they are computed."""
    from abeval.store.saved import check_savable, save_aggregates

    check_savable(folder)
    return lambda aggregates: save_aggregates(folder, experiment, aggregates)
