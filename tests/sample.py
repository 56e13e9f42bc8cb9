"""What the sample's logs give: made once in each process, for tests that only read it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import abeval
from abeval.api import LoadedExperiment
from abeval.experiment.load import load_experiment
from abeval.results.agreement import Agreement
from abeval.results.analysis import Result

FILE = Path(__file__).parents[1] / "sample_logs" / "experiment.toml"


@cache
def analysis() -> Result:
    return LoadedExperiment(load_experiment(FILE)).analyze()


@cache
def agreement() -> Agreement:
    return LoadedExperiment(load_experiment(FILE)).agree()


class Sample(LoadedExperiment):
    """The sample for the examples in docstrings, which only read its results."""

    def analyze(self, **_: Any) -> Result:
        return analysis()

    def agree(self, **_: Any) -> Agreement:
        return agreement()


@cache
def at_one_look(file: Path = FILE) -> LoadedExperiment:
    """The same experiment with one look at the end, and every unit of the log in it."""
    log = {"columns": {"ts": "time"}}
    clicks = {"columns": {"ts": "time", "dwell": "dwell_ms"}, "dwell_unit": "ms"}
    logs = {
        "impressions": {"path": "impressions/*.parquet", **log},
        "clicks": {"path": "clicks.parquet", **clicks},
        "items": {"path": "items.parquet"},
    }
    return abeval.load(file).replace(logs=logs, inference={}, agreement={})


@cache
def analysis_at_one_look() -> Result:
    return at_one_look().analyze()
