"""Write reports: one HTML file, Markdown, a notebook summary, terminal text."""

from contextlib import suppress
from pathlib import Path

from abeval.errors import AbevalError
from abeval.files import write_text
from abeval.results.analysis import Result
from abeval.results.record import Record

__all__ = ["check_page", "summary_html", "write_report"]


def write_report(result: object, path: Path, aa: object = None) -> Path:
    """Write the report of a `Study`, or of one result with a page; return its path.

    It is one HTML file that works offline. The folder of `path` must exist; `aa` are A/A replays
    beside the result.

    Raises:
        abeval.errors.AbevalError: The file cannot be written there, is no page, or its name says
            that it is something else, such as a PDF.
    """
    check_page(path)
    # Pages import Jinja, which the terminal does not need.
    from abeval.report.page import render_result

    return write_text(path, render_result(result, aa))


def check_page(path: Path) -> None:
    """Refuse a name that is not one of a page, and to replace a file that is none."""
    if path.is_file():
        with suppress(OSError), path.open("rb") as page_file:
            # Every page begins with its doctype, which no log does.
            start = page_file.read(200).lstrip()
            if start and not start.lower().startswith(b"<!doctype html"):
                what = f"the report would replace {path}, which is not an HTML page"
                raise AbevalError(what, "name another file, or remove this one first")
    elif path.exists():
        # A device or a pipe has any name.
        return
    if path.suffix.lower() not in (".html", ".htm"):
        page, kind = path.with_suffix(".html").name, path.suffix[1:].lower()
        hints = {"pdf": f"write {page}, and print it to PDF in a browser"}
        button = f"write {page}: its figures have a button {kind.upper()}; or use write_image"
        hints |= dict.fromkeys(("png", "svg"), button)
        what = f"the report is an HTML page, and {path} is not the name of one"
        raise AbevalError(what, hints.get(kind, f"name it {page}"))


def summary_html(result: Record) -> str:
    """Write a result as inline HTML without scripts, for notebooks."""
    from abeval.report.page import render_brief, render_summary
    from abeval.results.study import Study

    # A study has no summary of its own: each of its results has one.
    if isinstance(result, Study):
        return "".join(summary_html(part) for part in result.results)
    return render_summary(result) if isinstance(result, Result) else render_brief(result)
