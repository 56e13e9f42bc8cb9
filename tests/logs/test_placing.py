"""Each unit gets its variant, or a reason why it is not analysed, from a few cells of a log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abeval.assignment import Assignment
from abeval.errors import LogError
from abeval.logs import placing
from abeval.logs.cells import BEFORE, IN_PERIOD, NO_TIME, OUTSIDE, read_cells, write_hashed_cells
from abeval.logs.placing import REASONS
from abeval.logs.unit_arrays import NO_FIRST, NONE
from tests.logs.cells import Exposed, Shown, SmallLog, Where, small_log
from tests.logs.small import analyze
from tests.logs.small import small_log as frame_of_log


def first_variant(*rows: tuple[str | None, int | None], before: str = "") -> str | None:
    """The first variant of a unit that a log shows in these, and before the period in another."""
    shown = [Shown("u", variant, time) for variant, time in rows]
    if before:
        shown.append(Shown("u", before, 1, phase=BEFORE))
    with small_log(shown) as log:
        return log.seen()["u"].first


class TestFirstVariant:
    def test_is_that_of_the_first_time(self) -> None:
        assert first_variant(("b", 10), ("a", 11)) == "b"

    def test_is_unknown_where_the_first_times_are_equal(self) -> None:
        assert first_variant(("b", 10), ("a", 10)) is None

    def test_is_unknown_where_a_time_is_missing(self) -> None:
        assert first_variant(("b", 10), ("a", None)) is None
        assert first_variant(("b", None), ("a", None)) is None
        assert first_variant(("b", 10), ("b", None), ("a", 20)) == "b"

    def test_is_unknown_where_the_first_row_names_none(self) -> None:
        assert first_variant(("b", 10), (None, 10), ("a", 20)) is None

    def test_does_not_follow_from_what_was_before_the_period(self) -> None:
        assert first_variant(("b", 10), ("a", 12), before="a") == "b"

    def test_is_asked_only_of_units_in_several_variants(self) -> None:
        assert first_variant(("a", 10)) is None


SEEN = [
    *(Shown("u1", "b", 10), Shown("u1", "a", 11), Shown("u2", "a", 20), Shown("u2", "a", 15)),
    *(Shown("u3", "b", 30), Shown("u4", None, 40), Shown("u6", "b", 60, phase=BEFORE)),
]


def test_every_unit_with_an_impression_of_the_period_may_be_analysed() -> None:
    with small_log(SEEN) as log:
        assert log.seen() == {
            "u1": Where(10, "a", "b", "b"),
            "u2": Where(15, "a", "a", None),
            "u3": Where(30, "b", "b", None),
            "u4": Where(40, None, None, None),
        }


def test_impressions_that_do_not_count_show_nothing() -> None:
    shown = [
        *(Shown("u", "a", 10), Shown("u", "b", 5, phase=NO_TIME)),
        *(Shown("u", "b", 5, phase=OUTSIDE), Shown("u", "c", 5), Shown("u", None, 5)),
        *(Shown("u", "b", 5, is_exposed=False), Shown("v", None, 5), Shown("w", "c", 5)),
    ]
    with small_log(shown, only=True) as log:
        assert log.seen() == {"u": Where(10, "a", "a", None)}
        reasons = {kind.set_aside for kind in log.cells.kinds}
    assert reasons == {
        *(None, "null_time", "outside_period", "not_compared", "null_variant", "not_exposed")
    }


def test_exposures_name_the_variants_or_else_the_impressions_do() -> None:
    exposures = [
        Exposed("u1", None, 1),
        *(Exposed("u2", "a", 2), Exposed("u2", "b", 3)),
        Exposed("u4", None, 4),
        Exposed("u5", "b", 5),
        *(Exposed("u7", "c", None), Exposed("u7", "a", None)),
    ]
    with small_log(SEEN, exposures) as log:
        assert log.exposed() == {
            "u1": Where(1, "a", "b", "b"),
            "u2": Where(2, "a", "b", "a"),
            "u4": Where(4, None, None, None),
            "u5": Where(5, "b", "b", "b"),
            "u7": Where(None, "a", "c", None),
        }


class Fate(NamedTuple):
    """What became of a unit that might be analysed."""

    variant: str | None
    set_aside: str | None
    crosses: bool
    tied: bool


def fates(log: SmallLog) -> dict[str, Fate]:
    placed = log.placed()
    logged, names, reasons = placed.logged, [*placed.logged.names, None], [*REASONS, None]
    columns = (placed.variant, placed.set_aside, logged.crosses, placed.tied)
    rows = zip(log.units(logged.hashes), *(c.tolist() for c in columns), strict=True)
    return {
        unit: Fate(names[variant], reasons[why], crosses, tied)
        for unit, variant, why, crosses, tied in rows
    }


SALTED: dict[str, Any] = {"assignment": {"salt": "s"}}
AS_ASSIGNED: dict[str, Any] = {"cleaning": {"crossover": "as_assigned"}, **SALTED}
HALVES = Assignment("s", {"a": 1, "b": 1})


def slots_of(monkeypatch: pytest.MonkeyPatch, slots: dict[str, int]) -> None:
    """Draw these slots for the units, and sub-buckets above them."""

    def drawn(engine: Any, _: object, hashes: np.ndarray) -> np.ndarray:
        named = dict(engine.rows("select unit_hash, logged_id from logged_names"))
        return np.array([7 * placing.SLOTS + slots[named[one]] for one in hashes.tolist()])

    monkeypatch.setattr(placing.units, "draw_numbers", drawn)


def test_a_variant_owns_its_slots_but_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a hash breaks ties; a rule is held to `assign` by the tests beside this one."""
    slots = {"u1": 0, "u2": 899_999, "u3": 900_000, "u4": 999_999}
    slots_of(monkeypatch, slots)
    shown = [Shown(unit, variant, 10) for unit in slots for variant in "ab"]
    with small_log(shown, variants={"a": {"weight": 0.9}, "b": {"weight": 0.1}}) as log:
        assert {unit: fate.variant for unit, fate in fates(log).items()} == {
            **{"u1": "a", "u2": "a", "u3": "b", "u4": "b"}
        }


