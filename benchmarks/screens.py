"""Pages of seven experiments on every screen, in both modes, without scripts and on paper.

    python -m benchmarks.screens                       # all; about ten minutes
    python -m benchmarks.screens hostile small_csv
    python -m benchmarks.screens --pictures FOLDER     # and a picture of every screen

Needs Chromium, Playwright and axe-playwright-python. Prints a line for each experiment and way of
looking; every number but `sheets`, `figures`, `stops` and `rows` counts faults and is to be 0:

- `said`: messages of the console; `asked`: requests but the file itself.
- `scroll`: pixels that the page scrolls sideways; `outside`: names, variants, effects and statuses
  of rows that are not inside the screen.
- `blank`: figures that are shown and not drawn; `lost`: rows, or parts that must be there, that
  are not shown.
- `unreached`: links, buttons and controls that Tab does not reach; `axe`: violations of WCAG A, AA
  and best practice, everything open.
"""

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from benchmarks.report_worlds import WORLDS

WIDTHS = (1440, 1024, 768, 390, 320)
MODES = ("light", "dark", "no scripts", "print")
OPEN = "document.querySelectorAll('details').forEach(each => each.open = true)"
READY = "document.documentElement.dataset.figures === 'ready'"
OPENED = """!document.querySelector('details:not([open]), details > template')
    && !document.querySelector('[data-figure]:not(.js-plotly-plot)')"""
# What tells the rows of the scorecard, of the first screen and of the segments apart.
OUTSIDE = """() => [...document.querySelectorAll(
    '.scorecard .chip, .scorecard .variant, .scorecard .metric, .scorecard .estimate')]
    .filter(e => e.checkVisibility()).filter(e => {
        const box = e.getBoundingClientRect();
        return box.left < 0 || box.right > document.documentElement.clientWidth;
    }).length"""
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
FIGURES = "[...document.querySelectorAll('.figure')].filter(e => e.checkVisibility())"
BLANK = f"""{FIGURES}.filter(e => {{
    const drawing = e.querySelector('.main-svg')?.getBoundingClientRect();
    return !drawing || drawing.width < 100 || drawing.height < 60
        || drawing.right > document.documentElement.clientWidth + 1;
}}).length"""
ROWS = """[...document.querySelectorAll('#scorecard table.scorecard tbody tr')]
    .filter(row => row.checkVisibility()).length"""
STOPS = """[...document.querySelectorAll(
    'a[href], button, summary, input, select, [tabindex="0"]')].filter(e => e.checkVisibility())"""
MUST = ("verdict", "trust", "scorecard", "segments", "methods")


class Look(NamedTuple):
    """What one way of looking at one page finds."""

    said: int = 0
    asked: int = 0
    scroll: int = 0
    outside: int = 0
    blank: int = 0
    lost: int = 0
    unreached: int = 0
    axe: int = 0
    figures: int = 0
    rows: int = 0
    stops: int = 0
    sheets: int = 0

    @property
    def faults(self) -> int:
        """How much is wrong."""
        return sum(self[: self._fields.index("figures")])


class Watched(NamedTuple):
    """A page, and what its console said and what it asked for."""

    page: Page
    said: list[str]
    asked: list[str]


def comes_true(page: Page, condition: str, seconds: float = 60) -> bool:
    """Whether it does in time; the page's policy lets no function of ours wait in it."""
    for _ in range(int(20 * seconds)):
        if page.evaluate(condition):
            return True
        page.wait_for_timeout(50)
    return False


def watched(context: BrowserContext, file: Path) -> Watched:
    """A page that was opened, with what it said and asked for while and after it opened."""
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    return Watched(page, said, asked)


def opened(browser: Browser, file: Path, width: int, mode: str) -> tuple[BrowserContext, Watched]:
    """A page on a screen so wide, in a mode."""
    scripts = mode != "no scripts"
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if mode == "dark" else "light",
        java_script_enabled=scripts,
    )
    seen = watched(context, file)
    if scripts and not comes_true(seen.page, READY):
        seen.said.append("figures were never ready")
    return context, seen


def open_all(page: Page) -> None:
    """Open every part, also those inside others, and wait until all is drawn."""
    for _ in range(8):
        page.evaluate(OPEN)
        page.wait_for_timeout(150)
        if comes_true(page, OPENED, 15):
            return


