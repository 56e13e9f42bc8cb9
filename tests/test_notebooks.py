"""Notebooks show what they compute today; the one on Spark needs pyspark and Java."""

import base64
import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest

from benchmarks.notebooks import FIGURE, FOLDER, PICTURE, executed

MISSING = find_spec("pyspark") is None or shutil.which("java") is None
ON_SPARK = (
    pytest.mark.spark,
    pytest.mark.skipif(MISSING, reason="no pyspark, or no Java 17"),
)
NOTEBOOKS = [
    pytest.param(path, id=path.stem, marks=ON_SPARK if "spark" in path.stem else ())
    for path in sorted(FOLDER.glob("*.ipynb"))
]
pytestmark = pytest.mark.whole


def plain(part: Any) -> Any:
    """Return a part of a figure with its arrays as numbers: Plotly packs them."""
    if isinstance(part, dict):
        if "bdata" in part:
            return np.frombuffer(base64.b64decode(part["bdata"]), part["dtype"]).tolist()
        return {name: plain(value) for name, value in part.items()}
    return [plain(value) for value in part] if isinstance(part, list) else part


NUMBER = re.compile(r"(-?\d+\.\d{10,}(?:e-?\d+)?)")
"""A number in a text with all its digits, of which the last depend on the processor."""


def same(one: Any, other: Any) -> bool:
    """Compare JSON, numbers to nine digits, also those in texts."""
    if isinstance(one, str) and isinstance(other, str) and one != other:
        pairs = [NUMBER.split(one), NUMBER.split(other)]
        words, numbers = ([parts[at::2] for parts in pairs] for at in (0, 1))
        return words[0] == words[1] and same(*(list(map(float, texts)) for texts in numbers))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return one == pytest.approx(other, rel=1e-9, abs=1e-12)
    return bool(one == other)


def shown(notebook: Any) -> list[Any]:
    """Return what a notebook shows, cell by cell, without pictures."""
    cells = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop(PICTURE, None)
        cells.append((cell.source, plain(cell.get("outputs", []))))
    return cells


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("path", NOTEBOOKS)
def test_a_notebook_shows_what_it_computes(path: Path) -> None:
    kept, now = shown(nbformat.read(path, as_version=4)), shown(executed(path))
    assert any(outputs for _, outputs in kept), "run python -m benchmarks.notebooks"
    for (source, before), (_, after) in zip(kept, now, strict=True):
        assert same(before, after), f"run python -m benchmarks.notebooks: this changed:\n{source}"


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_every_figure_has_its_picture(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            assert (FIGURE in data) == (PICTURE in data)


def test_a_changed_number_is_seen() -> None:
    packed = {"bdata": base64.b64encode(np.array([1.0, 2.0]).tobytes()).decode(), "dtype": "f8"}
    assert same(plain(packed), [1.0, 2.0 + 1e-13])
    assert not same(plain(packed), [1.0, 2.001])
    assert not same({"text/plain": "+13.1%"}, {"text/plain": "+13.2%"})
