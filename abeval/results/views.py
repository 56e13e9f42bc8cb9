"""How results display themselves: the only import that runs up, at the moment of display.

Methods of the results (`results/analysis.py`, `replay.py`, `windows.py`) call it; it calls
`report/`.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from abeval.report import Reported, Result
    from abeval.results.aa import AAResult


def write_report(result: "Reported", path: str | Path, aa: "AAResult | None" = None) -> Path:
    """Write the HTML page of a result, and return its path."""
    from abeval import report

    return report.write_report(result, Path(path), aa)


def summary_html(result: "Result") -> str:
    """The verdict and the scorecard as inline HTML, for notebooks."""
    from abeval import report

    return report.summary_html(result)


def as_text(result: "Result") -> str:
    """The result as the terminal shows it."""
    from abeval.report import terminal

    return terminal.as_text(result)
