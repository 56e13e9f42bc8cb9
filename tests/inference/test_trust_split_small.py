"""Splits of few units, through the whole command: sound ones pass, broken ones do not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import abeval
from abeval.results.trust import Check

EARLY, LATE = "2026-09-02", "2026-09-09"


def units(*cells: tuple[str, str, int, int]) -> pd.DataFrame:
    """One impression a unit, of cells (day of entry, city, units of a, units of b)."""
    rows = [
        (pd.Timestamp(day), city, variant)
        for day, city, *counts in cells
        for variant, count in zip("ab", counts, strict=True)
        for _ in range(count)
    ]
    table = pd.DataFrame(rows, columns=["ts", "city", "variant"])
    click = np.arange(len(table)) % 5 == 0
    return table.assign(user_id=np.arange(len(table)), click=click.astype(int))


def checks(log: pd.DataFrame) -> dict[str, Check]:
    """Of a ramp from one percent to half, as it was announced."""
    loaded = abeval.define(
        name="ramp",
        unit="user_id",
        control="a",
        period={"start": "2026-09-01", "end": "2026-09-15"},
        variants={"a": {}, "b": {}},
        assignment={
            "splits": [
                {"from": "2026-09-01", "weights": {"a": 0.99, "b": 0.01}},
                {"from": "2026-09-08", "weights": {"a": 0.5, "b": 0.5}},
            ]
        },
        cleaning={"duplicates": "unchecked"},
        logs={"impressions": {}},
        segments={"city": "city"},
        inference={"adjust": "stratify", "stratify_by": "city"},
        metrics=[{"name": "clicks_per_user", "role": "goal"}],
    )
    return {one.name: one for one in loaded.check(logs={"impressions": log}).trust}


LARGE = (EARLY, "paris", 990, 10), (LATE, "paris", 300, 310)


def test_a_small_city_with_one_early_unit_in_the_treatment_is_sound() -> None:
    """It failed at p 3.6e-8, and the verdict was not to trust anything."""
    found = checks(units(*LARGE, (EARLY, "nice", 2, 1)))
    assert (found["srm"].status, found["srm:city"].status) == ("pass", "pass")
    assert found["srm:city"].value > 0.02


def test_a_small_city_whose_control_is_lost_is_found() -> None:
    found = checks(units(*LARGE, (EARLY, "nice", 2, 4), (LATE, "nice", 1, 2)))
    assert found["srm:city"].status == "fail"
    assert "nice" in found["srm:city"].message


def table(control: int, treatment: int) -> Check:
    """The check `srm` of a table with a plan of 99 to 1."""
    variant = ["a"] * control + ["b"] * treatment
    value = np.arange(len(variant)) % 7
    loaded = abeval.define(
        name="table",
        unit="user_id",
        control="a",
        variants={"a": {"weight": 99}, "b": {"weight": 1}},
        logs={"units": {}},
        metrics=[{"name": "m"}],
    )
    frame = pd.DataFrame({"user_id": range(len(variant)), "variant": variant, "m": value})
    return next(c for c in loaded.check(logs={"units": frame}).trust if c.name == "srm")


@pytest.mark.parametrize(("treatment", "status"), [(9, "warn"), (11, "fail")])
def test_a_split_of_few_units_has_its_exact_p_value(treatment: int, status: str) -> None:
    """Of 300 units 9 in the arm of one percent failed at p .0005."""
    found = table(300 - treatment, treatment)
    exact = stats.binomtest(treatment, 300, 0.01).pvalue
    assert (found.status, found.value) == (status, pytest.approx(exact, rel=1e-9))
    assert "exact p = " in found.message
