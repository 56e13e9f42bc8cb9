"""Units by their ids: what is drawn for them, and which rows of their table are joined."""

from __future__ import annotations

from contextlib import closing

import pandas as pd
import pytest

from abeval.assignment import compute_sub_bucket, md5_60
from abeval.engines.duckdb import DuckDBEngine
from abeval.errors import LogError
from abeval.experiment.load import parse_experiment
from abeval.logs import units
from abeval.logs.prepare import prepare
from abeval.logs.run import Run
from abeval.logs.units import assign_sub_buckets
from tests.logs.small import analyze, small_log
from tests.relations import answer, relation


def test_a_pass_over_a_table_of_units_draws_what_their_ids_draw() -> None:
    variants = {"control": "a", "variants": {"a": {}, "b": {}}}
    logs, metrics = {"units": {}}, [{"name": "spent"}]
    experiment = parse_experiment(
        {"name": "e", "unit": "user_id", **variants, "logs": logs, "metrics": metrics}
    )
    users = [f"u-{number}" for number in range(40)]
    arms = ["a", "b", "b", "c"] * 10
    frame = pd.DataFrame({"user_id": users, "variant": arms, "spent": 1})
    analysed = [user for user, arm in zip(users, arms, strict=True) if arm != "c"]
    with closing(DuckDBEngine()) as engine:
        prepared = prepare(Run(experiment, engine, {"units": frame}), [], units_read=False)
        hashes = prepared.assignment.units.hash
        assert prepared.cells.sub_bucket is not None
        drawn = assign_sub_buckets(engine, experiment, hashes, prepared.cells).tolist()
        assert drawn == assign_sub_buckets(engine, experiment, hashes).tolist()
    assert sorted(drawn) == sorted(compute_sub_bucket(md5_60("e", user)) for user in analysed)


def test_a_row_of_the_table_counts_if_its_unit_is_analysed_and_has_no_other() -> None:
    rows = answer(
        "3_rows/described_rows",
        unit_log=relation(
            "logged_id, copies, s_, u_0, v_0, v_1",
            ("five", 3, "", 0, 0, 15),
            ("six", 1, "", 0, 0, 16),
            ("seven", 1, "", 0, 0, 17),
            ("eight", 1, "", 0, 0, 18),
            ("eight", 1, "", 0, 0, 19),
            (None, 1, "", 0, 0, 20),
            (None, 1, "", 0, 0, 21),
        ),
        unit_names=relation("unit_id, logged_id", (5, "five"), (8, "eight")),
    ).as_set()
    assert rows == {
        (5, 3, None, "", 0, 0, 15),
        (None, 1, "not_in_experiment", "", 0, 0, 16),
        (None, 1, "not_in_experiment", "", 0, 0, 17),
        (8, 1, "repeated_unit", "", 0, 0, 18),
        (8, 1, "repeated_unit", "", 0, 0, 19),
        (None, 1, "null_unit", "", 0, 0, 20),
        (None, 1, "null_unit", "", 0, 0, 21),
    }


def test_copies_of_rows_of_the_table_are_counted_apart_from_the_rows() -> None:
    rows = relation("copies, set_aside", (4, None), (3, None), (1, "null_unit"))
    assert answer("audit/unit_accounting", described_rows=rows).as_set() == {
        (None, 2, 5),
        ("null_unit", 1, 0),
    }


def test_a_segment_of_more_values_than_are_compared_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(units, "MAX_SEGMENT_VALUES", 12)
    log, said = small_log(), r"segments.id: \d+ values, but at most 12 are compared\n  hint: group"
    with pytest.raises(LogError, match=said):
        analyze(log, segments={"id": "request_id"})
    assert analyze(log, segments={"kind": "category"}).segments


def test_a_segment_of_the_exposures_has_as_few_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "MAX_SEGMENT_VALUES", 12)
    log = small_log()
    exposures = log.drop_duplicates("user_id")[["user_id", "variant", "ts", "request_id"]]
    with pytest.raises(LogError, match=r"segments.id: \d+ values, but at most 12 are compared"):
        analyze(
            log,
            exposures=exposures,
            segments={"id": {"value": "request_id", "known": "exposure"}},
        )
