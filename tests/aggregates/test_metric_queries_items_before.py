"""Novelty and serendipity: what was shown, by items and units as they were before the period."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.api import LoadedExperiment
from abeval.results.analysis import Result
from abeval.results.effects import Row
from tests.relations import answer, relation

START, BEGIN = pd.Timestamp("2026-03-01"), pd.Timestamp("2026-03-08")
HOUR = pd.Timedelta(hours=1)
PERIODS = {
    "pre_period": {"start": "2026-03-01", "end": "2026-03-08"},
    "period": {"start": "2026-03-08", "end": "2026-03-15"},
}


class Shown(NamedTuple):
    """An impression."""

    unit_id: int
    in_period: bool
    day: int
    item_id: str | None
    category: str | None
    click: int


POPULAR = [
    ("common", 8, 16, 6, 1),
    ("second", 4, 16, 6, 2),
    *((f"rare{i}", 1, 16, 6, 6) for i in range(4)),
]
POPULARITY = relation(
    "item_id varchar, impressions bigint, all_impressions bigint, items bigint, as_popular bigint",
    *POPULAR,
)


def test_popularity_is_counted_with_ties_at_one_place() -> None:
    shown = ["common"] * 8 + ["second"] * 4 + [f"rare{i}" for i in range(4)]
    earlier = relation("item_id varchar", *((item,) for item in shown))
    found = answer("4_metrics/item_popularity", earlier_items=earlier).as_set()
    assert found == {*POPULAR}


def test_an_item_is_worth_the_bits_of_its_share_before() -> None:
    rows = [
        Shown(1, True, 9, "common", None, 0),
        Shown(1, True, 9, "rare0", None, 0),
        Shown(1, True, 10, "second", None, 0),
        # Never shown before: as once in 16.
        Shown(1, True, 10, "unseen", None, 0),
        Shown(1, True, 10, None, None, 0),
        Shown(2, False, 3, "common", None, 0),
    ]
    columns = "unit_id, in_period, day, c_impressions, c_self_information"
    counted = f"{columns}, c_unseen_impressions, c_left_out_impressions"
    found = answer("4_metrics/novelty", counted, metric_rows=rows, item_popularity=POPULARITY)
    assert [*found] == [
        (1, True, 9, 2, (1 + 4) * 10**9, 0, 0),
        (1, True, 10, 2, (2 + 4) * 10**9, 1, 1),
        (2, False, 3, 1, 10**9, 0, 0),
    ]


def test_nothing_shown_before_leaves_all_out() -> None:
    rows = [Shown(1, True, 9, "common", "x", 1)]
    nothing = f"select * from ({POPULARITY}) as p where false"
    counted = "c_impressions, c_self_information, c_left_out_impressions"
    assert [*answer("4_metrics/novelty", counted, metric_rows=rows, item_popularity=nothing)] == [
        (0, 0, 1)
    ]


def test_a_click_is_serendipitous_in_a_new_category_outside_the_head() -> None:
    """Of six items shown before, `common` alone is no more than a fifth."""
    rows = [
        Shown(1, False, 3, "second", "news", 1),
        Shown(1, False, 3, "rare0", "sports", 0),
        # Sports was shown before, but not clicked.
        Shown(1, True, 9, "rare0", "sports", 1),
        Shown(1, True, 9, "rare1", "news", 1),
        Shown(1, True, 9, "common", "sports", 1),
        Shown(1, True, 9, "second", "sports", 1),
        Shown(1, True, 9, "rare2", "sports", 0),
        Shown(1, True, 9, "unseen", "games", 1),
        Shown(1, True, 10, None, "games", 1),
        Shown(1, True, 10, "rare3", None, 1),
        # Without a click before the period there is nothing to be unlike.
        Shown(2, False, 3, "rare0", "sports", 0),
        Shown(2, True, 9, "rare0", "sports", 1),
        Shown(2, True, 10, "rare1", "sports", 1),
    ]
    columns = "unit_id, in_period, day, c_impressions, c_serendipitous_clicks"
    counted = f"{columns}, c_units_without_past, c_impressions_without_past, c_left_out_impressions"
    found = answer("4_metrics/serendipity", counted, metric_rows=rows, item_popularity=POPULARITY)
    assert [*found] == [
        (1, True, 9, 6, 3, 0, 0, 0),
        (1, True, 10, 0, 0, 0, 0, 2),
        (2, True, 9, 0, 0, 1, 1, 0),
        (2, True, 10, 0, 0, 0, 1, 0),
    ]


def experiment(**entries: Any) -> LoadedExperiment:
    metrics = [{"name": name} for name in ("ctr", "novelty", "serendipity")]
    base = {"name": "x", "unit": "user_id", "control": "a", "variants": {"a": {}, "b": {}}}
    logs = {"impressions": {}}
    return abeval.define(**{**base, **PERIODS, "logs": logs, "metrics": metrics, **entries})


def analyzed(log: pd.DataFrame, **entries: Any) -> Result:
    return experiment(**entries).analyze(logs={"impressions": log})


def random_log(seed: int, rows: int = 12_000, users: int = 400) -> pd.DataFrame:
    """Two weeks of a few users, items of unlike popularity, some ids and categories unknown.

    A third of the users is there before the period only; some items are first shown in it.
    """
    rng = np.random.default_rng(seed)
    user, day = rng.integers(0, users, rows), rng.integers(0, 14, rows)
    keeps = (user % 3 > 0) | (day < 7)
    weight = 1 / np.arange(1, 151)
    item = rng.choice(150, rows, p=weight / weight.sum())
    item = np.where((day >= 7) & (rng.random(rows) < 0.05), 150 + item % 9, item)
    log = pd.DataFrame(
        {
            "user_id": user,
            "variant": np.where(rng.permutation(users)[user] % 2, "a", "b"),
            "ts": START + pd.to_timedelta(86_400 * day + rng.integers(0, 86_400, rows), unit="s"),
            "item_id": [f"i{i}" for i in item],
            "category": [f"c{i % 11}" for i in item],
            "click": (rng.random(rows) < 0.15).astype(int),
        }
    )
    log.loc[rng.random(rows) < 0.02, "item_id"] = None
    log.loc[rng.random(rows) < 0.02, "category"] = None
    return log[keeps].reset_index(drop=True)


def expected(log: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Both metrics by variant, and what they leave out, by loops over the rows."""
    before, now = log[log.ts < BEGIN], log[log.ts >= BEGIN]
    shown = Counter(before.item_id.dropna())
    ranks = {item: sum(n >= shown[item] for n in shown.values()) for item in shown}
    head = {item for item, rank in ranks.items() if rank <= 0.2 * len(shown)}
    clicked = before[(before.click == 1) & before.category.notna()]
    past = clicked.groupby("user_id").category.agg(set).to_dict()
    found: dict[str, dict[str, float]] = {}
    for variant, rows in now.groupby("variant"):
        sums: Counter[str] = Counter()
        for row in rows.itertuples():
            if isinstance(row.item_id, str):
                times = max(shown[row.item_id], 1)
                sums["bits"] -= math.log2(times / shown.total())
                sums["items"] += 1
                sums["unseen"] += row.item_id not in shown
            if row.user_id not in past:
                sums["without past"] += 1
            elif isinstance(row.item_id, str) and isinstance(row.category, str):
                sums["known"] += 1
                is_new = row.category not in past[row.user_id]
                sums["serendipitous"] += row.click and is_new and row.item_id not in head
        sums["units"] = len({*rows.user_id} - {*past})
        found[str(variant)] = {
            "novelty": sums["bits"] / sums["items"],
            "serendipity": sums["serendipitous"] / sums["known"],
            **{name: sums[name] for name in ("unseen", "without past", "units")},
        }
    return found


