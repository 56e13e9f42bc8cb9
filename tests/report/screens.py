"""Twelve pages on every screen, in both modes, without scripts and on paper.

    python -m tests.report.screens                       # all; about ten minutes
    python -m tests.report.screens many conflict
    python -m tests.report.screens --pictures FOLDER     # and a picture of every screen

Needs Chromium, Playwright and axe-playwright-python. Prints a line for each page and way of
looking, its three views together; every number but `figures`, `rows`, `stops` and `sheets` counts
faults and is to be 0:

- `said`: messages of the console; `asked`: requests but the file itself.
- `scroll`: pixels that the page scrolls sideways; `outside`: names, variants, effects and statuses
  of rows that are not inside the screen.
- `blank`: figures that are shown and not drawn; `lost`: parts that must be there and are not shown.
- `cut`: intervals whose end lies beyond their axis, without an arrow.
- `twice`: colours that mean two variants, or a variant and what is good or bad.
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

from tests.worlds.pages import PAGES

WIDTHS = (1440, 768, 390)
MODES = ("light", "dark", "no scripts", "print")
OPEN = "document.querySelectorAll('details').forEach(each => each.open = true)"
READY = "document.documentElement.dataset.figures === 'ready'"
OPENED = """!([...document.querySelectorAll('details:not([open])')].some(e => e.checkVisibility())
    || document.querySelector('details[open] > template')
    || [...document.querySelectorAll('[data-figure]:not(.js-plotly-plot)')]
        .some(e => e.checkVisibility()))"""
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
ROWS = """[...document.querySelectorAll('.scorecard tbody tr')]
    .filter(row => row.checkVisibility()).length"""
# A glyph's axis ends 4 % from its edges, and holds what is not cut with room to spare.
CUT = """() => {
    const side = (svg, x) => [...svg.querySelectorAll('.arrow')]
        .some(arrow => Math.abs(parseFloat(arrow.getAttribute('x')) - x) < 1);
    const glyphs = [...document.querySelectorAll('svg.glyph')].filter(e => e.checkVisibility())
        .filter(svg => [...svg.querySelectorAll('.bar, .whisker')].some(line =>
            (parseFloat(line.getAttribute('x1')) <= 4 && !side(svg, 4))
            || (parseFloat(line.getAttribute('x2')) >= 96 && !side(svg, 96))));
    const figures = [...document.querySelectorAll('.js-plotly-plot')]
        .filter(e => e.checkVisibility()).flatMap(holder => {
            const arrows = holder.data.filter(t => t.name === 'goes on beyond the frame');
            return ['x', 'y'].flatMap(axis => holder.data.flatMap(trace => {
                const range = holder._fullLayout[(trace[axis + 'axis'] ?? axis)
                    .replace(/^./, '$&axis')]?.range;
                const bars = trace['error_' + axis];
                if (!bars?.array || !range) return [];
                const room = 0.001 * Math.abs(range[1] - range[0]);
                const [low, high] = [Math.min(...range) - room, Math.max(...range) + room];
                const other = axis === 'x' ? 'y' : 'x';
                return [...trace[axis]].filter((value, i) => bars.array[i] !== null
                    && (value - bars.arrayminus[i] < low || value + bars.array[i] > high)
                    && !arrows.some(t => t[other].includes(trace[other][i])));
            }));
        });
    return glyphs.length + figures.length;
}"""
TWICE = """() => {
    const means = new Map();
    const add = (colour, what) => {
        const key = colour.trim().toLowerCase();
        if (key) means.set(key, (means.get(key) ?? new Set()).add(what));
    };
    const style = getComputedStyle(document.documentElement);
    for (const name of ['good', 'bad', 'warn']) add(style.getPropertyValue('--' + name), name);
    const named = [...document.querySelectorAll('td.variant')];
    const tone = e => getComputedStyle(e).getPropertyValue('--tone');
    for (const e of named) add(tone(e), e.textContent);
    for (const e of named) {
        for (const drawn of e.parentElement.querySelectorAll('.glyph, .spark')) {
            add(tone(drawn), e.textContent);
        }
    }
    const variants = new Set(['control', ...named.map(e => e.textContent)]);
    const plain = text => new DOMParser().parseFromString(text, 'text/html').body.textContent;
    for (const holder of document.querySelectorAll('.js-plotly-plot')) {
        for (const trace of holder.data) {
            const name = plain(trace.name ?? '');
            for (const colour of [trace.line?.color, trace.marker?.color]) {
                if (variants.has(name) && typeof colour === 'string') add(colour, name);
            }
        }
    }
    return [...means.values()].filter(names => names.size > 1).length;
}"""
STOPS = """[...document.querySelectorAll(
    'a[href], button, summary, input, select, [tabindex="0"]')].filter(e => e.checkVisibility())"""
MUST = ("verdict", "trust", "scorecard", "methods")
PRINTED = ("verdict", "scorecard", "trust")
VIEWS = "[...document.querySelectorAll('.view')].map(view => view.id)"


class Look(NamedTuple):
    """What one way of looking at one page finds."""

    said: int = 0
    asked: int = 0
    scroll: int = 0
    outside: int = 0
    blank: int = 0
    lost: int = 0
    cut: int = 0
    twice: int = 0
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

    def __add__(self, other: object) -> "Look":
        """Add what another view of the page has."""
        pairs = zip(self, other, strict=True) if isinstance(other, Look) else ()
        return Look(*(one + more for one, more in pairs))


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


def watched(context: BrowserContext, file: Path, address: str = "") -> Watched:
    """A page that was opened, with what it said and asked for while and after it opened."""
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri() + address)
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
    """Open every part of a view, also those inside others, and wait until all is drawn."""
    for _ in range(8):
        page.evaluate(OPEN)
        page.wait_for_timeout(150)
        if comes_true(page, OPENED, 5):
            return


FIRST_PANEL = "document.querySelector('[data-role] a[aria-expanded=false], .opens a')?.click()"


def show(page: Page, view: str) -> None:
    """Go to a view, if the page has any; in Explore, open the first metric."""
    if view:
        page.evaluate("view => { location.hash = view; }", view)
        comes_true(page, f"document.getElementById('{view}').checkVisibility()", 5)
        if view == "explore" and not page.evaluate("!!document.querySelector('tr.picked')"):
            page.evaluate(FIRST_PANEL)


def screens(
    browser: Browser,
    file: Path,
    mode: str,
    widths: tuple[int, ...] = WIDTHS,
    folder: Path | None = None,
) -> Iterator[tuple[str, Look]]:
    """Looks at a page on screens, everything open; axe on the widest and on a phone."""
    context, seen = opened(browser, file, widths[0], mode)
    page, scripts = seen.page, mode != "no scripts"
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        look = Look()
        for view in (page.evaluate(VIEWS) or [""]) if scripts else [""]:
            if scripts:
                show(page, view)
                open_all(page)
                # Figures follow the width a little later.
                comes_true(page, f"{SIDEWAYS} === 0 && {BLANK} === 0", 5)
            look += _look(seen, mode, axe=scripts and width in (1440, 390))
            if folder is not None:
                stem = "-".join(filter(None, (file.stem, mode.replace(" ", "-"), view, str(width))))
                page.screenshot(path=folder / f"{stem}.png", full_page=True, timeout=180_000)
        asked = [url for url in seen.asked if not url.startswith((file.as_uri(), "data:", "blob:"))]
        yield f"{mode} {width}", look._replace(said=len(seen.said), asked=len(asked))
    context.close()


def _look(seen: Watched, mode: str, axe: bool) -> Look:
    page, scripts = seen.page, mode != "no scripts"
    lost = [] if scripts else [part for part in MUST if not _is_shown(page, part)]
    return Look(
        scroll=page.evaluate(SIDEWAYS),
        outside=page.evaluate(OUTSIDE),
        blank=page.evaluate(BLANK) if scripts else 0,
        lost=len(lost),
        cut=page.evaluate(CUT),
        twice=page.evaluate(TWICE),
        axe=_violations(page) if axe else 0,
        figures=page.evaluate(f"{FIGURES}.length"),
        rows=page.evaluate(ROWS),
    )


def _is_shown(page: Page, part: str) -> bool:
    """Whether a part is; true of one that this page does not have."""
    return not page.locator(f"#{part}").count() or page.locator(f"#{part}").is_visible()


def _violations(page: Page) -> int:
    broken: list[dict[str, Any]] = Axe().run(page).response["violations"]
    for rule in broken:
        targets = [node["target"] for node in rule["nodes"]][:3]
        sys.stderr.write(f"   axe: {rule['id']} {targets}\n")
    return sum(len(rule["nodes"]) for rule in broken)


def keyboard(browser: Browser, file: Path, width: int = 390) -> Look:
    """Whether Tab reaches every link, button and control of each view, as it opens."""
    context, seen = opened(browser, file, width, "light")
    page, total = seen.page, Look()
    for view in page.evaluate(VIEWS) or [""]:
        show(page, view)
        comes_true(page, f"{BLANK} === 0", 5)
        stops = page.evaluate(f"{STOPS}.length")
        page.evaluate(
            "document.activeElement.blur(); window.reached = new Set();"
            "document.addEventListener('focusin', event => window.reached.add(event.target))"
        )
        for _ in range(stops + 5):
            page.keyboard.press("Tab")
        unreached = page.evaluate(f"{STOPS}.filter(e => !window.reached.has(e)).length")
        total += Look(unreached=unreached, stops=stops)
    context.close()
    return total._replace(said=len(seen.said))


def paper(browser: Browser, file: Path, folder: Path | None = None) -> Look:
    """The page as it is printed, as soon as it is loaded."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    seen = watched(context, file)
    page = seen.page
    path = None if folder is None else folder / f"{file.stem}-print.pdf"
    sheets = len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4", path=path)))
    page.emulate_media(media="print")
    # An A4 page is as wide as this between its margins.
    page.set_viewport_size({"width": 718, "height": 1000})
    look = Look(
        said=len(seen.said),
        scroll=page.evaluate(SIDEWAYS),
        blank=page.evaluate(BLANK),
        lost=sum(not _is_shown(page, part) for part in PRINTED),
        cut=page.evaluate(CUT),
        figures=page.evaluate(f"{FIGURES}.length"),
        rows=page.evaluate(ROWS),
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
        heads = (f"{name:>9}" for name in Look._fields)
        sys.stdout.write(" ".join((f"{'':32}", *heads)) + "\n")
        for name in arguments or PAGES:
            file = Path(pages) / f"{name}.html"
            PAGES[name]().report(file)
            for way, look in looks(browser, file, folder=folder):
                faults += look.faults
                numbers = (f"{n:9}" for n in look)
                sys.stdout.write(" ".join((f"{name + ', ' + way:32}", *numbers)) + "\n")
                sys.stdout.flush()
        browser.close()
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
