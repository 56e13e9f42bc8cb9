"""Outputs of a notebook are whole under JupyterLab's style, which has columns of fixed width."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests import sample

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

# What JupyterLab, nbconvert and nbviewer say of tables in outputs.
LAB = """
.jp-RenderedHTMLCommon { width: 760px; font-size: 14px; }
.jp-RenderedHTMLCommon table { table-layout: fixed; border-collapse: collapse; margin: auto; }
.jp-RenderedHTMLCommon td, .jp-RenderedHTMLCommon th {
  text-align: right; padding: .5em; line-height: normal; white-space: normal; max-width: none;
}
"""
OVERFLOW = """() => [...document.querySelectorAll('td, th')]
  .filter(cell => cell.scrollWidth > cell.clientWidth + 1).map(cell => cell.innerText)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright")
    with sync_api.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def overflowing(browser: Any, html: str) -> list[str]:
    page = browser.new_page(viewport={"width": 900, "height": 900})
    page.set_content(f"<style>{LAB}</style><div class='jp-RenderedHTMLCommon'>{html}</div>")
    cells: list[str] = page.evaluate(OVERFLOW)
    page.close()
    return cells


@pytest.mark.whole
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
def test_no_cell_of_a_summary_is_cut(browser: Any) -> None:
    html = sample.analysis()._repr_html_()
    assert overflowing(browser, html) == []
    assert overflowing(browser, html.replace("table-layout: auto", "table-layout: fixed")) != []


def test_a_summary_says_dates_units_and_trust() -> None:
    result = sample.analysis()
    html = result._repr_html_()
    # Thousands are set apart by thin spaces on pages.
    thin = "\N{NARROW NO-BREAK SPACE}"
    units = [f"{v.name} {v.units:,}".replace(",", thin) for v in result.experiment.variants]
    assert "2026-09-14 to 2026-09-27" in html
    assert all(phrase in html for phrase in units)
    assert "checks passed" in html
