"""How results display and compare themselves: the only imports that run up, at that moment.

`Record` (`record.py`), the base of every result, and methods of the results call it; it calls
`report/` and `agreement/`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from abeval.agreement.compare import Agreement, ReplayResult
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


def compared(result: object, replay: "ReplayResult") -> "Agreement":
    """The agreement of an analysis with a replay."""
    from abeval.agreement.compare import compare

    return compare(cast("Result", result), replay)
