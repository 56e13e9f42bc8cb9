"""The pages on real screens and on paper, in a browser that is driven, where there is one."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import abeval
from abeval.report.page import page_html
from abeval.results.agreement import Agreement
from abeval.results.power import MetricOutlook, PowerOutlook
from abeval.results.study import Study, study_of
from tests.report.pages import html

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
PAGES = ("untrusted", "three_variants", "hostile", "study")
SAMPLE = Path(__file__).parents[2] / "sample_logs" / "experiment.toml"
WIDTHS = (1440, 1024, 768, 390, 320)
OPEN = "document.querySelectorAll('details').forEach(each => each.open = true)"
OUTSIDE = """() => [...document.querySelectorAll(
    '.scorecard .chip, .scorecard .variant, .scorecard .metric, .scorecard .estimate')]
    .filter(e => e.checkVisibility()).filter(e => {
        const box = e.getBoundingClientRect();
        return box.left < 0 || box.right > document.documentElement.clientWidth;
    }).map(e => e.textContent)"""

CUT = """() => [...document.querySelectorAll('.scorecard thead th:not(.drawn)')]
    .filter(e => e.checkVisibility() && e.scrollWidth > e.clientWidth).map(e => e.textContent)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@cache
def sample() -> abeval.LoadedExperiment:
    return abeval.load(SAMPLE)


@cache
def agreement() -> Agreement:
    """Offline and online contradict each other."""
    return sample().agree(k=(5,), metrics=["auc", "log_loss", "ndcg@5[bin]"])


@cache
def text_of(name: str) -> str:
    """A page; `study` has all that two metrics of the sample can show."""
    if name == "agreement":
        return page_html(study_of(agreement()))
    if name != "study":
        return html(name)
    metrics = ["ctr", "clicks_per_user"]
    entries = [{"name": "ctr", "role": "goal"}, {"name": "clicks_per_user"}]
    loaded = sample().replace(metrics=entries)
    outlook = MetricOutlook("ctr", 14.0, 0.095, ((7.0, 0.14), (14.0, 0.095)), 0.05, 22.6, None)
    return page_html(
        Study(
            analysis=loaded.analyze(),
            time=loaded.windows(metrics=metrics, by=["weekday"]),
            aa=loaded.aa(runs=200, metrics=metrics),
            replay=loaded.replay(k=(5,), metrics=["ndcg@5[lin]", "ece[mass]"]),
            agreement=agreement(),
            outlook=PowerOutlook(0.05, 0.8, (outlook,)),
        )
    )


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
    path.write_text(text_of(name), encoding="utf-8")
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
        assert page.evaluate(CUT) == []
    assert said == []
    page.context.close()


def test_nor_does_an_agreement(browser: sync_api.Browser, tmp_path: Path) -> None:
    page, said = opened(browser, tmp_path, "agreement", 1440)
    open_all(page)
    assert page.locator("#quadrant .point").count() >= 3
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert comes_true(page, f"document.documentElement.scrollWidth === {width}")
    assert said == []
    page.context.close()


@pytest.mark.parametrize(
    ("name", "width"), [("study", 1440), ("three_variants", 390), ("agreement", 390)]
)
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
    """White on the label's own ground; the page's own colour of text would be black on it."""
    page, _ = opened(browser, tmp_path, "ship", 1440)
    page.locator(".js-plotly-plot .point").first.scroll_into_view_if_needed()
    page.locator(".js-plotly-plot").first.evaluate(
        "e => Plotly.Fx.hover(e, [{curveNumber: 0, pointNumber: 0}])"
    )
    text = page.locator(".hoverlayer text").first
    assert text.evaluate("e => getComputedStyle(e).fill") == "rgb(255, 255, 255)"
    ground = page.locator(".hoverlayer .hovertext path").first
    assert ground.evaluate("e => getComputedStyle(e).fill") == "rgb(28, 36, 48)"
    page.context.close()


