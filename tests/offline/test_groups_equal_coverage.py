"""Coverage at equal traffic: what as many units as the smallest traffic has would be shown."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abeval.offline.groups import ListedItems
from tests.offline.test_replay import small


def log(arms, rng, items=30, length=4):
    """Lists of `length` items by popularity, one or two a user; arms: variant → users."""
    chance = 1 / np.arange(1, items + 1)
    rows, user = [], 0
    for variant, users in arms.items():
        for _ in range(users):
            user += 1
            for request in range(1 + user % 2):
                shown = rng.choice(items, length, replace=False, p=chance / chance.sum())
                for item in shown:
                    a, b = rng.random(2)
                    rows.append((user, variant, f"{user}-{request}", int(item), 1, a, b))
    return rows


def top_items(rows, k, score):
    """Variant → user → the items in the first k of its lists."""
    requests: dict[tuple, list] = {}
    for row in rows:
        requests.setdefault((row[1], row[0], row[2]), []).append(row)
    found: dict[str, dict[int, set[int]]] = {}
    for (variant, user, _), listed in requests.items():
        best = sorted(listed, key=lambda row: row[score], reverse=True)[:k]
        found.setdefault(variant, {}).setdefault(user, set()).update(row[3] for row in best)
    return found


@pytest.mark.parametrize(("large", "few"), [(9, 4), (8, 2), (7, 6)])
def test_it_is_the_mean_over_all_subsets_of_as_many_units(large, few):
    rows = log({"x": large, "y": few}, np.random.default_rng(large))
    loaded, logs = small(rows)
    found = loaded.replay(metrics=["coverage@2[equal]", "coverage@2"], logs=logs)
    catalogue = len({row[3] for row in rows})
    for model, score in (("a", 5), ("b", 6)):
        by_user = top_items(rows, 2, score)["x"]
        sizes = [len(set().union(*some)) for some in combinations(by_user.values(), few)]
        equal = found.row("coverage@2[equal]", model, "x").value
        assert equal == pytest.approx(np.mean(sizes) / catalogue, abs=1e-9)
        # The smallest traffic is as it is.
        small_one = found.row("coverage@2[equal]", model, "y").value
        assert small_one == pytest.approx(found.row("coverage@2", model, "y").value)


def test_the_larger_arm_of_one_policy_does_not_win():
    rows = log({"x": 900, "y": 100}, np.random.default_rng(7), items=400)
    loaded, logs = small(rows)
    found = loaded.replay(metrics=["coverage@4", "coverage@4[equal]"], logs=logs)
    raw, equal = (
        [found.row(metric, "a", traffic) for traffic in "xy"]
        for metric in ("coverage@4", "coverage@4[equal]")
    )
    assert raw[0].value - raw[1].value > 0.25
    assert abs(equal[0].value - equal[1].value) < 0.03
    # The whole of the larger arm says more of what its smaller subsets hold.
    assert equal[0].high - equal[0].low < equal[1].high - equal[1].low


def test_a_narrower_policy_is_found_narrower_though_it_has_more_traffic():
    rng = np.random.default_rng(2)
    rows = log({"x": 500}, rng, items=40) + [
        (10_000 + row[0], "y", f"y{row[2]}", *row[3:]) for row in log({"y": 100}, rng, items=200)
    ]
    loaded, logs = small(rows)
    found = loaded.replay(metrics=["coverage@4", "coverage@4[equal]"], logs=logs)
    equal = [found.row("coverage@4[equal]", "a", traffic) for traffic in "xy"]
    assert equal[0].high < equal[1].low


@given(
    shown=st.lists(st.sets(st.integers(0, 5), min_size=1), min_size=2, max_size=6),
    data=st.data(),
)
@settings(deadline=None)
def test_more_units_never_cover_less_and_all_cover_what_they_cover(shown, data):
    held = np.array([sum(i in items for items in shown) for i in sorted(set().union(*shown))])
    names = ("lists", "units", "weight", "squared_weight")
    rows = {"item_id": np.arange(held.size), "unit_group": np.zeros(held.size, dtype=np.int64)}
    rows |= dict.fromkeys(names, held.astype(float))
    of = np.array([float(len(shown))])

    def at(equal):
        return ListedItems.build(rows, of, of, equal, 6).values("coverage_equal")[0]

    few = data.draw(st.integers(1, len(shown)))
    sizes = [len(set().union(*some)) for some in combinations(shown, few)]
    assert at(few) == pytest.approx(np.mean(sizes) / 6)
    assert at(1) <= at(few) + 1e-12 <= at(len(shown)) + 2e-12
    assert at(len(shown)) == pytest.approx(len(set().union(*shown)) / 6)


def test_a_traffic_without_lists_leaves_no_number_of_units_to_compare_at():
    rows = log({"x": 40, "y": 40}, np.random.default_rng(3))
    loaded, logs = small([(*row[:5], None, None) if row[1] == "y" else row for row in rows])
    found = loaded.replay(metrics=["coverage@2[equal]", "coverage@2"], logs=logs)
    equal, plain = (found.row(metric, "a", "x") for metric in ("coverage@2[equal]", "coverage@2"))
    assert (equal.value, equal.reason) == (None, "no_lists")
    assert plain.value > 0
