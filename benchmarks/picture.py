"""The picture of the report in README: the first screen of the sample's page.

python benchmarks/picture.py docs/report.png
"""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import abeval

SAMPLE = Path(__file__).parents[1] / "sample_logs" / "experiment.toml"
WIDTH, HEIGHT = 1280, 760


def main() -> None:
    """Make the page of the sample logs, and a picture of its first screen."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "report.html"
        abeval.load(SAMPLE).study().report(page)
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        screen = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        screen.goto(page.as_uri())
        screen.wait_for_timeout(1_000)
        screen.screenshot(path=sys.argv[1])
        browser.close()


if __name__ == "__main__":
    main()
