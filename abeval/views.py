"""Register the functions that display a result, by name, without importing them."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

VIEWS: dict[str, str] = {}
"""Name of a view → `module:function` that makes it."""


def view(name: str) -> Callable[..., Any]:
    """Return the function of a view, by its name or as `module:function`."""
    module, _, function = VIEWS.get(name, name).partition(":")
    builder: Callable[..., Any] = getattr(import_module(module), function)
    return builder
