"""The page over time: it says what the result says, draws it, and can run nothing of a log's."""

import math
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import abeval
from abeval.cli.main import app
from abeval.report.page import render_study
from abeval.results.study import build_study
from abeval.results.windows import Novelty
from tests import sample
from tests.report.pages import close, figures, whole


@pytest.fixture(scope="module")
def result():
    loaded = abeval.load(sample.FILE)
    return loaded.windows(metrics=["ctr", "dwell_p50"], by=["weekday"], looks=[7, 14])


@pytest.fixture(scope="module")
def page(result):
    return whole(render_study(build_study(result)))


def traces(page, name):
    """The traces of a figure by name; of several the last."""
    return {trace["name"]: trace for trace in figures(page)[name]["data"]}


def rows_of(result, metric, axis, kind):
    return [r for r in result.windows if (r.metric, r.axis, r.kind) == (metric, axis, kind)]


def test_every_metric_has_its_windows_and_its_verdict(result, page):
    drawn = [name.partition("-")[::2] for name in figures(page)]
    assert {part for part, metric in drawn if metric == "ctr"} == {
        *("cumulative", "entry", "weekday", "windows")
    }
    assert {part for part, metric in drawn if metric == "dwell_p50"} == {"cumulative", "windows"}
    assert page.count('class="check pass">stable') == 1
    assert result["ctr"].reason in page


def test_the_figure_up_to_each_day_is_the_numbers_of_the_result(result, page):
    drawn = traces(page, "cumulative-ctr")
    daily = rows_of(result, "ctr", "calendar", "daily")
    assert drawn["one day"]["y"] == close([100 * row.lift for row in daily])
    rows = rows_of(result, "ctr", "calendar", "cumulative")
    line, band = drawn["treatment"], drawn["treatment, interval"]
    assert line["x"] == [row.end for row in rows]
    assert line["y"] == close([100 * row.lift for row in rows])
    ends = [*(row.lift_low for row in rows), *(row.lift_high for row in reversed(rows))]
    assert band["y"] == close([100 * end for end in ends])


def test_the_band_that_is_valid_at_every_look_is_a_share_of_control(result, page):
    looks = [look for look in result.looks if look.metric == "ctr"]
    control = {r.end: r.control for r in rows_of(result, "ctr", "calendar", "cumulative")}
    every = figures(page)["cumulative-ctr"]["data"]
    low, high = (trace for trace in every if trace["name"] == "treatment, always valid")
    assert low["x"] == high["x"] == [look.day for look in looks]
    for trace, name in ((low, "always_low"), (high, "always_high")):
        ends = [getattr(look, name) for look in looks]
        shares = [
            None if end is None else 100 * end / control[look.day]
            for look, end in zip(looks, ends, strict=True)
        ]
        assert [y is None for y in trace["y"]] == [share is None for share in shares]
        known = [(y, share) for y, share in zip(trace["y"], shares, strict=True) if y is not None]
        assert [y for y, _ in known] == close([share for _, share in known])
    assert "pp [" in low["customdata"][-1]


def test_windows_are_a_line_and_a_band_of_the_longest_length(result, page):
    rows = [row for row in rows_of(result, "ctr", "calendar", "rolling") if row.days == 7]
    drawn = traces(page, "windows-ctr")
    line, band = drawn["treatment"], drawn["treatment, interval"]
    assert len(line["x"]) == len(rows)
    assert line["x"] == [row.end for row in rows]
    assert line["y"] == close([100 * row.lift for row in rows])
    ends = [*(row.lift_low for row in rows), *(row.lift_high for row in reversed(rows))]
    assert band["y"] == close([100 * end for end in ends])
    above = sum(row.lift > 0 for row in rows)
    assert f"Above control in {above} of 8 overlapping windows of 7 days." in page


def test_what_daily_looks_would_have_declared_is_in_words(result, page):
    looks = [look for look in result.looks if look.metric == "ctr"]
    days = [
        next(look.day for look in looks if getattr(look, name) != "unclear")
        for name in ("fixed_declares", "always_declares")
    ]
    bounded = [look for look in looks if look.bound is not None]
    assert [look.day for look in bounded] == ["2026-09-20", "2026-09-27"]
    number = next(n for n, look in enumerate(bounded) if look.planned_declares != "unclear")
    assert (
        f"First significant: {days[0]} if checked daily (not valid), "
        f"{days[1]} with a band valid at every look, {bounded[number].day} at a planned look "
        f"({number + 1} of 2)."
    ) in page
    early = [replace(row, verdict="too_early") for row in result.stability]
    early_page = whole(render_study(build_study(replace(result, stability=(*early,)))))
    assert "Too early to say whether it lasts. First significant: " in early_page


def test_replays_are_drawn_where_they_were_run(result, page):
    assert "A/A replays" not in page
    replays = abeval.load(sample.FILE).aa(runs=400, metrics=["ctr"])
    with_replays = figures(render_study(build_study(result, replays)))
    assert with_replays["aa-ctr"]["data"][0]["y"] == list(replays.histograms["ctr"])


def test_no_name_from_the_file_becomes_markup():
    evil = "<img src=x onerror=alert(1)></script>"
    loaded = abeval.load(sample.FILE).replace(name=evil)
    page = whole(render_study(build_study(loaded.windows(metrics=["ctr"]))))
    assert evil not in page
    assert "&lt;img src=x" in page
    assert "script-src 'sha256-" in page.replace("&#39;", "'")


def test_command_line_writes_the_page(tmp_path):
    file = tmp_path / "time.html"
    args = ["windows", str(sample.FILE), "--metric", "ctr", "--report", str(file)]
    run = CliRunner().invoke(app, args)
    assert run.exit_code == 0, run.output
    assert {"cumulative-ctr", "aa-ctr"} <= set(figures(file.read_text(encoding="utf-8")))


def test_a_decay_since_entry_is_drawn_through_the_days(result):
    rows = tuple(
        replace(row, start=str(age), end=str(age), axis="exposure", kind="daily")
        for age, row in enumerate(rows_of(result, "ctr", "calendar", "daily"))
    )
    fit = Novelty(
        *("ctr", "treatment", "novelty", 0.001, len(rows)),
        **{"scale": "relative", "start": 0.2, "long_run": 0.05, "tau": 2.0},
    )
    shown = whole(render_study(build_study(replace(result, windows=rows, novelty=(fit,)))))
    decay = traces(shown, "entry-ctr")["novelty, fitted"]
    assert decay["x"] == [*range(len(rows))]
    # Of logs: 0.05 + 0.15 exp(-t / 2).
    assert decay["y"][:2] == close([100 * math.expm1(0.2), 100 * math.expm1(0.1409796)])
    assert "Novelty: p 0.001; time constant 2 days." in shown
