"""A Spark Connect server: the same scorecard, and frames that go to it by way of Arrow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.sessions import connect_server


@pytest.mark.spark
def test_a_connect_server_gives_the_same_result() -> None:
    with connect_server() as address:
        found = subprocess.run(  # noqa: S603 (our own words)
            [sys.executable, "-W", "ignore", "-m", "tests.engines.connect", address],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=False,
        )
    assert found.returncode == 0, found.stderr[-2000:]
    told = json.loads(found.stdout)
    assert told["difference"] is None
    assert told["statements"] > 60
