"""Hash assignment: published numbers, agreement with SQL, uniformity, refusals."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import abeval
from abeval.assignment import (
    SLOTS,
    Assignment,
    compute_slot,
    compute_sub_bucket,
    format_unit_id,
    md5_60,
)
from abeval.errors import ExperimentError, LogError

# salt, unit, h, slot, sub-bucket of 100; the same in Python, DuckDB and Spark.
VECTORS = [
    ("exp_42", "1", 170645314130210456, 210456, 30),
    ("exp_42", "2", 1067390200550496359, 496359, 50),
    ("exp_42", "123", 544213474231947086, 947086, 31),
    ("exp_42", "00123", 13812144263782114, 782114, 63),
    ("exp_42", "123.0", 72559950170722555, 722555, 70),
    ("exp_42", "", 44666011835313273, 313273, 35),
    # The shared file prints this unit as "1", which it already has above; its number is " 1"'s.
    ("exp_42", " 1", 120139178814692988, 692988, 14),
    ("exp_42", "user_0000001", 307105356668744951, 744951, 68),
    ("exp_42", "User_0000001", 783607799834147764, 147764, 34),
    ("exp_42", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", 494656215547928869, 928869, 47),
    ("exp_42", "\u6f22\u5b57", 455157525587744925, 744925, 87),
    ("exp_42", "\u00e9", 68003437707677690, 677690, 7),
    ("exp_42", "e\u0301", 1039198063382937239, 937239, 82),
    ("exp_42", "\U0001f600", 702171402463991264, 991264, 63),
    ("exp_42", "o'brien", 108334813050488726, 488726, 50),
    ("layer.ranker", "123", 869734058451169440, 169440, 51),
    ("layer.ui", "123", 79969417697279071, 279071, 97),
    ("holdout.2024q1", "123", 3470980068664110, 664110, 68),
    ("exp_42", "a:b", 1071828372351135281, 135281, 51),
    ("exp_42", "x" * 60, 1081593227675363857, 363857, 75),
]

SQL = """
with hashed as (
    select
        ordinal,
        cast('0x' || substr(md5($salt || ':' || cast(id as varchar)), 1, 15) as bigint) as h
    from (select unnest($ids) as id, generate_subscripts($ids, 1) as ordinal)
)
select h, h % 1000000, (h // 1000000) % 4096 from hashed order by ordinal
"""
SALTS = st.from_regex(r"[A-Za-z0-9_.-]+", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def in_duckdb(salt: str, ids: list[str] | list[int]) -> list[tuple[int, int, int]]:
    return duckdb.execute(SQL, {"salt": salt, "ids": ids}).fetchall()


@pytest.mark.parametrize(("salt", "unit", "h", "place", "sub100"), VECTORS)
def test_vectors(salt: str, unit: str, h: int, place: int, sub100: int) -> None:
    assert (md5_60(salt, unit), compute_slot(h), compute_sub_bucket(h, 100)) == (h, place, sub100)
    assert in_duckdb(salt, [unit])[0][:2] == (h, place)


@pytest.mark.whole
@settings(max_examples=60, deadline=None)
@given(SALTS, st.lists(TEXTS, min_size=1))
def test_python_and_sql_agree_on_text(salt: str, units: list[str]) -> None:
    got = Assignment(salt, {"a": 1}).assign_many(units)
    assert list(zip(got.h, got.slot, got.sub_bucket, strict=True)) == in_duckdb(salt, units)


@pytest.mark.whole
@settings(max_examples=20, deadline=None)
@given(SALTS, st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_python_and_sql_agree_on_integers(salt: str, units: list[int]) -> None:
    got = Assignment(salt, {"a": 1}).assign_many(np.array(units, dtype=np.int64))
    assert list(zip(got.h, got.slot, got.sub_bucket, strict=True)) == in_duckdb(salt, units)


def test_python_and_sql_agree_on_blanks_and_quotes() -> None:
    units = ["", " ", "  a", "a  ", "\t", "a\nb", "o'brien", '"', "a:b", "ünïcode 漢字 😀"]
    got = Assignment("exp-1.2_x", {"a": 1}).assign_many(units)
    assert got.h.tolist() == [row[0] for row in in_duckdb("exp-1.2_x", units)]


UNITS = {
    "sequential": [str(i) for i in range(60_000)],
    "padded": [f"user_{i:07d}" for i in range(60_000)],
}


@pytest.mark.parametrize("kind", UNITS)
def test_slots_are_uniform_and_sub_buckets_are_independent_of_them(kind: str) -> None:
    got = Assignment("uniform", {"a": 1}).assign_many(UNITS[kind])
    slots = np.bincount(got.slot // (SLOTS // 100), minlength=100)
    subs = np.bincount(got.sub_bucket, minlength=4096)
    cells = pd.crosstab(got.slot // (SLOTS // 10), got.sub_bucket // 256)
    assert stats.chisquare(slots).pvalue > 0.001
    assert stats.chisquare(subs).pvalue > 0.001
    assert cells.shape == (10, 16)
    assert stats.chi2_contingency(cells).pvalue > 0.001


def test_salts_deal_independently() -> None:
    one, two = (
        Assignment(salt, {"a": 0.5, "b": 0.5}).assign_many(UNITS["padded"]).variant
        for salt in ("layer.1", "layer.2")
    )
    assert stats.chi2_contingency(pd.crosstab(one, two)).pvalue > 0.001


@given(st.lists(st.floats(0, 1e6).filter(lambda w: w == 0 or w > 100), min_size=1, max_size=20))
def test_ranges_cover_every_slot_once(weights: list[float]) -> None:
    if not any(weights):
        return
    ranges = Assignment("s", {str(i): w for i, w in enumerate(weights)}).ranges
    assert ranges[0].start == 0
    assert ranges[-1].stop == SLOTS
    assert all(one.stop == two.start for one, two in pairwise(ranges))
    whole = sum(map(Fraction, weights))
    for owned, weight in zip(ranges, weights, strict=True):
        assert abs(owned.stop - owned.start - Fraction(weight) / whole * SLOTS) <= 1.001


@pytest.mark.parametrize(
    ("weights", "stops"),
    [
        ([0.5, 0.5], [500_000, SLOTS]),
        ([1, 1, 1], [333_333, 666_667, SLOTS]),
        ([0.1] * 10, [100_000 * i for i in range(1, 11)]),
        ([90, 10], [900_000, SLOTS]),
        ([0, 1, 0, 1, 0], [0, 500_000, 500_000, SLOTS, SLOTS]),
    ],
)
def test_ranges_of_n_weights(weights: list[float], stops: list[int]) -> None:
    split = Assignment("s", {f"v{i}": w for i, w in enumerate(weights)})
    assert [owned.stop for owned in split.ranges] == stops


def test_edges_of_ranges_and_empty_ones() -> None:
    split = Assignment("s", {"none": 0, "a": 1, "gone": 0, "b": 1, "last": 0})
    places = {0: "a", 499_999: "a", 500_000: "b", 999_999: "b"}
    assert {place: split._find_range(place).label for place in places} == places
    got = split.assign_many(range(20_000))
    assert set(got.variant) == {"a", "b"}
    assert ((got.slot < 500_000) == (got.variant == "a")).all()


AT_THE_EDGES = {"862794": 0, "711627": 499_999, "1262924": 500_000, "1433311": 999_999}
"""Ids whose slot, with salt `s`, is the first or the last of a variant's range."""


def test_the_units_at_the_edges_of_a_range_are_its_own() -> None:
    split = Assignment("s", {"a": 1, "none": 0, "b": 1})
    expected = ["a", "a", "b", "b"]
    assert [split.assign(unit).slot for unit in AT_THE_EDGES] == list(AT_THE_EDGES.values())
    assert [split.assign(unit).variant for unit in AT_THE_EDGES] == expected
    assert split.assign_many(AT_THE_EDGES).variant.tolist() == expected
    assert [split.explain(unit).variant for unit in AT_THE_EDGES] == expected


def test_the_queries_put_the_units_at_the_edges_where_the_function_does() -> None:
    units = list(AT_THE_EDGES)
    found = abeval.define(
        name="edges",
        unit="user_id",
        control="a",
        variants={"a": {}, "none": {"weight": 0}, "b": {}},
        assignment={"salt": "s"},
        metrics=[{"name": "ctr"}],
        logs={"impressions": {}},
    ).analyze(logs={"impressions": pd.DataFrame({"user_id": units, "click": [1, 1, 0, 0]})})
    assert {v.name: v.units for v in found.experiment.variants} == {"a": 2, "none": 0, "b": 2}
    assert [(row.control, row.treatment) for row in found.scorecard if row.variant == "b"] == [
        (1.0, 0.0)
    ]


def test_one_and_many_agree() -> None:
    split = Assignment("exp", {"a": 0.2, "b": 0.3, "c": 0.5}, sub_buckets=128)
    units = ["u1", 2, np.int64(3), "漢"]
    rows = split.assign_many(units).itertuples(index=False, name=None)
    assert list(rows) == [tuple(split.assign(unit)) for unit in units]
    assert split.assign_many([]).empty


def test_explain_says_every_step() -> None:
    why = Assignment("exp_42", {"control": 0.5, "treatment": 0.5}).explain("123")
    assert why.digest.startswith("78d6f457d938f4e")
    assert int(why.digest[:15], 16) == why.h == 544213474231947086
    assert (why.slot, why.variant, why.sub_bucket) == (947086, "treatment", 2999)
    assert why.range == ("treatment", 500_000, SLOTS)
    for part in ("exp_42", "947086", "[500,000, 1,000,000)", "treatment", "2999"):
        assert part in str(why)


@pytest.mark.parametrize("unit", [123.0, np.float64(1.5), np.float32(2)])
def test_float_ids_are_refused(unit: object) -> None:
    with pytest.raises(LogError, match=r"is a float\n.*123 and 123\.0 hash to different"):
        Assignment("s", {"a": 1}).assign(unit)


@pytest.mark.parametrize("unit", [None, float("nan"), pd.NA, pd.NaT])
def test_null_ids_are_refused(unit: object) -> None:
    with pytest.raises(LogError, match="null"):
        Assignment("s", {"a": 1}).assign_many(["fine", unit])


@pytest.mark.parametrize("unit", [True, np.True_, b"bytes", ("a",)])
def test_other_types_are_refused(unit: object) -> None:
    with pytest.raises(LogError, match="is of type"):
        format_unit_id(unit)


@pytest.mark.parametrize("salt", ["", "a:b", "a b", "é", "exp\n"])
def test_bad_salts(salt: str) -> None:
    with pytest.raises(ExperimentError, match="salt"):
        Assignment(salt, {"a": 1})


@pytest.mark.parametrize(
    "weights", [{}, {"a": 0}, {"a": -1, "b": 2}, {"a": float("nan")}, {"a": float("inf")}]
)
def test_bad_weights(weights: dict[str, float]) -> None:
    with pytest.raises(ExperimentError, match="weight"):
        Assignment("s", weights)


def test_a_weight_too_small_for_a_slot() -> None:
    with pytest.raises(ExperimentError, match="'b' is less than one slot"):
        Assignment("s", {"a": 1, "b": 1e-9})


def test_one_sub_bucket_is_enough_and_none_is_too_few() -> None:
    one = Assignment("s", {"a": 1}, sub_buckets=1)
    assert {*one.assign_many(range(100)).sub_bucket} == {0}
    with pytest.raises(ExperimentError, match="sub_buckets is 0"):
        Assignment("s", {"a": 1}, sub_buckets=0)


def test_the_order_of_the_weights_is_part_of_an_assignment() -> None:
    one, other = Assignment("s", {"a": 1, "b": 1}), Assignment("s", {"b": 1, "a": 1})
    assert one.assign("1").variant != other.assign("1").variant
    assert one != other


def test_frozen_and_equal_by_value() -> None:
    weights = {"a": 1.0}
    split = Assignment("s", weights)
    weights["b"] = 1.0
    assert split == Assignment("s", {"a": 1.0})
    assert hash(split) == hash(Assignment("s", {"a": 1.0}))
    with pytest.raises(AttributeError):
        split.salt = "t"  # type: ignore[misc]