def test_a_unit_is_where_its_own_hash_puts_it_whatever_the_log_shows() -> None:
    units = [f"ü-{number}" for number in range(200)]
    shown = [Shown(unit, "ab"[n % 2], 10) for n, unit in enumerate(units)]
    shown += [Shown(unit, "b", 11) for unit in units[:40]]
    with small_log(shown, **AS_ASSIGNED) as log:
        assert fates(log) == {
            unit: Fate(HALVES.assign(unit).variant, None, n < 40 and n % 2 == 0, False)
            for n, unit in enumerate(units)
        }


def test_a_rule_places_a_unit_whatever_the_log_shows() -> None:
    """Of units that reach the split, the rule keeps some out of the experiment."""
    rule: dict[str, Any] = {"assignment": {"salt": "s", "traffic": 0.5}}
    rule["cleaning"] = {"crossover": "as_assigned"}
    units = [f"u{number}" for number in range(60)]
    with small_log([Shown(unit, "b", 10) for unit in units], **rule) as log:
        given_by = log.run.experiment.assignment_rule
        assert given_by is not None
        expected = dict(zip(units, given_by.variants(units), strict=True))
        assert {*expected.values()} == {"a", "b", None}
        assert {unit: fate.variant for unit, fate in fates(log).items()} == expected
        (outside,) = {f.set_aside for f in fates(log).values() if f.variant is None}
        assert outside in ("no_variant", "not_in_experiment")


TIED = [
    *(Shown("one", "a", 10), Shown("first", "b", 10), Shown("first", "a", 11)),
    *(Shown("tie", "a", 10), Shown("tie", "b", 10), Shown("none", None, 10)),
    *(Shown("other", "c", 10), Shown("other", "d", 11), Shown("last", "c", 11)),
    Shown("last", "b", 12),
]


def test_the_log_places_a_unit_in_the_variant_seen_first() -> None:
    with small_log(TIED) as log:
        assert fates(log) == {
            "one": Fate("a", None, False, False),
            "first": Fate("b", None, True, False),
            "tie": Fate(None, "tied_crossover", True, True),
            "none": Fate(None, "no_variant", False, False),
            "other": Fate("c", "no_variant", True, False),
            "last": Fate("c", "no_variant", True, False),
        }


