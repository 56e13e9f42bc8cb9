"""Progress of long work: a caller's function gets the name of each step as it begins."""

from collections.abc import Callable

Step = Callable[[str], None]


def silent(_: str) -> None:
    """Report no progress.

    Example:
        >>> silent("requests")
    """
