"""Metric, variant, role, status and segment are chosen in the page, in a browser that is driven."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from abeval.report.page import page_html
from abeval.report.tables import decisive_p
from abeval.results.analysis import Result
from abeval.results.study import study_of
from tests import builders
from tests.report.pages import html

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium")

VARIANTS = ("treatment", "challenger", "a & <b>")
STATUSES = ("unclear", "better", "worse", "untrusted", "too_little_data")
ROLES = {"goal": 12, "guardrail": 8, "diagnostic": 40}


@cache
def large() -> Result:
    """Sixty metrics in four variants, with days and two segments."""
    roles = [role for role, count in ROLES.items() for _ in range(count)]
    names = [f"m{(37 * i) % 60:02}" for i in range(60)]
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
    path.write_text(page_html(study_of(large())), encoding="utf-8")
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
        return page

    yield go
    for context in contexts:
        context.close()
    assert said == []


SHOWN = """() => [...document.querySelectorAll('#scorecard table.scorecard tbody tr')]
    .filter(row => row.checkVisibility()).map(row => [row.querySelector('.metric a').textContent,
        row.querySelector('.variant').textContent])"""
CHOSEN = SHOWN.replace("row.checkVisibility()", "!row.hidden")


def chosen(page: Any) -> list[tuple[str, str]]:
    """Metric and variant of the rows that were chosen, in their order."""
    return [(metric, variant) for metric, variant in page.evaluate(CHOSEN)]


def expected(**named: str) -> list[tuple[str, str]]:
    """The rows of the result that a choice leaves, as planned."""
    return [
        (r.metric, r.variant)
        for role in ROLES
        for r in large().scorecard
        if r.role == role
        and named.get("metric", "") in r.metric
        and all(named.get(k, getattr(r, k)) == getattr(r, k) for k in ("variant", "role", "status"))
    ]


def message(page: Any) -> str:
    return str(page.locator(".choose [role=status]").inner_text())


def tab_to(page: Any, label: str) -> None:
    """Press Tab until the control of that label has the focus."""
    page.locator("#scorecard h2").evaluate("e => { e.tabIndex = -1; e.focus(); }")
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.labels?.[0]?.textContent") == label:
            return
    pytest.fail(f"no control {label}")


def test_everything_is_chosen_with_the_keyboard_alone(visit: Callable[..., Any]) -> None:
    page = visit()
    assert message(page) == "180 of 180 rows."
    tab_to(page, "Metric")
    page.keyboard.type("m1")
    assert chosen(page) == expected(metric="m1")
    tab_to(page, "Variant")
    page.keyboard.type("chall")
    assert chosen(page) == expected(metric="m1", variant="challenger")
    tab_to(page, "Role")
    page.keyboard.press("ArrowDown")
    left = expected(metric="m1", variant="challenger", role="goal")
    assert chosen(page) == left
    assert message(page) == f"{len(left)} of 180 rows: metric “m1”, variant challenger, goals."
    assert page.url.endswith("#?metric=m1&variant=challenger&role=goal")
    # Back to everything, from the line that stays on the screen.
    everything = page.get_by_role("button", name="Show all", exact=True)
    everything.focus()
    page.keyboard.press("Enter")
    assert chosen(page) == expected()
    assert not everything.is_visible()
    assert page.evaluate("document.activeElement.tagName") == "A"
    assert message(page) == "180 of 180 rows."


def test_a_link_opens_the_same_view(visit: Callable[..., Any]) -> None:
    page = visit()
    page.locator("#choose-variant").select_option("a & <b>")
    page.locator("#choose-status").select_option("worse")
    page.locator("#choose-sort").select_option("p")
    page.locator("#choose-segment").select_option("country")
    again = visit(page.url[page.url.index("#") :])
    assert chosen(again) == chosen(page) != []
    assert message(again) == message(page)
    for label in ("metric", "variant", "role", "status", "segment", "sort"):
        assert (
            again.locator(f"#choose-{label}").input_value()
            == page.locator(f"#choose-{label}").input_value()
        )
    assert again.locator("[data-segment=country]").is_visible()
    assert not again.locator("[data-segment=device]").is_visible()
    variants = again.locator("[data-segment=country] td.variant:visible").all_inner_texts()
    assert set(variants) == {"a & <b>"}
    # An address that names what there is not shows everything.
    assert chosen(visit("#?variant=nobody&role=x&sort=y")) == expected()


def test_a_link_to_what_was_not_chosen_shows_it(visit: Callable[..., Any]) -> None:
    page = visit("#?metric=m0")
    assert message(page).startswith(f"{len(expected(metric='m0'))} of 180 rows")
    # A link keeps what was chosen, as long as it leads to something that is shown.
    page.evaluate("location.hash = '#trust'")
    page.wait_for_timeout(50)
    assert page.url.endswith("#trust?metric=m0")
    page.evaluate("location.hash = '#m-m12'")
    page.wait_for_timeout(50)
    assert chosen(page) == expected()
    top = page.locator("#m-m12").evaluate("e => e.getBoundingClientRect().top")
    assert 0 <= top < 900


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
        "p": decisive_p,
        "status": lambda r: order.index(r.status),
    }
    head = {"name": ".named", "effect": ".reading", "p": ".pvalue", "status": ".outcome"}[sort]
    page = visit()
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
            rows = [r for r in large().scorecard if r.role == role]
            some = [r for r in rows if keys[sort](r) is not None]
            # Rows that are alike stay as they were, and rows without a number come last.
            ordered = sorted(some, key=keys[sort], reverse=sign < 0)
            wanted += ordered + [r for r in rows if keys[sort](r) is None]
        assert chosen(page) == [(r.metric, r.variant) for r in wanted]
        assert "Sorted by" in message(page)
    button.focus()
    page.keyboard.press("Enter")
    assert chosen(page) == expected()
    assert column.get_attribute("aria-sort") is None


def test_roles_are_sorted(visit: Callable[..., Any]) -> None:
    page = visit("#?sort=-role")
    roles = page.locator("#scorecard [data-role]").evaluate_all(
        "els => els.map(e => e.dataset.role)"
    )
    assert roles == [*reversed(ROLES)]


def test_figures_and_segments_follow(visit: Callable[..., Any]) -> None:
    page = visit("#?metric=m37&variant=challenger")
    assert page.locator("#daily-m37").is_visible()
    assert not page.locator("#daily-m00").is_visible()
    bodies = page.locator(".segments tbody:visible")
    assert {b.get_attribute("data-metric") for b in bodies.all()} == {"m37"}
    figure = page.locator("#daily-m37 .js-plotly-plot")
    figure.wait_for()
    lines = figure.evaluate("e => e.data.filter(t => t.visible !== false).map(t => t.name)")
    assert set(lines) == {"challenger"}
    # What was hidden while figures were drawn is drawn when it is shown, as wide as its place.
    page.get_by_role("button", name="Show all", exact=True).click()
    other = page.locator("#daily-m00 .js-plotly-plot .main-svg").first
    other.wait_for()
    assert other.bounding_box()["width"] > 1000
    # A diagnostic's figure is in what is closed: choosing it by name opens that.
    last = large().metrics[-1].name
    page.locator("#choose-metric").fill(last)
    page.locator(f"#daily-{last} .js-plotly-plot").wait_for()


def test_a_phone_can_use_sixty_metrics(visit: Callable[..., Any]) -> None:
    page = visit(width=390)
    page.locator("html[data-figures=ready]").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    height = page.locator("#scorecard").evaluate("e => e.getBoundingClientRect().height")
    assert height < 11_000
    page.locator("#choose-metric").fill("m37")
    page.locator("#choose-variant").select_option("challenger")
    assert page.evaluate(SHOWN) == [["m37", "challenger"]]
    for control in page.locator(".choose :is(input, select)").all():
        box = control.bounding_box()
        assert box["height"] >= 30
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
    page.get_by_role("button", name="Show all", exact=True).click()
    button = page.get_by_role("button", name="Show all 120 rows")
    button.focus()
    page.keyboard.press("Enter")
    assert len(page.evaluate(SHOWN)) == 12 + 12 + 120
    # The focus goes on where the rows go on.
    assert page.evaluate("document.activeElement.closest('tr') !== null")


def test_paper_has_what_was_chosen_or_all(visit: Callable[..., Any]) -> None:
    page = visit()
    page.emulate_media(media="print")
    assert len(page.evaluate(SHOWN)) == 180
    assert not page.locator(".choose").is_visible()
    page.emulate_media(media="screen")
    page.locator("#choose-role").select_option("guardrail")
    page.emulate_media(media="print")
    assert len(page.evaluate(SHOWN)) == 3 * ROLES["guardrail"]
    assert "Chosen: guardrails." in page.locator("main").inner_text()


def test_without_scripts_everything_is_shown_and_nothing_to_choose(
    visit: Callable[..., Any],
) -> None:
    page = visit("#?metric=m0", scripts=False)
    assert page.locator("#scorecard table.scorecard tbody tr:visible").count() == 180
    assert page.locator(".choose, .all, thead button").count() == 0
    for part in ("verdict", "trust", "scorecard", "segments", "methods"):
        assert page.locator(f"#{part}").is_visible()


def test_little_has_no_controls(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "little.html"
    path.write_text(html("ship"), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    page.locator("html[data-figures=ready]").wait_for()
    assert page.locator(".choose, .all, thead button").count() == 0
    page.close()
