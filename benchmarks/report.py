"""What the pages of a report weigh, and how soon a browser shows them.

    python -m benchmarks.report            # the pages of the sample, and those of 5 × 40 × 90
    python -m benchmarks.report PAGE.html

Every number of a page of 5 × 40 × 90 is another, with all its digits: numbers that repeat would
compress well, and no log has them.

Needs Chromium and Playwright. Prints bytes, elements, elements with everything opened, first
paint, the time until the figures that are not closed are drawn (milliseconds, best of three), and
A4 pages of print.
"""

import datetime
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from playwright.sync_api import Browser, Page, sync_playwright

import abeval
from abeval.results import Row, SliceRow, VariantInfo
from abeval.results.analysis import Result
from abeval.results.study import Study
from abeval.results.windows import TimeResult, WindowRow

SAMPLE = Path(__file__).parents[1] / "sample_logs" / "experiment.toml"
READY = "document.documentElement.dataset.figures === 'ready'"
ELEMENTS = "document.querySelectorAll('*').length"
OPEN = "document.querySelectorAll('details').forEach(each => each.open = true)"
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"

_RANDOM = random.Random(7)  # noqa: S311 (digits, no secret)


class Cost(NamedTuple):
    """What one page costs."""

    size: int
    elements: int
    elements_open: int
    first_paint: float
    figures: float
    sheets: int


def large(sample: Result, variants: int = 5, metrics: int = 40, days: int = 90) -> Result:
    """The sample's analysis with rows like its own: so many variants, metrics and days."""
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


def large_time(
    sample: TimeResult, variants: int = 5, metrics: int = 40, days: int = 90
) -> TimeResult:
    """The sample's effects over time with rows like its own."""
    known = list(dict.fromkeys(row.metric for row in sample.windows))
    cells = [
        (known[i % len(known)], {"metric": f"metric_{i}", "variant": f"variant {j}"})
        for i in range(metrics)
        for j in range(1, variants)
    ]
    windows = _by_metric(sample.windows)
    parts = {
        name: tuple(
            replace(row, **of)
            for like, of in cells
            for row in _by_metric(getattr(sample, name)).get(like, [])
        )
        for name in ("stability", "novelty", "before")
    }
    looks = _by_metric(sample.looks)
    return replace(
        sample,
        days=tuple(_date(day) for day in range(days)),
        windows=tuple(row for like, of in cells for row in _windows(windows[like], of, days)),
        looks=tuple(
            _other(replace(own[day % len(own)], day=_date(day), **of))
            for like, of in cells
            if (own := looks.get(like))
            for day in range(days)
        ),
        units={of["metric"]: sample.units.get(like, "") for like, of in cells},
        **parts,
    )


def _by_metric(rows: Iterable[Any]) -> dict[str, list[Any]]:
    own: dict[str, list[Any]] = {}
    for row in rows:
        own.setdefault(row.metric, []).append(row)
    return own


def _windows(rows: Sequence[WindowRow], of: dict[str, str], days: int) -> Iterator[WindowRow]:
    """Windows of each kind and length, over so many days."""
    kinds: dict[tuple[str, str, int], list[WindowRow]] = {}
    for row in rows:
        length = 0 if row.kind == "cumulative" else row.days
        kinds.setdefault((row.axis, row.kind, length), []).append(row)
    for (axis, kind, length), own in kinds.items():
        for day in range(days - max(length, 1) + 1):
            row = own[day % len(own)]
            last = day + max(length, 1) - 1
            first = 0 if kind == "cumulative" else day
            start, end = (
                (str(first), str(last)) if axis == "exposure" else (_date(first), _date(last))
            )
            days_of = last - first + 1
            yield _other(replace(row, **of, start=start, end=end, days=days_of))


def _other(row: Any) -> Any:  # noqa: ANN401
    """The same row with other digits in every number that is not whole."""
    factor = 1 + 1e-3 * _RANDOM.random()
    values = {name: getattr(row, name) for name in row.__dataclass_fields__}
    return replace(row, **{n: v * factor for n, v in values.items() if isinstance(v, float)})


def _like(rows: tuple[Row, ...], i: int, variant: str) -> Row:
    names = list(dict.fromkeys(row.metric for row in rows))
    row = next(row for row in rows if row.metric == names[i % len(names)])
    return cast("Row", _other(replace(row, metric=f"metric_{i}", variant=variant)))


def _day(rows: tuple[SliceRow, ...], i: int, variant: str, day: int) -> SliceRow:
    row = rows[(7 * i + day) % len(rows)]
    other = replace(row, metric=f"metric_{i}", variant=variant, cell=_date(day))
    return cast("SliceRow", _other(other))


def _date(day: int) -> str:
    return (datetime.date(2026, 1, 1) + datetime.timedelta(day)).isoformat()


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
    """The pages of the sample, and two large ones."""
    loaded = abeval.load(SAMPLE)
    study = loaded.study()
    analysis, time = study.analysis, study.time
    if analysis is None or time is None:
        raise SystemExit("the sample has no analysis or no effects over time")
    many = large(analysis)
    made: list[tuple[str, Any]] = [
        ("analysis", analysis),
        ("time", time),
        ("replay", loaded.replay()),
        ("complete", study),
        ("5x40x90", many),
        ("5x40x90 with time", Study(analysis=many, time=large_time(time))),
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
