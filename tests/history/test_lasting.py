"""What is left of an effect weeks after entry, learned from past experiments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest

import abeval
from abeval.history.entries import build_rows
from abeval.history.lasting import estimate_lasting, find_kept
from abeval.history.measures import build_measures
from abeval.history.programme import Kept, describe_programme
from abeval.history.table import edit_rows
from abeval.report.terminal import as_text
from abeval.results.history import HistoryRow, Lasting
from abeval.results.windows import TimeResult
from tests.worlds.launches import (
    Quarter,
    build_holdout,
    build_week_rows,
    draw_quarter,
)
from tests.worlds.launches import (
    build_rows as build_test_rows,
)

WORN = draw_quarter(Quarter(spread=2.0, kept=0.75), np.random.default_rng(4))


def lasting(rows: list[HistoryRow], weeks: list[HistoryRow]) -> list[Lasting]:
    measure = build_measures(rows).select_side("online")[0]
    return [*estimate_lasting(measure, [*rows, *weeks], 0.05)]


def test_what_wears_off_is_found_through_noise_that_both_weeks_share() -> None:
    rows, weeks = build_test_rows(WORN), build_week_rows(WORN)
    (row,) = lasting(rows, weeks)
    # A second week of .75 and a first one of 1.25.
    assert row.low < 0.6 < row.high
    assert row.supported
    assert row.experiments == len(WORN.seen)
    # As if the errors were independent, more seems to be left.
    apart = [replace(week, covariance=0.0) for week in weeks]
    assert lasting(rows, apart)[0].low > row.low + 0.1


def test_a_test_measures_the_mean_of_its_weeks() -> None:
    rows = [Lasting("ctr", 2, 20, 0.6, 0.4, 0.8, supported=True)]
    value, sd = find_kept(rows, 0.05).after(14)
    assert value == pytest.approx(0.6 / 0.8)
    assert sd == pytest.approx(0.4 / (2 * 1.96) / 0.8, rel=0.001)


def test_what_is_left_depends_on_the_length_of_the_test() -> None:
    rows = [
        Lasting("ctr", week, 20, left, left - 0.1, left + 0.1, supported=True)
        for week, left in ((2, 0.8), (3, 0.6), (4, 0.4))
    ]
    kept = find_kept(rows, 0.05)
    left = {days: kept.after(days)[0] for days in (3, 7, 14, 28, 56, None)}
    # After the last week that is supported, effects are taken to stay.
    assert left == pytest.approx(
        {3: 0.4, 7: 0.4, 14: 0.4 / 0.9, 28: 0.4 / 0.7, 56: 0.4 / 0.55, None: 0.4 / 0.7}
    )


def test_what_is_not_supported_is_taken_to_last() -> None:
    unclear = Lasting("ctr", 2, 20, 0.6, 0.4, 0.8, supported=False)
    assert find_kept([unclear], 0.05) == Kept()
    unbounded = Lasting("ctr", 2, 20, 0.6, None, 0.8, supported=True)
    assert find_kept([unbounded], 0.05) == Kept()


def test_four_experiments_say_nothing() -> None:
    rows, weeks = build_test_rows(WORN)[:4], build_week_rows(WORN)[:8]
    (row,) = lasting(rows, weeks)
    assert (row.kept, row.reason, row.supported) == (None, "too_few_units", False)


def test_noise_alone_supports_no_surrogate() -> None:
    none = draw_quarter(Quarter(spread=1e-6), np.random.default_rng(0))
    few = none._replace(weeks=none.weeks[:40])
    (row,) = lasting(build_test_rows(none)[:40], build_week_rows(few))
    assert not row.supported


def test_effects_by_week_go_into_a_history_and_not_among_its_effects(tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    with edit_rows(path) as rows:
        rows += build_test_rows(WORN) + build_week_rows(WORN)
    report = abeval.History(path).report()
    assert len(report.effects) == len(WORN.seen)
    assert [row.week for row in report.lasting] == [2]
    assert "Effects that last" in as_text(report)


def test_windows_are_added_with_their_covariances() -> None:
    loaded = abeval.load("sample_logs/experiment.toml")
    result = loaded.windows(metrics=["ctr"])
    assert isinstance(result, TimeResult)
    assert [week.week for week in result.weeks] == [1]
    rows = build_rows(result, None)
    assert [(row.source, row.week) for row in rows] == [("windows", 1)]
    assert rows[0].covariance == pytest.approx(rows[0].se ** 2)
    assert result.weeks[0].scale == "relative"


@pytest.mark.parametrize("ending", ["parquet", "duckdb"])
def test_a_history_of_an_older_version_has_no_weeks(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"h.{ending}"
    with edit_rows(path) as rows:
        rows += build_test_rows(WORN)[:6]
    before = abeval.History(path).rows()
    if ending == "duckdb":
        with duckdb.connect(str(path)) as connection:
            connection.execute("alter table abeval_history drop column week")
            connection.execute("alter table abeval_history drop column covariance")
    else:
        frame = duckdb.sql(f"select * exclude (week, covariance) from '{path}'").df()
        duckdb.sql(f"copy (select * from frame) to '{path}' (format parquet)")
        assert len(frame) == 6
    assert abeval.History(path).rows() == before


def test_a_programme_takes_off_what_wears_off() -> None:
    rows, weeks = build_test_rows(WORN), build_week_rows(WORN)
    measure = build_measures(rows).select_side("online")[0]
    holdout = build_holdout(WORN.true, 0.01)
    kept = find_kept(lasting(rows, weeks), 0.05)
    worn, _, _ = describe_programme(measure, rows, holdout, kept, 0.05)
    lasts, _, _ = describe_programme(measure, rows, holdout, Kept(), 0.05)
    assert (worn.wear_off < 0, lasts.wear_off) == (True, 0)
    assert worn.expected < lasts.expected
