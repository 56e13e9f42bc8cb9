"""Telling a caller how far long work is: the name of each step as it begins."""

from collections.abc import Callable

Step = Callable[[str], None]


def silent(_: str) -> None:
    """Tell nobody.

    Example:
        >>> silent("requests")
    """
