"""Ids that stand for nobody are named where they have many rows; other heavy units never are."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import numpy as np
import pandas as pd
import pytest

from abeval.results.analysis import Result
from abeval.results.trust import Check
from tests.logs.small import PERIOD, analyze, small_log

MONTH = pd.Timedelta(days=30)


def guests(name: object, share: float, rows: int = 12_000) -> pd.DataFrame:
    """Of so many lists the unit is one id, whose variant changes from list to list."""
    log = small_log(rows=rows, units=400, seed=4)
    log["user_id"] = log["user_id"] + 10
    if isinstance(name, str):
        log["user_id"] = "u" + log["user_id"].astype(str)
    random = np.random.default_rng(5)
    lists = random.random(rows // 5) < share
    variant = random.choice(["a", "b"], rows // 5)
    guest = lists[log["request_id"]]
    log.loc[guest, "user_id"] = name
    log.loc[guest, "variant"] = variant[log.loc[guest, "request_id"]]
    return log


def checks(result: Result) -> list[Check]:
    return [check for check in result.trust if check.name == "placeholder_ids"]


@pytest.mark.parametrize(
    "name",
    ["Anonymous", "00000000-0000-0000-0000-000000000000", "(not set)", "", 0, -1, 99_999_999],
)
def test_an_id_of_many_is_named_with_what_leaves_it_out(name: object):
    """It was one crossover of some hundred units, or one heavy unit."""
    log = guests(name, 0.1)
    (found,) = checks(analyze(log))
    assert (found.status, f"user_id = '{name}'" in found.message) == ("warn", True)
    assert found.value == pytest.approx(0.1, abs=0.02)
    where = re.search(r'where = "(.*?)"', found.remedy)
    assert where is not None
    assert checks(analyze(log, logs={"impressions": {"where": where[1]}})) == []


@pytest.mark.parametrize("entries", [{}, {"cleaning": {"crossover": "exclude"}}])
def test_an_id_with_a_third_of_the_rows_decides_nothing(entries: dict[str, Any]):
    result = analyze(guests("unknown", 0.33), **entries)
    assert [check.status for check in checks(result)] == ["fail"]
    assert result.verdicts[0].decision in ("do_not_trust", "draft")


def test_the_share_is_of_the_rows_of_the_period():
    """Of a log of months the two fifths of some days were one per cent, and passed."""
    log = guests("anonymous", 0.4)
    quiet = guests("anonymous", 0.0)
    later = [quiet.assign(ts=quiet["ts"] + month * MONTH) for month in range(1, 31)]
    (found,) = checks(analyze(pd.concat([log, *later]), period=PERIOD))
    assert (found.status, found.value == pytest.approx(0.4, abs=0.02)) == ("fail", True)


def test_the_column_is_written_as_the_log_has_it():
    """The `where` named the unit of the file, or a name with a space as it is."""
    for column in ("who", "User ID"):
        log = guests("anonymous", 0.1).rename(columns={"user_id": column})
        (found,) = checks(analyze(log, logs={"impressions": {"columns": {"unit_id": column}}}))
        written = re.search(r"where = (.*)\), or", found.remedy)
        assert written is not None
        source = {"columns": {"unit_id": column}, **tomllib.loads(f"where = {written[1]}")}
        assert checks(analyze(log, logs={"impressions": source})) == []


@pytest.mark.parametrize(("name", "share"), [("u_kiosk", 0.1), ("anonymous", 0.003), (7, 0.1)])
def test_other_heavy_units_and_few_rows_are_not_named(name: object, share: float):
    assert checks(analyze(guests(name, share))) == []


def test_a_short_log_of_numbers_from_0_has_no_such_id():
    assert checks(analyze(small_log())) == []
