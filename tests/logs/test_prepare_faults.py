"""Which expression of the file is blamed where a query of the logs fails."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from abeval.engines.duckdb import DuckDBEngine
from abeval.errors import ExperimentError, QueryError
from abeval.experiment.load import parse_experiment
from abeval.experiment.metrics import list_scorecard_metrics
from abeval.logs.mapping import map_columns
from abeval.logs.prepare import find_faulty_expression
from abeval.logs.run import Run
from abeval.logs.shape import build_schema
from tests.logs.small import analyze, small_log

SOUND = [{"name": "one", "value": "position"}, {"name": "two", "value": "position * 2"}]


@pytest.mark.parametrize(
    ("metric", "remedy"),
    [
        ({"name": "bad", "value": "lower(position)"}, "check the types of its columns"),
        ({"name": "bad", "value": "9223372036854775807 + 1"}, "sums must stay below 9.2e18"),
        ({"name": "bad", "value": "position * 1e13"}, "sums must stay below 9.2e18"),
        ({"name": "bad", "value": "cast(category as double)"}, "try_cast"),
        ({"name": "bad", "value": "position // (position - 1)"}, "nullif"),
    ],
)
def test_of_several_metrics_the_one_that_fails_is_named(
    metric: dict[str, str], remedy: str
) -> None:
    with pytest.raises(ExperimentError) as error:
        analyze(small_log(), metrics=[*SOUND, metric])
    assert str(error.value).startswith(f"metric 'bad': {metric['value']!r} cannot be computed: ")
    assert "could not run a query" not in str(error.value)
    assert remedy in str(error.value)


def test_the_metric_of_a_log_with_nothing_else_is_named() -> None:
    log = small_log()[["variant", "click", "category"]].rename(columns={"category": "kind"})
    own = [{"name": "bad", "value": "click + cast(kind as double)"}]
    with pytest.raises(ExperimentError, match=r"metric 'bad': .* cannot be computed"):
        analyze(log, unit="row", metrics=own)


@pytest.mark.parametrize(
    ("entries", "where"),
    [
        ({"segments": {"kind": "category", "bad": "cast(category as int)"}}, "segments.bad"),
        ({"cuts": {"kind": "category", "bad": "cast(category as int)"}}, "cuts.bad"),
    ],
)
def test_of_several_segments_or_cuts_the_one_that_fails_is_named(
    entries: dict[str, Any], where: str
) -> None:
    with pytest.raises(ExperimentError, match=f"{where}: .* cannot be computed"):
        analyze(small_log(), metrics=SOUND, **entries)


def blamed(error: QueryError, seen: str) -> str:
    """Of a log whose metric `bad` cannot be computed, where `seen` is this relation."""
    variants = {"control": "a", "variants": {"a": {}, "b": {}}}
    metrics = [{"name": "bad", "value": "lower(category)"}]
    logs: dict[str, Any] = {"impressions": {}}
    raw = {"name": "e", "unit": "user_id", **variants, "logs": logs, "metrics": metrics}
    experiment = parse_experiment(raw)
    engine = DuckDBEngine()
    engine.add_frame("raw", pd.DataFrame({"user_id": [1], "variant": ["a"], "category": ["x"]}))
    types = engine.columns("raw")
    columns = map_columns("impressions", experiment.logs.rows, types, "user_id")
    chosen = list_scorecard_metrics(experiment)
    shape = build_schema(experiment, chosen, {"impressions": columns})
    if seen:
        engine.view("seen", seen)
    found = find_faulty_expression(Run(experiment, engine), chosen, shape, error)
    engine.close()
    return str(found)


def test_what_is_no_fault_of_an_expression_is_said_as_it_is() -> None:
    plain, hinted = QueryError("it broke"), QueryError("it is full", "use less")
    assert "metric 'bad'" in blamed(plain, "select 1 as unit_id")
    assert blamed(hinted, "select 1 as unit_id") == str(hinted)
    # The log itself cannot be read.
    assert blamed(plain, "") == str(plain)
