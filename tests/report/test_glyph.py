"""Glyphs: one axis for all rows, clipped ends shown, margins on the harmful side."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from abeval.report.effects import definitions, row_mark
from abeval.report.glyph import WIDTH, Axis, Mark, draw, scale, shared_axis
from tests import builders

MARK = Mark(0.02, -0.01, 0.05, "plain", False, "a label")
LIFTS = st.floats(-3, 3)


@given(st.lists(st.tuples(LIFTS, st.floats(0.001, 2)), min_size=1, max_size=8))
def test_glyphs_stay_inside_and_keep_their_order(effects: list[tuple[float, float]]) -> None:
    marks = [Mark(x, x - w, x + w, "plain", True, "") for x, w in effects]
    axis = shared_axis(marks)
    assert axis.limit > 0
    for mark in marks:
        low, point, high = (axis.x(v) for v in (mark.low or 0, mark.lift, mark.high or 0))
        assert 0 <= low <= point <= high <= WIDTH


def test_one_wide_interval_does_not_crush_the_others() -> None:
    wide = replace(MARK, low=-4.0, high=4.0)
    assert shared_axis([MARK, MARK, wide]).limit < 0.25


def test_an_axis_of_nothing_is_an_axis() -> None:
    assert shared_axis([]).limit > 0
    assert shared_axis([Mark(0.0, 0.0, 0.0, "plain", False, "")]).limit > 0


def test_ends_that_go_on_have_arrows() -> None:
    axis = Axis(0.1)
    assert draw(MARK, axis).count('class="arrow"') == 0
    assert draw(replace(MARK, low=None), axis).count('class="arrow"') == 1
    assert draw(replace(MARK, low=None, high=0.4), axis).count('class="arrow"') == 2
    assert 'class="dot"' not in draw(replace(MARK, lift=0.3, low=0.2, high=0.4), axis)


def test_decided_and_open_differ_in_shape_and_not_only_in_colour() -> None:
    assert 'class="glyph plain open"' in draw(MARK, Axis(0.1))
    assert 'class="glyph good decided"' in draw(replace(MARK, decided=True, tone="good"), Axis(0.1))


def test_labels_are_escaped() -> None:
    svg = draw(replace(MARK, label='"><script>'), Axis(0.1))
    assert "<script>" not in svg


def test_the_scale_names_its_ends() -> None:
    assert "\u22122.5%" in scale(Axis(0.025))
    assert "+2.5%" in scale(Axis(0.025))


def test_a_margin_stands_on_the_harmful_side() -> None:
    result = builders.do_not_ship()
    metrics = definitions(result, result.scorecard)
    marks = {row.metric: row_mark(row, metrics[row.metric], "95%") for row in result.scorecard}
    assert marks["sessions_per_user"].margins == (-0.02,)  # type: ignore[union-attr]
    assert marks["latency_ms"].margins == (0.02,)  # type: ignore[union-attr]
    assert marks["ctr"].margins == ()  # type: ignore[union-attr]


def test_an_absolute_margin_is_drawn_as_a_lift() -> None:
    row = builders.SESSIONS
    metric = replace(
        builders.metric("sessions_per_user", role="guardrail"), margin=0.32, margin_relative=False
    )
    mark = row_mark(row, metric, "95%")
    assert mark is not None
    assert [round(lift, 6) for lift in mark.margins] == [-0.1]
