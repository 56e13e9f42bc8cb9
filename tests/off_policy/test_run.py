"""Off-policy evaluation from logs: the public A/B test, policies given three ways, hostile logs."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import abeval
from abeval.api import LoadedExperiment
from abeval.cli.main import app
from abeval.errors import ExperimentError, LogError
from abeval.results import format as fmt
from tests.real_logs import need, open_bandit
from tests.report.pages import figures, parse, whole, words

pytestmark = pytest.mark.whole


VECTORS = json.loads((Path(__file__).parent / "vectors" / "off_policy.json").read_text())
ZOZO, EMPIRICAL, FROM_BTS, SANITY, TOP = VECTORS["ope"]
NAMES = {
    "ips": "IPS",
    "clipped_ips[2]": "clipped_IPS_2",
    "clipped_ips[5]": "clipped_IPS_5",
    "clipped_ips[10]": "clipped_IPS_10",
    "snips": "SNIPS",
}


def close(expected: float) -> Any:
    return pytest.approx(expected, abs=1e-10, rel=0)


def policy_table(direction: str) -> pd.DataFrame:
    """The vectors' policy, as a user would give it."""
    zozo, empirical = (np.array(counts, dtype=float) for counts in VECTORS["policies"].values())
    counts = {ZOZO: zozo, EMPIRICAL: empirical}.get(direction, np.ones((34, 3)))
    item, position = np.indices(counts.shape).reshape(2, -1)
    probability = (counts / counts.sum(axis=0)).ravel()
    return pd.DataFrame({"item_id": item, "position": position + 1, "probability": probability})


@pytest.mark.parametrize("direction", [ZOZO, EMPIRICAL, FROM_BTS, SANITY])
def test_open_bandit_by_a_table(direction: str) -> None:
    source = "bts" if direction == FROM_BTS else "random"
    found = open_bandit().off_policy(source, policy=policy_table(direction), clip=(2, 5, 10))
    expected = VECTORS["ope"][direction]
    for ours, theirs in NAMES.items():
        assert found[ours].value == close(expected[theirs]["value"])
        assert found[ours].se == close(expected[theirs]["se_iid"])
    # The folds are by hash here and by row there, so that only the direct method's model differs.
    for ours, theirs in (("dr", "DR"), ("sndr", "SNDR"), ("dm", "DM")):
        assert found[ours].value == pytest.approx(expected[theirs]["value"], abs=3e-4)
    assert found.support is not None
    assert found.support.reason is None
    assert found.support.ess == pytest.approx(expected["diagnostics"]["ess"], rel=1e-9)
    assert found.support.unsupported == 0
    assert found.realised is None
    if direction == FROM_BTS:
        assert found["replay"].reason == "unsupported_by_logging"
        assert found["replay"].value is None
    else:
        assert found["replay"].value == close(expected["SNIPS"]["value"])


def test_open_bandit_by_the_other_variants_log() -> None:
    found, expected = open_bandit().off_policy("random", to="bts"), VECTORS["ope"][EMPIRICAL]
    assert found["snips"].value == close(expected["SNIPS"]["value"])
    assert found["snips"].se == close(expected["SNIPS"]["se_iid"])
    assert found.realised is not None
    assert found.realised.value == close(expected["truth_onpolicy"])
    for row in found.rows:
        assert row.low is not None
        assert row.high is not None
        assert row.low < found.realised.value < row.high
        assert row.z == pytest.approx(
            (row.value - 0.0069) / math.hypot(row.se, found.realised.se), rel=1e-9
        )
    # What 46 clicks can tell is far from the spread of the predictions.
    assert found["dm"].se > 1e-3


def test_open_bandit_top_items_have_a_value_and_no_interval() -> None:
    top = pd.DataFrame({"item_id": [13], "probability": [1.0]})
    found = open_bandit().off_policy("random", policy=top)
    assert found["ips"].value == close(VECTORS["ope"][TOP]["IPS"])
    assert found["replay"].value == close(VECTORS["ope"][TOP]["replay_value"])
    assert (found["ips"].low, found["ips"].reason) == (None, "too_few_rewards")
    assert "effective clicks" in str(found["ips"].message)


