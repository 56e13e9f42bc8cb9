"""Accounts of the rows of the logs: the sums of their cells, and what they add up to."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from abeval.assignment import Assignment
from abeval.engines.duckdb import DuckDBEngine
from abeval.errors import LogError
from abeval.experiment.load import parse_experiment
from abeval.experiment.model import Experiment
from abeval.logs.accounting import check_some_left, count_other_variants, other_variants
from abeval.logs.checks import USED
from abeval.logs.prepare import prepare
from abeval.logs.run import Run
from tests.logs.small import analyze, small_log
from tests.relations import Row, answer, relation


def test_impressions_are_summed_over_the_cells_of_a_reason_and_a_phase() -> None:
    cells = relation(
        "set_aside, in_period, c_1",
        (None, True, 30),
        (None, True, 12),
        (None, False, 5),
        ("null_unit", True, 2),
    )
    assert answer("log/impression_accounting", logged_cells=cells).as_set() == {
        (None, True, 42),
        (None, False, 5),
        ("null_unit", True, 2),
    }


def experiment(**entries: Any) -> Experiment:
    variants = {"control": "a", "variants": {"a": {}, "b": {}}}
    base = {"name": "e", "unit": "user_id", **variants, "logs": {"impressions": {}}}
    return parse_experiment({**base, **entries})


NAMES = [f"arm {number}" for number in range(12)]
"""Of other variants: the first has the fewest impressions."""


def test_of_other_variants_the_ten_largest_and_other_spellings_are_counted() -> None:
    engine = DuckDBEngine()
    cells: list[Row] = [
        (name, 100 + 10 * number, "not_compared") for number, name in enumerate(NAMES)
    ]
    cells += [("B ", 1, "not_compared"), ("arm 11", 5, "not_compared"), ("a", 900, None)]
    engine.table("logged_cells", relation("variant, c_1, set_aside", *cells))
    engine.table(
        "unit_day", relation("unit_id, c_1, in_period", (1, 4, True), (1, 7, False), (2, 9, True))
    )
    engine.table(
        "candidates",
        relation("unit_id, variant, set_aside", (1, "arm 2", "no_variant"), (2, "a", None)),
    )
    accounts = pd.DataFrame({"reason": [USED, "not_compared"]})
    counts = count_other_variants(experiment(), accounts, engine)
    ten = {name: 100 + 10 * number for number, name in enumerate(NAMES)} | {"arm 11": 215}
    del ten["arm 0"], ten["arm 1"]
    ten["arm 2"] += 4
    assert other_variants({**counts, "units": 3}) == {**ten, "B ": 1}
    assert list(other_variants(counts)) == [*reversed(NAMES[2:]), "B "]
    assert count_other_variants(experiment(), accounts[accounts.reason == USED], engine) == {}
    engine.close()


def test_nothing_is_left_only_if_no_unit_has_anything() -> None:
    engine = DuckDBEngine()
    period = {"start": "2030-01-01", "end": "2030-01-08"}
    run = Run(experiment(period=period), engine, {"impressions": small_log()})
    prepared = prepare(run, [])
    with pytest.raises(LogError, match=r"nothing is left to analyse: all 240 .*outside_period 240"):
        check_some_left(run.experiment, prepared, engine)
    engine.close()


def test_units_in_another_variant_than_the_rule_gives_are_counted() -> None:
    log, rule = small_log(), Assignment("small", {"a": 1, "b": 1})
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
