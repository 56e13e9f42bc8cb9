"""Figures carry the result's numbers and nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import plotly.graph_objects as go
import pytest

from abeval.report import figures as fig
from abeval.report.figures import FigureView, Point, draw_lines, escape_label, frame_points
from abeval.report.time_page import draw_daily_effect
from abeval.results.analysis import MetricInfo
from abeval.results.effects import SliceRow
from tests import builders

CTR = builders.metric()
DAYS = builders.daily("ctr", 0.059)
ORDER = {"control": 0, "treatment": 1, "challenger": 2}


def drawn(metric: MetricInfo, rows: Sequence[SliceRow]) -> go.Figure:
    """The effect by day, with entries that Plotly knows."""
    return go.Figure(draw_daily_effect(metric, rows, ORDER))


def test_lifts_are_drawn_in_per_cent_with_their_intervals() -> None:
    (trace,) = drawn(CTR, DAYS).data
    days = [row for row in DAYS if row.lift is not None]
    assert list(trace.x) == [f"{row.cell}T00:00:00" for row in days]
    for y, up, down, row in zip(
        trace.y, trace.error_y.array, trace.error_y.arrayminus, days, strict=True
    ):
        assert y == pytest.approx(100 * (row.lift or 0))
        assert y + up == pytest.approx(100 * (row.lift_high or 0))
        assert y - down == pytest.approx(100 * (row.lift_low or 0))


def test_partial_days_are_hollow() -> None:
    (trace,) = drawn(CTR, DAYS).data
    days = [row for row in DAYS if row.lift is not None]
    hollow = [symbol.endswith("-open") for symbol in trace.marker.symbol]
    assert hollow == [row.partial for row in days]
    assert 0 < sum(hollow) < len(days)
    assert ["partial day" in said for said in trace.customdata] == hollow


def without_lifts(row: SliceRow) -> SliceRow:
    return replace(row, lift=None, lift_low=None, lift_high=None)


def test_differences_stand_in_where_there_is_no_lift() -> None:
    figure = drawn(CTR, [without_lifts(row) for row in DAYS])
    assert figure.layout.yaxis.title.text == "difference"
    assert figure.layout.yaxis.ticksuffix == " pp"
    known = [row for row in DAYS if row.difference is not None]
    assert figure.data[0].y[0] == pytest.approx(100 * (known[0].difference or 0))


def test_weekends_are_shaded() -> None:
    rectangles = [s for s in drawn(CTR, DAYS).layout.shapes if s.type == "rect"]
    assert [s.x0 for s in rectangles] == ["2022-04-22T12:00:00", "2022-04-23T12:00:00"]


def test_variants_stand_beside_each_other_in_their_own_shapes_and_colours() -> None:
    figure = drawn(CTR, (*DAYS, *builders.daily("ctr", 0.01, "challenger")))
    first, second = figure.data
    symbols = [trace.marker.symbol[0].removesuffix("-open") for trace in (first, second)]
    assert symbols == [fig.choose_symbol(1), fig.choose_symbol(2)]
    assert [trace.marker.color for trace in (first, second)] == [
        fig.choose_colour(1),
        fig.choose_colour(2),
    ]
    assert [trace.error_y.color for trace in (first, second)] == [
        fig.choose_colour(1),
        fig.choose_colour(2),
    ]
    assert first.x[0] < second.x[0]
    assert figure.layout.showlegend is True


def test_a_metric_without_any_effect_is_still_a_figure() -> None:
    rows = [row for row in DAYS if row.lift is None]
    assert drawn(CTR, rows).layout.yaxis.title.text == "difference"


def test_a_day_without_bounds_has_a_point_and_no_bar() -> None:
    figure = drawn(CTR, [replace(DAYS[1], lift_low=None, lift_high=None)])
    assert figure.data[0].error_y.array == (None,)
    assert "[unbounded]" in figure.data[0].customdata[0]


def test_labels_are_escaped_once() -> None:
    assert escape_label("a<b & c>d") == "a&lt;b &amp; c&gt;d"


def points(*reaches: float) -> list[Point]:
    """Points at 1 with intervals of so much to both sides."""
    return [Point(i, 1.0, "said", (1.0, 1.0 - r, 1.0 + r)) for i, r in enumerate(reaches)]


def test_a_frame_holds_intervals_and_zero_and_marks_none() -> None:
    bounds, arrows = frame_points(points(1.0, 2.0, 3.0))
    assert bounds is not None
    assert bounds[0] < -2.0
    assert bounds[1] > 4.0
    assert arrows == []
    above, _ = frame_points([Point(0, 9.0, "said", (9.0, 8.0, 10.0))])
    assert above is not None
    assert above[0] < 0
    assert frame_points([Point(0, 9.0, "said")]) == (None, [])


def test_what_leaves_the_frame_has_an_arrow_where_it_leaves() -> None:
    """One interval of a day with little data does not crush those of all others."""
    bounds, (arrows,) = frame_points(
        [*points(1.0, 1.0, 1.0, 1.0), Point(9, -40.0, "said", (-40, -90, 10))]
    )
    assert bounds is not None
    assert bounds[0] > -12
    assert bounds[1] < 12
    assert arrows["x"] == [9, 9]
    assert arrows["y"] == bounds
    assert arrows["marker"]["symbol"] == ["triangle-down", "triangle-up"]


def test_lines_of_effects_have_a_frame_and_others_have_none() -> None:
    series = {"treatment": points(1.0, 1.0, 1.0, 50.0)}
    plain, effects = (
        draw_lines(series, "day", "lift"),
        draw_lines(series, "day", "lift", is_effect=True),
    )
    assert "range" not in plain["layout"]["yaxis"]
    assert [trace["name"] for trace in plain["data"]] == ["treatment"]
    assert effects["data"][-1]["marker"]["symbol"] == ["triangle-down", "triangle-up"]
    assert effects["layout"]["yaxis"]["zeroline"]


def test_a_band_is_the_interval_of_its_line_in_the_colour_of_its_place() -> None:
    figure = draw_lines({"b": points(1.0, 2.0)}, "", "", order={"a": 1, "b": 2}, shape="band")
    band, line = figure["data"]
    assert (band["x"], band["y"]) == ([0, 1, 1, 0], [0.0, -1.0, 3.0, 2.0])
    assert band["fillcolor"] == fig.fade_colour(fig.choose_colour(2))
    assert line["line"]["color"] == fig.choose_colour(2)
    assert "error_y" not in line


def test_a_page_keeps_four_digits_of_a_figure_and_its_texts_as_they_are() -> None:
    """An exact number in a label, and a name with many digits, stay."""
    figure: dict[str, Any] = {
        "data": [{"y": [0.1234567, -1234.5678912, 12345678, 1.5e-17], "name": "v1.2345678"}],
        "layout": {},
    }
    view = FigureView("", "", figure, ("a",))
    (trace,) = json.loads(str(view.island))["data"]
    assert trace["y"] == [0.1235, -1235.0, 12345678, 1.5e-17]
    assert trace["name"] == "v1.2345678"
