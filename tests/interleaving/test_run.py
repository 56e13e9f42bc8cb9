"""Which ranker users prefer, from a log of interleaved lists to verdict, checks and page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import abeval
from abeval.cli.main import app
from abeval.errors import ExperimentError, LogError
from abeval.results.interleaving import InterleavingResult
from abeval.stats.interleaving import preference
from tests.interleaving.world import experiment, log

pytestmark = pytest.mark.whole


BETTER = {"A": 0.15, "B": 0.25}


@pytest.fixture(scope="module")
def better() -> pd.DataFrame:
    return log(like=BETTER)


def asked(frame: pd.DataFrame, **changes: object) -> InterleavingResult:
    rankers = str(changes.pop("rankers", "AB"))
    more = changes.pop("logs_beside", {})
    return experiment(rankers, **changes).preferences(logs={"impressions": frame, **more})


def by_hand(frame: pd.DataFrame, value: str = "click") -> tuple[np.ndarray, np.ndarray]:
    """Credit of each user, without the places down to which both rank the same item alike."""
    rows = frame.sort_values(["request_id", "position"])
    same = (rows.rank_A == rows.position) & (rows.rank_B == rows.position)
    counts = ~same.groupby(rows.request_id).cummin().astype(bool)
    worth = rows[value] * counts
    sums = worth.groupby([rows.user_id, rows.team]).sum().unstack(fill_value=0)
    return sums["A"].to_numpy(float), sums["B"].to_numpy(float)


def test_preferences_are_those_computed_by_hand(better: pd.DataFrame):
    result = asked(better)
    for metric, column in (("clicks_per_user", "click"), ("dwell_per_user", "dwell")):
        a, b = by_hand(better, column)
        row, expected = result[metric], preference(a, b)
        assert row.preference == pytest.approx(expected.value)
        assert (row.low, row.high) == pytest.approx((expected.low, expected.high))
        assert row.p_value == pytest.approx(expected.p_value)
        assert row.units == expected.units
        assert (row.credit_base, row.credit) == pytest.approx((a.sum(), b.sum()))
        assert (row.won, row.lost) == (int((b > a).sum()), int((b < a).sum()))
    assert result.alike > 0
    assert result.lists == better.request_id.nunique()


def test_lists_are_won_by_the_ranker_with_more_clicks(better: pd.DataFrame):
    row = asked(better, interleaving={"ranks": {}})["clicks_per_user"]
    sums = better.groupby(["request_id", "team"]).click.sum().unstack(fill_value=0)
    assert row.lists_won == (sums.B > sums.A).sum()
    assert row.lists_tied == (sums.B == sums.A).sum()


def test_the_verdict_is_what_users_prefer(better: pd.DataFrame):
    result = asked(better)
    assert result.trusted
    assert result.verdicts[0].decision == "ship"
    assert "users prefer B" in result.verdicts[0].sentence
    worse = asked(log(like={"A": 0.3, "B": 0.15}))
    assert worse.verdicts[0].decision == "do_not_ship"
    assert worse["clicks_per_user"].status == "worse"
    even = asked(log(users=60))
    assert even.verdicts[0].decision == "keep_running"
    assert asked(better, questions=["is it so?"]).verdicts[0].decision == "draft"


def test_teams_follow_from_the_salt_alone(better: pd.DataFrame):
    logged = asked(better)
    drafted = asked(better.drop(columns=["team"]), interleaving={"team": None})
    assert drafted.preferences == logged.preferences


def test_teams_of_a_balanced_list_follow_from_the_ranks():
    frame = log(like=BETTER, method="balanced")
    logged = asked(frame, interleaving={"method": "balanced"})
    ranked = asked(frame.drop(columns=["team"]), interleaving={"method": "balanced", "team": None})
    assert ranked.preferences == logged.preferences
    assert any("Balanced lists favour" in note for note in ranked.notes)


@pytest.mark.parametrize("method", ["probabilistic", "optimized"])
def test_credit_of_other_methods_is_the_logged_one(method: str):
    frame = log(like=BETTER, method=method, users=60)
    result = asked(frame, interleaving={"method": method, "credit": "credit", "ranks": {}})
    row = result["clicks_per_user"]
    worth = frame.click * frame.credit
    assert row.credit == pytest.approx(worth[frame.team == "B"].sum(), abs=1e-4)
    assert row.preference is not None
    assert row.preference > 0
    assert result.trusted


def test_a_draft_that_prefers_a_ranker_is_found(better: pd.DataFrame):
    frame = better.copy()
    began = frame[(frame.position == 1) & (frame.team == "A")].request_id.unique()
    turned = frame.request_id.isin(began[: len(began) // 2])
    frame.loc[turned, "team"] = frame.team[turned].map({"A": "B", "B": "A"})
    result = asked(frame, interleaving={"ranks": {}})
    failed = {check.name for check in result.trust if check.status == "fail"}
    assert {"draft_rule", "draft:first_places"} <= failed
    assert result.verdicts[0].decision == "do_not_trust"
    assert result["clicks_per_user"].status == "untrusted"
    unsalted = asked(frame, interleaving={"ranks": {}, "salt": None})
    assert "draft:first_places" in {c.name for c in unsalted.trust if c.status == "fail"}


def test_lists_sorted_after_the_draft_are_found(better: pd.DataFrame):
    frame = better.copy()
    frame["item_id"] = frame.groupby("request_id").item_id.transform(lambda one: one[::-1].values)
    for column in ("rank_A", "rank_B"):
        frame[column] = frame.groupby("request_id")[column].transform(lambda one: one[::-1].values)
    failed = {check.name for check in asked(frame).trust if check.status == "fail"}
    assert failed == {"draft_rule"}


def test_items_twice_lost_places_and_strange_teams_are_counted(better: pd.DataFrame):
    frame = better.copy()
    frame.loc[frame.position == 2, "item_id"] = "i0"
    frame.loc[frame.position == 3, "team"] = "ads"
    frame = frame[(frame.position != 4) | (frame.user_id > 40)]
    statuses = {check.name: check.status for check in asked(frame).trust}
    assert statuses["items_twice"] == "fail"
    assert statuses["list_places"] == "fail"
    assert statuses["no_team"] == "warn"


def test_orders_belong_to_the_last_impression_of_their_item(better: pd.DataFrame):
    own, minute = better[better.user_id == 3], pd.Timedelta(minutes=1)
    shown = own[(own.time == own.time.max()) & own.position.isin([2, 3])]
    rows = [
        {"user_id": 3, "item_id": one.item_id, "time": one.time + minute, "price": 5}
        for one in shown.itertuples()
    ]
    rows.append({**rows[0], "item_id": "never shown"})
    rows.append({**rows[0], "time": own.time.min() - minute})
    result = asked(
        better,
        metrics=[{"name": "revenue", "log": "orders", "value": "price", "per_unit": "sum"}],
        logs={
            "impressions": {"path": "none.parquet", "columns": {"ts": "time"}},
            "events": {"orders": {"path": "none.parquet", "columns": {"ts": "time"}}},
        },
        interleaving={"ranks": {}},
        logs_beside={"orders": pd.DataFrame(rows)},
    )
    row = result["revenue"]
    teams = shown.team.value_counts() * 5
    assert (row.credit_base, row.credit) == (teams.get("A", 0), teams.get("B", 0))
    assert row.lists_won is None
    assert any("orders belong to the last impression" in note for note in result.notes)


def test_debiased_credit_weighs_positions_by_how_seldom_they_are_clicked(better: pd.DataFrame):
    row = asked(better, interleaving={"ranks": {}, "debias": True})["clicks_per_user"]
    rate = better.groupby("position").click.mean()
    worth = better.click / better.position.map(rate)
    sums = worth.groupby(better.team).sum()
    assert row.preference == pytest.approx((sums.B - sums.A) / sums.sum(), abs=1e-4)


def test_three_rankers_are_compared_in_pairs():
    frame = log(like={"A": 0.15, "B": 0.3, "C": 0.15}, rankers="ABC")
    result = asked(frame, rankers="ABC")
    pairs = [(row.ranker, row.base) for row in result.preferences if row.role == "goal"]
    assert pairs == [("B", "A"), ("C", "A"), ("C", "B")]
    assert [verdict.decision for verdict in result.verdicts] == ["ship", "keep_running"]
    assert result["clicks_per_user", "C", "B"].status == "worse"
    row = result["clicks_per_user", "B", "A"]
    assert row.p_adjusted is not None
    assert row.p_value is not None
    assert row.p_adjusted > row.p_value
    assert result.trusted


def test_first_positions_may_be_0(better: pd.DataFrame):
    ranks = {name: better[name] - 1 for name in ("position", "rank_A", "rank_B")}
    source = {"path": "none.parquet", "columns": {"ts": "time"}, "first_position": 0}
    result = asked(better.assign(**ranks), logs={"impressions": source})
    assert result.preferences == asked(better).preferences


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"interleaving": {"team": None, "salt": None}}, "names the column of an item's ranker"),
        ({"interleaving": {"ranks": {"A": "rank_a"}}}, "must name each ranker once"),
        ({"rankers": "ABC", "interleaving": {"method": "optimized"}}, "two rankers, not 3"),
        ({"assignment": {"salt": "x"}}, "rankers in one list have the same users"),
        ({"variants": {"A": {"weight": 2}, "B": {}}}, "rankers draft alike"),
        ({"metrics": [{"name": "clicks_per_user", "cap": 0.99}]}, "no margin and no cap"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(changes, says):
    with pytest.raises(ExperimentError, match=says):
        experiment(changes.pop("rankers", "AB"), **changes)


def test_what_has_nothing_to_credit_is_refused(better: pd.DataFrame):
    with pytest.raises(ExperimentError, match="'ctr' has nothing to credit"):
        asked(better, metrics=[{"name": "ctr"}])
    with pytest.raises(LogError, match="the impressions have a variant"):
        asked(better.assign(variant="A"))
    with pytest.raises(LogError, match="need each impression's position"):
        asked(better.drop(columns=["position"]))


def test_other_questions_are_refused_with_one_message(better: pd.DataFrame):
    loaded = experiment()
    for ask in (loaded.analyze, loaded.windows, loaded.check, loaded.agree):
        with pytest.raises(ExperimentError, match="has interleaved lists"):
            ask(logs={"impressions": better})


def test_the_command_prints_and_writes_it(better: pd.DataFrame, tmp_path: Path):
    better.to_parquet(tmp_path / "log.parquet")
    (tmp_path / "experiment.toml").write_text(
        'name = "mixed"\nunit = "user_id"\ncontrol = "A"\n[variants]\nA = {}\nB = {}\n'
        '[interleaving]\nteam = "team"\nsalt = "mix-1"\nranks = { A = "rank_A", B = "rank_B" }\n'
        '[logs.impressions]\npath = "log.parquet"\ncolumns = { ts = "time" }\n'
    )
    page, written = tmp_path / "page.html", tmp_path / "result.json"
    command = ["analyze", str(tmp_path / "experiment.toml"), "--gate"]
    run = CliRunner().invoke(app, [*command, "--report", str(page), "--json", str(written)])
    assert run.exit_code == 0, run.output
    assert run.stdout.startswith("SHIP: users prefer B to A: clicks_per_user")
    assert "Trust:" in run.stdout
    saved = json.loads(written.read_text())
    assert saved["preferences"][0]["status"] == "better"
    html = page.read_text()
    assert "Users prefer B" in html
    assert "draft:first_places" in html
    again = tmp_path / "again.html"
    CliRunner().invoke(app, ["report", str(written), "--output", str(again)])
    assert again.read_text() == html
    printed = CliRunner().invoke(app, [*command, "--format", "md"])
    CliRunner().invoke(app, [*command, "--report", str(tmp_path / "result.md")])
    assert (tmp_path / "result.md").read_text() == printed.stdout
    assert "**Preferences**" in printed.stdout
    refused = CliRunner().invoke(app, [*command, "--checks"])
    assert refused.exit_code != 0


def test_markdown_has_verdict_and_preferences(better: pd.DataFrame):
    text = asked(better).to_markdown()
    assert "users prefer B" in text
    assert "| clicks\\_per\\_user |" in text


def test_leaving_out_the_common_top_favours_nobody():
    """Leaving out every item that both rank alike would: which one comes first is drafted."""
    lists = {"A": ["k", "a", "c", "x", "y"], "B": ["k", "c", "d", "x", "z"]}
    nets = {"top": [], "anywhere": []}
    for request in range(2_000):
        shown = abeval.interleave(lists, salt="s", request_id=request, length=5)
        same = {item for item, other in zip(*lists.values(), strict=True) if item == other}
        top = {one.item for one in shown if one.item == "k" and one.position == 1}
        for rule, left_out in (("top", top), ("anywhere", same)):
            counted = [one for one in shown if one.item not in left_out and one.position <= 4]
            nets[rule].append(sum(1 if one.team == "B" else -1 for one in counted))
    means = {rule: np.mean(net) / (np.std(net) / len(net) ** 0.5) for rule, net in nets.items()}
    assert abs(means["top"]) < 4
    assert abs(means["anywhere"]) > 8


def test_a_plan_says_the_users_of_a_preference_and_of_an_ab_test(better: pd.DataFrame):
    loaded, logs = experiment(interleaving={"ranks": {}}), {"impressions": better}
    plan = loaded.power(mde=0.05, logs=logs)["clicks_per_user"]
    row, reach = loaded.preferences(logs=logs)["clicks_per_user"], 1.959964 + 0.841621
    clicks = better.groupby("user_id").click.sum()
    assert plan.baseline == row.preference
    needed = (reach * row.se / 0.05) ** 2 * len(clicks)
    assert plan.units == pytest.approx(needed, rel=1e-6)
    # Clicks of half of the places, twice: variants differ by 2 · 5 % of all clicks of a user.
    difference = 0.1 * clicks.mean()
    in_test = 4 * clicks.var() * (reach / difference) ** 2
    assert plan.units_test == pytest.approx(in_test, rel=1e-6)
    assert plan.units_test > plan.units
    own = loaded.power(logs=logs)["clicks_per_user"]
    assert own.mde is not None
    assert own.units == pytest.approx(len(clicks))
    assert loaded.power(mde=own.mde, logs=logs)["clicks_per_user"].units == pytest.approx(own.units)


def test_a_plan_is_refused_in_days_and_of_what_is_not_credited(better: pd.DataFrame):
    with pytest.raises(ExperimentError, match="planned in units"):
        experiment().power(days=3, logs={"impressions": better})
    with pytest.raises(ExperimentError, match="'ctr' is not credited"):
        experiment().power(metrics=["ctr"], logs={"impressions": better})
    one_sided = better.assign(click=better.click * (better.team == "B"))
    plan = experiment().power(logs={"impressions": one_sided})["clicks_per_user"]
    assert (plan.units, plan.reason) == (None, "zero_variance")


def test_simulated_lists_are_judged_in_two_commands(tmp_path: Path):
    run = CliRunner().invoke(app, ["tools", "simulate", str(tmp_path), "--design", "interleaving"])
    assert run.output.strip() == str(tmp_path / "experiment.toml")
    judged = CliRunner().invoke(app, ["analyze", str(tmp_path / "experiment.toml"), "--gate"])
    assert judged.exit_code == 0, judged.output
    assert judged.stdout.startswith("SHIP: users prefer new to old")
    assert "15 checks passed" in judged.stdout
    lift = json.loads((tmp_path / "truth.json").read_text())["lift"]["clicks_per_list"]
    assert lift > 0.1
    rows = pd.read_parquet(tmp_path / "impressions.parquet")
    assert rows.groupby("user_id").request_id.nunique().min() == 1
    before = rows.request_id.nunique()
    CliRunner().invoke(
        app, ["tools", "simulate", str(tmp_path), "--design", "interleaving", "--seed", "8"]
    )
    assert pd.read_parquet(tmp_path / "impressions.parquet").request_id.nunique() != before
    refused = CliRunner().invoke(
        app, ["tools", "simulate", str(tmp_path / "x"), "--design", "interleaving", "--past", "2"]
    )
    assert refused.exit_code != 0
