"""Tables of aggregates as files: they come back as they were, and leave other files alone."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from abeval.aggregates.aggregates import BucketSums
from abeval.aggregates.kernels.reach import Reach
from abeval.errors import AbevalError, ExperimentError
from abeval.store.saved import check_savable, definition, read_aggregates, save_aggregates
from tests.store.small import accounts, aggregates, days, moments, plan, units

BUCKETS = {
    "own": BucketSums(np.array([3.0, 0.0]), np.arange(10.0).reshape(2, 5)),
    "ctr": BucketSums(np.ones(2), np.full((2, 5), 0.1), np.array([[1.0, 2.0, 0.0], [3.0, 4.0, 1]])),
    "a": BucketSums(np.ones(1), np.full((1, 5), 1e300)),
}
REACH = Reach(
    variants=("a", "b"),
    items=("5", "6"),
    variant=np.array([0, 1, 1]),
    item=np.array([0, 0, 1]),
    item_group=np.array([0, 0, 1]),
    units=np.array([4, 3, 5]),
    impressions=np.array([7, 6, 8]),
)


def test_tables_and_sub_buckets_come_back(tmp_path: Path) -> None:
    saved = aggregates(
        moments=moments(("ctr", "b", 9, 2**200), ("ctr", "a", 5, -3)),
        units=units(("b", 11, 4), ("a", 1, 0)),
        accounts=accounts(("impressions", "used", 5)),
        days=days(("2024-03-01", 5, 5, 50, 100, 190)),
        reach=REACH,
        buckets=BUCKETS,
    )
    save_aggregates(tmp_path, plan(), saved)
    read = read_aggregates(tmp_path, plan())
    for name in ("moments", "units", "accounts", "days"):
        assert [*getattr(read, name)] == getattr(saved, name)
    assert [*read.buckets] == [*BUCKETS]
    for metric, sums in read.buckets.items():
        for name in ("units", "sums", "before"):
            np.testing.assert_array_equal(getattr(sums, name), getattr(BUCKETS[metric], name))
    for mine, theirs in zip(read.reach[:2], REACH[:2], strict=True):
        assert [*mine] == [*theirs]
    for mine, theirs in zip(read.reach[2:], REACH[2:], strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_aggregates_without_sub_buckets_come_back(tmp_path: Path) -> None:
    save_aggregates(tmp_path, plan(), aggregates())
    assert read_aggregates(tmp_path, plan()).buckets == {}


def test_tables_that_no_longer_count_go_and_other_files_stay(tmp_path: Path) -> None:
    others = {"notes.txt", f"moments-{'0' * 31}.parquet", f"sums-{'0' * 32}.parquet"}
    for name in (*others, f"moments-{'0' * 32}.parquet"):
        (tmp_path / name).touch()
    for count in (1, 2):
        save_aggregates(tmp_path, plan(), aggregates(units=units(("a", count, 0))))
    names = {path.name for path in tmp_path.iterdir()}
    assert others < names
    tables = {name.rpartition("-")[0] for name in names - others} - {""}
    assert tables == {"moments", "units", "accounts", "days", "entered", "buckets"}
    assert len(names - others) == 1 + len(tables)


def test_a_table_that_is_removed_meanwhile_stops_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed, gone = Path.iterdir, f"moments-{'0' * 32}.parquet"
    monkeypatch.setattr(Path, "iterdir", lambda path: [*listed(path), path / gone])
    save_aggregates(tmp_path, plan(), aggregates())
    assert (tmp_path / "aggregates.json").exists()


def test_a_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    folder = tmp_path / "of" / "today"
    for _ in range(2):
        check_savable(folder)
    assert [*folder.iterdir()] == []
    (tmp_path / "file").touch()
    with pytest.raises(ExperimentError, match="cannot be created"):
        check_savable(tmp_path / "file" / "today")


@pytest.mark.parametrize(
    ("entries", "others", "equal"),
    [
        ({"trust": {"aa_runs": 1}}, {"trust": {"aa_runs": 200}}, True),
        ({"trust": {"aa_runs": 1}}, {"trust": {"aa_runs": 0}}, False),
        ({"alpha": 0.01}, {}, True),
        ({"control": "b"}, {}, True),
        ({"engine": {"threads": 2}}, {}, True),
        ({"timezone": "Asia/Tokyo"}, {}, False),
        ({"logs": {"impressions": {"path": "other/*.parquet"}}}, {}, True),
        ({"logs": {"impressions": {"table": "seen"}}}, {}, True),
        ({"logs": {"impressions": {"path": "log/*.parquet", "where": "click"}}}, {}, False),
        (
            {"logs": {"impressions": {"path": "i"}, "events": {"orders": {"path": "here"}}}},
            {"logs": {"impressions": {"path": "j"}, "events": {"orders": {"path": "there"}}}},
            True,
        ),
        ({"metrics": ["ctr"]}, {}, False),
        ({"metrics": ["ctr"]}, {"metrics": [{"name": "ctr", "role": "goal"}]}, True),
        ({"metrics": ["ctr"]}, {"metrics": [{"name": "ctr", "cap": 0.9}]}, False),
    ],
)
def test_aggregates_depend_on_what_they_are_sums_of(
    entries: dict[str, Any], others: dict[str, Any], equal: bool
) -> None:
    assert (definition(plan(**entries)) == definition(plan(**others))) == equal


class FullDisk:
    """A connection that writes nothing."""

    def register(self, *_: object) -> None:
        """Take a frame."""

    def execute(self, _: str) -> None:
        raise duckdb.IOException("no space left on device")


def test_a_table_that_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb, "connect", lambda: nullcontext(FullDisk()))
    with pytest.raises(AbevalError, match="no space left on device"):
        save_aggregates(tmp_path, plan(), aggregates())
    assert not [*tmp_path.iterdir()]
