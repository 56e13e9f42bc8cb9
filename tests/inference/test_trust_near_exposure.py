"""Impressions just before their unit's exposure: of a clock, a grain or a click; and of none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from abeval.results.trust import Check
from benchmarks.calibration.healthy_logs import analyze_world
from tests.worlds.healthy import World, draw_logs, draw_visits

NAME = "before_exposure:impressions"


def checks(seconds: float = 0.0, grain: str = "", at: str = "list", late: float = 0.0) -> Check:
    """The check of a log whose exposures come with the first list, or a later one, or a click."""
    random = np.random.default_rng(4)
    logs = draw_logs(random, draw_visits(random, 2_000), 0.0)
    shown = logs["impressions"]
    # The rows of a list are written one after the other.
    shown["ts"] += pd.to_timedelta(shown["position"] * 20, unit="ms")
    seen = shown
    if at == "click":
        seen = logs["clicks"].merge(shown[["impression_id", "variant"]])
    if at == "later list":
        first = shown.drop_duplicates("request_id").sample(frac=1.0, random_state=1)
        seen = first.drop_duplicates("user_id")
    exposures = seen.groupby(["user_id", "variant"], as_index=False)["ts"].min()
    exposures["ts"] += pd.to_timedelta(seconds, unit="s")
    if grain:
        exposures["ts"] = exposures["ts"].dt.round(grain)
    exposures["ts"] += pd.to_timedelta(random.exponential(1.0, len(exposures)) * late, unit="s")
    result = analyze_world(World({**logs, "exposures": exposures}, {}))
    found = [one for one in result.trust if one.name == NAME]
    return found[0] if found else Check(NAME, "pass", 0.0, None, "")


@pytest.mark.parametrize("seconds", [0.03, 3, 240])
def test_a_clock_that_is_ahead_set_aside_a_quarter_of_the_log_in_silence(seconds: float):
    found = checks(seconds)
    assert (found.status, found.threshold) == ("warn", None)
    assert found.value == pytest.approx(0.27 if seconds > 1 else 0.1, abs=0.05)
    assert f"interval {max(1, 2 * round(seconds))} seconds" in found.remedy or seconds < 1


@pytest.mark.parametrize(("grain", "words"), [("min", "the minute"), ("s", "the second")])
def test_exposures_of_a_coarse_grain_are_named(grain: str, words: str):
    found = checks(grain=grain)
    assert (found.status, f"written to {words}" in found.message) == ("warn", True)
    assert f"interval {60 if grain == 'min' else 1} seconds" in found.remedy


def test_exposures_that_wait_in_a_queue_are_found():
    assert checks(late=20.0).status == "warn"


def test_exposures_that_are_logged_at_a_click_are_found():
    found = checks(at="click")
    assert (found.status, "logged at a click" in found.remedy) == ("warn", True)


@pytest.mark.parametrize("at", ["list", "later list"])
def test_a_trigger_that_is_logged_with_what_is_shown_passes(at: str):
    assert checks(at=at).status == "pass"
