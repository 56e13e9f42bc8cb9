"""What stands beside the scorecard is the same in the terminal and on the page."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import abeval
from abeval.report.analysis_page import group_rows_by_role
from abeval.report.page import render_study
from abeval.report.tables import fit_rows, list_adjustment_tables, list_segment_tables
from abeval.report.terminal import as_text
from abeval.results import format as fmt
from abeval.results.analysis import Result, result_from_dict
from abeval.results.effects import (
    Adjustment,
    Boundary,
    FamilyInterval,
    SegmentContrast,
    SegmentTest,
)
from abeval.results.study import build_study
from tests import builders
from tests.report.pages import whole

ROW = ("ctr", "treatment")


@pytest.fixture
def result() -> Result:
    cuts = ("cap+cuped", 0.0071, 0.003, 0.0112, 0.0004, (0.61, -0.002), 0.237, 20.0, 200.0)
    tested = ("device", 3, "lift", 9.1, 0.01, 0.03, 0.78, 0.02, -0.01, 0.02, 0.2, 0.004, True)
    effects = (0.012, 0.004, 0.02, 0.083, 0.031, 0.138)
    contrast = SegmentContrast(*ROW, "device", "phone", "lift", *effects, 0.003, 0.009)
    return replace(
        builders.result(),
        adjustments=(Adjustment(*ROW, *cuts),),
        boundaries=(Boundary(*ROW, 0.5, 3.21, 2.963, True),),
        family_intervals=(FamilyInterval(*ROW, 0.975, 0.0028, 0.0094),),
        segment_tests=(SegmentTest(*ROW, *tested, cells_left_out=7),),
        segment_contrasts=(contrast, replace(contrast, cell="tablet", p_adjusted=0.4)),
    )


WORDS = (
    "+0.71 pp [+0.30, +1.12]",
    "23.7% of the variance removed; theta 0.61, -0.002; capped at 20.0 over 200",
    "2.96",
    "3 of 10",
    "REVERSES the difference (Simpson)",
    "+8.3% [+3.1%, +13.8%]",
)


def test_numbers_are_said_in_words(result: Result) -> None:
    cells = [
        cell
        for table in (*list_adjustment_tables(result), *list_segment_tables(result))
        for row in table.rows
        for cell in row
    ]
    for word in WORDS:
        assert any(word in cell for cell in cells), word
    assert "phone" in cells
    assert "tablet" not in cells


def test_the_terminal_and_the_page_show_them(result: Result) -> None:
    text, page = as_text(result, 200), whole(render_study(build_study(result)))
    for table in (*list_adjustment_tables(result), *list_segment_tables(result)):
        assert f"{table.title}:" in text
        assert f"<h3>{table.title}</h3>" in page
    for word in ("2.96", "device", "REVERSES the difference"):
        assert word in text
        assert word in page


def test_the_interval_of_the_family_is_on_the_row(result: Result) -> None:
    """It stood in a table of its own, and beside the status stood one that does not decide."""
    shown = as_text(result, 200), render_study(build_study(result)).replace("\u2212", "-")
    for text in shown:
        assert "97.5% interval" in text
        assert "[+0.28, +0.94]" in text
    wide = replace(result.family_intervals[0], lift_low=0.027, lift_high=0.091)
    new = replace(result, family_intervals=(wide,))
    for text in (as_text(new, 200), build_study(new).to_markdown()):
        assert "+5.9% [+2.7%, +9.1%]" in text.replace("\u2212", "-").replace("\\", "")
    assert "lift +5.9%, 97.5% interval from +2.7% to +9.1%" in render_study(
        build_study(new)
    ).replace("\u2212", "-")
    plain = replace(result, family_intervals=(replace(wide, level=0.95),))
    assert "95% interval" not in as_text(plain, 200).partition("Goals")[2]


def test_without_them_nothing_is_shown() -> None:
    assert list_adjustment_tables(builders.result()) == list_segment_tables(builders.result()) == ()


def test_they_survive_the_json(result: Result) -> None:
    assert result_from_dict(json.loads(result.to_json())) == result


@pytest.mark.parametrize("adjust", ["cuped", "regression"])
def test_the_numbers_of_an_adjusted_row_fit_together(adjust: str) -> None:
    """The difference was adjusted and the values beside it were not: 8.85, 9.24 and +.58."""
    loaded = abeval.load("sample_logs/experiment.toml")
    dwell = {"name": "dwell_per_user", "role": "goal"}
    adjusted = loaded.replace(inference={"adjust": adjust}, metrics=[dwell], trust={"aa_runs": 0})
    result = adjusted.analyze()
    row = result["dwell_per_user"]
    assert row.treatment - row.control != pytest.approx(row.difference, rel=0.05)
    control, treatment = fmt.format_pair(row.control, row.control * (1 + row.lift), "s")
    line = next(one for one in as_text(result, 200).splitlines() if "dwell_per_user   " in one)
    assert f"{control}   {treatment} adj   {fmt.format_row_effect(row, 's').text}" in line
    assert "adj: control plus the adjusted difference" in as_text(result, 200)
    *_, (_, (view,)) = group_rows_by_role(result)[0]
    assert (view.control, view.treatment) == (control, f"{treatment} adj")


def test_a_row_that_is_not_adjusted_shows_what_was_observed() -> None:
    result = builders.result()
    assert [one.row for one in fit_rows(result, result.scorecard)] == list(result.scorecard)
    assert " adj" not in as_text(result)
