"""What to expect of a launch, where past experiments are known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from abeval.cli.main import app
from abeval.history.entries import build_rows
from abeval.history.worth import shrink_worth
from abeval.report.worth import expect_less, write_worth_lines
from abeval.results.analysis import Result, Worth
from abeval.results.history import HistoryRow
from tests.history.past import online, past


def launch(name: str, lift: float, se: float) -> Result:
    """An analysis of a lift of 1,000 clicks a day."""
    result = online(name, {"ctr": (lift, se)}, "ship")
    ends = (1_000 * end for end in (lift, lift - 1.96 * se, lift + 1.96 * se))
    worth = Worth("ctr", "treatment", "clicks", "", "impressions", 7.0, 1_000.0, *ends)
    return replace(result, worth=(worth,))


def history(experiments: int, seed: int = 1, se: float = 0.01) -> list[HistoryRow]:
    return [row for one in past(experiments, seed, se=se) for row in build_rows(one.result, None)]


def test_a_lift_that_is_noisier_than_true_ones_spread_is_shrunk() -> None:
    (worth,) = shrink_worth(launch("new", 0.03, 0.01), history(30)).worth
    assert worth.past == 30
    assert worth.expected is not None
    # True lifts have a spread of .01, the noise as well: about half is left.
    assert worth.expected == pytest.approx(15, abs=5)
    (exact,) = shrink_worth(launch("new", 0.03, 0.0005), history(30)).worth
    assert exact.expected == pytest.approx(30, rel=0.05)


@pytest.mark.parametrize("experiments", [0, 4])
def test_few_experiments_are_no_prior(experiments: int) -> None:
    (worth,) = shrink_worth(launch("new", 0.03, 0.01), history(experiments)).worth
    assert worth.expected is None
    assert worth.change == pytest.approx(30)


def test_the_experiment_itself_is_no_past() -> None:
    rows = history(8)
    itself = [row for row in rows if row.experiment == "e00"]
    (worth,) = shrink_worth(launch("e00", 0.03, 0.01), rows).worth
    assert itself
    assert worth.past == 7


@pytest.mark.slow
def test_intervals_of_shipped_launches_cover_true_lifts() -> None:
    """One history of 60 errs in its spread, so the average is over histories too."""
    inside, sums = list[bool](), np.zeros(2)
    for seed in range(1, 13):
        rows = history(60, seed)
        for one in past(150, seed=100 + seed):
            row = one.result["ctr"]
            if row.lift is None or row.lift < 0.0196:
                continue
            (worth,) = shrink_worth(launch("new", row.lift, 0.01), rows).worth
            assert worth.expected is not None
            assert worth.expected_low is not None
            assert worth.expected_high is not None
            inside.append(worth.expected_low <= 1_000 * one.true <= worth.expected_high)
            sums += worth.expected - 1_000 * one.true, worth.change - 1_000 * one.true
    expected, naive = sums / len(inside)
    assert np.mean(inside) > 0.9
    assert abs(expected) < 0.3 * naive


def test_the_line_says_what_to_expect_in_place_of_a_warning() -> None:
    warned = launch("new", 0.03, 0.01)
    assert [name for name, _ in expect_less(warned)] == ["Expect less"]
    assert expect_less(shrink_worth(warned, history(30))) == []
    ((label, text),) = write_worth_lines(shrink_worth(warned, history(30)))
    assert label == "Worth"
    assert "by 30 past effects, expect +" in text


@pytest.mark.whole
def test_the_command_reads_a_history(tmp_path: Path) -> None:
    file, out = tmp_path / "history.parquet", tmp_path / "out.json"
    for number, one in enumerate(past(6)):
        saved = tmp_path / f"{number}.json"
        saved.write_text(one.result.to_json())
        added = CliRunner().invoke(app, ["history", "add", str(saved), "--history", str(file)])
        assert added.exit_code == 0, added.output
    asked = ["analyze", "sample_logs/experiment.toml", "--history", str(file), "--json", str(out)]
    ran = CliRunner().invoke(app, asked)
    assert ran.exit_code == 0, ran.output
    worth = {w["metric"]: w for w in json.loads(out.read_text())["worth"]}
    assert worth["ctr"]["past"] == 6
    # Six experiments of small lifts: 13 % is mostly kept, for its error is small beside it.
    assert 0 < worth["ctr"]["expected"] < worth["ctr"]["change"]
    assert "by 6 past effects" in ran.output.replace("\n", " ")
