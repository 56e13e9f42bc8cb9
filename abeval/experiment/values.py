"""Types of the entries of an experiment file: names, texts, times.

Used by the other modules of this room; `problems.py` says each pattern in words.
"""

import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, StringConstraints

from abeval.metrics.definition import SPAN

Text = Annotated[str, StringConstraints(min_length=1, max_length=100_000)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
SALT = r"^[A-Za-z0-9_.-]+$"
WORD = r"^[A-Za-z][A-Za-z0-9_]*$"
SIZE = r"^\d+(\.\d+)?\s*(KB|MB|GB|TB|KiB|MiB|GiB|TiB)$"
PATTERNS: Mapping[str, str] = {
    SALT: "should contain only letters, digits, `_`, `.` and `-`",
    WORD: "should begin with a letter and contain only letters, digits and `_`",
    SIZE: 'should be a size such as "4GB"',
    SPAN: 'should be a time such as "7 days", "24 hours" or "30 minutes"',
}
"""Each pattern in words."""

Salt = Annotated[str, StringConstraints(pattern=SALT)]
Word = Annotated[str, StringConstraints(pattern=WORD)]
TimeUnit = Literal["s", "ms", "us", "ns"]


def _local(value: object) -> object:
    """Refuse numbers and other text, which pydantic would read as seconds since 1970."""
    if isinstance(value, int | float) or (
        isinstance(value, str) and not re.match(r"\d{4}-\d{2}-\d{2}", value)
    ):
        raise ValueError(f"should be a date such as 2026-09-14 (got {value!r})")
    return value


def _without_offset(value: date) -> date:
    if isinstance(value, datetime) and value.tzinfo is not None:
        raise ValueError(f"has an offset ({value}): write the local time in `timezone` without it")
    return value


Moment = Annotated[datetime | date, BeforeValidator(_local), AfterValidator(_without_offset)]


def moment(value: date | datetime) -> datetime:
    """A date as the local time at which it begins."""
    if isinstance(value, datetime):
        return value
    return datetime(value.year, value.month, value.day)