def test_open_bandit_tiny_effective_sample_is_refused() -> None:
    log = pd.read_parquet(need("open_bandit/men_bts.parquet"))
    seldom = int(log.item_id.value_counts().index[-1])
    only = pd.DataFrame({"item_id": [seldom], "probability": [1.0]})
    found = open_bandit().off_policy("bts", policy=only)
    assert {row.reason for row in found.rows} == {"unsupported_by_logging"}
    assert {row.value for row in found.rows} == {None}
    assert found.support is not None
    assert found.support.ess < 100
    assert "effective sample size" in str(found.support.message)


# A log of our own


def world(users: int = 400, rows: int = 6, seed: int = 0) -> pd.DataFrame:
    """Users of two variants with different policies over five items at two positions."""
    rng, n = np.random.default_rng(seed), users * rows
    logging = {
        "a": np.array([[0.4, 0.2, 0.2, 0.1, 0.1], [0.2] * 5]),
        "b": np.array([[0.1, 0.1, 0.2, 0.2, 0.4], [0.3, 0.1, 0.1, 0.1, 0.4]]),
    }
    user = np.repeat(np.arange(users), rows)
    variant = np.where(rng.permutation(users) % 2 == 0, "a", "b")[user]
    position = rng.integers(0, 2, n)
    table = np.where((variant == "a")[:, None], logging["a"][position], logging["b"][position])
    item = (rng.random(n)[:, None] > table.cumsum(axis=1)).sum(axis=1).clip(0, 4)
    return pd.DataFrame(
        {
            "user_id": user,
            "request_id": np.arange(n),
            "variant": variant,
            "position": position + 1,
            "item_id": item,
            "click": rng.binomial(1, 0.1 + 0.1 * item),
            "propensity": table[np.arange(n), item],
            "p_new": logging["b"][position, item],
        }
    )


def experiment(**entries: Any) -> LoadedExperiment:
    base = {
        "name": "policies",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "logs": {"impressions": {"path": "none.parquet"}},
    }
    return abeval.define(**{**base, **entries})


def evaluate(log: pd.DataFrame, **arguments: Any) -> Any:
    return experiment().off_policy("a", logs={"impressions": log}, **arguments)


B = pd.DataFrame(
    {
        "position": np.repeat([1, 2], 5),
        "item_id": np.tile(np.arange(5), 2),
        "probability": [0.1, 0.1, 0.2, 0.2, 0.4, 0.3, 0.1, 0.1, 0.1, 0.4],
    }
)


def test_a_column_and_a_table_of_one_policy_agree() -> None:
    log = world()
    table, column = evaluate(log, policy=B), evaluate(log, probability="p_new")
    for name in ("ips", "clipped_ips[10]", "snips"):
        assert column[name].value == pytest.approx(table[name].value, rel=1e-12)
        assert column[name].se == pytest.approx(table[name].se, rel=1e-12)
    assert {column[name].reason for name in ("dm", "dr", "sndr")} == {"not_applicable"}
    assert column.support.unsupported is None
    assert (table.policy, column.policy) == ("table", "column p_new")


def test_values_and_clustered_errors_are_those_of_plain_pandas() -> None:
    log = world()
    found = evaluate(log, policy=B)
    rows = log[log.variant == "a"]
    w = rows.p_new / rows.propensity
    snips = (w * rows.click).sum() / w.sum()
    residual = (w * (rows.click - snips)).groupby(rows.user_id).sum()
    units = len(residual)
    se = math.sqrt(units / (units - 1) * (residual**2).sum()) / w.sum()
    assert found["ips"].value == pytest.approx((w * rows.click).mean(), rel=1e-12)
    assert found["snips"].value == pytest.approx(snips, rel=1e-12)
    assert found["snips"].se == pytest.approx(se, rel=1e-9)
    assert found["snips"].method == "clustered_delta_hall"
    assert found.support.units == units
    assert found.support.ess == pytest.approx(w.sum() ** 2 / (w**2).sum(), rel=1e-12)


