"""How results display and compare themselves: the only imports that run up, at that moment.

`Record` (`record.py`), the base of every result, and methods of the results call it; it calls
`report/` and `agreement/`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from abeval.agreement.compare import Agreement, ReplayResult


def write_report(result: object, path: str | Path, aa: object = None) -> Path:
    """Write the HTML page of a result, with A/A replays if there are any; return its path."""
    from abeval import report

    return report.write_report(result, Path(path), aa)


def figures(result: object) -> "Mapping[tuple[str, ...], go.Figure]":
    """The figures of a result by part and metric."""
    from abeval import report

    return report.figures_by_key(result)


def markdown(study: object) -> str:
    """The study as Markdown."""
    from abeval import report

    return report.markdown_text(cast("Any", study))


def summary_html(result: object) -> str:
    """The result as inline HTML, for notebooks."""
    from abeval import report

    return report.summary_html(cast("Any", result))


def as_text(result: object) -> str:
    """The result as the terminal shows it."""
    from abeval.report import terminal

    return terminal.as_text(cast("Any", result))


def compared(result: object, replay: "ReplayResult") -> "Agreement":
    """The agreement of an analysis with a replay."""
    from abeval.agreement.compare import compare

    return compare(cast("Any", result), replay)
