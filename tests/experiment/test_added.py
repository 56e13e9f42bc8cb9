"""Metrics from outside the package: in notebooks and by entry points of other packages."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import duckdb
import pytest

import abeval
from abeval import plugins
from abeval.api import LoadedExperiment
from abeval.cli.main import main
from abeval.experiment import added
from abeval.metrics import builtin
from abeval.stats.moments import Moments
from abeval.stats.records import Estimate

SAMPLE = Path(__file__).parents[2] / "sample_logs"

CLICKED_REQUESTS = """
select unit_id, in_period, day, count(distinct request_id) as c_requests, count(*) as c_clicks
from metric_rows
where click = 1
group by unit_id, in_period, day
"""


@pytest.fixture(autouse=True)
def nothing_added() -> Iterator[None]:
    """Forget what a test adds."""
    yield
    builtin.ADDED.clear()
    added._TESTS.clear()
    builtin.read_entry_points.cache_clear()


def sample(*metrics: str | dict[str, Any], **entries: object) -> LoadedExperiment:
    """The sample experiment with these metrics."""
    raw = tomllib.loads((SAMPLE / "experiment.toml").read_text())
    chosen = [{"name": m} if isinstance(m, str) else m for m in metrics]
    return abeval.define(SAMPLE, **{**raw, "metrics": chosen, **entries})


def add_clicked_requests(name: str = "clicked_requests", **more: Any) -> None:
    keys = {"value": "c_requests", "reads": ["request_id", "click"], "query": CLICKED_REQUESTS}
    abeval.add_metric(name, **{**keys, **more})


def test_a_sum_of_expressions_is_what_the_same_metric_of_a_file_is():
    text = "case when position > 5 then click else 0 end"
    below = "case when position > 5 then 1 else 0 end"
    abeval.add_metric("late_ctr", value=text, per=below, unit="share", formula="CTR below 5")
    file_metric = {"name": "own_ctr", "numerator": text, "denominator": below, "unit": "share"}
    result = sample("late_ctr", file_metric).analyze()
    added, own = result["late_ctr"], result["own_ctr"]
    assert added.control > 0
    assert (added.control, added.lift, added.p_value) == (own.control, own.lift, own.p_value)
    assert (result.metrics[0].formula, result.metrics[0].unit) == ("CTR below 5", "share")


@pytest.mark.whole
def test_a_query_gives_what_the_built_in_metric_of_the_same_query_gives():
    text = """
    with requests as (
      select unit_id, in_period, request_id, min(day) as day
      from metric_rows where request_id is not null group by unit_id, in_period, request_id
    )
    select unit_id, in_period, day, count(*) as c_views from requests
    group by unit_id, in_period, day;
    """
    abeval.add_metric("views", value="c_views", reads=["request_id"], query=text)
    loaded = sample("views", "page_views_per_user")
    result = loaded.analyze()
    added, own = result["views"], result["page_views_per_user"]
    assert added.control > 1
    assert (added.control, added.lift_low, added.p_value) == (
        own.control,
        own.lift_low,
        own.p_value,
    )
    effects = loaded.windows().windows
    windows = [
        {(w.axis, w.kind, w.start, w.p_value) for w in effects if w.metric == name}
        for name in ("views", "page_views_per_user")
    ]
    assert windows[0] == windows[1] != set()
    replays = loaded.aa(runs=20)
    assert replays.refused == {}
    views, page_views = replays.metrics
    assert (views.runs, views.rejection_rate) == (page_views.runs, page_views.rejection_rate)


def test_a_query_reads_texts_scores_and_the_columns_of_the_log_as_they_are_logged():
    abeval.add_metric(
        "news_on_phones",
        value="c_rows",
        per="c_all",
        reads=["category", "Device", "item_id", "score", "dwell_ms", "time_ms"],
        query="""
            select unit_id, in_period,
                sum(case when category = 'news' and device = 'phone' and score > 0.1
                    and item_id < 1000 and dwell_ms >= 0 and time_ms > 0 then 1 else 0 end)
                    as c_rows,
                count(*) as c_all
            from metric_rows group by unit_id, in_period
        """,
        scale=0.5,
    )
    condition = (
        "case when category = 'news' and device = 'phone' and score > 0.1 and item_id < 1000 "
        "and dwell_ms >= 0 then 0.5 else 0 end"
    )
    file_metric = {"name": "own", "numerator": condition, "denominator": "1"}
    loaded = sample("news_on_phones", file_metric)
    result = loaded.analyze()
    added, own = result["news_on_phones"], result["own"]
    assert added.control > 0
    assert added.control == pytest.approx(own.control)
    assert added.p_value == pytest.approx(own.p_value)
    assert loaded.windows().refused["news_on_phones"] == "its query has no column day"


@pytest.mark.whole
def test_a_metric_of_a_script_is_a_row_of_the_trust_checks_and_of_the_page(tmp_path):
    add_clicked_requests()
    study = sample({"name": "clicked_requests", "role": "guardrail", "margin": 0.05}).study()
    assert study.analysis["clicked_requests"].role == "guardrail"
    queries = dict(study.provenance.queries)
    assert queries["added/clicked_requests"] == CLICKED_REQUESTS.strip()
    clicks = next(c for c in study.analysis.trust if c.name == "clicks_set_aside")
    assert clicks.metrics == ("clicked_requests",)
    assert "Σ c_requests / units" in study.report(tmp_path / "page.html").read_text()


@pytest.mark.whole
def test_its_sql_is_the_query_of_the_script(tmp_path, monkeypatch, capsys):
    add_clicked_requests("clicks_per_request", value="c_clicks", per="c_requests")
    monkeypatch.setattr(
        "sys.argv", ["abeval", "tools", "sql", "experiment.toml", "clicks_per_request"]
    )
    monkeypatch.chdir(SAMPLE)
    with pytest.raises(SystemExit) as stop:
        main()
    text = capsys.readouterr().out
    assert stop.value.code in (0, None)
    assert "count(distinct request_id) as c_requests" in text
    values = dict(row[:2] for row in duckdb.sql(text).fetchall())
    row = sample("clicks_per_request", pre_period=None, inference={}).analyze()[
        "clicks_per_request"
    ]
    assert values == pytest.approx({"control": row.control, "treatment": row.treatment})


class FakeEntryPoint(EntryPoint):
    """An entry point of a package that is not installed."""

    def load(self) -> Any:
        return {"good": add_clicked_requests, "bad": lambda: 1 / 0}[self.value]


def with_entry_point(monkeypatch: pytest.MonkeyPatch, value: str) -> list[str]:
    """Show one entry point; return the groups that are asked for."""
    asked: list[str] = []

    def entry_points(*, group: str) -> list[EntryPoint]:
        asked.append(group)
        return [FakeEntryPoint("shop", value, group)]

    monkeypatch.setattr(plugins, "entry_points", entry_points)
    return asked


def test_entry_points_are_read_once_where_a_name_is_not_built_in(monkeypatch):
    asked = with_entry_point(monkeypatch, "good")
    sample("ctr")
    sample({"name": "own", "value": "click"})
    assert asked == []
    sample("clicked_requests")
    result = sample("clicked_requests", {"name": "r", "function": "clicked_requests / ctr"})
    assert result.analyze()["r"].control > 0
    assert asked == ["abeval.metrics"]


def test_an_entry_point_that_fails_is_named(monkeypatch):
    with_entry_point(monkeypatch, "bad")
    message = r"entry point 'shop' of abeval.metrics fails: ZeroDivisionError"
    with pytest.raises(abeval.ExperimentError, match=message):
        sample("clicked_requests")


def test_a_metric_that_nobody_added_is_unknown_and_the_nearest_is_named():
    add_clicked_requests()
    with pytest.raises(abeval.ExperimentError, match="did you mean `clicked_requests`"):
        sample("clicked_request")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": "ctr"}, "is the name of a built-in metric"),
        ({"name": "my metric"}, "a name has letters, digits and _"),
        ({"value": "c_request"}, "value: the query has no sum 'c_request'; it has c_requests"),
        ({"per": "clicks"}, "per: the query has no sum 'clicks'"),
        ({"query": "select 1 as c_requests"}, "has no column 'unit_id'"),
        ({"query": "select * from metric_rows"}, "selects \\*: name the columns"),
        ({"query": "selec t"}, "its query is not"),
        ({"query": "drop table x"}, "its query is not one SELECT"),
        ({"reads": ["ts"]}, "reads: 'ts' is time_ms there"),
        ({"scale": 0}, "scale is 0, not between"),
        ({"direction": "up"}, "direction is 'up', not increase or decrease"),
        ({"query": None}, "`reads` is for a query"),
        (
            {"query": None, "reads": [], "value": "sum(click)"},
            "value: 'sum\\(click\\)' holds an agg",
        ),
    ],
)
def test_a_wrong_definition_says_what_is_wrong(changes, problem):
    with pytest.raises(abeval.ExperimentError, match=problem):
        add_clicked_requests(**{"name": "mine", **changes})


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("avg(position)", "c_x is DOUBLE, and sums are whole numbers: write cast"),
        ("sum(clicks)", "the query of metric 'mine' cannot be computed: .*clicks"),
    ],
)
def test_a_query_that_fails_says_which_metric_it_is_of(query, problem):
    text = f"select unit_id, in_period, {query} as c_x from metric_rows group by all"
    abeval.add_metric("mine", value="c_x", reads=["position"], query=text)
    with pytest.raises(abeval.ExperimentError, match=problem):
        sample("mine").analyze()


def test_rows_that_are_not_grouped_by_unit_are_refused():
    text = "select unit_id, in_period, click as c_x from metric_rows"
    abeval.add_metric("mine", value="c_x", reads=["click"], query=text)
    with pytest.raises(abeval.ExperimentError, match="several rows of the same unit_id, in_per"):
        sample("mine").analyze()


def test_a_column_that_the_log_does_not_have_is_named():
    text = "select unit_id, in_period, count(devise) as c_x from metric_rows group by all"
    abeval.add_metric("mine", value="c_x", reads=["devise"], query=text)
    with pytest.raises(abeval.ExperimentError, match="'devise', which the impressions do not have"):
        sample("mine").analyze()


@pytest.fixture
def pooled() -> str:
    """Student's t test of a mean: both variants have one variance."""

    @abeval.test_statistic("pooled_t")
    def pooled_t(control: Moments, treatment: Moments) -> tuple[Estimate, Estimate]:
        df = control.n + treatment.n - 2
        squares = [(arm.n - 1) * arm.covariance[0, 0] for arm in (control, treatment)]
        variance = sum(squares) / df
        first, second = (
            Estimate(float(arm.mean[0]), float(variance / arm.n), arm.n, df)
            for arm in (control, treatment)
        )
        return first, second

    return "pooled_t"


