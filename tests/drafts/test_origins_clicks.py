"""`abeval init` and `analyze` of impressions with clicks that name no impression, by pandas."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.drafts.columns import Column
from abeval.drafts.run import Draft, draft_files
from abeval.results.analysis import Result
from tests.drafts.click_worlds import World, iso, true_ctr, world, written

pytestmark = pytest.mark.whole


WORLD = world()
CTR = true_ctr(WORLD)


def both_commands(files: list[Path], folder: Path) -> tuple[Draft, dict[str, Any], Result]:
    """Draft a file for the files, and analyse it as it stands."""
    draft = draft_files(files, folder)
    (folder / "e.toml").write_text(draft.text)
    result = abeval.load(folder / "e.toml").replace(trust={"aa_runs": 0}).analyze()
    return draft, tomllib.loads(draft.text), result


def assert_ctr(result: Result, expected: pd.Series = CTR) -> None:
    row = result["ctr"]
    assert (row.control, row.treatment) == pytest.approx(tuple(expected), rel=1e-12)


def as_text(world: World, *columns: str) -> World:
    return World(*(frame.astype(dict.fromkeys(columns, str)) for frame in world))


NAMES = {
    "other": (
        {"user": "uid", "item": "movie_id", "time": "timestamp", "variant": "ab_group"},
        {"user": "user_id", "item": "item_id", "time": "clicked_at", "dwell": "dwell_ms"},
    ),
    "camel": (
        {"user": "userId", "item": "videoId", "time": "eventTime"},
        {"user": "UserID", "item": "video", "time": "ts"},
    ),
}


@pytest.mark.parametrize("names", NAMES)
def test_clicks_are_tied_by_user_item_and_time_whatever_the_columns_are_called(
    names: str, tmp_path: Path
) -> None:
    of_seen, of_clicks = NAMES[names]
    seen, clicks = (frame.assign(time=iso(frame.time)) for frame in WORLD)
    files = written(
        tmp_path, impressions=seen.rename(columns=of_seen), clicks=clicks.rename(columns=of_clicks)
    )
    draft, entries, result = both_commands(files, tmp_path)
    assert entries["logs"]["clicks"]["join"] == ["unit_id", "item_id"]
    assert draft.questions == ()
    assert_ctr(result)
    clicked = {row.metric for row in result.scorecard}
    assert "dwell_per_user" in clicked


@pytest.mark.parametrize(("unit", "n"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_the_unit_of_whole_numbers_is_that_of_which_they_are_of_our_time(unit: str, n: int) -> None:
    low, high = (float(time * n) for time in (1_780_000_000, 1_790_000_000))
    assert Column("time", "BIGINT", "integer", 2, 2, low, high, {}).time_unit == unit


def test_times_may_be_numbers_in_one_log_and_iso_in_the_other(tmp_path: Path) -> None:
    seen = WORLD.impressions.assign(time=WORLD.impressions.time * 1_000)
    clicks = WORLD.clicks.assign(time=iso(WORLD.clicks.time).dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
    _, entries, result = both_commands(written(tmp_path, impressions=seen, clicks=clicks), tmp_path)
    assert entries["logs"]["impressions"]["time_unit"] == "ms"
    assert_ctr(result)


@pytest.mark.parametrize("side", ["impressions", "clicks"])
def test_ids_may_be_text_in_one_log_and_numbers_in_the_other(side: str, tmp_path: Path) -> None:
    other = as_text(WORLD, "user", "item")
    seen, clicks = (
        frame.assign(time=iso(frame.time))
        for frame in World(
            (other if side == "impressions" else WORLD).impressions,
            (other if side == "clicks" else WORLD).clicks,
        )
    )
    _, _, result = both_commands(written(tmp_path, impressions_pq=seen, clicks_pq=clicks), tmp_path)
    assert_ctr(result)


SEEN, CLICKED = (frame.assign(time=iso(frame.time)) for frame in WORLD)
VARIANTS = WORLD.impressions.groupby("user").variant.first()


def test_clicks_may_name_a_variant_and_bring_milliseconds_of_dwell(tmp_path: Path) -> None:
    clicks = CLICKED.rename(columns={"dwell": "dwell_ms"}).assign(variant="control")
    draft, entries, result = both_commands(
        written(tmp_path, impressions=SEEN, clicks=clicks), tmp_path
    )
    assert draft.questions == ()
    assert entries["logs"]["clicks"]["dwell_unit"] == "ms"
    assert_ctr(result)
    (dwell,) = (row for row in result.scorecard if row.metric == "dwell_per_click")
    # Milliseconds of a median of eight seconds.
    assert 5 < dwell.control < 30


def test_rows_of_a_neutral_name_are_clicks_by_the_data_and_asked(tmp_path: Path) -> None:
    actions = CLICKED.drop(columns="dwell")
    draft, _, result = both_commands(written(tmp_path, log=SEEN, actions=actions), tmp_path)
    assert [question.split(":")[0] for question in draft.questions] == ["actions.csv"]
    assert_ctr(result)


def test_orders_of_what_was_seen_are_no_clicks(tmp_path: Path) -> None:
    orders = CLICKED.drop(columns="dwell")
    seen = SEEN.assign(click=(SEEN.index % 9 == 0).astype(int))
    draft, entries, result = both_commands(
        written(tmp_path, impressions=seen, cart_adds=orders), tmp_path
    )
    assert draft.questions == ()
    assert "clicks" not in entries["logs"]
    assert result["ctr"].control == pytest.approx(seen[seen.variant == "control"].click.mean())
    first = seen.groupby("user").time.min()
    own = orders[orders.user.isin(first.index)]
    bought = own[own.time >= own.user.map(first)].user.unique()
    share = VARIANTS.index.isin(bought)[VARIANTS == "control"].mean()
    assert result["any_cart_adds"].control == pytest.approx(share, rel=1e-12)


def test_impressions_that_say_their_clicks_need_no_others(tmp_path: Path) -> None:
    seen = SEEN.assign(click=(SEEN.index % 9 == 0).astype(int))
    actions = CLICKED.drop(columns="dwell")
    draft = draft_files(written(tmp_path, impressions=seen, actions=actions), tmp_path)
    assert list(tomllib.loads(draft.text)["logs"]) == ["impressions", "events"]


def test_clicks_of_a_column_of_amounts_are_orders(tmp_path: Path) -> None:
    rows = CLICKED.rename(columns={"dwell": "revenue"})
    draft = draft_files(written(tmp_path, impressions=SEEN, log2=rows), tmp_path)
    assert list(tomllib.loads(draft.text)["logs"]["events"]) == ["log2"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"item": CLICKED.item + 1_000}, "0% of its rows have ids of an impression"),
        ({"time": CLICKED.time - pd.Timedelta("3h")}, "of an earlier one"),
    ],
)
def test_clicks_that_follow_no_impressions_are_events_and_asked(
    change: dict[str, Any], why: str, tmp_path: Path
) -> None:
    files = written(tmp_path, impressions=SEEN, clicks=CLICKED.assign(**change))
    draft = draft_files(files, tmp_path)
    assert "clicks" not in tomllib.loads(draft.text)["logs"]
    assert any(
        question.startswith("clicks.csv:") and why in question for question in draft.questions
    )


def test_clicks_of_days_later_ask_for_the_window(tmp_path: Path) -> None:
    late = CLICKED.assign(time=CLICKED.time + pd.Timedelta("26h"))
    draft = draft_files(written(tmp_path, impressions=SEEN, clicks=late), tmp_path)
    assert any("attribution_hours" in question for question in draft.questions)


def events(*parts: tuple[pd.DataFrame, str], column: str = "event") -> pd.DataFrame:
    """One table of all rows, each with its type."""
    rows = pd.concat([frame.assign(**{column: kind}) for frame, kind in parts])
    return rows.assign(variant=rows.user.map(VARIANTS)).sort_values("time")


PAID = CLICKED.iloc[:300].assign(price=9.5)


@pytest.mark.parametrize(
    ("column", "types"),
    [
        ("event", ("view", "click", "purchase")),
        ("type", ("Item View", "Item Click", "Order Completed")),
    ],
)
def test_one_table_of_events_is_parted_by_the_type_of_its_rows(
    column: str, types: tuple[str, str, str], tmp_path: Path
) -> None:
    table = events((SEEN, types[0]), (CLICKED, types[1]), (PAID, types[2]), column=column)
    draft, entries, result = both_commands(written(tmp_path, log=table), tmp_path)
    logs = entries["logs"]
    assert draft.questions == ()
    assert logs["impressions"]["where"] == f"{column} = '{types[0]}'"
    assert logs["clicks"]["where"] == f"{column} = '{types[1]}'"
    (bought,) = logs["events"]
    assert_ctr(result)
    first = SEEN.groupby("user").time.min()
    own = PAID[PAID.time >= PAID.user.map(first)].user.unique()
    share = VARIANTS.index.isin(own)[VARIANTS == "control"].mean()
    assert result[f"any_{bought}"].control == pytest.approx(share, rel=1e-12)


def test_types_of_rows_that_are_codes_or_have_no_impression_are_asked(tmp_path: Path) -> None:
    codes = events((SEEN, "1"), (CLICKED, "2"), column="behavior_type")
    files = written(tmp_path, log=codes.astype({"behavior_type": int}))
    draft = draft_files(files, tmp_path)
    assert (
        "behavior_type: which of '1', '2' is an impression, and which a click?" in draft.questions
    )
    files = written(tmp_path, log=events((SEEN, "seen"), (CLICKED, "click")))
    draft = draft_files(files, tmp_path)
    assert any(q.startswith("event: are the impressions 'seen'?") for q in draft.questions)


def test_of_two_types_of_what_units_saw_one_is_asked(tmp_path: Path) -> None:
    pages = SEEN.iloc[:3_000]
    files = written(tmp_path, log=events((pages, "view"), (SEEN, "impression"), (CLICKED, "click")))
    draft, entries, result = both_commands(files, tmp_path)
    assert entries["logs"]["impressions"]["where"] == "event = 'impression'"
    assert any(q.startswith("event: are the impressions 'impression'?") for q in draft.questions)
    assert_ctr(result)


def test_a_column_of_types_may_be_called_by_a_word_of_sql(tmp_path: Path) -> None:
    files = written(tmp_path, log=events((SEEN, "view"), (CLICKED, "click"), column="order"))
    logs = tomllib.loads(draft_files(files, tmp_path).text)["logs"]
    assert logs["impressions"]["where"] == "\"order\" = 'view'"
    assert logs["clicks"]["where"] == "\"order\" = 'click'"


def test_a_type_that_is_a_property_parts_nothing(tmp_path: Path) -> None:
    """Advertisements are of types, too: `display` is no impression beside `search`."""
    seen = SEEN.assign(click=0, type=SEEN.item.map(lambda item: ("display", "search")[item % 2]))
    seen.loc[::9, "click"] = 1
    draft = draft_files(written(tmp_path, log=seen), tmp_path)
    assert "where" not in tomllib.loads(draft.text)["logs"]["impressions"]
    assert draft.questions == ()


def test_files_of_one_variant_each_are_the_variants(tmp_path: Path) -> None:
    files = written(tmp_path, clicks=CLICKED)
    for variant, rows in SEEN.drop(columns="variant").groupby(SEEN.variant):
        file = tmp_path / f"impressions_2026_{variant}.csv"
        rows.to_csv(file, index=False)
        files.append(file)
    _, entries, result = both_commands(files, tmp_path)
    assert entries["logs"]["impressions"]["path"] == {
        variant: f"impressions_2026_{variant}.csv" for variant in ("control", "new")
    }
    assert_ctr(result)


@pytest.mark.parametrize("is_hive", [True, False])
def test_folders_of_one_variant_each_are_the_variants(is_hive: bool, tmp_path: Path) -> None:
    for variant, rows in SEEN.drop(columns="variant").groupby(SEEN.variant):
        folder = tmp_path / "logs" / (f"variant={variant}" if is_hive else str(variant))
        folder.mkdir(parents=True)
        for part in range(3):
            rows.iloc[part::3].to_parquet(folder / f"{part}.parquet")
    files = [tmp_path / "logs", *written(tmp_path, clicks=CLICKED)]
    draft, entries, result = both_commands(files, tmp_path)
    folders = {"control": "logs/control", "new": "logs/new"}
    assert entries["logs"]["impressions"]["path"] == ("logs" if is_hive else folders)
    assert draft.questions == ()
    assert_ctr(result)


def test_parts_of_a_log_are_no_variants(tmp_path: Path) -> None:
    """The rows have a variant of their own, whatever their files are called."""
    files = [*written(tmp_path, a=SEEN.iloc[::2], b=SEEN.iloc[1::2])]
    entries = tomllib.loads(draft_files(files, tmp_path).text)
    assert entries["logs"]["impressions"]["path"] == ["a.csv", "b.csv"]


def test_files_whose_names_are_no_variants_are_asked(tmp_path: Path) -> None:
    seen = SEEN.drop(columns="variant")
    files = [*written(tmp_path, red=seen.iloc[::2], blue=seen.iloc[1::2])]
    question, _ = draft_files(files, tmp_path).questions
    assert "Has each file one variant" in question


def test_a_folder_of_several_logs_is_each_of_them(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "impressions").mkdir(parents=True)
    for part in range(2):
        SEEN.iloc[part::2].to_parquet(folder / "impressions" / f"{part}.parquet")
    written(folder, clicks=CLICKED)
    (folder / "README.md").write_text("what these are")
    _, entries, result = both_commands([folder], tmp_path)
    assert entries["logs"]["impressions"]["path"] == "data/impressions"
    assert entries["logs"]["clicks"]["path"] == "data/clicks.csv"
    assert_ctr(result)


def test_users_say_the_variant_and_items_their_category(tmp_path: Path) -> None:
    users = VARIANTS.reset_index().assign(country="de", signup_date="2024-03-01")
    movies = pd.DataFrame(
        {"id": range(1, 60), "title": "t", "genre": ["a", "b", "c"] * 19 + ["a"] * 2}
    )
    files = written(
        tmp_path,
        users=users,
        impressions=SEEN.drop(columns="variant").rename(columns={"item": "movie_id"}),
        clicks=CLICKED,
        movies=movies,
    )
    draft, entries, result = both_commands(files, tmp_path)
    assert draft.questions == ()
    assert entries["logs"]["exposures"] == {"path": "users.csv"}
    assert entries["logs"]["items"]["columns"] == {"item_id": "id", "category": "genre"}
    assert_ctr(result)


@pytest.mark.parametrize("before", ["nothing", "control"])
def test_the_period_begins_with_the_first_variant(before: str, tmp_path: Path) -> None:
    """Before, no unit has a variant, or all have control, as in an A/A test."""
    # Of so many rows, the first of a treatment comes in the first minutes of its day.
    many = world(users=600, rows=12_000)
    seen, clicks = (frame.assign(time=iso(frame.time)) for frame in many)
    is_early = seen.time < "2026-07-03"
    seen = seen.assign(variant=seen.variant.mask(is_early, None if before == "nothing" else before))
    _, entries, result = both_commands(
        written(tmp_path, impressions_pq=seen, clicks=clicks), tmp_path
    )
    assert {name: str(entries[name]["start"]) for name in ("period", "pre_period")} == {
        "period": "2026-07-03",
        "pre_period": "2026-07-01",
    }
    assert str(entries["period"]["end"]) == "2026-07-08"
    assert_ctr(result, true_ctr(World(many.impressions[~is_early], many.clicks)))


def test_the_period_begins_at_an_hour_if_the_day_had_rows_without_a_variant(tmp_path: Path) -> None:
    seen = SEEN.assign(variant=SEEN.variant.mask(SEEN.time < "2026-07-03 11:00", None))
    files = written(tmp_path, impressions_pq=seen, clicks=CLICKED)
    entries = tomllib.loads(draft_files(files, tmp_path).text)
    assert str(entries["period"]["start"]) == "2026-07-03 11:00:00"


def test_a_treatment_that_starts_late_begins_no_period(tmp_path: Path) -> None:
    """A second treatment joins a running experiment: the days before are of the experiment."""
    other = SEEN.user % 3 == 0
    seen = SEEN.assign(variant=SEEN.variant.mask(other, "newer"))
    seen = seen[~other | (seen.time > "2026-07-04")]
    entries = tomllib.loads(draft_files(written(tmp_path, impressions=seen), tmp_path).text)
    assert "period" not in entries
    assert len(entries["variants"]) == 3


def test_a_rare_treatment_that_comes_late_by_chance_begins_no_period(tmp_path: Path) -> None:
    """The first treatment of 2 in 100 comes on the second day; 300 rows before prove nothing."""
    seen = SEEN[(SEEN.time > "2026-07-02") | (SEEN.index % 5 == 0)]
    rare = (seen.time > "2026-07-02") & (seen.user % 50 == 0)
    seen = seen[rare | (seen.user % 50 > 0)].assign(variant="control")
    seen.loc[rare, "variant"] = "new"
    entries = tomllib.loads(draft_files(written(tmp_path, impressions=seen), tmp_path).text)
    assert set(entries["variants"]) == {"control", "new"}
    assert "period" not in entries


def test_scores_of_models_are_served_by_the_variants_that_are_called_so(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    scores = {name: rng.random(len(SEEN)).round(3) for name in ("pctr_old", "pctr_ranker_b")}
    draft = draft_files(
        written(tmp_path, impressions=SEEN.assign(**scores), clicks=CLICKED), tmp_path
    )
    entries = tomllib.loads(draft.text)
    assert entries["models"] == {
        "old": {"score": "pctr_old"},
        "ranker_b": {"score": "pctr_ranker_b"},
    }
    served = {name: one["model"] for name, one in entries["variants"].items()}
    assert served == {"control": "old", "new": "ranker_b"}
    assert draft.questions == ()


def test_which_model_a_variant_serves_is_asked_where_no_name_says_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    scores = {name: rng.random(len(SEEN)).round(3) for name in ("score_gbdt", "score_dnn")}
    draft = draft_files(
        written(tmp_path, impressions=SEEN.assign(**scores), clicks=CLICKED), tmp_path
    )
    assert any(q.startswith("models: which of gbdt, dnn") for q in draft.questions)
    assert "model" not in tomllib.loads(draft.text)["variants"]["control"]


def test_the_id_of_a_row_is_what_the_clicks_call_the_id_of_an_impression(tmp_path: Path) -> None:
    seen = SEEN.drop(columns="variant").assign(id=range(5, 5 + len(SEEN)), variant=SEEN.variant)
    clicked = seen[seen.index % np.where(seen.variant == "new", 7, 9) == 0]
    clicks = pd.DataFrame({"id": range(len(clicked)), "impression_id": clicked.id.to_numpy()})
    files = written(tmp_path, impressions=seen, clicks=clicks.assign(at=clicked.time.to_numpy()))
    draft, entries, result = both_commands(files, tmp_path)
    assert draft.questions == ()
    assert entries["logs"]["impressions"]["columns"]["impression_id"] == "id"
    assert_ctr(result, clicked.variant.value_counts().sort_index() / seen.variant.value_counts())


SAMPLE = Path(__file__).parents[2] / "sample_logs"


def test_the_sample_ends_in_its_scorecard(tmp_path: Path) -> None:
    files = [SAMPLE / "impressions", SAMPLE / "clicks.parquet", SAMPLE / "items.parquet"]
    draft, entries, result = both_commands(files, tmp_path)
    assert draft.questions == ()
    own = tomllib.loads((SAMPLE / "experiment.toml").read_text())
    for name in ("period", "pre_period", "models"):
        assert entries[name] == own[name]
    # No log says at which looks it was planned to be read.
    plan = {"looks": "fixed", "planned_looks": None}
    sample = abeval.load(SAMPLE / "experiment.toml")
    expected = sample.replace(trust={"aa_runs": 0}, inference=plan).analyze()
    assert result.trusted
    for row in expected.scorecard:
        # Those of the catalogue are resampled by groups that follow from the name.
        names = ("control", "treatment", "lift", "p_value")
        numbers = [[getattr(one, name) for name in names] for one in (result[row.metric], row)]
        tolerance = 0.02 if row.metric in ("coverage", "gini", "entropy") else 1e-12
        assert numbers[0][:2] == pytest.approx(numbers[1][:2], rel=tolerance)
        if tolerance < 1e-3:
            assert numbers[0] == pytest.approx(numbers[1], rel=tolerance)


def test_a_table_of_what_units_did_is_parted_beside_the_impressions(tmp_path: Path) -> None:
    table = events((CLICKED, "click"), (PAID, "purchase"), (PAID.iloc[:5], "refund"))
    files = written(tmp_path, impressions=SEEN, actions=table)
    draft, entries, result = both_commands(files, tmp_path)
    assert draft.questions == ()
    assert entries["logs"]["clicks"]["where"] == "event = 'click'"
    assert list(entries["logs"]["events"]) == ["purchase", "refund"]
    assert_ctr(result)


def test_clicks_of_few_items_are_tied(tmp_path: Path) -> None:
    few = world(items=9)
    seen, clicks = (frame.assign(time=iso(frame.time)) for frame in few)
    _, _, result = both_commands(written(tmp_path, impressions=seen, clicks=clicks), tmp_path)
    assert_ctr(result, true_ctr(few))


def test_types_of_rows_that_are_no_outcomes_are_no_goals(tmp_path: Path) -> None:
    table = events((SEEN, "view"), (CLICKED, "click"), (PAID, "purchase"), (PAID, "logout"))
    entries = tomllib.loads(draft_files(written(tmp_path, log=table), tmp_path).text)
    roles = {metric["name"]: metric["role"] for metric in entries["metrics"]}
    assert roles == {"ctr": "goal", "any_purchase": "goal", "any_logout": "diagnostic"}


def test_orders_and_refunds_alone_are_one_table(tmp_path: Path) -> None:
    table = events((PAID, "purchase"), (PAID.iloc[:90], "refund"), column="type")
    draft = draft_files(written(tmp_path, orders=table), tmp_path)
    assert "where" not in tomllib.loads(draft.text)["logs"]["impressions"]
    assert not any("impression" in question for question in draft.questions)
