"""Progress of long work: a caller's function gets the name of each step as it begins.

`progress.py` is such a function for the command line; each `Run` (`logs/run.py`) carries one.
"""

from collections.abc import Callable

Step = Callable[[str], None]


def silent(_: str) -> None:
    """Report no progress.

    Example:
        >>> silent("requests")
    """