def test_the_empirical_policy_is_the_frequencies_by_position() -> None:
    log = world()
    found = evaluate(log, to="b")
    shown = log[log.variant == "b"].groupby(["position", "item_id"]).size()
    share = shown / shown.groupby("position").sum()
    table = share.rename("probability").reset_index()
    again = evaluate(log, policy=table)
    for row in again.rows:
        if row.estimator != "replay":
            assert found[row.estimator].value == pytest.approx(row.value, rel=1e-12), row.estimator
    real = log[log.variant == "b"].click.mean()
    assert found.realised.value == pytest.approx(real, rel=1e-12)
    assert abs(found["dr"].z) < 4


def test_the_order_of_the_log_changes_nothing_at_all() -> None:
    log = world()
    found = evaluate(log, to="b").to_json()
    assert evaluate(log.sample(frac=1, random_state=3), to="b").to_json() == found


def test_positions_may_be_missing_from_the_log_or_the_table() -> None:
    log = world()
    everywhere = pd.DataFrame({"item_id": range(5), "probability": 0.2})
    both = pd.concat([everywhere.assign(position=p) for p in (1, 2)])
    assert evaluate(log, policy=everywhere).rows == evaluate(log, policy=both).rows
    without = evaluate(log.drop(columns="position"), policy=everywhere)
    assert without["ips"].value == pytest.approx(evaluate(log, policy=both)["ips"].value)


def test_rows_of_a_unit_served_by_another_variant_are_not_of_this_policy() -> None:
    log = world()
    crossed = log[log.user_id == log.user_id[log.variant == "a"].iloc[0]].copy()
    crossed["variant"], crossed["propensity"] = "b", 0.0
    crossed["request_id"] += 10_000
    found = evaluate(pd.concat([log, crossed]), policy=B)
    assert found.support.rows <= (log.variant == "a").sum()
    assert found["ips"].reason is None


@pytest.mark.parametrize("value", [0.0, -0.2, 1.5, math.nan, math.inf, None])
def test_what_is_no_propensity_is_refused_and_nothing_is_estimated(value: float | None) -> None:
    log = world()
    log.loc[log.index[log.variant == "a"][:3], "propensity"] = value
    found = evaluate(log, policy=B)
    assert {row.reason for row in found.rows} == {"invalid_propensity"}
    assert "3 of" in str(found.rows[0].message)
    assert found.support is None
    json.loads(found.to_json())


@pytest.mark.parametrize("value", [-0.2, 1.5, math.nan])
def test_what_is_no_evaluation_probability_is_refused(value: float) -> None:
    log = world()
    log.loc[log.index[log.variant == "a"][:3], "p_new"] = value
    found = evaluate(log, probability="p_new")
    assert {row.reason for row in found.rows} == {"invalid_propensity"}


def test_a_policy_on_what_was_never_shown_is_refused() -> None:
    new = pd.DataFrame({"item_id": [0, 99], "probability": [0.8, 0.2]})
    found = evaluate(world(), policy=new)
    assert {row.reason for row in found.rows} == {"unsupported_by_logging"}
    assert found.support.unsupported == pytest.approx(0.2)
    assert "20.0 % of the policy" in found.support.message
    little = pd.DataFrame({"item_id": [0, 1, 2, 99], "probability": [0.3, 0.3, 0.36, 0.04]})
    partly = evaluate(world(), policy=little)
    assert partly["ips"].value is not None
    assert any("4 % of the policy" in note for note in partly.notes)


def test_propensities_that_are_not_of_this_log_are_found_out() -> None:
    log = world()
    log["propensity"] = (log["propensity"] / 2).clip(lower=0.01)
    found = evaluate(log, policy=B)
    assert found["snips"].reason == "weights_not_one"
    assert found["snips"].value is None
    # The direct method has no use for propensities.
    assert found["dm"].value == pytest.approx(evaluate(world(), policy=B)["dm"].value)


