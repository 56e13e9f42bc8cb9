"""One run: an experiment, its logs and an engine, as every step up to the aggregates gets them.

`opened.py` makes it of the keywords that the caller of `api/` gave; `cli/sql.py` of a recording
engine.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

from abeval.engines.protocol import Engine
from abeval.experiment.model import Experiment
from abeval.experiment.problems import suggestion
from abeval.steps import Step, silent

if TYPE_CHECKING:
    import duckdb

    from abeval.engines.choice import EngineChoice


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
