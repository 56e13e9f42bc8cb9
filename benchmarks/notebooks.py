"""Notebooks with their outputs, so that they can be read where they are hosted.

    python -m benchmarks.notebooks [NAME ...]

runs each notebook of `notebooks/` and writes it with what it shows. A figure is kept twice: as
Plotly's JSON, which `tests/test_notebooks.py` holds against a new run, and as a picture of it,
drawn by Chromium from that JSON alone.
"""

import base64
import sys
from pathlib import Path
from typing import Any

import nbformat
import plotly.io
from nbclient import NotebookClient
from playwright.sync_api import Page

from benchmarks.browser import open_browser

FOLDER = Path(__file__).parents[1] / "notebooks"
FIGURE, PICTURE = "application/vnd.plotly.v1+json", "image/png"
WIDTH, HEIGHT = 900, 450
# Notebooks begin in their folder, and a figure is shown as its JSON.
FIRST = 'import plotly.io; plotly.io.renderers.default = "plotly_mimetype"'


def executed(path: Path) -> nbformat.NotebookNode:
    """Run a notebook in its folder; return it with its outputs, without times and counters."""
    notebook = nbformat.read(path, as_version=4)
    first = nbformat.v4.new_code_cell(FIRST)
    notebook.cells.insert(0, first)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(
        notebook, timeout=600, record_timing=False, coalesce_streams=True, resources=resources
    ).execute()
    notebook.cells.remove(first)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.execution_count = None
            # Spark's Java logs there, with times and the name of the machine.
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                output.pop("execution_count", None)
                if output.output_type == "execute_result":
                    output.execution_count = None
    notebook.metadata.pop("language_info", None)
    return notebook


def draw(page: Page, figure: dict[str, Any]) -> str:
    """Draw a figure's JSON in a browser; return its PNG in base64."""
    layout = figure["layout"]
    size = (layout.get("width") or WIDTH, layout.get("height") or HEIGHT)
    width, height = (f"{pixels}px" for pixels in size)
    html = plotly.io.to_html(
        figure,
        include_plotlyjs=True,
        config={"staticPlot": True},
        default_width=width,
        default_height=height,
    )
    page.set_content(html)
    page.wait_for_selector(".main-svg")
    return base64.b64encode(page.locator(".js-plotly-plot").screenshot()).decode()


def write(path: Path, page: Page) -> None:
    """Run a notebook and write it with its outputs."""
    notebook = executed(path)
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            figure = output.get("data", {}).get(FIGURE)
            if figure is not None:
                output["data"][PICTURE] = draw(page, figure)
    nbformat.write(notebook, path)


def main() -> None:
    """Run the notebooks of the arguments, or all."""
    names = sys.argv[1:] or sorted(path.name for path in FOLDER.glob("*.ipynb"))
    with open_browser() as browser:
        page = browser.new_page(viewport={"width": WIDTH + 40, "height": 800})
        for name in names:
            write(FOLDER / name, page)
            print(name)


if __name__ == "__main__":
    main()