def test_a_policy_that_is_no_distribution_is_refused() -> None:
    found = evaluate(world(), policy=B.assign(probability=B.probability / 2))
    assert {row.reason for row in found.rows} == {"inconsistent"}
    assert "sums to 0.5" in str(found.rows[0].message)
    only_first = evaluate(world(), policy=B[B.position == 1])
    assert {row.reason for row in only_first.rows} == {"inconsistent"}


def test_impressions_without_an_item_are_set_aside_and_counted() -> None:
    log = world()
    log["item_id"] = log["item_id"].astype("Int64")
    gone = log.index[log.variant == "a"][:7]
    log.loc[gone, "item_id"] = pd.NA
    found = evaluate(log, policy=B)
    assert found.set_aside == 7
    assert found.support.rows == (log.variant == "a").sum() - 7
    assert any("7 impressions without an item" in note for note in found.notes)
    assert evaluate(log, probability="p_new").set_aside == 0


def test_a_log_without_clicks_has_no_interval() -> None:
    found = evaluate(world().assign(click=0), policy=B)
    assert {(row.value, row.low, row.reason) for row in found.rows if row.value is not None} == {
        (0.0, None, "zero_variance")
    }


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (lambda log: log.drop(columns="propensity"), {"policy": B}, "column `propensity`"),
        (lambda log: log.assign(propensity="x"), {"policy": B}, "propensity must be a number"),
        (lambda log: log.drop(columns="item_id"), {"to": "b"}, "column `item_id`"),
        (lambda log: log, {"probability": "p_nwe"}, "did you mean `p_new`"),
        (
            lambda log: log.assign(p_new="x"),
            {"probability": "p_new"},
            "probability must be a number",
        ),
        (lambda log: log, {"policy": B.drop(columns="item_id")}, "no column 'item_id'"),
        (lambda log: log, {"policy": pd.concat([B, B.head(1)])}, "is repeated at position 1"),
        (lambda log: log, {"policy": B.assign(item_id="x")}, "no usable item"),
        (
            lambda log: log.assign(
                item_id=log["item_id"].astype("Int64").where(log["variant"] == "b")
            ),
            {"policy": B},
            "no impression of variant 'a' has an item_id",
        ),
        (lambda log: log[log["variant"] == "b"], {"policy": B}, "variant 'a' has no impressions"),
        (
            lambda log: log,
            {"policy": B.assign(probability=None)},
            "no usable item id or probability",
        ),
    ],
)
def test_what_is_to_be_mended_is_said(change: Any, arguments: Any, message: str) -> None:
    with pytest.raises(LogError, match=message):
        evaluate(change(world()), **arguments)


def test_arguments_that_make_no_sense() -> None:
    logs = {"impressions": world()}
    for source, arguments, message in (
        ("a", {}, "one policy"),
        ("a", {"to": "b", "policy": B}, "one policy"),
        ("a", {"to": "bb"}, "no variant is called 'bb'"),
        ("aa", {"to": "b"}, "no variant is called 'aa'"),
        ("a", {"to": "b", "clip": (0.0,)}, "must be positive"),
        ("a", {"to": "b", "min_ess": -1.0}, "min_ess -1.0: use a number from 0"),
    ):
        with pytest.raises(ExperimentError, match=message):
            experiment().off_policy(source, logs=logs, **arguments)


def test_command_line_writes_what_the_api_gives(tmp_path: Path) -> None:
    log = world()
    log.to_parquet(tmp_path / "log.parquet")
    B.to_csv(tmp_path / "policy.csv", index=False)
    toml = 'name = "policies"\nunit = "user_id"\ncontrol = "a"\n[variants.a]\n[variants.b]\n'
    toml += '[logs.impressions]\npath = "log.parquet"\n'
    (tmp_path / "experiment.toml").write_text(toml)
    file, out = str(tmp_path / "experiment.toml"), tmp_path / "out.json"
    for given, arguments in (
        (["--to", "b"], {"to": "b"}),
        (["--policy", str(tmp_path / "policy.csv"), "--clip", "3"], {"policy": B, "clip": (3,)}),
        (["--probability", "p_new"], {"probability": "p_new"}),
    ):
        ran = CliRunner().invoke(app, ["off-policy", file, "--from", "a", *given, "--json", out])
        assert ran.exit_code == 0, ran.output
        assert out.read_text() == evaluate(log, **arguments).to_json()
        assert "snips" in ran.stdout
    assert json.loads(out.read_text())["rows"][0]["estimator"] == "replay"


