"""The page in a real browser, where there is one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.report.pages import html

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium")


def rendered(name: str, folder: Path, address: str = "") -> tuple[str, str]:
    """The page after its scripts ran, and what the browser had to say."""
    path = folder / "page.html"
    path.write_text(html(name), encoding="utf-8")
    run = subprocess.run(  # noqa: S603
        [
            str(CHROMIUM),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            f"--user-data-dir={folder / 'profile'}",
            "--enable-logging=stderr",
            "--virtual-time-budget=20000",
            "--dump-dom",
            path.as_uri() + address,
        ],
        check=True,
        capture_output=True,
    )
    said = [line for line in run.stderr.decode().splitlines() if "CONSOLE" in line]
    return run.stdout.decode(), "\n".join(said)


@pytest.mark.whole
def test_scripts_run_under_the_policy(tmp_path: Path) -> None:
    dom, said = rendered("ship", tmp_path)
    assert 'data-figures="ready"' in dom
    assert 'data-view="decision"' in dom
    assert said == ""


@pytest.mark.whole
def test_figures_of_the_chosen_metric_are_drawn(tmp_path: Path) -> None:
    dom, said = rendered("ship", tmp_path, "#explore?metric=gauc")
    # Its own, and those that are printed.
    assert dom.count('class="figure js-plotly-plot"') == 2
    assert 'id="daily-gauc"' in dom
    assert said == ""


@pytest.mark.whole
def test_hostile_names_are_only_shown(tmp_path: Path) -> None:
    dom, said = rendered("hostile", tmp_path, "#explore")
    assert 'data-figures="ready"' in dom
    assert dom.count("<img") == 0
    assert said == ""
