"""Define errors that say what is wrong, where, and how to correct it."""

import re

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"`]+")
# A password may hold a slash, where something before it is its user.
_USER = re.compile(r"(?<=://)[^/?@]*@|(?<=://)[^/?@:]*:[^@]*@")
_PARAMETER = re.compile(r"([?&;][^=&;?]*=)[^&;]*")


def masked(text: str) -> str:
    """Mask user, password, token and parameters of the addresses in a text.

    Every error is masked, and what results and printed SQL say of paths.

    Example:
        >>> masked("s3://key:secret@bucket/a.parquet?X-Amz-Signature=f00&part=1 is empty")
        's3://***@bucket/a.parquet?X-Amz-Signature=***&part=*** is empty'
        >>> masked("sc://host:15002/;token=abc;user_id=ann")
        'sc://host:15002/;token=***;user_id=***'
    """
    return _ADDRESS.sub(lambda url: _PARAMETER.sub(r"\1***", _USER.sub("***@", url[0])), text)


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
        what, hint = masked(what), None if hint is None else masked(hint)
        super().__init__(what if hint is None else f"{what}\n  hint: {hint}")
        self.what = what
        self.hint = hint


class ExperimentError(AbevalError):
    """The experiment file is wrong, or does not allow what the user wants."""


class LogError(AbevalError):
    """A log is missing, unreadable, or not what the experiment file says it is."""


class QueryError(AbevalError):
    """A query is unknown, or an engine could not run it."""
