"""What a history says: which metric predicts which, what moves, and what was really gained."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import abeval
from abeval.errors import ExperimentError
from abeval.history.entries import Addable, build_rows
from abeval.history.table import edit_rows
from abeval.report.history_page import describe_gain, describe_history, judge_offline_metrics
from abeval.report.page import render_history
from abeval.report.terminal import as_text
from tests.cli.test_cli import call
from tests.history.past import online, past, replayed
from tests.report.pages import Page, figures, whole


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("history") / "h.parquet"
    results: list[Addable] = []
    for each in past(40, seed=3):
        results += [each.result, each.replayed]
    return filled(path, results)


def filled(path: Path, results: Sequence[Addable]) -> Path:
    """A history of many results, written once."""
    with edit_rows(path) as rows:
        rows += [row for result in results for row in build_rows(result, None)]
    return path


@pytest.fixture(scope="module")
def report(file: Path) -> abeval.HistoryReport:
    return abeval.History(file).report(metrics=["ctr", "dwell_per_user"])


def test_the_correlation_of_true_effects_is_found_through_the_noise(
    report: abeval.HistoryReport,
) -> None:
    row = report["auc", "ctr"]
    assert row.experiments == row.effects == 40
    assert row.naive < 0.65
    assert row.correlation == pytest.approx(0.8, abs=0.15)
    assert row.low < 0.8 < row.high
    # Its true slope is .8 · 1 % / 2 %.
    assert row.slope == pytest.approx(0.4, abs=0.15)
    assert row.slope_low < 0.4 < row.slope_high
    assert row.chance > 0.6
    assert row.chance_loss < 0.3
    none = report["ndcg@5[lin]", "ctr"]
    assert none.low < 0 < none.high
    assert abs(none.chance - none.chance_loss) < 0.3


def test_effects_are_turned_so_that_more_is_better(report: abeval.HistoryReport) -> None:
    auc, loss = report["auc", "ctr"], report["log_loss", "ctr"]
    assert loss.correlation == pytest.approx(auc.correlation)
    assert (loss.agree, loss.chance) == (auc.agree, pytest.approx(auc.chance))


def test_signs_that_agree_have_wilsons_interval(report: abeval.HistoryReport) -> None:
    from statsmodels.stats.proportion import proportion_confint

    row = report["auc", "ctr"]
    assert row.agree_share == row.agree / 40
    ends = proportion_confint(row.agree, 40, method="wilson")
    assert (row.agree_low, row.agree_high) == pytest.approx(ends)


def test_the_best_offline_metric_is_chosen_on_experiments_left_out(
    report: abeval.HistoryReport,
) -> None:
    choices = {choice.target: choice for choice in report.choices}
    ctr = choices["ctr"]
    assert ctr.best in ("auc", "log_loss")
    assert ctr.predictors == 3
    assert ctr.chosen >= 38
    assert ctr.gain > 0.2
    assert ctr.sentence.startswith(f"{ctr.best} predicts ctr best")
    # Nothing predicts a metric that has nothing to do with any.
    dwell = choices["dwell_per_user"]
    assert dwell.best is None or dwell.gain is None or dwell.gain < 0.15


def test_how_often_a_metric_moves(report: abeval.HistoryReport) -> None:
    moves = {row.measure: row for row in report.sensitivity}
    ctr = moves["ctr"]
    lifts = [e for e in report.effects if (e.measure, e.side) == ("ctr", "online")]
    assert ctr.moved == sum(e.low > 0 or e.high < 0 for e in lifts)
    assert ctr.effects == 40
    assert ctr.share == ctr.moved / 40
    assert ctr.spread == pytest.approx(0.01, rel=0.4)
    assert 0.3 < ctr.signal < 0.7
    assert moves["dwell_per_user"].signal < 0.4


def test_the_sum_of_what_was_shipped_is_shrunk(file: Path, report: abeval.HistoryReport) -> None:
    true = sum(each.true for each in past(40, seed=3) if each.result.verdicts[0].decision == "ship")
    ctr = next(row for row in report.gained if row.metric == "ctr")
    assert ctr.naive > 1.4 * true
    assert ctr.low < true < ctr.high < ctr.naive
    shrunk = [e.shrunk for e in report.effects if e.shrunk is not None and e.shipped]
    assert sum(shrunk[: ctr.shipped]) == pytest.approx(ctr.gained)


def nulls(seed: int, metrics: int, correlated: float) -> tuple[list[Addable], list[str]]:
    """Forty experiments, three quarters of them without an effect on any metric."""
    random = np.random.default_rng(seed)
    moves = 0.02 * (random.random((40, 1)) < 0.25)
    online_effects = moves * random.standard_normal((40, 1))
    own = moves * random.standard_normal((40, metrics))
    true = correlated * online_effects + math.sqrt(1 - correlated**2) * own
    seen = true + 0.004 * random.standard_normal((40, metrics))
    ctr = (online_effects + 0.004 * random.standard_normal((40, 1)))[:, 0]
    names = [f"score_{i}" for i in range(metrics)]
    results: list[Addable] = []
    for i in range(40):
        results.append(online(f"e{i}", {"ctr": (ctr[i], 0.004)}, "ship"))
        offline = {name: (seen[i, j], 0.004) for j, name in enumerate(names)}
        results.append(replayed(f"e{i}", offline))
    return results, names


@pytest.mark.slow
@pytest.mark.parametrize("correlated", [0.0, 0.8])
def test_intervals_hold_where_most_experiments_do_nothing(
    tmp_path: Path, correlated: float
) -> None:
    rows, predicted = [], 0
    for seed in range(4):
        results, names = nulls(seed, 20, correlated)
        history = abeval.History(filled(tmp_path / f"{seed}.parquet", results))
        report = history.report(offline=names)
        rows += report.predictions
        predicted += "predicts ctr best" in report.choices[0].sentence
    held = np.mean([row.low <= correlated <= row.high for row in rows])
    assert held >= 0.93
    if correlated:
        assert np.mean([row.low > 0 for row in rows]) > 0.4
    else:
        assert predicted <= 1


def test_a_predictor_that_may_be_noise_is_not_said_to_predict(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    results: list[Addable] = []
    for i in range(12):
        x, own = random.standard_normal(2)
        results.append(online(f"e{i}", {"ctr": (0.01 * (0.4 * x + 0.9 * own), 0.005)}, "ship"))
        results.append(replayed(f"e{i}", {"auc": (0.01 * x, 0.005)}))
    report = abeval.History(filled(tmp_path / "h.parquet", results)).report()
    row, choice = report["auc", "ctr"], report.choices[0]
    assert choice.best == "auc"
    assert row.low < 0 < row.high
    assert choice.sentence == (
        "whether auc predicts ctr cannot be told from 12 experiments: "
        f"the correlation of true effects is in [{row.low:.2f}, {row.high:.2f}]"
    )


def test_variants_of_one_experiment_and_untrusted_rows(tmp_path: Path) -> None:
    history = abeval.History(tmp_path / "h.parquet")
    for i, each in enumerate(past(8)):
        result = each.result
        if i == 0:
            rows = tuple(replace(row, status="untrusted") for row in result.scorecard)
            result = replace(result, scorecard=rows)
        history.add(result, each.replayed)
    history.add(replayed("no analysis", {"auc": (0.01, 0.01)}))
    report = history.report()
    assert report["auc", "ctr"].experiments == 7
    assert dict(report.left_out) == {"untrusted": 2, "experiment without an analysis": 3}


def test_too_few_experiments_are_refused_with_the_reason(tmp_path: Path) -> None:
    history = abeval.History(tmp_path / "h.parquet")
    with pytest.raises(ExperimentError, match="there is no history"):
        history.report()
    for count, each in enumerate(past(4), start=1):
        history.add(each.result, each.replayed)
        if count == 1:
            with pytest.raises(ExperimentError, match="has 1 experiment: 5 are needed"):
                history.report()
    with pytest.raises(ExperimentError, match="has 4 experiments: 5 are needed"):
        history.report()
    # A metric that only some experiments have is named with its reason, beside the others.
    for each in past(6)[4:]:
        bare = tuple(row for row in each.result.scorecard if row.metric == "ctr")
        history.add(replace(each.result, scorecard=bare))
    report = history.report(metrics=["ctr", "dwell_per_user"])
    assert report["auc", "ctr"].reason == "too_few_units"
    assert report["auc", "ctr"].correlation is None
    gained = {row.metric: row.reason for row in report.gained}
    assert gained == {"ctr": None, "dwell_per_user": "too_few_units"}


def test_unknown_metrics_and_numbers_are_refused(file: Path) -> None:
    history = abeval.History(file)
    with pytest.raises(ExperimentError, match=r"no online metric 'ctrr'.*ctr"):
        history.report(metrics=["ctrr"])
    with pytest.raises(ExperimentError, match="no offline metric 'gauc'"):
        history.report(offline=["gauc"])
    with pytest.raises(ExperimentError, match="alpha"):
        history.report(alpha=2)


def test_the_result_is_plain_and_shows_itself(report: abeval.HistoryReport) -> None:
    again = json.loads(report.to_json())
    assert again["predictions"][0]["predictor"] == "auc"
    assert len(report.to_frame()) == len(report.predictions)
    assert len(report.effects_frame()) == len(report.effects)
    assert "auc" in repr(report)
    assert "Sensitivity" in str(report)
    assert "<table" in report._repr_html_()


def test_the_page_draws_what_the_result_says(report: abeval.HistoryReport, tmp_path: Path) -> None:
    html = render_history(report)
    page = Page()
    page.feed(html)
    assert report.choices[0].sentence in page.all("section", id="said")[0].text
    islands = figures(html)
    points = islands["pair0"]["data"][0]
    assert len(points["x"]) == 40
    measured, shrunk = islands["forest0"]["data"]
    assert len(measured["x"]) == len(shrunk["x"]) == 40
    assert np.std(shrunk["x"]) < np.std(measured["x"])
    assert report.report(tmp_path / "h.html").read_text().startswith("<!doctype html>")


def test_a_report_opens_with_what_was_learned_and_says_once_what_cannot_be_said(
    tmp_path: Path,
) -> None:
    results: list[Addable] = []
    for i, each in enumerate(past(8, seed=3)):
        some = tuple(r for r in each.result.scorecard if i < 3 or r.metric == "ctr")
        results += [replace(each.result, scorecard=some), each.replayed]
    history = abeval.History(filled(tmp_path / "h.parquet", results))
    report = history.report(metrics=["ctr", "dwell_per_user"])
    said = describe_history(report)
    row = report["auc", "ctr"]
    assert said[0] == "8 experiments"
    assert f"auc in {row.agree} of 8 ({100 * row.agree_share:.3g}%" in said[1]
    assert "3 pairs of metrics go together (2 more experiments with both)" in said[-1]
    assert "what was gained on dwell_per_user" in said[-1]
    for text in (str(report), whole(render_history(report))):
        assert text.count("annot be said yet") == 1
        assert "too few units" not in text


def test_the_experiments_that_are_lacking_are_those_that_narrow_the_interval(
    report: abeval.HistoryReport,
) -> None:
    row = replace(report["auc", "ctr"], experiments=10, correlation=0.5, low=-0.5, high=0.9)
    alone = replace(report, predictions=(row,), choices=(), gained=())
    # Half as wide, an interval needs four times as many.
    assert "auc with ctr 30" in describe_history(alone)[-1]
    clear = replace(alone, predictions=(replace(row, low=0.1),))
    assert "annot be said" not in "".join(describe_history(clear))


def test_no_name_becomes_markup(tmp_path: Path) -> None:
    from tests.builders import HOSTILE

    history = abeval.History(tmp_path / "h.parquet")
    for i, each in enumerate(past(6)):
        info = replace(each.result.experiment, name=f"{HOSTILE}{i}")
        history.add(replace(each.result, experiment=info), replace(each.replayed, name=info.name))
    html = whole(render_history(history.report()))
    assert "<script>window" not in html
    assert "pwned" in html


@pytest.mark.whole
def test_the_command_adds_and_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for each in past(6):
        Path("a.json").write_text(each.result.to_json())
        Path("r.json").write_text(each.replayed.to_json())
        assert call(monkeypatch, "history", "add", "a.json", "r.json", "--history", "h.duckdb") == 0
    out = capsys.readouterr().out
    assert "e05: analysis added: 2 rows" in out
    assert "h.duckdb has 6 experiments" in out
    assert call(monkeypatch, "history", "add", "a.json", "--history", "h.duckdb") == 0
    assert "unchanged" in capsys.readouterr().out
    options = ("--history", "h.duckdb", "--shipped", "none")
    assert call(monkeypatch, "history", "add", "a.json", *options) == 0
    assert "REPLACED" in capsys.readouterr().out
    files = ("--json", "h.json", "--report", "h.html")
    assert call(monkeypatch, "history", "report", "--history", "h.duckdb", *files) == 0
    assert "Sensitivity" in capsys.readouterr().out
    assert json.loads(Path("h.json").read_text())["experiments"] == [f"e0{i}" for i in range(6)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("report", "--history", "no.parquet"), "there is no history"),
        (("add", "no.json", "--history", "h.parquet"), "cannot read no.json"),
        (("add", "a.json", "--history", "h.csv"), "Parquet or DuckDB file"),
        (("add", "a.json", "--history", "a.json"), "--history would replace the result: a.json"),
        (("add", "a.json", "--history", "none/h.parquet"), "mkdir -p none"),
        (
            ("add", "a.json", "--history", "h.parquet", "--json", "a.json"),
            "--json would replace the result: a.json",
        ),
        (("add", "a.json", "--history", "h.parquet", "--shipped", "b"), "'b' was not shipped"),
    ],
)
def test_mistakes_are_one_message_and_exit_code_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text(past(1)[0].result.to_json())
    before = Path("a.json").read_bytes()
    assert call(monkeypatch, "history", *arguments) == 2
    assert said in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"a.json"}
    assert Path("a.json").read_bytes() == before


def test_a_history_opens_with_the_offline_metric_to_trust_or_why_none(
    report: abeval.HistoryReport,
) -> None:
    best = report.choices[0].best
    trusted = judge_offline_metrics(report)
    assert trusted.word.startswith(f"TRUST {best} FOR ctr")
    assert as_text(report).startswith(f"{trusted.word}: ")
    assert f"choose candidates for ctr by {best}" in trusted.action
    none = replace(report, predictions=(), choices=())
    shipped = report.gained[0]
    assert judge_offline_metrics(none).word == f"{shipped.shipped} OF 40 SHIPPED"
    expected = describe_gain(shipped).partition("expect ")[2].rpartition(", ")[0]
    assert judge_offline_metrics(none).sentence.startswith(
        f"Expected sum of their true lifts: ctr {expected}"
    )
    assert "Offline against online" not in whole(render_history(none))
    nothing = replace(none, gained=(replace(shipped, shipped=0),))
    assert judge_offline_metrics(nothing).word == "NO OFFLINE METRIC TO JUDGE"
    assert "0 lifts" not in as_text(nothing)
    few = replace(
        report["auc", "ctr"], experiments=3, correlation=None, low=None, high=None, reason="x"
    )
    early = judge_offline_metrics(replace(report, predictions=(few,), choices=()))
    assert (early.word, "Add at least 2 more experiments" in early.action) == (
        "TOO FEW EXPERIMENTS TO SAY",
        True,
    )
    useless = replace(report.choices[0], best=None, sentence="none of 3 predicts ctr")
    assert (
        judge_offline_metrics(replace(report, choices=(useless,))).word == "TRUST NO OFFLINE METRIC"
    )


def test_a_metric_that_never_moved_predicts_nothing(tmp_path: Path) -> None:
    made = past(6)
    still = [online(f"e{i:02}", {"ctr": (0.02, 0.01)}, "keep_running") for i in range(6)]
    results: list[Addable] = [*still, *(one.replayed for one in made)]
    said = abeval.History(filled(tmp_path / "h.parquet", results)).report()
    row = said["auc", "ctr"]
    assert (row.naive, row.correlation, row.reason) == (None, None, "zero_variance")
    assert "(1 more experiment with both)" in as_text(said)
    assert "Add at least 1 more experiment with both" in as_text(said)


def test_what_a_loss_will_be_is_said_with_the_direction_of_the_correction(
    report: abeval.HistoryReport,
) -> None:
    row = replace(report.gained[0], naive=-0.035, gained=-0.02, low=-0.05, high=0.008)
    assert describe_gain(row) == "measured -3.5%, expect -2.0% [-5.0%, +0.8%], 1.5 points higher"
