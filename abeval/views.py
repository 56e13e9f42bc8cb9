"""Hold what the rooms above offer to results: to display themselves, and to be compared.

A result knows no view. `abeval` registers here where each one lives, by name, so that nothing is
imported before it is asked for.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

VIEWS: dict[str, str] = {}
"""Name of a view → module and name of the function that makes it, joined by a colon."""


def view(name: str) -> Callable[..., Any]:
    """Return the function that makes a view."""
    module, _, function = VIEWS[name].partition(":")
    made: Callable[..., Any] = getattr(import_module(module), function)
    return made
