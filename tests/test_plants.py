"""Planted causes: each is really in its log, and the log is clean otherwise."""

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest

import abeval
from abeval.errors import ExperimentError
from tests.worlds.plants import simulate_plant
from tests.worlds.plants.causes import PLANTS
from tests.worlds.plants.fit import fitted
from tests.worlds.plants.half_precision import rounded_to_bits
from tests.worlds.plants.part import probability
from tests.worlds.plants.truth import PlantedTruth

pytestmark = pytest.mark.slow

NAMES = [plant.name for plant in PLANTS]
SIZE = 60_000


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> dict[str, tuple[Path, PlantedTruth]]:
    folder = tmp_path_factory.mktemp("planted")
    return {name: (folder / name, simulate_plant(folder / name, name, SIZE)) for name in NAMES}


def number(logs, name: str, sql: str) -> float:
    """One number of a log, whose rows are `log`; `own` are those of the treatment's feed."""
    path = logs[name][0] / "impressions" / "log.parquet"
    training = logs[name][0] / "training.parquet"
    query = f"""
    with log as (select *, abs(ln(served_score / (1 - served_score))
      - ln(score_candidate / (1 - score_candidate))) as apart from '{path}'),
    training as (select * from '{training}'),
    own as (select * from log where variant = 'treatment' and scene = 'feed')
    {sql}
    """
    return float(duckdb.sql(query).fetchall()[0][0])


def auc(rows: str, score: str) -> str:
    """SQL of the AUC of a score."""
    return f"""
    , ranked as (select click, rank() over (order by {score})
        + (count(*) over (partition by {score}) - 1) / 2 as place from {rows})
    select (sum(place) filter (click = 1) - count(*) filter (click = 1)
      * (count(*) filter (click = 1) + 1) / 2)
      / (count(*) filter (click = 1) * count(*) filter (click = 0)) from ranked
    """


def effect(logs, name: str, where: str = "true") -> float:
    """Lift of the treatment in clicks per impression, of some rows."""
    part = f"select variant, avg(click) as ctr from log where {where} group by variant"
    sql = f"""
    select max(ctr) filter (variant = 'treatment') / max(ctr) filter (variant = 'control') - 1
    from ({part})
    """
    return number(logs, name, sql)


def offline(logs, name: str) -> float:
    """The candidate's AUC minus the baseline's on control's traffic."""
    rows = "(select * from log where variant = 'control')"
    scores = ("score_candidate", "score_baseline")
    candidate, baseline = (number(logs, name, auc(rows, score)) for score in scores)
    return candidate - baseline


@pytest.mark.parametrize("name", NAMES)
def test_offline_is_better_in_every_log(logs, name):
    assert offline(logs, name) > 0.015


@pytest.mark.parametrize("name", [name for name in NAMES if name != "none"])
def test_online_is_less_than_a_candidate_of_its_quality_earns(logs, name):
    assert effect(logs, name) < 0.06 < effect(logs, "none")


@pytest.mark.parametrize("name", NAMES)
def test_only_what_was_planted_is_in_the_log(logs, name):
    late = number(logs, name, "select avg(cast(features_written > time as integer)) from log")
    again = number(
        logs, name, "select count(*) from log join training using (user_id, item_id, time)"
    )
    apart = number(logs, name, "select avg(cast(apart > .01 as integer)) from own")
    failed = number(logs, name, "select avg(fallback) from own")
    age = number(logs, name, "select max(epoch(time) - epoch(model_trained)) / 3600 from own")
    few = number(logs, name, "select count(distinct served_score) from own")
    assert (late == 1) == (name == "leaked_feature")
    assert (again > 0) == (name == "overlap")
    assert (failed > 0.2) == (name == "timeouts")
    assert (age > 24) == (name == "stale_model")
    assert (few < 10) == (name == "half_precision")
    moved = {
        *("skewed_scores", "half_precision", "stale_model", "timeouts"),
        *("position", "leaked_feature"),
    }
    assert (apart > 0.1) == (name in moved)
    control = "select avg(cast(abs(served_score - score_baseline) > 1e-6 as integer)) from log "
    assert number(logs, name, control + "where variant = 'control'") == 0


# Where the candidate knows less on the web, or of news, than it learned, it is too sure, and
# where lists are in another order than it learned from, people click less.
UNSURE = ("miscalibration", "reversed_cut", "training_policy", "reordered")
CALIBRATED = [name for name in NAMES if name not in UNSURE]


@pytest.mark.parametrize("name", CALIBRATED)
def test_own_scores_are_calibrated_for_their_traffic(logs, name):
    q = "select sum({}) / sum(click) from log where variant = '{}'"
    assert number(logs, name, q.format("score_baseline", "control")) == pytest.approx(1, abs=0.12)
    assert number(logs, name, q.format("score_candidate", "treatment")) == pytest.approx(1, abs=0.1)


