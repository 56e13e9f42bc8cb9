"""How results display themselves: the only import that runs up, at the moment of display.

`Record` (`record.py`), the base of every result, and methods of the results call it; it calls
`report/`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from abeval.report import AAResult, Reported, Result


def write_report(result: "Reported", path: str | Path, aa: "AAResult | None" = None) -> Path:
    """Write the HTML page of a result, and return its path."""
    from abeval import report

    return report.write_report(result, Path(path), aa)


def summary_html(result: object) -> str:
    """The result as inline HTML, for notebooks."""
    from abeval import report

    return report.summary_html(cast("Result", result))


def as_text(result: object) -> str:
    """The result as the terminal shows it."""
    from abeval.report import terminal

    return terminal.as_text(cast("Result", result))
