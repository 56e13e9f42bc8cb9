"""Read the tables of words and limits that lie beside modules of the package."""

import tomllib
from pathlib import Path
from typing import Any


def table_beside(module: str, name: str) -> dict[str, Any]:
    """Return a TOML file beside a module, which is named by its `__file__`."""
    return tomllib.loads(Path(module).with_name(name).read_text(encoding="utf-8"))
