"""The page over time: it says what the result says, draws it, and can run nothing of a log's."""

import pytest
from typer.testing import CliRunner

import abeval
from abeval.cli.main import app
from abeval.report.page import page_html
from abeval.results.study import study_of
from tests import sample
from tests.report.pages import figures, whole


@pytest.fixture(scope="module")
def result():
    loaded = abeval.load(sample.FILE)
    return loaded.windows(metrics=["ctr", "dwell_p50"], by=["weekday"], looks=[7, 14])


@pytest.fixture(scope="module")
def page(result):
    return whole(page_html(study_of(result)))


def test_every_metric_has_its_windows_and_its_verdict(result, page):
    drawn = [name.partition("-")[::2] for name in figures(page)]
    assert {part for part, metric in drawn if metric == "ctr"} == {
        *("cumulative", "entry", "pvalue", "weekday", "windows")
    }
    assert {part for part, metric in drawn if metric == "dwell-p50"} == {
        *("cumulative", "pvalue", "windows")
    }
    assert page.count('class="check pass">stable') == 1
    assert result["ctr"].reason in page


def test_the_figure_is_the_numbers_of_the_result(result, page):
    drawn = {trace["name"]: trace for trace in figures(page)["cumulative-ctr"]["data"]}
    daily = [
        row.difference
        for row in result.windows
        if (row.metric, row.axis, row.kind) == ("ctr", "calendar", "daily")
    ]
    assert drawn["one day"]["y"] == pytest.approx(daily)
    looks = [look for look in result.looks if look.metric == "ctr"]
    every = figures(page)["cumulative-ctr"]["data"]
    always = [trace for trace in every if trace.get("legendgroup") == "always"]
    assert always[0]["y"] == pytest.approx([look.always_low for look in looks])
    assert always[1]["y"] == pytest.approx([look.always_high for look in looks])


def test_what_each_day_would_have_declared_is_in_words_and_in_a_table(page):
    assert "Checked daily without correction, this looked significant on 2026" in page
    assert "Planned z" in page


def test_replays_are_drawn_where_they_were_run(result, page):
    assert "A/A replays" not in page
    replays = abeval.load(sample.FILE).aa(runs=400, metrics=["ctr"])
    with_replays = figures(page_html(study_of(result, replays)))
    assert with_replays["aa-ctr"]["data"][0]["y"] == list(replays.histograms["ctr"])


def test_no_name_from_the_file_becomes_markup():
    evil = "<img src=x onerror=alert(1)></script>"
    loaded = abeval.load(sample.FILE).replace(name=evil)
    page = whole(page_html(study_of(loaded.windows(metrics=["ctr"]))))
    assert evil not in page
    assert "&lt;img src=x" in page
    assert "script-src 'sha256-" in page.replace("&#39;", "'")


def test_command_line_writes_the_page(tmp_path):
    file = tmp_path / "time.html"
    args = ["windows", str(sample.FILE), "--metric", "ctr", "--report", str(file)]
    run = CliRunner().invoke(app, args)
    assert run.exit_code == 0, run.output
    assert {"cumulative-ctr", "aa-ctr"} <= set(figures(file.read_text(encoding="utf-8")))