def test_the_page_says_what_the_terminal_says(tmp_path: Path) -> None:
    found = evaluate(world(), to="b")
    text = found.report(tmp_path / "page.html").read_text()
    page = parse(whole(text))
    said = {section.attributes["id"]: words(section) for section in page.all("section")}
    valued = [row for row in found.rows if row.value is not None]
    for row in valued:
        assert f"{row.estimator} {row.value:.6g}" in said["estimates"]
    assert found.realised is not None
    assert f"{found.realised.value:.6g}" in said["estimates"]
    assert found.support is not None
    assert f"{found.support.mean_weight:.4f}" in said["support"]
    assert all(fmt.typeset_numbers(note) in said["doubts"] for note in found.notes)
    drawn = figures(text)["drawn"]
    # To the four digits that a page keeps of a figure.
    assert drawn["data"][0]["x"] == pytest.approx([row.value for row in valued], rel=5e-4)
    assert drawn["layout"]["shapes"][0]["x0"] == pytest.approx(found.realised.value, rel=5e-4)


def test_a_page_of_a_refused_policy_says_why(tmp_path: Path) -> None:
    text = evaluate(world().assign(propensity=2.0), to="b").report(tmp_path / "p.html").read_text()
    said = words(parse(whole(text)).all("main")[0])
    assert "cannot tell" in said
    assert "invalid propensity" in said
    assert not figures(text)


def test_report_reads_the_json_again(tmp_path: Path) -> None:
    found = evaluate(world(), to="b")
    (tmp_path / "o.json").write_text(found.to_json())
    args = ["report", str(tmp_path / "o.json")]
    ran = CliRunner().invoke(app, [*args, "--output", str(tmp_path / "again.html")])
    assert ran.exit_code == 0, ran.output
    own = found.report(tmp_path / "own.html").read_text()
    assert (tmp_path / "again.html").read_text() == own
    ran = CliRunner().invoke(app, [*args, "--format", "md"])
    assert "| snips |" in ran.output
    ran = CliRunner().invoke(app, [*args, str(tmp_path / "o.json"), "--format", "md"])
    assert ran.exit_code != 0


def test_result_as_a_frame() -> None:
    found = evaluate(world(), to="b", clip=(2, 10), switch=(5,), shrink=(1, 100))
    frame = found.to_frame().set_index("estimator")
    assert list(frame.index) == [
        *("replay", "ips", "clipped_ips[2]", "clipped_ips[10]", "snips"),
        *("dm", "dr", "sndr", "switch_dr[5]", "dros[1]", "dros[100]"),
    ]
    assert frame.loc["ips", "value"] == found["ips"].value
    with pytest.raises(KeyError, match="there are replay"):
        found["ipps"]


def test_any_column_may_be_the_reward() -> None:
    log = world()
    paid = log.assign(paid=2.5 * log["click"])
    clicks, money = evaluate(log, to="b"), evaluate(paid, to="b", reward="paid")
    for name in ("ips", "snips", "dm", "dr"):
        for field in ("value", "se", "low", "high"):
            theirs = getattr(clicks[name], field)
            assert getattr(money[name], field) == pytest.approx(2.5 * theirs, rel=1e-9)
    assert money.realised.value == pytest.approx(2.5 * clicks.realised.value)


@pytest.mark.parametrize("bad", [np.nan, -1.0, np.inf])
def test_a_reward_that_is_none_is_refused(bad: float) -> None:
    log = world()
    log["paid"] = np.where(log.index == 3, bad, 1.0)
    with pytest.raises(LogError, match="no usable value"):
        evaluate(log, to="b", reward="paid")
