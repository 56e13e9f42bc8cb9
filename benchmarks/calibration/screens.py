"""How long is a page, in screens of a laptop, a tablet and a phone, and has it a wall of text?

Of each page every view is measured as it opens: the decision, and Explore with its first metric.
"""

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import get_args

import numpy as np
from playwright.sync_api import Page

import abeval
from abeval.simulate.designs import Design, simulate_design
from benchmarks.browser import open_browser
from benchmarks.calibration.healthy_logs import define_world
from benchmarks.runner import Record, Table
from tests.report import screens
from tests.worlds.faulty import FAULTS
from tests.worlds.healthy import KINDS
from tests.worlds.pages import PAGES, SAMPLE, WORLDS, Reported, experiment, log

SCREENS = ((1440, 900), (820, 1180), (390, 844))
"""Width and height of a laptop, a tablet and a phone, in pixels."""

BOTTOM = """view => Math.max(...[...document.querySelectorAll(`#${view}, #${view} *`)]
    .filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect().bottom)) + scrollY"""
LINES = """([view, boxes]) => Math.max(0, ...[...document.getElementById(view)
    .querySelectorAll(boxes)].filter(e => e.checkVisibility()).map(e => {
        const texts = document.createTreeWalker(e, NodeFilter.SHOW_TEXT), lines = new Set();
        while (texts.nextNode()) {
            const holder = texts.currentNode.parentElement, text = document.createRange();
            if (holder.closest('svg') || !holder.checkVisibility()) continue;
            text.selectNode(texts.currentNode);
            const end = holder.getBoundingClientRect().bottom + 4;
            [...text.getClientRects()].filter(box => box.width > 1 && box.bottom < end)
                .forEach(box => lines.add(Math.round(box.bottom / 10)));
        }
        return lines.size;
    }))"""
PARAGRAPHS = "p:not(.sentence), .sentence > *, dd, li, td, th"
"""What is read as one paragraph: a verdict has its word, its reason and the next step."""


def break_guardrail() -> Reported:
    """Draw more clicks a user, and half of the sessions."""
    frame = log({"control": 1500, "treatment": 1500})
    treated = frame["variant"] == "treatment"
    frame.loc[treated & (frame.index % 16 == 0), "click"] = 1
    lost = treated & (frame["ts"].dt.day % 2 == 0)
    loaded = experiment(("control", "treatment"))
    return loaded.study(logs={"impressions": frame[~lost]})


def ask_questions() -> Reported:
    """Leave three questions of a draft open."""
    questions = [
        'unit: is it "user_id"? It has 3,000 values in 24,012 rows.',
        'control: is it "control"? It has 1,500 units, and the first of its names.',
        "goal: is it ctr? Nothing in the files says what the change is for.",
    ]
    loaded = experiment(("control", "treatment"), questions=questions)
    return loaded.study(logs={"impressions": log({"control": 1500, "treatment": 1500})})


def analyze(name: str) -> Reported:
    """Analyze a world of the tests."""
    return WORLDS[name]().study()


def simulate(design: Design) -> Reported:
    """Simulate a design, and analyze it."""
    with tempfile.TemporaryDirectory() as folder:
        simulate_design(design, folder)
        loaded = abeval.load(Path(folder) / "experiment.toml")
        return loaded.preferences() if design == "interleaving" else loaded.study()


def draw(kind: str) -> Reported:
    """Draw a healthy or a faulty log, and analyze it."""
    random = np.random.default_rng(5)
    world = FAULTS[kind].draw(random) if kind in FAULTS else KINDS[kind](random, 3_000, 0.1)
    return define_world(world).study(logs=dict(world.logs))


OPENED: Mapping[str, Callable[[], Reported]] = {
    **PAGES,
    **{name: partial(analyze, name) for name in WORLDS},
    "guardrail": break_guardrail,
    "draft": ask_questions,
    **{name: partial(simulate, name) for name in get_args(Design)},
    **{name: partial(draw, name) for name in ("new users", "twelve bots", "2 % double assignment")},
}


