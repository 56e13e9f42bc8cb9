"""One banner for every result that has something to conclude."""

from __future__ import annotations

from pathlib import Path

import pytest

import abeval
from abeval.report.banner import conclude_replay, list_verdict_lines
from abeval.results.trust import Verdict
from tests.history.past import replayed


def test_a_replay_counts_what_is_sure_and_decides_nothing() -> None:
    metrics = {"auc": (0.02, 0.005), "log_loss": (-0.02, 0.005), "ndcg@5[lin]": (0.0, 0.1)}
    (line,) = conclude_replay(replayed("new", metrics))
    assert line.word == "OFFLINE ONLY"
    assert (
        "ranker_v2 is better than ranker_v1 by 2 of 3 offline metrics, worse by 0" in line.sentence
    )
    worse = {"auc": (-0.02, 0.005), "log_loss": (-0.02, 0.005)}
    (mixed,) = conclude_replay(replayed("new", worse))
    assert "by 1 of 2 offline metrics, worse by 1" in mixed.sentence
    assert len(mixed.sentence.split()) <= 45


def test_verdicts_become_lines_with_their_word() -> None:
    one = Verdict("b", "ship", "SHIP: users prefer b. Note: confirm it by an A/B test.")
    (line,) = list_verdict_lines([one])
    assert (line.variant, line.word) == ("", "SHIP")
    assert line.sentence == "Users prefer b. Note: confirm it by an A/B test."
    failed = Verdict("b", "do_not_trust", "DO NOT TRUST: bots: too many.")
    assert list_verdict_lines([failed])[0].sentence == "bots: too many."
    assert [line.variant for line in list_verdict_lines([one, one])] == ["b", "b"]


@pytest.mark.whole
def test_the_page_of_a_replay_begins_with_it(tmp_path: Path) -> None:
    replay = abeval.load("sample_logs/experiment.toml").replay(metrics=["auc"])
    page = replay.report(tmp_path / "r.html").read_text()
    assert '<p class="sentence">' in page
    assert "OFFLINE ONLY" in page