def test_paper_shows_what_the_screen_shows(browser: sync_api.Browser, tmp_path: Path) -> None:
    page, _ = opened(browser, tmp_path, "study", 1440)
    page.emulate_media(media="print")
    shown = "els => els.filter(e => e.checkVisibility())"
    blank = page.locator(".figure").evaluate_all(
        f"els => ({shown})(els).filter(e => !e.querySelector('.main-svg')).length"
    )
    assert blank == 0
    assert page.locator(".figure").evaluate_all(f"els => ({shown})(els).length") > 0
    sheets = len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4")))
    assert sheets <= 10
    # Whatever the width of the paper: a drawing is as wide as its place, not as the screen was.
    page.evaluate("document.body.style.width = '600px'")
    edges = page.locator(".figure .main-svg").evaluate_all(
        f"els => ({shown})(els).map(e => e.getBoundingClientRect().right)"
    )
    assert 0 < max(edges) <= 601
    scorecard = page.locator("#scorecard thead").first
    assert scorecard.evaluate("e => getComputedStyle(e).display") == "table-header-group"
    assert page.locator("#quadrant, #traffics").evaluate_all(f"els => ({shown})(els).length") == 2
    page.context.close()


def test_without_scripts_no_hole_is_left(browser: sync_api.Browser, tmp_path: Path) -> None:
    page, _ = opened(browser, tmp_path, "ship", 1440, scripts=False)
    heights = page.locator(".figure").evaluate_all(
        "els => els.filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect().height)"
    )
    assert heights
    assert max(heights) < 60
    page.context.close()


FIRST = """() => [...document.querySelectorAll(
    '#verdict .verdict, #verdict .next, .glance tbody tr, #verdict .tally')]
    .map(e => e.getBoundingClientRect().bottom)"""


@pytest.mark.parametrize(
    ("name", "width", "height"),
    [("study", 1440, 900), ("three_variants", 1440, 900), ("study", 390, 2 * 844)],
)
def test_what_decides_is_on_the_first_screen(
    browser: sync_api.Browser, tmp_path: Path, name: str, width: int, height: int
) -> None:
    page, _ = opened(browser, tmp_path, name, width)
    bottoms = page.evaluate(FIRST)
    assert len(bottoms) >= 4
    assert max(bottoms) <= height
    page.context.close()


def test_a_link_opens_what_is_closed(browser: sync_api.Browser, tmp_path: Path) -> None:
    page, said = opened(browser, tmp_path, "study", 1440)
    assert page.locator("#daily-clicks-per-user").count() == 0
    page.evaluate("location.hash = '#daily-clicks-per-user'")
    assert comes_true(
        page, "document.querySelector('#daily-clicks-per-user .js-plotly-plot') !== null"
    )
    assert said == []
    page.context.close()


def test_a_download_comes_out_plain(browser: sync_api.Browser, tmp_path: Path) -> None:
    page, _ = opened(browser, tmp_path, "ship", 1440)
    with page.expect_download() as waiting:
        page.locator("a[data-plain$='.json']").click()
    raw = json.loads(Path(waiting.value.path()).read_text(encoding="utf-8"))
    assert raw["analysis"]["experiment"]["name"] == "ranker_v2"
    page.context.close()


def test_a_page_without_faults_in_every_way_of_looking(
    browser: sync_api.Browser, tmp_path: Path
) -> None:
    """The matrix in short: `python -m benchmarks.screens` looks at seven experiments."""
    pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe")
    from benchmarks.report_worlds import WORLDS
    from benchmarks.screens import looks

    file = WORLDS["without_units"]().first().report(tmp_path / "page.html")
    seen = dict(looks(browser, file, widths=(390,)))
    assert len(seen) == 5
    assert {way: look for way, look in seen.items() if look.faults} == {}
    assert seen["light 390"].figures > 0
    assert seen["keyboard 390"].stops > 20