def test_only_a_tie_is_broken_by_weight_or_by_the_rule() -> None:
    weights = {"a": {"weight": 0.9}, "b": {"weight": 0.1}}
    uneven = Assignment("e", {"a": 0.9, "b": 0.1})
    ties = [f"t{number}" for number in range(40)]
    shown = [*TIED, *(Shown(unit, variant, 10) for unit in ties for variant in "ab")]
    for entries, split in (({"variants": weights}, uneven), (SALTED, HALVES)):
        with small_log(shown, **entries) as log:
            of_units = fates(log)
        broken = {unit: of_units.pop(unit) for unit in [*ties, "tie"]}
        assert broken == {
            unit: Fate(split.assign(unit).variant, None, True, True) for unit in broken
        }
        assert len({fate.variant for fate in broken.values()}) == 2
        assert {unit: fate.variant for unit, fate in of_units.items()} == {
            **{"one": "a", "first": "b", "none": None, "other": "c", "last": "c"}
        }


def test_a_unit_is_set_aside_for_one_reason() -> None:
    with small_log(TIED, cleaning={"crossover": "exclude"}) as log:
        assert {unit: fate.set_aside for unit, fate in fates(log).items()} == {
            "one": None,
            "none": "no_variant",
            **dict.fromkeys(["first", "tie", "other", "last"], "crossover"),
        }


def test_what_is_known_of_an_analysed_unit() -> None:
    shown = [
        *(Shown("old", "b", 10), Shown("old", "a", 20), Shown("old", "a", 1, phase=BEFORE)),
        *(Shown("new", "a", 25), Shown("new", "a", None), Shown("out", "c", 3)),
        *(Shown("untimed", "a", None), Shown("old", "b", 0, phase=OUTSIDE)),
        *(Shown("new", "a", 1, phase=NO_TIME), Shown("past", "a", 1, phase=BEFORE)),
    ]
    with small_log(shown) as log:
        placed = log.placed()
        units = placed.units
        columns = (units.variant, units.first_ms, units.is_new, units.crosses)
        rows = zip(log.units(units.hash), *(c.tolist() for c in columns), strict=True)
        assert {row[0]: row[1:] for row in rows} == {
            "old": (1, 10, 0, True),
            "new": (0, 25, 1, False),
            "untimed": (0, NO_FIRST, 1, False),
        }
        assert sorted(units.hash.tolist()) == units.hash.tolist()
        for unit in ("old", "new", "untimed"):
            of_cells = log.place(unit, log.cells.hashes)
            assert placed.unit_index[of_cells] == log.place(unit, units.hash)
        for unit in ("out", "past"):
            assert placed.unit_index[log.place(unit, log.cells.hashes)] == NONE


VARIANTS = st.sampled_from(["a", "b", "c", None])
TIMES = st.one_of(st.none(), st.integers(10, 14))
UNITS = st.sampled_from([f"u{number}" for number in range(8)])
CELLS = st.tuples(
    *(UNITS, VARIANTS, TIMES, st.sampled_from([BEFORE, IN_PERIOD, IN_PERIOD, IN_PERIOD])),
    st.sampled_from([True, True, True, False]),
).map(lambda one: Shown(*one[:3], phase=one[3], is_exposed=one[4]))
EXPOSURES = st.tuples(UNITS, st.sampled_from(["a", "b", "c"]), TIMES).map(lambda e: Exposed(*e))
PLANS: Sequence[dict[str, Any]] = (
    {},
    {"cleaning": {"crossover": "exclude"}},
    {"variants": {"a": {"weight": 0.3}, "b": {"weight": 0.7}}},
    SALTED,
    AS_ASSIGNED,
)


def first_of(rows: Sequence[tuple[str | None, int | None]]) -> str | None:
    """The variant of the first of (variant, time), None where it is not known."""
    earliest = min((time for _, time in rows if time is not None), default=None)
    firsts = {variant for variant, time in rows if time is None or time == earliest}
    return firsts.pop() if len(firsts) == 1 else None


