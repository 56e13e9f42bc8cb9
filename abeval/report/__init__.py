"""The report: one self-contained HTML file, and a summary for notebooks."""

from pathlib import Path

from abeval.files import write_text
from abeval.report.page import page_html, summary
from abeval.results.analysis import Result

__all__ = ["summary_html", "write_report"]


def write_report(result: Result, path: Path) -> Path:
    """Write the report as one HTML file that works offline.

    Args:
        result: What to report.
        path: The file; its folder must exist.

    Returns:
        The path.

    Raises:
        abeval.errors.AbevalError: The file cannot be written there.
    """
    return write_text(path, page_html(result))


def summary_html(result: Result) -> str:
    """The verdict and the scorecard as inline HTML without scripts, for notebooks."""
    return summary(result)
