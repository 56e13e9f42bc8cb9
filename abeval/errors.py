"""Define errors that say what is wrong, where, and how to correct it."""

import errno
import re
import traceback
from pathlib import Path
from typing import NamedTuple

# From `://` on: to look for the letters before it would take the square of a long word.
_ADDRESS = re.compile(r"(?<=[A-Za-z0-9+.-])://[^\s'\"`]+")
# A password may hold a slash, where something before it is its user.
_USER = re.compile(r"(?<=://)[^/?@]*@|(?<=://)[^/?@:]*:[^@]*@")
_PARAMETER = re.compile(r"([?&;][^=&;?]*=)[^&;]*")


def mask_secrets(text: str) -> str:
    """Mask user, password, token and parameters of addresses in a text.

    Every error is masked, and what results and printed SQL say of paths.

    Example:
        >>> mask_secrets("s3://key:secret@bucket/a.parquet?X-Amz-Signature=f00&part=1 is empty")
        's3://***@bucket/a.parquet?X-Amz-Signature=***&part=*** is empty'
        >>> mask_secrets("sc://host:15002/;token=abc;user_id=ann")
        'sc://host:15002/;token=***;user_id=***'
    """
    return _ADDRESS.sub(_mask, text)


def _mask(address: re.Match[str]) -> str:
    # Behind the last @ is no user, and each search would run to the end.
    users, at, tail = address[0].rpartition("@")
    return _PARAMETER.sub(r"\1***", _USER.sub("***@", users + at) + tail)


# Nobody reads a word or a line that is longer, which a value of a log or an option may be.
_LONG_WORD, _LONG_LINE = re.compile(r"(\S{200})\S{800,}"), re.compile(r"(?m)^(.{2000}).{2000,}$")


def _clean_message(text: str) -> str:
    """Mask the secrets of a message, and cut very long words and lines.

    Example:
        >>> len(_clean_message(f"no metric is called {'x' * 1_000_000}"))
        221
    """
    return _LONG_LINE.sub(r"\1…", _LONG_WORD.sub(r"\1…", mask_secrets(text)))


# What pydantic and Typer say of a value, and how it is said here.
_VALIDATOR_TEXTS = (
    (r"Input is not a valid path.*|Input should be an instance of Path", "should be a path"),
    (r"be a dictionary or an instance of (\w+)", r"be a \1"),
    (r"\b(Input|String|Value|List) should", "should"),
    (r"be a valid integer.*|be an integer.*", "be a whole number"),
    (r"be a valid number.*", "be a number"),
    (r"be a valid (tuple|list|set)|be an instance of Sequence", "be a list"),
    (r"'str' instances are not allowed as a Sequence.*", "should be a list"),
    (r"be a valid string", "be text"),
    (r"be a (valid )?(dictionary|mapping|object).*", "be a table"),
    (r" after validation", ""),
    (r"^Field required", "is missing"),
    (r"\bValue error, ", ""),
)


def translate_message(text: str) -> str:
    """Translate the message of a validator into plain words.

    Example:
        >>> message = "Input should be a valid integer, unable to parse string as an integer"
        >>> translate_message(message)
        'should be a whole number'
    """
    for pattern, replacement in _VALIDATOR_TEXTS:
        text = re.sub(pattern, replacement, text)
    return text


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
        what, hint = _clean_message(what), None if hint is None else _clean_message(hint)
        super().__init__(what if hint is None else f"{what}\n  hint: {hint}")
        self.what = what
        self.hint = hint


class ExperimentError(AbevalError):
    """The experiment file is wrong, or does not allow what the user wants."""


class LogError(AbevalError):
    """A log is missing, unreadable, or not what the experiment file says it is."""


class QueryError(AbevalError):
    """A query is unknown, or an engine could not run it."""


INPUT, FAULT = 2, 1
"""Exit codes: a mistake in the input; a fault of abeval, or of the machine that it runs on."""
_NAMES = frozenset(
    (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG)
)
"""Errors of the system that a wrong file name causes."""

_REFUSED = "check the names and permissions of files, and the space on the disks, stdout's too"
_FAILED = "please report this line, the command and what it prints with --debug"

_HOME = Path(__file__).parent


class Ending(NamedTuple):
    """The exit code and the printable message of an error."""

    code: int
    message: str


def explain_error(error: Exception) -> Ending:
    """Find the exit code and the message for an error."""
    hint = ""
    match error:
        case AbevalError():
            code, what = INPUT, str(error)
        case OSError():
            where = f" ({error.filename})" if error.filename else ""
            what = f"the system refused: {error.strerror or error}{where}"
            code, hint = INPUT if error.errno in _NAMES else FAULT, _REFUSED
        case MemoryError():
            what = f"memory ran out{f': {error}' if str(error) else ''}"
            code, hint = FAULT, "analyse fewer rows, or raise [engine] memory_limit"
        case _:
            where = _locate_error(error)
            what = f"abeval failed, which it should not: {type(error).__name__}: {where}"
            code, hint = FAULT, _FAILED
    text = _clean_message(f"{what}\n  hint: {hint}" if hint else what)
    return Ending(code, replace_unprintable(text))


def replace_unprintable(text: str) -> str:
    """Replace characters that could hide text, reverse it, or control a terminal.

    Example:
        >>> replace_unprintable("a\u202eb") == "a\N{REPLACEMENT CHARACTER}b"
        True
    """
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _locate_error(error: Exception) -> str:
    """Write the text of an error and the line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    package_frames = [frame for frame in frames if _HOME in Path(frame.filename).parents]
    # The last line of our own: a report about a library's line would help nobody.
    last_frame = (package_frames or frames)[-1]
    file = Path(last_frame.filename).relative_to(_HOME) if package_frames else last_frame.filename
    return f"{' '.join(str(error).split())[:300]} ({file}, line {last_frame.lineno})"
