"""The pages on real screens and on paper, in a browser that is driven, where there is one."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.pages import html

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
PAGES = ("untrusted", "three_variants", "hostile")
WIDTHS = (1440, 1024, 768, 390, 320)
OPEN = "document.querySelectorAll('details').forEach(each => each.open = true)"
OUTSIDE = """() => [...document.querySelectorAll(
    '.scorecard .chip, .scorecard .variant, .scorecard .metric, .scorecard .estimate')]
    .filter(e => e.checkVisibility()).filter(e => {
        const box = e.getBoundingClientRect();
        return box.left < 0 || box.right > document.documentElement.clientWidth;
    }).map(e => e.textContent)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def comes_true(page: sync_api.Page, condition: str) -> bool:
    """Whether it does within 20 seconds; the page's policy lets no function of ours wait in it."""
    for _ in range(200):
        if page.evaluate(condition):
            return True
        page.wait_for_timeout(100)
    return False


def opened(
    browser: sync_api.Browser, folder: Path, name: str, width: int, scripts: bool = True
) -> tuple[sync_api.Page, list[str]]:
    """A page on a screen so wide, and what its console said."""
    path = folder / f"{name}.html"
    path.write_text(html(name), encoding="utf-8")
    context = browser.new_context(
        viewport={"width": width, "height": 900}, java_script_enabled=scripts
    )
    page, said = context.new_page(), []
    page.on("console", lambda message: said.append(message.text))
    page.goto(path.as_uri())
    if scripts:
        assert comes_true(page, "document.documentElement.dataset.figures === 'ready'")
    return page, said


def open_all(page: sync_api.Page) -> None:
    """Open every part, also those inside others, and wait until they are built and drawn."""
    page.evaluate(OPEN)
    while page.locator("details:not([open])").count() or page.locator("details > template").count():
        page.evaluate(OPEN)
        page.wait_for_timeout(20)
    assert comes_true(page, "!document.querySelector('[data-figure]:not(.js-plotly-plot)')")


@pytest.mark.parametrize("name", PAGES)
def test_nothing_leaves_the_screen(browser: sync_api.Browser, tmp_path: Path, name: str) -> None:
    page, said = opened(browser, tmp_path, name, WIDTHS[0])
    open_all(page)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        # Figures follow the width a little later.
        assert comes_true(page, f"document.documentElement.scrollWidth === {width}")
        assert page.evaluate(OUTSIDE) == []
    assert said == []
    page.context.close()


@pytest.mark.parametrize(("name", "width"), [("ship", 1440), ("three_variants", 390)])
def test_no_rule_of_accessibility_is_broken(
    browser: sync_api.Browser, tmp_path: Path, name: str, width: int
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe")
    page, _ = opened(browser, tmp_path, name, width)
    open_all(page)
    broken = axe.Axe().run(page).response["violations"]
    assert [(rule["id"], len(rule["nodes"])) for rule in broken] == []
    page.context.close()


def test_a_label_on_a_line_can_be_read(browser: sync_api.Browser, tmp_path: Path) -> None:
    """Plotly writes white on its blue; the page's own colour of text would be black on it."""
    page, _ = opened(browser, tmp_path, "ship", 1440)
    page.locator(".js-plotly-plot .point").first.scroll_into_view_if_needed()
    page.locator(".js-plotly-plot").first.evaluate(
        "e => Plotly.Fx.hover(e, [{curveNumber: 0, pointNumber: 0}])"
    )
    text = page.locator(".hoverlayer text").first
    assert text.evaluate("e => getComputedStyle(e).fill") == "rgb(255, 255, 255)"
    page.context.close()


def test_paper_shows_what_the_screen_shows(browser: sync_api.Browser, tmp_path: Path) -> None:
    page, _ = opened(browser, tmp_path, "ship", 1440)
    page.emulate_media(media="print")
    shown = "els => els.filter(e => e.checkVisibility())"
    blank = page.locator(".figure").evaluate_all(
        f"els => ({shown})(els).filter(e => !e.querySelector('.main-svg')).length"
    )
    assert blank == 0
    assert page.locator(".figure").evaluate_all(f"els => ({shown})(els).length") > 0
    sheets = len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4")))
    assert sheets <= 10
    page.context.close()


def test_without_scripts_no_hole_is_left(browser: sync_api.Browser, tmp_path: Path) -> None:
    page, _ = opened(browser, tmp_path, "ship", 1440, scripts=False)
    heights = page.locator(".figure").evaluate_all(
        "els => els.filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect().height)"
    )
    assert heights
    assert max(heights) < 60
    page.context.close()
