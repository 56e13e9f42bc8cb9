"""What Python says of an argument of the wrong type: its name, never a line of abeval."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import abeval
from abeval.calls import explain_methods, explain_types
from abeval.errors import AbevalError, ExperimentError

SAMPLE = "sample_logs/experiment.toml"


@explain_types
def take(
    number: int,
    text: str = "",
    some: list[int] | None = None,
    other: "Nothing" = None,  # type: ignore[name-defined]  # noqa: F821
) -> int:
    size = other.size if other else 0  # type: ignore[unreachable]
    return len(text) + number + sum(some or ()) + size


def test_what_works_is_not_held_to_its_annotation() -> None:
    assert take(2.5, [1], [True]) == 4.5


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("x",), "number: should be a whole number (got 'x')"),
        ((1, 2), "text: should be text (got 2)"),
        (([0] * 99,), "number: should be a whole number (got list)"),
    ],
)
def test_the_argument_is_named(arguments: tuple[Any, ...], says: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        take(*arguments)
    assert str(caught.value) == says
    assert isinstance(caught.value.__cause__, TypeError)


@pytest.mark.parametrize("arguments", [((), {}), ((1,), {"more": 2}), ((1,), {"other": 3})])
def test_other_errors_stay_as_they_are(arguments: Any) -> None:
    with pytest.raises((TypeError, AttributeError)):
        take(*arguments[0], **arguments[1])


def test_methods_without_an_underscore_are_explained() -> None:
    @explain_methods
    class Half:
        def __init__(self, number: int) -> None:
            self.number = number / 2

        def plus(self, number: int) -> float:
            return self.number + number

        def _minus(self, number: int) -> float:
            return self.number - number

    for call in (lambda: Half("x"), lambda: Half(1).plus("x")):  # type: ignore[arg-type]
        with pytest.raises(ExperimentError, match="number: should be a whole number"):
            call()
    with pytest.raises(TypeError, match="unsupported operand"):
        Half(1)._minus("x")  # type: ignore[arg-type]


def loaded() -> Any:
    return abeval.load(SAMPLE)


CALLS: dict[str, Callable[[], Any]] = {
    "path": lambda: abeval.load(None),  # type: ignore[arg-type]
    "path: ": lambda: abeval.load(b"e.toml"),  # type: ignore[arg-type]
    "widths": lambda: loaded().windows(widths=3),
    "looks": lambda: loaded().windows(looks=["x"]),
    "power": lambda: loaded().power(mde=0.1, power="x"),
    "seed": lambda: loaded().aa(runs=2, seed=None),
    "others": lambda: loaded().audit(others=5),
    "others: 'x'": lambda: loaded().audit(others={"x": "e.toml"}),
    "clip": lambda: loaded().off_policy("control", to="treatment", clip=10),
    "relevance": lambda: loaded().replay(relevance=5),
    "metrics": lambda: loaded().agree(metrics=5),
    "metric": lambda: loaded().compare(["ctr"]),
    "step": lambda: loaded().analyze(step=5),
    "a str is no connection": lambda: loaded().analyze(connection="x"),
    "path:": lambda: abeval.History(None),  # type: ignore[arg-type]
    "files": lambda: abeval.read_results(None),  # type: ignore[arg-type]
    "scores": lambda: abeval.evaluate_log("log.parquet", 5),  # type: ignore[arg-type]
    "lists": lambda: abeval.interleave("ab", salt="s", request_id=1),  # type: ignore[arg-type]
    "salt": lambda: abeval.interleave({"x": [1], "y": [2]}, salt=None, request_id=1),  # type: ignore[arg-type]
    "table: None is not": lambda: abeval.analyze(None, variant="v"),
}


@pytest.mark.parametrize("says", CALLS)
def test_every_door_of_python_names_the_argument(says: str) -> None:
    with pytest.raises(AbevalError) as caught:
        CALLS[says]()
    assert str(caught.value).startswith(says)
    assert "class" not in str(caught.value)


def test_a_result_is_compared_with_a_replay_alone(tmp_path: Path) -> None:
    frame = pd.DataFrame({"variant": ["a", "b"] * 50, "spent": range(100)})
    result = abeval.analyze(frame, variant="variant", metrics=["spent"])
    with pytest.raises(ExperimentError, match="replay: should be a ReplayResult"):
        result.compare(result)  # type: ignore[arg-type]
    with pytest.raises(ExperimentError, match="path: should be text or should be a path"):
        result.report(5)  # type: ignore[arg-type]


def test_a_connection_that_was_closed_is_said() -> None:
    connection = duckdb.connect()
    connection.close()
    with pytest.raises(AbevalError, match="pass an open connection"):
        loaded().analyze(connection=connection)
