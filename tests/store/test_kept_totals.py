"""Totals as a store keeps them: believed only while they are whole, exact and of the same parts."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abeval.aggregates.buckets import BucketSums
from abeval.store.totals import Totals, read_totals, write_totals
from tests.store.test_change import aggregates, units
from tests.store.test_parts import parts
from tests.store.test_refresh import experiment
from tests.store.test_scheme import parts as entries

EXACT = 2.0**50
"""Whole numbers up to twice the square of this many are doubles; below it there is room to grow."""


def plan() -> Any:
    return experiment(Path()).experiment


def written(folder: Path, **changes: Any) -> Path:
    """The folder of totals of two parts, and their source."""
    totals = Totals(frozenset({"part-1", "part-0"}), aggregates(**changes))
    write_totals(parts(folder), plan(), totals)
    return folder / "totals"


def test_totals_come_back_as_they_were_written(tmp_path: Path) -> None:
    assert read_totals(tmp_path, plan(), "analysis") is None
    for count in (1, 2):
        written(tmp_path, units=units(("a", count, 0)))
        totals = read_totals(tmp_path, plan(), "analysis")
        assert totals is not None
        assert (totals.parts, totals.analysed) == ({"part-0", "part-1"}, count)


def test_totals_say_what_they_are_made_of(tmp_path: Path) -> None:
    folder = written(tmp_path)
    digest = hashlib.sha256((folder / "aggregates.json").read_bytes()).hexdigest()
    assert (folder / "made_of.json").read_text() == (
        '{\n "definition": "analysis",\n "parts": [\n  "part-0",\n  "part-1"\n ],\n'
        f' "aggregates.json": "{digest}"\n}}\n'
    )


@pytest.mark.parametrize("damage", ["definition", "parts", "aggregates.json", "other"])
def test_totals_of_another_analysis_or_of_half_a_run_are_not_believed(
    tmp_path: Path, damage: str
) -> None:
    folder = written(tmp_path)
    if damage == "other":
        assert read_totals(tmp_path, plan(), "another") is None
        return
    file = folder / "made_of.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), damage: 7}))
    assert read_totals(tmp_path, plan(), "analysis") is None


def buckets(*sums: float) -> dict[str, BucketSums]:
    """A metric for each sum."""
    return {
        f"m{i}": BucketSums(np.ones(1), np.array([[1, 2, 3, 4, s]])) for i, s in enumerate(sums)
    }


@pytest.mark.parametrize(
    ("sums", "believed"),
    [
        ([], True),
        ([EXACT - 1], True),
        ([1 - EXACT, 0.0], True),
        ([EXACT], False),
        ([-EXACT], False),
        ([1.0, EXACT], False),
        ([EXACT, 1.0], False),
    ],
)
def test_sums_of_sub_buckets_that_may_lose_digits_are_not_carried_on(
    tmp_path: Path, sums: list[float], believed: bool
) -> None:
    written(tmp_path, buckets=buckets(*sums))
    assert (read_totals(tmp_path, plan(), "analysis") is not None) == believed


def test_totals_hold_while_each_of_their_parts_is_there_once() -> None:
    three = entries(5, 5, 5)
    totals = Totals(frozenset({"part-0", "part-1"}), aggregates())
    assert totals.hold_for(three)
    assert totals.hold_for(three[:2])
    assert not totals.hold_for(three[1:])
    assert not totals.hold_for([*three, three[2]])
    assert [entry.file for entry in totals.old(three)] == ["part-0", "part-1"]
