"""One scheme of every platform, as in an experiment file; odd ids; rules run in DuckDB."""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb
from pydantic import TypeAdapter

from abeval.assignment.draws import Draw, Rule
from abeval.assignment.platforms import AnyScheme, Scheme
from abeval.engines import builders
from abeval.engines.builders import write_rule_variant

SETTINGS: dict[str, dict[str, Any]] = {
    "growthbook_1": {"platform": "growthbook", "seed": "exp", "version": 1},
    "growthbook": {"platform": "growthbook", "seed": "exp", "namespace": ["ns", 0.2, 0.9]},
    "unleash": {"platform": "unleash", "group": "feature", "rollout": 70},
    "planout": {"platform": "planout", "salt": "ns.exp", "parameter": "model"},
    "planout_weighted": {
        "platform": "planout",
        "salt": "ns.exp",
        "parameter": "model",
        "weighted": True,
        "namespace": "ns",
        "segments": 10,
        "owned": [1, 3, 4, 8, 9],
    },
    "launchdarkly": {"platform": "launchdarkly", "key": "flag", "salt": "s"},
    "launchdarkly_seed": {"platform": "launchdarkly", "seed": 61},
    "posthog": {"platform": "posthog", "key": "flag", "rollout": 60},
    "statsig": {"platform": "statsig", "salt": "s", "gate": ["g", "r"], "gate_percent": 65},
    "optimizely": {"platform": "optimizely", "experiment": "1886780721", "group": "77"},
    "split": {"platform": "split", "seed": 467569525, "traffic": 80, "traffic_seed": 5},
    "split_legacy": {"platform": "split", "seed": 467569525, "algorithm": "legacy"},
    "eppo": {"platform": "eppo", "salt": "split", "traffic_salt": "traffic", "traffic": 0.5},
    "eppo_old": {"platform": "eppo", "flag": "flag", "traffic": 0.5},
    "flagsmith": {"platform": "flagsmith", "feature": "12"},
    "firebase": {"platform": "firebase", "seed": "x"},
}

WEIGHTS = {"control": 300.0, "b'): --": 500.0, "treatment": 200.0}


def scheme(name: str) -> Scheme:
    return TypeAdapter(AnyScheme).validate_python(SETTINGS[name])  # type: ignore[return-value]


def odd_ids(count: int) -> list[str]:
    odd = [
        "",
        " ",
        "  a",
        "a  ",
        "\t",
        "a\nb",
        "o'brien",
        '"',
        "a:b",
        "a.b",
        "ü",
        "漢字",
        "😀",
        "é",
        "e\u0301",
    ]
    odd += ["0", "00", "-1", "1e5", "x" * 500, "\\", "\\'", "%s", "null", "NaN"]
    return odd + [f"user_{i:07d}" if i % 2 else str(i) for i in range(count - len(odd))]


def in_duckdb(rule: Rule, units: list[str]) -> list[str | None] | None:
    """The variants of units by the rule's SQL, None where it has none."""
    sql = write_rule_variant(rule, "id")
    if sql is None:
        return None
    rows = _database().execute(
        f"select {sql} from (select unnest($ids) as id, generate_subscripts($ids, 1) as place) "
        "order by place",
        {"ids": units},
    )
    return [row[0] for row in rows.fetchall()]


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """A database with the calls that rules are written in; to open one takes longer than to ask."""
    connection = duckdb.connect()
    connection.execute("; ".join(builders.write_duckdb_macros()))
    return connection


def draw_of(settings: Scheme) -> Draw:
    """The draw that names the variant."""
    return settings.rule({"a": 1, "b": 1}).stages[-1].draw
