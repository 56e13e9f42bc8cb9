"""The pictures of README and of the gallery: six views of pages.

python -m benchmarks.picture docs/pictures
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser

from benchmarks.browser import open_browser
from tests.report.screens import BLANK, comes_true, opened
from tests.worlds.pages import PAGES, Reported, sample

WIDTH, HEIGHT, PART = 1280, 760, 560


class Picture(NamedTuple):
    """What is pictured: a page, where it opens, and the part that the picture begins with."""

    page: str
    address: str = ""
    part: str = "body"


PICTURES = {
    "decision": Picture("sample"),
    "explore": Picture("sample", "#explore?metric=ctr", "[data-role=goal]"),
    "trust": Picture("failed_trust", "#trust", "#trust"),
    "offline": Picture("conflict", "#causes", "#causes"),
    "stability": Picture("sample", "#stability", "#stability"),
    "history": Picture("thirty"),
}
REPORTS: dict[str, Callable[[], Reported]] = {**PAGES, "sample": lambda: sample().study()}


def take(browser: Browser, file: Path, picture: Picture, to: Path) -> None:
    """Save the first screen of a part as PNG."""
    context, seen = opened(browser, file, WIDTH, "light")
    page = seen.page
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    page.evaluate("address => { location.hash = address; }", picture.address)
    comes_true(page, f"{BLANK} === 0", 10)
    page.wait_for_timeout(500)
    # From the part on, as far as a screen goes; nothing stands over it.
    box = page.locator(picture.part).bounding_box() or {"y": 0.0, "height": 0.0}
    top = page.evaluate("scrollY") + box["y"]
    height = min(HEIGHT if picture.part == "body" else PART, box["height"])
    area = {"x": 0, "y": top, "width": WIDTH, "height": height}
    page.add_style_tag(content="nav, .choices { position: static !important; }")
    page.screenshot(path=to, full_page=True, clip=area)
    context.close()


def main() -> None:
    """Take all pictures into a folder."""
    to = Path(sys.argv[1])
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser:
        for name, picture in PICTURES.items():
            file = Path(folder) / f"{picture.page}.html"
            if not file.exists():
                REPORTS[picture.page]().report(file)
            take(browser, file, picture, to / f"{name}.png")
            print(f"{name}.png", (to / f"{name}.png").stat().st_size // 1000, "kB")


if __name__ == "__main__":
    main()