def measure_view(page: Page, name: str) -> float:
    """Measure how many screens a view is long, as it opens; no view has none."""
    if not page.locator(f"#{name}").count():
        return float("nan")
    screens.show(page, "" if name == "said" else name)
    screens.comes_true(page, f"{screens.BLANK} === 0", 5)
    height, screen = page.evaluate(BOTTOM, name), page.evaluate("innerHeight")
    return round(float(height) / float(screen), 2)


def measure_page(name: str, repetitions: int, seed: int) -> Record:
    """Measure the views of a page on each screen, and its longest box on the widest."""
    record: dict[str, object] = {"page": name}
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser:
        file = OPENED[name]().report(Path(folder) / "page.html")
        for width, height in SCREENS:
            page = browser.new_page(viewport={"width": width, "height": height})
            page.goto(file.as_uri())
            screens.comes_true(page, screens.READY)
            first = "decision" if page.locator("#decision").count() else "said"
            record[f"decision {width}"] = measure_view(page, first)
            if width == SCREENS[0][0]:
                record["lines of a paragraph"] = page.evaluate(LINES, [first, PARAGRAPHS])
                record["of a verdict"] = page.evaluate(LINES, [first, ".verdict"])
            record[f"explore {width}"] = measure_view(page, "explore")
            page.close()
    return record


EXPLORE, EVIDENCE = "nav a[href='#explore']", "nav a[href='#evidence']"
METRIC = "#verdict a[href='#explore?metric=ctr']"
QUESTIONS: Sequence[tuple[str, tuple[str, ...], str]] = (
    ("What is decided?", (), r"\b(SHIP|UNDECIDED|DO NOT)"),
    ("What shall I do next?", (), r"Next: \w+"),
    ("By how much does ctr rise, and how sure is that?", (), r"ctr\s+.*%.*\[.*%, .*%\]"),
    ("Does each guardrail hold?", (), r"(?s)Guardrails.*(non-inferior|unclear|worse|better)"),
    ("Which days are these?", (), r"2026-09-14"),
    ("How many users has each variant, and was that the plan?", (), r"planned 50%"),
    ("What would a launch bring a day?", (), r"clicks a day"),
    ("Whose test is it?", (), r"Owner: Ann"),
    ("Can I trust it?", (), r"\d+ checks passed"),
    ("What is the p-value of ctr?", (EXPLORE,), r"P \(ADJUSTED\)|p \(adjusted\)"),
    ("Which effect could this test have seen?", (EXPLORE,), r"Detectable"),
    ("How many units would a smaller effect need?", (METRIC, "[data-tab=power]"), r"[\d,]+ units"),
    ("How did ctr move from day to day?", (METRIC, "[data-tab=daily]"), r"(?i)day"),
    ("Is it better on phones?", (METRIC, "[data-tab=segments]"), r"(?i)phone|mobile"),
    ("How is ctr computed?", (METRIC, "[data-tab=definition]"), r"(?i)click"),
    ("Which SQL sums it?", (METRIC, "[data-tab=definition]"), r"(?i)abeval tools sql"),
    ("Were the groups equal before?", (EVIDENCE,), r"(?i)before the experiment|pre_period"),
    ("How many rows were set aside, and why?", (EVIDENCE,), r"(?i)set aside"),
    ("Which level and correction?", (EVIDENCE, "#methods summary"), r"(?i)correction of goals"),
    ("What do the models say offline?", (EXPLORE,), r"(?i)ndcg"),
)


def ask_page(question: tuple[str, tuple[str, ...], str], repetitions: int, seed: int) -> Record:
    """Look for an answer on the page of the sample, after some clicks from its first screen."""
    words, clicks, answer = question
    file = write_sample()
    with open_browser() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(file.as_uri())
        screens.comes_true(page, screens.READY)
        for click in clicks:
            page.locator(click).locator("visible=true").first.evaluate("e => e.click()")
        page.wait_for_timeout(300)
        found = re.search(answer, page.inner_text("main"))
    return {"question": words, "clicks": len(clicks), "answered": int(bool(found))}


@cache
def write_sample() -> Path:
    """Write the page of the sample, once for all questions."""
    file = Path(tempfile.mkdtemp()) / "sample.html"
    return abeval.load(SAMPLE).replace(owner="Ann").study().report(file)


TABLES = {
    "screens": Table(measure_page, [*OPENED], repetitions=1),
    "questions": Table(ask_page, QUESTIONS, repetitions=1),
}
