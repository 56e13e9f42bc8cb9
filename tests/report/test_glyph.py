"""Glyphs: one axis for all rows, clipped ends shown, margins on the harmful side."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abeval.report.analysis_page import make_row_mark
from abeval.report.assets import fill_macro
from abeval.report.glyph import Axis, Mark, choose_mark_axis, draw_sparkline
from abeval.report.tables import fit_rows
from abeval.results.analysis import Result
from abeval.results.effects import FamilyInterval
from tests import builders

MARK = Mark(0.02, -0.01, 0.05, "a label")
AXIS = Axis(-0.1, 0.1)
LIFTS = st.floats(-0.9, 3)


def draw(mark: Mark, axis: Axis) -> str:
    return fill_macro("glyph.html", "draw", mark, axis)


def marks_of(result: Result) -> dict[str, Mark]:
    """The mark of each metric of the scorecard that has a lift."""
    rows = fit_rows(result, result.scorecard)
    marks = {
        row.metric: make_row_mark(result.experiment, row, shown)
        for row, shown in zip(result.scorecard, rows, strict=True)
    }
    return {name: mark for name, mark in marks.items() if mark}


def places(svg: str, name: str) -> list[float]:
    """Both ends of the only line of a class, in per cent of the width."""
    (ends,) = re.findall(rf'class="{name}" x1="([\d.]+)%" x2="([\d.]+)%"', svg)
    return [float(end) for end in ends]


def header(axis: Axis, marks: Sequence[Mark | None]) -> str:
    return fill_macro("glyph.html", "header", axis, [{"mark": mark} for mark in marks])


@given(st.lists(st.tuples(LIFTS, st.floats(0.001, 2)), min_size=1, max_size=8))
def test_glyphs_stay_inside_and_keep_their_order(effects: list[tuple[float, float]]) -> None:
    marks = [Mark(x, x - w, x + w, "", decided=True) for x, w in effects]
    axis = choose_mark_axis(marks)
    assert axis.low < 0 < axis.high
    for mark in marks:
        low, point, high = (axis.x(v) for v in (mark.low or 0, mark.lift, mark.high or 0))
        assert 0 <= low <= point <= high <= 100


def test_equal_ratios_are_equal_steps() -> None:
    """A lift of +100% is as far from zero as one of -50%."""
    axis = Axis(-0.75, 3.0)
    assert axis.x(1.0) - axis.x(0.0) == pytest.approx(axis.x(0.0) - axis.x(-0.5))


def test_one_wide_interval_does_not_crush_the_others() -> None:
    wide = MARK._replace(low=-0.9, high=4.0)
    axis = choose_mark_axis([MARK, MARK, wide])
    assert axis.low > -0.25
    assert axis.high < 0.25
    assert draw(wide, axis).count('class="arrow"') == 2
    assert 'class="arrow"' not in draw(MARK, axis)


def test_an_axis_of_nothing_is_an_axis() -> None:
    for marks in ([], [Mark(0.0, 0.0, 0.0, "")]):
        axis = choose_mark_axis(marks)
        assert axis.low < 0 < axis.high


def test_ends_that_go_on_have_arrows() -> None:
    assert draw(MARK, AXIS).count('class="arrow"') == 0
    assert draw(MARK._replace(low=None), AXIS).count('class="arrow"') == 1
    assert draw(MARK._replace(low=None, high=0.4), AXIS).count('class="arrow"') == 2
    assert draw(MARK._replace(widest=(-0.05, 0.4)), AXIS).count('class="arrow"') == 1
    assert 'class="dot"' not in draw(MARK._replace(lift=0.3, low=0.2, high=0.4), AXIS)


def test_decided_and_open_differ_in_shape_and_the_colour_is_the_variants() -> None:
    assert 'class="glyph v1 open"' in draw(MARK, AXIS)
    assert 'class="glyph v3 decided"' in draw(MARK._replace(decided=True, place=3), AXIS)


def test_the_interval_has_its_half_inside_and_the_adjusted_one_around() -> None:
    """Half of the probability of a normal estimate is within 0.6745 / 1.96 of its interval."""
    svg = draw(MARK._replace(widest=(-0.03, 0.07)), AXIS)
    assert places(svg, "bar") == [round(AXIS.x(end), 1) for end in (-0.01, 0.05)]
    assert places(svg, "whisker") == [round(AXIS.x(end), 1) for end in (-0.03, 0.07)]
    half = [0.02 + side * 0.03 * 0.67449 / 1.95996 for side in (-1, 1)]
    assert places(svg, "half") == [round(AXIS.x(end), 1) for end in half]
    assert "whisker" not in draw(MARK, AXIS)
    # At another level the half is the same, and a larger part of the interval.
    loose = draw(MARK._replace(alpha=0.2), AXIS)
    half = [0.02 + side * 0.03 * 0.67449 / 1.28155 for side in (-1, 1)]
    assert places(loose, "half") == [round(AXIS.x(end), 1) for end in half]


def test_the_detectable_lift_is_ticked_on_both_sides() -> None:
    assert draw(MARK._replace(detectable=0.03), AXIS).count('class="detectable"') == 2
    assert draw(MARK._replace(detectable=0.3), AXIS).count('class="detectable"') == 0
    assert draw(MARK, AXIS).count('class="detectable"') == 0


def test_labels_are_escaped() -> None:
    svg = draw(MARK._replace(label='"><script>'), AXIS)
    assert "<script>" not in svg


def test_the_scale_names_round_lifts_and_zero() -> None:
    labels = re.findall(r">([^<>]+)</text>", header(Axis(-0.025, 0.025), [MARK]))
    assert labels == ["\u22121%", "0", "+1%"]


@given(st.floats(-0.9, -0.001), st.floats(0.001, 5))
def test_ticks_are_inside_and_stand_apart(low: float, high: float) -> None:
    axis = Axis(low, high)
    lifts = axis.ticks
    assert 0.0 in lifts
    assert all(low <= lift <= high for lift in lifts)
    spots = [axis.x(lift) for lift in lifts]
    assert all(b - a >= 13 for a, b in pairwise(spots))


def test_a_column_without_lifts_has_a_header_that_is_read_aloud_and_no_scale() -> None:
    svg = header(choose_mark_axis([None]), [None])
    assert "Interval, drawn" in svg
    assert "<svg" not in svg


def test_a_margin_stands_on_the_harmful_side() -> None:
    marks = marks_of(builders.do_not_ship())
    assert marks["sessions_per_user"].harm == (-0.02, None)
    assert marks["latency_ms"].harm == (None, 0.02)
    assert marks["ctr"].harm == (None, None)
    for name, side in (("sessions_per_user", -1), ("latency_ms", 1)):
        svg = draw(marks[name], AXIS)
        (zone,) = re.findall(r'class="harm" x="([\d.]+)%" width="([\d.]+)%"', svg)
        left, right = float(zone[0]), float(zone[0]) + float(zone[1])
        border = left if side > 0 else right
        assert border == pytest.approx(AXIS.x(side * 0.02), abs=0.11)
        assert (right if side > 0 else 100 - left) > 97


def test_an_absolute_margin_is_drawn_as_a_lift() -> None:
    metric = replace(
        builders.metric("sessions_per_user", role="guardrail"), margin=0.32, margin_relative=False
    )
    row, result = builders.SESSIONS, builders.result()
    (shown,) = fit_rows(result, [row])
    mark = make_row_mark(result.experiment, row, shown._replace(metric=metric))
    assert mark is not None
    assert mark.harm == (pytest.approx(-0.1), None)


def test_the_adjusted_interval_is_drawn_where_it_decides() -> None:
    wide = FamilyInterval("ctr", "treatment", 0.975, 0.0028, 0.0094, 0.027, 0.091)
    result = builders.result()
    mark = marks_of(replace(result, family_intervals=(wide,)))["ctr"]
    row = result["ctr"]
    assert (mark.low, mark.high) == (row.lift_low, row.lift_high)
    assert mark.widest == (0.027, 0.091)
    assert "97.5% interval from +2.7% to +9.1%" in mark.label
    assert marks_of(result)["ctr"].widest is None


def test_a_sparkline_is_a_line_in_its_band_over_zero() -> None:
    values = [(0.01, -0.03, 0.05), (0.02, 0.0, 0.04), (0.02, 0.01, 0.03)]
    svg = draw_sparkline(values, 2, "ctr <b>")
    assert 'class="spark v2"' in svg
    assert "<b>" not in svg
    (line,) = re.findall(r'<polyline points="([^"]+)"', svg)
    (band,) = re.findall(r'<polygon points="([^"]+)"', svg)
    across = [float(point.split(",")[0]) for point in line.split()]
    assert across == [0, 50, 100]
    # Down the page is down the axis: -3% at the bottom, 28, and +5% at the top, 0.
    heights = [float(point.split(",")[1]) for point in line.split()]
    assert heights == pytest.approx([28 * (0.05 - v) / 0.08 for v, _, _ in values], abs=0.05)
    ends = [float(point.split(",")[1]) for point in band.split()]
    lows, highs = ends[:3], ends[:2:-1]
    assert lows == pytest.approx([28 * (0.05 - low) / 0.08 for _, low, _ in values], abs=0.05)
    assert highs == pytest.approx([28 * (0.05 - high) / 0.08 for _, _, high in values], abs=0.05)
    (zero,) = re.findall(r'class="zero" x1="0" x2="100" y1="([\d.]+)"', svg)
    assert float(zero) == pytest.approx(28 * 0.05 / 0.08, abs=0.05)