def test_a_test_statistic_decides_a_metric_that_names_it(pooled):
    entries = [
        {"name": "clicks_per_user", "test": pooled},
        {"name": "own_clicks", "value": "click", "resolution": 1},
    ]
    loaded = sample(*entries, inference={"adjust": "none"})
    result = loaded.analyze()
    tested, own = result["clicks_per_user"], result["own_clicks"]
    assert tested.method == "pooled_t"
    assert own.method == "welch_t"
    assert (tested.control, tested.treatment) == (own.control, own.treatment)
    assert tested.p_value != own.p_value
    assert tested.p_value == pytest.approx(own.p_value, rel=0.05)
    assert tested.difference_low < tested.difference < tested.difference_high
    assert tested.lift_low == pytest.approx(own.lift_low, rel=0.05)
    assert loaded.aa(runs=10).refused["clicks_per_user"] == "judged by an added test statistic"


def test_an_added_metric_brings_its_test(pooled):
    add_clicked_requests(test=pooled)
    result = sample("clicked_requests", inference={"adjust": "none"}).analyze()
    assert result["clicked_requests"].method == "pooled_t"


@pytest.mark.parametrize(
    ("metric", "inference", "problem"),
    [
        ({"name": "ctr", "test": "pooledt"}, {}, "metrics.0..test: no test statistic is called"),
        ({"name": "dwell_p50", "test": "pooled_t"}, {}, "dwell_p50 is not a mean or a ratio"),
        (
            {"name": "ctr", "test": "pooled_t"},
            {"resample": "bootstrap"},
            "cannot be used with .inference. resample",
        ),
    ],
)
@pytest.mark.usefixtures("pooled")
def test_a_test_that_cannot_decide_is_refused(metric, inference, problem):
    with pytest.raises(abeval.ExperimentError, match=problem):
        sample(metric, inference={"adjust": "none", **inference})


def test_a_test_statistic_that_fails_is_named():
    @abeval.test_statistic("broken")
    def broken(control: Moments, treatment: Moments) -> tuple[Estimate, Estimate]:
        raise KeyError("third")

    with pytest.raises(abeval.ExperimentError, match="'broken' fails for ctr: KeyError"):
        sample({"name": "ctr", "test": "broken"}).analyze()
