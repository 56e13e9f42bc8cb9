"""`abeval init` of an impression log with the logs beside it: exposures, units and events."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.drafts.run import Draft, draft_files
from abeval.errors import ExperimentError, LogError

pytestmark = pytest.mark.whole


START = pd.Timestamp("2026-07-01")


@pytest.fixture
def logs(tmp_path: Path) -> dict[str, pd.DataFrame]:
    """Impressions without a variant, who was exposed to what, orders, and who the users are."""
    rng = np.random.default_rng(5)
    users = np.arange(1000, 1600)
    seen = START + pd.to_timedelta(rng.integers(0, 5 * 86400, 600), unit="s")
    return {
        "impressions": pd.DataFrame(
            {
                "user_id": rng.choice(users, 3000),
                "video_id": rng.integers(0, 300, 3000),
                "ts": START + pd.to_timedelta(rng.integers(0, 10 * 86400, 3000), unit="s"),
                "is_click": (rng.random(3000) < 0.2).astype(int),
            }
        ),
        "exposures": pd.DataFrame(
            {"user_id": users, "ab_group": rng.choice(["control", "new"], 600), "exposed_at": seen}
        ),
        "shop orders": pd.DataFrame(
            {
                "order_id": np.arange(400),
                "customer_id": rng.choice(users, 400).astype(float),
                "ordered_at": START + pd.to_timedelta(rng.integers(0, 10 * 86400, 400), unit="s"),
                "amount": rng.lognormal(2, 1, 400).round(2),
                "is_returned": rng.random(400) < 0.1,
            }
        ),
        "people": pd.DataFrame({"user_id": users, "country": rng.choice(["de", "fr"], 600)}),
    }


def drafted(logs: dict[str, pd.DataFrame], folder: Path) -> Draft:
    files = [folder / f"{name}.csv" for name in logs]
    for file, frame in zip(files, logs.values(), strict=True):
        frame.to_csv(file, index=False)
    draft = draft_files(files, folder)
    (folder / "e.toml").write_text(draft.text)
    return draft


def test_every_log_finds_its_place_and_the_file_gives_the_numbers_of_pandas(
    logs: dict[str, pd.DataFrame], tmp_path: Path
) -> None:
    draft = drafted(logs, tmp_path)
    entries = tomllib.loads(draft.text)
    assert list(entries["logs"]) == ["impressions", "exposures", "units", "events"]
    assert entries["logs"]["exposures"]["columns"]["variant"] == "ab_group"
    assert list(entries["logs"]["events"]) == ["shop_orders"]
    assert draft.questions == ()
    result = abeval.load(tmp_path / "e.toml").replace(trust={"aa_runs": 0}).analyze()
    exposed, orders = logs["exposures"], logs["shop orders"]
    own = orders.merge(exposed, left_on="customer_id", right_on="user_id")
    own = own[own.ordered_at >= own.exposed_at]
    units = exposed.groupby("ab_group").size()
    expected = {
        "any_shop_orders": own.groupby("ab_group").user_id.nunique() / units,
        "shop_orders_amount": own.groupby("ab_group").amount.sum() / units,
        "shop_orders_is_returned": own.groupby("ab_group").is_returned.sum() / units,
    }
    assert {row.metric for row in result.scorecard} == {"ctr", *expected}
    for metric, values in expected.items():
        shown = result[metric]
        assert (shown.control, shown.treatment) == pytest.approx(tuple(values), rel=1e-9)


def test_a_log_that_names_the_variant_keeps_it(
    logs: dict[str, pd.DataFrame], tmp_path: Path
) -> None:
    arms = logs["exposures"].set_index("user_id").ab_group
    logs["impressions"]["ab_group"] = logs["impressions"].user_id.map(arms)
    entries = tomllib.loads(drafted(logs, tmp_path).text)
    assert entries["logs"]["impressions"]["columns"]["variant"] == "ab_group"
    assert "exposures" in entries["logs"]


def test_events_of_others_or_of_no_known_time_are_asked(
    logs: dict[str, pd.DataFrame], tmp_path: Path
) -> None:
    logs["shop orders"]["customer_id"] += 1e6
    logs["visits"] = logs["shop orders"][["customer_id"]].assign(place="x", customer_id=1001)
    draft = drafted(logs, tmp_path)
    for name in ("shop orders", "visits"):
        assert any(q.startswith(f"{name}.csv is not used") for q in draft.questions)
    assert "events" not in tomllib.loads(draft.text)["logs"]


def test_exposures_alone_are_the_table(logs: dict[str, pd.DataFrame], tmp_path: Path) -> None:
    entries = tomllib.loads(drafted({"exposures": logs["exposures"]}, tmp_path).text)
    assert set(entries["variants"]) == {"control", "new"}


def test_the_variant_of_exposures_is_the_column_whose_values_are_the_variants(
    logs: dict[str, pd.DataFrame], tmp_path: Path
) -> None:
    """Another column comes first by its name, but the users change it."""
    twice = pd.concat([logs["exposures"]] * 2, ignore_index=True)
    logs["exposures"] = twice.assign(variant=["x"] * 600 + ["y"] * 600)
    entries = tomllib.loads(drafted(logs, tmp_path).text)
    assert set(entries["variants"]) == {"control", "new"}
    assert entries["logs"]["exposures"]["columns"]["variant"] == "ab_group"


def test_events_get_names_that_are_free(logs: dict[str, pd.DataFrame], tmp_path: Path) -> None:
    for name in ("log", "clicks", "clicks.old"):
        logs[name] = logs["shop orders"].rename(columns={"order_id": f"{name}_id"})
    entries = tomllib.loads(drafted(logs, tmp_path).text)
    assert {*entries["logs"]["events"]} == {"shop_orders", "log_2", "clicks_2", "clicks_3"}
    assert abeval.load(tmp_path / "e.toml").experiment.logs.events


def test_orders_of_one_row_a_unit_are_events(logs: dict[str, pd.DataFrame], tmp_path: Path) -> None:
    """They were a table of units without a metric, and nothing said so."""
    orders = logs["shop orders"].sort_values("ordered_at").drop_duplicates("customer_id")
    draft = drafted({**logs, "shop orders": orders}, tmp_path)
    assert list(tomllib.loads(draft.text)["logs"]["events"]) == ["shop_orders"]
    assert 'name = "shop_orders_amount"' in draft.text


def test_sign_ups_before_the_first_impression_describe_units(
    logs: dict[str, pd.DataFrame], tmp_path: Path
) -> None:
    joined = START - pd.to_timedelta(np.arange(len(logs["people"])), unit="h")
    logs["people"] = logs["people"].assign(joined_at=joined)
    entries = tomllib.loads(drafted(logs, tmp_path).text)
    assert entries["logs"]["units"]["path"] == "people.csv"


def test_outcomes_of_a_table_of_units_are_metrics(
    logs: dict[str, pd.DataFrame], tmp_path: Path
) -> None:
    people = logs["people"].assign(revenue=np.arange(len(logs["people"])) % 7)
    logs["people"] = people
    drafted(logs, tmp_path)
    result = abeval.load(tmp_path / "e.toml").replace(trust={"aa_runs": 0}).analyze()
    arms = logs["exposures"].set_index("user_id").ab_group
    expected = people.groupby(people.user_id.map(arms)).revenue.mean()
    shown = result["revenue"]
    assert (shown.control, shown.treatment) == pytest.approx(tuple(expected), rel=1e-9)


def test_times_with_and_without_a_zone_are_asked(
    logs: dict[str, pd.DataFrame], tmp_path: Path
) -> None:
    logs["shop orders"]["ordered_at"] = logs["shop orders"].ordered_at.dt.tz_localize("UTC")
    draft = drafted(logs, tmp_path)
    assert [q[:5] for q in draft.questions] == ["zone:"] * 2
    result = abeval.load(tmp_path / "e.toml").replace(trust={"aa_runs": 0}).analyze()
    assert result.questions == draft.questions


def test_orders_of_a_whole_shop_are_used_and_asked_about(
    logs: dict[str, pd.DataFrame], tmp_path: Path
) -> None:
    """Of three orders two were other people's: the file was not used."""
    own = logs["shop orders"].rename(columns={"customer_id": "user_id"})
    others = pd.concat([own, own]).assign(user_id=np.arange(800) + 90_000.0)
    shop = {**logs, "shop orders": pd.concat([own, others]).sort_values("ordered_at")}
    draft = drafted(shop, tmp_path)
    assert "events.shop_orders" in draft.list_logs()
    (asked,) = [question for question in draft.questions if "shop orders" in question]
    assert "33% of its rows have a unit of the impressions" in asked
    few = {**logs, "shop orders": own.assign(user_id=np.arange(400) + 90_000.0)}
    folder = tmp_path / "few"
    folder.mkdir()
    assert "events.shop_orders" not in drafted(few, folder).list_logs()


