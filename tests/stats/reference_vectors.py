"""The numbers of independent implementations that the statistics are held to."""

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import settings
from numpy.typing import NDArray

quick = settings(max_examples=40, deadline=None)


class Vector(NamedTuple):
    inputs: dict[str, Any]
    expected: dict[str, Any]
    tol: float


@cache
def _file() -> dict[str, Any]:
    return json.loads((Path(__file__).parent / "vectors" / "statistics.json").read_text())


def vector(vector_id: str) -> Vector:
    found = next(v for v in _file()["vectors"] if v["id"] == vector_id)
    return Vector(found["inputs"], found["expected"], found["tol"])


def small(column: str) -> NDArray[Any]:
    return np.array(_file()["DATA"]["small"][column])
