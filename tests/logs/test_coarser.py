"""Ids coarser than the unit of which each has one variant: they were randomised, not the unit."""

from __future__ import annotations

import pandas as pd
import pytest

import abeval
from tests.drafts.test_guess_unit import START, visits

RANK = {"user_id": 0, "device_id": 1, "session_id": 2}


def checks(log: pd.DataFrame, unit: str, **entries: object) -> dict[str, abeval.Check]:
    loaded = abeval.define(
        name="coarser",
        unit=unit,
        control="control",
        variants={"control": {}, "treatment": {}},
        logs={"impressions": {}},
        metrics=[{"name": "ctr", "role": "goal"}],
        trust={"aa_runs": 0},
        **entries,
    )
    found = loaded.analyze(logs={"impressions": log}).trust
    return {check.name: check for check in found if check.name.startswith("coarser_unit")}


@pytest.mark.parametrize("randomised", ["user_id", "device_id", "session_id"])
@pytest.mark.parametrize("unit", ["user_id", "session_id", "row"])
def test_intervals_by_a_finer_id_than_was_randomised_are_warned_of(
    randomised: str, unit: str
) -> None:
    found = checks(visits(randomised), unit)
    warned = [check for check in found.values() if check.status != "pass"]
    if RANK.get(unit, 3) <= RANK[randomised]:
        assert warned == []
        return
    (check,) = warned
    assert (check.name, check.status) == (f"coarser_unit:{randomised}", "warn")
    assert check.remedy == f'say what was randomised: unit = "{randomised}"'


@pytest.mark.parametrize("treated", [0.5, 0.1, 0.02])
def test_people_who_have_one_variant_by_chance_are_not_warned_of(treated: float) -> None:
    found = checks(visits("session_id", treated), "session_id")
    assert {check.status for check in found.values()} == {"pass"}


def test_only_the_period_counts() -> None:
    """Before it all are in control; people who have both variants only so were randomised."""
    log = visits("user_id", days=28).drop(columns=["device_id"])
    log.loc[log.ts < START + pd.Timedelta(days=14), "variant"] = "control"
    period = {"start": "2026-09-28", "end": "2026-10-12"}
    assert checks(log, "session_id", period=period)["coarser_unit:user_id"].status == "warn"


def test_other_columns_are_not_looked_at() -> None:
    log = visits("user_id").rename(columns={"user_id": "who"}).drop(columns="device_id")
    assert checks(log, "session_id") == {}
    assert checks(visits("user_id"), "user_id") == {}
