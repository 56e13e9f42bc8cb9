"""The Python API: an experiment from a file, or given in Python."""

from pathlib import Path
from typing import Any

from abeval.experiment.load import load_experiment, parse_experiment
from abeval.loaded import LoadedExperiment

__all__ = ["LoadedExperiment", "define", "load"]


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
