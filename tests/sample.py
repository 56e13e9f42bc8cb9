"""What the sample's logs give: made once in each process, for tests that only read it."""

from __future__ import annotations

import atexit
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import abeval
from abeval.results.agreement import Agreement
from abeval.results.analysis import Result

FILE = Path(__file__).parents[1] / "sample_logs" / "experiment.toml"


@cache
def analysis() -> Result:
    return abeval.load(FILE).analyze()


@cache
def _kept() -> Path:
    """The folder of the sums."""
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    abeval.load(FILE).analyze(save_aggregates=folder.name)
    return Path(folder.name)


def judged(**entries: Any) -> Result:
    """The result under other entries that only judge: tests/store/test_saved.py says it is."""
    return abeval.load(FILE).replace(**entries).from_aggregates(_kept())


@cache
def agreement() -> Agreement:
    return abeval.load(FILE).agree()
