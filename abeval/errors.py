"""Errors that say what is wrong, where, and how to correct it.

Raised by the rooms that read files, logs and options; `cli/main.py` prints the message and exits
with 2.
"""


class AbevalError(Exception):
    """A fault of the input, which the user can correct.

    Args:
        what: What is wrong and where, in one sentence.
        hint: How to correct it.

    Example:
        >>> print(AbevalError("variant 'b' has no units", hint="check the salt"))
        variant 'b' has no units
          hint: check the salt
    """

    def __init__(self, what: str, hint: str | None = None) -> None:
        super().__init__(what if hint is None else f"{what}\n  hint: {hint}")
        self.what = what
        self.hint = hint


class ExperimentError(AbevalError):
    """The experiment file is wrong, or does not allow what the user wants."""


class LogError(AbevalError):
    """A log is missing, unreadable, or not what the experiment file says it is."""


class QueryError(AbevalError):
    """A query is unknown, or an engine could not run it."""
