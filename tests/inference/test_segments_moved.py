"""Segments that the treatment may change, and segments that are known before it can act."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import ExperimentError
from abeval.results.analysis import Result
from abeval.results.trust import Check

PERIOD = {"start": "2026-01-08", "end": "2026-01-15"}
BEFORE = {"start": "2026-01-01", "end": "2026-01-08"}


def world(lost: float = 0.0, users: int = 20_000) -> pd.DataFrame:
    """The treatment moves the share of scene x from .3 to .5; before, it is .3 in both.

    Of treatment's users of x before, a share is lost from the log.
    """
    random = np.random.default_rng(1)
    treated = random.random(users) < 0.5
    scene_before = random.random(users) < 0.3
    log = pd.DataFrame(
        {
            "user_id": np.arange(users),
            "variant": np.where(treated, "b", "a"),
            "ts": pd.Timestamp("2026-01-03 12:00"),
            "scene": np.where(scene_before, "x", "y"),
            "click": random.random(users) < 0.3,
        }
    )
    during = log.assign(
        ts=pd.Timestamp("2026-01-08 12:00") + pd.to_timedelta(np.arange(users) % 7, unit="D"),
        scene=np.where(random.random(users) < np.where(treated, 0.5, 0.3), "x", "y"),
    )
    kept = ~(scene_before & treated & (random.random(users) < lost))
    return pd.concat([log[kept], during[kept]])


def analyzed(log: pd.DataFrame, known: bool, **entries: Any) -> Result:
    rule = {"value": "scene", "known": "before"} if known else "scene"
    base = {
        "name": "scene",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "period": PERIOD,
        "pre_period": BEFORE,
        "logs": {"impressions": {}},
        "segments": {"scene": rule},
        "metrics": [{"name": "ctr"}],
        "trust": {"aa_runs": 0},
        "engine": {"threads": 1},
    }
    return abeval.define(".", **{**base, **entries}).analyze(logs={"impressions": log})


def exposures(lost: float = 0.0, users: int = 20_000) -> pd.DataFrame:
    """The scene from which each user was exposed, twice; the second is what treatment made of it.

    Of treatment's users of scene x, a share is lost.
    """
    random = np.random.default_rng(1)
    treated = random.random(users) < 0.5
    scene = random.random(users) < 0.3
    log = pd.DataFrame(
        {
            "user_id": np.arange(users),
            "variant": np.where(treated, "b", "a"),
            "ts": pd.Timestamp("2026-01-08 08:00"),
            "Entry": np.where(scene, "X", "Y"),
        }
    )
    kept = ~(scene & treated & (random.random(users) < lost))
    again = log.assign(ts=pd.Timestamp("2026-01-09"), Entry=np.where(treated, "X", "Y"))
    return pd.concat([again[kept], log[kept]])


def exposed(log: pd.DataFrame, lost: float = 0.0, **entries: Any) -> Result:
    base = {
        "name": "scene",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "period": PERIOD,
        "logs": {"impressions": {}, "exposures": {}},
        "segments": {"entry": {"value": "lower(Entry)", "known": "exposure"}, "scene": "scene"},
        "metrics": [{"name": "ctr"}],
        "trust": {"aa_runs": 0},
        "engine": {"threads": 1},
    }
    loaded = abeval.define(".", **{**base, **entries})
    return loaded.analyze(logs={"impressions": log, "exposures": exposures(lost)})


def of_scene(result: Result) -> Check:
    return next(check for check in result.trust if check.name == "srm:scene")


def test_a_property_that_the_treatment_moves_is_no_fault_of_the_split() -> None:
    result = analyzed(world(), known=False)
    check = of_scene(result)
    assert (check.status, check.metrics, check.threshold) == ("warn", (), None)
    assert "may have changed" in check.message
    assert 'known = "before"' in check.remedy
    assert result.verdicts[0].decision != "do_not_trust"
    assert {row.reason for row in result.segments} == {"moved_segment"}
    assert result.segment_contrasts == ()
    assert result["ctr"].status != "untrusted"


def test_known_before_it_cannot_be_moved() -> None:
    result = analyzed(world(), known=True)
    assert of_scene(result).status == "pass"
    units = {row.cell: (row.units_control, row.units) for row in result.segments}
    before = world().query("ts < '2026-01-08'").groupby(["scene", "variant"]).size()
    assert units == {cell: (before[cell, "a"], before[cell, "b"]) for cell in ("x", "y")}
    assert {row.reason for row in result.segments} == {None}


def test_known_before_an_uneven_cell_is_a_fault_of_the_split() -> None:
    """A loss of 10 % of x is 3 % of all units, which the split of all units does not show."""
    result = analyzed(world(lost=0.15), known=True)
    assert next(check for check in result.trust if check.name == "srm").status != "fail"
    assert of_scene(result).status == "fail"
    assert result.verdicts[0].decision == "do_not_trust"


def test_units_that_were_not_there_before_have_no_value() -> None:
    log = world()
    log = log[(log["ts"] >= "2026-01-08") | (log["user_id"] % 4 > 0)]
    result = analyzed(log, known=True)
    assert of_scene(result).status == "pass"
    assert {row.cell for row in result.segments} == {"", "x", "y"}


@pytest.mark.whole
def test_a_table_of_units_says_what_was_known_before() -> None:
    log = world(lost=0.15).query("ts < '2026-01-08'").drop(columns="ts")
    table = log.assign(click=log["click"].astype(int))
    for known, status in ((False, "warn"), (True, "fail")):
        rule = {"value": "scene", "known": "before"} if known else "scene"
        loaded = abeval.define(
            ".",
            name="table",
            unit="user_id",
            control="a",
            variants={"a": {}, "b": {}},
            logs={"units": {}},
            segments={"scene": rule},
            metrics=[{"name": "click"}],
        )
        assert of_scene(loaded.analyze(logs={"units": table})).status == status


def test_known_before_needs_a_time_before() -> None:
    with pytest.raises(ExperimentError, match=r"scene\.known: \"before\" needs a \[pre_period\]"):
        analyzed(world(users=100), known=True, pre_period=None)


def test_contrasts_need_as_many_units_as_the_scorecard() -> None:
    """Three units against seven printed an effect of +54 points, p .004."""
    log = world().query("ts < '2026-01-08'").assign(ts=pd.Timestamp("2026-01-09"))
    log["scene"] = np.where(log["user_id"] < 40, "rare", np.where(log["user_id"] % 3, "x", "y"))
    result = analyzed(log, known=False, pre_period=None)
    assert {row.cell for row in result.segments} == {"rare", "x", "y"}
    assert {row.cell for row in result.segment_contrasts} == {"x", "y"}


def test_known_from_the_exposure_it_is_the_value_of_the_first_one() -> None:
    """The scene of the impressions is moved; that of the first exposure is not, nor can it be."""
    result = exposed(world())
    checks = {check.name: check.status for check in result.trust}
    assert (checks["srm:entry"], checks["srm:scene"]) == ("pass", "warn")
    rows = [row for row in result.segments if row.slice == "entry"]
    first = exposures().query("ts < '2026-01-09'").groupby(["Entry", "variant"]).size()
    units = {row.cell: (row.units_control, row.units) for row in rows}
    assert units == {cell.lower(): (first[cell, "a"], first[cell, "b"]) for cell in ("X", "Y")}
    assert {row.reason for row in rows} == {None}


def test_known_from_the_exposure_an_uneven_cell_is_a_fault_of_the_split() -> None:
    result = exposed(world(), lost=0.15)
    checks = {check.name: check.status for check in result.trust}
    assert (checks["srm"] != "fail", checks["srm:entry"]) == (True, "fail")
    assert result.verdicts[0].decision == "do_not_trust"


def test_known_from_the_exposure_needs_a_log_of_exposures_that_has_it() -> None:
    with pytest.raises(ExperimentError, match=r'"exposure" needs \[logs\.exposures\]'):
        exposed(world(), logs={"impressions": {}})
    segments = {"entry": {"value": "entrance", "known": "exposure"}}
    with pytest.raises(ExperimentError, match="'entrance', which the exposures do not have"):
        exposed(world(), segments=segments)
