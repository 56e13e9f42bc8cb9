"""Every file of `queries/`: one SELECT, portable, that reads what its header names and runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from itertools import takewhile

import duckdb
import pandas as pd
import pytest
import sqlglot
from sqlglot import exp
from sqlglot.tokens import TokenType

from abeval.aggregates.collect import collect, collect_prepared
from abeval.engines.duckdb import DuckDBEngine
from abeval.engines.sql import Engine, query, query_names, quote
from abeval.errors import QueryError
from abeval.experiment.load import parse_experiment
from abeval.experiment.metrics import list_available_metrics, list_scorecard_metrics
from abeval.logs.run import Run
from tests.logs.small import PERIOD, small_log

Types = Mapping[str, str]


_PRINTED = {f"2_units/{name}" for name in ("shown", "exposed_units", "totals", "row_totals")}
"""What `abeval tools sql` alone writes, of relations that it makes."""

ANALYSIS = [
    name
    for name in query_names()
    if re.match(r"\d_|audit/", name) is not None and name not in _PRINTED
]
"""The queries of an analysis; those of other folders have relations of their own."""


class Recorder(DuckDBEngine):
    """An engine that remembers the columns of every relation that was ever made on it."""

    def __init__(self, relations: dict[str, Types]) -> None:
        super().__init__()
        self.relations = relations

    # Steps of one query are relations here too, as they are on Spark.
    write_steps = Engine.write_steps

    def view(self, name: str, sql: str) -> None:
        super().view(name, sql)
        self.relations[name] = self.columns(name)

    def table(self, name: str, sql: str) -> None:
        super().table(name, sql)
        self.relations[name] = self.columns(name)


@pytest.fixture(scope="module")
def relations() -> dict[str, Types]:
    """Columns and types of every relation that queries read, from analyses that use them all."""
    log = small_log()
    # One list lacks its third position.
    shown = log.drop(columns=["click", "dwell"], index=[2])
    frames: dict[str, object] = {
        "impressions": pd.concat([shown, shown.head(3)]),
        "clicks": log[log.click == 1][["request_id", "item_id", "position", "ts", "dwell"]],
        "items": pd.DataFrame({"item_id": range(12), "category": "x"}),
        "exposures": pd.DataFrame(
            {"user_id": range(24), "ts": log.ts.min(), "variant": "a", "plan": "x"}
        ),
        "units": pd.DataFrame({"user_id": range(24), "tier": "x"}),
        "orders": pd.DataFrame(
            {"user_id": range(24), "ts": log.ts.max(), "order_id": range(24), "status": "paid"}
        ),
    }
    metrics = [{"name": m} for m in list_available_metrics(_experiment({}))]
    metrics.append({"name": "capped", "value": "position", "cap": 0.99})
    metrics += [{"name": "returned", "retention": 1}, {"name": "bought", "log": "orders"}]
    metrics.append({"name": "funnel", "funnel": [{"log": "clicks"}, {"log": "orders"}]})
    found: dict[str, Types] = {}
    engine = Recorder(found)
    turns = {"switchback": {"cluster": "city", "slot": "12h", "schedule": "coin"}}
    in_turn = _experiment({"design": turns, "metrics": [{"name": "ctr"}], "period": PERIOD})
    cities = {"impressions": log.assign(city=log.variant)}
    collect(Run(in_turn, engine, cities), list_scorecard_metrics(in_turn))
    engine.close()
    engine = Recorder(found)
    by_visit = _experiment({"unit": "session_id", "metrics": [{"name": "ctr"}]})
    visits = {"impressions": log.assign(session_id=log.request_id)}
    collect(Run(by_visit, engine, visits), list_scorecard_metrics(by_visit))
    engine.close()
    for cleaning in ({}, {"duplicate_key": ["request_id", "item_id"]}):
        entries = {
            "logs": {
                **{name: {} for name in frames if name != "orders"},
                "events": {"orders": {}},
            },
            "cleaning": cleaning,
            "segments": {"kind": "category", "plan": {"value": "plan", "known": "exposure"}},
            "cuts": {"place": "position"},
            "metrics": metrics,
            "period": PERIOD,
            "pre_period": {"start": "2024-02-28", "end": "2024-03-01"},
            "assignment": {"salt": "s", "traffic": 0.9},
        }
        experiment = _experiment(entries)
        chosen = list_scorecard_metrics(experiment)
        engine = Recorder(found)
        collect(Run(experiment, engine, frames), chosen)
        engine.close()
    engine = Recorder(found)
    by_time = log[log.click == 1][["user_id", "item_id", "ts", "dwell"]]
    run = Run(experiment, engine, {**frames, "clicks": by_time})
    collect_prepared(run, chosen, by_day=True).logs.rows.catalogue.select_day(1, 0)
    engine.close()
    return found


def _experiment(entries: dict) -> object:
    base = {
        "name": "queries",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "logs": {"impressions": {}},
    }
    return parse_experiment({**base, **entries})


def header(name: str) -> dict[str, str]:
    """The comment at the top: what follows `grain:` and `reads:`, brackets to their end."""
    comment = "\n".join(
        line.removeprefix("-- ")
        for line in takewhile(lambda line: line.startswith("--"), query(name).splitlines())
    )
    reads = re.search(r"^reads: ((?:[^()\n]|\([^()]*\))*)", comment, re.MULTILINE)
    return {"grain": comment.splitlines()[0], "reads": reads[1] if reads else ""}


def named_relations(name: str) -> set[str]:
    reads = re.sub(r"\([^()]*\)", "", header(name)["reads"])
    return {part.strip() for part in reads.split(",")}


@cache
def parsed(name: str) -> exp.Expression:
    trees = sqlglot.parse(query(name), dialect="duckdb")
    assert len(trees) == 1
    return trees[0]


def read_relations(tree: exp.Expression) -> set[str]:
    own = {cte.alias for cte in tree.find_all(exp.CTE)}
    return {table.name for table in tree.find_all(exp.Table)} - own


def test_there_are_queries() -> None:
    assert len(query_names()) > 30
    with pytest.raises(QueryError, match="no query is called"):
        query("4_metrics/nothing")


class TestEveryQuery:
    def test_is_one_select(self) -> None:
        for name in query_names():
            tree = parsed(name)
            assert isinstance(tree, exp.Query), name
            starred = [select for select in tree.find_all(exp.Select) if select.is_star]
            assert not starred or "columns(" in query(name), name

    def test_has_no_gap_to_fill(self) -> None:
        for name in query_names():
            assert not list(parsed(name).find_all(exp.Placeholder, exp.Parameter)), name
            assert not re.search(r"\{|\}|%s|\$\d", query(name)), name

    def test_is_written_in_lower_case(self) -> None:
        for name in query_names():
            tokens = sqlglot.tokenize(query(name), dialect="duckdb")
            words = [
                query(name)[t.start : t.end + 1] for t in tokens if t.token_type != TokenType.STRING
            ]
            assert [word for word in words if word != word.lower()] == [], name

    def test_says_its_grain_and_what_it_reads(self) -> None:
        for name in query_names():
            assert query(name).startswith("-- grain: one row"), name
            assert named_relations(name) == read_relations(parsed(name)), name


@pytest.mark.whole
@pytest.mark.parametrize("name", ANALYSIS)
def test_runs_as_it_stands(name: str, relations: Mapping[str, Types]) -> None:
    """On nothing but empty tables of the relations that its header names."""
    with duckdb.connect() as connection:
        for relation in sorted(named_relations(name)):
            columns = ", ".join(f"{quote(c)} {t}" for c, t in relations[relation].items())
            connection.execute(f"create table {quote(relation)} ({columns})")
        given = [row[0] for row in connection.execute(f"describe {query(name)}").fetchall()]
        rows = connection.execute(query(name)).fetchall()
    assert len(set(given)) == len(given)
    assert [column for column in given if not re.fullmatch(r"\w+", column)] == []
    # A summary of nothing is one row of nothing.
    assert rows == [] or (len(rows) == 1 and not any(rows[0]))
