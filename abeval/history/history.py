"""Offer `History`: a file of past experiments, to add to and to ask."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from abeval.bounds import check_between
from abeval.calls import explain_methods
from abeval.errors import ExperimentError
from abeval.files import check_writable
from abeval.history.entries import Addable, add
from abeval.history.programme import LoadedHoldout, measure_holdout
from abeval.history.report import report
from abeval.history.table import read_rows, tell_file_kind
from abeval.results.history import Added, HistoryReport, HistoryRow
from abeval.results.record import build_frame
from abeval.results.study import Study

if TYPE_CHECKING:
    import pandas as pd


@explain_methods
class History:
    """A file with one row per experiment, variant and metric.

    `path` is a Parquet (`.parquet`) or DuckDB file (`.duckdb`, `.db`); `add` creates it.

    Raises:
        ExperimentError: The path has another ending.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> import abeval
        >>> result = abeval.load("sample_logs/experiment.toml").analyze()
        >>> with TemporaryDirectory() as folder:
        ...     history = abeval.History(f"{folder}/history.parquet")
        ...     changes = [history.add(result).sources[0].change for _ in range(2)]
        >>> changes
        ['added', 'unchanged']
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        tell_file_kind(self.path)

    def __repr__(self) -> str:
        return f"History({str(self.path)!r})"

    def add(
        self, *results: Addable | Study | str | Path, shipped: str | Iterable[str] | None = None
    ) -> Added:
        """Add results of one experiment, replacing its earlier ones of the same kind.

        Adding the same content again changes nothing.

        Args:
            *results: Results of `analyze`, `replay` and `agree`, a study, or the JSON of these.
            shipped: The variant that was shipped, or several; an empty list if none was. If not
                given, the verdict decides.

        Raises:
            ExperimentError: A file is no result, the results are of different experiments, or the
                history file is no history, is damaged, or stays in use for a minute.
            AbevalError: The history cannot be written.
        """
        check_writable(self.path)
        names = (shipped,) if isinstance(shipped, str) else shipped
        return add(self.path, results, None if names is None else frozenset(names))

    def rows(self) -> tuple[HistoryRow, ...]:
        """Return every row of the file; none if it does not exist yet."""
        return read_rows(self.path).rows

    def to_frame(self) -> "pd.DataFrame":
        """Return every row of the file, as a frame."""
        return build_frame(self.rows(), HistoryRow)

    def report(
        self,
        *,
        metrics: Sequence[str] | None = None,
        offline: Sequence[str] | None = None,
        alpha: float = 0.05,
        holdout: LoadedHoldout | None = None,
    ) -> HistoryReport:
        """Report which metrics predict others, how often they move, and total gains.

        `metrics` are online metrics, by default goals and guardrails. `offline` are offline
        metrics, by default those that most teams quote. `alpha` is the error rate of the intervals.
        `holdout` is a loaded experiment with a `[holdout]`: what did its period gain?

        Raises:
            ExperimentError: There are too few experiments, no such metric, or no holdout.
            LogError: A log of the holdout cannot be read.
        """
        check_between("alpha", alpha, 0.0001, 0.5)
        _check_exists(self.path)
        measured = None if holdout is None else measure_holdout(holdout)
        return report(self.path, read_rows(self.path), metrics, offline, alpha, measured)


def read_past(path: Path) -> tuple[HistoryRow, ...]:
    """Read every row of a history; an error says that there is none."""
    history = History(path)
    _check_exists(path)
    return history.rows()


def _check_exists(path: Path) -> None:
    if not path.exists():
        hint = "abeval history add writes it, from the JSON of abeval analyze"
        raise ExperimentError(f"there is no history {path}", hint)
