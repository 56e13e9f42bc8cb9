"""Open the browser that draws pages."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start Chromium, and end it after the block."""
    installed = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=installed, args=["--no-sandbox"])
        yield browser
        browser.close()
