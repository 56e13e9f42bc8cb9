"""Which sums a store carries on: totals where few units have new rows, otherwise closed days."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from abeval.experiment.metrics import named_metrics
from abeval.store import scheme
from abeval.store.manifest import Entry, Input
from abeval.store.scheme import has_totals, prefers_totals, replays_add_up
from abeval.store.totals import Totals
from tests.store.test_change import aggregates, units
from tests.store.test_refresh import experiment

REPLAYED = 40_960
"""Ten units for each of 4,096 sub-buckets: so many are replayed by sub-bucket."""


def plan(folder: Path, **entries: Any) -> Any:
    return experiment(folder, **entries).experiment


@pytest.mark.parametrize(
    ("entries", "has"),
    [
        ({}, True),
        ({"metrics": []}, True),
        ({"metrics": ["ctr", {"name": "clicks_per_user", "cap": 0.9}]}, False),
        ({"metrics": [{"name": "clicks_per_user", "cap": 0.9}]}, False),
        ({"logs": {"impressions": {"path": "i.parquet"}, "exposures": {"path": "e"}}}, False),
    ],
)
def test_sums_over_units_have_no_caps_and_no_exposures(
    tmp_path: Path, entries: dict[str, Any], has: bool
) -> None:
    loaded = plan(tmp_path, **{"metrics": ["ctr"], **entries})
    metrics = named_metrics(loaded) if entries.get("metrics", True) else []
    assert has_totals(loaded, metrics) == has


@pytest.mark.parametrize(
    ("aa_runs", "analysed", "add_up"),
    [(0, 0, True), (1, REPLAYED - 1, False), (1, REPLAYED, True), (200, REPLAYED - 1, False)],
)
def test_replays_add_up_if_there_are_none_or_sub_buckets_are_full(
    tmp_path: Path, aa_runs: int, analysed: int, add_up: bool
) -> None:
    assert replays_add_up(plan(tmp_path, trust={"aa_runs": aa_runs}), analysed) == add_up


def totals(count: int, analysed: int = 2 * REPLAYED) -> Totals:
    return Totals(frozenset(), aggregates(facts={"units": count}, units=units(("a", analysed, 0))))


def parts(*rows: int) -> list[Entry]:
    """Parts of so many rows."""
    source = Input(9, 7, "f0")
    return [Entry(source, "d0", (), f"part-{i}", "s0", (), False, n) for i, n in enumerate(rows)]


@pytest.fixture
def prefers(tmp_path: Path) -> Any:
    """Whether totals of so many units are carried on."""

    def judged(count: int, rows: list[Entry], more: int = 1, aa_runs: int = 0, **keys: int) -> bool:
        loaded = plan(tmp_path, trust={"aa_runs": aa_runs})
        return prefers_totals(loaded, totals(count, **keys), rows, more)

    return judged


def test_totals_need_20_000_units(prefers: Any) -> None:
    assert prefers(20_000, parts(30, 30))
    assert not prefers(19_999, parts(30, 30))


def test_totals_need_parts(prefers: Any) -> None:
    assert not prefers(20_000, [])


def test_totals_need_full_sub_buckets_even_if_half_of_the_units_leave(prefers: Any) -> None:
    assert prefers(REPLAYED, parts(30), aa_runs=1, analysed=2 * REPLAYED)
    assert not prefers(REPLAYED, parts(30), aa_runs=1, analysed=2 * REPLAYED - 1)
    assert prefers(REPLAYED, parts(30), aa_runs=0, analysed=0)


def test_totals_are_cheaper_while_the_rows_of_units_with_new_rows_are_fewer_than_units(
    prefers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheme, "FEWEST_UNITS", 0)
    # A part of 100 rows touches 100 units, which have 400 / units rows each.
    four = parts(50, 150, 80, 120)
    assert not prefers(200, four)
    assert prefers(201, four)
    # Three of them touch 300 units.
    assert not prefers(346, four, more=3)
    assert prefers(347, four, more=3)
    # No more units are touched than there are, and all have 400 rows.
    assert not prefers(400, four, more=9)
    assert prefers(401, four, more=9)


def test_analysed_units_are_those_of_all_variants() -> None:
    both = aggregates(facts={"units": 9}, units=units(("a", 3, 0), ("b", 4, 1)))
    assert Totals(frozenset(), both).analysed == 7
    assert Totals(frozenset(), both).units == 9