@pytest.mark.parametrize("is_in_both", [True, False])
@pytest.mark.parametrize("name", ["variant", "arm_no"])
def test_exposures_beside_a_log_are_no_clicks_and_may_name_the_variant(
    logs: dict[str, pd.DataFrame], name: str, is_in_both: bool
) -> None:
    """Ids of users were among those of impressions: the exposures were refused as clicks."""
    exposures = logs["exposures"].rename(columns={"ab_group": name, "exposed_at": "ts"})
    shown = logs["impressions"].assign(impression_id=np.arange(3000)).drop(columns="is_click")
    if is_in_both:
        shown = shown.merge(exposures[["user_id", name]], on="user_id")
    asked = {"variant": name} if name == "arm_no" else {}
    draft = abeval.draft(shown, exposures=exposures, **asked)
    assert "exposures" in draft.list_logs()
    assert draft.load(questions=[]).experiment.variants.keys() == {"control", "new"}
    with pytest.raises(LogError, match="no column 'nowhere'"):
        abeval.draft(shown, exposures=exposures, variant="nowhere")


def test_a_variant_without_a_name_is_asked_for(
    logs: dict[str, pd.DataFrame], tmp_path: Path
) -> None:
    """Control's rows had no text: another column was guessed, or no error said what to do."""
    variant = np.where(logs["impressions"].user_id % 2, "new", "")
    shown = logs["impressions"].assign(variant=variant, device=np.arange(3000) % 2)
    for draft in (drafted({"impressions": shown}, tmp_path), abeval.draft(shown)):
        (asked,) = [question for question in draft.questions if question.startswith("variant")]
        assert "variant is 'new' in" in asked
    with pytest.raises(ExperimentError, match="variants: missing") as error:
        abeval.draft(shown).analyze()
    assert "nullif(variant, '')" in (error.value.hint or "")
    query = "select * replace (coalesce(nullif(variant, ''), 'control') as variant) from log"
    mended = abeval.define(
        name="x",
        unit="user_id",
        control="control",
        variants={"control": {}, "new": {}},
        logs={"impressions": {"query": query, "columns": {"click": "is_click"}}},
    )
    result = mended.analyze(logs={"impressions": shown})
    assert {one.name for one in result.experiment.variants} == {"control", "new"}


def test_a_third_variant_without_a_name_is_left_out_and_asked_about(
    logs: dict[str, pd.DataFrame],
) -> None:
    names = np.array(["", "control", "new"])
    shown = logs["impressions"].assign(variant=names[logs["impressions"].user_id % 3])
    draft = abeval.draft(shown)
    assert any("is '' a variant" in question for question in draft.questions)
    assert draft.load().experiment.variants.keys() == {"control", "new"}


def test_a_table_whose_control_has_no_name_says_so(logs: dict[str, pd.DataFrame]) -> None:
    table = pd.DataFrame({"user_id": range(100), "group": ["", "new"] * 50, "spent": 1.0})
    with pytest.raises(LogError, match="one value, 'new'") as error:
        abeval.analyze(table, variant="group", metrics=["spent"])
    assert error.value.hint == "50 rows have none: if they are of control, write its name into them"
