"""The log and the policy that off-policy estimators read: queries against plain loops."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

import pytest

from tests.relations import Relations, answer, chance, near


class Name(NamedTuple):
    """A unit, and its id as logged."""

    unit_id: str
    logged_id: str


class PolicyRow(NamedTuple):
    """A row of `policy_rows`."""

    unit_id: str
    in_period: bool
    variant: str | None
    position: int | None
    item_id: int | None
    propensity: float
    reward: float
    evaluation_probability: float | None


class Unit(NamedTuple):
    """A row of `units`."""

    unit_id: str
    variant: str
    sub_bucket: int


class Served(NamedTuple):
    """A row of `served`; every reward is another, so that it names its row."""

    variant: str
    unit_id: str
    fold: int
    position: int
    item_id: int | None
    reward: float
    propensity: float
    evaluation_probability: float | None


class Comparison(NamedTuple):
    """The row of `comparison`."""

    source: str
    target: str
    by_column: bool


class Policy(NamedTuple):
    """A row of `policy`."""

    position: int
    item_id: int
    probability: float


class PolicyUnit(NamedTuple):
    """A row of `policy_units`."""

    unit_id: str
    unit_no: int


class PolicyItem(NamedTuple):
    """A row of `policy_items`."""

    item_id: int
    item_no: int


def served_rows(count: int) -> list[Served]:
    """Rows of three variants, in part without an item."""
    rng = chance(1)
    return [
        Served(
            "abc"[number % 3],
            f"u{number % 9}",
            number % 9 % 2,
            rng.randrange(3),
            rng.choice([None, 5, 6, 7, 8]),
            number / 64,
            rng.choice([0.25, 0.5]),
            rng.choice([None, 0.0, 0.125]),
        )
        for number in range(count)
    ]


SERVED = served_rows(60)
NAMES = [Name(unit, unit) for unit in sorted({row.unit_id for row in SERVED})]
COMPARISON = Comparison("a", "b", by_column=False)
POLICY = [
    Policy(position, item, 1 / (1 + position + item))
    for position in (0, 1)
    for item in (1, 5, 6, 9)
]
ITEMS = [1, 5, 6, 7, 8, 9]


def of_variant(variant: str) -> list[Served]:
    return [row for row in SERVED if row.variant == variant]


def test_a_row_counts_if_the_variant_of_its_unit_served_it_in_the_period() -> None:
    rng = chance(2)
    units = [Unit("u", "a", 3), Unit("v", "b", 4), Unit("w", "a", 8)]
    rows = [
        PolicyRow(
            rng.choice(["u", "v", "w", "stranger"]),
            rng.random() < 0.7,
            rng.choice([None, "a", "b"]),
            rng.choice([None, 1, 2]),
            rng.choice([None, 5]),
            0.5,
            number / 64,
            0.25,
        )
        for number in range(60)
    ]
    of = {unit.unit_id: unit for unit in units}
    expected = {}
    for row in rows:
        unit = of.get(row.unit_id)
        if unit is None or not row.in_period or row.variant not in (None, unit.variant):
            continue
        expected[row.reward,] = {
            "variant": unit.variant,
            "unit_id": row.unit_id,
            "fold": unit.sub_bucket % 2,
            "position": row.position or 0,
            "item_id": row.item_id,
            "propensity": 0.5,
            "evaluation_probability": 0.25,
        }
    served = answer("offline_policy/served", policy_rows=rows, units=units)
    assert served.by_key("reward") == expected


def test_a_variants_policy_is_how_often_it_shows_each_item_at_a_position() -> None:
    shown = Counter((r.position, r.item_id) for r in of_variant("b") if r.item_id is not None)
    totals: Counter[int] = Counter()
    for (position, _), times in shown.items():
        totals[position] += times
    expected = {key: {"probability": n / totals[key[0]]} for key, n in shown.items()}
    tables: Relations = {"served": SERVED, "comparison": [COMPARISON]}
    policy = answer("offline_policy/empirical_policy", **tables).by_key("position item_id")
    assert policy == near(expected)


def test_items_of_the_log_and_of_the_policy_are_numbered_in_order() -> None:
    numbers = answer("offline_policy/policy_items", served=SERVED, policy=POLICY).by_key("item_id")
    assert numbers == {(item,): {"item_no": number} for number, item in enumerate(ITEMS)}


def test_units_of_the_source_are_numbered_in_order() -> None:
    units = sorted({row.unit_id for row in of_variant("a")})
    tables: Relations = {"served": SERVED, "comparison": [COMPARISON], "unit_names": NAMES}
    numbers = answer("offline_policy/policy_units", **tables).by_key("unit_id")
    assert numbers == {(unit,): {"unit_no": number} for number, unit in enumerate(units)}


def test_the_policy_is_supported_as_often_as_the_source_shows_its_items() -> None:
    times = Counter((row.position, row.item_id) for row in of_variant("a"))
    expected = {
        (p.position, ITEMS.index(p.item_id)): {
            "probability": p.probability,
            "times": times[p.position, p.item_id],
        }
        for p in POLICY
    }
    support = answer(
        "offline_policy/policy_support",
        served=SERVED,
        comparison=[COMPARISON],
        policy=POLICY,
        policy_items=[PolicyItem(item, number) for number, item in enumerate(ITEMS)],
    ).by_key("position item_no")
    assert support == expected


@pytest.mark.parametrize("by_column", [False, True])
def test_the_policys_probability_is_that_of_the_column_or_of_the_item(by_column: bool) -> None:
    units = sorted({row.unit_id for row in of_variant("a")})
    chances = {(p.position, p.item_id): p.probability for p in POLICY}
    expected = {}
    for row in of_variant("a"):
        of_item = chances.get((row.position, row.item_id or 0), 0.0)
        expected[row.reward,] = {
            "unit_no": units.index(row.unit_id),
            "fold": row.fold,
            "position": row.position,
            "item_no": None if row.item_id is None else ITEMS.index(row.item_id),
            "propensity": row.propensity,
            "evaluation": row.evaluation_probability if by_column else of_item,
        }
    rows = answer(
        "offline_policy/logged_rows",
        served=SERVED,
        comparison=[COMPARISON._replace(by_column=by_column)],
        policy=POLICY,
        policy_units=[PolicyUnit(unit, number) for number, unit in enumerate(units)],
        policy_items=[PolicyItem(item, number) for number, item in enumerate(ITEMS)],
    ).by_key("reward")
    assert rows == expected


def test_the_target_earned_the_rewards_of_its_units() -> None:
    rewards = defaultdict(list)
    for row in of_variant("b"):
        rewards[row.unit_id,].append(row.reward)
    expected = {key: {"reward": sum(of), "impressions": len(of)} for key, of in rewards.items()}
    tables: Relations = {"served": SERVED, "comparison": [COMPARISON], "unit_names": NAMES}
    assert answer("offline_policy/realised", **tables).by_key("unit_id") == near(expected, 1e-5)
