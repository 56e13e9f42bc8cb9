"""Figures carry the result's numbers and nothing else."""

from __future__ import annotations

from dataclasses import replace

import plotly.graph_objects as go
import pytest

from abeval.report.daily_page import daily_effect
from abeval.report.figures import label
from abeval.results import SliceRow
from tests import builders

CTR = builders.metric()
DAYS = builders.daily("ctr", 0.059)


def drawn(*of) -> go.Figure:
    """The effect by day, with entries that Plotly knows."""
    return go.Figure(daily_effect(*of))


def test_lifts_are_drawn_in_per_cent_with_their_intervals() -> None:
    full, partial = drawn(CTR, DAYS).data
    days = [row for row in DAYS if row.lift is not None and not row.partial]
    assert list(full.x) == [f"{row.cell}T00:00:00" for row in days]
    for y, up, down, row in zip(
        full.y, full.error_y.array, full.error_y.arrayminus, days, strict=True
    ):
        assert y == pytest.approx(100 * (row.lift or 0))
        assert y + up == pytest.approx(100 * (row.lift_high or 0))
        assert y - down == pytest.approx(100 * (row.lift_low or 0))
    assert len(partial.y) == 1


def test_partial_days_are_hollow_and_do_not_set_the_range() -> None:
    full, partial = drawn(CTR, DAYS).data
    assert (full.marker.symbol, partial.marker.symbol) == ("circle", "circle-open")
    assert (full.showlegend, partial.showlegend) == (True, False)
    widest = max(100 * (row.lift_high or 0) for row in DAYS)
    assert drawn(CTR, DAYS).layout.yaxis.range[1] < widest


def without_lifts(row: SliceRow) -> SliceRow:
    return replace(row, lift=None, lift_low=None, lift_high=None)


def test_differences_stand_in_where_there_is_no_lift() -> None:
    figure = drawn(CTR, [without_lifts(row) for row in DAYS])
    assert figure.layout.yaxis.title.text == "difference"
    assert figure.layout.yaxis.ticksuffix == " pp"
    assert figure.data[0].y[0] == pytest.approx(100 * (DAYS[1].difference or 0))


def test_weekends_are_shaded_and_the_whole_period_is_drawn() -> None:
    figure = drawn(CTR, DAYS, [builders.row()])
    rectangles = [s for s in figure.layout.shapes if s.type == "rect"]
    (line,) = [s for s in figure.layout.shapes if s.type == "line"]
    assert [s.x0 for s in rectangles] == ["2022-04-22T12:00:00", "2022-04-23T12:00:00"]
    assert line.y0 == pytest.approx(5.9)


def test_variants_stand_beside_each_other_in_their_own_shapes() -> None:
    rows = (*DAYS, *builders.daily("ctr", 0.01, "challenger"))
    figure = drawn(CTR, rows, [builders.row(), builders.row(variant="challenger")])
    first, _, second, _ = figure.data
    assert first.marker.symbol != second.marker.symbol
    assert first.x[0] < second.x[0]
    assert figure.layout.showlegend is True


def test_a_metric_without_any_effect_is_still_a_figure() -> None:
    rows = [row for row in DAYS if row.lift is None]
    assert drawn(CTR, rows).layout.yaxis.title.text == "difference"


def test_a_day_without_bounds_has_a_point_and_no_bar() -> None:
    (trace,) = drawn(CTR, [replace(DAYS[1], lift_low=None, lift_high=None)]).data
    assert trace.error_y.array == (None,)
    assert "[unbounded]" in trace.customdata[0]


def test_labels_are_escaped_once() -> None:
    assert label("a<b & c>d") == "a&lt;b &amp; c&gt;d"
