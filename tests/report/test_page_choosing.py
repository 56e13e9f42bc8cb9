"""View, metric, variant and order are chosen in the page, in a browser that is driven."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from abeval.report.next_step import sort_rows
from abeval.report.page import render_study
from abeval.report.tables import choose_decisive_p
from abeval.results.analysis import Result
from abeval.results.study import build_study
from tests import builders
from tests.report.pages import html

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright")
pytestmark = [pytest.mark.whole, pytest.mark.skipif(CHROMIUM is None, reason="no chromium")]

VARIANTS = ("treatment", "challenger", "a & <b>")
HOSTILE = 'm37 \u202e</script><img src=x> & "q" ?variant=b#1%'
PRINTED = HOSTILE.replace("\u202e", "\ufffd")
STATUSES = ("unclear", "better", "worse", "untrusted", "too_little_data")
ROLES = {"goal": 12, "guardrail": 8, "diagnostic": 40}


@cache
def large() -> Result:
    """Sixty metrics in four variants, with days and two segments."""
    roles = [role for role, count in ROLES.items() for _ in range(count)]
    names = [f"m{(37 * i) % 60:02}" for i in range(60)]
    names[1] = HOSTILE
    rows = []
    for i, (name, role) in enumerate(zip(names, roles, strict=True)):
        for j, variant in enumerate(VARIANTS):
            k = 3 * i + j
            p = ((53 * k) % 181) / 181
            numbers = builders.effect((((29 * k) % 97) - 48) / 1000, 0.02)
            if k % 17 == 5:
                numbers = {**builders.NO_EFFECT, "control": None, "treatment": None}
            rows.append(
                builders.row(
                    name,
                    role=role,
                    variant=variant,
                    **{**numbers, "p_value": p, "p_adjusted": p if role == "goal" else None},
                    status=STATUSES[k % 5],
                )
            )
    metrics = tuple(
        builders.metric(name, role=role) for name, role in zip(names, roles, strict=True)
    )
    base = builders.result()
    infos = tuple(replace(base.experiment.variants[1], name=name) for name in VARIANTS)
    days = tuple(
        day
        for name in names[:2] + names[-1:]
        for v in VARIANTS
        for day in builders.daily(name, 0.01, v)
    )
    segments = tuple(
        replace(builders.segment(name, cell, 0.01, v), slice=slice_)
        for slice_, cells in (("device", ("phone", "tablet")), ("country", ("NL", "NO")))
        for name in names[:2]
        for v in VARIANTS
        for cell in cells
    )
    return builders.result(
        experiment=replace(base.experiment, variants=(base.experiment.variants[0], *infos)),
        scorecard=tuple(rows),
        metrics=metrics,
        daily=days,
        segments=segments,
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("choosing") / "page.html"
    path.write_text(render_study(build_study(large())), encoding="utf-8")
    return path


@pytest.fixture
def visit(browser: Any, file: Path) -> Iterator[Callable[..., Any]]:
    """Opens the page at an address; fails where the console says anything."""
    contexts, said = [], []

    def go(address: str = "", width: int = 1440, scripts: bool = True) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, java_script_enabled=scripts
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(file.as_uri() + address)
        if scripts:
            page.locator("html[data-figures=ready]").wait_for()
        return page

    yield go
    for context in contexts:
        context.close()
    assert said == []


ROWS = """() => [...document.querySelectorAll('[data-role] > table > tbody > tr[data-metric]')]
    .filter(row => !row.hidden).map(row => [row.querySelector('.metric a').textContent,
        row.querySelector('.variant').textContent])"""
VIEWS = ("decision", "explore", "evidence")


def rows(page: Any) -> list[tuple[str, str]]:
    """Metric and variant of the rows that were not put away, in their order."""
    return [(metric, variant) for metric, variant in page.evaluate(ROWS)]


def expected(variant: str = "") -> list[tuple[str, str]]:
    """The rows of the result that a choice leaves, in the order of the page."""
    return [
        (r.metric.replace(HOSTILE, PRINTED), r.variant)
        for r in sort_rows(large(), large().scorecard)
        if variant in ("", r.variant)
    ]


def view(page: Any) -> str:
    """The view that is shown, and that its tab says it is."""
    (shown,) = (one for one in VIEWS if page.locator(f"#{one}").is_visible())
    assert page.locator("nav [aria-current]").evaluate_all("e => e.map(a => a.hash)") == [
        f"#{shown}"
    ]
    return shown


def metric(page: Any) -> str:
    """The metric whose panel is open, as its rows say; empty if none is."""
    shown = page.locator(".panel:not([hidden])").evaluate_all("e => e.map(p => p.dataset.metric)")
    expanded = page.locator("[data-role] .metric a[aria-expanded=true]").evaluate_all(
        "e => e.map(a => a.closest('tr').dataset.metric)"
    )
    assert len(shown) <= 1
    assert set(expanded) == set(shown)
    return str(shown[0]) if shown else ""


def open_metric(page: Any, name: str) -> None:
    """Open or close the panel of a metric by its first row that is shown."""
    page.locator("[data-role] tr:visible .metric a", has_text=name).first.click()


def top(page: Any, place: str) -> float:
    return float(page.locator(place).evaluate("e => e.getBoundingClientRect().top"))


def lines(page: Any) -> set[str]:
    """The names of the lines of the first figure that is shown."""
    figure = page.locator(".panel:not([hidden]) .js-plotly-plot:visible").first
    figure.wait_for()
    shown = "e => e.data.filter(t => t.visible !== false).map(t => t.name)"
    return set(figure.evaluate(shown))


def test_a_tab_shows_its_view(visit: Callable[..., Any]) -> None:
    page = visit()
    assert view(page) == "decision"
    for one in ("evidence", "explore", "decision"):
        page.locator(f"nav a[href='#{one}']").focus()
        page.keyboard.press("Enter")
        page.locator(f"#{one}").wait_for()
        assert view(page) == one
        assert page.evaluate("scrollY") == 0


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("#explore", "explore"),
        ("#evidence", "evidence"),
        ("#trust", "evidence"),
        ("#heat", "explore"),
        ("#m-m12", "explore"),
        ("#nothing", "decision"),
        ("#%", "decision"),
        ("#?metric=m23", "decision"),
    ],
)
def test_an_address_shows_its_view(visit: Callable[..., Any], address: str, shown: str) -> None:
    page = visit(address)
    assert view(page) == shown
    if len(address) > 3 and address[1:].isidentifier() and address[1:] not in (*VIEWS, "nothing"):
        assert 0 <= top(page, address) < 900


def test_a_metric_opens_below_its_rows_and_closes_again(visit: Callable[..., Any]) -> None:
    page = visit("#explore")
    assert metric(page) == ""
    open_metric(page, "m37")
    assert metric(page) == PRINTED
    assert lines(page) >= {"treatment", "challenger"}
    # It stands between the rows of its metric and those of the next one.
    before = page.locator(".panel:visible").evaluate(
        "p => p.closest('tr').previousElementSibling.dataset.metric"
    )
    assert before == PRINTED
    again = visit(page.url[page.url.index("#") :])
    assert (view(again), metric(again)) == ("explore", PRINTED)
    # All rows stay; those of the metric are marked.
    assert rows(page) == expected()
    picked = page.locator("#scorecard tr.picked .metric a").all_inner_texts()
    assert set(picked) == {PRINTED}
    assert len(picked) == len(VARIANTS)
    open_metric(page, "m37")
    assert metric(page) == ""
    assert page.url.endswith("#explore")


def test_a_panel_opens_and_shows_its_tabs_by_keyboard(visit: Callable[..., Any]) -> None:
    page = visit("#explore")
    page.locator("[data-role] .metric a", has_text="m00").first.focus()
    page.keyboard.press("Enter")
    assert metric(page) == "m00"
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    page.get_by_role("button", name="Segments").press("Enter")
    assert page.locator(".panel:visible .segments").is_visible()
    assert page.locator(".switch button[aria-pressed=true]").all_inner_texts() == ["Segments"]
    assert page.url.endswith("#explore?metric=m00&tab=segments")
    # The next metric opens on the same tab.
    open_metric(page, "m37")
    page.locator(".panel:visible .segments", has_text="m37").wait_for()
    again = visit(page.url[page.url.index("#") :])
    assert again.locator(".panel:visible .segments").is_visible()


def test_a_metric_is_chosen_by_its_links(visit: Callable[..., Any]) -> None:
    page = visit()
    page.locator(".forest .metric a", has_text="m37").click()
    page.locator("#explore").wait_for()
    assert (view(page), metric(page)) == ("explore", PRINTED)
    assert 0 <= page.locator("tr.picked").first.bounding_box()["y"] < 900
    page.locator("#choose-variant").select_option("challenger")
    open_metric(page, "m00")
    page.locator(".panel[data-metric=m00]:visible").first.wait_for()
    # What else was chosen stays.
    assert metric(page) == "m00"
    assert rows(page) == expected("challenger")


@pytest.mark.slow
def test_a_link_into_another_metric_chooses_it(visit: Callable[..., Any]) -> None:
    page = visit("#daily-m23")
    assert (view(page), metric(page)) == ("explore", "m23")
    assert 0 <= top(page, "#daily-m23") < 900
    # Again, when all was built before.
    open_metric(page, "m00")
    assert metric(visit(page.url[page.url.index("#") :])) == "m00"
    page.evaluate("location.hash = '#daily-m23'")
    page.locator("#daily-m23").wait_for()
    assert metric(page) == "m23"
    page.locator("#daily-m23 .js-plotly-plot .main-svg").first.wait_for()
    assert page.locator("#daily-m23 .main-svg").first.bounding_box()["width"] > 900


def test_a_variant_hides_the_others_and_not_control(visit: Callable[..., Any]) -> None:
    page = visit("#explore")
    open_metric(page, "m00")
    page.locator("#choose-variant").select_option("a & <b>")
    assert rows(page) == expected("a & <b>")
    assert lines(page) == {"a &amp; &lt;b&gt;"}
    page.get_by_role("button", name="Segments").click()
    segments = page.locator(".panel:not([hidden]) .segments td.variant:visible")
    assert set(segments.all_inner_texts()) == {"a & <b>"}
    page.get_by_role("button", name="By day").click()
    page.locator("#heat summary").first.click()
    # A heat table keeps its columns under their heads.
    heat = page.locator("#heat table").first
    # It is built when it is opened, and `evaluate_all` waits for nothing.
    heat.wait_for()
    widths = heat.locator("tr:visible").evaluate_all(
        "rows => rows.map(row => [...row.cells].filter(c => !c.hidden)"
        ".reduce((sum, c) => sum + c.colSpan, 0))"
    )
    assert set(widths[2:]) == {4}
    assert (widths[0], widths[1]) == (4, 3)
    again = visit(page.url[page.url.index("#") :])
    assert rows(again) == expected("a & <b>")
    # So does the forest of the first screen, where each row has its name and a note says it.
    again.locator("nav a[href='#decision']").click()
    again.locator("#decision").wait_for()
    assert set(again.locator(".forest td.variant:visible").all_inner_texts()) == {"a & <b>"}
    names = again.locator(".forest tr[data-variant]:visible .metric > *")
    assert min(names.evaluate_all("names => names.map(name => name.offsetWidth)")) > 10
    assert again.locator(".only").inner_text().startswith("Only a & <b> is drawn, against control")
    page.locator("#choose-variant").select_option("challenger")
    page.locator("nav a[href='#decision']").click()
    page.locator("#decision").wait_for()
    names = page.locator(".forest tr[data-variant]:visible .metric > *")
    assert min(names.evaluate_all("names => names.map(name => name.offsetWidth)")) > 10
    page.go_back()
    page.locator("#choose-variant").select_option("")
    assert page.locator(".only").is_hidden()
    assert rows(page) == expected()
    assert lines(page) >= {"treatment", "challenger", "a &amp; &lt;b&gt;"}


def test_control_stays_in_figures_of_all(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "three.html"
    path.write_text(html("three_variants"), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    page.locator("html[data-figures=ready]").wait_for()
    variants = page.locator("#choose-variant option").all_inner_texts()[1:]
    page.evaluate(f"location.hash = '#explore?variant={variants[-1]}'")
    page.locator("#explore").wait_for()
    page.evaluate("location.hash = '#quality'")
    page.locator("#quality .js-plotly-plot").wait_for()
    shown = page.locator("#quality .js-plotly-plot").evaluate(
        "e => e.data.filter(t => t.visible !== false).map(t => t.name)"
    )
    assert set(shown) == {"control", variants[-1]}
    page.close()


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("sort", ["name", "effect", "p", "status"])
def test_rows_are_sorted(visit: Callable[..., Any], sort: str) -> None:
    order = [
        "better",
        "non_inferior",
        "equivalent",
        "unclear",
        "too_little_data",
        "worse",
        "untrusted",
    ]
    keys: dict[str, Callable[[Any], Any]] = {
        "name": lambda r: r.metric,
        "effect": lambda r: r.lift,
        "p": choose_decisive_p,
        "status": lambda r: order.index(r.status),
    }
    head = {"name": ".named", "effect": ".reading", "p": ".pvalue", "status": ".outcome"}[sort]
    page = visit("#explore")
    button = page.locator(f"#scorecard thead {head} button").first
    column = page.locator(f"#scorecard thead {head}").first
    first = "descending" if sort == "effect" else "ascending"
    for said in (first, "descending" if first == "ascending" else "ascending"):
        button.focus()
        page.keyboard.press("Enter")
        assert column.get_attribute("aria-sort") == said
        sign = -1 if said == "descending" else 1
        wanted = []
        for role in ROLES:
            own = [r for r in sort_rows(large(), large().scorecard) if r.role == role]
            some = [r for r in own if keys[sort](r) is not None]
            # Rows that are alike stay as they were, and rows without a number come last.
            ordered = sorted(some, key=keys[sort], reverse=sign < 0)
            wanted += ordered + [r for r in own if keys[sort](r) is None]
        assert rows(page) == [(r.metric.replace(HOSTILE, PRINTED), r.variant) for r in wanted]
    again = visit(page.url[page.url.index("#") :])
    assert rows(again) == rows(page)
    assert again.locator(f"#scorecard thead {head}").first.get_attribute("aria-sort") == said
    button.focus()
    page.keyboard.press("Enter")
    assert rows(page) == expected()
    assert column.get_attribute("aria-sort") is None


@pytest.mark.slow
def test_what_an_address_does_not_know_is_ignored(visit: Callable[..., Any]) -> None:
    page = visit("#explore?metric=nobody&variant=control&sort=-size&view=x")
    assert (view(page), metric(page)) == ("explore", "")
    assert rows(page) == expected()
    assert page.url.endswith("#explore")
    page = visit("#explore?metric=m23&variant=nobody&sort=p")
    assert metric(page) == "m23"
    assert page.locator("#choose-variant").input_value() == ""
    assert page.url.endswith("#explore?metric=m23&sort=p")


def test_back_and_forward_show_what_was_shown(visit: Callable[..., Any]) -> None:
    page = visit()
    page.locator("nav a[href='#explore']").click()
    page.locator("#explore").wait_for()
    page.locator("#choose-variant").select_option("challenger")
    page.locator("nav a[href='#evidence']").click()
    page.locator("#evidence").wait_for()
    # A tab keeps what was chosen.
    assert page.url.endswith("#evidence?variant=challenger")
    page.locator("nav a[href='#explore']").click()
    page.locator("#explore").wait_for()
    page.locator("#choose-variant").select_option("")
    open_metric(page, "m14")
    page.evaluate("location.hash = '#explore?metric=m00'")
    page.locator(".panel[data-metric=m00]:visible").first.wait_for()
    seen = []
    for _ in range(4):
        page.go_back()
        page.wait_for_timeout(50)
        seen.append((view(page), metric(page), page.locator("#choose-variant").input_value()))
    assert seen == [
        ("explore", "m14", ""),
        ("evidence", "", "challenger"),
        ("explore", "", "challenger"),
        ("decision", "", ""),
    ]
    page.go_forward()
    page.wait_for_timeout(50)
    assert view(page) == "explore"
    assert rows(page) == expected("challenger")


def test_a_phone_can_use_sixty_metrics(visit: Callable[..., Any]) -> None:
    page = visit("#explore", width=390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    height = page.locator("#scorecard").evaluate("e => e.getBoundingClientRect().height")
    assert height < 11_000
    for control in page.locator(".choose select").all():
        box = control.bounding_box()
        assert box["height"] >= 30
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
    button = page.get_by_role("button", name="Show all 120 rows")
    button.focus()
    page.keyboard.press("Enter")
    assert page.locator("#scorecard tr[data-metric]:visible").count() == 8 + 8 + 120
    # The focus goes on where the rows go on.
    assert page.evaluate("document.activeElement.closest('tr') !== null")


def test_without_scripts_everything_is_shown_and_nothing_to_choose(
    visit: Callable[..., Any],
) -> None:
    page = visit("#explore?metric=m23", scripts=False)
    assert page.locator("#scorecard tr[data-metric]:visible").count() == 180
    assert page.locator(".choose, .all, thead button").count() == 0
    # Of the first goal all tabs are there, one below the other.
    assert page.locator(".panel:visible .tab:visible").count() == 3
    assert page.locator(".panel:visible .segments").is_visible()
    for part in ("verdict", "trust", "scorecard", "methods"):
        assert page.locator(f"#{part}").is_visible()


def test_one_metric_and_one_variant_have_no_controls(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "little.html"
    only = builders.result(
        scorecard=(builders.row(),), segments=(), daily=builders.daily("ctr", 0.059)
    )
    path.write_text(render_study(build_study(only)), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri() + "#explore")
    page.locator("html[data-figures=ready]").wait_for()
    page.locator("#scorecard .metric a").click()
    assert page.locator("#daily-ctr").is_visible()
    assert page.locator(".choose, .all, thead button").all_inner_texts() == []
    page.close()
