"""What past experiments promise of a new one, against true lifts and by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import abeval
from abeval.agreement.compare import compare
from abeval.cli.main import app
from abeval.history.entries import build_rows
from abeval.history.promise import predict_lift
from abeval.results.agreement import Gap
from abeval.results.history import HistoryRow
from abeval.stats.distributions import quantile
from abeval.stats.records import Estimate
from tests.history.past import online, past, replayed
from tests.offline.test_replay import random_rows, small


def history(experiments: int, seed: int = 3, se: float = 0.01) -> list[HistoryRow]:
    every = past(experiments, seed, se=se)
    return [
        row for one in every for of in (one.result, one.replayed) for row in build_rows(of, None)
    ]


def bill(rows: list[HistoryRow], auc: float, lift: float) -> Gap:
    """The bill of a new experiment, whose logs were not read."""
    result = online("new", {"ctr": (lift, 0.004)}, "keep_running")
    replay = replace(replayed("new", {"auc": (auc, 0.003)}), definitions=(("auc", "."),))
    gap = compare(result, replay, history=rows).gap
    assert gap is not None
    return gap


@pytest.mark.slow
@pytest.mark.parametrize(("experiments", "se"), [(40, 0.01), (15, 0.003)])
def test_true_lifts_of_new_experiments_are_in_the_interval(experiments: int, se: float) -> None:
    new, inside, widths = past(60, seed=99), list[bool](), list[float]()
    for seed in range(12):
        every = past(experiments, seed, se=se)
        rows = [
            row
            for one in every
            for of in (one.result, one.replayed)
            for row in build_rows(of, None)
        ]
        for one in new:
            seen = one.replayed.pair("auc", "control").difference or 0.0
            known = {"auc": Estimate(seen, 0.005**2, 10_000, 9_999.0)}
            promise = predict_lift(rows, "new", known, "ctr", 0.05)
            if isinstance(promise, str):
                # Of few noisy experiments it cannot be told that auc predicts.
                break
            half = quantile(0.975, promise.lift.df) * promise.lift.variance**0.5
            inside.append(abs(promise.lift.value - one.true) < half)
            widths.append(2 * half)
    assert len(inside) >= 240
    assert 0.88 <= sum(inside) / len(inside) <= 0.99
    # Without auc true lifts spread by 1 %: an interval of them all is .039 wide.
    assert sum(widths) / len(widths) < 0.035


def test_a_log_that_cannot_size_the_gap_takes_the_promise_from_a_history() -> None:
    gap = bill(history(40), auc=0.04, lift=0.001)
    assert (gap.source, gap.predictor, gap.metric) == ("history", "auc", "ctr")
    assert gap.promised is not None
    assert gap.promised_low is not None
    assert gap.promised_low < 0.4 * 0.04 < gap.promised_high  # type: ignore[operator]
    assert gap.came == pytest.approx(0.001)
    assert gap.unexplained == pytest.approx(0.001 - gap.promised)
    assert gap.sentence.startswith("Promised by auc, as in past experiments, +")


def test_the_experiment_itself_is_no_past_one() -> None:
    """Its result may be in the history already."""
    rows = history(40)
    result, replay = online("new", {"ctr": (0.5, 0.004)}, "ship"), {"auc": (0.04, 0.003)}
    added = [*build_rows(result, None), *build_rows(replayed("new", replay), None)]
    assert bill([*rows, *added], 0.04, 0.001).promised == bill(rows, 0.04, 0.001).promised


@pytest.mark.parametrize(
    ("experiments", "said"),
    [(4, "fewer than 5 experiments"), (6, "cannot be told from 6 experiments")],
)
def test_a_history_that_does_not_know_says_why(experiments: int, said: str) -> None:
    gap = bill(history(experiments, seed=1), auc=0.04, lift=0.001)
    assert (gap.promised, gap.source) == (None, "")
    assert gap.reason.startswith("no logs were read; ")
    assert said in gap.reason


@pytest.mark.whole
def test_the_command_asks_the_history_for_a_log_of_few_clicks(tmp_path: Path) -> None:
    file = tmp_path / "past.parquet"
    for one in past(12, seed=3, se=0.002):
        abeval.History(file).add(one.result, one.replayed)
    loaded, logs = small(random_rows(120), metrics=[{"name": "ctr", "role": "goal"}])
    found = loaded.agree(metrics=["auc"], history=file, logs=logs)
    assert found.gap is not None
    assert found.gap.source == "history"
    assert json.loads(found.to_json())["gap"]["source"] == "history"
    assert "past experiments promised by auc" in " ".join(str(found).split())
    rows = found.explanations[0].gap
    assert rows == found.gap
    without = loaded.agree(metrics=["auc"], logs=logs)
    assert without.gap is not None
    assert "clicks on rows with both scores" in without.gap.reason


def test_a_history_that_is_not_there_is_refused_before_a_log_is_read(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "log.parquet")
    args = ["agree", "sample_logs/experiment.toml", "--history", str(tmp_path / "no.parquet")]
    done = CliRunner().invoke(app, args)
    assert done.exit_code != 0
    assert "there is no history" in str(done.exception)
