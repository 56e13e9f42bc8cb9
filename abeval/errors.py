"""One small tree of errors, each saying what is wrong, where, and how to mend it."""


class AbevalError(Exception):
    """Something the person who made the input can mend.

    Args:
        what: What is wrong and where, in one sentence.
        hint: How to mend it.

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
    """The experiment file, or what was asked of it, is not right."""


class LogError(AbevalError):
    """A log is missing, unreadable, or not what the experiment file says it is."""


class QueryError(AbevalError):
    """A query is unknown, or an engine could not run it."""
