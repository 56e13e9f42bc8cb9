"""Read the lists of odd things, which are files in `data/`."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "data"


@cache
def lines(name: str) -> list[str]:
    """Return the lines of a text file; those that begin with `#` are comments."""
    rows = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return [row for row in rows if row and not row.startswith("#")]


@cache
def table(name: str) -> dict[str, Any]:
    """Return a TOML file."""
    return tomllib.loads((FOLDER / name).read_text(encoding="utf-8"))


@cache
def listed(name: str) -> Any:
    """Return a JSON file, in which `["×", 500, "x"]` is a text of 500 x."""
    return _expanded(json.loads((FOLDER / name).read_text(encoding="utf-8")))


def _expanded(value: Any) -> Any:
    if isinstance(value, list):
        if len(value) == 3 and value[0] == "×":
            return value[2] * value[1]
        return [_expanded(inner) for inner in value]
    if isinstance(value, dict):
        return {key: _expanded(inner) for key, inner in value.items()}
    return value
