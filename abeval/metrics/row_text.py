"""Row-level SQL whose form is so plain that it is read without a parser.

abeval's own terms and the names of columns are such texts. All others are parsed by
`expressions.py`, whose parser takes longer to load than a small log takes to read.
"""

import re
from collections.abc import Callable
from functools import lru_cache

_WORDS = "and|case|coalesce|else|end|is|not|null|then|when"
"""The words of plain texts."""

_RESERVED = re.compile(
    "alter|any|as|between|connect_by_root|create|cross|current_catalog|current_date|"
    "current_time|current_timestamp|current_user|distinct|drop|except|false|fetch|for|force|from|"
    "glob|grant|having|if|ilike|inner|insert|install|intersect|into|join|lateral|like|localtime|"
    "localtimestamp|map|notnull|on|only|or|outer|partitioned_by|positional|qualify|regexp|"
    "returning|revoke|rlike|rollback|select|session_user|summarize|tablesample|true|uncache|union|"
    "using|where|with|xor"
)
"""Words that alone are no names of columns."""

_NAME = rf"(?!(?:{_WORDS})\b)[a-z_][a-z0-9_]*"
_VALUE = rf"(?:{_NAME}|[0-9]+|coalesce\({_NAME}, [0-9]+\))"
_CONDITION = rf"{_NAME} (?:(?:=|>=) [0-9]+|is (?:not )?null)"
_PLAIN = re.compile(
    rf"{_VALUE}|"
    rf"case when {_CONDITION}(?: and {_CONDITION})* then {_VALUE}(?: else {_VALUE})? end"
)
_COLUMN = re.compile(rf"\b{_NAME}\b")

_CHOOSING = re.compile(
    r'(?:\s|"(?:click|dwell_ms|score_\w*)"|[=(),]|[<>](?!>)|'
    rf"\b(?:click|dwell_ms|score_\w*|or|\d+|{_WORDS})\b)*",
    re.IGNORECASE,
)


def is_plain(text: str) -> bool:
    """Whether a text is a name, a whole number, or a plain `case` or `coalesce` of them.

    Example:
        >>> is_plain("case when click = 1 then dwell_ms end"), is_plain("sum(click)")
        (True, False)
    """
    is_whole = _PLAIN.fullmatch(text) is not None
    return is_whole and not any(map(_RESERVED.fullmatch, _COLUMN.findall(text)))


def renamed(text: str, name: Callable[[str], str]) -> str:
    """A plain text with other SQL in place of its columns.

    Example:
        >>> renamed("coalesce(dwell_ms, 0)", str.upper)
        'coalesce(DWELL_MS, 0)'
    """
    return _COLUMN.sub(lambda column: name(column[0]), text)


def expression_problem(text: str) -> str | None:
    """Why `text` is not a row-level scalar expression, or None where it is one.

    Example:
        >>> expression_problem("sum(click)")
        "'sum(click)' holds an aggregate (abeval sums over the rows itself)"
    """
    if is_plain(text):
        return None
    from abeval.metrics import expressions

    return expressions.expression_problem(text)


@lru_cache(maxsize=4096)
def columns_of(text: str) -> tuple[str, ...]:
    """The columns that an expression reads, each once, in order; lower-case, as SQL ignores case.

    Raises:
        ExperimentError: It is not one expression, or has a part that is not allowed.

    Example:
        >>> columns_of("price * Click")
        ('price', 'click')
    """
    if is_plain(text):
        return tuple(dict.fromkeys(_COLUMN.findall(text)))
    from abeval.metrics import expressions

    return tuple(expressions.columns_of(expressions.parse_expression(text)))


def never_fails(text: str) -> bool:
    """Whether an expression over the views' columns surely raises no error; it may be null.

    This is certain if it only compares and chooses among clicks, dwell, scores and numbers.

    Example:
        >>> never_fails("case when click = 1 then coalesce(dwell_ms, 0) else 0 end")
        True
        >>> never_fails("cast(category as int)"), never_fails("dwell_ms * 1000000000")
        (False, False)
    """
    return _CHOOSING.fullmatch(text) is not None