def test_a_miscalibrated_candidate_predicts_too_many_clicks(logs):
    q = "select sum(score_candidate) / sum(click) from log"
    assert number(logs, "miscalibration", q) > 1.6


def test_what_the_feed_gains_home_loses(logs):
    assert effect(logs, "cannibalised", "scene = 'feed'") > 0.05
    assert effect(logs, "cannibalised", "scene = 'home'") < -0.05
    assert abs(effect(logs, "cannibalised")) < 0.05


def test_the_app_gains_and_the_web_loses(logs):
    feed = "scene = 'feed' and surface = "
    assert effect(logs, "reversed_cut", feed + "'app'") > 0.08
    assert effect(logs, "reversed_cut", feed + "'web'") < -0.04


def test_the_promotion_takes_the_effect_of_its_days(logs):
    during = "time >= '2026-09-22' and time < '2026-09-24'"
    assert effect(logs, "promotion", during) < -0.1
    assert effect(logs, "promotion", f"not ({during})") > 0.02


def test_the_candidate_of_a_ranked_list_is_no_better_within_a_position(logs):
    control = "(select * from log where variant = 'control' and position = 1 and scene = 'feed')"
    scores = ("score_candidate", "score_baseline")
    candidate, baseline = (number(logs, "position", auc(control, score)) for score in scores)
    assert candidate - baseline < 0.02 < offline(logs, "position")


def test_only_the_treatments_lists_are_in_another_order_than_their_scores(logs):
    falls = """, listed as (select variant, served_score - lag(served_score)
        over (partition by request_id order by position) as rise from log where scene = 'feed')
    select avg(cast(rise > 0 as integer)) from listed where variant = """
    assert number(logs, "reordered", falls + "'control'") == 0
    assert number(logs, "reordered", falls + "'treatment'") > 0.5


def test_news_is_lost_in_the_treatments_feed_and_unknown_to_the_training_data(logs):
    news = "select avg(cast(category = 'news' as integer)) from log where scene = 'feed' "
    news += "and variant = "
    assert number(logs, "candidates", news + "'treatment'") == 0
    assert number(logs, "candidates", news + "'control'") > 0.3
    learned = "select count(*) from training where item_id in "
    learned += "(select item_id from log where category = 'news')"
    assert number(logs, "training_policy", learned) == 0
    assert number(logs, "none", learned) > 1_000
    assert number(logs, "training_policy", news + "'treatment'") > 0.3
    assert number(logs, "training_policy", "select count(distinct policy) from training") == 1


def test_the_command_writes_what_analyze_and_replay_read(tmp_path):
    folder = tmp_path / "planted"
    options = ["timeouts", "--impressions", "20000", "--seed", "3"]
    command = [sys.executable, "-m", "benchmarks.plants", str(folder), *options]
    subprocess.run(command, check=True)  # noqa: S603
    truth = json.loads((folder / "truth.json").read_text())
    assert (truth["plant"], truth["cause"]) == ("timeouts", "serving")
    experiment = abeval.load(folder / "experiment.toml")
    result, replay = experiment.analyze(), experiment.replay(k=(5,), metrics=["auc"])
    assert {check.name: check.status for check in result.trust}["served:timeout"] == "warn"
    assert result.compare(replay).explanations
    assert {(row.model, row.traffic) for row in replay.rows} >= {("candidate", "control")}
    again = simulate_plant(tmp_path / "again", "timeouts", 20_000, seed=3)
    assert again.clicks == truth["clicks"]
    assert (tmp_path / "again" / "impressions" / "log.parquet").read_bytes() == (
        folder / "impressions" / "log.parquet"
    ).read_bytes()


def test_an_unknown_cause_names_the_others(tmp_path):
    with pytest.raises(ExperimentError, match="no cause 'stale' to plant") as refused:
        simulate_plant(tmp_path / "no", "stale")
    assert "stale_model" in str(refused.value.hint)
    assert not (tmp_path / "no").exists()


def test_the_fit_recovers_a_known_model():
    rng = np.random.default_rng(1)
    view = rng.standard_normal(100_000)
    model = fitted(view, rng.random(len(view)) < probability(-1.5 + 0.8 * view))
    assert model.intercept == pytest.approx(-1.5, abs=0.05)
    assert model.slope == pytest.approx(0.8, abs=0.05)


def test_rounding_to_bits_is_that_of_numpy():
    values = np.random.default_rng(2).uniform(0.01, 900, 1_000)
    assert (rounded_to_bits(values, 11) == values.astype(np.float16)).all()