def test_values_and_counts_are_those_of_loops_over_the_log() -> None:
    log = random_log(4)
    result, by_hand = analyzed(log), expected(log)
    for metric in ("novelty", "serendipity"):
        row = result[metric]
        assert row.control == pytest.approx(by_hand["a"][metric], rel=1e-9)
        assert row.treatment == pytest.approx(by_hand["b"][metric], rel=1e-9)
    left_out = {(one.metric, one.what, one.variant): one.count for one in result.left_out}
    names = {
        "unseen": "the further novelty of items never shown before (counted as shown once), "
        "in impressions",
        "units": "units without a click before the period",
        "without past": "impressions of units without a click before the period",
    }
    for variant, name in ((v, n) for v in "ab" for n in names):
        metric = "novelty" if name == "unseen" else "serendipity"
        count = by_hand[variant][name]
        assert count > 0
        assert left_out[metric, names[name], variant] == count


def test_the_interval_is_that_of_the_delta_method_by_unit() -> None:
    log = random_log(5, rows=20_000, users=900)
    row = analyzed(log, inference={"adjust": "none"})["novelty"]
    shown = Counter(log[log.ts < BEGIN].item_id.dropna())
    now = log[(log.ts >= BEGIN) & log.item_id.notna()]
    bits = now.item_id.map(lambda item: -math.log2(max(shown[item], 1) / shown.total()))
    units = now.assign(bits=bits).groupby(["variant", "user_id"]).bits.agg(["sum", "count"])
    variance = 0.0
    for _, own in units.groupby(level="variant"):
        residual = own["sum"] - own["sum"].sum() / own["count"].sum() * own["count"]
        variance += residual.var(ddof=1) / len(own) / own["count"].mean() ** 2
    assert row.method == "delta_t"
    half = (row.difference_high - row.difference_low) / 2
    assert half == pytest.approx(1.964 * math.sqrt(variance), rel=2e-3)


def planted(share: tuple[float, float], users: int = 200) -> pd.DataFrame:
    """Before: one item is half of what was shown, eight others a sixteenth each.

    Then units of a and b have shares of the common item around `share`, alternately a quarter less
    and a quarter more.
    """
    rows: list[tuple[int, str, pd.Timestamp, str, str, int]] = []
    for user in range(users):
        variant = "ab"[user % 2]
        middle = share[user % 2]
        common = round(16 * (middle + (0.25 if user % 4 < 2 else -0.25)))
        for number in range(16):
            before = "common" if number < 8 else f"rare{number - 8}"
            rows.append((user, variant, START + number * HOUR, before, "news", int(number == 0)))
            now = "common" if number < common else f"rare{number % 8}"
            rows.append((user, variant, BEGIN + number * HOUR, now, "sports", int(number % 4 == 3)))
    return pd.DataFrame(rows, columns=["user_id", "variant", "ts", "item_id", "category", "click"])