def expected_fates(
    shown: Sequence[Shown], exposures: Sequence[Exposed] | None, entries: dict[str, Any]
) -> dict[str, Fate]:
    """The same, unit by unit."""
    weights = {name: one.get("weight", 1) for name, one in entries.get("variants", {}).items()}
    split = Assignment("s" if "assignment" in entries else "e", weights or {"a": 1, "b": 1})
    crossover = entries.get("cleaning", {}).get("crossover", "first")
    counted = [one for one in shown if one.phase == IN_PERIOD and one.is_exposed]
    units = {one.unit for one in (counted if exposures is None else exposures)}
    result = {}
    for unit in units:
        rows = [(one.variant, one.first_ms) for one in counted if one.unit == unit]
        if exposures is not None:
            rows = [(one.variant, one.time_ms) for one in exposures if one.unit == unit]
        names = {variant for variant, _ in rows if variant is not None}
        crosses, first = len(names) > 1, first_of(rows)
        hashed, tied = split.assign(unit).variant, False
        if crossover == "as_assigned":
            variant: str | None = hashed
        elif crosses and first is None:
            tied = True
            variant = hashed if weights or "assignment" in entries else None
        else:
            variant = first if crosses else next(iter(names), None)
        why = None
        if crosses and crossover == "exclude":
            why = "crossover"
        elif tied and variant is None:
            why = "tied_crossover"
        elif variant not in ("a", "b"):
            why = "no_variant"
        result[str(unit)] = Fate(variant, why, crosses, tied)
    return result


@pytest.mark.whole
@settings(max_examples=40, deadline=None)
@given(
    st.lists(CELLS, min_size=1, max_size=24),
    st.one_of(st.none(), st.lists(EXPOSURES, min_size=1, max_size=16)),
    st.sampled_from(PLANS),
)
def test_units_are_placed_as_one_would_place_them_by_hand(
    shown: list[Shown], exposures: list[Exposed] | None, entries: dict[str, Any]
) -> None:
    with small_log(shown, exposures, **entries) as log:
        assert fates(log) == expected_fates(shown, exposures, entries)


@pytest.mark.parametrize("twin", ["hash(unit_id)", "hash(unit_id, 1)"])
def test_units_of_equal_hashes_are_never_taken_for_one(
    monkeypatch: pytest.MonkeyPatch, twin: str
) -> None:
    """Two units of one hash are refused; by itself the second hash may be equal."""
    shown = [Shown("u", "a", 10), Shown("v", "b", 10)]
    with small_log(shown) as log:
        engine, hash64 = log.run.engine, log.run.engine.hash64
        same = ["unit_id"] if twin == "hash(unit_id)" else ["unit_id", "1"]
        monkeypatch.setattr(engine, "hash64", lambda v: "7" if list(v) == same else hash64(v))
        engine.view("logged_cells", write_hashed_cells(engine, log.shape, "dated_sums"))
        if same == ["unit_id"]:
            with pytest.raises(LogError, match="two units have the same hash"):
                read_cells(engine, log.shape)
        else:
            assert len(read_cells(engine, log.shape).hashes) == 2


def test_kinds_of_equal_hashes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with small_log([Shown("u", "a", 10), Shown("v", "b", 10)]) as log:
        engine, hash64 = log.run.engine, log.run.engine.hash64
        monkeypatch.setattr(engine, "hash64", lambda v: "7" if v[0] == "phase" else hash64(v))
        engine.view("logged_cells", write_hashed_cells(engine, log.shape, "dated_sums"))
        with pytest.raises(LogError, match="two kinds of impressions have the same hash"):
            read_cells(engine, log.shape)


def test_the_variants_that_nobody_names_are_shown_with_the_most_impressions_first() -> None:
    arms = [variant for arm in range(12) for variant in [f"arm {arm:02}"] * (arm + 1)]
    other = frame_of_log(len(arms)).assign(variant=arms)
    log = pd.concat([frame_of_log(), other], ignore_index=True)
    result = analyze(log, cleaning={"duplicates": "unchecked"})
    (note,) = (note for note in result.notes if "not compared" in note)
    assert re.findall(r"arm \d\d", note)[:3] == ["arm 11", "arm 10", "arm 09"]
