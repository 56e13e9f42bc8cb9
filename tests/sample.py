"""What the sample's logs give: made once in each process, for tests that only read it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import abeval
from abeval.results.agreement import Agreement
from abeval.results.analysis import Result

FILE = Path(__file__).parents[1] / "sample_logs" / "experiment.toml"


@cache
def analysis() -> Result:
    return abeval.load(FILE).analyze()


@cache
def agreement() -> Agreement:
    return abeval.load(FILE).agree()
