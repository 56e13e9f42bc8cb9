"""The Python API: load an experiment, analyse it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abeval.experiment.load import load_experiment, parse_experiment
from abeval.experiment.model import Experiment

if TYPE_CHECKING:
    import duckdb

    from abeval.engines.protocol import Engine
    from abeval.result import Result

Step = Callable[[str], None]


@dataclass(frozen=True)
class LoadedExperiment:
    """An experiment ready to be analysed.

    Attributes:
        experiment: What its file says.
    """

    experiment: Experiment

    def replace(self, **entries: Any) -> "LoadedExperiment":  # noqa: ANN401
        """The same experiment with other top-level entries, validated anew.

        Raises:
            ExperimentError: With every mistake.

        Example:
            >>> load("sample_logs/experiment.toml").replace(alpha=0.01).experiment.alpha
            0.01
        """
        told = self.experiment.model_dump(exclude_unset=True, exclude={"folder"})
        return LoadedExperiment(parse_experiment({**told, **entries}, self.experiment.folder))

    def analyze(
        self,
        *,
        logs: Mapping[str, object] | None = None,
        connection: "duckdb.DuckDBPyConnection | None" = None,
        step: Step | None = None,
    ) -> "Result":
        """Aggregate the logs, and judge.

        Args:
            logs: Frames (pandas, Polars, Arrow, DuckDB relations) by log name: `impressions`,
                `clicks`, `items`, `exposures`; the others are read from where the file says.
            connection: The caller's DuckDB, whose tables `logs.*.table` names.
            step: Told the name of each step as it begins.

        Raises:
            LogError: A log is missing, unreadable, or not what the file says.
            QueryError: The engine could not run a query.
        """
        from abeval.engines.duckdb import DuckDBEngine

        experiment = self.experiment
        engine = DuckDBEngine(experiment.engine, experiment.folder, connection)
        try:
            return analyze_on(experiment, engine, logs or {}, step or _silent)
        finally:
            engine.close()


def analyze_on(
    experiment: Experiment, engine: "Engine", logs: Mapping[str, object], step: Step
) -> "Result":
    """Analyse an experiment on an engine of the caller's."""
    from abeval.analysis import judge
    from abeval.builtin import builtin_metrics
    from abeval.collect import collect
    from abeval.metrics import chosen_metrics

    metrics = chosen_metrics(experiment, builtin_metrics(experiment))
    aggregates = collect(experiment, metrics, engine, logs, step)
    step("inference")
    return judge(experiment, metrics, aggregates)


def load(path: str | Path) -> LoadedExperiment:
    """Read an experiment file.

    Args:
        path: A TOML file; relative paths of logs in it start from its folder.

    Raises:
        ExperimentError: The file is missing, is not TOML, or has mistakes; all of them are named.
    """
    return LoadedExperiment(load_experiment(path))


def define(folder: str | Path = ".", **entries: Any) -> LoadedExperiment:  # noqa: ANN401
    """An experiment given in Python, with the entries that a file would have.

    Args:
        folder: Where relative paths of logs start.
        **entries: The top-level entries of the file.

    Raises:
        ExperimentError: With every mistake.
    """
    return LoadedExperiment(parse_experiment(entries, folder))


def _silent(_: str) -> None:
    pass