def test_niche_items_raise_novelty_by_the_bits_between_the_shares() -> None:
    """A quarter of the impressions moves from an item of 1 bit to items of 4 bits."""
    row = analyzed(planted((0.5, 0.25)))["novelty"]
    assert row.control == pytest.approx(2.5, abs=1e-9)
    assert row.difference == pytest.approx(0.25 * 3, abs=1e-9)
    assert row.status == "better"


def test_popular_items_alone_lower_serendipity() -> None:
    """Every fourth impression is clicked, all in a new category; clicks on rare items count."""
    row = analyzed(planted((0.25, 0.75)))["serendipity"]
    assert row.control == pytest.approx(0.25 * 0.75, abs=1e-9)
    assert row.treatment == pytest.approx(0.25 * 0.25, abs=1e-9)
    assert row.status == "worse"
    assert row.difference_high < 0


def test_the_treatment_cannot_touch_what_was_popular() -> None:
    """Rows of the period change no popularity; units that are not compared are in it."""
    log = planted((0.5, 0.5))
    flood = log[(log.variant == "b") & (log.ts >= BEGIN)].assign(item_id="rare0")
    later = [flood.assign(ts=flood.ts + i * pd.Timedelta(minutes=1)) for i in range(1, 6)]
    flooded = pd.concat([log, *later], ignore_index=True)
    assert analyzed(flooded)["novelty"].control == pytest.approx(2.5, abs=1e-9)
    visitor = log[log.ts < BEGIN].assign(user_id=9_000_000 + log.user_id, item_id="common")
    # Now the common item is three quarters of all that was shown, the others a thirty-second each.
    more = analyzed(pd.concat([log, visitor], ignore_index=True))["novelty"]
    assert more.control == pytest.approx((math.log2(4 / 3) + 5) / 2, abs=1e-9)


def test_without_a_pre_period_both_are_refused_with_the_reason() -> None:
    result = analyzed(planted((0.5, 0.5)), pre_period=None)
    assert {result[name].reason for name in ("novelty", "serendipity")} == {"missing_columns"}
    assert "novelty is refused: the logs lack [pre_period]." in result.notes


def test_only_a_file_that_names_them_gets_them() -> None:
    names = {row.metric for row in analyzed(planted((0.5, 0.5)), metrics=[]).scorecard}
    assert "ctr" in names
    assert not names & {"novelty", "serendipity"}


def test_novelty_of_a_unit_before_adjusts_it_and_serendipity_has_no_before() -> None:
    log = random_log(6, rows=20_000, users=900)
    plain, adjusted = (analyzed(log, inference={"adjust": way}) for way in ("none", "cuped"))
    assert adjusted["novelty"].method == "cuped_delta_t"
    assert adjusted["serendipity"].method == plain["serendipity"].method
    compared = {check.name for check in plain.trust}
    assert "pre_period:novelty:b" in compared
    assert "pre_period:serendipity:b" not in compared


def test_cuts_are_refused_with_the_reason() -> None:
    found = analyzed(random_log(7), cuts={"kind": "category"})
    said = {one.metric: one.reason for one in found.without_cuts}
    assert said.keys() == {"novelty", "serendipity"}
    assert "looked up of whole units" in str(said["novelty"])


def test_a_day_has_the_items_that_were_shown_on_it() -> None:
    log = random_log(8)
    result = experiment().windows(logs={"impressions": log})
    (day,) = (
        row
        for row in result.windows
        if (row.metric, row.axis, row.kind, row.start)
        == ("novelty", "calendar", "daily", "2026-03-10")
    )
    shown = Counter(log[log.ts < BEGIN].item_id.dropna())
    own = log[(log.ts.dt.normalize() == pd.Timestamp("2026-03-10")) & log.item_id.notna()]
    bits = own.item_id.map(lambda item: -math.log2(max(shown[item], 1) / shown.total()))
    means = bits.groupby(own.variant).mean()
    assert (day.control, day.treatment) == pytest.approx((means.a, means.b), rel=1e-9)


@pytest.mark.slow
def test_no_effect_raises_no_alarm_more_often_than_alpha() -> None:
    """60 logs without an effect: at 5 % more than 9 alarms are seen once in 1,000 times."""
    alarms: Counter[str] = Counter()
    for seed in range(60):
        result = analyzed(random_log(100 + seed, rows=6000))
        alarms.update(m for m in ("novelty", "serendipity") if _is_alarm(result[m]))
    assert alarms["novelty"] <= 9
    assert alarms["serendipity"] <= 9


def _is_alarm(row: Row) -> bool:
    assert row.p_value is not None
    return row.p_value < 0.05
