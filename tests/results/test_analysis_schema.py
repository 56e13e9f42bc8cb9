"""The JSON Schema of a result: every result is valid by it, and a broken one is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from abeval.cli.main import app
from abeval.results.analysis import build_schema
from tests import sample
from tests.report.pages import RESULTS
from tests.worlds.pages import WORLDS


def close(schema: Any) -> Any:
    """Refuse fields that a schema does not name: a reader would not know them."""
    if isinstance(schema, list):
        return [close(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: close(part) for key, part in schema.items()}
    return {**closed, "additionalProperties": False} if "properties" in schema else closed


VALIDATOR = Draft202012Validator(close(build_schema()))


def list_errors(text: str) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(json.loads(text))]


def test_the_command_prints_a_valid_schema() -> None:
    done = CliRunner().invoke(app, ["tools", "schema", "result"])
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    Draft202012Validator.check_schema(found)
    assert found["title"].startswith("abeval analyze")
    assert {"scorecard", "verdicts", "trust"} <= set(found["required"])


@pytest.mark.parametrize("name", RESULTS)
def test_results_of_every_kind_are_valid(name: str) -> None:
    assert list_errors(RESULTS[name]().to_json()) == []


def test_the_sample_is_valid() -> None:
    assert list_errors(sample.analysis().to_json()) == []


@pytest.mark.first_cases(3)
@pytest.mark.whole
@pytest.mark.parametrize("world", WORLDS)
def test_each_world_is_valid(world: str) -> None:
    analysis = WORLDS[world]().first().analysis
    assert analysis is not None
    assert list_errors(analysis.to_json()) == []


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"schema_version": "0"}, "'1' was expected"),
        ({"scorecard": None}, "None is not of type 'array'"),
        ({"unheard": 1}, "'unheard' was unexpected"),
    ],
)
def test_another_version_type_or_field_is_invalid(change: dict[str, Any], error: str) -> None:
    changed = json.loads(sample.analysis().to_json()) | change
    (found,) = list_errors(json.dumps(changed))
    assert error in found
