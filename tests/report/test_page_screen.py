"""The pages on real screens and on paper, in a browser that is driven, where there is one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

import abeval
from abeval.report.page import render_study
from abeval.results.agreement import Agreement
from abeval.results.power import MetricOutlook, PowerOutlook
from abeval.results.study import Study, build_study
from tests import builders
from tests.report.pages import html
from tests.worlds.pages import WORLDS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright")
pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe")
from tests.report import screens  # noqa: E402

pytestmark = [pytest.mark.whole, pytest.mark.skipif(CHROMIUM is None, reason="no chromium")]
PAGES = ("untrusted", "three_variants", "hostile", "study")
SAMPLE = Path(__file__).parents[2] / "sample_logs" / "experiment.toml"
WIDTHS = (1440, 768, 390, 320)
VIEWS = ("decision", "explore", "evidence")
PARTS = ("verdict", "scorecard", "trust", "methods")
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
        return render_study(build_study(agreement()))
    if name != "study":
        return html(name)
    metrics = ["ctr", "clicks_per_user"]
    entries = [{"name": "ctr", "role": "goal"}, {"name": "clicks_per_user"}]
    loaded = sample().replace(metrics=entries)
    outlook = MetricOutlook("ctr", 14.0, 0.095, ((7.0, 0.14), (14.0, 0.095)), 0.05, 22.6, None)
    return render_study(
        Study(
            analysis=loaded.analyze(),
            time=loaded.windows(metrics=metrics, by=["weekday"]),
            aa=loaded.aa(runs=200, metrics=metrics),
            replay=loaded.replay(k=(5,), metrics=["ndcg@5[lin]", "ece[mass]"]),
            agreement=agreement(),
            outlook=PowerOutlook(0.05, 0.8, (outlook,)),
        )
    )


def opened(
    browser: sync_api.Browser, folder: Path, name: str, width: int, mode: str = "light"
) -> tuple[sync_api.Page, list[str]]:
    """A page on a screen so wide, and what its console said."""
    path = folder / f"{name}.html"
    path.write_text(text_of(name), encoding="utf-8")
    _, seen = screens.opened(browser, path, width, mode)
    return seen.page, seen.said


SMALL = """() => [...document.querySelectorAll('body *')]
    .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())
        && e.checkVisibility() && !e.matches('script, style, .unseen'))
    .filter(e => parseFloat(getComputedStyle(e).fontSize) < 14)
    .map(e => `${e.tagName} ${e.textContent.trim().slice(0, 30)}`)"""
BOTTOM = """() => Math.max(...[...document.querySelectorAll('#decision *')]
    .map(e => e.getBoundingClientRect().bottom))"""
VERDICT = """() => Math.max(...[...document.querySelectorAll('#decision .verdict strong')]
    .map(e => e.getBoundingClientRect().bottom))"""
HEIGHT = "document.querySelector('#explore').getBoundingClientRect().height"
AXE = {"study": 1440, "agreement": 390}
"""Page → the width at which its rules of accessibility are checked."""


@dataclass
class Walk:
    """What is seen on the way through a page; by view and width where everything is open."""

    verdict: float
    first_view: float
    explore: dict[int, float]
    fits: dict[tuple[str, int], bool] = field(default_factory=dict)
    outside: dict[tuple[str, int], int] = field(default_factory=dict)
    cut: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    small: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    broken: list[tuple[str, int]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def walk(
    browser: sync_api.Browser, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Walk]:
    """Goes through a page once, for all tests of it."""
    folder = tmp_path_factory.mktemp("walk")

    @cache
    def walked(name: str) -> Walk:
        page, said = opened(browser, folder, name, 390)
        verdict, views, explore = page.evaluate(VERDICT), page.evaluate(screens.VIEWS), {}
        page.set_viewport_size({"width": 1440, "height": 900})
        first_view = page.evaluate(BOTTOM)
        if name == "study":
            screens.show(page, "explore")
            assert page.locator(".panel:visible").count() == 1
            for width in (390, 1440):
                page.set_viewport_size({"width": width, "height": 900})
                explore[width] = page.evaluate(HEIGHT)
        seen = Walk(verdict, first_view, explore)
        for view in views:
            screens.show(page, view)
            screens.open_all(page)
            for width in WIDTHS if name in PAGES else (1440, 390):
                page.set_viewport_size({"width": width, "height": 900})
                at = view, width
                # Figures follow the width a little later.
                seen.fits[at] = screens.comes_true(page, f"{screens.SIDEWAYS} === 0", 10)
                seen.outside[at] = page.evaluate(screens.OUTSIDE)
                seen.cut[at], seen.small[at] = page.evaluate(CUT), page.evaluate(SMALL)
                if AXE.get(name) == width:
                    rules = screens.Axe().run(page).response["violations"]
                    seen.broken += [(rule["id"], len(rule["nodes"])) for rule in rules]
        seen.said.extend(said)
        page.context.close()
        return seen

    return walked


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("name", PAGES)
def test_nothing_leaves_the_screen(walk: Callable[[str], Walk], name: str) -> None:
    seen = walk(name)
    assert {*seen.fits} == {(view, width) for view in VIEWS for width in WIDTHS}
    assert [at for at, fits in seen.fits.items() if not fits] == []
    assert {at: count for at, count in seen.outside.items() if count} == {}
    assert {at: heads for at, heads in seen.cut.items() if heads} == {}
    assert seen.said == []


@pytest.mark.slow
def test_nor_does_an_agreement(walk: Callable[[str], Walk]) -> None:
    seen = walk("agreement")
    assert seen.fits
    assert all(seen.fits.values())
    assert seen.said == []


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("name", AXE)
def test_no_rule_of_accessibility_is_broken(walk: Callable[[str], Walk], name: str) -> None:
    assert walk(name).broken == []


@pytest.mark.parametrize("name", ["study", "three_variants"])
def test_the_first_view_is_two_screens_at_most(walk: Callable[[str], Walk], name: str) -> None:
    assert 0 < walk(name).first_view <= 2 * 900


@pytest.mark.parametrize("name", ["study", "three_variants", "untrusted"])
def test_a_phone_shows_the_verdict_before_it_scrolls(
    walk: Callable[[str], Walk], name: str
) -> None:
    assert 0 < walk(name).verdict <= 844


@pytest.mark.parametrize(("width", "screens_at_most"), [(1440, 5), (390, 10)])
def test_explore_with_a_metric_open_is_a_few_screens(
    walk: Callable[[str], Walk], width: int, screens_at_most: int
) -> None:
    assert 0 < walk("study").explore[width] <= 900 * screens_at_most


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("name", ["study", "three_variants", "agreement"])
def test_no_text_is_smaller_than_14_pixels(walk: Callable[[str], Walk], name: str) -> None:
    seen = walk(name).small
    assert seen
    assert {at: texts for at, texts in seen.items() if texts} == {}


@pytest.mark.slow
def test_a_figure_is_as_wide_as_a_screen_that_was_turned_meanwhile(
    browser: sync_api.Browser, tmp_path: Path
) -> None:
    page, _ = opened(browser, tmp_path, "ship", 1440)
    screens.show(page, "explore")
    screens.open_all(page)
    screens.show(page, "decision")
    page.set_viewport_size({"width": 390, "height": 900})
    page.wait_for_timeout(200)
    screens.show(page, "explore")
    assert screens.comes_true(page, f"{screens.BLANK} === 0 && {screens.SIDEWAYS} === 0", 5)
    page.context.close()


@pytest.mark.slow
def test_nor_is_one_on_a_dark_phone(browser: sync_api.Browser, tmp_path: Path) -> None:
    page, _ = opened(browser, tmp_path, "three_variants", 390, "dark")
    for view in page.evaluate(screens.VIEWS):
        screens.show(page, view)
        screens.open_all(page)
        broken = screens.Axe().run(page).response["violations"]
        assert [(rule["id"], len(rule["nodes"])) for rule in broken] == []
    page.context.close()


@pytest.mark.slow
def test_a_label_on_a_line_can_be_read(browser: sync_api.Browser, tmp_path: Path) -> None:
    """White on the label's own ground; the page's own colour of text would be black on it."""
    page, _ = opened(browser, tmp_path, "ship", 1440)
    screens.show(page, "explore")
    screens.open_all(page)
    page.locator(".js-plotly-plot:visible").first.scroll_into_view_if_needed()
    page.locator(".js-plotly-plot:visible").first.evaluate(
        "e => Plotly.Fx.hover(e, [{curveNumber: 0, pointNumber: 0}])"
    )
    text = page.locator(".hoverlayer text").first
    assert text.evaluate("e => getComputedStyle(e).fill") == "rgb(255, 255, 255)"
    ground = page.locator(".hoverlayer .hovertext path").first
    assert ground.evaluate("e => getComputedStyle(e).fill") == "rgb(28, 36, 48)"
    page.context.close()


def test_the_numbers_of_a_figure_are_a_table(browser: sync_api.Browser, tmp_path: Path) -> None:
    page, _ = opened(browser, tmp_path, "ship", 1440)
    screens.show(page, "explore")
    numbers = page.locator("#daily-ctr details.data")
    numbers.locator("summary").click()
    rows = numbers.locator("tr")
    rows.first.wait_for()
    known = [row for row in builders.daily("ctr", 0.059) if row.lift is not None]
    assert rows.count() == len(known) > 1
    assert builders.DAYS[0] in rows.first.inner_text()
    assert numbers.get_by_role("button", name="Copy these numbers").is_visible()
    page.context.close()


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("name", ["study", "untrusted", "three_variants"])
def test_paper_has_the_decision_and_trust_at_once(
    browser: sync_api.Browser, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "page.html"
    path.write_text(text_of(name), encoding="utf-8")
    look = screens.paper(browser, path)
    assert look.faults == 0
    # What a failed check hides is hidden on paper too.
    assert (look.rows == 0) == (name == "untrusted")
    assert 1 <= look.sheets <= 4
    # The units by day, which its text speaks of.
    assert look.figures == 1


@pytest.mark.slow
def test_paper_is_the_same_whatever_view_was_shown(
    browser: sync_api.Browser, tmp_path: Path
) -> None:
    page, _ = opened(browser, tmp_path, "study", 1440)
    seen = []
    for view in VIEWS:
        page.emulate_media(media="screen")
        screens.show(page, view)
        screens.open_all(page)
        page.emulate_media(media="print")
        shown = [part for part in PARTS if page.locator(f"#{part}").is_visible()]
        seen.append(shown)
        assert page.evaluate(screens.BLANK) == 0
    assert seen == [["verdict", "scorecard", "trust"]] * 3
    # Whatever the width of the paper: a drawing is as wide as its place, not as the screen was.
    page.evaluate("document.body.style.width = '600px'")
    edges = page.locator(".figure .main-svg").evaluate_all(
        "els => els.filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect().right)"
    )
    assert 0 < max(edges) <= 601
    assert page.locator("#verdict thead").first.is_visible()
    page.context.close()


@pytest.mark.parametrize("name", ["ship", "untrusted", "study"])
def test_without_scripts_all_views_are_read(
    browser: sync_api.Browser, tmp_path: Path, name: str
) -> None:
    page, _ = opened(browser, tmp_path, name, 390, "no scripts")
    assert all(page.locator(f"#{view}").is_visible() for view in VIEWS)
    assert all(page.locator(f"#{part}").is_visible() for part in PARTS)
    assert page.evaluate(screens.SIDEWAYS) == 0
    heights = page.locator(".figure").evaluate_all(
        "els => els.filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect().height)"
    )
    # No hole is left where a figure would be.
    assert heights
    assert max(heights) < 80
    page.context.close()


def test_a_figure_is_saved_with_its_title(browser: sync_api.Browser, tmp_path: Path) -> None:
    page, _ = opened(browser, tmp_path, "ship", 1440)
    screens.show(page, "explore")
    for kind, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
        with page.expect_download() as waiting:
            page.locator(".panel:visible .pictures button:visible", has_text=kind).first.click()
        assert waiting.value.suggested_filename == f"daily-ctr.{kind.lower()}"
        content = Path(waiting.value.path()).read_bytes()
        assert content.startswith(start)
    assert b"ctr, effect by day" in content
    page.context.close()


@pytest.mark.slow
def test_dark_is_dark(browser: sync_api.Browser, tmp_path: Path) -> None:
    page, _ = opened(browser, tmp_path, "ship", 1440, "dark")
    screens.show(page, "explore")
    screens.open_all(page)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 23, 42)"
    words = page.locator(".js-plotly-plot:visible .xtick text").first
    assert words.evaluate("e => getComputedStyle(e).fill") == "rgb(227, 233, 242)"
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
    """The matrix in short: `python -m tests.report.screens` looks at twelve pages."""
    file = WORLDS["without_units"]().first().report(tmp_path / "page.html")
    seen = dict(screens.looks(browser, file, widths=(390,)))
    assert len(seen) == 5
    assert {way: look for way, look in seen.items() if look.faults} == {}
    assert seen["light 390"].figures > 0
    assert seen["keyboard 390"].stops > 20


BROKEN = """
const line = document.querySelector('.glyph .bar');
line.setAttribute('x2', '96.0%');
document.querySelectorAll('td.variant').forEach(e => { e.className = 'variant v1'; });
"""


def test_a_cut_interval_and_a_colour_of_two_variants_are_seen(
    browser: sync_api.Browser, tmp_path: Path
) -> None:
    page, _ = opened(browser, tmp_path, "three_variants", 1440)
    assert (page.evaluate(screens.CUT), page.evaluate(screens.TWICE)) == (0, 0)
    page.evaluate(BROKEN)
    assert page.evaluate(screens.CUT) == 1
    assert page.evaluate(screens.TWICE) >= 1
    page.context.close()
