"""Load what installed packages add to abeval, by their entry points."""

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from abeval.errors import AbevalError, ExperimentError

_Added = TypeVar("_Added")


def load_entry_points(
    group: str, use: Callable[[Any], _Added], problem: str, hint: str
) -> Iterator[tuple[EntryPoint, _Added]]:
    """Load the entry points of a group; yield each with what `use` makes of it.

    In `problem` and `hint`, {name} and {value} are those of the entry point, and {error} is why it
    fails.

    Raises:
        ExperimentError: An entry point cannot be loaded, or `use` fails.
    """
    for point in entry_points(group=group):
        try:
            added = use(point.load())
        # The code of another package may fail in any way.
        except Exception as error:
            is_ours = isinstance(error, AbevalError)
            reason = str(error) if is_ours else f"{type(error).__name__}: {error}"
            texts = {"name": point.name, "value": point.value, "error": reason}
            raise ExperimentError(problem.format(**texts), hint.format(**texts)) from error
        yield point, added
