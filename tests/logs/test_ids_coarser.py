"""Ids coarser than the unit of which each has one variant: they were randomised, not the unit."""

from __future__ import annotations

from pathlib import Path
from typing import cast

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


def sessions(randomised: str) -> pd.DataFrame:
    """A table of one row a session, of users and their sessions."""
    log = visits(randomised)
    columns = {"user_id": "first", "variant": "first", "click": "sum"}
    return log.groupby("session_id", as_index=False).agg(columns)


@pytest.mark.parametrize("form", ["frame", "file"])
def test_a_table_of_many_rows_a_user_without_a_unit_decides_nothing(
    form: str, tmp_path: Path
) -> None:
    """Users were randomised, and rows were analysed: a note said so."""
    table: object = sessions("user_id").drop(columns="session_id")
    if form == "file":
        cast("pd.DataFrame", table).to_csv(tmp_path / "t.csv", index=False)
        table = tmp_path / "t.csv"
    result = abeval.analyze(table, variant="variant", metrics=["click"], control="control")
    (check,) = [one for one in result.trust if one.name == "coarser_unit:user_id"]
    assert (check.status, check.remedy) == ("fail", 'say what was randomised: unit = "user_id"')
    assert result.verdicts[0].decision == "do_not_trust"
    # To say so only leaves the users of one row, which tells what to do.
    kept = abeval.analyze(
        table, variant="variant", metrics=["click"], control="control", unit="user_id"
    )
    (aside,) = [one for one in kept.trust if one.name == "units_set_aside"]
    assert (aside.status, "make one row of each unit" in aside.remedy) == ("fail", True)


def test_rows_of_a_table_that_were_randomised_one_by_one_pass() -> None:
    for unit in (None, "session_id"):
        result = abeval.analyze(
            sessions("session_id"), variant="variant", metrics=["click"], unit=unit
        )
        assert {c.status for c in result.trust if c.name.startswith("coarser")} <= {"pass"}
