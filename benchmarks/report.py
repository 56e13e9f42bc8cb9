"""What the pages of a report weigh, and how soon a browser shows them.

    python -m benchmarks.report            # the pages of the sample, and one of 5 × 40 × 90
    python -m benchmarks.report PAGE.html

Needs Chromium and Playwright. Prints bytes, elements, elements with everything opened, first
paint, the time until the figures that are not closed are drawn (milliseconds, best of three), and
A4 pages of print.
"""

import re
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

import abeval
from abeval.results import Row, SliceRow, VariantInfo
from abeval.results.analysis import Result

SAMPLE = Path(__file__).parents[1] / "sample_logs" / "experiment.toml"
READY = "document.documentElement.dataset.figures === 'ready'"
ELEMENTS = "document.querySelectorAll('*').length"
OPEN = "document.querySelectorAll('details').forEach(each => each.open = true)"
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"


class Cost(NamedTuple):
    """What one page costs."""

    size: int
    elements: int
    elements_open: int
    first_paint: float
    figures: float
    sheets: int


def large(sample: Result, variants: int = 5, metrics: int = 40, days: int = 90) -> Result:
    """The sample's analysis with its rows repeated: so many variants, metrics and days."""
    names = [f"variant {i}" for i in range(1, variants)]
    infos = [
        replace(sample.metrics[i % len(sample.metrics)], name=f"metric_{i}") for i in range(metrics)
    ]
    rows = [_like(sample.scorecard, i, variant) for i in range(metrics) for variant in names]
    daily = [
        _day(sample.daily, i, variant, day)
        for i in range(metrics)
        for variant in names
        for day in range(days)
    ]
    first, second, *_ = sample.experiment.variants
    groups = (first, *(VariantInfo(name, 1.0, None, second.units) for name in names))
    return replace(
        sample,
        experiment=replace(sample.experiment, variants=groups),
        metrics=tuple(infos),
        scorecard=tuple(rows),
        daily=tuple(daily),
        verdicts=tuple(replace(sample.verdicts[0], variant=name) for name in names),
        **dict.fromkeys(
            ("segments", "segment_tests", "segment_contrasts", "adjustments", "influence"), ()
        ),
    )


def _like(rows: tuple[Row, ...], i: int, variant: str) -> Row:
    names = list(dict.fromkeys(row.metric for row in rows))
    row = next(row for row in rows if row.metric == names[i % len(names)])
    return replace(row, metric=f"metric_{i}", variant=variant)


def _day(rows: tuple[SliceRow, ...], i: int, variant: str, day: int) -> SliceRow:
    import datetime

    date = datetime.date(2026, 1, 1) + datetime.timedelta(day)
    row = rows[(7 * i + day) % len(rows)]
    return replace(row, metric=f"metric_{i}", variant=variant, cell=date.isoformat())


def cost(browser: Browser, file: Path) -> Cost:
    """What a page costs on a screen of 1440 × 900."""
    paints, figures = [], []
    for _ in range(3):
        page: Page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(file.resolve().as_uri())
        while not page.evaluate(READY):
            page.wait_for_timeout(10)
        figures.append(float(page.evaluate("performance.now()")))
        paints.append(float(page.evaluate(PAINTED)))
        elements = page.evaluate(ELEMENTS)
        sheets = len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4")))
        for _ in range(3):
            page.evaluate(OPEN)
            page.wait_for_timeout(800)
        opened = page.evaluate(ELEMENTS)
        page.close()
    return Cost(file.stat().st_size, elements, opened, min(paints), min(figures), sheets)


def pages(folder: Path) -> list[Path]:
    """The pages of the sample, and a large one."""
    loaded = abeval.load(SAMPLE)
    analysis = loaded.analyze()
    made: list[tuple[str, Any]] = [
        ("analysis", analysis),
        ("time", loaded.windows()),
        ("replay", loaded.replay()),
        ("5x40x90", large(analysis)),
    ]
    return [result.report(folder / f"{name}.html") for name, result in made]


def main() -> None:
    """Print a line for each page."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        files = [Path(name) for name in sys.argv[1:]] or pages(Path(folder))
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        print(f"{'page':24}", *(f"{name:>14}" for name in Cost._fields))
        for file in files:
            print(f"{file.name:24}", *(f"{value:14,.0f}" for value in cost(browser, file)))
        browser.close()


if __name__ == "__main__":
    main()
