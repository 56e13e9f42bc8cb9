"""Name what displays or compares a result: `abeval` registers it here, nothing is imported yet."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

VIEWS: dict[str, str] = {}
"""Name of a view → module and name of the function that makes it, joined by a colon."""


def view(name: str) -> Callable[..., Any]:
    """Return the function that makes a view, by its name or as `module:function`."""
    module, _, function = VIEWS.get(name, name).partition(":")
    made: Callable[..., Any] = getattr(import_module(module), function)
    return made
