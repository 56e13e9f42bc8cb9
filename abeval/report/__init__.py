"""The report: one self-contained HTML file per result, a summary for notebooks, the terminal."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from abeval.errors import AbevalError
from abeval.files import write_text
from abeval.results.aa import AAResult
from abeval.results.agreement import Agreement
from abeval.results.analysis import Result
from abeval.results.history import HistoryReport
from abeval.results.replay import ReplayResult
from abeval.results.windows import TimeResult

if TYPE_CHECKING:
    from abeval.report.short import Brief

__all__ = ["AAResult", "Reported", "Result", "check_page", "summary_html", "write_report"]

Reported = Result | ReplayResult | TimeResult | Agreement | HistoryReport


def write_report(result: Reported, path: Path, aa: AAResult | None = None) -> Path:
    """Write the report as one HTML file that works offline.

    Args:
        result: What to report.
        path: The file; its folder must exist.
        aa: A/A replays, added to the page of effects over time.

    Returns:
        The path.

    Raises:
        abeval.errors.AbevalError: The file cannot be written there, or is no page.
    """
    check_page(path)
    return write_text(path, _page(result, aa))


def check_page(path: Path) -> None:
    """Refuse to replace a file that is no page, such as a log or an experiment file.

    Raises:
        AbevalError: It is a file with content of another kind.
    """
    if not path.is_file():
        return
    with suppress(OSError), path.open("rb") as opened:
        start = opened.read(200).lstrip()
        if start and not start.lower().startswith(b"<!doctype html"):
            what = f"the report would replace {path}, which is not an HTML page"
            raise AbevalError(what, "name another file, or remove this one first")


def _page(result: Reported, aa: AAResult | None) -> str:
    # Pages import Plotly and Jinja, which the terminal does not need.
    match result:
        case Result():
            from abeval.report.page import page_html

            return page_html(result)
        case ReplayResult():
            from abeval.report.replay_page import replay_page_html

            return replay_page_html(result)
        case Agreement():
            from abeval.report.agreement_page import agreement_page_html

            return agreement_page_html(result)
        case TimeResult():
            from abeval.report.windows_page import windows_page_html

            return windows_page_html(result, aa)
        case HistoryReport():
            from abeval.report.history_page import history_page_html

            return history_page_html(result)


def summary_html(result: "Result | Brief") -> str:
    """The result as inline HTML without scripts, for notebooks."""
    from abeval.report.page import brief, summary

    return summary(result) if isinstance(result, Result) else brief(result)
