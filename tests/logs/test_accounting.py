"""Accounts of the rows of the logs: the sums of their cells, and what they add up to."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from abeval.assignment import Assignment
from abeval.engines.duckdb import DuckDBEngine
from abeval.errors import LogError
from abeval.experiment.load import parse_experiment
from abeval.experiment.model import Experiment
from abeval.logs.accounting import (
    check_all_counted,
    check_some_left,
    count_expected_variants,
    count_facts,
    count_log_rows,
    count_other_variants,
)
from abeval.logs.cells import BEFORE, OUTSIDE
from abeval.logs.checks import USED, USED_BEFORE
from abeval.logs.prepare import prepare
from abeval.logs.run import Run
from tests.logs.cells import DAY, Shown, small_log
from tests.logs.small import analyze
from tests.logs.small import small_log as frame_of_log


def test_every_impression_is_used_or_set_aside_for_one_reason() -> None:
    shown = [
        *(Shown("u", "a", 10, impressions=30), Shown("u", "a", 11, city="x", impressions=12)),
        *(Shown("v", "b", 1, phase=BEFORE, impressions=5), Shown(None, "a", 1, impressions=2)),
        *(Shown("t", "a", 1, impressions=3), Shown("t", "b", 1, impressions=4)),
        *(Shown("t", "a", 1, phase=BEFORE, impressions=8), Shown("c", "c", 1, impressions=64)),
        *(Shown("c", "c", 1, phase=BEFORE, impressions=256), Shown("n", None, 1, impressions=128)),
        *(Shown("o", "a", 1, phase=OUTSIDE, impressions=7), Shown("u", "a", 1, impressions=512)),
    ]
    with small_log(shown) as log:
        prepared = log.prepared()
        rows = [row[1:] for row in count_log_rows(prepared, log.run.engine)]
        check_all_counted(prepared, count_log_rows(prepared, log.run.engine))
    assert rows == [
        *((USED, 30 + 12 + 512), (USED_BEFORE, 0)),
        *(("no_variant", 64 + 128 + 256), ("not_in_experiment", 5), ("null_unit", 2)),
        *(("outside_period", 7), ("tied_crossover", 3 + 4 + 8)),
    ]


def test_crossovers_and_ties_are_counted() -> None:
    shown = [
        *(Shown("one", "a", 1), Shown("two", "a", 1), Shown("two", "b", 2), Shown("no", None, 1)),
        *(Shown("tie", "a", 1, clicks=1), Shown("tie", "b", 1, clicks=2), Shown("d", "d", 1)),
        *(Shown("d", "e", 2), Shown("past", "a", 1, phase=BEFORE)),
    ]
    with small_log(shown) as log:
        counts = count_facts(log.prepared())
    assert {name: counts[name] for name in ("units", "crossovers", "tied", "tied_out")} == {
        **{"units": 6 - 1, "crossovers": 3, "tied": 1, "tied_out": 1}
    }
    assert counts["clicks"] == 3


def test_units_are_counted_by_first_day_and_by_logged_and_expected_variant() -> None:
    split = Assignment("s", {"a": 1, "b": 1})
    shown = [
        *(Shown("u1", "a", DAY), Shown("u1", "a", 3), Shown("u2", "b", DAY), Shown("u3", "c", 1)),
        *(Shown("u4", "a", DAY), Shown("u4", "b", 2 * DAY), Shown("u5", "a", 1)),
        *(Shown("u5", "b", 1), Shown("u6", "b", None), Shown("u7", "b", 1, phase=BEFORE)),
    ]
    with small_log(shown, assignment={"salt": "s"}) as log:
        rows = count_expected_variants(log.prepared())
    days = {"u1": ("1970-01-01", "a"), "u2": ("1970-01-02", "b"), "u4": ("1970-01-02", "a")}
    days["u6"] = (None, "b")
    expected = Counter((*row, split.assign(unit).variant) for unit, row in days.items())
    assert {row[:3]: row[3] for row in rows} == expected


def experiment(**entries: Any) -> Experiment:
    variants = {"control": "a", "variants": {"a": {}, "b": {}}}
    base = {"name": "e", "unit": "user_id", **variants, "logs": {"impressions": {}}}
    return parse_experiment({**base, **entries})


NAMES = [f"arm {number}" for number in range(12)]
"""Of other variants: the first has the fewest impressions."""


def test_of_other_variants_the_ten_largest_and_other_spellings_are_counted() -> None:
    shown = [
        Shown(f"{name} {n}", name, 1, impressions=50 + 5 * number)
        for number, name in enumerate(NAMES)
        for n in range(2)
    ]
    shown += [Shown("spelled", "B ", 1), Shown("u", "a", 1, impressions=900)]
    shown += [Shown("more", "arm 2", 1, impressions=4), Shown("none", None, 1, impressions=99)]
    ten = {name: 100 + 10 * number for number, name in enumerate(NAMES)}
    del ten["arm 0"], ten["arm 1"]
    ten["arm 2"] += 4
    for only in (True, False):
        with small_log(shown, only=only) as log:
            counts = count_other_variants(log.run.experiment, log.prepared())
        assert counts == {**ten, "B ": 1}
        assert list(counts) == [*reversed(NAMES[2:]), "B "]
    with small_log([Shown("u", "a", 1)]) as log:
        assert count_other_variants(log.run.experiment, log.prepared()) == {}


def test_nothing_is_left_only_if_no_unit_has_anything() -> None:
    engine = DuckDBEngine()
    period = {"start": "2030-01-01", "end": "2030-01-08"}
    run = Run(experiment(period=period), engine, {"impressions": frame_of_log()})
    prepared = prepare(run, [])
    with pytest.raises(LogError, match=r"nothing is left to analyse: all 240 .*outside_period 240"):
        check_some_left(run.experiment, prepared, engine)
    engine.close()


def test_units_in_another_variant_than_the_rule_gives_are_counted() -> None:
    log, rule = frame_of_log(), Assignment("small", {"a": 1, "b": 1})
    log["variant"] = [rule.assign(unit).variant for unit in log.user_id]
    units = log.user_id.nunique()
    for moved in (0, 2):
        other = log.variant.map({"a": "b", "b": "a"})
        logged = log.assign(variant=other.where(log.user_id < moved, log.variant))
        result = analyze(logged, assignment={"salt": "small"})
        check = next(check for check in result.trust if check.name == "assignment")
        assert check.message.startswith(f"{moved} of {units} units are in another variant")
    hashed = analyze(log.drop(columns="variant"), assignment={"salt": "small"})
    check = next(check for check in hashed.trust if check.name == "assignment")
    assert "the log names no variants" in check.message