def screens(
    browser: Browser,
    file: Path,
    mode: str,
    widths: tuple[int, ...] = WIDTHS,
    folder: Path | None = None,
) -> Iterator[tuple[str, Look]]:
    """Looks at a page on screens, everything open; axe on the widest and on a phone."""
    context, seen = opened(browser, file, widths[0], mode)
    page = seen.page
    if mode != "no scripts":
        open_all(page)
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        # Figures follow the width a little later.
        comes_true(
            page, f"{SIDEWAYS} === 0 && {BLANK} === 0" if mode != "no scripts" else "true", 5
        )
        yield f"{mode} {width}", _look(seen, file, mode, axe=width in (1440, 390))
        if folder is not None:
            picture = folder / f"{file.stem}-{mode.replace(' ', '-')}-{width}.png"
            page.screenshot(path=picture, full_page=True, timeout=180_000)
    context.close()


def _look(seen: Watched, file: Path, mode: str, axe: bool) -> Look:
    page, scripts = seen.page, mode != "no scripts"
    lost = [] if scripts else [part for part in MUST if not _is_shown(page, part)]
    return Look(
        said=len(seen.said),
        asked=sum(
            url != file.as_uri() and not url.startswith(("data:", "blob:")) for url in seen.asked
        ),
        scroll=page.evaluate(SIDEWAYS),
        outside=page.evaluate(OUTSIDE),
        blank=page.evaluate(BLANK) if scripts else 0,
        lost=len(lost),
        axe=_violations(page) if axe and scripts else 0,
        figures=page.evaluate(f"{FIGURES}.length"),
        rows=page.evaluate(ROWS),
    )


def _is_shown(page: Page, part: str) -> bool:
    """Whether a part is; true of one that this page does not have."""
    return not page.locator(f"#{part}").count() or page.locator(f"#{part}").is_visible()


def _violations(page: Page) -> int:
    broken: list[dict[str, Any]] = Axe().run(page).response["violations"]
    for rule in broken:
        print(
            "   axe:", rule["id"], [node["target"] for node in rule["nodes"]][:3], file=sys.stderr
        )
    return sum(len(rule["nodes"]) for rule in broken)


def keyboard(browser: Browser, file: Path, width: int = 390) -> Look:
    """Whether Tab reaches every link, button and control, as the page opens."""
    context, seen = opened(browser, file, width, "light")
    page = seen.page
    stops = page.evaluate(f"{STOPS}.length")
    page.evaluate(
        "window.reached = new Set();"
        "document.addEventListener('focusin', event => window.reached.add(event.target))"
    )
    for _ in range(stops + 5):
        page.keyboard.press("Tab")
    unreached = page.evaluate(f"{STOPS}.filter(e => !window.reached.has(e)).length")
    context.close()
    return Look(said=len(seen.said), unreached=unreached, stops=stops)


def paper(browser: Browser, file: Path, folder: Path | None = None) -> Look:
    """The page as it is printed, as it opens."""
    context, seen = opened(browser, file, 1440, "print")
    page = seen.page
    rows = page.evaluate("document.querySelectorAll('#scorecard table.scorecard tbody tr').length")
    path = None if folder is None else folder / f"{file.stem}-print.pdf"
    sheets = len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4", path=path)))
    page.emulate_media(media="print")
    # An A4 page is as wide as this between its margins.
    page.set_viewport_size({"width": 718, "height": 1000})
    comes_true(page, f"{BLANK} === 0", 5)
    printed = page.evaluate(ROWS)
    gated = page.evaluate("document.querySelectorAll('#scorecard details.untrusted').length")
    look = Look(
        said=len(seen.said),
        scroll=page.evaluate(SIDEWAYS),
        blank=page.evaluate(BLANK),
        lost=0 if gated else rows - printed,
        figures=page.evaluate(f"{FIGURES}.length"),
        rows=printed,
        sheets=sheets,
    )
    context.close()
    return look


def looks(
    browser: Browser, file: Path, widths: tuple[int, ...] = WIDTHS, folder: Path | None = None
) -> Iterator[tuple[str, Look]]:
    """Every way of looking at a page, with its name."""
    for mode in MODES[:3]:
        yield from screens(browser, file, mode, widths, folder)
    yield "keyboard 390", keyboard(browser, file)
    yield "print", paper(browser, file, folder)


def main() -> None:
    """Print a line for each experiment and way of looking; exit 1 where anything is wrong."""
    arguments = sys.argv[1:]
    folder = None
    if "--pictures" in arguments:
        at = arguments.index("--pictures")
        folder = Path(arguments[at + 1])
        folder.mkdir(parents=True, exist_ok=True)
        del arguments[at : at + 2]
    faults = 0
    with tempfile.TemporaryDirectory() as pages, sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        print(f"{'':32}", *(f"{name:>9}" for name in Look._fields))
        for name in arguments or WORLDS:
            file = WORLDS[name]().study().report(Path(pages) / f"{name}.html")
            for way, look in looks(browser, file, folder=folder):
                faults += look.faults
                print(f"{name + ', ' + way:32}", *(f"{n:9}" for n in look), flush=True)
        browser.close()
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
