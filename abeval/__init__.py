"""A/B tests of recommender, search and ads models, from logs to a scorecard to be trusted.

Example:
    >>> import abeval
    >>> result = abeval.load("sample_logs/experiment.toml").analyze()
    >>> result["ctr"].status
    'better'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from abeval.api import LoadedExperiment, define, load
    from abeval.errors import AbevalError, ExperimentError, LogError, QueryError
    from abeval.offline.evaluate import evaluate
    from abeval.offline.evaluate_log import JudgedColumns, evaluate_log
    from abeval.offline.evaluation import Evaluation
    from abeval.results.analysis import Result

__version__ = "0.1.0"

__all__ = [
    "AbevalError",
    "Evaluation",
    "ExperimentError",
    "JudgedColumns",
    "LoadedExperiment",
    "LogError",
    "QueryError",
    "Result",
    "define",
    "evaluate",
    "evaluate_log",
    "load",
]

_HOME = {
    "AbevalError": "errors",
    "Evaluation": "offline.evaluation",
    "ExperimentError": "errors",
    "JudgedColumns": "offline.evaluate_log",
    "LoadedExperiment": "api",
    "LogError": "errors",
    "QueryError": "errors",
    "Result": "result",
    "define": "api",
    "evaluate": "offline.evaluate",
    "evaluate_log": "offline.evaluate_log",
    "load": "api",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name == "stats":
        return import_module("abeval.stats")
    if name in _HOME:
        # Importing everything at once would make `abeval --help` slow.
        return getattr(import_module(f"abeval.{_HOME[name]}"), name)
    raise AttributeError(f"module 'abeval' has no attribute {name!r}")
