"""The committed sample: its known truth is recovered, and its results stay what they are."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

import abeval
from abeval.cli.main import app
from tests import sample

ROOT = Path(__file__).parents[1]
GOLDEN = Path(__file__).parent / "golden" / "sample_scorecard.json"


@pytest.fixture(scope="module")
def result():
    return sample.analysis()


@pytest.fixture(scope="module")
def truth():
    return json.loads((ROOT / "sample_logs" / "truth.json").read_text())


def test_every_true_lift_lies_in_an_interval_at_the_family_level(truth):
    # Eleven intervals are looked at together, so each is taken at 1 - 0.05 / 11.
    result = abeval.load(sample.FILE).replace(alpha=0.05 / len(truth["lift"])).analyze()
    for metric, lift in truth["lift"].items():
        row = result[metric]
        assert row.lift_low < lift < row.lift_high, metric


def test_true_effects_are_found_and_absent_ones_are_not_claimed(result, truth):
    assert result["ctr"].status == "better"
    assert result["ctr"].p_adjusted < 1e-6
    assert result["clicks_per_user"].status == "better"
    assert result["sessions_per_user"].status == "non_inferior"
    absent = [metric for metric, lift in truth["lift"].items() if lift == 0]
    assert {result[m].status for m in absent} <= {"unclear", "non_inferior"}


def test_dirt_is_counted_to_the_row(result, truth):
    impressions, clicks = result.accounting
    dirt = truth["dirt"]
    aside = dict(impressions.set_aside)
    assert impressions.read == truth["rows"]["impressions"]
    assert aside["duplicate"] == dirt["duplicate_impressions"]
    assert aside["null_unit"] == dirt["null_user_impressions"]
    assert impressions.used + sum(aside.values()) == impressions.read
    assert clicks.read == truth["rows"]["clicks"]
    assert dict(clicks.set_aside) == {
        "duplicate": dirt["duplicate_clicks"],
        "late": dirt["late_clicks"],
        "no_impression": dirt["orphan_clicks"],
    }
    assert clicks.used + sum(n for _, n in clicks.set_aside) == clicks.read


def test_crossovers_unknown_dwell_and_missing_scores_are_counted(result, truth):
    crossover = next(check for check in result.trust if check.name == "crossover")
    assert crossover.message.startswith(f"{truth['dirt']['crossover_users']} of ")
    counted = {(entry.metric, entry.what): 0 for entry in result.left_out}
    for entry in result.left_out:
        counted[entry.metric, entry.what] += entry.count
    inside = truth["dirt_test"]
    assert (
        counted["dwell_per_click", "clicks whose dwell is unknown"] == inside["null_dwell_clicks"]
    )
    assert counted["q_ctr", "impressions without a score"] == inside["null_score_impressions"]


def test_scorecard_is_what_it_was(result):
    """Regenerate with: python -m tests.test_sample_logs, and read the difference."""
    golden = json.loads(GOLDEN.read_text())
    assert [row.metric for row in result.scorecard] == [row["metric"] for row in golden]
    for row, known in zip(result.scorecard, golden, strict=True):
        for field, value in asdict(row).items():
            expected = known[field]
            if isinstance(expected, float):
                assert value == pytest.approx(expected, rel=1e-9, abs=1e-300), (row.metric, field)
            else:
                assert value == expected, (row.metric, field)


COMMANDS = (
    "analyze {} --checks",
    "analyze {} --pairs ctr",
    "analyze {} --all --report {out}/page.html",
    "windows {}",
    "power {}",
    "replay {}",
    "agree {}",
    "aa {}",
    "audit {}",
    "tools schema",
)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_ends_in_a_result(command, tmp_path):
    done = CliRunner().invoke(app, command.format(sample.FILE, out=tmp_path).split())
    assert done.exit_code == 0, done.output
    assert "error" not in done.stderr
    assert done.stdout


@pytest.mark.whole
def test_the_rule_of_assignment_gives_every_logged_variant():
    audit = abeval.load(sample.FILE).audit()
    assert (audit.units, audit.mismatches) == (2772, 0)


@pytest.mark.slow
@pytest.mark.whole
def test_past_experiments_and_the_sample_are_a_history(tmp_path):
    """Log loss tells better from worse; AUC on control's traffic is worse by position alone."""
    history = abeval.History(tmp_path / "history.parquet")
    for folder in (sample.FILE.parent, *sorted((sample.FILE.parent / "past").iterdir())):
        experiment = abeval.load(folder / "experiment.toml")
        result = experiment.replace(trust={"aa_runs": 0}).analyze()
        lift = json.loads((folder / "truth.json").read_text())["lift"]["ctr"]
        error = (result["ctr"].lift_high - result["ctr"].lift_low) / 2 / 1.96
        assert abs(result["ctr"].lift - lift) < 3 * error
        history.add(result, experiment.replay(metrics=["auc", "log_loss"]))
    report = history.report()
    assert (report["log_loss", "ctr"].experiments, report["log_loss", "ctr"].agree) == (6, 6)
    assert report["auc", "ctr"].agree < 6
    assert report["auc", "ctr"].correlation > 0.8


if __name__ == "__main__":
    rows = sample.analysis().scorecard
    GOLDEN.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
