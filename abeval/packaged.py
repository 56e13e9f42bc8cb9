"""Read the TOML tables of the package."""

import tomllib
from pathlib import Path
from typing import Any


def load_toml_next_to(module: str, name: str) -> dict[str, Any]:
    """Load a TOML file next to a module, given as `__file__`."""
    return tomllib.loads(Path(module).with_name(name).read_text(encoding="utf-8"))
