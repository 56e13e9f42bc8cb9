"""The experiment of a table of one row a unit, whose rows are read once.

`entry.py` calls it for `abeval.analyze`, `cli/table.py` for `abeval analyze TABLE`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from abeval.api.loaded import LoadedExperiment
from abeval.engines.protocol import Engine
from abeval.experiment.sections import EngineOptions
from abeval.table.columns import TableOptions
from abeval.table.read import read_table

if TYPE_CHECKING:
    from abeval.logs.run import Inputs
    from abeval.results.analysis import Result


@dataclass(frozen=True)
class LoadedTable(LoadedExperiment):
    """The experiment of a table, on the engine that has read it; to be analysed once.

    Attributes:
        engine: Open until the analysis ends.
    """

    engine: Engine

    def replace(self, **entries: Any) -> LoadedExperiment:  # noqa: ANN401
        """The same experiment with other entries, perhaps of the engine: the table is read anew."""
        self.engine.close()
        return super().replace(**entries)

    def analyze(
        self,
        *,
        save_aggregates: str | Path | None = None,
        **inputs: "Unpack[Inputs]",
    ) -> "Result":
        """As for any experiment; the engine is closed at the end."""
        from abeval.pipeline import analyze_logs

        return analyze_logs(self.experiment, inputs, save_aggregates, self.engine)


def load_table(table: object, options: TableOptions) -> LoadedExperiment:
    """The experiment of a file or frame.

    Raises:
        LogError: The table cannot be read, or lacks a column.
        ExperimentError: A metric is none, or there are no two variants.
    """
    experiment, engine = read_table(table, options)
    if experiment.engine == EngineOptions():
        return LoadedTable(experiment, engine)
    engine.close()
    return LoadedExperiment(experiment)
